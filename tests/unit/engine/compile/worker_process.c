/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "common/protocol/messages.h"
#include "engine/compile/code_object.h"
#include "engine/digest/sha256.h"
#include "tests/support/code_object_names.h"
#include "tests/support/roots_own_file.h"
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"
#include "tests/support/wait.h"
#include "tests/unit/engine/compile/compiler_process.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define OBJECT_MAX (16u << 20)
/* Content that must not leak into any output. Its length is a multiple of an instruction's size. */
#define HIDDEN "hidden_word(); \n"

struct fixture {
    struct toolchain_table *table;
    struct compiler_process worker;
    struct buffer headers;
    struct buffer object;
};

static struct fixture fixture;
static char secret[PATH_MAX]; /* a file outside every worker's directory */

static struct compile_result describe(void)
{
    struct compile_job job = { .kind = COMPILE_DESCRIBE };
    return compiler_run(&fixture.worker, &job);
}

static void start_with(const struct compiler_setup *setup)
{
    test_buffer(&fixture.headers, 1u << 20);
    test_buffer(&fixture.object, OBJECT_MAX);
    compiler_start(&fixture.worker, setup);
}

SET_UP_STATIC(start) { start_with(NULL); }

/* Needs root. Other users skip the test. */
static void start_as_nobody(void)
{
    start_with(&(struct compiler_setup){ .user = geteuid() == 0 ? 65534 : 0 });
}

SET_UP_STATIC(start_as_another) { start_as_nobody(); }

TEAR_DOWN_STATIC(stop) { compiler_stop(&fixture.worker); }

FIXTURE(as_another, start_as_another, stop);

FIXTURE(worker, start, stop);

static void read_table(struct compile_result *result, struct toolchain_table *table)
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer json;
    buffer_init(&json, 1u << 20);
    assert_int_equal(result->end, COMPILE_DONE);
    must(fs_read_fd(result->object_fd, 1u << 20, &json, &err), err);
    must(toolchain_table_describe(table, buffer_view(&json), &err), err);
    compile_result_done(result);
}

SET_UP_STATIC(look_around)
{
    struct kiln_err err = KILN_ERR_INIT;
    must(toolchain_table_create(&fixture.table, &err), err);
    compiler_start(&fixture.worker, NULL);
    struct compile_result result = describe();
    read_table(&result, fixture.table);
    for (size_t i = 0; i < toolchain_table_count(fixture.table); i++) {
        const struct toolchain *tc = toolchain_table_at(fixture.table, i);
        print_message("here: %s, %s, %s\n", tc->name, tc->version, tc->path);
    }
    compiler_stop(&fixture.worker);
}

TEAR_DOWN_STATIC(forget) { toolchain_table_destroy(fixture.table); }

TEST_PROGRAM(look_around, forget)

static const struct toolchain *need(const char *name)
{
    const struct toolchain *tc = toolchain_table_find(fixture.table, bytes_of_text(name));
    SKIP_IF(!tc, "there is no %s here", name);
    return tc;
}

static const char *target_for(const char *toolchain)
{
    const struct toolchain *tc = need(toolchain);
    return tc->family == TARGET_OPENCL   ? tc->only_target
           : tc->family == TARGET_NVIDIA ? "sm_90"
                                         : "gfx90a";
}

#define HEAD                                               \
    "#if defined(KILN_OPENCL)\n"                           \
    "#define ENTRY __kernel\n#define MEMORY __global\n"    \
    "#else\n"                                              \
    "#define ENTRY extern \"C\" __attribute__((global))\n" \
    "#define MEMORY\n"                                     \
    "#endif\n"

#define ANSWER HEAD "ENTRY void answer(MEMORY float *y) { y[0] = VALUE; }\n"

static struct compile_job job_of(const char *toolchain, const char *target, const char *source)
{
    return (struct compile_job){ .kind = COMPILE_KERNEL,
                                 .toolchain = bytes_of_text(toolchain),
                                 .target = bytes_of_text(target),
                                 .program = bytes_of_text("answer.cl"),
                                 .options = bytes_of_text("-DVALUE=42.0f"),
                                 .source = bytes_of_text(source) };
}

