/* SPDX-License-Identifier: MIT */
#include "cli/driver/options.h"

#include "cli/exit_status.h"

#include <kiln/problem.h>

#include <string.h>

/* Maximum of a random seed.  JSON represents integers up to this one exactly, and they are short
 * enough to copy by hand. */
#define SEED_MAX (((uint64_t)1 << 48) - 1)

#define AT(field) offsetof(struct driver_options, field)
static const struct option options[] = {
    { "device", 0, OPTION_TEXT, AT(device), "NAME",
      "where to run: opencl, hip:0, cuda:1, ... (auto)", 0, 0 },
    { "hip-library-path", 0, OPTION_TEXT, AT(hip_library_path), "DIRS",
      "search these directories first for the HIP runtime, separated by ':'", 0, 0 },
    { "toolchain", 0, OPTION_TEXT, AT(toolchain), "NAME", "the compiler that kilnd uses", 0, 0 },
    { "seed", 0, OPTION_NUMBER, AT(seed), "N",
      "repeat the random data of an earlier run; the next problem uses N + 1", 0, SEED_MAX },
    { "find-mode", 0, OPTION_TEXT, AT(find_mode), "normal|fast|hybrid|soon",
      "how to find a solver without -S ($MIOPEN_FIND_MODE, else hybrid)", 0, 0 },
    { "enforce", 0, OPTION_TEXT, AT(enforce), "none|db_update|search|search_db_update|db_clean",
      "when to search; also a number from 1 to 5 ($MIOPEN_FIND_ENFORCE)", 0, 0 },
    { "budget", 0, OPTION_TIME, AT(budget), "TIME",
      "time limit for find or tune of each problem (find: none, with run 3s; tune: 60s)", 0, 0 },
    { "improve", 0, OPTION_TIME, AT(improve), "TIME",
      "with --find-mode soon: repeat each problem until its plan is tuned, at most for TIME", 0,
      0 },
    { "no-record", 0, OPTION_FLAG, AT(no_record), NULL,
      "do not record the results of find and tune", 0, 0 },
    { "journal", 0, OPTION_VERBATIM, AT(journal), "DIR",
      "keep a search's timings here, so that it can resume; '': keep none (the user's state "
      "directory)",
      0, 0 },
    { "summary", 0, OPTION_FLAG, AT(summary), NULL, "print a table of counts and times at the end",
      0, 0 },
    { "ahead", 0, OPTION_FLAG, AT(ahead), NULL,
      "run: request all kernels of FILE at once, before the first problem", 0, 0 },
};
#undef AT
#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

static bool is_conv(const char *word)
{
    return strcmp(word, "conv") == 0 || strcmp(word, "convfp16") == 0 ||
           strcmp(word, "convbfp16") == 0 || strcmp(word, "convint8") == 0;
}

static bool is_driver(const char *word)
{
    const char *slash = strrchr(word, '/');
    return strcmp(slash ? slash + 1 : word, "MIOpenDriver") == 0;
}

static int find_command(struct driver_call *call, const struct option_list *before, size_t *ret_at,
                        struct kiln_error *err)
{
    size_t at = before->count > 1 && is_driver(before->words[0]) ? 1 : 0;
    *ret_at = at;
    call->command = DRIVER_NOTHING;
    if (before->count == 0)
        return cli_fail(err, KILN_E_INVALID,
                        "no command given; 'kiln-driver --help' lists the commands");
    const char *word = before->words[at];
    if (is_conv(word))
        call->command = DRIVER_CONV;
    else if (strcmp(word, "run") == 0)
        call->command = DRIVER_RUN;
    else if (strcmp(word, "devices") == 0)
        call->command = DRIVER_DEVICES;
    else
        return cli_fail(err, KILN_E_INVALID,
                        "'%s' is not one of conv, convfp16, convbfp16, run, devices: kiln handles "
                        "convolutions only",
                        word);
    return KILN_E_OK;
}

static int check_words(const struct driver_call *call, struct kiln_error *err)
{
    size_t most = call->command == DRIVER_CONV ? SIZE_MAX : call->command == DRIVER_RUN ? 2 : 1;
    if (call->command == DRIVER_RUN && call->words.count < 2)
        return cli_fail(err, KILN_E_INVALID, "run needs a FILE of MIOpenDriver command lines");
    if (call->options.ahead && call->command != DRIVER_RUN)
        return cli_fail(err, KILN_E_INVALID, "--ahead works only with 'run FILE'");
    if (call->words.count > most)
        return cli_fail(err, KILN_E_INVALID, "%s takes no argument '%s'", call->words.words[0],
                        call->words.words[most]);
    return KILN_E_OK;
}

static int parse_call(struct driver_call *call, int argc, const char *const *argv,
                      struct option_list *before, struct kiln_error *err)
{
    struct option_table tables[] = {
        { session_option_table, SESSION_OPTION_COUNT, &call->options.common },
        { options, OPTION_COUNT, &call->options },
    };
    struct option_parser parser = { .tables = tables, .table_count = 2, .stop_at_word = true };
    size_t at = 0;
    int rc = options_parse(&parser, argc, argv, before, err);
    if (rc || call->options.common.help || call->options.common.version)
        return rc;
    rc = find_command(call, before, &at, err);
    if (rc)
        return rc;
    parser.stop_at_word = false;
    parser.pass_unknown = call->command == DRIVER_CONV;
    rc = options_parse(&parser, (int)(before->count - at), before->words + at, &call->words, err);
    if (rc || call->options.common.help)
        return rc;
    return check_words(call, err);
}

int driver_call_parse(int argc, const char *const *argv, struct driver_call *ret_call,
                      struct kiln_error *err)
{
    struct option_list before = { 0 };
    *ret_call = (struct driver_call){ .command = DRIVER_NOTHING };
    int rc = parse_call(ret_call, argc, argv, &before, err);
    option_list_done(&before);
    return rc;
}

void driver_call_done(struct driver_call *call) { option_list_done(&call->words); }

struct option_table driver_option_table(void)
{
    return (struct option_table){ options, OPTION_COUNT, NULL };
}

static void print_flags(FILE *out)
{
    struct option flag = { .kind = OPTION_TEXT };
    struct option_table table = { &flag, 1, NULL };
    fputs("Flags of conv, convfp16 and convbfp16, as in MIOpenDriver; each takes a "
          "value:\n",
          out);
    for (unsigned i = 0; (flag.help = kiln_driver_flag(i, &flag.letter, &flag.name)); i++)
        options_print_help(&table, out);
}

void driver_print_help(FILE *out)
{
    struct option_table own = driver_option_table();
    struct option_table common = { session_option_table, SESSION_OPTION_COUNT, NULL };
    fputs(
        "Usage: kiln-driver conv|convfp16|convbfp16 [FLAG VALUE]... [OPTION]...\n"
        "       kiln-driver run FILE [OPTION]...\n"
        "       kiln-driver devices [--json]\n\n"
        "Runs convolutions on a device of this host with kernels from kilnd, times them and\n"
        "verifies the results.  FILE contains MIOpenDriver command lines, as logged with\n"
        "MIOPEN_ENABLE_LOGGING_CMD=1; '-' is standard input.  Each run uses new random data.\n"
        "Without -S, kiln-driver first finds the fastest solver; with -s 1, it tunes the solvers.\n"
        "The measurements are recorded.  With --ahead, all compilers have work from the start;\n"
        "kernels that are ready before their problem runs count as hits.\n\n",
        out);
    print_flags(out);
    fputs("\nOptions:\n", out);
    options_print_help(&own, out);
    options_print_help(&common, out);
    fprintf(out, "\n%s", exit_status_help());
}
