/* SPDX-License-Identifier: MIT */

/*
 * kilnctl: administration of kilnd.
 *
 *   main.c         finds the command, parses its options, reports the result
 *   command.[ch]   the table of commands, and --help
 *   <name>.c       one command each
 *   admin.[ch]     sends a JSON request, with files and progress
 *   several.[ch]   runs a command on several arguments; show.[ch] prints JSON for people
 *   snapshot.[ch], new_file.[ch], sign.[ch]        reads, writes and signs files
 *   prefetch_*.[ch], problem_file.[ch]             problems, for prefetch and pkg build
 *   db_file.[ch], db_send.[ch], db_exported.[ch]   imports and exports tuning files
 *   overlay*.[ch]  a directory for an unmodified MIOpen
 *   doctor_*.[ch]  doctor's checks: facts and verdicts
 *   top_*.[ch]     top's sample, page and screen
 *   report_*.[ch]  the report's HTML page, charts and tables
 *   trace_job.[ch], trace_entry.[ch]  reads and shows traces of jobs
 *   ../            options, tables, progress: shared with kiln-driver
 */
#include "cli/kilnctl/command.h"
#include "cli/result.h"
#include "common/base/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_LENGTH_MAX 64
#define EDITS_MAX 2

#define PING_MS 500

struct call {
    struct session_options common;
    struct option_list before;
    struct option_list words;
    const struct command *command;
    const char *group;
    size_t used;
    void *options;
    bool reported;
    bool refused;
    bool daemon_answers;
};

static int fail_group(const char *group, struct kiln_error *err)
{
    char names[768] = "";
    size_t used = 0, size = strlen(group);
    const struct command *command = NULL;
    for (size_t i = 0; (command = command_at(i)); i++) {
        if (strncmp(command->name, group, size) != 0 || command->name[size] != ' ' ||
            used >= sizeof(names))
            continue;
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s'kilnctl %s'",
                                 used ? ", " : "", command->name);
    }
    if (!used)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID, "'%s' is a group of commands: %s; each has --help", group,
                    names);
}

static void suggest_commands(const char *typed, struct suggestion *ret_near)
{
    *ret_near = (struct suggestion){ .edits = EDITS_MAX };
    char name[NAME_LENGTH_MAX + 4];
    for (size_t i = 0; command_at(i); i++) {
        size_t edits = options_distance(typed, command_at(i)->name);
        snprintf(name, sizeof(name), "'%s'", command_at(i)->name);
        if (edits < strlen(typed))
            suggestion_add(ret_near, name, edits);
    }
}

static int fail_unknown(const char *first, const char *second, struct kiln_error *err)
{
    char typed[2 * NAME_LENGTH_MAX + 2];
    struct suggestion near;
    snprintf(typed, sizeof(typed), "%.64s%s%.64s", first, second ? " " : "", second ? second : "");
    suggest_commands(typed, &near);
    if (!near.names[0])
        suggest_commands(first, &near);
    return cli_fail(err, KILN_E_INVALID, "'%s' is not a command%s%s%s; 'kilnctl --help' lists them",
                    typed, near.names[0] ? ": did you mean " : "", near.names,
                    near.names[0] ? "?" : "");
}

static int fail_no_command(const struct call *call, struct kiln_error *err)
{
    if (call->before.count == 0)
        return cli_fail(err, KILN_E_INVALID, "no command given; 'kilnctl --help' lists them");
    int rc = call->before.count == 1 || call->before.words[1][0] == '-'
                 ? fail_group(call->before.words[0], err)
                 : KILN_E_OK;
    if (rc)
        return rc;
    bool more = call->before.count > 1 && call->before.words[1][0] != '-';
    return fail_unknown(call->before.words[0], more ? call->before.words[1] : NULL, err);
}

static int check_words(const struct call *call, struct kiln_error *err)
{
    const struct command *command = call->command;
    if (call->words.count < command->least_words)
        return cli_fail(err, KILN_E_INVALID, "%s needs %s; see 'kilnctl %s --help'", command->name,
                        command->words, command->name);
    if (call->words.count > command->most_words)
        return cli_fail(err, KILN_E_INVALID, "%s takes no argument '%s'; see 'kilnctl %s --help'",
                        command->name, call->words.words[command->most_words], command->name);
    return KILN_E_OK;
}

static const char *wanted_group(struct call *call, size_t skip)
{
    const struct option_list *before = &call->before;
    const char *after = before->count == skip + 2 ? before->words[skip + 1] : "";
    bool help = strcmp(after, "--help") == 0 || strcmp(after, "-h") == 0;
    bool wanted = (help || (before->count == skip + 1 && call->common.help)) &&
                  command_is_group(before->words[skip]);
    return wanted ? before->words[skip] : NULL;
}

