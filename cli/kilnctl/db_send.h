/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Sends one tuning file to kilnd and shows the reply: bad lines, keys that kiln stores unchanged
 * because it cannot parse them, conflicts and counts.
 *
 * Ownership  everything in db_sending is borrowed; the caller owns the reply
 * Threading  main thread
 */
#include "cli/kilnctl/admin.h"

struct db_sending {
    /* If false, new values replace recorded ones; if true, both are combined by statistics. */
    bool merges;
    const char *path; /* the file's name in messages */
    /* The file's name, from which kilnd takes kind, format, database id and backend; NULL with
     * |url|. */
    const char *name;
    const char *url; /* used instead of |fd|, or NULL */
    const char *sha256;
    int fd;
    const char *database_id, *kind, *backend, *tier; /* NULL if kilnd takes it from |name| */
    bool strict;
    /* Print all keys that are stored unchanged, not only the first ones. */
    bool verbose;
    const char *verbose_name; /* name of the option that sets |verbose|, for a message */
    /* Result: number of keys that are stored unchanged and were printed. */
    uint64_t listed_keys;
};

/* Prints bad lines on standard error as they arrive ("file:line: why").  Prints keys that are kept
 * unchanged ("file:line: key: why") and conflicts on standard output.  With --json the reply has
 * all of them, as "bad_lines", "verbatim_keys" and "conflicting". */
CLI_MUST_CHECK int db_send(const struct invocation *invocation, struct db_sending *sending,
                           struct json **ret_answer, struct kiln_error *err);
/* Prints the reply for people. */
void db_send_print(const struct db_sending *sending, const struct json *answer);
/* Checks the reply.  Fails if lines of the file were left out, even if the rest was imported. */
CLI_MUST_CHECK int db_send_judge(const struct db_sending *sending, const struct json *answer,
                                 struct kiln_error *err);
