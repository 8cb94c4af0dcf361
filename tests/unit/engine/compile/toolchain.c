/* SPDX-License-Identifier: MIT */
#include "engine/compile/toolchain.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#define ID_1 "1111111111111111111111111111111111111111111111111111111111111111"
#define ID_2 "2222222222222222222222222222222222222222222222222222222222222222"
#define ROW(name, family, id, only)                                                        \
    "{\"name\":\"" name "\",\"family\":\"" family "\",\"version\":\"v1\",\"path\":\"/x\"," \
    "\"identity\":\"" id "\",\"only_target\":\"" only "\"}"
#define DESCRIPTION(rows) "{\"toolchains\":[" rows "],\"absent\":[]}"
#define CLANG ROW("clang", "amdgpu", ID_1, "")
#define HIPRTC ROW("hiprtc", "amdgpu", ID_2, "")
#define OPENCL ROW("opencl", "opencl", ID_1, "opencl:cpu")

struct fixture {
    struct toolchain_table *table;
    struct kiln_err err;
};

SET_UP(make_table) { must(toolchain_table_create(&f->table, &f->err), f->err); }

TEAR_DOWN(free_table) { toolchain_table_destroy(f->table); }

FIXTURE(table, make_table, free_table);

static enum kiln_code describe(struct fixture *f, const char *json)
{
    return toolchain_table_describe(f->table, bytes_of_text(json), &f->err);
}

static struct target target_of(const char *text)
{
    struct target t;
    struct kiln_err err = KILN_ERR_INIT;
    must(target_parse(bytes_of_text(text), &t, &err), err);
    return t;
}

static enum kiln_code choose(struct fixture *f, const char *target, const char *forced,
                             const char **ret_name)
{
    struct target t = target_of(target);
    const struct toolchain *tc = NULL;
    enum kiln_code rc = toolchain_choose(f->table, &t, bytes_of_text(forced), &tc, &f->err);
    *ret_name = tc ? tc->name : "";
    return rc;
}

static void learn(struct fixture *f, const char *toolchain, const char *target,
                  enum probe_state state, const char *detail)
{
    struct target t = target_of(target);
    const struct toolchain *tc = toolchain_table_find(f->table, bytes_of_text(toolchain));
    assert_non_null(tc);
    toolchain_probe_learn(f->table, tc, &t, state, detail);
}

TEST_F(table, reads_what_a_worker_describes)
{
    must(describe(f, DESCRIPTION(HIPRTC "," OPENCL)), f->err);
    assert_int_equal(toolchain_table_count(f->table), 2);
    const struct toolchain *tc = toolchain_table_at(f->table, 1);
    assert_string_equal(tc->name, "opencl");
    assert_int_equal(tc->family, TARGET_OPENCL);
    assert_string_equal(tc->only_target, "opencl:cpu");
    assert_int_equal(tc->identity.bytes[31], 0x11);
    assert_null(toolchain_table_at(f->table, 2));
    assert_null(toolchain_table_find(f->table, bytes_of_text("nvrtc")));
}

TEST_F(table, a_bad_description_leaves_the_table_as_it_was)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{\"toolchains\":3}",
        DESCRIPTION(ROW("", "amdgpu", ID_1, "")),
        DESCRIPTION(ROW("UP", "amdgpu", ID_1, "")),
        DESCRIPTION(ROW("averyverylongname", "amdgpu", ID_1, "")),
        DESCRIPTION(ROW("clang", "intel", ID_1, "")),
        DESCRIPTION(ROW("clang", "amdgpu", "12", "")),
        DESCRIPTION(ROW("clang", "amdgpu", ID_1, "sm_90")),
        DESCRIPTION(ROW("clang", "amdgpu", ID_1, "what is this")),
        DESCRIPTION(CLANG "," CLANG),
        DESCRIPTION("3"),
    };
    must(describe(f, DESCRIPTION(CLANG)), f->err);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        f->err = KILN_ERR_INIT;
        assert_int_not_equal(describe(f, bad[i]), KILN_OK);
        assert_string_not_equal(f->err.text, "");
        assert_int_equal(toolchain_table_count(f->table), 1);
    }
}

TEST_F(table, more_toolchains_than_there_can_be_are_refused)
{
    char json[4096] = "{\"toolchains\":[";
    for (int i = 0; i <= TOOLCHAINS_MAX; i++) {
        size_t used = strlen(json);
        snprintf(json + used, sizeof(json) - used,
                 "%s{\"name\":\"t%d\",\"family\":\"amdgpu\",\"identity\":\"" ID_1 "\"}",
                 i ? "," : "", i);
    }
    strcat(json, "]}");
    assert_int_equal(describe(f, json), KILN_INVALID);
    assert_says(f->err.text, "than 8");
}

