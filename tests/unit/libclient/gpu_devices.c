/* SPDX-License-Identifier: MIT */
#include "libclient/device/device.h"
#include "tests/support/child.h"
#include "tests/unit/libclient/gpu_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *uuid_of(int number)
{
    static char text[64];
    char hex[33] = "";
    for (size_t i = 0; i < 32; i++)
        hex[i] = i % 2 ? '1' : (char)('1' + number);
    if (gpu.is_cuda)
        snprintf(text, sizeof(text), "GPU-%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex, hex, hex, hex);
    else
        snprintf(text, sizeof(text), "GPU-1901ead3a2ecd4%02x", (unsigned)number);
    return text;
}

TEST(gpu, a_device_reports_its_properties)
{
    struct kiln_device *d = gpu_open(1);
    char driver[32];
    if (gpu.is_cuda)
        snprintf(driver, sizeof(driver), gpu.has_tensor_maps ? "CUDA 13.1" : "CUDA 11.1");
    else
        snprintf(driver, sizeof(driver), "HIP %d.2.41133", gpu.rocm);

    assert_string_equal(kiln_device_name(d), gpu_name(1));
    assert_string_equal(kiln_device_model(d), "Fake GPU 1");
    assert_string_equal(kiln_device_target(d), gpu.target);
    assert_string_equal(kiln_device_database_id(d), gpu.is_cuda ? "sm_90_104" : "gfx90a68");
    assert_string_equal(kiln_device_uuid(d), uuid_of(1));
    assert_memory_equal(kiln_device_driver(d), driver, strlen(driver));
    assert_string_equal(kiln_device_pci(d), "0000:44:00.0");
    assert_int_equal(kiln_device_compute_units(d), 104);
    assert_int_equal(kiln_device_clock_mhz(d), 1700);
    assert_true(kiln_device_memory(d) == FAKE_GPU_MEMORY_MAX);
    kiln_device_close(d);
}

/* The target is "sm_90a" only if the driver can encode tensor maps, because code for sm_90a needs
 * them. */
TEST(gpu, only_hopper_has_a_target_with_the_letter_a)
{
    SKIP_IF(!gpu.is_cuda, "only CUDA has this");
    const struct {
        int capability;
        const char *target;
    } cases[] = {
        { 75, "sm_75" }, { 80, "sm_80" }, { 89, "sm_89" }, { 90, gpu.target }, { 100, "sm_100" }
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gpu.fake->capability = cases[i].capability;
        struct kiln_device *d = gpu_open(0);
        assert_string_equal(kiln_device_target(d), cases[i].target);
        kiln_device_close(d);
    }
}

/* The fake acts like a runtime whose struct of device properties has another layout. */
TEST(gpu, an_arch_that_makes_no_sense_is_refused)
{
    SKIP_IF(gpu.is_cuda, "only HIP has this");
    static const char *const wrong[] = { "", "0000:43:00.0", "gfx90a:sramecc", "gfx" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct kiln_device *d = NULL;
        gpu.fake->arch = wrong[i];
        assert_int_equal(kiln_device_open("hip", &d, &gpu.err), KILN_E_UNSUPPORTED);
        assert_says(gpu.err.text, "hip:0");
        assert_null(d);
    }
}

TEST(gpu, a_part_of_a_gpu_has_a_uuid_of_its_own)
{
    SKIP_IF(!gpu.is_cuda, "only CUDA has this");
    gpu.fake->is_mig = true;
    struct kiln_device *d = NULL;
    const char *name = "cuda://MIG-12121212-1212-1212-1212-121212121212";
    must(kiln_device_open(name, &d, &gpu.err), gpu.err);
    assert_string_equal(kiln_device_uuid(d), name + strlen("cuda://"));
    kiln_device_close(d);
    assert_int_equal(
        kiln_device_open("cuda://GPU-12121212-1212-1212-1212-121212121212", &d, &gpu.err),
        KILN_E_NOT_FOUND);
}

TEST(gpu, a_kind_alone_is_its_first_device)
{
    struct kiln_device *d = NULL;
    must(kiln_device_open(gpu.kind, &d, &gpu.err), gpu.err);
    assert_string_equal(kiln_device_name(d), gpu_name(0));
    kiln_device_close(d);
    must(kiln_device_open("auto", &d, &gpu.err), gpu.err);
    assert_string_equal(kiln_device_name(d), gpu_name(0));
    kiln_device_close(d);
}

TEST(gpu, a_device_is_found_by_its_uuid)
{
    struct kiln_device *d = NULL;
    char name[128];
    snprintf(name, sizeof(name), "%s://%s", gpu.kind, uuid_of(2));
    must(kiln_device_open(name, &d, &gpu.err), gpu.err);
    assert_string_equal(kiln_device_name(d), gpu_name(2));
    kiln_device_close(d);

    snprintf(name, sizeof(name), "%s://GPU-0000000000000000", gpu.kind);
    assert_int_equal(kiln_device_open(name, &d, &gpu.err), KILN_E_NOT_FOUND);
    assert_says(gpu.err.text, name);
    assert_says(gpu.err.text, "the 3");
}

TEST(gpu, a_runtime_that_reports_no_uuids_says_to_use_numbers)
{
    struct kiln_device *d = NULL;
    char name[128];
    snprintf(name, sizeof(name), "%s://GPU-11", gpu.kind);
    gpu.fake->fail_name = gpu.is_cuda ? "cuDeviceGet" : "hipDeviceGetUuid";
    assert_int_equal(kiln_device_open(name, &d, &gpu.err), KILN_E_UNSUPPORTED);
    assert_says(gpu.err.text, "uuids");
    assert_says(gpu.err.text, gpu_name(0));
}

TEST(gpu, a_device_number_that_is_too_large_names_the_hiding_variables)
{
    struct kiln_device *d = NULL;
    const char *variable = gpu.is_cuda ? "CUDA_VISIBLE_DEVICES" : "ROCR_VISIBLE_DEVICES";
    assert_int_equal(kiln_device_open(gpu_name(3), &d, &gpu.err), KILN_E_NOT_FOUND);
    assert_says(gpu.err.text, "sees 3");
    assert_null(strstr(gpu.err.text, "VISIBLE"));

    setenv(variable, "0,1,2", 1);
    int rc = kiln_device_open(gpu_name(3), &d, &gpu.err);
    unsetenv(variable);
    assert_int_equal(rc, KILN_E_NOT_FOUND);
    assert_says(gpu.err.text, variable);
    assert_says(gpu.err.text, "='0,1,2'");
}

TEST(gpu, no_device_at_all_is_a_runtime_that_is_of_no_use)
{
    struct kiln_device *d = NULL;
    gpu.fake->devices = 0;
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    int rc = kiln_device_open(gpu.kind, &d, &gpu.err);
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_int_equal(rc, KILN_E_UNAVAILABLE);
    assert_says(gpu.err.text, "(0)");
    assert_says(gpu.err.text, gpu.is_cuda ? "/dev/nvidia0" : "/dev/kfd");
    assert_says(gpu.err.text, "CUDA_VISIBLE_DEVICES=''");
}

TEST(gpu, a_runtime_that_does_not_start_makes_its_devices_unavailable)
{
    struct kiln_device *d = NULL;
    gpu.fake->fail_name = gpu.is_cuda ? "cuInit" : "hipInit";
    gpu.fake->fail_status = 100;
    assert_int_equal(kiln_device_open(gpu.kind, &d, &gpu.err), KILN_E_UNAVAILABLE);
    assert_says(gpu.err.text, "(100)");
    gpu.fake->fail_status = 2;
    assert_int_equal(kiln_device_open("auto", &d, &gpu.err), KILN_E_UNAVAILABLE);
    assert_says(gpu.err.text, "hip: ");
    assert_says(gpu.err.text, "kiln-driver");
    for (const char *cut = strstr(gpu.err.text, " ..."); cut; cut = strstr(cut + 1, " ..."))
        assert_true(cut[4] == ';' || cut[4] == ' ');
    assert_says(gpu.err.text, "; cuda: ");
    assert_says(gpu.err.text, "; opencl:");
}

TEST(gpu, a_list_opens_its_devices_in_order)
{
    struct kiln_device *devices[4];
    size_t count = 0;
    char names[128];
    snprintf(names, sizeof(names), "%s:2,%s://%s,%s:0", gpu.kind, gpu.kind, uuid_of(1), gpu.kind);
    must(kiln_device_open_list(names, devices, 4, &count, &gpu.err), gpu.err);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(kiln_device_name(devices[i]), gpu_name(2 - (int)i));
        kiln_device_close(devices[i]);
    }
}

