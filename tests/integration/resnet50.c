/* SPDX-License-Identifier: MIT */
/* One host builds and signs packages without a GPU. Another host fetches them over a connection
 * that breaks, and serves every plan from them without a compiler.
 *
 * With KILN_TEST_WHOLE=1, the test takes all 69 problems of ResNet-50, which compile for some
 * ten seconds. Otherwise it takes every twelfth problem. */
#include "tests/integration/cut_line.h"
#include "tests/integration/steps.h"
#include "tests/support/daemon_client.h"
#include "tests/support/nginx.h"
#include "tests/support/problem_lines.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define CUTS 2u
#define EVERY 12
#define PROBLEMS_MAX 256
#define URL_MAX 128
#define CALL_MS 60000

struct product {
    const char *file, *target, *database_id;
};

static const struct product products[] = {
    { "gfx906_60.kdb", "gfx906", "gfx906_60" },
    { "gfx90a68.kdb", "gfx90a", "gfx90a68" },
};
#define PRODUCTS (sizeof(products) / sizeof(products[0]))

struct site {
    struct daemon_process daemon;
    struct program_result result;
    char keys[160];
    char state[160];
};

static struct site builder; /* has all served files: packages, manifests, keys, problems */
static char files[160];
static struct kiln_problem problems[PROBLEMS_MAX];
static size_t problem_count;