static void count_answer(void *context, struct bytes name)
{
    *(unsigned *)context += bytes_equal_text(name, "answer");
}

static void is_for(struct compile_result *result, const char *target)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct target t;
    unsigned answers = 0;
    if (result->end != COMPILE_DONE)
        fail_msg("%s: %s\n%s", target, result->err.text, result->log ? result->log : "");
    fixture.object.size = 0;
    must(target_parse(bytes_of_text(target), &t, &err), err);
    must(fs_read_fd(result->object_fd, OBJECT_MAX, &fixture.object, &err), err);
    must(code_object_check(buffer_view(&fixture.object), &t, &err), err);
    size_t all = code_object_kernels(buffer_view(&fixture.object), &t, count_answer, &answers);
    assert_int_equal(all, t.family == TARGET_OPENCL ? 0 : 1);
    assert_int_equal(answers, all);
}

static void builds(const char *toolchain, const char *target)
{
    const struct toolchain *tc = need(toolchain);
    struct compile_job job = job_of(toolchain, target, ANSWER);
    job.toolchain_id = tc->identity;
    struct compile_result result = compiler_run(&fixture.worker, &job);
    is_for(&result, target);
    print_message("%s %s: %.1f ms\n", toolchain, target, (double)result.wall_ns / 1e6);
    compile_result_done(&result);
}

TEST(worker, a_toolchain_keeps_its_identity)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(toolchain_table) struct toolchain_table *again = NULL;
    must(toolchain_table_create(&again, &err), err);
    struct compile_result result = describe();
    read_table(&result, again);
    assert_int_equal(toolchain_table_count(again), toolchain_table_count(fixture.table));
    for (size_t i = 0; i < toolchain_table_count(again); i++) {
        const struct toolchain *a = toolchain_table_at(again, i);
        const struct toolchain *b = toolchain_table_find(fixture.table, bytes_of_text(a->name));
        assert_true(digest_equal(&a->identity, &b->identity));
        assert_string_not_equal(a->version, "");
    }
}

TEST(worker, hiprtc_builds_for_amd)
{
    static const char *const targets[] = { "gfx906", "gfx908", "gfx90a", "gfx90a:sramecc+:xnack-",
                                           "gfx1030" };
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
        builds("hiprtc", targets[i]);
}

TEST(worker, clang_builds_for_amd_without_any_of_its_libraries)
{
    static const char *const targets[] = { "gfx906", "gfx942", "gfx1100", "gfx1201",
                                           "gfx90a:sramecc+:xnack-" };
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
        builds("clang", targets[i]);
}

/* A kernel that uses what simple HIP kernels use, but includes no header of ROCm. */
#define PLAIN_HIP                                                                    \
    "extern \"C\" __global__ void __launch_bounds__(256)\n"                          \
    "answer(float a, const float4 *x, float *y, unsigned *n)\n"                      \
    "{\n"                                                                            \
    "    __shared__ float s[256];\n"                                                 \
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"                      \
    "    s[threadIdx.x] = fmaf(a, x[i].x, sqrtf(y[i])) + expf(y[i]) + logf(y[i]);\n" \
    "    __syncthreads();\n"                                                         \
    "    y[i] = max(s[255 - threadIdx.x], fabsf(s[0])) + make_float2(1, 2).y;\n"     \
    "    if (i == 0)\n"                                                              \
    "        atomicAdd(n, gridDim.x);\n"                                             \
    "    atomicAdd(y, 1.0f);\n"                                                      \
    "    atomicCAS(n, 0u, (unsigned)warpSize);\n"                                    \
    "}\n"

TEST(worker, clang_builds_plain_hip_kernels_without_rocms_headers)
{
    static const char *const targets[] = { "gfx906", "gfx942", "gfx1030", "gfx1201" };
    need("clang");
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        struct compile_job job = job_of("clang", targets[i], PLAIN_HIP);
        job.options = bytes_of(NULL, 0);
        struct compile_result result = compiler_run(&fixture.worker, &job);
        is_for(&result, targets[i]);
        compile_result_done(&result);
    }
}

