/* SPDX-License-Identifier: MIT */
#include "libclient/conv/journal.h"
#include "tests/support/failing_calls.h"
#include "tests/support/shell.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ull
#define SIDE 16u /* the space has the configs "1,1" to "16,16" */
#define IN_FLIGHT_MAX 4u
#define COMPILE_MS 10.0

struct fixture {
    struct search search;
    struct kiln_err err;
    double now_ms;
    size_t asked[IN_FLIGHT_MAX];
    /* the fewest requests in flight at any time when the search waited for an answer */
    unsigned least_in_flight;
    unsigned in_flight, compiles, timed, checks, held, drops, clears, reported;
    unsigned enough_after; /* stops after this many trials; 0: never */
    bool is_lost;          /* whether the device is lost at the next failure */
    /* a config that does not compile, one that crashes, and one that computes a wrong result */
    const char *refused, *crashing, *wrong;
    /* a config that crashes, but not when it is timed for the first time */
    const char *crashing_later;
    /* a config with a wrong result, which is the fastest one only when it is timed again */
    const char *wrong_later;
    /* 0, or a seed: times vary from one timing to the next, and a third of the configs are wrong */
    uint64_t noise;
    const char *directory;
    struct journal *journal;
    size_t all[SIDE * SIDE];
};

/* ---- the fake ---- */

static const struct search_trial *trial_of(const struct fixture *f, size_t index)
{
    return &f->search.trials[index];
}

static bool is(const char *config, const char *which) { return which && !strcmp(config, which); }

/* Returns the time of a config in ms. "11,6" is the fastest. */
static double cost_of(const char *config)
{
    double a = 0, b = 0;
    assert_int_equal(sscanf(config, "%lf,%lf", &a, &b), 2);
    return 1 + 0.1 * fabs(a - 11) + 0.2 * fabs(b - 6);
}

static double random_part(struct fixture *f)
{
    f->noise = f->noise * 6364136223846793005u + 1442695040888963407u;
    return (double)(f->noise >> 40) / (1 << 24);
}

static bool is_wrong(const struct fixture *f, const char *config)
{
    return is(config, f->wrong) || is(config, f->wrong_later) ||
           (f->noise && bytes_hash(bytes_of_text(config), 0) % 3 == 0);
}

static uint64_t now_ns(void *context)
{
    return (uint64_t)(((struct fixture *)context)->now_ms * 1e6);
}

static bool is_ready(void *context)
{
    return ((struct fixture *)context)->in_flight < IN_FLIGHT_MAX;
}

static enum kiln_code request_trial(void *context, size_t trial, struct kiln_err *err)
{
    struct fixture *f = context;
    (void)err;
    assert_true(f->in_flight < IN_FLIGHT_MAX);
    f->asked[f->in_flight++] = trial;
    return KILN_OK;
}

static enum kiln_code next_trial(void *context, uint64_t deadline_ns,
                                 struct search_arrival *ret_next, struct kiln_err *err)
{
    struct fixture *f = context;
    assert_true(f->in_flight > 0);
    bool is_last = f->compiles + IN_FLIGHT_MAX > SIDE * SIDE;
    if (f->in_flight < f->least_in_flight && !is_last)
        f->least_in_flight = f->in_flight;
    if ((f->now_ms + COMPILE_MS) * 1e6 > (double)deadline_ns) {
        f->now_ms = (double)deadline_ns / 1e6;
        return kiln_fail(err, KILN_TIMED_OUT, "kilnd did not answer in time");
    }
    f->now_ms += COMPILE_MS;
    f->compiles++;
    ret_next->trial = f->asked[0];
    memmove(f->asked, f->asked + 1, --f->in_flight * sizeof(f->asked[0]));
    if (is(trial_of(f, ret_next->trial)->config, f->refused))
        ret_next->code = kiln_fail(&ret_next->why, KILN_COMPILE_FAILED, "error: no such register");
    else
        f->held++;
    return KILN_OK;
}

