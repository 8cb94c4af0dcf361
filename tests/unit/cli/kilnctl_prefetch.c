/* SPDX-License-Identifier: MIT */

#include "cli/kilnctl/prefetch_check.h"
#include "tests/support/test_files.h"
#include "tests/unit/cli/kilnctl_run.h"
#include "tests/unit/cli/scratch_directory.h"

#include "cli/kilnctl/nap.h"

#include <kiln/admin.h>
#include <kiln/plan.h>

#include <stdatomic.h>
#include <string.h>

static struct fake {
    unsigned plans, batches;
    struct kiln_plan_options options;
    int plan_code; /* result of every second plan; with 0, every plan succeeds */
    int tier;
    unsigned same_key;      /* number of problems that share one kernel */
    unsigned first_failure; /* the first kiln_plan_get call that fails, counted from 1 */
    /* kilnd's answer; NULL means that the request fails with |admin_code| */
    const char *toolchains;
    int admin_code;
    char asked[256];
    const char *stats[3]; /* kilnd's answers, one after the other; NULL: repeats the previous one */
    const char *status;
    unsigned stats_asked, naps;
    unsigned busy;   /* number of requests that kilnd refuses as BUSY */
    unsigned stored; /* kilnd has the first |stored| of the requested kernels on disk */
} fake;
static atomic_uint fake_gets;

#define GFX90A_WORKS                                                                             \
    "{\"toolchains\":[{\"name\":\"hiprtc\",\"targets\":[{\"target\":\"gfx90a\",\"works\":false," \
    "\"detail\":\"too old\"}]},{\"name\":\"clang\",\"targets\":[{\"target\":\"gfx90a\","         \
    "\"works\":true},{\"target\":\"gfx90a:sramecc+:xnack-\",\"works\":true},"                    \
    "{\"target\":\"gfx999\",\"works\":false,\"detail\":\"no such thing\"}]}]}"

int kiln_admin(struct kiln_client *client, const struct kiln_admin_call *call, char **ret_json,
               struct kiln_error *err)
{
    (void)client;
    const char *request = call->request;
    bool asks_for_figures = strcmp(request, "stats") == 0 || strcmp(request, "status") == 0;
    if (asks_for_figures && fake.busy > 0) {
        fake.busy--;
        *err = (struct kiln_error){ .code = KILN_E_BUSY, .text = "4 are unanswered" };
        return KILN_E_BUSY;
    }
    if (strcmp(request, "stats") == 0) {
        const char *next = fake.stats_asked < 3 ? fake.stats[fake.stats_asked] : NULL;
        fake.stats_asked += next != NULL;
        *ret_json = strdup(fake.stats_asked ? fake.stats[fake.stats_asked - 1] : "{}");
        return KILN_E_OK;
    }
    if (strcmp(request, "status") == 0) {
        *ret_json = strdup(fake.status);
        return KILN_E_OK;
    }
    if (strcmp(request, "kernel_show") == 0) {
        *ret_json = fake.stored > 0 ? strdup("{}") : NULL;
        *err = (struct kiln_error){ .code = *ret_json ? KILN_E_OK : KILN_E_NOT_FOUND };
        fake.stored -= fake.stored > 0;
        return err->code;
    }
    snprintf(fake.asked, sizeof(fake.asked), "%s %s", request, call->json ? call->json : "-");
    if (!fake.toolchains) {
        *err = (struct kiln_error){ .code = fake.admin_code, .text = "that is no target" };
        return fake.admin_code;
    }
    *ret_json = strdup(fake.toolchains);
    return KILN_E_OK;
}

void nap_ms(unsigned ms)
{
    (void)ms;
    fake.naps++;
}

void kiln_free(void *pointer) { free(pointer); }

struct kiln_plan {
    char key[65];
};

static int make_plan(size_t index, kiln_plan_ready *ready, void *context)
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

int kiln_plan_batch(struct kiln_client *client, const struct kiln_plan_batch *batch,
                    struct kiln_error *err)
{
    (void)client, (void)err;
    fake.batches++;
    fake.options = *batch->options;
    for (size_t i = 0; i < batch->count; i++)
        if (make_plan(i, batch->ready, batch->context))
            return KILN_E_OK;
    return KILN_E_OK;
}

