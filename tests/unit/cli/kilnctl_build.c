/* SPDX-License-Identifier: MIT */

/* libkiln is a fake, but the code that makes keys and manifests is real. */
#include "common/protocol/problem.h"
#include "engine/digest/sha256.h"
#include "engine/manifest/manifest.h"
#include "tests/support/entries.h"
#include "tests/support/test.h"
#include "tests/unit/cli/kilnctl_fake.h"
#include "tests/unit/cli/scratch_directory.h"
#include "tests/unit/cli/slow_clock.h"

#include <kiln/plan.h>

static struct {
    unsigned plans;
    int plan_code; /* result of every second plan; with KILN_E_OK, every plan succeeds */
    struct kiln_plan_options options;
} seen;

struct kiln_plan {
    char key[65];
};

int kiln_plan_batch(struct kiln_client *client, const struct kiln_plan_batch *batch,
                    struct kiln_error *err)
{
    (void)client, (void)err;
    seen.options = *batch->options;
    for (size_t i = 0; i < batch->count; i++) {
        struct kiln_plan plan = { .key = "" };
        struct kiln_error why = { .code = seen.plan_code, .text = "clang refused it" };
        snprintf(plan.key, sizeof(plan.key), "%064zx", i + 1);
        seen.plans++;
        bool fails = seen.plan_code && i % 2 == 1;
        if (batch->ready(batch->context, i, fails ? NULL : &plan, fails ? &why : NULL))
            return KILN_E_OK;
    }
    return KILN_E_OK;
}

void kiln_plan_unref(struct kiln_plan *plan) { (void)plan; }
unsigned kiln_plan_object_count(const struct kiln_plan *plan) { return plan ? 1 : 0; }
const char *kiln_plan_object_key(const struct kiln_plan *plan, unsigned index)
{
    (void)index;
    return plan->key;
}
int kiln_plan_object_tier(const struct kiln_plan *plan, unsigned index)
{
    (void)plan, (void)index;
    return KILN_TIER_DISK;
}
uint64_t kiln_plan_object_compile_ns(const struct kiln_plan *plan, unsigned index)
{
    (void)plan, (void)index;
    return 0;
}

struct fixture {
    struct command_run run;
    const char *directory;
    struct reported reported;
    char problems[512], out[512], key[512], pub[512], text[4096];
};

#define LINES                                       \
    "./bin/MIOpenDriver conv -n 1 -c 8 -k 8 -F 1\n" \
    "MIOpenDriver conv -n 2 -c 8 -k 8 -F 1\n"

#define TOOLCHAINS                                                              \
    "{\"toolchains\":[{\"name\":\"clang\",\"targets\":[{\"target\":\"gfx90a\"," \
    "\"works\":true}]}]}"

#define BUILT "{\"kernels\":2,\"size\":7,\"failed\":[],\"failures\":0}"

SET_UP(set_up)
{
    f->directory = fake_begin();
    memset(&seen, 0, sizeof(seen));
    fake.answers[0].reply = TOOLCHAINS;
    fake.answers[1] = (struct fake_answer){ .reply = BUILT, .files = { "package" } };
    scratch_create(f->directory, "problems", LINES, f->problems);
    scratch_path(f->directory, "gfx90a68.kdb", f->out);
    scratch_path(f->directory, "ops.key", f->key);
}

FIXTURE(kilnctl_build, set_up, NULL);

#define BUILD(f, ...)                                                                       \
    RUN(&(f)->run, "pkg", "build", "--target", "gfx90a", "--problems", (f)->problems, "-o", \
        (f)->out, __VA_ARGS__)

/* Stores the build's standard error in |reported|. */
#define BUILD_REPORTED(f, rc, ...)  \
    reported_begin(&(f)->reported); \
    int rc = BUILD(f, __VA_ARGS__); \
    reported_end(&(f)->reported)

static const char *read_content(struct fixture *f, const char *name)
{
    return scratch_read(f->directory, name, f->text, sizeof(f->text));
}

