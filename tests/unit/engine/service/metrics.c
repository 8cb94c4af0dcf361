/* SPDX-License-Identifier: MIT */
#include "tests/support/failing_calls.h"
#include "tests/unit/engine/service/users_fixture.h"

#include "engine/service/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_MAX 65536
#define COMPILE_S 0.005 /* what fake_executor_compile reports as a compile's duration */

/* Returns the page of metrics, valid until the next call. */
static const char *scrape(struct users *f)
{
    static char page[PAGE_MAX];
    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->admin, MESSAGE_metrics, NULL);
    snprintf(page, sizeof(page), "%s", json_get_text(answer, "text", ""));
    assert_true(strlen(page) > 1000 && strlen(page) < sizeof(page) - 1);
    return page;
}

static double number_in(const char *page, const char *sample)
{
    char start[200];
    snprintf(start, sizeof(start), "\n%s ", sample);
    const char *at = strstr(page, start);
    if (!at)
        fail_msg("there is no '%s'", sample);
    return atof(at + strlen(start));
}

static unsigned long long metric_now(struct users *f, const char *sample)
{
    return (unsigned long long)number_in(scrape(f), sample);
}

static double sum_in(const char *page, const char *start)
{
    double sum = 0;
    for (const char *line = page; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *blank = strchr(line, ' ');
        if (strncmp(line, start, strlen(start)) == 0 && blank)
            sum += atof(blank);
    }
    return sum;
}

static void assert_balanced(struct users *f)
{
    const char *page = scrape(f);
    double in_flight = number_in(page, "kiln_requests_in_flight");
    /* The request for the metrics is itself in flight. */
    assert_true(sum_in(page, "kiln_requests_total{") + in_flight ==
                f->engine.engine->stats.requests);
    double results = sum_in(page, "kiln_fetch_results_total{");
    assert_true(results == number_in(page, "kiln_fetches_total"));
    double misses = sum_in(page, "kiln_misses_total{");
    assert_true(misses == (double)f->engine.engine->stats.misses);
    double cancelled = number_in(page, "kiln_fetch_results_total{result=\"cancelled\"}");
    assert_true(sum_in(page, "kiln_lookup_duration_seconds_count{") == results - cancelled);
}

static void fetch_afresh(struct users *f, struct test_caller *c, const char *program)
{
    test_caller_forget_replies(c);
    test_caller_fetch_source(c, 7, program, PRIORITY_INTERACTIVE);
    fake_executor_run_tasks(&f->engine.executor);
}

static const struct {
    const char *name, *type;
} families[] = {
#define METRIC(name, type, labels, help) { "kiln_" #name, #type },
#include "engine/service/metrics/metrics.def"
#undef METRIC
};

/* Returns true for metrics that kilnd adds to the engine's, or that exist only with a fleet. */
static bool is_elsewhere(const char *name)
{
    static const char *const elsewhere[] = {
        "kiln_clients",
        "kiln_connections_refused_total",
        "kiln_protocol_errors_total",
        "kiln_slow_peers_closed_total",
        "kiln_config_last_reload_successful",
        "kiln_workers",
        "kiln_worker_crashes_total",
        "kiln_worker_starts_total",
        "kiln_fleet_requests_total",
        "kiln_fleet_refused_total",
        "kiln_fleet_late_total",
        "kiln_fleet_up",
        "kiln_fleet_uploads_total",
        "kiln_fleet_leases_total",
    };
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
        if (strcmp(elsewhere[i], name) == 0)
            return true;
    }
    return false;
}

TEST_F(users, every_metric_family_appears_once)
{
    const char *page = scrape(f);
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        char line[128];
        snprintf(line, sizeof(line), "# HELP %s ", families[i].name);
        const char *first = strstr(page, line);
        if (!first != is_elsewhere(families[i].name))
            fail_msg("'%s' is %sthere", families[i].name, first ? "" : "not ");
        if (first)
            assert_null(strstr(first + 1, line));
    }
}

TEST_F(users, metrics_of_the_process_come_from_the_host)
{
    assert_null(strstr(scrape(f), "kiln_clients"));
    json_destroy(test_caller_ask(&f->ann, MESSAGE_metrics, "{}"));
    test_caller_refused(&f->ann, MESSAGE_metrics, "{\"x\":1}", KILN_INVALID, "'x'");
}

TEST_F(users, build_info_has_version_and_commit)
{
    static const char start[] = "\nkiln_build_info{version=\"" KILN_VERSION "\",commit=\"";
    const char *line = strstr(scrape(f), start);
    assert_non_null(line);
    const char *commit = line + strlen(start);
    size_t size = strcspn(commit, "\"\n");
    assert_true(size > 0);
    assert_int_equal(strncmp(commit + size, "\",protocol=\"", 12), 0);
}