TEST(gpu, a_list_that_fails_opens_nothing)
{
    static const struct {
        const char *format;
        int code;
        const char *says;
    } cases[] = {
        { "%s:0,%s:1,%s:9", KILN_E_NOT_FOUND, ":9" },
        { "%s:0,%s:1,%s", KILN_E_INVALID, "twice" },
        { "%s:0,%s:1,%s:2,auto", KILN_E_INVALID, "3 devices" },
        { "%s:0,,%s:1%s", KILN_E_INVALID, "''" },
        { "%s:0,%sx,%s", KILN_E_INVALID, "device" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kiln_device *devices[3];
        size_t count = 7;
        char names[128];
        const char *kind = gpu.kind;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(names, sizeof(names), cases[i].format, kind, kind, kind);
#pragma GCC diagnostic pop
        assert_int_equal(kiln_device_open_list(names, devices, 3, &count, &gpu.err), cases[i].code);
        assert_says(gpu.err.text, cases[i].says);
        assert_int_equal(count, 7);
        assert_int_equal(gpu_live(), 0);
    }
}

TEST(gpu, a_name_of_one_device_is_wanted_where_one_is_opened)
{
    struct kiln_device *d = NULL;
    size_t count = 0;
    assert_int_equal(kiln_device_open("hip:0,hip:1", &d, &gpu.err), KILN_E_INVALID);
    assert_says(gpu.err.text, "list");
    assert_int_equal(kiln_device_open(NULL, &d, &gpu.err), KILN_E_INVALID);
    assert_int_equal(kiln_device_open("auto", NULL, &gpu.err), KILN_E_INVALID);
    assert_int_equal(kiln_device_open_list(NULL, &d, 1, &count, &gpu.err), KILN_E_INVALID);
    assert_int_equal(kiln_device_open_list("auto", &d, 0, &count, &gpu.err), KILN_E_INVALID);
}

struct listing {
    unsigned devices, failed, absent_hip, absent_cuda, absent_opencl;
};

static void on_found(void *context, const struct kiln_device_info *info,
                     const struct kiln_error *why_not)
{
    struct listing *l = context;
    assert_int_equal(info->size, sizeof(*info));
    bool is_kind = !strchr(info->name, ':');
    l->absent_hip += is_kind && strcmp(info->name, "hip") == 0;
    l->absent_cuda += is_kind && strcmp(info->name, "cuda") == 0;
    l->absent_opencl += is_kind && strcmp(info->name, "opencl") == 0;
    if (why_not) {
        l->failed += !is_kind;
        assert_true(why_not->text[0]);
        return;
    }
    assert_string_equal(info->name, gpu_name((int)l->devices));
    assert_string_equal(info->target, gpu.target);
    assert_string_equal(info->database_id, gpu.is_cuda ? "sm_90_104" : "gfx90a68");
    assert_string_equal(info->uuid, uuid_of((int)l->devices));
    assert_memory_equal(info->pci, "0000:4", 6);
    assert_true(info->driver[0] && info->model[0]);
    assert_int_equal(info->compute_units, 104);
    assert_int_equal(info->clock_mhz, 1700);
    assert_true(info->memory == FAKE_GPU_MEMORY_MAX);
    l->devices++;
}

TEST(gpu, a_listing_reports_all_of_every_device_and_makes_no_context)
{
    struct listing l = { 0 };
    must(kiln_device_list(on_found, &l, &gpu.err), gpu.err);
    assert_int_equal(l.devices, FAKE_GPU_DEVICES);
    assert_int_equal(l.absent_hip, gpu.is_cuda);
    assert_int_equal(l.absent_cuda, !gpu.is_cuda);
    assert_int_equal(l.absent_opencl, 1);
    assert_int_equal(gpu_live(), 0);
    assert_int_equal(kiln_device_list(NULL, &l, &gpu.err), KILN_E_INVALID);
}

TEST(gpu, a_device_that_cannot_be_reported_is_listed_with_the_reason)
{
    struct listing l = { 0 };
    gpu.fake->fail_name = gpu.is_cuda ? "cuDeviceTotalMem_v2" : "hipDeviceTotalMem";
    must(kiln_device_list(on_found, &l, &gpu.err), gpu.err);
    assert_int_equal(l.devices, 0);
    assert_int_equal(l.failed, FAKE_GPU_DEVICES);
}

/* Uses the device in a forked child. Returns 0 if every call was refused and none reached the
 * runtime. */
static int use_in_child(struct kiln_device *d, struct gpu_work *work, struct kiln_stream *stream,
                        struct kiln_event *event)
{
    struct kiln_error err = { 0 };
    struct kiln_memory *memory = NULL;
    struct kiln_stream *another_stream = NULL;
    struct kiln_event *another_event = NULL;
    struct kiln_run *run = NULL;
    double ms;
    char byte = 0;
    unsigned calls = gpu.fake->calls;
    const int codes[] = { kiln_memory_create(d, 4, &memory, &err),
                          kiln_memory_wrap(d, d, 4, &memory, &err),
                          kiln_memory_write(work->x, &byte, 1, &err),
                          kiln_memory_read(work->x, &byte, 1, &err),
                          kiln_memory_fill(work->x, 0, NULL, &err),
                          kiln_stream_create(d, &another_stream, &err),
                          kiln_stream_wrap(d, d, &another_stream, &err),
                          kiln_stream_finish(stream, &err),
                          kiln_event_create(d, &another_event, &err),
                          kiln_event_record(event, stream, &err),
                          kiln_event_wait(event, &err),
                          kiln_event_elapsed(event, event, &ms, &err),
                          kiln_run_create(d, work->plan, &run, &err),
                          kiln_run_launch(work->run, &work->tensors, stream, &err),
                          kiln_device_finish(d, &err) };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i] != KILN_E_INVALID)
            return 10 + (int)i;
    if (!strstr(err.text, "forked"))
        return 2;
    gpu_work_end(work);
    kiln_event_destroy(event);
    kiln_stream_destroy(stream);
    kiln_device_close(d);
    return gpu.fake->calls == calls ? 0 : 3;
}