TEST_F(table, an_unprobed_toolchain_must_be_probed_first)
{
    const char *name;
    must(describe(f, DESCRIPTION(CLANG "," HIPRTC)), f->err);
    assert_int_equal(choose(f, "gfx942", "", &name), KILN_BUSY);
    assert_string_equal(name, "hiprtc");
}

TEST_F(table, hiprtc_is_preferred_where_both_work)
{
    const char *name;
    must(describe(f, DESCRIPTION(CLANG "," HIPRTC)), f->err);
    learn(f, "clang", "gfx90a", PROBE_WORKS, NULL);
    learn(f, "hiprtc", "gfx90a", PROBE_WORKS, NULL);
    must(choose(f, "gfx90a", "", &name), f->err);
    assert_string_equal(name, "hiprtc");
}

TEST_F(table, the_next_is_taken_where_the_first_fails)
{
    const char *name;
    must(describe(f, DESCRIPTION(HIPRTC "," CLANG)), f->err);
    learn(f, "hiprtc", "gfx942", PROBE_FAILS, "crashed");
    assert_int_equal(choose(f, "gfx942", "", &name), KILN_BUSY);
    assert_string_equal(name, "clang");
    learn(f, "clang", "gfx942", PROBE_WORKS, NULL);
    must(choose(f, "gfx942", "", &name), f->err);
    assert_string_equal(name, "clang");
}

TEST_F(table, a_target_no_toolchain_builds_gets_a_reason_for_each_toolchain)
{
    const char *name;
    must(describe(f, DESCRIPTION(HIPRTC "," CLANG)), f->err);
    learn(f, "hiprtc", "gfx9999", PROBE_FAILS, "it crashed");
    learn(f, "clang", "gfx9999", PROBE_FAILS, "invalid target");
    assert_int_equal(choose(f, "gfx9999", "", &name), KILN_UNSUPPORTED);
    assert_says(f->err.text, "it crashed");
    assert_says(f->err.text, "invalid target");
}

TEST_F(table, a_toolchain_that_could_not_be_probed_gives_no_advice_to_install)
{
    const char *name;
    must(describe(f, DESCRIPTION(HIPRTC "," CLANG)), f->err);
    learn(f, "hiprtc", "gfx942", PROBE_NOT_NOW, "no process could be started");
    assert_int_equal(choose(f, "gfx942", "", &name), KILN_BUSY);
    assert_string_equal(name, "clang");

    learn(f, "clang", "gfx942", PROBE_FAILS, "invalid target");
    assert_int_equal(choose(f, "gfx942", "", &name), KILN_UNAVAILABLE);
    assert_says(f->err.text, "hiprtc: no");
    assert_says(f->err.text, "invalid target");
    assert_says(f->err.text, "try again");
    assert_null(strstr(f->err.text, "install"));

    must(choose(f, "gfx942", "hiprtc", &name), f->err);
    learn(f, "hiprtc", "gfx942", PROBE_FAILS, "crashed");
    assert_int_equal(choose(f, "gfx942", "", &name), KILN_UNSUPPORTED);
}

TEST_F(table, absent_toolchains_are_named_with_their_reason)
{
    const char *name;
    must(describe(f, "{\"toolchains\":[],\"absent\":[{\"name\":\"nvrtc\",\"reason\":\"no "
                     "libnvrtc\"}]}"),
         f->err);
    assert_int_equal(choose(f, "sm_90", "", &name), KILN_UNSUPPORTED);
    assert_says(f->err.text, "no libnvrtc");
    assert_says(f->err.text, "KILN_CUDA_PATH");
}

TEST_F(table, a_forced_toolchain_that_cannot_build_is_refused_with_target_and_toolchains)
{
    const char *name;
    must(describe(f, DESCRIPTION(HIPRTC "," CLANG)), f->err);
    learn(f, "hiprtc", "gfx942", PROBE_FAILS, "crashed");
    assert_int_equal(choose(f, "gfx942", "hiprtc", &name), KILN_UNSUPPORTED);
    assert_says(f->err.text, "'hiprtc' cannot compile for gfx942");
    assert_says(f->err.text, "hiprtc: crashed");
    assert_says(f->err.text, "clang was not");

    learn(f, "clang", "gfx942", PROBE_WORKS, NULL);
    assert_int_equal(choose(f, "gfx942", "hiprtc", &name), KILN_UNSUPPORTED);
    assert_says(f->err.text, "clang can");
}

