/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Administration requests of kilnctl's commands: a JSON tree is sent and a JSON tree returned.
 *
 * Ownership  the caller owns both trees
 * Threading  one thread; blocks
 */
#include "cli/kilnctl/call_progress.h"
#include "cli/kilnctl/command.h"

/* Stands for the arguments of a request without arguments. */
extern const struct json *const admin_no_arguments;

/* Sends |request| with |arguments|.  Returns KILN_E_NO_MEMORY, and sends nothing, if memory ran out
 * while |arguments| were built.  Returns KILN_E_CORRUPT if the reply is not an object. */
CLI_MUST_CHECK int admin_ask(const struct invocation *invocation, const char *request,
                             const struct json *arguments, struct json **ret_reply,
                             struct kiln_error *err);

/* Like admin_ask without arguments, with the timeout |timeout_ms|; 0 means the client's timeout. */
CLI_MUST_CHECK int admin_ask_within(const struct invocation *invocation, const char *request,
                                    int timeout_ms, struct json **ret_reply,
                                    struct kiln_error *err);

struct db_progress;
/* A request with files, progress or a timeout. */
struct admin_call {
    const char *request;
    const struct json *arguments; /* admin_no_arguments if the request has none */
    /* Descriptor that is sent with the request; -1 if there is none. */
    int file;
    int second_file;                 /* a second such descriptor, or -1 */
    struct call_progress *progress;  /* shows the progress; NULL if it is not shown */
    struct db_progress *db_progress; /* used instead of |progress|, or NULL */
    int *ret_files;                  /* the returned descriptors; the caller closes them */
    size_t ret_files_max;
    size_t *ret_file_count;
    int timeout_ms; /* applies if --timeout is not given; 0 means no limit */
};
#define ADMIN_CALL_INIT .file = -1, .second_file = -1

/* Like admin_ask, but waits without limit unless |call| or --timeout sets a limit.  On failure no
 * files are returned. */
CLI_MUST_CHECK int admin_call(const struct invocation *invocation, const struct admin_call *call,
                              struct json **ret_reply, struct kiln_error *err);
/* Adds a member to a request's arguments; does nothing if |text| is NULL. */
void admin_set_text(struct json *arguments, const char *name, const char *text);
