/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One tuning file on its way to kilnd, and what it says of it: bad lines, keys that are kept as
 * they are, conflicts, counts.
 *
 * Ownership  everything in db_sending is borrowed; the answer is the caller's
 * Threading  main thread
 */
#include "cli/kilnctl/admin.h"

struct db_sending {
    bool merges;      /* by statistics into what is recorded; else taken over */
    const char *path; /* what messages call it */
    const char *name; /* what kilnd goes by: kind, format, database id, backend; NULL with |url| */
    const char *url;  /* instead of |fd|; NULL */
    const char *sha256;
    int fd;
    const char *database_id, *kind, *backend, *tier; /* NULL: as the name says */
    bool strict;
    bool verbose;             /* prints all keys that are kept as they are, not the first alone */
    const char *verbose_name; /* of the option that does so, for a sentence */
    uint64_t listed_keys;     /* out: of these, those that were printed */
};

/* Bad lines are printed on standard error as they come, "file:line: why"; keys that are kept as
 * they are, "file:line: key: why", and conflicts on standard output.  With --json all are in the
 * answer, as "bad_lines", "verbatim_keys" and "conflicting". */
CLI_MUST_CHECK int db_send(const struct invocation *invocation, struct db_sending *sending,
                           struct json **ret_answer, struct kiln_error *err);
/* What is printed of an answer. */
void db_send_print(const struct db_sending *sending, const struct json *answer);
/* Lines that were left out are a failure of that file, though the rest of it is in. */
CLI_MUST_CHECK int db_send_judge(const struct db_sending *sending, const struct json *answer,
                                 struct kiln_error *err);
