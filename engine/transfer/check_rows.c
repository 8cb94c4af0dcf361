/* SPDX-License-Identifier: MIT */
#include "engine/transfer/check_rows.h"

#include "engine/miopen/kern_db.h"
#include "engine/package/package.h"

#include <string.h>

static bool on_checked(void *context, uint64_t done, uint64_t rows)
{
    transfer_report(context, "checking", done, rows);
    return true;
}

enum kiln_code check_package_rows(const char *path, const struct transfer_sink *sink,
                                  uint64_t *ret_rows, struct kiln_err *err)
{
    /* Messages should name the file without the staging directory, which is the working
     * directory. */
    if (strncmp(path, "./", 2) == 0)
        path += 2;
    const struct package_options options = { .path = path, .readers = 1 };
    struct package_report report;
    KILN_AUTO(package) struct package *package = NULL;
    enum kiln_code rc = package_open(&options, &package, err);
    if (rc == KILN_BUSY)
        return kiln_fail(err, KILN_CORRUPT, "the file was already incomplete at its source");
    if (!rc)
        rc = package_check(package, on_checked, (void *)(uintptr_t)sink, &report, err);
    if (rc)
        return rc;
    if (report.damaged > 0)
        return kiln_fail(err, KILN_CORRUPT,
                         "the package is damaged (%llu of %llu kernels): %.200s; nothing was "
                         "installed",
                         (unsigned long long)report.damaged, (unsigned long long)report.rows,
                         report.first);
    *ret_rows = report.rows;
    return KILN_OK;
}

enum kiln_code fail_damaged_cache(const char *name, const struct kiln_err *why,
                                  struct kiln_err *err)
{
    return kiln_fail(err, KILN_CORRUPT,
                     "'%.60s' is damaged, or not a cache of MIOpen: %.200s; nothing was imported: "
                     "delete the file, or save its readable rows as 'kilnctl kernel import --help' "
                     "says",
                     name, why->text);
}

enum kiln_code check_cache(const char *path, const struct transfer_sink *sink, uint64_t *ret_rows,
                           struct kiln_err *err)
{
    KILN_AUTO(kern_db) struct kern_db *db = NULL;
    struct kiln_err why = KILN_ERR_INIT;
    const char *slash = strrchr(path, '/');
    transfer_report(sink, "checking", 0, 0);
    enum kiln_code rc = kern_db_open(path, &db, &why);
    if (!rc)
        rc = kern_db_check(db, &why);
    if (!rc)
        rc = kern_db_count(db, ret_rows, &why);
    if (rc == KILN_CORRUPT)
        return fail_damaged_cache(slash ? slash + 1 : path, &why, err);
    if (rc)
        *err = why;
    return rc;
}
