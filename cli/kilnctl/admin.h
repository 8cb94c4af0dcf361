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

extern const struct json *const admin_no_arguments;

/* Returns KILN_E_NO_MEMORY, and sends nothing, if memory ran out while |arguments| were built.
 * Returns KILN_E_CORRUPT if the reply is not an object. */
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
    int *ret_files; /* the returned descriptors; the caller closes them */
    size_t ret_files_max;
    size_t *ret_file_count;
    int timeout_ms; /* applies if --timeout is not given; 0 means no limit */
};
#define ADMIN_CALL_INIT .file = -1, .second_file = -1

/* Waits without limit unless |call| or --timeout sets a limit.  On failure no files are
 * returned. */
CLI_MUST_CHECK int admin_call(const struct invocation *invocation, const struct admin_call *call,
                              struct json **ret_reply, struct kiln_error *err);
void admin_set_text(struct json *arguments, const char *name, const char *text);
