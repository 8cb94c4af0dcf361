/* SPDX-License-Identifier: MIT */

/* kilnctl's commands against a libkiln of this file's own. */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/show.h"

#include <kiln/admin.h>
#include <kiln/plan.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the fake ---- */

#define ASKED_MOST 16

static struct fake {
    const char *replies[ASKED_MOST]; /* in turn; NULL: fail with |code| */
    int code;
    unsigned asked;
    char requests[ASKED_MOST][512]; /* "name arguments" */
    /* plans */
    unsigned plans, batches;
    struct kiln_plan_options options;
    int plan_code; /* of every second problem; 0: all are there */
    int tier;
    unsigned same_key;      /* problems that share a kernel */
    unsigned first_failure; /* kiln_plan_get's, from 1 */
} fake;
static atomic_uint fake_gets;

struct kiln_plan {
    char key[65];
};

int kiln_admin(struct kiln_client *client, const char *request, const char *json, int timeout_ms,
               char **ret_json, struct kiln_error *err)
{
    (void)client, (void)timeout_ms;
    assert_true(fake.asked < ASKED_MOST);
    const char *reply = fake.replies[fake.asked];
    snprintf(fake.requests[fake.asked++], sizeof(fake.requests[0]), "%s %s", request,
             json ? json : "-");
    if (!reply) {
        *err = (struct kiln_error){ .code = fake.code, .text = "the fake says no" };
        return fake.code;
    }
    *ret_json = strdup(reply);
    return KILN_E_OK;
}

void kiln_free(void *pointer) { free(pointer); }

static int plan(size_t index, kiln_plan_ready *ready, void *context)
{
    struct kiln_plan plan = { .key = "" };
    struct kiln_error err = { .code = fake.plan_code, .text = "clang refused it", .log = "x: no" };
    size_t key = fake.same_key ? index / fake.same_key : index;
    snprintf(plan.key, sizeof(plan.key), "%064zx", key + 1);
    fake.plans++;
    if (fake.plan_code && index % 2 == 1)
        return ready(context, index, NULL, &err);
    return ready(context, index, &plan, NULL);
}

int kiln_plan_batch(struct kiln_client *client, const struct kiln_problem *problems, size_t count,
                    const struct kiln_plan_options *options, int timeout_ms, kiln_plan_ready *ready,
                    void *context, struct kiln_error *err)
{
    (void)client, (void)problems, (void)timeout_ms, (void)err;
    fake.batches++;
    fake.options = *options;
    for (size_t i = 0; i < count; i++)
        if (plan(i, ready, context))
            return KILN_E_OK;
    return KILN_E_OK;
}

/* One at a time, as --jobs asks; from several threads. */
int kiln_plan_get(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_plan_options *options, int timeout_ms,
                  struct kiln_plan **ret_plan, struct kiln_error *err)
{
    (void)client, (void)options, (void)timeout_ms;
    unsigned number = atomic_fetch_add(&fake_gets, 1);
    if (fake.plan_code && number + 1 >= fake.first_failure) {
        *err = (struct kiln_error){ .code = fake.plan_code, .text = "the fake says no" };
        return fake.plan_code;
    }
    struct kiln_plan *got = calloc(1, sizeof(*got));
    assert_non_null(got);
    snprintf(got->key, sizeof(got->key), "%064x", problem->n * 8 + problem->direction);
    *ret_plan = got;
    return KILN_E_OK;
}

void kiln_plan_unref(struct kiln_plan *plan_) { free(plan_); }

unsigned kiln_plan_object_count(const struct kiln_plan *p) { return p ? 1 : 0; }
const char *kiln_plan_object_key(const struct kiln_plan *p, unsigned index)
{
    (void)index;
    return p->key;
}
int kiln_plan_object_tier(const struct kiln_plan *p, unsigned index)
{
    (void)p, (void)index;
    return fake.tier;
}
uint64_t kiln_plan_object_compile_ns(const struct kiln_plan *p, unsigned index)
{
    (void)p, (void)index;
    return 1000000000u;
}