static void clear(void *context)
{
    struct fixture *f = context;
    f->clears++;
    f->in_flight = 0;
}

static enum kiln_code take_time(void *context, size_t trial, const struct timing_limits *limits,
                                struct timing *ret_timing, struct kiln_err *err)
{
    struct fixture *f = context;
    const struct search_trial *t = trial_of(f, trial);
    double ms = cost_of(t->config);
    f->timed++;
    if (t->state == KILN_CONV_UNTIMED)
        journal_begin(f->journal, t->config);
    if (is(t->config, f->crashing) ||
        (is(t->config, f->crashing_later) && t->state != KILN_CONV_UNTIMED))
        return kiln_fail(err, KILN_GPU_FAULT, "it fell over");
    if (is(t->config, f->wrong) || (is(t->config, f->wrong_later) && t->state != KILN_CONV_UNTIMED))
        ms = 0.001;
    if (f->noise)
        ms *= 0.5 + random_part(f);
    f->now_ms += ms * limits->samples;
    *ret_timing =
        (struct timing){ .median_ms = ms,
                         .spread_ms = 0.01,
                         .samples = limits->samples,
                         .is_cut_short = limits->hopeless_ms > 0 && ms > limits->hopeless_ms };
    return KILN_OK;
}

static enum kiln_code check(void *context, size_t trial, uint64_t *ret_checked,
                            struct kiln_err *err)
{
    struct fixture *f = context;
    f->checks++;
    const char *config = trial_of(f, trial)->config;
    if (is_wrong(f, config))
        return kiln_fail(err, KILN_CORRUPT, "wrong: 5 of 64 elements");
    *ret_checked = 64;
    return KILN_OK;
}

static bool is_alive(void *context) { return !((struct fixture *)context)->is_lost; }

static void drop(void *context, size_t trial)
{
    struct fixture *f = context;
    assert_int_equal(trial_of(f, trial)->place, TRIAL_HELD);
    f->held--;
    f->drops++;
}

static bool reported(void *context, const struct search_trial *trial)
{
    struct fixture *f = context;
    journal_end(f->journal, trial);
    return ++f->reported == f->enough_after;
}

static const struct search_ops ops = {
    .now_ns = now_ns,
    .is_ready = is_ready,
    .ask = request_trial,
    .next = next_trial,
    .clear = clear,
    .time = take_time,
    .check = check,
    .is_alive = is_alive,
    .drop = drop,
    .reported = reported,
};

static void add_all(struct fixture *f)
{
    for (unsigned i = 0; i < SIDE * SIDE; i++) {
        unsigned at = i * 77 % (SIDE * SIDE);
        char config[16];
        snprintf(config, sizeof(config), "%u,%u", at / SIDE + 1, at % SIDE + 1);
        must(search_add(&f->search, config, &f->all[i], &f->err), f->err);
    }
}

SET_UP(set_up)
{
    f->directory = test_directory();
    search_init(&f->search, &ops, f);
    add_all(f);
}

TEAR_DOWN(tear_down)
{
    search_done(&f->search);
    journal_close(f->journal);
    assert_int_equal(f->held, 0);
}

FIXTURE(conv_search, set_up, tear_down);

static void search_whole(struct fixture *f, double until_ms)
{
    uint64_t until = (uint64_t)(until_ms * 1e6);
    must(search_try(&f->search, f->all, SIDE * SIDE, until / 3, &f->err), f->err);
    must(search_halve(&f->search, until, &f->err), f->err);
    must(search_refine(&f->search, until, &f->err), f->err);
}

static const struct search_trial *best(const struct fixture *f)
{
    assert_int_not_equal(f->search.best, SIZE_MAX);
    return &f->search.trials[f->search.best];
}

static const struct search_trial *find(const struct fixture *f, const char *config)
{
    size_t index = search_find(&f->search, config);
    assert_int_not_equal(index, SIZE_MAX);
    return &f->search.trials[index];
}

/* ---- searching ---- */

