/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The interface of a package format. package.c adds the common parts: several connections, and
 * treating damage as a miss.
 *
 * Ownership  package.c owns the connections that |open| returns, and closes each with |close|
 * Threading  one thread at a time for each connection
 */
#include "engine/package/package.h"

struct package_place {
    const char *path;   /* for a built-in package: its name */
    struct bytes image; /* content of a built-in package; empty for a file */
};

struct package_progress {
    bool (*report)(void *context, uint64_t done, uint64_t rows);
    void *context;
};

struct package_ops {
    const char *name;
    enum package_format format;
    uint32_t application_id, version;
    enum kiln_code (*open)(const struct package_place *place, void **ret_connection,
                           struct kiln_err *err);
    void (*close)(void *connection);
    enum kiln_code (*rows)(void *connection, uint64_t *ret_rows, struct kiln_err *err);
    /* For a damaged row, these two functions may leave |ret_damaged| false and just return an error
     * code. */
    enum kiln_code (*find_named)(void *connection, const struct kern_name *name,
                                 struct buffer *ret_raw, bool *ret_damaged, struct kiln_err *err);
    enum kiln_code (*find_key)(void *connection, const struct digest *key, struct buffer *ret_raw,
                               bool *ret_damaged, struct kiln_err *err);
    enum kiln_code (*each)(void *connection, const struct package_listing *listing,
                           struct kiln_err *err);
    /* Fills |good|, |damaged| and |first| of the report. The caller has set |rows|. */
    enum kiln_code (*check)(void *connection, const struct package_progress *progress,
                            struct package_report *report, struct kiln_err *err);
};

extern const struct package_ops package_kdb_ops, package_kiln_ops;

/* Returns NULL if |file_name| is not the name of a package. */
const struct package_ops *package_ops_of(const char *file_name);
void package_report_damage(struct package_report *report, const struct kiln_err *why);