/* ---- the fixture ---- */

struct fixture {
    struct session_options common;
    struct option_list words;
    int stdout_fd;
    FILE *captured;
    char printed[65536];
    char path[64];
    struct kiln_error err;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    fake = (struct fake){ .tier = KILN_TIER_COMPILED };
    atomic_store(&fake_gets, 0);
    snprintf(f->path, sizeof(f->path), "/tmp/kiln_cli_commands_XXXXXX");
    int fd = mkstemp(f->path);
    *state = f;
    return fd >= 0 ? close(fd) : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    unlink(f->path);
    free(f);
    return 0;
}

static void capture(struct fixture *f)
{
    fflush(stdout);
    f->captured = tmpfile();
    f->stdout_fd = dup(STDOUT_FILENO);
    dup2(fileno(f->captured), STDOUT_FILENO);
}

static void release(struct fixture *f)
{
    fflush(stdout);
    dup2(f->stdout_fd, STDOUT_FILENO);
    close(f->stdout_fd);
    rewind(f->captured);
    f->printed[fread(f->printed, 1, sizeof(f->printed) - 1, f->captured)] = '\0';
    fclose(f->captured);
}

/* Parses as main does and runs, with standard output in |printed|. */
static int run(struct fixture *f, int argc, const char *const *argv)
{
    size_t used = 0;
    struct option_list words = { 0 };
    const struct command *command = command_find(argv, (size_t)argc, &used);
    assert_non_null(command);
    void *options = calloc(1, command->options_size + 1);
    struct option_table tables[] = {
        { session_option_table, SESSION_OPTION_COUNT, &f->common },
        { command->options, command->option_count, options },
    };
    struct option_parser parser = { .tables = tables, .table_count = 2 };
    assert_int_equal(options_parse(&parser, argc - (int)used, argv + used, &words, &f->err), 0);
    struct invocation invocation = {
        .common = &f->common,
        .options = options,
        .words = words.words,
        .word_count = words.count,
    };
    capture(f);
    int rc = command->run(&invocation, &f->err);
    release(f);
    options_done(tables, 2);
    option_list_done(&words);
    free(options);
    return rc;
}

#define RUN(f, ...)                                                           \
    run((f), (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), \
        (const char *[]){ __VA_ARGS__ })

