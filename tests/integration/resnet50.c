/* SPDX-License-Identifier: MIT */
/* One host builds and signs packages without a GPU. Another host fetches them over a connection
 * that breaks, and serves every plan from them without a compiler.
 *
 * With KILN_TEST_WHOLE=1, the test takes all 69 problems of ResNet-50, whose compiles take about
 * 10 s. Otherwise it takes every twelfth problem. */
#include "tests/integration/package_site.h"
#include "tests/support/daemon_client.h"
#include "tests/support/problem_lines.h"
#include "tests/support/test_files.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define CUTS 2u
#define EVERY 12
#define PROBLEMS_MAX 256
#define CALL_MS 60000

static const struct product products[] = {
    { "gfx906_60.kdb", "gfx906", "gfx906_60" },
    { "gfx90a68.kdb", "gfx90a", "gfx90a68" },
};
#define PRODUCTS (sizeof(products) / sizeof(products[0]))

static struct site builder; /* has all files that nginx serves, and the keys and problems */
static struct kiln_problem problems[PROBLEMS_MAX];
static size_t problem_count;

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void choose_problems(void)
{
    const char *whole = getenv("KILN_TEST_WHOLE");
    bool all = whole && strcmp(whole, "1") == 0;
    shell(builder.files,
          "grep '^conv' " KILN_SOURCE "/scripts/networks/resnet50.txt | awk 'NR %% %d == 0' "
          ">problems",
          all ? 1 : EVERY);
    problem_count = problem_lines_read(site_file(&builder, "problems"), problems, PROBLEMS_MAX);
    assert_true(all ? problem_count == 69 : problem_count >= 5);
}

SET_UP_STATIC(build_all)
{
    site_open(&builder);
    choose_problems();
    site_build_all(&builder, products, PRODUCTS, test_path(builder.files, "problems"));
}

TEST_PROGRAM(build_all, NULL)

SET_UP_OF(setup, struct site)
{
    site_open(f);
    shell(f->keys, "cp '%s' .", site_file(&builder, "ops.pub"));
}

FIXTURE_OF(resnet50, struct site, setup, NULL);

/* Starts a kilnd that cannot compile. Without a hot set, it looks up each object in the
 * packages. */
static void start_without_compilers(struct site *s)
{
    static const char *const arguments[] = { "--workers", "0", "--hot-limit", "0" };
    memcpy(s->daemon.arguments + 2, arguments, sizeof(arguments));
    daemon_process_start(&s->daemon);
}

static void install_over_a_broken_line(struct site *s, const struct product *p)
{
    unsigned resumed = nginx_answers(&s->nginx, 206, 0);
    double began = seconds_now();
    cut_line_start(&s->line, s->nginx.port, CUTS, site_file_size(&builder, p->file) / 3);

    kilnctl_ok(s, "pkg", "install", site_url(s->line.script.port, p->file));

    cut_line_stop(&s->line);
    assert_says(s->result.output, "'ops'");
    assert_int_equal(s->line.cuts, 0);
    resumed = nginx_answers(&s->nginx, 206, resumed + CUTS) - resumed;
    assert_int_equal(resumed, CUTS);
    shell(s->daemon.state, "cmp packages/%s '%s' && test -z \"$(ls packages/incoming)\"", p->file,
          site_file(&builder, p->file));
    print_message("%s: %u cuts, %u resumed, installed in %.1f s\n", p->file, CUTS, resumed,
                  seconds_now() - began);
}

static int get_plan(struct kiln_client *client, const struct product *p, size_t problem,
                    struct kiln_plan **ret_plan, struct kiln_error *err)
{
    const struct kiln_plan_options options = { .size = sizeof(options),
                                               .target = p->target,
                                               .database_id = p->database_id,
                                               .timeout_ms = CALL_MS };
    return kiln_plan_get(client, &problems[problem], &options, ret_plan, err);
}