static int parse_common(struct call *call, int argc, const char *const *argv,
                        struct kiln_error *err)
{
    struct option_table table = { session_option_table, SESSION_OPTION_COUNT, &call->common };
    struct option_parser parser = { .tables = &table, .table_count = 1, .stop_at_word = true };
    int rc = options_parse(&parser, argc, argv, &call->before, err);
    if (rc || call->common.version)
        return rc;
    size_t skip = call->before.count > 0 && strcmp(call->before.words[0], "help") == 0;
    call->common.help |= skip > 0;
    call->command = call->before.count > skip ? command_find(call->before.words + skip,
                                                             call->before.count - skip, &call->used)
                                              : NULL;
    call->group = call->command ? NULL : wanted_group(call, skip);
    bool list = call->common.help && call->before.count == skip;
    return call->command || call->group || list ? KILN_E_OK : fail_no_command(call, err);
}

static int parse_command(struct call *call, struct kiln_error *err)
{
    const struct command *command = call->command;
    struct option_table tables[] = {
        { session_option_table, SESSION_OPTION_COUNT, &call->common },
        { command->options, command->option_count, call->options },
    };
    struct option_parser parser = { .tables = tables, .table_count = 2 };
    int argc = (int)(call->before.count - call->used);
    int rc = options_parse(&parser, argc, call->before.words + call->used, &call->words, err);
    if (rc)
        return cli_while(err, "%s", command->name);
    return call->common.help || call->common.version ? KILN_E_OK : check_words(call, err);
}

/* Finds out what KILN_E_UNAVAILABLE means: kilnd does not answer, or kilnd answers but lacks
 * something that the request needs. */
static void check_daemon(struct call *call, struct kiln_client *client)
{
    struct kiln_error unused = { 0 };
    call->daemon_answers = kiln_client_ping(client, PING_MS, NULL, &unused) == KILN_E_OK;
}

/* Adds the socket of the user's private kilnd to the error, if that file exists. libkiln starts
 * such a kilnd for jobs, but kilnctl uses it only if --socket names it. */
static void name_private_kilnd(struct kiln_error *err)
{
    char path[PATH_TEXT_MAX + sizeof("/kilnd.sock")];
    struct kiln_err unused = KILN_ERR_INIT;
    size_t used = strlen(err->text);
    if (paths_private_cache(path, &unused))
        return;
    strcat(path, "/kilnd.sock");
    if (access(path, F_OK) == 0)
        snprintf(err->text + used, sizeof(err->text) - used,
                 "; for the private kilnd of your jobs, give --socket %s", path);
}

/* Opens the client without KILN_TRACE: kernels that kilnctl fetches must not appear in the job's
 * trace. Then sets the variable again for a program that kilnctl runs. */
static int open_without_trace(struct call *call, struct kiln_client **ret_client,
                              struct kiln_error *err)
{
    const char *job = getenv("KILN_TRACE");
    KILN_AUTO(mem) char *kept = job ? strdup(job) : NULL;
    unsetenv("KILN_TRACE");
    int rc = session_open(&call->common, "kilnctl", "off", ret_client, err);
    if (kept)
        setenv("KILN_TRACE", kept, 1);
    return rc;
}

static int run_command(struct call *call, struct kiln_error *err)
{
    __attribute__((cleanup(kiln_client_auto))) struct kiln_client *client = NULL;
    int rc = open_without_trace(call, &client, err);
    if (rc)
        return rc;
    struct invocation invocation = {
        .common = &call->common,
        .options = call->options,
        .words = call->words.words,
        .word_count = call->words.count,
        .client = client,
        .reported = &call->reported,
        .refused = &call->refused,
    };
    rc = call->command->run(&invocation, err);
    if (rc == KILN_E_UNAVAILABLE)
        check_daemon(call, client);
    if (rc == KILN_E_UNAVAILABLE && !call->daemon_answers && !call->common.socket)
        name_private_kilnd(err);
    return rc;
}

static int run_call(struct call *call, int argc, const char *const *argv, struct kiln_error *err)
{
    int rc = parse_common(call, argc, argv, err);
    if (rc)
        return rc;
    if (!call->command || call->common.version) {
        if (call->common.version)
            result_version("kilnctl", call->common.json);
        else if (call->group)
            command_print_group(call->group, stdout);
        else
            command_print_list(stdout);
        return KILN_E_OK;
    }
    call->options = calloc(1, call->command->options_size + 1);
    if (!call->options)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the options of %s",
                        call->command->name);
    rc = call->common.help ? KILN_E_OK : parse_command(call, err);
    if (rc)
        return rc;
    if (call->common.help)
        command_print_help(call->command, stdout);
    else if (call->common.version)
        result_version("kilnctl", call->common.json);
    else
        rc = run_command(call, err);
    return rc;
}

static void call_done(struct call *call)
{
    if (call->options) {
        struct option_table table = { call->command->options, call->command->option_count,
                                      call->options };
        options_done(&table, 1);
    }
    free(call->options);
    option_list_done(&call->before);
    option_list_done(&call->words);
}

int main(int argc, char **argv)
{
    struct call call = { 0 };
    struct kiln_error err = { 0 };
    const char *const *words = (const char *const *)argv + 1;
    int rc = run_call(&call, argc - 1, words, &err);
    struct result result = { .program = "kilnctl",
                             .json = result_wants_json(argc - 1, words),
                             .reported = call.reported,
                             .daemon_answers = call.daemon_answers };
    call_done(&call);
    return (int)result_end(&result, rc, &err);
}