TEST_F(kilnctl_build, every_kernel_is_compiled_before_the_package_is_requested)
{
    BUILD_REPORTED(f, rc, "--db-id", "gfx90a68", "--toolchain", "clang");
    assert_int_equal(rc, KILN_E_OK);
    assert_int_equal(seen.plans, 2);
    assert_string_equal(seen.options.target, "gfx90a");
    assert_string_equal(seen.options.toolchain, "clang");
    assert_int_equal(seen.options.no_objects, 1);
    assert_string_equal(fake.requests[1],
                        "package_build {\"target\":\"gfx90a\",\"format\":\"kdb\",\"database_id\":"
                        "\"gfx90a68\",\"toolchain\":\"clang\"}");
    assert_int_equal(fake.timeouts[1], -1);
    assert_string_equal(read_content(f, "gfx90a68.kdb"), "package");
    assert_says(f->run.printed, "gfx90a68.kdb");
    assert_says(f->run.printed, "2 kernels");
    assert_says(f->reported.text, "2 of");
    assert_int_equal(entry_count(f->directory, ""), 2);
}

TEST_F(kilnctl_build, generic_kernels_need_no_problems)
{
    fake.answers[0] = fake.answers[1];
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "pkg", "build", "--generic", "-t", "gfx90a", "-o", f->out);
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_OK);
    assert_int_equal(fake.asked, 1);
    assert_int_equal(seen.plans, 0);
    assert_string_equal(
        fake.requests[0],
        "package_build {\"target\":\"gfx90a\",\"format\":\"kdb\",\"generic\":true}");
    assert_string_equal(read_content(f, "gfx90a68.kdb"), "package");
}

TEST_F(kilnctl_build, the_json_of_generic_kernels_has_no_prefetch)
{
    fake.answers[0] = fake.answers[1];
    must(RUN(&f->run, "pkg", "build", "--generic", "-t", "gfx90a", "-o", f->out, "--json"),
         f->run.err);
    assert_says(f->run.printed, "\"package\"");
    assert_null(strstr(f->run.printed, "prefetch"));
}

