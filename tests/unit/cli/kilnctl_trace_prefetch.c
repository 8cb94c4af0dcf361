/* SPDX-License-Identifier: MIT */

#include "cli/kilnctl/trace_job.h"
#include "tests/unit/cli/kilnctl_run.h"
#include "tests/unit/cli/scratch_directory.h"

#include "common/base/fs.h"

#include <kiln/admin.h>
#include <kiln/plan.h>

#include <string.h>
#include <sys/stat.h>

#define PLANS_MAX 512

/* A fake kilnd. The first request for a problem compiles its kernel, and later requests find the
 * kernel. */
static struct fake {
    struct {
        char target[64], database_id[64], toolchain[64], solver[64];
        uint32_t n;
    } asked[PLANS_MAX];
    unsigned count, compiles, batches;
    uint32_t stored[PLANS_MAX]; /* batch sizes of the problems whose kernels are stored */
    unsigned stored_count;
    unsigned slow_after; /* number of requested plans after which the clock jumps by an hour */
    unsigned dies_after; /* number of requested plans after which kilnd does not answer */
    uint32_t refused;    /* the batch size for which no plan exists */
    bool is_stuck;       /* kiln_plan_get and kiln_kernel_fetch_batch reach their time-outs */
    const char *bad_target;
} fake;

static uint64_t now_ns = 1000000000u; /* time passes only when a test says so */

uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void) { return now_ns; }

int kiln_admin(struct kiln_client *client, const struct kiln_admin_call *call, char **ret_json,
               struct kiln_error *err)
{
    (void)client;
    if (strcmp(call->request, "toolchains") != 0) {
        *ret_json = strdup("{}");
        return KILN_E_OK;
    }
    if (fake.bad_target && call->json && strstr(call->json, fake.bad_target)) {
        *err = (struct kiln_error){ .code = KILN_E_INVALID, .text = "that is no target" };
        return KILN_E_INVALID;
    }
    *ret_json = strdup("{\"toolchains\":[{\"name\":\"clang\",\"targets\":[{\"target\":\"gfx90a\","
                       "\"works\":true},{\"target\":\"gfx942\",\"works\":true}]}]}");
    return KILN_E_OK;
}

void kiln_free(void *pointer) { free(pointer); }

struct kiln_plan {
    char key[65];
    int tier;
};

static int find_or_make(uint32_t n)
{
    for (unsigned i = 0; i < fake.stored_count; i++)
        if (fake.stored[i] == n)
            return KILN_TIER_DISK;
    fake.stored[fake.stored_count++] = n;
    fake.compiles++;
    return KILN_TIER_COMPILED;
}

static void key_of(uint32_t n, char key[65]) { snprintf(key, 65, "%064x", n); }

static void note_request(const struct kiln_problem *problem, const struct kiln_plan_options *o)
{
    snprintf(fake.asked[fake.count].target, 64, "%s", o->target);
    snprintf(fake.asked[fake.count].database_id, 64, "%s", o->database_id ? o->database_id : "");
    snprintf(fake.asked[fake.count].toolchain, 64, "%s", o->toolchain ? o->toolchain : "");
    snprintf(fake.asked[fake.count].solver, 64, "%s", o->solver ? o->solver : "");
    fake.asked[fake.count++].n = problem->n;
    if (fake.count == fake.slow_after)
        now_ns += 3600000000000u;
}

static int answer_problem(const struct kiln_problem *problem, struct kiln_plan *plan,
                          struct kiln_error *err)
{
    *err = (struct kiln_error){ .code = KILN_E_UNSUPPORTED, .text = "no solver applies" };
    if (problem->n == fake.refused)
        return KILN_E_UNSUPPORTED;
    key_of(problem->n, plan->key);
    plan->tier = find_or_make(problem->n);
    return KILN_E_OK;
}

static int fail_gone(struct kiln_error *err)
{
    *err = (struct kiln_error){ .code = KILN_E_UNAVAILABLE, .text = "no kilnd" };
    return KILN_E_UNAVAILABLE;
}

int kiln_plan_batch(struct kiln_client *client, const struct kiln_plan_batch *batch,
                    struct kiln_error *err)
{
    (void)client;
    fake.batches++;
    for (size_t i = 0; i < batch->count; i++) {
        struct kiln_plan plan = { .key = "" };
        struct kiln_error why = { 0 };
        if (fake.dies_after && fake.count == fake.dies_after)
            return fail_gone(err);
        note_request(&batch->problems[i], batch->options);
        bool is_fine = answer_problem(&batch->problems[i], &plan, &why) == KILN_E_OK;
        if (!batch->ready(batch->context, i, is_fine ? &plan : NULL, is_fine ? NULL : &why))
            continue;
        *err = (struct kiln_error){ .code = KILN_E_CANCELLED, .text = "stopped" };
        return KILN_E_CANCELLED;
    }
    return KILN_E_OK;
}