TEST(worker, a_function_of_rocms_device_libraries_is_named_with_what_it_needs)
{
    need("clang");
    struct compile_job job = job_of("clang", "gfx942",
                                    "extern \"C\" __global__ void answer(float *y)\n"
                                    "{ y[0] = sinf(y[1]); }\n");
    struct compile_result result = compiler_run(&fixture.worker, &job);
    assert_int_equal(result.end, COMPILE_REFUSED);
    assert_says(result.log, "'sinf' is unavailable");
    assert_says(result.log, "device libraries");
    assert_says(result.err.text, "HIP");
    compile_result_done(&result);
}

TEST(worker, nvrtc_builds_for_nvidia)
{
    builds("nvrtc", "sm_90");
    builds("nvrtc", "sm_80");
}

TEST(worker, opencl_builds_for_its_device)
{
    builds("opencl", target_for("opencl"));
    builds("opencl", target_for("opencl"));
}

static bool object_holds(const char *text)
{
    return memmem(fixture.object.data, fixture.object.size, text, strlen(text)) != NULL;
}

TEST(worker, a_pocl_binary_carries_compiled_kernels_for_the_required_size)
{
    const char *target = target_for("opencl");
    SKIP_IF(!strstr(target, "Portable-Computing-Language"), "PoCL is not the OpenCL platform here");
    struct compile_job job = job_of("opencl", target,
                                    "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
                                    "void answer(__global float *y) { y[get_global_id(0)] = 1; }");
    struct compile_result result = compiler_run(&fixture.worker, &job);
    is_for(&result, target);
    assert_true(object_holds("/answer/0-0-0/answer.so"));
    assert_true(object_holds("/answer/64-1-1-goffs0-smallgrid/answer.so"));
    compile_result_done(&result);
}

TEST(worker, one_worker_serves_all_toolchains_one_after_another)
{
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < toolchain_table_count(fixture.table); i++) {
            const char *name = toolchain_table_at(fixture.table, i)->name;
            builds(name, target_for(name));
        }
    }
}

typedef void toolchain_test(const char *toolchain, const char *target);

static void each_toolchain_of(toolchain_test *test, bool for_gpus_only)
{
    unsigned tested = 0;
    for (size_t i = 0; i < toolchain_table_count(fixture.table); i++) {
        const struct toolchain *tc = toolchain_table_at(fixture.table, i);
        if (for_gpus_only && tc->family == TARGET_OPENCL)
            continue;
        test(tc->name, target_for(tc->name));
        tested++;
    }
    SKIP_IF(tested == 0, "there is no such compiler here");
}

static void each_toolchain(toolchain_test *test) { each_toolchain_of(test, false); }
static void each_gpu_toolchain(toolchain_test *test) { each_toolchain_of(test, true); }

static void reports_its_error(const char *toolchain, const char *target)
{
    struct compile_job job = job_of(toolchain, target, "void f() { this_is_not_there(; }\n");
    struct compile_result result = compiler_run(&fixture.worker, &job);
    assert_int_equal(result.end, COMPILE_REFUSED);
    assert_int_equal(result.err.code, KILN_COMPILE_FAILED);
    assert_says(result.err.text, "log");
    assert_non_null(result.log);
    assert_says(result.log, "error");
    compile_result_done(&result);
    builds(toolchain, target);
}

TEST(worker, a_toolchain_that_is_not_the_one_asked_for_refuses_the_job)
{
    const struct toolchain *tc = need("clang");
    struct compile_job job = job_of("clang", "gfx90a", ANSWER);
    job.toolchain_id = tc->identity;
    struct compile_result result = compiler_run(&fixture.worker, &job);
    is_for(&result, "gfx90a");
    job.toolchain_id.bytes[0] ^= 1;
    result = compiler_run(&fixture.worker, &job);
    assert_int_equal(result.end, COMPILE_OUTDATED);
    assert_int_equal(result.err.code, KILN_UNAVAILABLE);
    assert_says(result.err.text, "clang");
    compile_result_done(&result);
    job.toolchain_id = tc->identity;
    result = compiler_run(&fixture.worker, &job);
    is_for(&result, "gfx90a");
}

