/* SPDX-License-Identifier: MIT */
/* Tests with a fake NVRTC, whose builtins library is in no directory that the dynamic linker
 * searches. A real NVRTC is in the same situation if ldconfig has replaced /etc/ld.so.cache,
 * because a confined process can no longer read that file. */
#include "common/base/fs.h"
#include "tests/support/test.h"
#include "tests/unit/engine/compile/compiler_process.h"

#include <stdlib.h>
#include <string.h>

#define BUILTINS "libnvrtc-builtins.so.99.1"

static struct compile_result run_with(const char *cuda_path, const struct compile_job *job)
{
    struct compiler_process worker;
    setenv("KILN_CUDA_PATH", cuda_path, 1);
    compiler_start(&worker, NULL);
    unsetenv("KILN_CUDA_PATH");
    struct compile_result result = compiler_run(&worker, job);
    compiler_stop(&worker);
    return result;
}

static struct toolchain_table *describe_with(const char *cuda_path)
{
    static const struct compile_job describe = { .kind = COMPILE_DESCRIBE };
    struct kiln_err err = KILN_ERR_INIT;
    struct toolchain_table *table = NULL;
    BUFFER_AUTO struct buffer json;
    buffer_init(&json, 1u << 20);
    must(toolchain_table_create(&table, &err), err);
    struct compile_result result = run_with(cuda_path, &describe);
    assert_int_equal(result.end, COMPILE_DONE);
    must(fs_read_fd(result.object_fd, 1u << 20, &json, &err), err);
    must(toolchain_table_describe(table, buffer_view(&json), &err), err);
    compile_result_done(&result);
    return table;
}

TEST(plain, nvrtc_finds_its_builtins_without_the_dynamic_linkers_cache)
{
    KILN_AUTO(toolchain_table) struct toolchain_table *table = describe_with(FAKE_CUDA);
    const struct toolchain *nvrtc = toolchain_table_find(table, bytes_of_text("nvrtc"));
    assert_non_null(nvrtc);
    assert_string_equal(nvrtc->version, "NVRTC 99.1");
}

TEST(plain, nvrtc_without_its_builtins_counts_as_not_installed)
{
    KILN_AUTO(toolchain_table) struct toolchain_table *table = describe_with(FAKE_CUDA_BROKEN);
    const struct toolchain *chosen = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    struct target target;
    must(target_parse(bytes_of_text("sm_90"), &target, &err), err);
    assert_null(toolchain_table_find(table, bytes_of_text("nvrtc")));
    assert_int_equal(toolchain_choose(table, &target, bytes_of(NULL, 0), &chosen, &err),
                     KILN_UNSUPPORTED);
    assert_says(err.text, BUILTINS);
}

TEST(plain, a_compile_without_nvrtcs_builtins_names_the_missing_library)
{
    const struct compile_job job = { .kind = COMPILE_KERNEL,
                                     .toolchain = bytes_of_text("nvrtc"),
                                     .target = bytes_of_text("sm_90"),
                                     .program = bytes_of_text("k.cu"),
                                     .source = bytes_of_text("source"),
                                     .toolchain_id.bytes[0] = 1 };
    struct compile_result result = run_with(FAKE_CUDA_BROKEN, &job);
    assert_int_equal(result.end, COMPILE_UNAVAILABLE);
    assert_int_equal(result.err.code, KILN_UNAVAILABLE);
    assert_says(result.err.text, BUILTINS);
    compile_result_done(&result);
}