TEST_F(conv_search, with_time_for_all_the_best_is_found)
{
    search_whole(f, 1e9);
    assert_string_equal(best(f)->config, "11,6");
    assert_int_equal(f->search.tried, SIDE * SIDE);
    assert_true(best(f)->checked == 64);
    assert_int_equal(best(f)->timing.samples, 24);
    assert_int_equal(f->held, 1);
}

TEST_F(conv_search, neighbours_lead_from_a_sample_to_the_best)
{
    search_whole(f, 1500);
    assert_string_equal(best(f)->config, "11,6");
    assert_true(f->search.tried < SIDE * SIDE / 2);
}

static enum kiln_code append_four(void *context, struct search_source *source, struct kiln_err *err)
{
    (void)context;
    (void)err;
    source->count += source->count < SIDE * SIDE ? 4 : 0;
    return KILN_OK;
}

TEST_F(conv_search, a_source_that_grows_is_asked_before_the_compilers_are_idle)
{
    struct search_source source = { .indexes = f->all, .count = 4, .more = append_four };
    f->least_in_flight = IN_FLIGHT_MAX;
    must(search_try_source(&f->search, &source, UINT64_MAX, &f->err), f->err);
    assert_int_equal(f->search.tried, SIDE * SIDE);
    assert_int_equal(f->least_in_flight, IN_FLIGHT_MAX);
}

TEST_F(conv_search, a_search_ends_at_its_budget)
{
    search_whole(f, 200);
    assert_true(f->search.tried >= 1 && f->search.tried < 20);
    assert_int_not_equal(f->search.best, SIZE_MAX);
}

TEST_F(conv_search, a_search_waits_for_its_first_trial_beyond_the_budget)
{
    must(search_try(&f->search, f->all, SIDE * SIDE, 1, &f->err), f->err);
    assert_int_equal(f->search.tried, 1);
    assert_int_not_equal(f->search.best, SIZE_MAX);
}

TEST_F(conv_search, a_compiler_that_never_answers_is_given_up)
{
    f->search.give_up_ns = 5 * MS; /* the search gives up before any compilation ends */
    assert_int_equal(search_try(&f->search, f->all, SIDE * SIDE, 1, &f->err), KILN_TIMED_OUT);
}

TEST_F(conv_search, trials_in_progress_when_time_is_up_count_when_they_finish)
{
    must(search_try(&f->search, f->all, SIDE * SIDE, 25 * MS, &f->err), f->err);
    assert_true(f->in_flight > 0);
    unsigned before = f->search.tried;
    size_t one = search_find(&f->search, "11,6");
    must(search_try(&f->search, &one, 1, UINT64_MAX, &f->err), f->err);
    assert_true(f->search.tried > before + 1);
    assert_int_equal(f->search.trials[one].place, TRIAL_HELD);
    assert_int_equal(f->clears, 0);
}

TEST(conv_search, hopeless_configs_are_neither_checked_nor_held)
{
    struct fixture *f = *state;
    size_t two[] = { search_find(&f->search, "11,6"), search_find(&f->search, "1,16") };
    must(search_try(&f->search, two, 2, UINT64_MAX, &f->err), f->err);
    assert_int_equal(find(f, "1,16")->state, KILN_CONV_CUT_SHORT);
    assert_int_equal(find(f, "1,16")->place, TRIAL_DONE);
    assert_int_equal(f->checks, 1);
    assert_int_equal(f->held, 1);
}

TEST_F(conv_search, few_trials_are_held_however_many_are_tried)
{
    must(search_try(&f->search, f->all, SIDE * SIDE, UINT64_MAX, &f->err), f->err);
    assert_true(f->held <= 16);
    must(search_halve(&f->search, UINT64_MAX, &f->err), f->err);
    assert_int_equal(f->held, 1);
}