static uint32_t number(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

TEST_F(kilnctl_build, problems_go_as_sealed_memory_in_the_wire_format)
{
    BUILD_REPORTED(f, rc, "--json");
    assert_int_equal(rc, KILN_E_OK);
    assert_int_equal(fake.sent_sizes[1][0], 2 * PROBLEM_WIRE_SIZE);
    assert_int_equal(fake.seals[1], F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    const char *second = fake.sent[1][0] + PROBLEM_WIRE_SIZE;
    assert_int_equal(number(second), KILN_FORWARD);
    assert_int_equal(number(second + 4), 2);
    assert_int_equal(number(second + 6 * 4), 2);
    assert_int_equal(number(second + 7 * 4), 8);
    /* The dilation along the depth is the fourth number from the end of the problem. */
    assert_int_equal(number(second + 22 * 4), 1);
}

TEST_F(kilnctl_build, a_package_as_json_is_reported_with_its_kernels)
{
    BUILD_REPORTED(f, rc, "--json");
    assert_int_equal(rc, KILN_E_OK);
    assert_int_equal(strncmp(f->run.printed, "{\"package\":{\"file\":\"", 20), 0);
    assert_says(f->run.printed, "\"format\":\"kdb\",\"kernels\":2,\"size\":7,\"signed\":false},"
                                "\"prefetch\":{\"lines\":2,\"problems\":2,");
}

TEST_F(kilnctl_build, a_build_beside_another_one_of_the_user_fails)
{
    fake.answers[1] = (struct fake_answer){ .code = KILN_E_BUSY };
    BUILD_REPORTED(f, rc, "--format", "kdb");
    assert_int_equal(rc, KILN_E_BUSY);
    assert_int_equal(fake.asked, 2);
    assert_false(scratch_has(f->directory, "gfx90a68.kdb"));
}

TEST_F(kilnctl_build, nothing_is_written_when_a_problem_failed)
{
    seen.plan_code = KILN_E_COMPILE_FAILED;
    BUILD_REPORTED(f, rc, "--json");
    assert_int_equal(rc, KILN_E_COMPILE_FAILED);
    assert_says(f->run.err.text, "1 failed");
    assert_says(f->run.err.text, "--keep-going");
    assert_int_equal(fake.asked, 1);
    assert_false(scratch_has(f->directory, "gfx90a68.kdb"));
    assert_int_equal(strncmp(f->run.printed, "{\"prefetch\":{", 13), 0);
    assert_says(f->run.printed, "\"error\":{\"code\":\"COMPILE_FAILED\"");
    assert_true(f->run.reported);
}

TEST_F(kilnctl_build, keep_going_writes_the_other_problems_and_still_fails)
{
    seen.plan_code = KILN_E_COMPILE_FAILED;
    fake.answers[1].reply =
        "{\"kernels\":1,\"size\":7,\"failures\":1,\"failed\":[{\"problem\":\"conv\","
        "\"code\":\"COMPILE_FAILED\",\"text\":\"again\"}]}";
    BUILD_REPORTED(f, rc, "--keep-going");
    assert_int_equal(rc, KILN_E_COMPILE_FAILED);
    assert_says(f->run.err.text, "1 problem");
    assert_string_equal(read_content(f, "gfx90a68.kdb"), "package");
    assert_says(f->run.printed, "1 kernel,");
    assert_says(f->reported.text, "line 2:");
    assert_says(f->reported.text, "clang");
    /* a reason is reported only for the first problem that fails with it */
    assert_null(strstr(f->reported.text, "again"));
}

TEST_F(kilnctl_build, failures_found_only_by_the_build_are_reported_and_nothing_is_written)
{
    fake.answers[1].reply = "{\"kernels\":1,\"size\":7,\"failures\":1,\"failed\":[{\"problem\":"
                            "\"conv -n 2\",\"text\":\"too \\u001blate\"}]}";
    BUILD_REPORTED(f, rc, "--format", "kdb");
    assert_int_equal(rc, KILN_E_COMPILE_FAILED);
    assert_says(f->reported.text, "too ?late");
    assert_says(f->reported.text, "conv -n");
    assert_says(f->run.err.text, "1 problem");
    assert_says(f->run.err.text, "--keep-going");
    assert_false(scratch_has(f->directory, "gfx90a68.kdb"));
}

TEST_F(kilnctl_build, keep_going_fails_if_no_problem_succeeded)
{
    scratch_write(f->directory, "problems", "conv --frobnicate\n");
    BUILD_REPORTED(f, rc, "--keep-going");
    assert_int_equal(rc, KILN_E_COMPILE_FAILED);
    assert_int_equal(fake.asked, 1);
    assert_false(scratch_has(f->directory, "gfx90a68.kdb"));
}

TEST_F(kilnctl_build, an_answer_without_a_package_is_corrupt)
{
    fake.answers[1].files[0] = NULL;
    BUILD_REPORTED(f, rc, "--format", "kdb");
    assert_int_equal(rc, KILN_E_CORRUPT);
    assert_says(f->run.err.text, "package");
    assert_false(scratch_has(f->directory, "gfx90a68.kdb"));
}

TEST_F(kilnctl_build, missing_build_options_are_refused_before_kilnd_is_asked)
{
    assert_int_equal(RUN(&f->run, "pkg", "build", "--problems", "p", "-o", "o"), KILN_E_INVALID);
    assert_says(f->run.err.text, "--target");
    assert_int_equal(RUN(&f->run, "pkg", "build", "-t", "gfx90a", "-o", "o"), KILN_E_INVALID);
    assert_says(f->run.err.text, "--problems");
    assert_int_equal(RUN(&f->run, "pkg", "build", "-t", "gfx90a", "--problems", "p"),
                     KILN_E_INVALID);
    assert_says(f->run.err.text, "--output");
    assert_int_equal(BUILD(f, "--generic"), KILN_E_INVALID);
    assert_says(f->run.err.text, "--problems");
    assert_int_equal(BUILD(f, "--format", "tar"), KILN_E_INVALID);
    assert_int_equal(BUILD(f, "--db-id", "gfx906_60"), KILN_E_INVALID);
    assert_says(f->run.err.text, "'gfx906_60'");
    assert_int_equal(BUILD(f, "--db-id", "gfx90a_104"), KILN_E_INVALID);
    assert_says(f->run.err.text, "'gfx90a_104'");
    assert_int_equal(fake.asked, 0);
}

static const char *refused_build(struct fixture *f, const char *target, const char *name)
{
    scratch_path(f->directory, name, f->out);
    assert_int_equal(
        RUN(&f->run, "pkg", "build", "--target", target, "--problems", f->problems, "-o", f->out),
        KILN_E_INVALID);
    assert_int_equal(fake.asked, 0);
    assert_int_equal(seen.plans, 0);
    return f->run.err.text;
}

TEST_F(kilnctl_build, a_package_that_no_gpu_would_use_is_not_built)
{
    assert_says(refused_build(f, "gfx90a", "out.kdb"), "'out.kdb'");
    assert_says(f->run.err.text, "gfx90a.kdb");
    assert_says(f->run.err.text, "--db-id");
    assert_says(refused_build(f, "gfx90a:xnack+", "gfx908_60.kdb"), "'gfx908_60.kdb'");
    assert_says(refused_build(f, "gfx90a:xnack+", "gfx908_60.kdb"), "--target");
    assert_says(refused_build(f, "gfx90a", "out.kpkg"), "gfx90a.kpkg");
    assert_says(refused_build(f, "gfx90a", "out.kpkg"), "--db-id");
}

TEST_F(kilnctl_build, the_kdb_format_is_refused_for_gpus_that_miopen_does_not_support)
{
    assert_says(refused_build(f, "sm_90", "sm_90.kdb"), "--format kiln");
    assert_says(refused_build(f, "sm_90", "sm_90.kdb"), "sm_90.kpkg");
}

TEST_F(kilnctl_build, no_package_is_built_for_an_opencl_device_by_name)
{
    static const char *const NAMES[] = { "out.kpkg", "out.kdb", "opencl.kpkg",
                                         "opencl_1a2b3c4d.kpkg" };
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++) {
        assert_says(refused_build(f, "opencl:cpu:some-1.0-1a2b3c4d", NAMES[i]), "kilnctl prefetch");
        assert_says(f->run.err.text, "KILN_DEVICE_TARGETS=opencl");
    }
}

/* Only installed packages need names of a certain form. Packages for OpenCL devices are not
 * installed, but linked into static builds. */
TEST_F(kilnctl_build, a_package_for_an_opencl_device_may_have_any_name)
{
    fake.answers[0].reply = "{\"toolchains\":[{\"name\":\"opencl\",\"targets\":[{\"target\":"
                            "\"opencl:cpu:some-1.0-1a2b3c4d\",\"works\":true}]}]}";
    scratch_path(f->directory, "mine.kpkg", f->out);
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "pkg", "build", "--target", "opencl:cpu:some-1.0-1a2b3c4d", "--db-id",
                 "opencl_1a2b3c4d", "--problems", f->problems, "-o", f->out);
    reported_end(&f->reported);
    must(rc, f->run.err);
    assert_null(strstr(f->reported.text, "installed as"));
}