/* A worker learns a compiler's identity only when its first job compiles. It detects a wrong
 * identity only after that compile, but must still report it. */
TEST(worker, a_toolchain_that_is_not_the_one_asked_for_refuses_a_first_job_too)
{
    struct compile_job job = job_of("clang", "gfx90a", ANSWER);
    job.toolchain_id = need("clang")->identity;
    job.toolchain_id.bytes[0] ^= 1;
    struct compile_result result = compiler_run(&fixture.worker, &job);
    assert_int_equal(result.end, COMPILE_OUTDATED);
    assert_int_equal(result.object_fd, -1);
    compile_result_done(&result);
}

TEST(worker, a_wrong_source_for_another_toolchain_is_reported_as_outdated)
{
    struct compile_job job = job_of("clang", "gfx90a", "void f() { this_is_not_there(; }\n");
    job.toolchain_id = need("clang")->identity;
    job.toolchain_id.bytes[0] ^= 1;
    struct compile_result result = compiler_run(&fixture.worker, &job);
    assert_int_equal(result.end, COMPILE_OUTDATED); /* a failure would be cached */
    compile_result_done(&result);
}

TEST(worker, a_compile_error_comes_with_its_log_and_the_worker_goes_on)
{
    each_toolchain(reports_its_error);
}

static void add_header(const char *name, const char *text)
{
    struct message_header h = { .name = bytes_of_text(name), .text = bytes_of_text(text) };
    message_header_write(&fixture.headers, &h);
}

static void finds_headers(const char *toolchain, const char *target)
{
    struct compile_job job = job_of(toolchain, target, "#include \"kiln/prelude.h\"\n" ANSWER);
    job.options = bytes_of(NULL, 0);
    job.headers = buffer_view(&fixture.headers);
    job.header_count = 2;
    struct compile_result result = compiler_run(&fixture.worker, &job);
    is_for(&result, target);
    compile_result_done(&result);
}

TEST(worker, headers_are_found_by_their_names)
{
    add_header("kiln/prelude.h", "#include \"number.h\"\n#define VALUE NUMBER\n");
    add_header("number.h", "#define NUMBER 7.0f\n");
    each_toolchain(finds_headers);
}

static void lacks_header(const char *toolchain, const char *target)
{
    struct compile_job job = job_of(toolchain, target, "#include \"absent.h\"\n" ANSWER);
    struct compile_result result = compiler_run(&fixture.worker, &job);
    assert_int_equal(result.end, COMPILE_REFUSED);
    assert_says(result.log, "absent.h");
    compile_result_done(&result);
}

TEST(worker, a_header_that_did_not_come_is_missing) { each_toolchain(lacks_header); }

static void cannot_read(const char *toolchain, const char *target)
{
    char source[PATH_MAX + 512];
    snprintf(source, sizeof(source), "#include \"%s\"\n" ANSWER, secret);
    struct compile_job job = job_of(toolchain, target, source);
    struct compile_result result = compiler_run(&fixture.worker, &job);
    assert_int_equal(result.end, COMPILE_REFUSED);
    assert_null(strstr(result.log, "hidden_word"));
    compile_result_done(&result);
}

/* Sources that copy a file's content into the object. The compiler prints no message about it. The
 * attribute fixes the work-group size, so that PoCL generates code at once. */
enum { BY_EMBED, BY_INCBIN, WAYS };
static const char *const takers[WAYS] = {
    [BY_EMBED] = HEAD "static const unsigned char taken[] = {\n#embed \"%s\"\n};\n"
                      "ENTRY void answer(MEMORY int *y) { y[0] = taken[y[1]]; }\n",
    [BY_INCBIN] = HEAD "#if defined(KILN_OPENCL)\n"
                       "__attribute__((reqd_work_group_size(64, 1, 1)))\n"
                       "#endif\n"
                       "ENTRY void answer(MEMORY int *y) {\n"
                       "    __asm__ volatile(\".incbin \\\"%s\\\"\"); y[0] = 1; }\n",
};