TEST_F(conv_search, finalists_that_do_not_lead_are_not_checked)
{
    must(search_try(&f->search, f->all, SIDE * SIDE, UINT64_MAX, &f->err), f->err);
    unsigned before = f->checks;
    must(search_halve(&f->search, UINT64_MAX, &f->err), f->err);
    assert_int_equal(f->checks, before); /* the fastest one was checked when it became the best */
    assert_true(best(f)->checked == 64);
}

/* Tries three configs that are equally fast.  The last finalist is the best one. */
static size_t try_equal_configs(struct fixture *f)
{
    size_t two[] = { search_find(&f->search, "9,6"), search_find(&f->search, "11,5") };
    size_t last = search_find(&f->search, "13,6");
    must(search_try(&f->search, &last, 1, UINT64_MAX, &f->err), f->err);
    must(search_try(&f->search, two, 2, UINT64_MAX, &f->err), f->err);
    assert_int_equal(f->search.best, last);
    return last;
}

TEST_F(conv_search, the_best_config_stays_if_all_others_fail)
{
    f->wrong_later = "9,6";
    f->crashing_later = "11,5";
    size_t last = try_equal_configs(f);
    must(search_halve(&f->search, 1, &f->err), f->err);
    assert_int_equal(f->search.best, last);
    assert_int_equal(best(f)->place, TRIAL_HELD);
}

TEST_F(conv_search, the_best_config_stays_held_if_the_device_is_lost_in_the_last_round)
{
    f->crashing_later = "9,6";
    size_t last = try_equal_configs(f);
    f->is_lost = true;
    assert_int_equal(search_halve(&f->search, 1, &f->err), KILN_GPU_FAULT);
    assert_int_equal(f->search.best, last);
    assert_int_equal(best(f)->place, TRIAL_HELD);
}

TEST_F(conv_search, an_unchecked_config_is_never_the_best)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        search_done(&f->search);
        search_init(&f->search, &ops, f);
        f->now_ms = 0;
        f->compiles = 0;
        add_all(f);
        f->noise = seed;
        search_whole(f, seed % 2 ? 1e9 : 500);
        assert_true(best(f)->checked == 64);
        assert_false(is_wrong(f, best(f)->config));
        assert_int_equal(best(f)->place, TRIAL_HELD);
        assert_int_equal(f->held, 1);
    }
}

TEST_F(conv_search, finalists_are_not_timed_beyond_the_budget_but_for_the_last_two)
{
    must(search_try(&f->search, f->all, SIDE * SIDE, UINT64_MAX, &f->err), f->err);
    f->timed = 0;
    must(search_halve(&f->search, now_ns(f) + 1, &f->err), f->err);
    assert_int_equal(f->timed, 1 + 2);
    assert_string_equal(best(f)->config, "11,6");
    assert_int_equal(best(f)->timing.samples, 24);
    assert_int_equal(f->held, 1);
}

/* ---- failures ---- */

TEST(conv_search, a_config_that_does_not_compile_is_passed_over)
{
    struct fixture *f = *state;
    f->refused = "11,6";
    search_whole(f, 1e9);
    assert_int_equal(find(f, "11,6")->state, KILN_CONV_NOT_COMPILED);
    assert_string_equal(find(f, "11,6")->reason, "error: no such register");
    assert_true(best(f)->timing.median_ms <= 1.11);
    assert_int_equal(f->search.failed, 1);
}

TEST(conv_search, a_wrong_result_never_wins_however_fast)
{
    struct fixture *f = *state;
    f->wrong = "3,3";
    search_whole(f, 1e9);
    assert_int_equal(find(f, "3,3")->state, KILN_CONV_WRONG);
    assert_string_equal(best(f)->config, "11,6");
    assert_int_equal(find(f, "10,6")->state, KILN_CONV_TIMED);
}

TEST(conv_search, a_config_that_fails_to_run_costs_only_itself)
{
    struct fixture *f = *state;
    f->crashing = "11,6";
    search_whole(f, 1e9);
    assert_int_equal(find(f, "11,6")->state, KILN_CONV_NOT_RUN);
    assert_string_equal(find(f, "11,6")->reason, "it fell over");
    assert_int_equal(f->search.tried, SIDE * SIDE);
}