static int wait_in_vain(int timeout_ms, struct kiln_error *err)
{
    now_ns += (uint64_t)timeout_ms * 1000000u;
    *err = (struct kiln_error){ .code = KILN_E_TIMED_OUT, .text = "no answer" };
    return KILN_E_TIMED_OUT;
}

int kiln_plan_get(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_plan_options *options, struct kiln_plan **ret_plan,
                  struct kiln_error *err)
{
    (void)client;
    if (fake.is_stuck)
        return wait_in_vain(options->timeout_ms, err);
    if (fake.bad_target && strcmp(options->target, fake.bad_target) == 0)
        return KILN_E_INVALID;
    struct kiln_plan *plan = calloc(1, sizeof(*plan));
    assert_non_null(plan);
    note_request(problem, options);
    int rc = answer_problem(problem, plan, err);
    if (rc)
        free(plan);
    else
        *ret_plan = plan;
    return rc;
}

void kiln_plan_unref(struct kiln_plan *plan) { free(plan); }
unsigned kiln_plan_object_count(const struct kiln_plan *plan) { return plan ? 1 : 0; }
const char *kiln_plan_object_key(const struct kiln_plan *plan, unsigned index)
{
    (void)index;
    return plan->key;
}
int kiln_plan_object_tier(const struct kiln_plan *plan, unsigned index)
{
    (void)index;
    return plan->tier;
}
uint64_t kiln_plan_object_compile_ns(const struct kiln_plan *plan, unsigned index)
{
    (void)plan, (void)index;
    return 2000000;
}

struct kiln_kernel {
    const char *key;
};

int kiln_kernel_fetch_batch(struct kiln_client *client, const struct kiln_kernel_batch *batch,
                            struct kiln_error *err)
{
    (void)client;
    if (fake.is_stuck)
        return wait_in_vain(batch->timeout_ms, err);
    for (size_t i = 0; i < batch->count; i++) {
        struct kiln_kernel kernel = { .key = batch->keys[i] };
        const struct kiln_error why = { .code = KILN_E_NOT_FOUND };
        bool is_stored = batch->keys[i][0] == 'a';
        if (batch->ready(batch->context, i, is_stored ? &kernel : NULL, is_stored ? NULL : &why))
            return KILN_E_CANCELLED;
    }
    return KILN_E_OK;
}
int kiln_kernel_tier(const struct kiln_kernel *kernel)
{
    (void)kernel;
    return KILN_TIER_DISK;
}
const char *kiln_kernel_key(const struct kiln_kernel *kernel) { return kernel->key; }

#define HEAD(start) "kiln-trace 1\nprocess " start " node7 42 libkiln 1\n"
#define CONV(n) "conv -n " #n " -c 8 -k 8 -F 1\n"
#define PLAN(wanted, n) "plan " wanted " 900 compiled gfx90a gfx90a68 - - " CONV(n)
#define DIGITS "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

struct fixture {
    struct command_run run;
    const char *home;
    char directory[128]; /* the trace directory of the job "net" */
};

SET_UP(set_up)
{
    struct kiln_err err = KILN_ERR_INIT;
    fake = (struct fake){ 0 };
    f->home = test_directory();
    f->run.common.json = true;
    test_setenv("HOME", f->home);
    test_setenv("XDG_CACHE_HOME", NULL);
    snprintf(f->directory, sizeof(f->directory), "%.80s/.cache/kiln/traces/net", f->home);
    must(fs_make_directories_mode(f->directory, 0700, &err), err);
}

FIXTURE(kilnctl_trace_prefetch, set_up, NULL);

static void write_trace(const struct fixture *f, const char *name, const char *text)
{
    scratch_write(f->directory, name, text);
}

static void write_three(const struct fixture *f)
{
    write_trace(f, "1000000000-node7-42.trace",
                HEAD("1000000000000000") PLAN("300", 3) PLAN("100", 1) PLAN("200", 2));
}

