/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a command of kilnctl is: one file, one const entry, nothing about it elsewhere.
 *
 * Ownership  an invocation borrows everything for the length of run()
 * Threading  main thread
 */
#include "cli/session.h"
#include "common/json.h"

struct invocation {
    const struct session_options *common;
    const void *options;      /* the command's own, filled */
    const char *const *words; /* what follows the command and is no option */
    size_t word_count;
    struct kiln_client *client; /* not connected yet */
    bool *reported; /* set by a command that failed and whose JSON says so in a member "error" */
    bool *refused;  /* set where kilnd itself said KILN_E_DENIED */
};

struct command {
    const char *name;    /* "kernel ls" */
    const char *words;   /* as usage writes them: "FILE", or "" */
    const char *summary; /* one line of the list of commands */
    const char *help;    /* paragraphs of the command's own --help */
    size_t least_words, most_words;
    const struct option *options;
    size_t option_count;
    size_t options_size; /* of the struct that the options point into */
    /* Returns a KILN_E_ code with a sentence, which main prints. */
    int (*run)(const struct invocation *invocation, struct kiln_error *err);
};

extern const struct command command_status, command_stats, command_metrics, command_config,
    command_ping, command_events, command_top, command_doctor, command_report, command_toolchain_ls,
    command_device_ls, command_prefetch, command_clear, command_gc, command_why_miss,
    command_kernel_ls, command_kernel_show, command_kernel_fetch, command_kernel_import,
    command_kernel_export, command_kernel_pin, command_kernel_unpin, command_kernel_rm,
    command_pkg_install, command_pkg_ls, command_pkg_show, command_pkg_verify, command_pkg_rm,
    command_pkg_coverage, command_pkg_build, command_pkg_sign, command_pkg_keygen,
    command_db_import, command_db_export, command_db_get, command_db_promote, command_db_rm,
    command_db_diff, command_db_merge, command_db_stats, command_db_vacuum, command_db_verify,
    command_db_backup, command_miopen_overlay, command_miopen_harvest;

/* NULL after the last. */
const struct command *command_at(size_t index);
/* The command that |words| begin with and how many of them are its name; NULL: none. */
const struct command *command_find(const char *const *words, size_t count, size_t *ret_used);
void command_print_help(const struct command *command, FILE *out);
void command_print_list(FILE *out);
/* Whether a command's name has more words than |group|, and begins with it. */
bool command_is_group(const char *group);
void command_print_group(const char *group, FILE *out);