/* With --jobs, the command calls this on several threads. */
int kiln_plan_get(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_plan_options *options, struct kiln_plan **ret_plan,
                  struct kiln_error *err)
{
    (void)client, (void)options;
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

struct fixture {
    struct command_run run;
    char path[512];
};

SET_UP(set_up)
{
    fake = (struct fake){ .tier = KILN_TIER_COMPILED, .toolchains = GFX90A_WORKS };
    atomic_store(&fake_gets, 0);
    scratch_create(test_directory(), "lines", "", f->path);
}

FIXTURE(kilnctl_prefetch, set_up, NULL);

#define LINES                                               \
    "./bin/MIOpenDriver conv -n 1 -c 8 -k 8 -F 1\n"         \
    "/opt/rocm/bin/MIOpenDriver conv -n 1 -c 8 -k 8 -F 0\n" \
    "# comment\n"                                           \
    "conv -n 2 -c 8 -k 8 -F 1\n"

TEST_F(kilnctl_prefetch, prefetch_asks_for_each_problem_once_without_objects)
{
    test_write_text(f->path, LINES);

    int rc =
        RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--db-id", "gfx90a68", "--json");

    assert_int_equal(rc, KILN_E_OK);
    assert_int_equal(fake.batches, 1);
    assert_int_equal(fake.plans, 4);
    assert_string_equal(fake.options.target, "gfx90a");
    assert_string_equal(fake.options.database_id, "gfx90a68");
    assert_int_equal(fake.options.priority, KILN_PREFETCH);
    assert_int_equal(fake.options.no_objects, 1);
    assert_non_null(strstr(f->run.printed, "\"lines\":3,\"problems\":4,\"repeats\":1,\"kernels\":4,"
                                           "\"compiles\":4,\"hits\":0"));
    assert_non_null(strstr(f->run.printed, "\"failed\":0"));
}

TEST_F(kilnctl_prefetch, prefetch_counts_a_kernel_that_problems_share_once)
{
    test_write_text(f->path, LINES);
    fake.same_key = 2;
    fake.tier = KILN_TIER_DISK;
    assert_int_equal(RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--json"), KILN_E_OK);
    assert_non_null(strstr(f->run.printed, "\"kernels\":2,\"compiles\":0,\"hits\":2"));
    assert_non_null(strstr(f->run.printed, "\"disk\":2"));
}

TEST_F(kilnctl_prefetch, prefetch_fails_when_any_kernel_failed_and_gives_reason_and_log)
{
    test_write_text(f->path, LINES);
    fake.plan_code = KILN_E_COMPILE_FAILED;
    assert_int_equal(RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--json"),
                     KILN_E_COMPILE_FAILED);
    assert_non_null(strstr(f->run.printed, "\"failed\":2"));
    assert_non_null(strstr(f->run.printed,
                           "\"code\":\"COMPILE_FAILED\",\"reason\":\"clang refused it\","
                           "\"log\":\"x: no\""));
    assert_says(f->run.err.text, "2 failed");
}

TEST_F(kilnctl_prefetch, prefetch_names_a_line_it_cannot_read_and_does_the_rest)
{
    test_write_text(f->path, "conv -n 1 -F 1\nconv -n 1 --frobnicate 3\n");
    assert_int_equal(RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--json"),
                     KILN_E_COMPILE_FAILED);
    assert_int_equal(fake.plans, 1);
    assert_non_null(strstr(f->run.printed, "\"line\":2"));
    assert_non_null(strstr(f->run.printed, "frobnicate"));
}

TEST_F(kilnctl_prefetch, prefetch_needs_a_target_and_lines)
{
    assert_int_equal(RUN(&f->run, "prefetch", f->path), KILN_E_INVALID);
    assert_non_null(strstr(f->run.err.text, "--target"));
    assert_int_equal(RUN(&f->run, "prefetch", f->path, "--target", "gfx90a"), KILN_E_INVALID);
    assert_says(f->run.err.text, "MIOpenDriver");
}

TEST_F(kilnctl_prefetch, prefetch_with_jobs_asks_for_every_problem_once)
{
    FILE *out = fopen(f->path, "we");
    assert_non_null(out);
    for (unsigned n = 1; n <= 300; n++)
        fprintf(out, "conv -n %u -F 1\n", n);
    fclose(out);
    assert_int_equal(
        RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--jobs", "4", "--json"),
        KILN_E_OK);
    assert_int_equal(atomic_load(&fake_gets), 300);
    assert_int_equal(fake.batches, 0);
    assert_non_null(strstr(f->run.printed, "\"problems\":300,\"repeats\":0,\"kernels\":300"));
}

TEST_F(kilnctl_prefetch, prefetch_with_jobs_ends_when_the_daemon_is_gone)
{
    test_write_text(f->path, LINES);
    fake.plan_code = KILN_E_UNAVAILABLE;
    fake.first_failure = 3;
    assert_int_equal(
        RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--jobs", "1", "--json"),
        KILN_E_UNAVAILABLE);
    assert_int_equal(atomic_load(&fake_gets), 3);
    assert_says(f->run.err.text, "after 2");
    assert_says(f->run.err.text, "the fake");
}

/* Returns whether targets with this arch may have features, according to the table of processors
 * in LLVM's "User Guide for AMDGPU Backend". clang refuses a target with a feature that the
 * processor does not have. */
static bool has_features(const char *arch)
{
    static const char *const archs[] = { "gfx801",  "gfx810",  "gfx900", "gfx902", "gfx904",
                                         "gfx906",  "gfx908",  "gfx909", "gfx90a", "gfx90c",
                                         "gfx940",  "gfx941",  "gfx942", "gfx950", "gfx1010",
                                         "gfx1011", "gfx1012", "gfx1013" };
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
        if (strcmp(archs[i], arch) == 0)
            return true;
    }
    return false;
}

TEST(kilnctl_prefetch, prefetch_knows_which_archs_have_features_in_their_targets)
{
    static const char *const archs[] = {
#define AMDGPU_MACHINE(arch, number) arch,
#include "common/target/amdgpu_machines.def"
#undef AMDGPU_MACHINE
    };
    static const char *const with_sramecc[] = { "gfx906", "gfx908", "gfx90a", "gfx940",
                                                "gfx941", "gfx942", "gfx950" };
    char note[PREFETCH_NOTE_MAX];
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
        const char *said = prefetch_note(archs[i], note);
        bool sramecc = false;
        for (size_t k = 0; k < sizeof(with_sramecc) / sizeof(with_sramecc[0]); k++)
            sramecc |= strcmp(with_sramecc[k], archs[i]) == 0;
        assert_int_equal(said != NULL, has_features(archs[i]));
        assert_int_equal(said && strstr(said, ":sramecc+:xnack- "), sramecc);
    }
}

