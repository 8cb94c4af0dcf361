/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A kilnctl command: one file with one const struct that describes it completely.
 *
 * Ownership  an invocation borrows everything while run() executes
 * Threading  main thread
 */
#include "cli/session.h"
#include "common/base/json.h"

struct invocation {
    const struct session_options *common;
    const void *options;
    const char *const *words;
    size_t word_count;
    struct kiln_client *client;
    bool *reported; /* a failed command sets this if its printed JSON has the member "error" */
    bool *refused;  /* set when kilnd itself answered KILN_E_DENIED */
};

struct command {
    const char *name;
    const char *words;
    const char *summary;
    const char *help;
    size_t least_words, most_words;
    const struct option *options;
    size_t option_count;
    size_t options_size;
    /* Returns a KILN_E_ code with a message, which main prints. */
    int (*run)(const struct invocation *invocation, struct kiln_error *err);
};

extern const struct command command_status, command_stats, command_metrics, command_config,
    command_ping, command_events, command_top, command_doctor, command_report, command_exec,
    command_env, command_toolchain_ls, command_device_ls, command_prefetch, command_clear,
    command_gc, command_why_miss, command_kernel_ls, command_kernel_show, command_kernel_fetch,
    command_kernel_import, command_kernel_export, command_kernel_pin, command_kernel_unpin,
    command_kernel_promote, command_kernel_rm, command_pkg_install, command_pkg_ls,
    command_pkg_show, command_pkg_verify, command_pkg_rm, command_pkg_coverage, command_pkg_build,
    command_pkg_sign, command_pkg_keygen, command_fleet_push, command_fleet_status,
    command_fleet_gc, command_fleet_pull, command_fleet_enrol, command_fleet_revoke,
    command_fleet_compact, command_fleet_verify, command_fleet_trust, command_db_import,
    command_db_export, command_db_get, command_db_promote, command_db_rm, command_db_diff,
    command_db_merge, command_db_stats, command_db_vacuum, command_db_verify, command_db_backup,
    command_miopen_overlay, command_miopen_harvest, command_trace_ls, command_trace_show,
    command_trace_diff, command_trace_prefetch, command_trace_find, command_trace_pack,
    command_trace_push, command_trace_pull;

/* Joins the words of the argument PROBLEM with blanks.  PROBLEM may be one quoted word, or several
 * words after "--".  Returns KILN_E_INVALID if |line| is too small. */
CLI_MUST_CHECK int command_join_words(const struct invocation *invocation, char *line, size_t size,
                                      struct kiln_error *err);

/* Returns NULL after the last command. */
const struct command *command_at(size_t index);
/* Finds the command whose name is the beginning of |words|, and the number of words in that name.
 * Returns NULL if there is none. */
const struct command *command_find(const char *const *words, size_t count, size_t *ret_used);
void command_print_help(const struct command *command, FILE *out);
void command_print_list(FILE *out);
bool command_is_group(const char *group);
void command_print_group(const char *group, FILE *out);