static unsigned expect_plan(struct kiln_client *client, const struct product *p, size_t problem)
{
    struct kiln_plan *plan = NULL;
    struct kiln_error err = { 0 };
    must(get_plan(client, p, problem, &plan, &err), err);
    unsigned count = kiln_plan_object_count(plan);
    assert_true(count > 0 && kiln_plan_launch_count(plan) > 0);
    for (unsigned i = 0; i < count; i++) {
        assert_true(kiln_kernel_size(kiln_plan_object(plan, i)) > 0);
        if (kiln_plan_object_tier(plan, i) != KILN_TIER_PACKAGE)
            fail_msg("%s, problem %zu, object %u: tier %d", p->file, problem, i,
                     kiln_plan_object_tier(plan, i));
    }
    kiln_plan_unref(plan);
    return count;
}

static void expect_all_plans(struct site *s, const struct product *p)
{
    unsigned long long hits = daemon_stat(&s->daemon, "hits.package");
    unsigned long long fetches = daemon_stat(&s->daemon, "fetches");
    struct kiln_client *client = daemon_client(&s->daemon);
    double from = seconds_now();
    unsigned long long objects = 0;
    for (size_t i = 0; i < problem_count; i++)
        objects += expect_plan(client, p, i);
    double took = seconds_now() - from;
    kiln_client_close(client);
    assert_int_equal(daemon_stat(&s->daemon, "fetches") - fetches, objects);
    assert_int_equal(daemon_stat(&s->daemon, "hits.package") - hits, objects);
    assert_int_equal(daemon_stat(&s->daemon, "compiles"), 0);
    assert_int_equal(daemon_stat(&s->daemon, "misses"), 0);
    print_message("%s: %zu plans, %llu objects, all from the package, 0 compiles, %.3f s\n",
                  p->file, problem_count, objects, took);
}

static void expect_no_plan(struct site *s, const struct product *p)
{
    struct kiln_client *client = daemon_client(&s->daemon);
    for (size_t i = 0; i < problem_count; i++) {
        struct kiln_plan *plan = NULL;
        struct kiln_error err = { 0 };
        assert_int_equal(get_plan(client, p, i, &plan, &err), KILN_E_UNAVAILABLE);
        assert_null(plan);
    }
    kiln_client_close(client);
}

TEST_F(resnet50, a_network_is_served_by_packages_that_came_over_a_broken_line)
{
    site_serve(f, builder.files);
    daemon_process_start(&f->daemon);
    for (size_t i = 0; i < PRODUCTS; i++)
        install_over_a_broken_line(f, &products[i]);

    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    shell(f->daemon.directory, "rm -r '%s'", f->daemon.cache);
    start_without_compilers(f);

    for (size_t i = 0; i < PRODUCTS; i++)
        expect_all_plans(f, &products[i]);
}

static void expect_refused(struct site *s, const struct product *p, int status, const char *words)
{
    char *before = describe_files(s->daemon.state);
    kilnctl_fails(s, status, words, "pkg", "install", site_url(s->nginx.port, p->file));
    expect_files(s->daemon.state, before);
    expect_no_plan(s, p);
}

static void sign_package(struct site *s, const struct product *p, const char *key)
{
    kilnctl_ok(s, "pkg", "sign", "--key", site_file(&builder, key), site_file(&builder, p->file));
}

TEST_F(resnet50, a_flipped_byte_or_a_strangers_signature_leaves_no_trace)
{
    site_serve(f, builder.files);
    start_without_compilers(f);
    for (size_t i = 0; i < PRODUCTS; i++) {
        const struct product *p = &products[i];
        site_flip_byte(&builder, p->file, site_file_size(&builder, p->file) / 2);
        expect_refused(f, p, 1, "manifest");
        site_flip_byte(&builder, p->file, site_file_size(&builder, p->file) / 2);
        sign_package(f, p, "stranger.key");
        expect_refused(f, p, 4, "key");
        sign_package(f, p, "ops.key");
    }

    for (size_t i = 0; i < PRODUCTS; i++) {
        kilnctl_ok(f, "pkg", "install", site_url(f->nginx.port, products[i].file));
        expect_all_plans(f, &products[i]);
    }
}