TEST(gpu, a_forked_child_is_refused_and_releases_nothing_to_the_runtime)
{
    struct kiln_device *d = gpu_open(0);
    struct gpu_work work;
    struct made_plan made = gpu_scale();
    struct kiln_stream *stream = NULL;
    struct kiln_event *event = NULL;
    must(gpu_work_start(d, &made, &work, &gpu.err), gpu.err);
    must(kiln_stream_create(d, &stream, &gpu.err), gpu.err);
    must(kiln_event_create(d, &event, &gpu.err), gpu.err);
    must(kiln_event_record(event, stream, &gpu.err), gpu.err);

    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(use_in_child(d, &work, stream, event));
    assert_int_equal(await_child(child), 0);

    must(kiln_run_launch(work.run, &work.tensors, stream, &gpu.err), gpu.err);
    gpu_work_end(&work);
    kiln_event_destroy(event);
    kiln_stream_destroy(stream);
    kiln_device_close(d);
}

TEST(gpu, the_path_cannot_be_set_once_the_runtime_is_open)
{
    assert_int_equal(kiln_library_path_set(gpu.kind, "/", &gpu.err), KILN_E_INVALID);
    assert_says(gpu.err.text, "open already");
    assert_says(gpu.err.text, gpu.directory);
    assert_int_equal(kiln_library_path_set("rocm", "/", &gpu.err), KILN_E_INVALID);
    assert_says(gpu.err.text, "'rocm'");
    assert_int_equal(kiln_library_path_set(NULL, "/", &gpu.err), KILN_E_INVALID);
    assert_int_equal(kiln_library_path_set("opencl", "lib:/usr/lib", &gpu.err), KILN_E_INVALID);
    assert_says(gpu.err.text, "'lib'");
    assert_null(kiln_library_file(gpu.is_cuda ? "hip" : "cuda"));
    assert_null(kiln_library_file("rocm"));
}

int main(int argc, char **argv)
{
    gpu_init(argc, argv, "cuda");
    return test_run(NULL);
}
