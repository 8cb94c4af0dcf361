/* SPDX-License-Identifier: MIT */
#include "libclient/device/device.h"
#include "tests/support/test.h"
#include "tests/unit/libclient/fake_tuning.h"
#include "tests/unit/libclient/opencl_scale.h"

#include <stdio.h>
#include <string.h>

#define COUNT 64 /* elements of x and y */

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_device *device; /* NULL if this host has no such device */
    struct kiln_error err;
    struct kiln_problem problem;
    struct bytes binary;
    struct kiln_plan *plan;
    uint64_t x_offset;
    const char *entry;
};

static void answer(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    const struct message_plan_argument arguments[] = {
        { .kind = ARGUMENT_X, .value = f->x_offset },
        { .kind = ARGUMENT_W },
        { .kind = ARGUMENT_Y },
        { .kind = ARGUMENT_U32, .value = 5 },
        { .kind = ARGUMENT_F32, .value = 0x40000000 }, /* 2.0f */
        { .kind = ARGUMENT_U64, .value = 3ull << 32 },
    };
    BUFFER_AUTO struct buffer list, kernels, objects, body;
    buffer_init(&list, 10000);
    buffer_init(&kernels, 10000);
    buffer_init(&objects, 10000);
    buffer_init(&body, 40000);
    for (size_t i = 0; i < 6; i++)
        message_plan_argument_write(&list, &arguments[i]);
    struct message_plan_kernel k = { .name = bytes_of_text(f->entry),
                                     .grid_x = COUNT / 16,
                                     .grid_y = 1,
                                     .grid_z = 1,
                                     .group_x = 16,
                                     .group_y = 1,
                                     .group_z = 1,
                                     .argument_count = 6,
                                     .arguments = buffer_view(&list) };
    message_plan_kernel_write(&kernels, &k);
    struct message_result o = { .tier = TIER_HOT, .size = f->binary.size };
    message_result_write(&objects, &o);
    struct message_planned m = { .solver = bytes_of_text("Scale"),
                                 .toolchain = bytes_of_text("opencl"),
                                 .kernel_count = 1,
                                 .kernels = buffer_view(&kernels),
                                 .object_count = 1,
                                 .objects = buffer_view(&objects) };
    message_planned_write(&body, &m);
    int fd = fake_memfd(f->binary, true);
    fake_reply_files(rq, MESSAGE_planned, 0, buffer_view(&body), (struct fake_files){ &fd, 1 });
    close(fd);
}

SET_UP(set_up)
{
    f->entry = "scale";
    f->problem = public_test_problem(1);
    f->problem.c = f->problem.k = f->problem.filter[1] = f->problem.filter[2] = 1;
    f->problem.pad[1] = f->problem.pad[2] = 0;
    f->device = opencl_scale_open(&f->binary);
    fake_daemon_serve(&f->daemon, answer, f, &f->client);
}

TEAR_DOWN(tear_down)
{
    kiln_plan_unref(f->plan);
    kiln_device_close(f->device);
}

FIXTURE(device, set_up, tear_down);

static void get_plan(struct fixture *f)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    struct kiln_plan_options options = { .size = sizeof(options),
                                         .target = kiln_device_target(f->device) };
    must(kiln_plan_get(f->client, &f->problem, &options, &f->plan, &f->err), f->err);
}

static struct kiln_memory *memory(struct fixture *f, const void *from, uint64_t bytes,
                                  uint64_t room)
{
    struct kiln_memory *m = NULL;
    must(kiln_memory_create(f->device, room, &m, &f->err), f->err);
    must(kiln_memory_write(m, from, bytes, &f->err), f->err);
    return m;
}

TEST_F(device, an_opencl_device_has_a_name_a_model_and_a_target)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    assert_string_equal(kiln_device_name(f->device), "opencl:0");
    assert_true(strlen(kiln_device_model(f->device)) > 0);
    assert_memory_equal(kiln_device_target(f->device), "opencl:", 7);
    assert_memory_equal(kiln_device_database_id(f->device), "opencl_", 7);
    assert_true(strlen(kiln_device_driver(f->device)) > 0);
    assert_true(kiln_device_memory(f->device) > 0);
    assert_true(kiln_device_compute_units(f->device) > 0);
}

static int launch(struct fixture *f, struct kiln_run *run, struct kiln_memory *const xwy[3])
{
    const struct kiln_tensors tensors = {
        .size = sizeof(tensors), .x = xwy[0], .w = xwy[1], .y = xwy[2]
    };
    return kiln_run_launch(run, &tensors, /* stream= */ NULL, &f->err);
}

TEST_F(device, a_plan_runs_with_all_kinds_of_arguments)
{
    get_plan(f);
    float x[COUNT], w = 10, y[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i;
    struct kiln_memory *mx = memory(f, x, sizeof(x), sizeof(x));
    struct kiln_memory *mw = memory(f, &w, sizeof(w), sizeof(w));
    struct kiln_memory *my = memory(f, x, sizeof(x), sizeof(x));
    struct kiln_run *run;
    must(kiln_run_create(f->device, f->plan, &run, &f->err), f->err);

    must(launch(f, run, (struct kiln_memory *[]){ mx, mw, my }), f->err);
    must(kiln_device_finish(f->device, &f->err), f->err);
    must(kiln_memory_read(my, y, sizeof(y), &f->err), f->err);

    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == (float)i * 20 + 8);
    kiln_run_destroy(run);
    kiln_memory_destroy(mx);
    kiln_memory_destroy(mw);
    kiln_memory_destroy(my);
}