TEST_F(conv_search, a_lost_device_ends_the_search_and_is_named_with_its_config)
{
    f->crashing = "11,6";
    f->is_lost = true;
    assert_int_equal(search_try(&f->search, f->all, SIDE * SIDE, UINT64_MAX, &f->err),
                     KILN_GPU_FAULT);
    assert_says(f->err.text, "11,6");
    assert_says(f->err.text, "fell over");
}

/* The trials "10,6" and "12,6" are equally fast. The search keeps the first one that it tries, so
 * the one with the higher index is tried first. */
TEST_F(conv_search, a_device_lost_among_finalists_leaves_the_best_held)
{
    size_t a = search_find(&f->search, "10,6"), b = search_find(&f->search, "12,6");
    size_t three[] = { a > b ? a : b, a > b ? b : a, search_find(&f->search, "11,8") };
    must(search_try(&f->search, three, 3, UINT64_MAX, &f->err), f->err);
    assert_int_equal(f->search.best, three[0]);
    f->crashing_later = "11,8";
    f->is_lost = true;
    assert_int_equal(search_halve(&f->search, UINT64_MAX, &f->err), KILN_GPU_FAULT);
    assert_int_equal(best(f)->place, TRIAL_HELD);
}

TEST_F(conv_search, a_caller_can_stop_a_search)
{
    f->enough_after = 5;
    search_whole(f, 1e9);
    assert_int_equal(f->search.tried, 5);
    assert_int_not_equal(f->search.best, SIZE_MAX);
}

TEST_F(conv_search, pending_requests_are_cancelled_at_the_end_of_a_search)
{
    must(search_try(&f->search, f->all, SIDE * SIDE, 25 * MS, &f->err), f->err);
    assert_true(f->in_flight > 0);
    search_done(&f->search);
    assert_int_equal(f->clears, 1);
    assert_int_equal(f->held, 0);
}

TEST_F(conv_search, a_config_is_known_once)
{
    size_t index = SIZE_MAX, count = f->search.count;
    must(search_add(&f->search, "7,7", &index, &f->err), f->err);
    assert_int_equal(f->search.count, count);
    assert_string_equal(f->search.trials[index].config, "7,7");
    assert_int_equal(search_find(&f->search, "17,1"), SIZE_MAX);
}

TEST_F(conv_search, configs_of_another_form_are_tried_and_have_no_neighbours)
{
    static const char *const configs[] = { "", "1,,2", "a,b", "70000,1", "1,2,", "-1" };
    for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
        size_t index;
        must(search_add(&f->search, configs[i], &index, &f->err), f->err);
        assert_int_equal(f->search.trials[index].value_count, 0);
    }
}

/* ---- the journal ---- */

static struct journal_subject subject(const char *solver)
{
    return (struct journal_subject){ .version = "kiln 1",
                                     .database_id = "gfx90a68",
                                     .driver = "HIP 6",
                                     .toolchain = "hiprtc 6.0 abc",
                                     .solver = solver,
                                     .problem = "conv -n 1 -F 1" };
}

static void open_journal(struct fixture *f, const char *solver)
{
    const struct journal_subject s = subject(solver);
    must(journal_open(f->directory, &s, &f->journal, &f->err), f->err);
}

/* Continues the search like another process. */
static void begin_again_with(struct fixture *f, const struct journal_subject *s)
{
    search_done(&f->search);
    search_init(&f->search, &ops, f);
    journal_close(f->journal);
    must(journal_open(f->directory, s, &f->journal, &f->err), f->err);
    must(journal_read(f->journal, &f->search, &f->err), f->err);
}

static void begin_again(struct fixture *f, const char *solver)
{
    const struct journal_subject s = subject(solver);
    begin_again_with(f, &s);
}