TEST_F(kilnctl_prefetch, prefetch_notes_that_the_target_lacks_features)
{
    test_write_text(f->path, LINES);
    assert_int_equal(RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--json"), KILN_E_OK);
    assert_says(f->run.printed, "\"note\":\"");
    assert_says(f->run.printed, "gfx90a:sramecc+:xnack-");
    assert_int_equal(
        RUN(&f->run, "prefetch", f->path, "--target", "gfx90a:sramecc+:xnack-", "--json"),
        KILN_E_OK);
    assert_null(strstr(f->run.printed, "\"note\""));
    assert_int_equal(RUN(&f->run, "prefetch", f->path, "--target", "sm_90", "--json"), KILN_E_OK);
    assert_null(strstr(f->run.printed, "\"note\""));
}

#define STATS(puts, kept, lost, writable)                           \
    "{\"puts\":" puts ",\"puts_kept\":" kept ",\"puts_lost\":" lost \
    ",\"store_writable\":" writable "}"
#define STATUS(mode) \
    "{\"store\":{\"mode\":\"" mode "\",\"health\":\"full\",\"trouble\":\"no room on it\"}}"

static int prefetch_lines(struct fixture *f)
{
    test_write_text(f->path, LINES);
    return RUN(&f->run, "prefetch", f->path, "--target", "gfx90a");
}

TEST_F(kilnctl_prefetch, prefetch_fails_if_kernels_are_not_stored)
{
    fake.stats[0] = STATS("7", "5", "1", "true");
    fake.stats[1] = STATS("11", "6", "2", "false"); /* three kernels still wait to be written */
    fake.stats[2] = STATS("12", "7", "4", "false"); /* the twelfth kernel is another user's */
    fake.status = STATUS("on");
    fake.stored = 1;
    assert_int_equal(prefetch_lines(f), KILN_E_FULL);
    assert_says(f->run.err.text, "3 kernels");
    assert_says(f->run.err.text, "no room");
    assert_non_null(strstr(f->run.printed, "not stored"));
    assert_int_equal(fake.naps, 1);
}

TEST_F(kilnctl_prefetch, prefetch_fails_if_storing_has_stopped)
{
    fake.tier = KILN_TIER_HOT; /* as if kilnd had compiled the kernels, but could not store them */
    fake.stats[0] = STATS("7", "5", "2", "false");
    fake.status = STATUS("on");
    assert_int_equal(prefetch_lines(f), KILN_E_FULL);
    assert_says(f->run.err.text, "4 kernels");
    assert_says(f->run.err.text, "no room");
    assert_non_null(strstr(f->run.printed, "not stored"));
}

TEST_F(kilnctl_prefetch, prefetch_succeeds_if_only_others_lost_kernels)
{
    fake.stats[0] = STATS("7", "5", "1", "true");
    fake.stats[1] = STATS("12", "7", "5", "true");
    fake.status = STATUS("on");
    fake.stored = 4;
    assert_int_equal(prefetch_lines(f), KILN_E_OK);
    assert_null(strstr(f->run.printed, "not stored"));
}

TEST_F(kilnctl_prefetch, prefetch_succeeds_on_a_full_disk_that_has_all_kernels)
{
    fake.stats[0] = STATS("7", "5", "2", "false");
    fake.status = STATUS("on");
    fake.stored = 4;
    assert_int_equal(prefetch_lines(f), KILN_E_OK);
    fake.stored = 0;
    fake.stats_asked = 0;
    fake.tier = KILN_TIER_DISK;
    assert_int_equal(prefetch_lines(f), KILN_E_OK);
}

TEST_F(kilnctl_prefetch, prefetch_waits_while_other_prefetches_run)
{
    fake.stats[0] = STATS("7", "5", "2", "true");
    fake.busy = 3;
    assert_int_equal(prefetch_lines(f), KILN_E_OK);
    assert_int_equal(fake.naps, 3);
    fake.busy = 1000000;
    assert_int_equal(prefetch_lines(f), KILN_E_BUSY);
    assert_says(f->run.err.text, "4 are");
}

TEST_F(kilnctl_prefetch, prefetch_bounds_its_wait_for_the_disk)
{
    fake.stats[0] = STATS("2", "1", "0", "true");
    assert_int_equal(prefetch_lines(f), KILN_E_TIMED_OUT);
    assert_says(f->run.err.text, "writing");
}

TEST_F(kilnctl_prefetch, prefetch_succeeds_if_kernels_are_stored_or_the_cache_is_off)
{
    fake.stats[0] = STATS("7", "5", "1", "true");
    fake.stats[1] = STATS("8", "7", "1", "true");
    assert_int_equal(prefetch_lines(f), KILN_E_OK);
    fake.stats_asked = 0;
    fake.stats[1] = STATS("8", "5", "3", "true"); /* the setting 'cache' is off */
    fake.status = STATUS("off");
    assert_int_equal(prefetch_lines(f), KILN_E_OK);
    fake.stats_asked = 0;
    fake.stats[1] = STATS("1", "1", "0", "true"); /* kilnd has restarted */
    assert_int_equal(prefetch_lines(f), KILN_E_OK);
}

static void expect_problems_and_no_output(const struct fixture *f, unsigned problems)
{
    assert_int_equal(fake.batches, 0);
    assert_int_equal(atomic_load(&fake_gets), problems);
    assert_string_equal(f->run.printed, "");
    assert_false(f->run.reported);
}

TEST_F(kilnctl_prefetch, an_invalid_target_fails_once)
{
    test_write_text(f->path, LINES);
    fake.toolchains = NULL;
    fake.admin_code = fake.plan_code = KILN_E_INVALID;
    assert_int_equal(RUN(&f->run, "prefetch", f->path, "--target", "nonsense", "--json"),
                     KILN_E_INVALID);
    assert_string_equal(fake.asked, "toolchains {\"probe\":[\"nonsense\"]}");
    assert_says(f->run.err.text, "no target");
    expect_problems_and_no_output(f, 1);
}

TEST_F(kilnctl_prefetch, a_target_that_no_compiler_can_build_fails_once_with_all_reasons)
{
    test_write_text(f->path, LINES);
    fake.plan_code = KILN_E_UNSUPPORTED;
    assert_int_equal(RUN(&f->run, "prefetch", f->path, "--target", "gfx999"), KILN_E_UNSUPPORTED);
    assert_says(f->run.err.text, "'gfx999'");
    assert_says(f->run.err.text, "tried: clang");
    assert_says(f->run.err.log, "clang:");
    expect_problems_and_no_output(f, 1);
}

/* kilnd could not probe the target yet, so prefetch does not know whether the target works. */
TEST_F(kilnctl_prefetch, an_untried_target_does_not_stop_prefetch)
{
    test_write_text(f->path, LINES);
    fake.toolchains =
        "{\"toolchains\":[{\"name\":\"hiprtc\",\"targets\":[],\"untried\":[{\"target\":"
        "\"gfx999\",\"detail\":\"no process\"}]},{\"name\":\"clang\",\"targets\":[{"
        "\"target\":\"gfx999\",\"works\":false,\"detail\":\"no such thing\"}],"
        "\"untried\":[{\"target\":\"gfx888\",\"detail\":\"no process\"}]}]}";
    fake.plan_code = KILN_E_UNAVAILABLE;
    assert_int_equal(RUN(&f->run, "prefetch", f->path, "--target", "gfx999"), KILN_E_UNAVAILABLE);
    assert_int_equal(atomic_load(&fake_gets), 1);
    assert_says(f->run.err.text, "the fake");
}

TEST_F(kilnctl_prefetch, an_unknown_toolchain_fails_once_and_the_message_lists_the_installed_ones)
{
    test_write_text(f->path, LINES);
    fake.plan_code = KILN_E_NOT_FOUND;
    assert_int_equal(
        RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--toolchain", "icc", "--json"),
        KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "'icc'");
    assert_says(f->run.err.text, "hiprtc, clang");
    expect_problems_and_no_output(f, 1);
}

TEST_F(kilnctl_prefetch, an_invalid_database_id_fails_once_before_any_problem)
{
    test_write_text(f->path, LINES);
    assert_int_equal(
        RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--db-id", "rubbish", "--json"),
        KILN_E_INVALID);
    assert_says(f->run.err.text, "'rubbish'");
    expect_problems_and_no_output(f, 0);
}

TEST_F(kilnctl_prefetch, a_database_id_of_another_device_fails_once_before_any_problem)
{
    test_write_text(f->path, LINES);
    assert_int_equal(
        RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--db-id", "gfx906_60"),
        KILN_E_INVALID);
    assert_says(f->run.err.text, "'gfx906_60'");
    expect_problems_and_no_output(f, 0);
}

TEST_F(kilnctl_prefetch, a_named_toolchain_is_tried_once_even_if_it_failed_before)
{
    test_write_text(f->path, LINES);
    fake.plan_code = KILN_E_COMPILE_FAILED;
    assert_int_equal(
        RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--toolchain", "hiprtc", "--json"),
        KILN_E_COMPILE_FAILED);
    assert_int_equal(atomic_load(&fake_gets), 1);
    assert_int_equal(fake.batches, 0);
    assert_says(f->run.err.text, "the fake");
    assert_string_equal(f->run.printed, "");
}

TEST_F(kilnctl_prefetch, a_toolchain_that_succeeds_after_a_failed_try_is_used_for_the_rest)
{
    test_write_text(f->path, LINES);
    assert_int_equal(
        RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--toolchain", "hiprtc", "--json"),
        KILN_E_OK);
    assert_int_equal(atomic_load(&fake_gets), 1);
    assert_int_equal(fake.plans, 3);
    assert_non_null(strstr(f->run.printed, "\"problems\":4,\"repeats\":1,\"kernels\":4"));
}

TEST_F(kilnctl_prefetch, a_target_with_its_features_the_other_way_round_is_the_same)
{
    test_write_text(f->path, LINES);
    assert_int_equal(RUN(&f->run, "prefetch", f->path, "--target", "gfx90a:xnack-:sramecc+"),
                     KILN_E_OK);
    assert_int_equal(atomic_load(&fake_gets), 0);
    assert_int_equal(fake.plans, 4);
}

TEST_F(kilnctl_prefetch, an_unknown_solver_fails_once)
{
    test_write_text(f->path, LINES);
    fake.plan_code = KILN_E_NOT_FOUND;
    assert_int_equal(
        RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--solver", "Winograd", "--json"),
        KILN_E_NOT_FOUND);
    assert_int_equal(atomic_load(&fake_gets), 1);
    assert_string_equal(f->run.printed, "");
}

TEST_F(kilnctl_prefetch, a_solver_that_does_not_apply_to_the_first_problem_solves_the_others)
{
    test_write_text(f->path, LINES);
    fake.plan_code = KILN_E_UNSUPPORTED;
    assert_int_equal(
        RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--solver", "Winograd", "--json"),
        KILN_E_COMPILE_FAILED);
    assert_int_equal(fake.plans, 3);
    assert_non_null(strstr(f->run.printed, "\"failed\":2"));
}

TEST_F(kilnctl_prefetch, the_json_of_a_partly_failed_run_has_an_error)
{
    test_write_text(f->path, LINES);
    fake.plan_code = KILN_E_COMPILE_FAILED;
    assert_int_equal(RUN(&f->run, "prefetch", f->path, "--target", "gfx90a", "--json"),
                     KILN_E_COMPILE_FAILED);
    assert_non_null(strstr(f->run.printed, "\"error\":{\"code\":\"COMPILE_FAILED\",\"text\":"
                                           "\"2 failed, 2 of 4 problems are ready\"}}\n"));
    assert_true(f->run.reported);
}