TEST_F(users, a_request_is_counted_with_its_result)
{
    unsigned long long listed =
        metric_now(f, "kiln_requests_total{op=\"kernel_list\",result=\"ok\"}");
    json_destroy(test_caller_ask(&f->ann, MESSAGE_kernel_list, "{}"));
    test_caller_refused(&f->ann, MESSAGE_kernel_list, "[]", KILN_INVALID, "JSON");
    /* A task refuses the first request. The second is refused without a task. */
    test_caller_refused(&f->ann, MESSAGE_kernel_show, "{\"key\":\"ab\"}", KILN_NOT_FOUND,
                        "stored kernel");
    test_caller_refused(&f->ann, MESSAGE_gc, "{}", KILN_DENIED, "administrator");

    const char *page = scrape(f);
    assert_true(number_in(page, "kiln_requests_total{op=\"kernel_list\",result=\"ok\"}") ==
                (double)listed + 1);
    assert_true(number_in(page, "kiln_requests_total{op=\"kernel_list\",result=\"invalid\"}") == 1);
    assert_true(number_in(page, "kiln_requests_total{op=\"kernel_show\",result=\"not_found\"}") ==
                1);
    assert_true(number_in(page, "kiln_requests_total{op=\"kernel_show\",result=\"ok\"}") == 0);
    assert_true(number_in(page, "kiln_requests_total{op=\"gc\",result=\"denied\"}") == 1);
    assert_balanced(f);
}

TEST_F(users, an_unknown_request_type_is_counted_as_unknown)
{
    static const unsigned types[] = { 15, 63, 64, 131, 65535 };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        test_caller_send(&f->ann, (enum message_type)types[i], 5, (struct bytes){ 0 });
    test_caller_forget_replies(&f->ann);
    assert_int_equal(metric_now(f, "kiln_requests_total{op=\"unknown\",result=\"invalid\"}"), 5);
    assert_balanced(f);
}

TEST_F(users, a_deferred_request_is_counted_when_it_ends)
{
    fetch_afresh(f, &f->ann, "slow.cl");
    const char *page = scrape(f);
    /* the fetch, and the request for the metrics */
    assert_true(number_in(page, "kiln_requests_in_flight") == 2);
    assert_true(number_in(page, "kiln_requests_total{op=\"fetch_source\",result=\"ok\"}") == 0);
    assert_true(number_in(page, "kiln_inflight_compiles") == 1);
    finish_compile(f, "the object");
    assert_int_equal(metric_now(f, "kiln_requests_total{op=\"fetch_source\",result=\"ok\"}"), 1);
    assert_balanced(f);
}

TEST_F(users, a_request_cancelled_or_left_by_its_client_counts_as_cancelled)
{
    fetch_afresh(f, &f->ann, "running.cl");
    fetch_afresh(f, &f->ann, "waiting.cl");
    test_caller_cancel(&f->ann, 7);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(metric_now(f, "kiln_requests_total{op=\"fetch_source\",result=\"cancelled\"}"),
                     1);
    assert_int_equal(metric_now(f, "kiln_requests_total{op=\"cancel\",result=\"ok\"}"), 1);
    test_caller_leave(&f->ann);
    assert_int_equal(metric_now(f, "kiln_requests_total{op=\"fetch_source\",result=\"cancelled\"}"),
                     2);
    assert_int_equal(metric_now(f, "kiln_fetch_results_total{result=\"cancelled\"}"), 2);
    finish_compile(f, "nobody wants it any more");
    test_caller_connect(&f->ann, &f->engine, 1000, ROLE_USE);
    assert_balanced(f);
}

TEST_F(undescribed, a_request_that_waits_for_a_toolchain_is_one_request)
{
    fetch_afresh(f, &f->ann, "early.cl");
    assert_int_equal(metric_now(f, "kiln_requests_in_flight"), 2);
    engine_fixture_describe(&f->engine);
    fake_executor_run_tasks(&f->engine.executor);
    finish_compile(f, "the object");
    assert_int_equal(metric_now(f, "kiln_requests_total{op=\"fetch_source\",result=\"ok\"}"), 1);
    assert_balanced(f);
}

TEST_F(users, requests_rejected_at_a_limit_are_counted)
{
    f->engine.options.queue_limit_uid = 1;
    users_reopen(f);
    fetch_afresh(f, &f->ann, "running.cl");
    fetch_afresh(f, &f->ann, "waiting.cl");
    fetch_afresh(f, &f->ann, "refused.cl");
    assert_int_equal(last_result(&f->ann).code, KILN_BUSY);
    const char *page = scrape(f);
    assert_true(number_in(page, "kiln_quota_rejections_total") == 1);
    assert_true(number_in(page, "kiln_misses_total{reason=\"refused\"}") == 1);
    finish_compile(f, "one");
    finish_compile(f, "two");
    assert_balanced(f);
}