/* Returns whether the compiler supports |way| of including a file. If it does not, it refuses the
 * source, and its messages do not quote the file. */
static bool knows(const char *toolchain, const char *target, size_t way)
{
    if (way == BY_EMBED)
        return strcmp(toolchain, "clang") == 0;
    return strcmp(toolchain, "clang") == 0 || strcmp(toolchain, "hiprtc") == 0 ||
           strstr(target, "Portable-Computing-Language") != NULL;
}

/* Compiles the source |taker|, in which the path of the secret file replaces "%s". Returns whether
 * the object contains the secret. The log must never contain it. */
static bool takes(const char *toolchain, const char *target, const char *taker)
{
    char source[PATH_MAX + 512];
    bool taken = false;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(source, sizeof(source), taker, secret);
#pragma GCC diagnostic pop
    struct compile_job job = job_of(toolchain, target, source);
    struct compile_result result = compiler_run(&fixture.worker, &job);
    if (result.end == COMPILE_DONE) {
        struct kiln_err err = KILN_ERR_INIT;
        fixture.object.size = 0;
        must(fs_read_fd(result.object_fd, OBJECT_MAX, &fixture.object, &err), err);
        taken = object_holds("hidden_word");
    } else {
        if (result.end != COMPILE_REFUSED)
            fail_msg("%s: %s\n%s", toolchain, result.err.text, result.log ? result.log : "");
        assert_non_null(result.log);
        assert_null(strstr(result.log, "hidden_word"));
    }
    compile_result_done(&result);
    return taken;
}

static void cannot_take(const char *toolchain, const char *target)
{
    for (size_t way = 0; way < WAYS; way++)
        assert_false(takes(toolchain, target, takers[way]));
}

/* Checks that the same sources do include a file that the compiler may read. Otherwise, cannot_take
 * might succeed for another reason than the permissions. */
static void can_take(const char *toolchain, const char *target)
{
    for (size_t way = 0; way < WAYS; way++) {
        if (knows(toolchain, target, way) && !takes(toolchain, target, takers[way]))
            fail_msg("%s does not take what it may read: way %zu shows nothing", toolchain, way);
    }
}

TEST(worker, a_source_cannot_quote_files_of_this_machine)
{
    struct kiln_err err = KILN_ERR_INIT;
    SKIP_IF(syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 2,
            "this system has no Landlock, or one from before Linux 5.19");
    int fd = open("kiln-test-secret.h", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && realpath("kiln-test-secret.h", secret));
    must(fs_write_all(fd, bytes_of_text(HIDDEN), &err), err);
    close(fd);
    each_toolchain(cannot_read);
    each_toolchain(cannot_take);
    unlink(secret);
}

SET_UP_STATIC(start_beside_roots_own)
{
    roots_own_file(HIDDEN, secret);
    start_as_nobody();
}

FIXTURE(beside_roots_own, start_beside_roots_own, stop);

TEST(beside_roots_own, a_file_only_root_may_read_is_not_quoted_by_another_users_compile)
{
    SKIP_IF(geteuid() != 0, "only root has a file that another user may not read");
    each_toolchain(cannot_read);
    each_toolchain(cannot_take);
    assert_int_equal(chmod(secret, 0644), 0);
    each_toolchain(can_take);
    char source[PATH_MAX + 512];
    snprintf(source, sizeof(source), "#include \"%s\"\n" ANSWER, secret);
    need("clang");
    struct compile_job job = job_of("clang", "gfx90a", source);
    struct compile_result result = compiler_run(&fixture.worker, &job);
    assert_says(result.log, "hidden_word");
    compile_result_done(&result);
}

TEST(as_another, as_another_user_it_serves_every_toolchain_in_turn)
{
    char path[64], line[128];
    unsigned real = 0, effective = 0, saved = 0;
    NEED_ROOT();
    one_worker_serves_all_toolchains_one_after_another(state);
    snprintf(path, sizeof(path), "/proc/%d/status", (int)fixture.worker.worker);
    FILE *status = fopen(path, "re");
    assert_non_null(status);
    while (fgets(line, sizeof(line), status))
        sscanf(line, "Uid: %u %u %u", &real, &effective, &saved);
    fclose(status);
    assert_true(real == 65534 && effective == 65534 && saved == 65534);
}