TEST_F(conv_search, an_interrupted_search_resumes_from_its_journal)
{
    open_journal(f, "Conv");
    f->refused = "11,6";
    search_whole(f, 600);
    unsigned tried = f->search.tried;
    begin_again(f, "Conv");
    unsigned known = 0;
    for (size_t i = 0; i < f->search.count; i++)
        known += f->search.trials[i].place == TRIAL_DONE;
    assert_int_equal(known, tried);
    add_all(f);
    search_whole(f, 1e9);
    assert_int_equal(f->search.tried, SIDE * SIDE - tried);
}

TEST(conv_search, the_journal_returns_times_and_reasons_unchanged)
{
    struct fixture *f = *state;
    size_t two[] = { search_find(&f->search, "11,7"), search_find(&f->search, "11,6") };
    open_journal(f, "Conv");
    f->refused = "11,6";
    must(search_try(&f->search, two, 2, UINT64_MAX, &f->err), f->err);
    begin_again(f, "Conv");
    assert_int_equal(f->search.count, 2);
    assert_int_equal(find(f, "11,7")->state, KILN_CONV_TIMED);
    assert_true(fabs(find(f, "11,7")->timing.median_ms - 1.2) < 1e-6);
    assert_int_equal(find(f, "11,6")->state, KILN_CONV_NOT_COMPILED);
    assert_string_equal(find(f, "11,6")->reason, "error: no such register");
}

TEST(conv_search, a_config_that_ended_its_process_is_not_tried_again)
{
    struct fixture *f = *state;
    open_journal(f, "Conv");
    journal_begin(f->journal, "5,5");
    begin_again(f, "Conv");
    assert_int_equal(find(f, "5,5")->state, KILN_CONV_NOT_RUN);
    assert_int_equal(find(f, "5,5")->place, TRIAL_DONE);
}

TEST_F(conv_search, another_solver_or_toolchain_has_another_journal)
{
    open_journal(f, "Conv");
    journal_begin(f->journal, "5,5");
    begin_again(f, "Conv2");
    assert_int_equal(f->search.count, 0);
}

TEST_F(conv_search, another_version_of_kiln_has_another_journal)
{
    struct journal_subject newer = subject("Conv");
    newer.version = "kiln 2";
    open_journal(f, "Conv");
    journal_begin(f->journal, "5,5");
    begin_again_with(f, &newer);
    assert_int_equal(f->search.count, 0);
}

TEST(conv_search, a_finalist_with_wrong_results_is_remembered_as_wrong)
{
    struct fixture *f = *state;
    size_t two[] = { search_find(&f->search, "11,6"), search_find(&f->search, "10,6") };
    open_journal(f, "Conv");
    f->wrong_later = "10,6";
    must(search_try(&f->search, two, 2, UINT64_MAX, &f->err), f->err);
    must(search_halve(&f->search, UINT64_MAX, &f->err), f->err);
    assert_string_equal(best(f)->config, "11,6");
    begin_again(f, "Conv");
    assert_int_equal(find(f, "10,6")->state, KILN_CONV_WRONG);
}

static int open_again(const struct fixture *f, int flags)
{
    char pattern[96];
    glob_t found;
    snprintf(pattern, sizeof(pattern), "%s/*.tune", f->directory);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    int fd = open(found.gl_pathv[0], flags | O_CLOEXEC);
    globfree(&found);
    assert_true(fd >= 0);
    return fd;
}

TEST_F(conv_search, lines_after_a_truncated_line_are_read)
{
    static const char cut[] = "=\t7,7\t0\t1.5";
    open_journal(f, "Conv");
    int fd = open_again(f, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, cut, strlen(cut)), strlen(cut));
    close(fd);
    begin_again(f, "Conv");
    journal_begin(f->journal, "5,5");
    begin_again(f, "Conv");
    assert_int_equal(find(f, "5,5")->place, TRIAL_DONE);
}