static void prefetch(struct users *f, const char *program)
{
    test_caller_forget_replies(&f->ann);
    test_caller_fetch_source(&f->ann, 7, program, PRIORITY_PREFETCH);
    fake_executor_run_tasks(&f->engine.executor);
}

TEST_F(users, a_prefetch_counts_as_no_hit_or_miss_of_a_job)
{
    prefetch(f, "k.cl");
    finish_compile(f, "the object");
    prefetch(f, "k.cl");
    users_reopen(f);
    prefetch(f, "k.cl");
    fetch_afresh(f, &f->ann, "k.cl");
    assert_balanced(f);
    const char *page = scrape(f);
    assert_true(number_in(page, "kiln_fetch_results_total{result=\"disk\"}") == 1);
    assert_true(number_in(page, "kiln_prefetch_hits_total") == 1);
    assert_true(number_in(page, "kiln_saved_compile_seconds_total") == COMPILE_S);

    prefetch(f, "other.cl");
    finish_compile(f, "another object");
    page = scrape(f);
    assert_true(number_in(page, "kiln_misses_total{reason=\"prefetch\"}") == 1);
    assert_true(number_in(page, "kiln_misses_total{reason=\"new\"}") == 0);
    KILN_AUTO(json)
    struct json *history = test_caller_ask(&f->ann, MESSAGE_history, "{}");
    const struct json *hits = json_get(json_get(history, "current"), "hits");
    assert_int_equal(json_get_u64(history, "misses", 9), 0);
    assert_int_equal(json_get_u64(hits, "disk", 9), 0);
    assert_int_equal(json_get_u64(hits, "hot", 9), 1);
}

TEST_F(users, a_fetch_is_counted_by_the_tier_that_had_it)
{
    fetch_afresh(f, &f->ann, "k.cl");
    finish_compile(f, "the object");
    fetch_afresh(f, &f->ann, "k.cl");
    fetch_afresh(f, &f->ann, "k.cl");
    users_reopen(f);
    fetch_afresh(f, &f->ann, "k.cl");
    fetch_afresh(f, &f->ann, "k.cl");
    const char *page = scrape(f);
    assert_true(number_in(page, "kiln_fetch_results_total{result=\"disk\"}") == 1);
    assert_true(number_in(page, "kiln_fetch_results_total{result=\"hot\"}") == 1);
    assert_true(number_in(page, "kiln_lookup_duration_seconds_count{tier=\"hot\"}") == 1);
    assert_true(number_in(page, "kiln_lookup_duration_seconds_count{tier=\"disk\"}") == 1);
    assert_true(number_in(page, "kiln_saved_compile_seconds_total") == 2 * COMPILE_S);
    assert_true(number_in(page, "kiln_store_objects{tier=\"disk\",kind=\"kernels\"}") == 1);
    assert_true(number_in(page, "kiln_store_objects{tier=\"hot\",kind=\"objects\"}") == 1);
    assert_balanced(f);
}

TEST_F(users, a_fetch_is_counted_once_whichever_allocation_fails)
{
    unsigned nth = 0;
    do {
        fail_call("calloc", ++nth, ENOMEM);
        fetch_afresh(f, &f->ann, "k.cl");
        finish_compiles(f, bytes_of_text("the object"));
        assert_balanced(f);
    } while (calls_failed());
    assert_true(nth > 2);
}

TEST_F(users, every_hot_look_up_is_counted_though_few_are_timed)
{
    fetch_afresh(f, &f->ann, "k.cl");
    finish_compile(f, "the object");
    unsigned long long before = 0;
    for (unsigned i = 1; i <= 3 * HOT_TIMED_EVERY + 5; i++) {
        fetch_afresh(f, &f->ann, "k.cl");
        const char *page = scrape(f);
        assert_true(number_in(page, "kiln_lookup_duration_seconds_count{tier=\"hot\"}") == i);
        unsigned long long within = (unsigned long long)number_in(
            page, "kiln_lookup_duration_seconds_bucket{tier=\"hot\",le=\"0.000004096\"}");
        assert_true(within >= before);
        before = within;
    }
    assert_balanced(f);
}