TEST(worker, the_worker_checks_names_once_more)
{
    const char *name = need("clang")->name;
    struct compile_job job = job_of(name, "gfx942", ANSWER);
    job.program = bytes_of_text("../../escape");
    struct compile_result result = compiler_run(&fixture.worker, &job);
    assert_int_equal(result.end, COMPILE_REFUSED);
    assert_says(result.err.text, "../../escape");
    compile_result_done(&result);
    add_header("../h", "");
    job = job_of(name, "gfx942", ANSWER);
    job.headers = buffer_view(&fixture.headers);
    job.header_count = 1;
    result = compiler_run(&fixture.worker, &job);
    assert_int_equal(result.end, COMPILE_REFUSED);
    compile_result_done(&result);
}

static enum compile_end probe(const char *toolchain, const char *target)
{
    struct compile_job job = { .kind = COMPILE_PROBE,
                               .toolchain = bytes_of_text(toolchain),
                               .target = bytes_of_text(target) };
    struct compile_result result = compiler_run(&fixture.worker, &job);
    enum compile_end end = result.end;
    struct stat seen = { 0 };
    assert_true(end != COMPILE_DONE || fstat(result.object_fd, &seen) == 0);
    assert_int_equal(seen.st_size, 0);
    compile_result_done(&result);
    return end;
}

TEST(worker, a_probe_reports_and_keeps_no_object)
{
    need("clang");
    assert_int_equal(probe("clang", "gfx942"), COMPILE_DONE);
    assert_int_equal(probe("clang", "gfx9999"), COMPILE_REFUSED);
    assert_int_equal(probe("clang", "sm_90"), COMPILE_REFUSED);
    assert_int_equal(probe("gcc", "gfx942"), COMPILE_UNAVAILABLE);
}

TEST(worker, another_machines_opencl_target_is_refused)
{
    need("opencl");
    struct compile_job job = job_of("opencl", "opencl:z80:other-0123456789abcdef", ANSWER);
    struct compile_result result = compiler_run(&fixture.worker, &job);
    assert_int_equal(result.end, COMPILE_REFUSED);
    assert_says(result.err.text, "opencl:z80");
    compile_result_done(&result);
}

/* The hiprtc of HIP 5.2, which reports version 9.0, corrupts its heap if it does not know the
 * target. */
TEST(plain, hiprtc_for_gfx942_crashes_the_worker_and_is_reported)
{
    SKIP_IF(strcmp(need("hiprtc")->version, "hiprtc 9.0") != 0, "this hiprtc does not crash");
    struct compiler_process doomed;
    compiler_start(&doomed, NULL);
    struct compile_job job = job_of("hiprtc", "gfx942", ANSWER);
    struct compile_result result = compiler_run(&doomed, &job);
    assert_int_equal(result.end, COMPILE_CRASHED);
    assert_int_equal(result.object_fd, -1);
    assert_non_null(result.log);
    compile_result_done(&result);
    int status = compiler_stop(&doomed);
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* with a sanitizer, the worker exits with a report */
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
#else
    assert_int_not_equal(status, 0);
#endif
}

static void writes_too_much(const char *toolchain, const char *target)
{
    static const struct compiler_setup limits = { .file_size = 16000 }; /* clang's prelude fits */
    struct compiler_process small;
    compiler_start(&small, &limits);
    struct compile_job job =
        job_of(toolchain, target, ANSWER "extern \"C\" __device__ int large[8192] = { 1 };\n");
    struct compile_result result = compiler_run(&small, &job);
    assert_int_equal(result.end, COMPILE_OUTPUT);
    compile_result_done(&result);
    compiler_stop(&small);
}

TEST(plain, an_object_beyond_the_file_size_limit_is_not_made)
{
    each_gpu_toolchain(writes_too_much);
}

static rlim_t bound_of(const struct compiler_process *p, int resource)
{
    struct rlimit seen;
    assert_int_equal(prlimit(p->worker, resource, NULL, &seen), 0);
    return seen.rlim_cur;
}