TEST_F(kilnctl_trace_prefetch, plans_are_requested_in_the_order_of_first_use)
{
    write_three(f);
    must(RUN(&f->run, "trace", "prefetch", "net"), f->run.err);
    assert_int_equal(fake.count, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(fake.asked[i].n, i + 1);
    assert_string_equal(fake.asked[0].target, "gfx90a");
    assert_string_equal(fake.asked[0].database_id, "gfx90a68");
    assert_says(f->run.printed, "\"problems\":3");
    assert_says(f->run.printed, "\"compiles\":3");
    assert_says(f->run.printed, "\"failed\":0");
    assert_says(f->run.printed, "\"left\":0");
}

/* A find requests the plans of all solvers for one layer before those for the next layer. */
TEST_F(kilnctl_trace_prefetch, a_budget_is_spent_on_all_solvers_of_the_first_layers)
{
    static const char *const solvers[] = { "Gemm", "Naive", "Winograd" };
    char text[50000] = HEAD("1000000000000000");
    size_t used = strlen(text);
    for (unsigned i = 0; i < 300; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "plan %u 2 hot gfx90a - - %s conv -n %u -c 8 -k 8 -F 1\n", i,
                                 solvers[i % 3], 1 + i / 3);
    write_trace(f, "1000000000-node7-42.trace", text);
    fake.slow_after = 64;
    must(RUN(&f->run, "trace", "prefetch", "net", "--budget", "60s"), f->run.err);
    assert_int_equal(fake.count, 64);
    for (unsigned i = 0; i < 64; i++)
        assert_true(fake.asked[i].n <= 22);
    assert_says(f->run.printed, "\"problems\":300");
    assert_says(f->run.printed, "\"left\":236");
}

TEST_F(kilnctl_trace_prefetch, another_target_gets_neither_the_id_nor_the_compiler_of_the_first)
{
    write_trace(f, "1000000000-node7-42.trace",
                HEAD("1000000000000000") "plan 1 2 hot gfx90a gfx90a68 hiprtc Naive " CONV(1));
    must(RUN(&f->run, "trace", "prefetch", "net", "--target", "gfx942"), f->run.err);
    assert_string_equal(fake.asked[0].target, "gfx942");
    assert_string_equal(fake.asked[0].database_id, "");
    assert_string_equal(fake.asked[0].toolchain, "");
    assert_string_equal(fake.asked[0].solver, "Naive");
    must(RUN(&f->run, "trace", "prefetch", "net", "--target", "gfx942", "--db-id", "gfx942130"),
         f->run.err);
    assert_string_equal(fake.asked[1].database_id, "gfx942130");
}

/* The second half of the trace is the first half on another GPU. */
TEST_F(kilnctl_trace_prefetch, another_target_makes_repeated_problems_one)
{
    char text[50000] = HEAD("1000000000000000");
    size_t used = strlen(text);
    for (unsigned i = 0; i < 200; i++)
        used += (size_t)snprintf(
            text + used, sizeof(text) - used, "plan %u 2 hot %s - - %s conv -n %u -c 8 -k 8 -F 1\n",
            i, i < 100 ? "gfx90a" : "gfx942", i % 2 ? "Gemm" : "Naive", 1 + i % 100);
    write_trace(f, "1000000000-node7-42.trace", text);
    must(RUN(&f->run, "trace", "prefetch", "net", "--target", "gfx942"), f->run.err);
    assert_int_equal(fake.count, 100);
    assert_says(f->run.printed, "\"problems\":100");
}

TEST_F(kilnctl_trace_prefetch, another_batch_size_makes_repeated_problems_one)
{
    write_three(f);
    must(RUN(&f->run, "trace", "prefetch", "net", "--batch", "64"), f->run.err);
    assert_int_equal(fake.count, 1);
    assert_int_equal(fake.asked[0].n, 64);
    assert_says(f->run.printed, "\"problems\":1");
}

TEST_F(kilnctl_trace_prefetch, a_budget_stops_it_and_the_next_one_goes_on)
{
    write_three(f);
    fake.slow_after = 2;
    must(RUN(&f->run, "trace", "prefetch", "net", "--budget", "60s"), f->run.err);
    assert_int_equal(fake.count, 2);
    assert_says(f->run.printed, "\"problems\":3");
    assert_says(f->run.printed, "\"compiles\":2");
    assert_says(f->run.printed, "\"left\":1");

    must(RUN(&f->run, "trace", "prefetch", "net"), f->run.err);
    assert_says(f->run.printed, "\"compiles\":1");
    assert_says(f->run.printed, "\"left\":0");
    assert_int_equal(fake.compiles, 3);
}

TEST_F(kilnctl_trace_prefetch, a_budget_ends_a_wait_for_a_single_plan_and_for_kernels)
{
    const uint64_t before = now_ns, minute = 60000000000u;
    fake.is_stuck = true;
    write_trace(f, "1000000000-node7-42.trace",
                HEAD("1000000000000000") "plan 1 2 hot gfx1030 - - - " CONV(1));
    must(RUN(&f->run, "trace", "prefetch", "net", "--budget", "60s"), f->run.err);
    assert_says(f->run.printed, "\"left\":1");
    write_trace(f, "1000000000-node7-42.trace",
                HEAD("1000000000000000") "kernel 1 2 hot 0 gfx90a " DIGITS "01\n");
    must(RUN(&f->run, "trace", "prefetch", "net", "--budget", "60s"), f->run.err);
    assert_says(f->run.printed, "\"keys\":1,\"keys_ready\":0,\"keys_missing\":0");
    assert_true(now_ns - before >= 2 * minute && now_ns - before <= 3 * minute);
}

TEST_F(kilnctl_trace_prefetch, a_problem_that_fails_does_not_stop_the_others)
{
    write_three(f);
    fake.refused = 2;
    assert_int_equal(RUN(&f->run, "trace", "prefetch", "net"), KILN_E_COMPILE_FAILED);
    assert_int_equal(fake.count, 3);
    assert_says(f->run.printed, "\"kernels\":2");
    assert_says(f->run.printed, "\"failed\":1");
    assert_says(f->run.printed, "no solver");
}

TEST_F(kilnctl_trace_prefetch, a_target_without_a_compiler_fails_its_problems_only)
{
    write_trace(f, "1000000000-node7-42.trace",
                HEAD("1000000000000000") "plan 1 2 hot nonsense - - - " CONV(7) PLAN("2", 1)
                    PLAN("3", 2));
    fake.bad_target = "nonsense";
    assert_int_equal(RUN(&f->run, "trace", "prefetch", "net"), KILN_E_COMPILE_FAILED);
    assert_int_equal(fake.count, 2);
    assert_says(f->run.printed, "\"problems\":3");
    assert_says(f->run.printed, "\"failed\":1");
}

TEST_F(kilnctl_trace_prefetch, kernels_without_a_source_are_looked_up)
{
    write_trace(f, "1000000000-node7-42.trace",
                HEAD("1000000000000000") "kernel 1 2 hot 0 gfx90a " DIGITS "01\n"
                                         "kernel 1 2 hot 0 - b" DIGITS "1\n");
    assert_int_equal(RUN(&f->run, "trace", "prefetch", "net"), KILN_E_COMPILE_FAILED);
    assert_says(f->run.printed, "\"keys\":2,\"keys_ready\":1,\"keys_missing\":1");
    must(RUN(&f->run, "trace", "prefetch", "net", "--batch", "2"), f->run.err);
    assert_says(f->run.printed, "\"keys\":0");
    assert_says(f->run.printed, "\"keys_of_other_targets\":2");
}

TEST_F(kilnctl_trace_prefetch, plans_that_cannot_be_read_are_counted)
{
    write_trace(f, "1000000000-node7-42.trace",
                HEAD("1000000000000000") PLAN("1", 1) "plan 1 2 hot gfx90a - - - conv -n 0 -F 1\n"
                                                      "plan 1 2 hot gfx90a - - - pool -n 1\n"
                                                      "plan 1 2 hot gfx90a - - - conv -n 1 -F 0\n");
    must(RUN(&f->run, "trace", "prefetch", "net"), f->run.err);
    assert_int_equal(fake.count, 1);
    assert_says(f->run.printed, "\"unreadable\":3");
}

/* Each line has another target. */
TEST_F(kilnctl_trace_prefetch, a_hostile_trace_gets_no_request_for_each_of_its_lines)
{
    char text[50000] = HEAD("1000000000000000");
    size_t used = strlen(text);
    for (unsigned i = 0; i < 300; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "plan 1 2 hot sm_%u - - - " CONV(1), i);
    write_trace(f, "1000000000-node7-42.trace", text);
    must(RUN(&f->run, "trace", "prefetch", "net"), f->run.err);
    assert_int_equal(fake.count, 256);
    assert_says(f->run.printed, "\"unreadable\":44");
}

/* The traces may be in a directory in which kilnctl cannot or must not write. */
TEST_F(kilnctl_trace_prefetch, a_prefetch_without_a_record_prefetches)
{
    write_three(f);
    assert_int_equal(chmod(f->directory, 0770), 0); /* in which kilnctl writes nothing */
    must(RUN(&f->run, "trace", "prefetch", "net"), f->run.err);
    assert_int_equal(fake.count, 3);
}

/* ---- the report after the job ---- */

static unsigned long long number(const struct fixture *f, const char *name)
{
    char word[64];
    snprintf(word, sizeof(word), "\"%s\":", name);
    const char *at = strstr(f->run.printed, word);
    if (!at)
        fail_msg("'%s' has no '%s'", f->run.printed, name);
    return strtoull(at + strlen(word), NULL, 10);
}

static void expect_sums(const struct fixture *f)
{
    assert_int_equal(number(f, "used") + number(f, "lost") + number(f, "unused"),
                     number(f, "fetched"));
    assert_int_equal(number(f, "used") + number(f, "missing"), number(f, "needed"));
    assert_int_equal(number(f, "missing_compiled") + number(f, "missing_found") +
                         number(f, "missing_failed"),
                     number(f, "missing"));
}

static void run_job(const struct fixture *f, const char *name, const char *start,
                    const char *objects)
{
    char text[1024];
    snprintf(text, sizeof(text), "kiln-trace 1\nprocess %s node7 43 libkiln 1\n%s%s", start,
             PLAN("5", 2), objects);
    write_trace(f, name, text);
}

#define OBJECT(tier, digits) \
    "object " tier " 1 00000000000000000000000000000000000000000000000000000000000000" digits "\n"
#define LATER "9000000000000000" /* later than the time of the real clock */

TEST_F(kilnctl_trace_prefetch, used_fetched_and_missing_add_up)
{
    write_three(f);
    must(RUN(&f->run, "trace", "prefetch", "net"), f->run.err);
    run_job(f, "9000000000-node7-43.trace", LATER,
            OBJECT("hot", "02") OBJECT("disk", "03") OBJECT("compiled", "11") OBJECT("disk", "12"));
    must(RUN(&f->run, "trace", "prefetch", "net", "--report"), f->run.err);
    assert_int_equal(number(f, "fetched"), 3);
    assert_int_equal(number(f, "used"), 2);
    assert_int_equal(number(f, "needed"), 4);
    assert_int_equal(number(f, "missing_compiled"), 1);
    assert_int_equal(number(f, "missing_found"), 1);
    expect_sums(f);
}

TEST_F(kilnctl_trace_prefetch, a_fetched_kernel_that_the_job_waited_for_counts_as_lost)
{
    write_three(f);
    must(RUN(&f->run, "trace", "prefetch", "net"), f->run.err);
    run_job(f, "9000000000-node7-43.trace", LATER,
            OBJECT("hot", "01") OBJECT("compiled", "02") OBJECT("failed", "03"));
    must(RUN(&f->run, "trace", "prefetch", "net", "--report"), f->run.err);
    assert_int_equal(number(f, "used"), 1);
    assert_int_equal(number(f, "lost"), 2);
    assert_int_equal(number(f, "missing_compiled"), 1);
    assert_int_equal(number(f, "missing_failed"), 1);
    expect_sums(f);
}

TEST_F(kilnctl_trace_prefetch, a_prefetch_that_was_killed_counts_with_the_one_that_went_on)
{
    write_three(f);
    fake.dies_after = 2;
    assert_int_equal(RUN(&f->run, "trace", "prefetch", "net"), KILN_E_UNAVAILABLE);
    fake.dies_after = 0;
    must(RUN(&f->run, "trace", "prefetch", "net", "--budget", "1h"), f->run.err);
    run_job(f, "9000000000-node7-43.trace", LATER, OBJECT("hot", "01") OBJECT("hot", "03"));
    run_job(f, "9000000000-node7-44.trace", LATER, OBJECT("hot", "02") OBJECT("hot", "03"));
    must(RUN(&f->run, "trace", "prefetch", "net", "--report"), f->run.err);
    assert_int_equal(number(f, "processes"), 2);
    assert_int_equal(number(f, "fetched"), 3);
    assert_int_equal(number(f, "used"), 3);
    assert_int_equal(number(f, "missing"), 0);
    expect_sums(f);
}

TEST_F(kilnctl_trace_prefetch, without_a_job_since_the_prefetch_there_is_no_report)
{
    write_three(f);
    assert_int_equal(RUN(&f->run, "trace", "prefetch", "net", "--report"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "no prefetch of the job 'net'");
    must(RUN(&f->run, "trace", "prefetch", "net"), f->run.err);
    assert_int_equal(RUN(&f->run, "trace", "prefetch", "net", "--report"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "prefetch");
    assert_int_equal(RUN(&f->run, "trace", "prefetch", "net", "--report", "--budget", "1s"),
                     KILN_E_INVALID);
}