struct journey {
    struct site host;
    struct nginx nginx;
    struct cut_line line;
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void open_site(struct site *s)
{
    daemon_process_init(&s->daemon);
    snprintf(s->keys, sizeof(s->keys), "%s/keys", s->daemon.directory);
    snprintf(s->state, sizeof(s->state), "%s", s->daemon.state);
    assert_int_equal(mkdir(s->keys, 0700), 0);
    s->daemon.arguments[0] = "--trusted-keys";
    s->daemon.arguments[1] = s->keys;
}

static const char *path_of_file(const char *name)
{
    static char paths[3][256];
    static unsigned next;
    char *path = paths[next++ % 3];
    snprintf(path, sizeof(paths[0]), "%s/%s", files, name);
    return path;
}

static size_t size_of(const char *name)
{
    struct stat seen;
    assert_int_equal(stat(path_of_file(name), &seen), 0);
    return (size_t)seen.st_size;
}

static void choose_problems(void)
{
    const char *whole = getenv("KILN_TEST_WHOLE");
    bool all = whole && strcmp(whole, "1") == 0;
    shell(files,
          "grep '^conv' " KILN_SOURCE "/scripts/networks/resnet50.txt | awk 'NR %% %d == 0' "
          ">problems",
          all ? 1 : EVERY);
    problem_count = problem_lines_read(path_of_file("problems"), problems, PROBLEMS_MAX);
    assert_true(all ? problem_count == 69 : problem_count >= 5);
}

static void build_package(const struct product *p)
{
    double from = seconds_now();
    kilnctl_ok(&builder, "pkg", "build", "--target", p->target, "--db-id", p->database_id,
               "--problems", path_of_file("problems"), "--output", path_of_file(p->file), "--key",
               path_of_file("ops.key"), "--json");
    KILN_AUTO(json) struct json *built = printed_json(&builder.result);
    unsigned long long kernels = json_get_u64(json_get(built, "package"), "kernels", 0);
    assert_true(kernels > 0);
    print_message("%s: %zu problems, %llu kernels, %zu bytes, built in %.1f s\n", p->file,
                  problem_count, kernels, size_of(p->file), seconds_now() - from);
}

SET_UP_STATIC(build_all)
{
    open_site(&builder);
    snprintf(files, sizeof(files), "%s/files", builder.daemon.directory);
    assert_int_equal(mkdir(files, 0755), 0);
    choose_problems();
    daemon_process_start(&builder.daemon);
    kilnctl_ok(&builder, "pkg", "keygen", "ops", "--directory", files);
    kilnctl_ok(&builder, "pkg", "keygen", "stranger", "--directory", files);
    for (size_t i = 0; i < PRODUCTS; i++)
        build_package(&products[i]);
    assert_int_equal(daemon_process_stop(&builder.daemon), 0);
}

TEST_PROGRAM(build_all, NULL)

SET_UP_OF(setup, struct journey)
{
    open_site(&f->host);
    shell(f->host.keys, "cp '%s' .", path_of_file("ops.pub"));
}

FIXTURE(resnet50, setup, NULL);

static void serve_files(struct journey *j)
{
    SKIP_IF(!nginx_start(&j->nginx, j->host.daemon.directory, files, NULL, NULL), "no nginx here");
}

static const char *url_of(uint16_t port, const char *name, char text[URL_MAX])
{
    snprintf(text, URL_MAX, "http://127.0.0.1:%u/%s", port, name);
    return text;
}

/* Without a hot set, kilnd looks each object up. */
static void start_without_compilers(struct site *s)
{
    static const char *const arguments[] = { "--workers", "0", "--hot-limit", "0" };
    memcpy(s->daemon.arguments + 2, arguments, sizeof(arguments));
    daemon_process_start(&s->daemon);
}

static void install_over_a_broken_line(struct journey *j, const struct product *p)
{
    char from[URL_MAX];
    unsigned resumed = nginx_answers(&j->nginx, 206, 0);
    double began = seconds_now();
    cut_line_start(&j->line, j->nginx.port, CUTS, size_of(p->file) / 3);

    kilnctl_ok(&j->host, "pkg", "install", url_of(j->line.script.port, p->file, from));

    cut_line_stop(&j->line);
    assert_says(j->host.result.output, "'ops'");
    assert_int_equal(j->line.cuts, 0);
    resumed = nginx_answers(&j->nginx, 206, resumed + CUTS) - resumed;
    assert_int_equal(resumed, CUTS);
    shell(j->host.state, "cmp packages/%s '%s' && test -z \"$(ls packages/incoming)\"", p->file,
          path_of_file(p->file));
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

TEST(resnet50, a_network_is_served_by_packages_that_came_over_a_broken_line)
{
    struct journey *j = *state;
    serve_files(j);
    daemon_process_start(&j->host.daemon);
    for (size_t i = 0; i < PRODUCTS; i++)
        install_over_a_broken_line(j, &products[i]);

    assert_int_equal(daemon_process_stop(&j->host.daemon), 0);
    shell(j->host.daemon.directory, "rm -r '%s'", j->host.daemon.cache);
    start_without_compilers(&j->host);

    for (size_t i = 0; i < PRODUCTS; i++)
        expect_all_plans(&j->host, &products[i]);
}

static void flip_byte(const char *name, size_t at)
{
    FILE *target = fopen(path_of_file(name), "r+e");
    assert_non_null(target);
    assert_int_equal(fseek(target, (long)at, SEEK_SET), 0);
    int byte = fgetc(target);
    assert_true(byte != EOF);
    assert_int_equal(fseek(target, (long)at, SEEK_SET), 0);
    assert_true(fputc(byte ^ 1, target) != EOF);
    assert_int_equal(fclose(target), 0);
}

static void expect_refused(struct journey *j, const struct product *p, int status,
                           const char *words)
{
    char from[URL_MAX];
    char *before = describe_files(j->host.state);
    kilnctl_fails(&j->host, status, words, "pkg", "install", url_of(j->nginx.port, p->file, from));
    expect_files(j->host.state, before);
    expect_no_plan(&j->host, p);
}

static void sign_package(struct journey *j, const struct product *p, const char *key)
{
    kilnctl_ok(&j->host, "pkg", "sign", "--key", path_of_file(key), path_of_file(p->file));
}

TEST(resnet50, a_flipped_byte_or_a_strangers_signature_leaves_no_trace)
{
    struct journey *j = *state;
    char from[URL_MAX];
    serve_files(j);
    start_without_compilers(&j->host);
    for (size_t i = 0; i < PRODUCTS; i++) {
        const struct product *p = &products[i];
        flip_byte(p->file, size_of(p->file) / 2);
        expect_refused(j, p, 1, "manifest");
        flip_byte(p->file, size_of(p->file) / 2);
        sign_package(j, p, "stranger.key");
        expect_refused(j, p, 4, "key");
        sign_package(j, p, "ops.key");
    }

    for (size_t i = 0; i < PRODUCTS; i++) {
        kilnctl_ok(&j->host, "pkg", "install", url_of(j->nginx.port, products[i].file, from));
        expect_all_plans(&j->host, &products[i]);
    }
}