TEST_F(kilnctl_build, kilns_format_is_built_for_nvidias_gpus_by_the_targets_name)
{
    fake.answers[0].reply = "{\"toolchains\":[{\"name\":\"nvrtc\",\"targets\":[{\"target\":"
                            "\"sm_90\",\"works\":true}]}]}";
    scratch_path(f->directory, "sm_90.kpkg", f->out);
    reported_begin(&f->reported);
    int rc =
        RUN(&f->run, "pkg", "build", "--target", "sm_90", "--problems", f->problems, "-o", f->out);
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_OK);
    assert_says(fake.requests[1], "\"target\":\"sm_90\",\"format\":\"kiln\"");
    assert_null(strstr(f->reported.text, "installed as"));
}

TEST_F(kilnctl_build, a_package_for_nvidia_is_named_after_its_target)
{
    static const char *const names[] = { "sm_90a.kpkg", "mine.kpkg" };
    fake.answers[0].reply = "{\"toolchains\":[{\"name\":\"nvrtc\",\"targets\":[{\"target\":"
                            "\"sm_90a\",\"works\":true}]}]}";
    for (size_t i = 0; i < 2; i++) {
        scratch_path(f->directory, names[i], f->out);
        fake.asked = 0;
        reported_begin(&f->reported);
        int rc = RUN(&f->run, "pkg", "build", "--target", "sm_90a", "--db-id", "sm_90_132",
                     "--problems", f->problems, "-o", f->out);
        reported_end(&f->reported);
        must(rc, f->run.err);
        assert_says(fake.requests[1], "\"database_id\":\"sm_90_132\"");
        assert_int_equal(strstr(f->reported.text, "'sm_90a.kpkg'") != NULL, i);
    }
}

TEST_F(kilnctl_build, the_name_of_the_package_chooses_its_format)
{
    scratch_path(f->directory, "gfx90a68.kpkg", f->out);
    BUILD_REPORTED(f, rc, "--db-id", "gfx90a68");
    assert_int_equal(rc, KILN_E_OK);
    assert_says(fake.requests[1], "\"format\":\"kiln\"");
    assert_null(strstr(f->reported.text, "installed as"));
}

TEST_F(kilnctl_build, a_package_name_that_applies_to_no_device_causes_a_notice)
{
    scratch_path(f->directory, "mine.kdb", f->out);
    BUILD_REPORTED(f, rc, "--db-id", "gfx90a68");
    assert_int_equal(rc, KILN_E_OK);
    assert_says(f->reported.text, "'gfx90a68.kdb'");
    assert_string_equal(read_content(f, "mine.kdb"), "package");
}

