/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Administration requests of kilnctl's commands: a tree out, a tree back.
 *
 * Ownership  the caller owns the tree that comes back, and the tree it sent
 */
#include "cli/kilnctl/call_progress.h"
#include "cli/kilnctl/command.h"

/* |request| with |arguments| (NULL: none).  A tree that is no object is KILN_E_CORRUPT. */
CLI_MUST_CHECK int admin_ask(const struct invocation *invocation, const char *request,
                             const struct json *arguments, struct json **ret_reply,
                             struct kiln_error *err);

/* The same with a time of its own: 0 is the client's. */
CLI_MUST_CHECK int admin_ask_within(const struct invocation *invocation, const char *request,
                                    const struct json *arguments, int timeout_ms,
                                    struct json **ret_reply, struct kiln_error *err);

/* A request with more to it. */
struct db_progress;
struct admin_call {
    const char *request;
    const struct json *arguments;    /* NULL: none */
    int file;                        /* goes with it; -1: none */
    int second_file;                 /* likewise */
    struct call_progress *progress;  /* NULL: not shown */
    struct db_progress *db_progress; /* instead of |progress|; NULL */
    int *ret_files;                  /* what comes back, the caller's to close */
    size_t ret_files_max;
    size_t *ret_file_count;
    int timeout_ms; /* where --timeout does not say; 0: none */
};
#define ADMIN_CALL_INIT .file = -1, .second_file = -1

/* Takes as long as it takes, unless --timeout says else.  Otherwise as admin_ask; on failure no
 * files came back. */
CLI_MUST_CHECK int admin_call(const struct invocation *invocation, const struct admin_call *call,
                              struct json **ret_reply, struct kiln_error *err);