TEST_F(users, a_compile_is_counted_with_its_compiler_and_result)
{
    fetch_afresh(f, &f->ann, "good.cl");
    finish_compile(f, "the object");
    fetch_afresh(f, &f->ann, "bad.cl");
    fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "no such thing", "line 1");
    fake_executor_run_tasks(&f->engine.executor);
    fetch_afresh(f, &f->ann, "bad.cl");
    fetch_afresh(f, &f->ann, "crash.cl");
    fake_executor_fail(&f->engine.executor, COMPILE_CRASHED, "signal 11", NULL);
    fake_executor_run_tasks(&f->engine.executor);
    const char *page = scrape(f);
    assert_true(number_in(page, "kiln_compiles_total{toolchain=\"opencl\",result=\"done\"}") == 1);
    assert_true(number_in(page, "kiln_compiles_total{toolchain=\"opencl\",result=\"refused\"}") ==
                1);
    assert_true(number_in(page, "kiln_compiles_total{toolchain=\"opencl\",result=\"crashed\"}") ==
                1);
    assert_true(number_in(page, "kiln_compile_duration_seconds_count{toolchain=\"opencl\"}") == 3);
    assert_true(number_in(page, "kiln_compile_queue_duration_seconds_count") == 3);
    assert_true(number_in(page, "kiln_misses_total{reason=\"new\"}") == 3);
    assert_true(number_in(page, "kiln_misses_total{reason=\"remembered\"}") == 1);
    assert_true(number_in(page, "kiln_compile_seconds_total") == COMPILE_S);
    assert_balanced(f);
}

TEST_F(users, evictions_are_counted_by_the_limit_that_caused_them)
{
    f->engine.options.store_limit_bytes_uid = 2000;
    users_reopen(f);
    static const char *const programs[] = { "a.cl", "b.cl", "c.cl", "d.cl" };
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        fetch_afresh(f, &f->ann, programs[i]);
        finish_compile(f, programs[i]);
    }
    const char *page = scrape(f);
    double quota = number_in(page, "kiln_evictions_total{tier=\"disk\",reason=\"quota\"}");
    double kernels = number_in(page, "kiln_store_objects{tier=\"disk\",kind=\"kernels\"}");
    assert_true(quota > 0 && quota + kernels == 4);
    assert_true(number_in(page, "kiln_evictions_total{tier=\"disk\",reason=\"limit\"}") == 0);
    json_destroy(test_caller_ask(&f->admin, MESSAGE_gc, "{\"to_bytes\":1}"));
    page = scrape(f);
    assert_true(number_in(page, "kiln_evictions_total{tier=\"disk\",reason=\"gc\"}") == kernels);
    assert_true(number_in(page, "kiln_evictions_total{tier=\"disk\",reason=\"quota\"}") == quota);
}

TEST_F(users, misses_are_counted_by_reason)
{
    const struct message_fetch m = { .key = { { 7 } } };
    SEND_MESSAGE(&f->ann, fetch, 3, &m);
    fake_executor_run_tasks(&f->engine.executor);
    const char *page = scrape(f);
    assert_true(number_in(page, "kiln_misses_total{reason=\"unknown\"}") == 1);
    assert_true(number_in(page, "kiln_requests_total{op=\"fetch\",result=\"ok\"}") == 1);
    assert_true(number_in(page, "kiln_lookup_duration_seconds_count{tier=\"none\"}") == 1);
    assert_balanced(f);
}

TEST_F(users, metrics_continue_without_a_store)
{
    static const enum kernel_store_mode modes[] = { KERNEL_STORE_OFF, KERNEL_STORE_READ_ONLY };
    for (size_t i = 0; i < 2; i++) {
        f->engine.options.store_mode = modes[i];
        users_reopen(f);
        fetch_afresh(f, &f->ann, "k.cl");
        finish_compile(f, "the object");
        fetch_afresh(f, &f->ann, "k.cl");
        const char *page = scrape(f);
        assert_true(number_in(page, "kiln_fetch_results_total{result=\"hot\"}") == 1);
        assert_true(number_in(page, "kiln_saved_compile_seconds_total") == COMPILE_S);
        assert_true(number_in(page, "kiln_store_writable") == 0);
        assert_balanced(f);
    }
}

static bool usage_fails;
WRAP(enum kiln_code, kernel_store_usage, struct kernel_store *store, struct kernel_usage *usage,
     struct kiln_err *err)
{
    return usage_fails ? kiln_fail(err, KILN_IO, "the disk is gone")
                       : __real_kernel_store_usage(store, usage, err);
}

TEST_F(users, metrics_leave_out_store_sizes_that_cannot_be_read)
{
    usage_fails = true;
    const char *page = scrape(f);
    usage_fails = false;
    assert_null(strstr(page, "tier=\"disk\",kind="));
    assert_true(number_in(page, "kiln_store_bytes{tier=\"hot\",kind=\"raw\"}") == 0);
    assert_true(number_in(page, "kiln_up") == 1);
}