static void write_lines(struct fixture *f, const char *text)
{
    FILE *out = fopen(f->path, "we");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

/* ---- the table ---- */

static void every_command_is_whole_and_found_by_its_name(void **state)
{
    const struct command *command = NULL;
    (void)state;
    for (size_t i = 0; (command = command_at(i)); i++) {
        char name[64];
        const char *words[4];
        size_t count = 0;
        size_t used = 0;
        snprintf(name, sizeof(name), "%s", command->name);
        char *rest = NULL;
        for (char *w = strtok_r(name, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
            words[count++] = w;
        assert_ptr_equal(command_find(words, count, &used), command);
        assert_int_equal(used, count);
        assert_non_null(command->run);
        assert_true(*command->summary && *command->help && command->words);
        assert_true(command->least_words <= command->most_words);
    }
}

static void no_two_options_of_a_command_share_a_name_or_letter(void **state)
{
    const struct command *command = NULL;
    (void)state;
    for (size_t i = 0; (command = command_at(i)); i++) {
        for (size_t a = 0; a < command->option_count; a++) {
            const struct option *o = &command->options[a];
            assert_true(*o->help);
            assert_true((o->kind == OPTION_FLAG) == (o->value == NULL));
            for (size_t b = 0; b < a; b++) {
                assert_string_not_equal(o->name, command->options[b].name);
                assert_true(!o->letter || o->letter != command->options[b].letter);
            }
            for (size_t b = 0; b < SESSION_OPTION_COUNT; b++) {
                assert_string_not_equal(o->name, session_option_table[b].name);
                assert_true(!o->letter || o->letter != session_option_table[b].letter);
            }
        }
    }
}

static void half_a_name_is_no_command(void **state)
{
    size_t used = 0;
    (void)state;
    assert_null(command_find((const char *[]){ "kernel" }, 1, &used));
    assert_null(command_find((const char *[]){ "kernel", "lsx" }, 2, &used));
    assert_null(command_find((const char *[]){ "stat" }, 1, &used));
    assert_null(command_find(NULL, 0, &used));
}

/* ---- commands ---- */

static void stats_as_json_is_what_the_daemon_said(void **state)
{
    struct fixture *f = *state;
    fake.replies[0] = "{\"fetches\":3,\"hits\":{\"hot\":1}}";
    assert_int_equal(RUN(f, "stats", "--json"), KILN_E_OK);
    assert_string_equal(f->printed, "{\"fetches\":3,\"hits\":{\"hot\":1}}\n");
    assert_string_equal(fake.requests[0], "stats -");
}

static void stats_for_people_name_nested_counters_and_units(void **state)
{
    struct fixture *f = *state;
    fake.replies[0] = "{\"fetches\":12345,\"hits\":{\"hot\":1},\"store_bytes\":1572864}";
    assert_int_equal(RUN(f, "stats"), KILN_E_OK);
    assert_string_equal(f->printed, "fetches      12 345\nhits.hot     1\nstore_bytes  1.5 MiB\n");
}

static void an_answer_that_is_no_json_is_refused(void **state)
{
    struct fixture *f = *state;
    fake.replies[0] = "{\"fetches\":";
    fake.replies[1] = "[1]";
    assert_int_equal(RUN(f, "stats"), KILN_E_CORRUPT);
    assert_int_equal(RUN(f, "stats"), KILN_E_CORRUPT);
    assert_string_equal(f->printed, "");
}

static void config_shows_value_and_origin(void **state)
{
    struct fixture *f = *state;
    fake.replies[0] = "{\"workers\":{\"value\":2,\"origin\":\"flag --workers\"},"
                      "\"socket\":{\"value\":\"/run/x\",\"origin\":\"default\"}}";
    assert_int_equal(RUN(f, "config"), KILN_E_OK);
    assert_string_equal(f->printed, "SETTING  VALUE   ORIGIN\n"
                                    "workers  2       flag --workers\n"
                                    "socket   /run/x  default\n");
}

static void kernels_are_listed_over_all_pages(void **state)
{
    struct fixture *f = *state;
    fake.replies[0] = "{\"kernels\":[{\"key\":\"aa\",\"size\":10},{\"key\":\"bb\",\"size\":99}],"
                      "\"next\":\"bb\"}";
    fake.replies[1] = "{\"kernels\":[{\"key\":\"cc\",\"size\":50}]}";

    int rc = RUN(f, "kernel", "ls", "--json", "--target", "gfx90a", "--older-than", "30d",
                 "--larger-than", "10");

    assert_int_equal(rc, KILN_E_OK);
    assert_string_equal(
        f->printed, "{\"kernels\":[{\"key\":\"bb\",\"size\":99},{\"key\":\"cc\",\"size\":50}]}\n");
    assert_string_equal(fake.requests[0], "kernel_list {\"target\":\"gfx90a\","
                                          "\"older_than_s\":2592000,\"count\":500}");
    assert_non_null(strstr(fake.requests[1], "\"after\":\"bb\""));
}

static void the_limit_of_a_list_stops_the_asking(void **state)
{
    struct fixture *f = *state;
    fake.replies[0] = "{\"kernels\":[{\"key\":\"aa\"},{\"key\":\"bb\"}],\"next\":\"bb\"}";
    assert_int_equal(RUN(f, "kernel", "ls", "--limit", "2", "--json"), KILN_E_OK);
    assert_int_equal(fake.asked, 1);
}

static void a_list_without_end_is_an_error_and_prints_nothing(void **state)
{
    struct fixture *f = *state;
    fake.replies[0] = "{\"kernels\":[{\"key\":\"aa\"}],\"next\":\"aa\"}";
    fake.replies[1] = "{\"kernels\":[{\"key\":\"aa\"}],\"next\":\"aa\"}";
    assert_int_equal(RUN(f, "kernel", "ls", "--json"), KILN_E_CORRUPT);
    assert_string_equal(f->printed, "");
}

static void a_key_prefix_is_checked_before_anybody_is_asked(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(RUN(f, "kernel", "show", "xyz"), KILN_E_INVALID);
    assert_int_equal(fake.asked, 0);
}

static void removing_goes_on_after_a_failure_and_reports_it(void **state)
{
    struct fixture *f = *state;
    fake.code = KILN_E_NOT_FOUND;
    fake.replies[1] = "{\"removed\":1}";
    assert_int_equal(RUN(f, "kernel", "rm", "aa", "bb"), KILN_E_NOT_FOUND);
    assert_int_equal(fake.asked, 2);
    assert_non_null(strstr(f->err.text, "'aa'"));
    assert_string_equal(f->printed, "1 removed\n");
}

static void clear_drops_nothing_that_was_not_chosen(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(RUN(f, "clear", "--yes"), KILN_E_INVALID);
    assert_int_equal(RUN(f, "clear", "--yes", "--all", "--target", "gfx90a"), KILN_E_INVALID);
    assert_int_equal(fake.asked, 0);
}

static void clear_with_yes_does_not_ask(void **state)
{
    struct fixture *f = *state;
    fake.replies[0] = "{\"kernels\":3,\"bytes\":4096,\"dry_run\":false}";
    assert_int_equal(RUN(f, "clear", "--target", "gfx90a", "--older-than", "12h", "--yes"),
                     KILN_E_OK);
    assert_string_equal(f->printed, "dropped 3 kernels, 4.0 KiB\n");
    assert_string_equal(fake.requests[0], "clear {\"target\":\"gfx90a\",\"older_than_s\":43200,"
                                          "\"dry_run\":false}");
}

static void a_dry_run_of_clear_says_so_to_both_sides(void **state)
{
    struct fixture *f = *state;
    fake.replies[0] = "{\"kernels\":3,\"bytes\":4096,\"dry_run\":true}";
    assert_int_equal(RUN(f, "clear", "--all", "--dry-run"), KILN_E_OK);
    assert_string_equal(f->printed, "would drop 3 kernels, 4.0 KiB\n");
    assert_string_equal(fake.requests[0], "clear {\"all\":true,\"dry_run\":true}");
}

static void toolchains_are_probed_for_the_targets_given(void **state)
{
    struct fixture *f = *state;
    fake.replies[0] =
        "{\"toolchains\":[{\"name\":\"clang\",\"version\":\"19\",\"path\":\"/"
        "c\",\"family\":\"amd\","
        "\"identity\":\"0123456789abcdef\",\"targets\":[{\"target\":\"gfx942\",\"works\":true,"
        "\"detail\":\"\"}]}]}";
    assert_int_equal(RUN(f, "toolchain", "ls", "--probe", "gfx942", "sm_90"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "toolchains {\"probe\":[\"gfx942\",\"sm_90\"]}");
    assert_non_null(strstr(f->printed, "clang  19       amd     0123456789ab  /c\n"));
    assert_non_null(strstr(f->printed, "clang      gfx942  yes"));
}

static void terminal_escapes_in_an_answer_are_defused(void **state)
{
    struct fixture *f = *state;
    fake.replies[0] = "{\"kernels\":[{\"key\":\"aa\",\"program\":\"\\u001b[2Jx\"}]}";
    assert_int_equal(RUN(f, "kernel", "ls"), KILN_E_OK);
    assert_null(strchr(f->printed, '\033'));
    assert_non_null(strstr(f->printed, "?[2Jx"));
}

/* ---- prefetch ---- */

#define LINES                                               \
    "./bin/MIOpenDriver conv -n 1 -c 8 -k 8 -F 1\n"         \
    "/opt/rocm/bin/MIOpenDriver conv -n 1 -c 8 -k 8 -F 0\n" \
    "# comment\n"                                           \
    "conv -n 2 -c 8 -k 8 -F 1\n"

static void prefetch_asks_for_each_problem_once_without_objects(void **state)
{
    struct fixture *f = *state;
    write_lines(f, LINES);

    int rc = RUN(f, "prefetch", f->path, "--target", "gfx90a", "--db-id", "gfx90a68", "--json");

    assert_int_equal(rc, KILN_E_OK);
    assert_int_equal(fake.batches, 1);
    assert_int_equal(fake.plans, 4);
    assert_string_equal(fake.options.target, "gfx90a");
    assert_string_equal(fake.options.database_id, "gfx90a68");
    assert_int_equal(fake.options.priority, KILN_PREFETCH);
    assert_int_equal(fake.options.no_objects, 1);
    assert_non_null(strstr(f->printed, "\"lines\":3,\"problems\":4,\"repeats\":1,\"kernels\":4,"
                                       "\"compiled\":4,\"hits\":0"));
    assert_non_null(strstr(f->printed, "\"failed\":0"));
}

static void prefetch_counts_a_kernel_that_problems_share_once(void **state)
{
    struct fixture *f = *state;
    write_lines(f, LINES);
    fake.same_key = 2;
    fake.tier = KILN_TIER_DISK;
    assert_int_equal(RUN(f, "prefetch", f->path, "--target", "gfx90a", "--json"), KILN_E_OK);
    assert_non_null(strstr(f->printed, "\"kernels\":2,\"compiled\":0,\"hits\":2"));
    assert_non_null(strstr(f->printed, "\"disk\":2"));
}

static void prefetch_fails_when_any_kernel_failed_and_gives_reason_and_log(void **state)
{
    struct fixture *f = *state;
    write_lines(f, LINES);
    fake.plan_code = KILN_E_COMPILE_FAILED;
    assert_int_equal(RUN(f, "prefetch", f->path, "--target", "gfx90a", "--json"),
                     KILN_E_COMPILE_FAILED);
    assert_non_null(strstr(f->printed, "\"failed\":2"));
    assert_non_null(strstr(f->printed,
                           "\"code\":\"COMPILE_FAILED\",\"reason\":\"clang refused it\","
                           "\"log\":\"x: no\""));
    assert_string_equal(f->err.text, "2 failed, 2 of 4 problems are ready");
}

static void prefetch_names_a_line_it_cannot_read_and_does_the_rest(void **state)
{
    struct fixture *f = *state;
    write_lines(f, "conv -n 1 -F 1\nconv -n 1 --frobnicate 3\n");
    assert_int_equal(RUN(f, "prefetch", f->path, "--target", "gfx90a", "--json"),
                     KILN_E_COMPILE_FAILED);
    assert_int_equal(fake.plans, 1);
    assert_non_null(strstr(f->printed, "\"line\":2"));
    assert_non_null(strstr(f->printed, "frobnicate"));
}

static void prefetch_needs_a_target_and_lines(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(RUN(f, "prefetch", f->path), KILN_E_INVALID);
    assert_non_null(strstr(f->err.text, "--target"));
    assert_int_equal(RUN(f, "prefetch", f->path, "--target", "gfx90a"), KILN_E_INVALID);
    assert_non_null(strstr(f->err.text, "no MIOpenDriver command lines"));
}

static void prefetch_with_jobs_asks_for_every_problem_once(void **state)
{
    struct fixture *f = *state;
    FILE *out = fopen(f->path, "we");
    assert_non_null(out);
    for (unsigned n = 1; n <= 300; n++)
        fprintf(out, "conv -n %u -F 1\n", n);
    fclose(out);
    assert_int_equal(RUN(f, "prefetch", f->path, "--target", "gfx90a", "--jobs", "4", "--json"),
                     KILN_E_OK);
    assert_int_equal(atomic_load(&fake_gets), 300);
    assert_int_equal(fake.batches, 0);
    assert_non_null(strstr(f->printed, "\"problems\":300,\"repeats\":0,\"kernels\":300"));
}

static void prefetch_with_jobs_ends_when_the_daemon_is_gone(void **state)
{
    struct fixture *f = *state;
    write_lines(f, LINES);
    fake.plan_code = KILN_E_UNAVAILABLE;
    fake.first_failure = 3;
    assert_int_equal(RUN(f, "prefetch", f->path, "--target", "gfx90a", "--jobs", "1", "--json"),
                     KILN_E_UNAVAILABLE);
    assert_int_equal(atomic_load(&fake_gets), 3);
    assert_string_equal(f->err.text, "after 2 of 4 problems: the fake says no");
}

static void numbers_are_shown_in_the_unit_their_name_tells(void **state)
{
    char text[64];
    struct kiln_err why = KILN_ERR_INIT;
    struct json *json = NULL;
    (void)state;
    assert_int_equal(json_parse(bytes_of_text("{\"uptime_s\":7500,\"pid\":12345,\"size\":2048,"
                                              "\"ratio\":0.5,\"bad_bytes\":-1}"),
                                "test", &json, &why),
                     0);
    assert_string_equal(show_value("uptime_s", json_get(json, "uptime_s"), text, 64), "2 h 05 m");
    assert_string_equal(show_value("pid", json_get(json, "pid"), text, 64), "12345");
    assert_string_equal(show_value("size", json_get(json, "size"), text, 64), "2.0 KiB");
    assert_string_equal(show_value("ratio", json_get(json, "ratio"), text, 64), "0.5");
    assert_string_equal(show_value("bad_bytes", json_get(json, "bad_bytes"), text, 64), "-1");
    assert_string_equal(show_value("absent", NULL, text, 64), "-");
    json_destroy(json);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(every_command_is_whole_and_found_by_its_name),
        T(no_two_options_of_a_command_share_a_name_or_letter),
        T(half_a_name_is_no_command),
        T(stats_as_json_is_what_the_daemon_said),
        T(stats_for_people_name_nested_counters_and_units),
        T(an_answer_that_is_no_json_is_refused),
        T(config_shows_value_and_origin),
        T(kernels_are_listed_over_all_pages),
        T(the_limit_of_a_list_stops_the_asking),
        T(a_list_without_end_is_an_error_and_prints_nothing),
        T(a_key_prefix_is_checked_before_anybody_is_asked),
        T(removing_goes_on_after_a_failure_and_reports_it),
        T(clear_drops_nothing_that_was_not_chosen),
        T(clear_with_yes_does_not_ask),
        T(a_dry_run_of_clear_says_so_to_both_sides),
        T(toolchains_are_probed_for_the_targets_given),
        T(terminal_escapes_in_an_answer_are_defused),
        T(prefetch_asks_for_each_problem_once_without_objects),
        T(prefetch_counts_a_kernel_that_problems_share_once),
        T(prefetch_fails_when_any_kernel_failed_and_gives_reason_and_log),
        T(prefetch_names_a_line_it_cannot_read_and_does_the_rest),
        T(prefetch_needs_a_target_and_lines),
        T(prefetch_with_jobs_asks_for_every_problem_once),
        T(prefetch_with_jobs_ends_when_the_daemon_is_gone),
        T(numbers_are_shown_in_the_unit_their_name_tells),
    };
    return cmocka_run_group_tests_name("kilnctl.commands", tests, NULL, NULL);
}
