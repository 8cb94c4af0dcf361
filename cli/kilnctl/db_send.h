/* SPDX-License-Identifier: MIT */
#pragma once

/* Sends one tuning file to kilnd, and shows what kilnd reports: bad lines, conflicts, counts, and
 * keys that kiln cannot parse and therefore stores unchanged.
 *
 * Ownership  everything in db_sending is borrowed; the caller owns the reply
 * Threading  main thread */
#include "cli/kilnctl/admin.h"

struct db_sending {
    /* merge the file's measurements with the recorded ones, where the number of samples and the
     * spread decide; if false, replace the recorded ones */
    bool merges;
    const char *path;
    /* The file's name, from which kilnd takes kind, format, database id and backend. NULL if |url|
     * is set. */
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

/* Sends the file. Prints bad lines as they arrive ("file:line: why") on standard error, and
 * conflicts and keys that are stored unchanged ("file:line: key: why") on standard output. With
 * --json, moves them into the reply as "bad_lines", "conflicting" and "verbatim_keys". */
CLI_MUST_CHECK int db_send(const struct invocation *invocation, struct db_sending *sending,
                           struct json **ret_answer, struct kiln_error *err);
void db_send_print(const struct db_sending *sending, const struct json *answer);
/* Fails if the file had bad lines. kilnd has skipped these lines and imported the others. */
CLI_MUST_CHECK int db_send_judge(const struct db_sending *sending, const struct json *answer,
                                 struct kiln_error *err);
