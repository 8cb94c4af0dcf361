/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One tuning file on its way to kilnd, and what it says of it: bad lines, conflicts, counts.
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
};

/* Bad lines are printed on standard error as they come, "file:line: why", conflicts on standard
 * output; with --json both are in the answer as well, as "bad_lines" and "conflicting". */
CLI_MUST_CHECK int db_send(const struct invocation *invocation, const struct db_sending *sending,
                           struct json **ret_answer, struct kiln_error *err);
/* What is printed of an answer. */
void db_send_print(const struct db_sending *sending, const struct json *answer);
/* Lines that were left out are a failure of that file, though the rest of it is in. */
CLI_MUST_CHECK int db_send_judge(const struct db_sending *sending, const struct json *answer,
                                 struct kiln_error *err);
