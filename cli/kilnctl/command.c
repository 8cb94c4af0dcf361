/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/command.h"

#include "cli/exit_status.h"

#include <string.h>

static const struct command *const commands[] = {
    &command_status,
    &command_stats,
    &command_metrics,
    &command_config,
    &command_ping,
    &command_events,
    &command_prefetch,
    &command_why_miss,
    &command_gc,
    &command_clear,
    &command_top,
    &command_doctor,
    &command_report,

    &command_exec,
    &command_env,

    &command_device_ls,

    &command_toolchain_ls,

    &command_kernel_ls,
    &command_kernel_show,
    &command_kernel_fetch,
    &command_kernel_import,
    &command_kernel_export,
    &command_kernel_pin,
    &command_kernel_promote,
    &command_kernel_unpin,
    &command_kernel_rm,

    &command_pkg_install,
    &command_pkg_ls,
    &command_pkg_show,
    &command_pkg_verify,
    &command_pkg_rm,
    &command_pkg_coverage,
    &command_pkg_build,
    &command_pkg_sign,
    &command_pkg_keygen,

    &command_fleet_status,
    &command_fleet_push,
    &command_fleet_pull,
    &command_fleet_compact,
    &command_fleet_verify,
    &command_fleet_gc,
    &command_fleet_enrol,
    &command_fleet_trust,
    &command_fleet_revoke,

    &command_db_import,
    &command_db_merge,
    &command_db_export,
    &command_db_get,
    &command_db_diff,
    &command_db_promote,
    &command_db_rm,
    &command_db_stats,
    &command_db_verify,
    &command_db_vacuum,
    &command_db_backup,

    &command_trace_ls,
    &command_trace_show,
    &command_trace_diff,
    &command_trace_prefetch,
    &command_trace_find,
    &command_trace_pack,
    &command_trace_push,
    &command_trace_pull,

    &command_miopen_overlay,
    &command_miopen_harvest,
};

const struct command *command_at(size_t index)
{
    return index < sizeof(commands) / sizeof(commands[0]) ? commands[index] : NULL;
}

static size_t count_spelling_words(const char *name, const char *const *words, size_t count)
{
    size_t used = 0;
    while (*name && used < count) {
        size_t size = strcspn(name, " ");
        if (strlen(words[used]) != size || strncmp(words[used], name, size) != 0)
            return 0;
        used++;
        name += size + (name[size] == ' ');
    }
    return *name ? 0 : used;
}

const struct command *command_find(const char *const *words, size_t count, size_t *ret_used)
{
    const struct command *command = NULL;
    for (size_t i = 0; (command = command_at(i)); i++) {
        *ret_used = count_spelling_words(command->name, words, count);
        if (*ret_used)
            return command;
    }
    return NULL;
}

int command_join_words(const struct invocation *invocation, char *line, size_t size,
                       struct kiln_error *err)
{
    size_t used = 0;
    for (size_t i = 0; i < invocation->word_count && used < size; i++)
        used +=
            (size_t)snprintf(line + used, size - used, "%s%s", i ? " " : "", invocation->words[i]);
    return used < size ? KILN_E_OK
                       : cli_fail(err, KILN_E_INVALID, "the problem's text is too long");
}

static bool is_of_group(const struct command *command, const char *group)
{
    size_t size = strlen(group);
    return strncmp(command->name, group, size) == 0 && command->name[size] == ' ';
}

bool command_is_group(const char *group)
{
    const struct command *command = NULL;
    for (size_t i = 0; (command = command_at(i)); i++)
        if (is_of_group(command, group))
            return true;
    return false;
}

static void print_common(FILE *out)
{
    struct option_table common = { session_option_table, SESSION_OPTION_COUNT, NULL };
    fputs("\nOptions of every command:\n", out);
    options_print_help(&common, out);
}

void command_print_help(const struct command *command, FILE *out)
{
    struct option_table table = { command->options, command->option_count, NULL };
    fprintf(out, "Usage: kilnctl %s [OPTION]...%s%s\n\n%s\n", command->name,
            *command->words ? " " : "", command->words, command->help);
    if (command->option_count) {
        fputs("\nOptions:\n", out);
        options_print_help(&table, out);
    }
    print_common(out);
    fprintf(out, "\n%s", exit_status_help());
}

static bool begins_group(const struct command *command, const struct command *before)
{
    size_t size = strcspn(command->name, " ");
    return before && command->name[size] && strncmp(before->name, command->name, size + 1) != 0;
}

void command_print_list(FILE *out)
{
    const struct command *command = NULL, *before = NULL;
    fputs("Usage: kilnctl COMMAND [OPTION]... [WORD]...\n\n"
          "Administers kilnd, the host's service for compiled kernels.\n\nCommands:\n",
          out);
    for (size_t i = 0; (command = command_at(i)); i++, before = command_at(i - 1))
        fprintf(out, "%s  %-24s%s\n", begins_group(command, before) ? "\n" : "", command->name,
                command->summary);
    fputs("\n'kilnctl COMMAND --help' describes a command.\n", out);
    print_common(out);
    fprintf(out,
            "\nEnvironment:\n"
            "  KILN_SOCKET             kilnd's socket, if --socket is not given\n"
            "  NO_COLOR                if not empty: no colours\n\n%s",
            exit_status_help());
}

void command_print_group(const char *group, FILE *out)
{
    const struct command *command = NULL;
    fprintf(out, "Usage: kilnctl %s COMMAND [OPTION]... [WORD]...\n\nCommands:\n", group);
    for (size_t i = 0; (command = command_at(i)); i++)
        if (is_of_group(command, group))
            fprintf(out, "  %-24s%s\n", command->name, command->summary);
    fprintf(out, "\n'kilnctl %s COMMAND --help' describes a command.\n", group);
    print_common(out);
    fprintf(out, "\n%s", exit_status_help());
}
