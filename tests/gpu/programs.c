/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "tests/support/daemon_process.h"

#include <stdio.h>
#include <string.h>

#define LINES KILN_SOURCE "/scripts/networks/smoke.txt"
#define FORWARD_LINES 2
#define FORWARD_LINE \
    "conv -n 2 -c 8 -H 14 -W 13 -k 16 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 1\n" /* one of LINES */
#define NO_NVRTC "there is no NVRTC here"

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
};

SET_UP(setup) { daemon_process_open(&f->daemon, NULL); }

TEST_PROGRAM(setup, NULL)

static void skip_without_nvrtc(const struct fixture *f)
{
    if (f->result.status && strstr(f->result.output, NO_NVRTC)) {
        print_message("skipped: " NO_NVRTC "\n");
        skip();
    }
}

/* Repeats a problem whose kernels are compiled, without the thread that measures. */
static void repeat_steps(struct fixture *f)
{
    char file[256];
    struct kiln_err err = KILN_ERR_INIT;
    snprintf(file, sizeof(file), "%s/lines", f->daemon.directory);
    must(fs_replace_file(file, bytes_of_text(FORWARD_LINE FORWARD_LINE), 0600, &err), err);
    test_setenv("KILN_SOON_BUDGET", "0");
    run_program(&f->daemon, &f->result, "job_steps", "--device", "opencl:0", "--seconds", "0.01",
                "--settle", "0", file, NULL);
    assert_int_equal(f->result.status, 0);
    KILN_AUTO(json) struct json *job = result_json(&f->result);
    const struct json *steps = json_get(job, "steps");
    assert_int_equal(json_count(json_get(job, "problems")), 2);
    assert_true(json_get_number(steps, "count", 0) >= 1);
    assert_int_equal(json_get_number(steps, "plans", 0), 2);
    assert_true(json_get_number(steps, "undisturbed_s", 0) > 0);
    assert_int_equal(json_get_number(json_get(job, "first"), "compiled", -1), 0);
    assert_true(json_get_number(job, "step_s", 0) > 0);
    run_program(&f->daemon, &f->result, "job_steps", "--seconds", "-1", file, NULL);
    assert_int_equal(f->result.status, 2);
}

TEST_F(plain, a_first_pass_meets_every_forward_layer_and_a_job_repeats_one)
{
    run_program(&f->daemon, &f->result, "first_pass", "--device", "opencl:0", LINES, NULL);
    assert_int_equal(f->result.status, 0);
    KILN_AUTO(json) struct json *cold = result_json(&f->result);
    assert_int_equal(json_get_number(cold, "layers", 0), FORWARD_LINES);
    unsigned long long compiles = daemon_stat(&f->daemon, "compiles");
    assert_true(compiles > 0);

    run_program(&f->daemon, &f->result, "first_pass", "--device", "opencl:0", "--ahead", LINES,
                NULL);
    assert_int_equal(f->result.status, 0);
    KILN_AUTO(json) struct json *warm = result_json(&f->result);
    assert_int_equal(json_get_number(warm, "layers", 0), FORWARD_LINES);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), compiles);
    double seconds = json_get_number(warm, "seconds", -1);
    assert_true(seconds >= json_get_number(warm, "open_s", 1e9) && seconds > 0);

    repeat_steps(f);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), compiles);
}

TEST_F(plain, a_first_pass_takes_another_batch_type_and_layout)
{
    run_program(&f->daemon, &f->result, "first_pass", "--device", "opencl:0", "--batch", "3",
                "--type", "bf16", "--layout", "NHWC", "--solver", "ConvDirectNaive", LINES, NULL);
    assert_int_equal(f->result.status, 0);
}

TEST_F(plain, a_first_pass_says_why_it_cannot)
{
    run_program(&f->daemon, &f->result, "first_pass", "--device", "opencl:99", LINES, NULL);
    assert_int_equal(f->result.status, 1);
    assert_says(f->result.output, "opencl:99");
    run_program(&f->daemon, &f->result, "first_pass", "--solver", "ConvMagic", "--device",
                "opencl:0", LINES, NULL);
    assert_int_equal(f->result.status, 1);
    assert_says(f->result.output, "ConvMagic");
    run_program(&f->daemon, &f->result, "first_pass", "--type", "fp8", LINES, NULL);
    assert_int_equal(f->result.status, 2);
    assert_says(f->result.output, "'fp8'");
    run_program(&f->daemon, &f->result, "first_pass", "/nowhere", NULL);
    assert_int_equal(f->result.status, 2);
    run_program(&f->daemon, &f->result, "first_pass", NULL);
    assert_int_equal(f->result.status, 2);
}

TEST_F(plain, trials_compile_for_gpus_that_are_not_here)
{
    run_program(&f->daemon, &f->result, "gpu_trials", "--compile-only", "--target", "sm_90a",
                "--problems", LINES, "--compilers", "2", NULL);
    skip_without_nvrtc(f);
    assert_int_equal(f->result.status, 0);
    assert_says(f->result.output, "of 4 problems: ");
}