TEST_F(kilnctl_build, an_old_manifest_next_to_a_new_package_is_reported)
{
    scratch_write(f->directory, "gfx90a68.kdb.manifest", "old");
    BUILD_REPORTED(f, rc, "--format", "kdb");
    assert_int_equal(rc, KILN_E_OK);
    assert_says(f->reported.text, "gfx90a68.kdb.manifest");
}

static void make_key(struct fixture *f)
{
    assert_int_equal(RUN(&f->run, "pkg", "keygen", "ops", "--directory", f->directory), KILN_E_OK);
}

/* Checks |name|.manifest as kilnd does. */
static enum kiln_code check_manifest(struct fixture *f, const char *name,
                                     struct manifest_file *ret_file)
{
    char beside[128];
    struct kiln_err err = KILN_ERR_INIT;
    snprintf(beside, sizeof(beside), "%s.manifest", name);
    const struct manifest_trust trust = { .directory = f->directory };
    return manifest_check(bytes_of_text(read_content(f, beside)), &trust, name, ret_file, &err);
}

TEST_F(kilnctl_build, a_pair_of_keys_is_made_and_never_replaced)
{
    struct stat found;
    make_key(f);
    assert_says(f->run.printed, "ops.key");
    assert_int_equal(stat(f->key, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    assert_true(scratch_has(f->directory, "ops.pub"));
    assert_int_equal(RUN(&f->run, "pkg", "keygen", "ops", "--directory", f->directory), KILN_E_IO);
    assert_says(f->run.err.text, "--directory");
    assert_int_equal(RUN(&f->run, "pkg", "keygen", "../ops", "--directory", f->directory),
                     KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "pkg", "keygen", "two", "--directory", f->directory, "--json"),
                     KILN_E_OK);
    assert_says(f->run.printed, "/two.key\",\"public\":\"");
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_build, a_package_built_with_a_key_has_a_valid_manifest)
{
    struct manifest_file file;
    make_key(f);
    BUILD_REPORTED(f, rc, "--key", f->key);
    assert_int_equal(rc, KILN_E_OK);
    assert_int_equal(check_manifest(f, "gfx90a68.kdb", &file), KILN_OK);
    assert_int_equal(file.size, strlen("package"));
    assert_says(f->run.printed, ", signed\n");
}

TEST_F(kilnctl_build, an_unusable_key_is_reported_before_anything_is_compiled)
{
    scratch_write(f->directory, "ops.key", "{}");
    assert_int_equal(chmod(f->key, 0600), 0);
    assert_int_not_equal(BUILD(f, "--key", f->key), KILN_E_OK);
    assert_int_not_equal(BUILD(f, "--key", "/nonexistent/key"), KILN_E_OK);
    assert_int_equal(fake.asked, 0);
    assert_int_equal(seen.plans, 0);
}

TEST_F(kilnctl_build, packages_are_signed_and_one_that_is_missing_does_not_stop_the_others)
{
    struct manifest_file file;
    make_key(f);
    scratch_write(f->directory, "gfx90a68.kdb", "four");
    int rc = RUN(&f->run, "pkg", "sign", "--key", f->key, "/nonexistent/a.kdb", f->out);
    assert_int_equal(rc, KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "/nonexistent/a.kdb");
    assert_says(f->run.printed, "gfx90a68.kdb.manifest'\n");
    assert_int_equal(check_manifest(f, "gfx90a68.kdb", &file), KILN_OK);
    assert_int_equal(file.size, 4);
}

TEST_F(kilnctl_build, signing_states_the_content_of_a_packed_file_and_the_edition)
{
    char path[512], command[1100];
    struct manifest_file file;
    make_key(f);
    scratch_write(f->directory, "gfx90a68.kdb", "four");
    snprintf(command, sizeof(command), "bzip2 '%s'", f->out);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): the plain tool packs it

    assert_int_equal(RUN(&f->run, "pkg", "sign", "--key", f->key, "--package-version", "12",
                         scratch_path(f->directory, "gfx90a68.kdb.bz2", path)),
                     KILN_E_OK);

    assert_int_equal(check_manifest(f, "gfx90a68.kdb.bz2", &file), KILN_OK);
    const struct digest content = sha256_of(bytes_of_text("four"));
    assert_true(file.has_unpacked);
    assert_true(digest_equal(&file.unpacked_sha256, &content));
    assert_int_equal(file.edition.version, 12);
    assert_true(file.edition.time > 1700000000);
}

