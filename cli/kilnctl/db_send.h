/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Sends one tuning file to kilnd and shows the reply: bad lines, conflicts, counts, and keys that
 * kiln stores unchanged because it cannot parse them.
 *
 * Ownership  everything in db_sending is borrowed; the caller owns the reply
 * Threading  main thread
 */
#include "cli/kilnctl/admin.h"

struct db_sending {
    /* true: combine new and recorded values by statistics; false: replace the recorded values */
    bool merges;
    const char *path;
    /* kilnd takes kind, format, database id and backend from the file's name.  NULL if |url| is
     * set. */
    const char *name;
    const char *url;
    const char *sha256;
    int fd;
    const char *database_id, *kind, *backend, *tier; /* NULL if kilnd takes it from |name| */
    bool strict;
    bool verbose;
    const char *verbose_name;
    uint64_t listed_keys;
};

/* Prints bad lines on standard error as they arrive ("file:line: why").  Prints conflicts and keys
 * that are stored unchanged ("file:line: key: why") on standard output.  With --json the reply has
 * them as "bad_lines", "conflicting" and "verbatim_keys". */
CLI_MUST_CHECK int db_send(const struct invocation *invocation, struct db_sending *sending,
                           struct json **ret_answer, struct kiln_error *err);
void db_send_print(const struct db_sending *sending, const struct json *answer);
/* Fails if lines of the file were left out, even if the rest was imported. */
CLI_MUST_CHECK int db_send_judge(const struct db_sending *sending, const struct json *answer,
                                 struct kiln_error *err);
