/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs one of kilnctl's commands in this process and captures its standard output. The test
 * defines fakes that replace libkiln's functions. */
#include "cli/kilnctl/command.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct command_run {
    struct session_options common;
    int stdout_fd;
    FILE *captured;
    char printed[65536];
    struct kiln_error err;
    bool reported, refused;
};

static inline void command_run_capture(struct command_run *r)
{
    fflush(stdout);
    r->captured = tmpfile();
    r->stdout_fd = dup(STDOUT_FILENO);
    dup2(fileno(r->captured), STDOUT_FILENO);
}

static inline void command_run_release(struct command_run *r)
{
    fflush(stdout);
    dup2(r->stdout_fd, STDOUT_FILENO);
    close(r->stdout_fd);
    rewind(r->captured);
    r->printed[fread(r->printed, 1, sizeof(r->printed) - 1, r->captured)] = '\0';
    fclose(r->captured);
}

/* |printed| receives standard output. */
static inline int command_run(struct command_run *r, int argc, const char *const *argv)
{
    size_t used = 0;
    struct option_list words = { 0 };
    const struct command *command = command_find(argv, (size_t)argc, &used);
    assert_non_null(command);
    void *options = calloc(1, command->options_size + 1);
    struct option_table tables[] = {
        { session_option_table, SESSION_OPTION_COUNT, &r->common },
        { command->options, command->option_count, options },
    };
    struct option_parser parser = { .tables = tables, .table_count = 2 };
    assert_int_equal(options_parse(&parser, argc - (int)used, argv + used, &words, &r->err), 0);
    struct invocation invocation = {
        .common = &r->common,
        .options = options,
        .words = words.words,
        .word_count = words.count,
        .reported = &r->reported,
        .refused = &r->refused,
    };
    r->refused = false;
    command_run_capture(r);
    int rc = command->run(&invocation, &r->err);
    command_run_release(r);
    options_done(tables, 2);
    option_list_done(&words);
    free(options);
    return rc;
}

#define RUN(r, ...)                                                                   \
    command_run((r), (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), \
                (const char *[]){ __VA_ARGS__ })