TEST_F(device, an_argument_may_begin_inside_its_tensor)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    f->x_offset = 4096;
    get_plan(f);
    static float x[1024 + COUNT];
    float w = 1, y[COUNT];
    x[1024] = 7;
    struct kiln_memory *mx = memory(f, x, sizeof(x), sizeof(x));
    struct kiln_memory *mw = memory(f, &w, sizeof(w), sizeof(w));
    struct kiln_memory *my = memory(f, x, sizeof(y), sizeof(y));
    struct kiln_run *run;
    must(kiln_run_create(f->device, f->plan, &run, &f->err), f->err);
    must(launch(f, run, (struct kiln_memory *[]){ mx, mw, my }), f->err);
    must(kiln_memory_read(my, y, sizeof(y), &f->err), f->err);
    assert_true(y[0] == 22);
    kiln_run_destroy(run);
    kiln_memory_destroy(mx);
    kiln_memory_destroy(mw);
    kiln_memory_destroy(my);
}

TEST_F(device, memories_that_do_not_fit_the_problem_are_refused)
{
    get_plan(f);
    struct kiln_memory *small = memory(f, "abcd", 4, 4);
    struct kiln_run *run;
    must(kiln_run_create(f->device, f->plan, &run, &f->err), f->err);

    assert_int_equal(launch(f, run, (struct kiln_memory *[]){ small, small, small }),
                     KILN_E_INVALID);
    assert_says(f->err.text, "256");
    assert_int_equal(launch(f, run, (struct kiln_memory *[]){ NULL, small, small }),
                     KILN_E_INVALID);
    assert_says(f->err.text, "for x");
    char room[5];
    assert_int_equal(kiln_memory_read(small, room, 5, &f->err), KILN_E_INVALID);
    assert_int_equal(kiln_memory_create(f->device, 0, &small, &f->err), KILN_E_INVALID);

    kiln_run_destroy(run);
    kiln_device_close(f->device);
    f->device = NULL;
    kiln_memory_destroy(small);
}

TEST_F(device, a_binary_that_the_runtime_refuses_is_an_error_and_no_crash)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    static const uint8_t zeros[4096];
    f->binary = bytes_of(zeros, sizeof(zeros));
    get_plan(f);
    struct kiln_run *run = NULL;
    assert_int_equal(kiln_run_create(f->device, f->plan, &run, &f->err), KILN_E_CORRUPT);
    assert_says(f->err.text, "program binary");
    assert_says(f->err.text, "build it");
    assert_says(f->err.text, "Scale");
    assert_null(run);
}

TEST_F(device, an_entry_point_that_is_not_there_is_named)
{
    f->entry = "absent";
    get_plan(f);
    struct kiln_run *run = NULL;
    assert_int_equal(kiln_run_create(f->device, f->plan, &run, &f->err), KILN_E_CORRUPT);
    assert_says(f->err.text, "'absent'");
}

TEST_F(device, a_plan_for_another_target_is_refused)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    struct kiln_plan_options options = { .size = sizeof(options), .target = "gfx90a" };
    must(kiln_plan_get(f->client, &f->problem, &options, &f->plan, &f->err), f->err);
    struct kiln_run *run = NULL;
    assert_int_equal(kiln_run_create(f->device, f->plan, &run, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "gfx90a");
}

TEST_F(device, a_device_number_that_does_not_exist_says_how_many_there_are)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    struct kiln_device *none = NULL;
    assert_int_equal(kiln_device_open("opencl:999", &none, &f->err), KILN_E_NOT_FOUND);
    assert_says(f->err.text, "opencl:999");
    assert_int_equal(kiln_device_open("gpu", &none, &f->err), KILN_E_INVALID);
}

TEST_F(device, a_runtime_that_is_absent_is_named_with_every_file_tried)
{
    struct kiln_device *none = NULL;
    setenv("KILN_HIP_LIBRARY", "/nowhere/libamdhip64.so", 1);
    setenv("KILN_CUDA_LIBRARY", "/nowhere/libcuda.so", 1);
    assert_int_equal(kiln_device_open("hip", &none, &f->err), KILN_E_UNAVAILABLE);
    assert_says(f->err.text, "/nowhere/libamdhip64.so");
    assert_says(f->err.text, "KILN_HIP_LIBRARY");
    assert_int_equal(kiln_device_open("cuda:0", &none, &f->err), KILN_E_UNAVAILABLE);
    assert_says(f->err.text, "CUDA driver");
    setenv("KILN_CUDA_LIBRARY", "libc.so.6", 1);
    assert_int_equal(kiln_device_open("cuda:0", &none, &f->err), KILN_E_UNAVAILABLE);
    assert_says(f->err.text, "'cuInit'");
    setenv("KILN_CUDA_LIBRARY", "/nowhere/libcuda.so", 1);
}

struct listing {
    unsigned working, hip, cuda;
};

static void on_found(void *context, const struct kiln_device_info *info,
                     const struct kiln_error *why_not)
{
    struct listing *l = context;
    if (!why_not) {
        assert_true(info->model[0] && info->target[0] && info->database_id[0] && info->memory);
        l->working++;
        return;
    }
    l->hip += strcmp(info->name, "hip") == 0;
    l->cuda += strcmp(info->name, "cuda") == 0;
}

TEST_F(device, the_list_of_devices_has_reasons_for_those_that_do_not_work)
{
    struct listing l = { 0 };
    must(kiln_device_list(on_found, &l, &f->err), f->err);
    assert_int_equal(l.hip, 1);
    assert_int_equal(l.cuda, 1);
    assert_true(l.working > 0 || !f->device);
}

TEST_F(device, auto_takes_the_first_that_works)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    struct kiln_device *device = NULL;
    must(kiln_device_open("auto", &device, &f->err), f->err);
    assert_string_equal(kiln_device_name(device), "opencl:0");
    kiln_device_close(device);
}