TEST_F(kilnctl_build, signing_as_json_lists_the_manifests)
{
    make_key(f);
    scratch_write(f->directory, "gfx90a68.kdb", "four");
    assert_int_equal(RUN(&f->run, "pkg", "sign", "--key", f->key, f->out, "--json"), KILN_E_OK);
    assert_int_equal(strncmp(f->run.printed, "{\"manifests\":[\"", 15), 0);
    assert_says(f->run.printed, "gfx90a68.kdb.manifest\"],\"failures\":[]}\n");
}

TEST_F(kilnctl_build, a_package_in_use_is_not_signed)
{
    make_key(f);
    scratch_write(f->directory, "gfx90a68.kdb", "four");
    scratch_write(f->directory, "gfx90a68.kdb-wal", "log");
    assert_int_equal(RUN(&f->run, "pkg", "sign", "--key", f->key, f->out), KILN_E_INVALID);
    assert_false(scratch_has(f->directory, "gfx90a68.kdb.manifest"));
}

TEST_F(kilnctl_build, signing_needs_a_key_that_only_its_owner_reads)
{
    assert_int_equal(RUN(&f->run, "pkg", "sign", f->problems), KILN_E_INVALID);
    assert_says(f->run.err.text, "pkg keygen");
    make_key(f);
    assert_int_equal(chmod(f->key, 0644), 0);
    assert_int_equal(RUN(&f->run, "pkg", "sign", f->problems, "--key", f->key), KILN_E_DENIED);
    assert_false(scratch_has(f->directory, "problems.manifest"));
}

TEST_F(kilnctl_build, signing_with_a_public_key_names_the_mistake)
{
    make_key(f);
    scratch_path(f->directory, "ops.pub", f->pub);
    assert_int_equal(RUN(&f->run, "pkg", "sign", f->problems, "--key", f->pub), KILN_E_INVALID);
    assert_says(f->run.err.text, "ops.pub");
    assert_int_equal(chmod(f->pub, 0600), 0);
    assert_int_equal(BUILD(f, "--key", f->pub), KILN_E_INVALID);
    assert_says(f->run.err.text, "NAME.key");
    assert_false(scratch_has(f->directory, "problems.manifest"));
}

#define TRACE "kiln-trace 1\nprocess 1764288000000000 node7 42 libkiln 1\n"
#define TRACED(wanted, solver, n) \
    "plan " wanted " 9 compiled gfx90a gfx90a68 - " solver " conv -n " n " -c 8 -k 8 -F 1\n"

static int pack(struct fixture *f, const char *text, const char *option, const char *value)
{
    char trace[512];
    scratch_create(f->directory, "net.trace", text, trace);
    scratch_path(f->directory, "gfx90a68.kpkg", f->out);
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "trace", "pack", trace, "-o", f->out, option, value);
    reported_end(&f->reported);
    return rc;
}

TEST_F(kilnctl_build, the_problems_of_a_trace_are_packed_once_each_in_the_order_of_first_use)
{
    must(pack(f, TRACE TRACED("7", "-", "2") TRACED("5", "Naive", "1") TRACED("6", "Other", "1"),
              "--toolchain", "clang"),
         f->run.err);
    assert_int_equal(seen.plans, 2);
    assert_null(seen.options.solver);
    assert_string_equal(fake.requests[1],
                        "package_build {\"target\":\"gfx90a\",\"format\":\"kiln\",\"database_id\":"
                        "\"gfx90a68\",\"toolchain\":\"clang\"}");
    assert_int_equal(fake.sent_sizes[1][0], 2 * PROBLEM_WIRE_SIZE);
    assert_int_equal(number(fake.sent[1][0] + 6 * 4), 1);
    assert_string_equal(read_content(f, "gfx90a68.kpkg"), "package");
}

TEST_F(kilnctl_build, a_trace_of_two_kinds_of_devices_needs_a_choice)
{
    const char *text =
        TRACE TRACED("1", "-", "1") "plan 2 2 hot sm_90 - - - conv -n 1 -c 8 -k 8 -F 1\n";
    assert_int_equal(pack(f, text, "--batch", "2"), KILN_E_INVALID);
    assert_says(f->run.err.text, "--target");
    assert_int_equal(fake.asked, 0);
    assert_int_equal(pack(f, TRACE, "--batch", "2"), KILN_E_INVALID);
    must(pack(f, text, "--target", "gfx90a"), f->run.err);
    assert_int_equal(seen.plans, 1);
}