TEST_F(table, a_forced_toolchain_is_tried_if_no_process_was_free_to_probe_it)
{
    const char *name;
    must(describe(f, DESCRIPTION(HIPRTC "," CLANG)), f->err);
    learn(f, "hiprtc", "gfx942", PROBE_NOT_NOW, "no process");
    must(choose(f, "gfx942", "hiprtc", &name), f->err);
    assert_string_equal(name, "hiprtc");
}

TEST_F(table, a_forced_toolchain_is_probed_first)
{
    const char *name;
    must(describe(f, DESCRIPTION(HIPRTC "," CLANG)), f->err);
    assert_int_equal(choose(f, "gfx942", "clang", &name), KILN_BUSY);
    assert_string_equal(name, "clang");
    learn(f, "clang", "gfx942", PROBE_WORKS, NULL);
    must(choose(f, "gfx942", "clang", &name), f->err);
}

TEST_F(table, a_forced_toolchain_that_is_unknown_is_not_found)
{
    const char *name;
    must(describe(f, DESCRIPTION(HIPRTC "," CLANG)), f->err);
    assert_int_equal(choose(f, "gfx942", "gcc", &name), KILN_NOT_FOUND);
    assert_says(f->err.text, "'gcc'");
    assert_says(f->err.text, "hiprtc, clang");
}

TEST_F(table, a_forced_toolchain_of_another_family_is_refused)
{
    const char *name;
    must(describe(f, DESCRIPTION(HIPRTC)), f->err);
    assert_int_equal(choose(f, "sm_90", "hiprtc", &name), KILN_UNSUPPORTED);
    assert_says(f->err.text, "amdgpu");
}

TEST_F(table, opencl_builds_for_its_one_device_without_a_probe)
{
    const char *name;
    must(describe(f, DESCRIPTION(OPENCL)), f->err);
    must(choose(f, "opencl:cpu", "", &name), f->err);
    assert_string_equal(name, "opencl");
    assert_int_equal(choose(f, "opencl:other", "", &name), KILN_UNSUPPORTED);
    assert_says(f->err.text, "opencl:cpu");
}

TEST_F(table, probes_outlive_a_description_but_not_an_upgrade)
{
    const char *name;
    must(describe(f, DESCRIPTION(CLANG)), f->err);
    learn(f, "clang", "gfx90a", PROBE_WORKS, NULL);
    must(describe(f, DESCRIPTION(CLANG)), f->err);
    must(choose(f, "gfx90a", "", &name), f->err);
    must(describe(f, DESCRIPTION(ROW("clang", "amdgpu", ID_2, ""))), f->err);
    assert_int_equal(choose(f, "gfx90a", "", &name), KILN_BUSY);
}

TEST_F(table, made_up_targets_do_not_make_the_table_grow)
{
    char target[32];
    must(describe(f, DESCRIPTION(CLANG)), f->err);
    const struct toolchain *tc = toolchain_table_at(f->table, 0);
    for (int i = 0; i < 1000; i++) {
        snprintf(target, sizeof(target), "gfx%04d", i);
        learn(f, "clang", target, PROBE_FAILS, "no");
    }
    struct target oldest = target_of("gfx0000"), newest = target_of("gfx0999");
    assert_int_equal(toolchain_probe_state(f->table, tc, &oldest), PROBE_UNKNOWN);
    assert_int_equal(toolchain_probe_state(f->table, tc, &newest), PROBE_FAILS);
    assert_string_equal(toolchain_probe_detail(f->table, tc, &newest), "no");
}

static enum probe_state state_of(struct fixture *f, const char *toolchain, const char *target)
{
    struct target t = target_of(target);
    return toolchain_probe_state(f->table, toolchain_table_find(f->table, bytes_of_text(toolchain)),
                                 &t);
}

static void learn_many(struct fixture *f, unsigned from, unsigned to, enum probe_state state)
{
    for (unsigned i = from; i < to; i++) {
        char target[32];
        snprintf(target, sizeof(target), "gfx%04u", i);
        learn(f, "clang", target, state, NULL);
    }
}