/* The lines use bulk copies in every way: of consecutive elements, of rows of pixels, of pixels at
 * a stride, and with persistent groups. */
TEST_F(plain, bulk_copies_compile_for_hopper)
{
#define CHANNELS_LAST " --in_layout NHWC --fil_layout NHWC --out_layout NHWC"
#define PLAIN "-n 4 -c 256 -H 14 -W 14 -k 256 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1" CHANNELS_LAST
#define TAPS "-n 4 -c 128 -H 14 -W 14 -k 192 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2" CHANNELS_LAST
    static const char lines[] =
        "ConvImplicitGemm\t128,64,64,4,1,4,1,1,0,2\tconvfp16 " PLAIN " -F 1\n"
        "ConvImplicitGemm\t192,128,64,12,1,5,1,1,0,2\tconvbfp16 " TAPS " -F 1\n"
        "ConvImplicitGemm\t64,128,64,4,1,4,1,1,0,2\tconvfp16 " PLAIN " -F 2\n"
        "ConvImplicitGemm\t128,128,64,4,1,3,1,1,0,2\tconvfp16 " TAPS " -F 2\n"
        "ConvImplicitGemm\t128,64,64,8,1,6,1,1,0,2\tconvfp16 " PLAIN " -F 4\n"
        "ConvImplicitGemm\t64,192,64,4,1,3,2,1,0,2\tconvbfp16 " TAPS " -F 4\n"
        "ConvImplicitGemm\t192,128,64,12,1,4,1,1,0,3\tconvbfp16 " PLAIN " -F 1\n"
        "ConvImplicitGemm\t128,64,64,8,1,2,1,16,0,3\tconvfp16 " TAPS " -F 1\n"
        "ConvImplicitGemm\t128,256,64,8,1,3,1,1,0,3\tconvbfp16 " PLAIN " -F 2\n";
    char file[256];
    snprintf(file, sizeof(file), "%s/chosen", f->daemon.directory);
    struct kiln_err err = KILN_ERR_INIT;
    must(fs_replace_file(file, bytes_of_text(lines), 0600, &err), err);
    run_program(&f->daemon, &f->result, "gpu_trials", "--compile-only", "--target", "sm_90a",
                "--chosen", file, "--compilers", "2", NULL);
    skip_without_nvrtc(f);
    if (f->result.status)
        fail_msg("%s", f->result.output);
    assert_says(f->result.output, "of 9 problems: ");
}

/* Also tests that kiln can read the lists of scripts/networks/. */
TEST_F(plain, untuned_choices_are_listed_without_a_gpu)
{
    static const char *const networks[] = { "dcgan",   "deeplabv3", "mobilenetv3-l",
                                            "patches", "r3d-18",    "sdxl-vae" };
    char file[256];
    for (size_t i = 0; i < sizeof(networks) / sizeof(networks[0]); i++) {
        snprintf(file, sizeof(file), KILN_SOURCE "/scripts/networks/%s.txt", networks[i]);
        run_program(&f->daemon, &f->result, "gpu_trials", "--untuned", "--list", "--target",
                    "gfx942", "--problems", file, "--type", "bf16", "--batch", "2", NULL);
        if (f->result.status)
            fail_msg("%s", f->result.output);
    }
    run_program(&f->daemon, &f->result, "gpu_trials", "--untuned", "--list", "--target", "sm_90a",
                "--problems", LINES, NULL);
    assert_int_equal(f->result.status, 0);
    assert_says(f->result.output, "ConvDepthwise\t");
    assert_says(f->result.output, "\tconv -n 1 -c 8 -H 16 -W 16 -k 8 ");
}

TEST_F(plain, trials_are_refused_with_a_reason)
{
    run_program(&f->daemon, &f->result, "gpu_trials", "--compile-only", "--target", "sm_90a", NULL);
    assert_int_equal(f->result.status, 2);
    assert_says(f->result.output, "nothing");
    run_program(&f->daemon, &f->result, "gpu_trials", "--target", "sm_90a", "--problems",
                "/nowhere", NULL);
    assert_int_equal(f->result.status, 2);
    assert_says(f->result.output, "'/nowhere'");
    run_program(&f->daemon, &f->result, "gpu_trials", "--target", "sm_90a", "--problems", LINES,
                "--solver", "ConvDirectNaive", "--configs", "7,7", NULL);
    assert_int_equal(f->result.status, 2);
    assert_says(f->result.output, "7,7");
}

TEST_F(plain, peaks_compile_for_gpus_with_and_without_their_own_instructions)
{
    static const char *const targets[] = { "sm_80", "sm_90a" };
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        run_program(&f->daemon, &f->result, "gpu_peaks", "--compile-only", targets[i], NULL);
        skip_without_nvrtc(f);
        assert_int_equal(f->result.status, 0);
    }
}
