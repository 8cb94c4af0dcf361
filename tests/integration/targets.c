/* SPDX-License-Identifier: MIT */
#include "common/target/target.h"
#include "engine/compile/code_object.h"
#include "tests/support/code_object_names.h"
#include "tests/support/daemon_client.h"
#include "tests/support/problem_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEMS_MAX 128

/* Takes every 11th of the 69 problems of ResNet-50 (with KILN_TEST_WHOLE=1, every problem). 11
 * is not divisible by 3, so all three directions occur. kernels.amd_targets compiles other
 * layers. */
#define EVERY 11

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
    struct kiln_client *client;
    struct kiln_problem problems[PROBLEMS_MAX];
    size_t count;
};

SET_UP(setup)
{
    daemon_process_init(&f->daemon);
    daemon_process_start_in_whole_sandbox(&f->daemon);
    size_t count =
        problem_lines_read(KILN_SOURCE "/scripts/networks/resnet50.txt", f->problems, PROBLEMS_MAX);
    assert_int_equal(count, 69);
    const char *whole = getenv("KILN_TEST_WHOLE");
    for (size_t i = 0; i < count; i += whole && strcmp(whole, "1") == 0 ? 1 : EVERY)
        f->problems[f->count++] = f->problems[i];
    f->client = daemon_client(&f->daemon);
}

TEAR_DOWN(teardown) { kiln_client_close(f->client); }

TEST_PROGRAM(setup, teardown)

struct search {
    const char *name;
    bool found;
};

static void compare_name(void *context, struct bytes name)
{
    struct search *s = context;
    s->found |= bytes_equal_text(name, s->name);
}

struct check {
    struct target target;
    size_t good;
    char failure[1024];
};

static void fail_check(struct check *c, const char *what, const char *why)
{
    snprintf(c->failure, sizeof(c->failure), "%s: %s", what, why);
}

static bool check_launch(struct check *c, struct kiln_plan *plan, unsigned index)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct kiln_plan_launch launch = { .size = sizeof(launch) };
    assert_int_equal(kiln_plan_launch(plan, index, &launch, NULL), KILN_E_OK);
    struct kiln_kernel *kernel = kiln_plan_object(plan, launch.object);
    struct bytes object = bytes_of(kiln_kernel_data(kernel), kiln_kernel_size(kernel));
    struct search s = { .name = launch.kernel };
    if (code_object_check(object, &c->target, &err)) {
        fail_check(c, launch.kernel, err.text);
        return false;
    }
    code_object_kernels(object, &c->target, compare_name, &s);
    if (!s.found)
        fail_check(c, launch.kernel, "is not in its object");
    return s.found;
}

static void check_plan(struct check *c, struct kiln_plan *plan)
{
    unsigned good = 0, count = kiln_plan_launch_count(plan);
    while (good < count && check_launch(c, plan, good))
        good++;
    c->good += good == count;
}

static int take_plan(void *context, size_t index, struct kiln_plan *plan,
                     const struct kiln_error *err)
{
    struct check *c = context;
    (void)index;
    if (!plan)
        snprintf(c->failure, sizeof(c->failure), "%.400s %.500s", err->text, err->log);
    else
        check_plan(c, plan);
    return 0;
}

static const struct json *row_of(const struct json *toolchain, const char *target)
{
    const struct json *row = json_first(json_get(toolchain, "targets"));
    while (row && strcmp(json_get_text(row, "target", ""), target) != 0)
        row = json_next(row);
    return row;
}

static bool is_built_here(const struct json *toolchains, const char *target, char why[1024])
{
    bool works = false;
    why[0] = '\0';
    for (const struct json *j = json_first(toolchains); j; j = json_next(j)) {
        const struct json *row = row_of(j, target);
        works |= json_get_bool(row, "works", false);
        if (row && !json_get_bool(row, "works", false))
            snprintf(why, 1024, "%s: %s", json_get_text(j, "name", "?"),
                     json_get_text(row, "detail", ""));
    }
    return works;
}

/* Skips the test if the target needs NVRTC, which may be absent. All other toolchains are Debian
 * packages that the tests require. */
static void need_toolchain(struct fixture *f, const char *target)
{
    char why[1024];
    run_program(&f->daemon, &f->result, "kilnctl", "toolchain", "ls", "--probe", target, "--json",
                NULL);
    assert_int_equal(f->result.status, 0);
    KILN_AUTO(json) struct json *answer = result_json(&f->result);
    if (is_built_here(json_get(answer, "toolchains"), target, why))
        return;
    if (strncmp(target, "sm_", 3) != 0 || why[0])
        fail_msg("no toolchain here compiles %s: %s", target, why);
    SKIP("there is no NVRTC here, so nothing compiles %s", target);
}

static void build_all(struct fixture *f, const char *target)
{
    need_toolchain(f, target);
    struct check c = { .good = 0 };
    struct kiln_err err = KILN_ERR_INIT;
    must(target_parse(bytes_of_text(target), &c.target, &err), err);
    struct kiln_plan_options options = { .size = sizeof(options),
                                         .target = target,
                                         .timeout_ms = 600000 };
    const struct kiln_plan_batch batch = { .size = sizeof(batch),
                                           .problems = f->problems,
                                           .count = f->count,
                                           .options = &options,
                                           .ready = take_plan,
                                           .context = &c };
    struct kiln_error failure = { .code = 0 };
    if (kiln_plan_batch(f->client, &batch, &failure))
        fail_msg("%s: %s", target, failure.text);
    if (c.good != f->count)
        fail_msg("%s: %zu of %zu are good: %s", target, c.good, f->count, c.failure);
}

#define TARGET_TEST(name) \
    TEST(plain, resnet50_builds_for_##name) { build_all(*state, #name); }

TARGET_TEST(gfx906)
TARGET_TEST(gfx908)
TARGET_TEST(gfx90a)
TARGET_TEST(gfx942)
TARGET_TEST(gfx1030)
TARGET_TEST(gfx1100)
TARGET_TEST(gfx1201)
TARGET_TEST(sm_90)