/* The process that started this one lives.  Another process had its id before. */
TEST_F(conv_search, a_config_that_another_process_runs_has_not_failed)
{
    open_journal(f, "Conv");
    shell(f->directory,
          "owner=$(uname -n):%ld; start=$(sed 's/.*) //' /proc/%ld/stat | cut -d' ' -f20)\n"
          "printf '>\\t1,1\\t%%s\\n>\\t2,2\\t%%s\\n' $owner:$start $owner:1 | "
          "tee -a *.tune >/dev/null",
          (long)getppid(), (long)getppid());
    begin_again(f, "Conv");
    assert_int_equal(find(f, "1,1")->place, TRIAL_UNTRIED);
    assert_int_equal(find(f, "2,2")->state, KILN_CONV_NOT_RUN);
}

TEST_F(conv_search, a_journal_that_is_too_long_is_named)
{
    open_journal(f, "Conv");
    int fd = open_again(f, O_WRONLY);
    assert_int_equal(ftruncate(fd, (64 << 20) + 1), 0);
    close(fd);
    assert_int_equal(journal_read(f->journal, &f->search, &f->err), KILN_FULL);
    assert_says(f->err.text, f->directory);
    assert_says(f->err.text, "delete");
}

static enum kiln_code read_journal(void *context, struct kiln_err *err)
{
    struct fixture *f = context;
    return journal_read(f->journal, &f->search, err);
}

TEST_F(conv_search, a_journal_that_memory_does_not_suffice_for_is_named)
{
    char solver[300] = "";
    memset(solver, 'x', sizeof(solver) - 1);
    open_journal(f, solver);
    expect_failures(read_journal, f, FAILING("realloc", ENOMEM), KILN_NO_MEMORY, f->directory);
}

TEST_F(conv_search, damaged_lines_are_passed_over)
{
    static const char lines[] = "=\t1,1\n"
                                "=\t2,2\t99\t1\t1\t1\t\n"
                                "=\t3,3\t0\t-1\t1\t1\t\n"
                                "=\t4,4\t0\tnan\t1\t1\t\n"
                                "=\t\t0\t1\t1\t1\t\n"
                                "\n\t\t\t\t\t\t\t\t\t\n>\n=\n\xff\xfe\n"
                                "=\t6,6\t0\t1.5\t0.1\t3\n"
                                "=\t7,7\t0\t1.5\t0.";
    open_journal(f, "Conv");
    int fd = open_again(f, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, lines, strlen(lines)), strlen(lines));
    close(fd);
    begin_again(f, "Conv");
    assert_int_equal(find(f, "6,6")->place, TRIAL_DONE);
    for (size_t i = 0; i < f->search.count; i++)
        assert_true(f->search.trials[i].place == TRIAL_UNTRIED ||
                    strcmp(f->search.trials[i].config, "6,6") == 0);
}

TEST_F(conv_search, a_directory_that_was_named_and_cannot_be_used_is_said)
{
    const struct journal_subject s = subject("Conv");
    assert_int_not_equal(journal_open("/proc/nowhere", &s, &f->journal, &f->err), KILN_OK);
    assert_says(f->err.text, "journal");
    assert_null(f->journal);
}

/* Overwrites the stack below this call, so that a stale pointer into it finds wrong bytes. */
static void __attribute__((noinline)) dirty_the_stack(void)
{
    unsigned char room[16384];
    memset(room, 0xa5, sizeof(room));
    __asm__ volatile("" : : "r"(room) : "memory");
}

TEST_F(conv_search, without_a_writable_directory_there_is_no_journal)
{
    const struct journal_subject s = subject("Conv");
    setenv("XDG_STATE_HOME", "/proc/nowhere", 1);
    must(journal_open(NULL, &s, &f->journal, &f->err), f->err);
    assert_null(f->journal);
    dirty_the_stack();
    must(journal_read(f->journal, &f->search, &f->err), f->err);
    setenv("XDG_STATE_HOME", f->directory, 1);
    must(journal_open(NULL, &s, &f->journal, &f->err), f->err);
    assert_non_null(f->journal);
    unsetenv("XDG_STATE_HOME");
}