TEST(plain, worker_limits_are_in_force_when_it_reports_ready)
{
    static const struct compiler_setup setup = { .max_jobs = 9, .limits = "77,8589934592,1048576" };
    struct compiler_process p;
    struct rlimit cpu;

    compiler_start(&p, &setup);

    assert_int_equal(prlimit(p.worker, RLIMIT_CPU, NULL, &cpu), 0);
    assert_int_equal(cpu.rlim_cur, 77);
    /* The hard limit is ten times the limit of a job: nine jobs (max_jobs), and as much as one more
     * job for the work between jobs. */
    assert_int_equal(cpu.rlim_max, 770);
    assert_int_equal(bound_of(&p, RLIMIT_FSIZE), 1u << 20);
    assert_int_equal(bound_of(&p, RLIMIT_CORE), 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_int_equal(bound_of(&p, RLIMIT_AS), 8589934592u);
#endif
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)p.worker), 10);
    compiler_stop(&p);
}

TEST(plain, the_session_of_a_compiler_gives_way_to_kilnd)
{
    static const struct compiler_setup setup = { .max_jobs = 9, .limits = "77,8589934592,1048576" };
    struct compiler_process p;
    char path[64];
    int niceness = 0;
    NEED_ROOT(); /* other users may change only a few scheduling groups per second */
    SKIP_IF(access("/proc/self/autogroup", F_OK) != 0, "sessions are no scheduling groups here");
    compiler_start(&p, &setup);

    snprintf(path, sizeof(path), "/proc/%d/autogroup", (int)p.worker);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "/autogroup-%*d nice %d", &niceness), 1);
    fclose(file);
    compiler_stop(&p);

    assert_int_equal(niceness, 5);
}

TEST(plain, each_job_has_a_separate_cpu_limit)
{
    static const struct compiler_setup setup = { .max_jobs = 9, .limits = "77,8589934592,1048576" };
    struct compiler_process p;
    need("clang");
    compiler_start(&p, &setup);
    struct compile_job job = job_of("clang", "gfx90a", ANSWER);

    struct compile_result result = compiler_run(&p, &job);

    assert_int_equal(result.end, COMPILE_DONE);
    assert_true(bound_of(&p, RLIMIT_CPU) > 77);
    compile_result_done(&result);
    compiler_stop(&p);
}

static void builds_the_same_bytes_elsewhere(const char *toolchain, const char *target)
{
    struct compiler_process other;
    builds(toolchain, target);
    struct digest first = sha256_of(buffer_view(&fixture.object));
    compiler_start(&other, NULL);
    struct compile_job job = job_of(toolchain, target, ANSWER);
    struct compile_result result = compiler_run(&other, &job);
    is_for(&result, target);
    struct digest second = sha256_of(buffer_view(&fixture.object));
    assert_true(digest_equal(&first, &second));
    compile_result_done(&result);
    compiler_stop(&other);
}

TEST(worker, the_directory_of_a_worker_does_not_show_in_its_objects)
{
    each_gpu_toolchain(builds_the_same_bytes_elsewhere);
}

TEST(plain, a_worker_ends_after_its_jobs)
{
    static const struct compiler_setup limits = { .max_jobs = 2 };
    need("clang");
    struct compiler_process brief;
    compiler_start(&brief, &limits);
    struct compile_job job = { .kind = COMPILE_PROBE,
                               .toolchain = bytes_of_text("clang"),
                               .target = bytes_of_text("gfx942") };
    for (int i = 0; i < 2; i++) {
        struct compile_result result = compiler_run(&brief, &job);
        assert_int_equal(result.end, COMPILE_DONE);
        compile_result_done(&result);
    }
    siginfo_t end;
    IN_TIME(waitid(P_PID, (id_t)brief.pid, &end, WEXITED | WNOWAIT));
    assert_int_equal(compiler_stop(&brief), 0);
}

TEST(plain, a_worker_ends_when_its_socket_closes)
{
    struct compiler_process p;
    compiler_start(&p, NULL);
    assert_int_equal(compiler_stop(&p), 0);
}
