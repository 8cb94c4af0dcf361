/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/key_prefix.h"
#include "cli/kilnctl/nap.h"
#include "cli/output.h"

#include <kiln/problem.h>

#include <string.h>

/* Maximum number of problems in a command line: with -F 0, one for each direction. */
#define PROBLEMS_MAX 3
#define LINE_MAX 4096
/* Maximum number of repetitions of the request while kilnd still loads indices of the fleet. */
#define TRIES_MAX 5
#define NAP_MS 200

struct why_options {
    const char *target, *toolchain, *database_id, *solver;
};

#define AT(field) offsetof(struct why_options, field)
static const struct option options[] = {
    { "target", 't', OPTION_TEXT, AT(target), "TARGET",
      "the target: gfx90a, sm_90, ... (required with a PROBLEM)", 0, 0 },
    { "toolchain", 0, OPTION_TEXT, AT(toolchain), "NAME",
      "the compiler that would build the kernels", 0, 0 },
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID", "MIOpen's name of the device: gfx90a68", 0,
      0 },
    { "solver", 0, OPTION_TEXT, AT(solver), "NAME",
      "the solver for a PROBLEM (the best that applies)", 0, 0 },
};
#undef AT

static bool is_key(const struct invocation *invocation)
{
    const char *word = invocation->words[0];
    return invocation->word_count == 1 && *word &&
           strspn(word, "0123456789abcdefABCDEF") == strlen(word);
}

static int query_why(const struct invocation *invocation, const char *member, const char *text,
                     struct json *answers, struct kiln_error *err)
{
    const struct why_options *o = invocation->options;
    KILN_AUTO(json) struct json *question = json_object();
    struct json *reply = NULL;
    json_set_text(question, member, text);
    admin_set_text(question, "target", o->target);
    admin_set_text(question, "toolchain", o->toolchain);
    admin_set_text(question, "database_id", o->database_id);
    admin_set_text(question, "solver", o->solver);
    int rc = admin_ask(invocation, "why_miss", question, &reply, err);
    for (int i = 0; !rc && i < TRIES_MAX && json_get_bool(reply, "fleet_loads", false); i++) {
        nap_ms(NAP_MS);
        json_destroy(reply);
        reply = NULL;
        rc = admin_ask(invocation, "why_miss", question, &reply, err);
    }
    if (rc)
        return rc;
    if (strcmp(member, "problem") == 0)
        json_set_text(reply, member, text);
    json_append(answers, reply);
    return KILN_E_OK;
}

static int ask_key(const struct invocation *invocation, struct json *answers,
                   struct kiln_error *err)
{
    const struct why_options *o = invocation->options;
    char key[KEY_DIGITS + 1];
    if (o->target || o->toolchain || o->database_id)
        return cli_fail(err, KILN_E_INVALID,
                        "a key already covers target and toolchain: --target, --toolchain and "
                        "--db-id work only with a PROBLEM");
    int rc = key_prefix_complete(invocation, invocation->words[0], key, err);
    if (rc == KILN_E_NOT_FOUND)
        return cli_fail(err, rc,
                        "no stored kernel's key begins with '%s': for a kernel that is not stored, "
                        "give all %d digits",
                        invocation->words[0], KEY_DIGITS);
    return rc ? rc : query_why(invocation, "key", key, answers, err);
}

static int ask_problems(const struct invocation *invocation, struct json *answers,
                        struct kiln_error *err)
{
    const struct why_options *o = invocation->options;
    struct kiln_problem problems[PROBLEMS_MAX];
    unsigned count = 0;
    char line[LINE_MAX];
    if (!o->target)
        return cli_fail(err, KILN_E_INVALID,
                        "why-miss needs --target with a PROBLEM, such as --target gfx90a");
    int rc = command_join_words(invocation, line, sizeof(line), err);
    if (!rc)
        rc = kiln_problem_from_driver(line, problems, &count, err);
    for (unsigned i = 0; !rc && i < count; i++) {
        rc = kiln_problem_to_driver(&problems[i], line, sizeof(line), err);
        if (!rc)
            rc = query_why(invocation, "problem", line, answers, err);
    }
    return rc;
}

static void add_part(struct table *table, const struct json *difference)
{
    static const char *const sides[] = { "wanted", "there" };
    for (size_t i = 0; i < 2; i++) {
        const char *text = json_get_text(difference, sides[i], "");
        table_cell_in(table, COLOUR_YELLOW, "  %s",
                      i == 0 ? json_get_text(difference, "part", "?") : "");
        table_cell(table, "%s", sides[i]);
        table_cell(table, "%s", *text ? text : "-");
    }
}

static int print_nearest(const struct json *nearest, struct kiln_error *err)
{
    static const struct column columns[] = { { NULL, ALIGN_LEFT },
                                             { NULL, ALIGN_LEFT },
                                             { NULL, ALIGN_LEFT } };
    char line[512] = "nearest ";
    size_t used = strlen(line);
    const char *key = json_get_text(nearest, "key", NULL);
    used += (size_t)(key ? snprintf(line + used, 16, "%.12s", key)
                         : snprintf(line + used, 160, "package %.140s",
                                    json_get_text(nearest, "package", "?")));
    for (const struct json *j = json_first(json_get(nearest, "same")); j && used < sizeof(line);
         j = json_next(j))
        used +=
            (size_t)snprintf(line + used, sizeof(line) - used, "%s%s",
                             j == json_first(json_get(nearest, "same")) ? ", with the same " : ", ",
                             json_as_text(j, "?"));
    output_lines(stdout, "", line);
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 3);
    for (const struct json *j = json_first(json_get(nearest, "different")); j; j = json_next(j))
        add_part(table, j);
    return table_print(table, stdout, err);
}

static int print_comparison(const struct json *answer, struct kiln_error *err)
{
    int rc = KILN_E_OK;
    output_lines(stdout, "", json_get_text(answer, "problem", ""));
    output_lines(stdout, "key ", json_get_text(answer, "key", "?"));
    output_lines(stdout, "", json_get_text(answer, "message", ""));
    if (json_get_bool(answer, "found", false))
        return KILN_E_OK;
    for (const struct json *j = json_first(json_get(answer, "nearest")); j && !rc; j = json_next(j))
        rc = print_nearest(j, err);
    return rc;
}

static int print_answers(const struct json *answers, struct kiln_error *err)
{
    int rc = KILN_E_OK;
    for (const struct json *j = json_first(answers); j && !rc; j = json_next(j)) {
        if (j != json_first(answers))
            putchar('\n');
        rc = print_comparison(j, err);
    }
    return rc;
}

static int run_why_miss(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    struct json *answers = json_set_array(json, "answers");
    int rc = is_key(invocation) ? ask_key(invocation, answers, err)
                                : ask_problems(invocation, answers, err);
    if (rc)
        return rc;
    return invocation->common->json ? output_json(json, err) : print_answers(answers, err);
}

const struct command command_why_miss = {
    .name = "why-miss",
    .words = "KEY|PROBLEM",
    .summary = "explain why a kernel is not found: the nearest one, and the differences",
    .help = "Compares a kernel with the nearest stored ones: by toolchain, options, headers,\n"
            "features, compute units and source.  The kernel is given by KEY, or by a PROBLEM (a\n"
            "MIOpenDriver command line, quoted or after --) and --target.",
    .least_words = 1,
    .most_words = SIZE_MAX,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct why_options),
    .run = run_why_miss,
};