TEST_F(table, working_targets_outlive_any_number_of_made_up_ones)
{
    must(describe(f, DESCRIPTION(HIPRTC "," CLANG)), f->err);
    learn(f, "clang", "gfx90a", PROBE_WORKS, NULL);
    learn(f, "hiprtc", "gfx90a", PROBE_FAILS, "no");
    learn(f, "hiprtc", "gfx942", PROBE_WORKS, NULL);

    learn_many(f, 1, 2000, PROBE_FAILS);

    assert_int_equal(state_of(f, "clang", "gfx90a"), PROBE_WORKS);
    assert_int_equal(state_of(f, "hiprtc", "gfx942"), PROBE_WORKS);
    assert_int_equal(state_of(f, "hiprtc", "gfx90a"), PROBE_UNKNOWN);
}

TEST_F(table, a_full_probe_table_drops_only_one_result)
{
    must(describe(f, DESCRIPTION(CLANG)), f->err);
    learn_many(f, 0, 254, PROBE_FAILS);
    learn_many(f, 1000, 1002, PROBE_WORKS);
    assert_int_equal(state_of(f, "clang", "gfx0000"), PROBE_FAILS);

    learn(f, "clang", "gfx2000", PROBE_FAILS, "no");

    assert_int_equal(state_of(f, "clang", "gfx0000"), PROBE_UNKNOWN);
    assert_int_equal(state_of(f, "clang", "gfx0001"), PROBE_FAILS);
    assert_int_equal(state_of(f, "clang", "gfx1000"), PROBE_WORKS);
    assert_int_equal(state_of(f, "clang", "gfx1001"), PROBE_WORKS);
    assert_int_equal(state_of(f, "clang", "gfx2000"), PROBE_FAILS);
}

TEST_F(table, where_everything_works_the_oldest_gives_way)
{
    must(describe(f, DESCRIPTION(CLANG)), f->err);
    learn_many(f, 0, 256, PROBE_WORKS);
    learn(f, "clang", "gfx0000", PROBE_WORKS, NULL); /* the newest result */
    learn(f, "clang", "gfx2000", PROBE_WORKS, NULL);
    assert_int_equal(state_of(f, "clang", "gfx0000"), PROBE_WORKS);
    assert_int_equal(state_of(f, "clang", "gfx0001"), PROBE_UNKNOWN);
    assert_int_equal(state_of(f, "clang", "gfx2000"), PROBE_WORKS);
}

TEST_F(table, probe_results_of_a_removed_toolchain_are_dropped_first)
{
    must(describe(f, DESCRIPTION(CLANG)), f->err);
    learn_many(f, 0, 128, PROBE_WORKS);
    must(describe(f, DESCRIPTION(ROW("clang", "amdgpu", ID_2, ""))), f->err);
    learn_many(f, 0, 256, PROBE_FAILS);
    assert_int_equal(state_of(f, "clang", "gfx0000"), PROBE_FAILS);
    assert_int_equal(state_of(f, "clang", "gfx0255"), PROBE_FAILS);
}

TEST_F(table, forgetting_takes_no_place_and_leaves_the_others)
{
    must(describe(f, DESCRIPTION(CLANG)), f->err);
    learn_many(f, 0, 256, PROBE_FAILS);

    learn(f, "clang", "gfx9999", PROBE_UNKNOWN, NULL);
    learn(f, "clang", "gfx0007", PROBE_UNKNOWN, NULL);
    learn(f, "clang", "gfx2000", PROBE_FAILS, "no");

    assert_int_equal(state_of(f, "clang", "gfx0000"), PROBE_FAILS);
    assert_int_equal(state_of(f, "clang", "gfx0007"), PROBE_UNKNOWN);
    assert_int_equal(state_of(f, "clang", "gfx2000"), PROBE_FAILS);
}

TEST_F(table, a_forgotten_probe_can_be_learnt_again)
{
    must(describe(f, DESCRIPTION(CLANG)), f->err);
    const struct toolchain *tc = toolchain_table_at(f->table, 0);
    struct target t = target_of("gfx90a");
    learn(f, "clang", "gfx90a", PROBE_FAILS, "no memory");
    learn(f, "clang", "gfx90a", PROBE_WORKS, NULL);
    assert_int_equal(toolchain_probe_state(f->table, tc, &t), PROBE_WORKS);
    assert_string_equal(toolchain_probe_detail(f->table, tc, &t), "");
}

TEST(plain, known_targets_are_targets)
{
    bool has_hoppers = false; /* whether sm_90a, the target of Hopper GPUs, is known */
    for (const char *const *t = toolchain_known_targets; *t; t++) {
        assert_string_equal(target_of(*t).text, *t);
        has_hoppers |= strcmp(*t, "sm_90a") == 0;
    }
    assert_true(has_hoppers);
}
