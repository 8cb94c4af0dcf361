/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/upload_size.h"

#include "cli/kilnctl/admin.h"
#include "common/base/units.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

/* Size up to which kilnd accepts every file, so that kilnctl need not ask for the limits. */
#define ALWAYS_ACCEPTED (1u << 20)

static uint64_t size_with_log(const char *path)
{
    char log[PATH_MAX];
    struct stat seen;
    uint64_t size = stat(path, &seen) == 0 ? (uint64_t)seen.st_size : 0;
    bool is_named = (size_t)snprintf(log, sizeof(log), "%s-wal", path) < sizeof(log);
    return is_named && stat(log, &seen) == 0 ? size + (uint64_t)seen.st_size : size;
}

static int refuse_file(const char *path, uint64_t size, uint64_t limit, struct kiln_error *err)
{
    char text[UNITS_TEXT_MAX], most[UNITS_TEXT_MAX];
    return cli_fail(err, KILN_E_FULL,
                    "'%.300s' has %s: kilnd accepts at most %s ('kilnctl status': uploads)", path,
                    units_size(size, text), units_size(limit, most));
}

int upload_size_check(const struct invocation *invocation, const char *path, enum snapshot_of what,
                      struct kiln_error *err)
{
    uint64_t size = size_with_log(path);
    KILN_AUTO(json) struct json *status = NULL;
    if (size <= ALWAYS_ACCEPTED)
        return KILN_E_OK;
    int rc = admin_ask(invocation, "status", admin_no_arguments, &status, err);
    if (rc)
        return rc;
    uint64_t limit = json_get_u64(
        json_get(status, "uploads"),
        what == SNAPSHOT_CACHE ? "cache_limit_bytes" : "tuning_limit_bytes", UINT64_MAX);
    return size > limit ? refuse_file(path, size, limit, err) : KILN_E_OK;
}
