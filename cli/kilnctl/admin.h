/* SPDX-License-Identifier: MIT */
#pragma once

/* Sends administration requests of kilnctl's commands. The arguments and the reply are JSON trees.
 *
 * Ownership  the caller owns both trees
 * Threading  one thread; blocks */
#include "cli/kilnctl/call_progress.h"
#include "cli/kilnctl/command.h"

extern const struct json *const admin_no_arguments;

/* Sends a request without files. If memory ran out while the caller built |arguments|, sends
 * nothing and returns KILN_E_NO_MEMORY. Returns KILN_E_CORRUPT if the reply is not an object. */
CLI_MUST_CHECK int admin_ask(const struct invocation *invocation, const char *request,
                             const struct json *arguments, struct json **ret_reply,
                             struct kiln_error *err);

CLI_MUST_CHECK int admin_ask_within(const struct invocation *invocation, const char *request,
                                    int timeout_ms, struct json **ret_reply,
                                    struct kiln_error *err);

struct db_progress;
struct admin_call {
    const char *request;
    const struct json *arguments;
    int file;
    int second_file;
    struct call_progress *progress;
    struct db_progress *db_progress;
    int *ret_files; /* receives the reply's descriptors, which the caller closes */
    size_t ret_files_max;
    size_t *ret_file_count;
    int timeout_ms; /* time limit if --timeout is not given; 0 means none */
};
#define ADMIN_CALL_INIT .file = -1, .second_file = -1

/* Sends the request |call|, and blocks until kilnd answers or the time limit of --timeout or |call|
 * is over. On failure, the caller receives no descriptors. */
CLI_MUST_CHECK int admin_call(const struct invocation *invocation, const struct admin_call *call,
                              struct json **ret_reply, struct kiln_error *err);
void admin_set_text(struct json *arguments, const char *name, const char *text);
