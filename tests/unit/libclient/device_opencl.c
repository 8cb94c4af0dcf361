/* SPDX-License-Identifier: MIT */
/* OpenCL, if a platform is installed. */
#include "libclient/device/opencl_device.h"
#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/made_plan.h"
#include "tests/unit/libclient/opencl_scale.h"

#include <kiln/run.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES (MADE_ELEMENTS * sizeof(float))
#define CROWD 4
#define LAUNCHES_EACH 25

struct fixture {
    struct kiln_device *device; /* NULL if this host has no OpenCL device */
    struct kiln_error err;
    struct kiln_plan *plan;
    struct kiln_run *run;
    struct kiln_tensors tensors;
};

static struct bytes binary;
static const struct opencl_library *cl;

static struct kiln_memory *memory(struct fixture *f, float first)
{
    struct kiln_memory *m = NULL;
    float numbers[MADE_ELEMENTS];
    for (int i = 0; i < MADE_ELEMENTS; i++)
        numbers[i] = first + (float)i;
    must(kiln_memory_create(f->device, BYTES, &m, &f->err), f->err);
    must(kiln_memory_write(m, numbers, BYTES, &f->err), f->err);
    return m;
}

static void load(struct fixture *f)
{
    struct made_plan made = made_plan_scale(kiln_device_target(f->device), binary);
    f->plan = made_plan_create(&made);
    f->tensors = (struct kiln_tensors){
        .size = sizeof(f->tensors), .x = memory(f, 0), .w = memory(f, 10), .y = memory(f, 0)
    };
    must(kiln_run_create(f->device, f->plan, &f->run, &f->err), f->err);
}

SET_UP(set_up)
{
    struct kiln_err err = KILN_ERR_INIT;
    f->device = opencl_scale_open(&binary);
    if (f->device)
        must(opencl_library_use(&cl, &err), err);
}

static void unload(struct fixture *f)
{
    kiln_run_destroy(f->run);
    if (f->plan)
        kiln_plan_unref(f->plan);
    kiln_memory_destroy(f->tensors.x);
    kiln_memory_destroy(f->tensors.w);
    kiln_memory_destroy(f->tensors.y);
    kiln_device_close(f->device);
    *f = (struct fixture){ .device = NULL };
}

TEAR_DOWN(tear_down) { unload(f); }

FIXTURE(device_opencl, set_up, tear_down);

static void expect_scaled(struct fixture *f, struct kiln_memory *y)
{
    float numbers[MADE_ELEMENTS];
    must(kiln_memory_read(y, numbers, BYTES, &f->err), f->err);
    for (int i = 0; i < MADE_ELEMENTS; i++)
        assert_true(numbers[i] == (float)(i * 20 + 8));
}

TEST_F(device_opencl, work_is_done_in_the_order_of_its_stream)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    load(f);
    struct kiln_stream *stream = NULL;
    must(kiln_stream_create(f->device, &stream, &f->err), f->err);
    assert_non_null(kiln_stream_native(stream));
    must(kiln_memory_fill(f->tensors.y, 0xff, stream, &f->err), f->err);
    must(kiln_run_launch(f->run, &f->tensors, stream, &f->err), f->err);
    must(kiln_stream_finish(stream, &f->err), f->err);
    expect_scaled(f, f->tensors.y);
    must(kiln_memory_fill(f->tensors.y, 0, stream, &f->err), f->err);
    must(kiln_stream_finish(stream, &f->err), f->err);
    float last = 1;
    must(kiln_memory_read(f->tensors.y, &last, sizeof(last), &f->err), f->err);
    assert_true(last == 0);
    kiln_stream_destroy(stream);
}

TEST_F(device_opencl, events_report_the_time_between_them)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    load(f);
    struct kiln_event *begin = NULL, *end = NULL;
    double ms = -1;
    must(kiln_event_create(f->device, &begin, &f->err), f->err);
    must(kiln_event_create(f->device, &end, &f->err), f->err);
    assert_int_equal(kiln_event_elapsed(begin, end, &ms, &f->err), KILN_E_INVALID);
    for (int i = 0; i < 2; i++) { /* recording an event again replaces its time */
        must(kiln_event_record(begin, NULL, &f->err), f->err);
        must(kiln_run_launch(f->run, &f->tensors, NULL, &f->err), f->err);
        must(kiln_event_record(end, NULL, &f->err), f->err);
        must(kiln_event_wait(end, &f->err), f->err);
        must(kiln_event_elapsed(begin, end, &ms, &f->err), f->err);
        assert_true(ms > 0);
    }
    must(kiln_event_elapsed(end, begin, &ms, &f->err), f->err);
    assert_true(ms == 0);
    kiln_event_destroy(begin);
    kiln_event_destroy(end);
}

struct job {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    cl_mem memory;
};

static cl_uint references(const struct job *job, const void *object)
{
    cl_uint count = 0;
    if (object == job->context)
        cl->clGetContextInfo(job->context, CL_CONTEXT_REFERENCE_COUNT, sizeof(count), &count, NULL);
    else if (object == job->queue)
        cl->clGetCommandQueueInfo(job->queue, CL_QUEUE_REFERENCE_COUNT, sizeof(count), &count,
                                  NULL);
    else
        cl->clGetMemObjectInfo(job->memory, CL_MEM_REFERENCE_COUNT, sizeof(count), &count, NULL);
    return count;
}

/* Waits until |object| has at most |count| references. A runtime may release the objects of a
 * command some time after the command is done. */
static void expect_references_at_most(const struct job *job, const void *object, cl_uint count)
{
    WAIT_FOR(references(job, object) <= count);
}

static struct job job_start(const struct fixture *f, cl_command_queue_properties properties)
{
    struct job job = { .id = ((struct opencl_device *)f->device)->id };
    cl_int status;
    job.context = cl->clCreateContext(NULL, 1, &job.id, NULL, NULL, &status);
    assert_int_equal(status, 0);
    job.queue = cl->clCreateCommandQueue(job.context, job.id, properties, &status);
    assert_int_equal(status, 0);
    job.memory = cl->clCreateBuffer(job.context, CL_MEM_READ_WRITE, BYTES, NULL, &status);
    assert_int_equal(status, 0);
    return job;
}

static void job_end(struct job *job)
{
    cl->clReleaseMemObject(job->memory);
    cl->clReleaseCommandQueue(job->queue);
    cl->clReleaseContext(job->context);
}

static void open_in(struct fixture *f, const struct job *job)
{
    kiln_device_close(f->device);
    must(kiln_device_open_in("opencl:0", job->context, &f->device, &f->err), f->err);
}

TEST_F(device_opencl, a_jobs_context_queue_and_memory_are_used_and_left_to_it)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    struct job job = job_start(f, 0);
    float numbers[MADE_ELEMENTS] = { 0 };
    assert_int_equal(
        cl->clEnqueueWriteBuffer(job.queue, job.memory, CL_TRUE, 0, BYTES, numbers, 0, NULL, NULL),
        0);
    /* With PoCL, the last command still holds a reference to the queue. */
    cl_uint after_work = references(&job, job.queue);
    open_in(f, &job);
    load(f);
    struct kiln_stream *stream = NULL;
    struct kiln_memory *y = NULL;
    must(kiln_stream_wrap(f->device, job.queue, &stream, &f->err), f->err);
    must(kiln_memory_wrap(f->device, job.memory, BYTES, &y, &f->err), f->err);
    assert_ptr_equal(kiln_memory_native(y), job.memory);
    struct kiln_tensors t = f->tensors;
    t.y = y;
    must(kiln_run_launch(f->run, &t, stream, &f->err), f->err);

    assert_int_equal(
        cl->clEnqueueReadBuffer(job.queue, job.memory, CL_TRUE, 0, BYTES, numbers, 0, NULL, NULL),
        0);
    assert_true(numbers[0] == 8 && numbers[63] == 63 * 20 + 8);
    kiln_memory_destroy(y);
    kiln_stream_destroy(stream);
    unload(f);
    expect_references_at_most(&job, job.memory, 1);
    expect_references_at_most(&job, job.queue, after_work);
    /* The job, its queue and its memory each hold a reference. */
    expect_references_at_most(&job, job.context, 3);
    job_end(&job);
}

TEST_F(device_opencl, objects_that_the_job_releases_first_are_held)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    struct job job = job_start(f, 0);
    open_in(f, &job);
    load(f);
    struct kiln_stream *stream = NULL;
    struct kiln_memory *y = NULL;
    must(kiln_stream_wrap(f->device, job.queue, &stream, &f->err), f->err);
    must(kiln_memory_wrap(f->device, job.memory, BYTES, &y, &f->err), f->err);
    job_end(&job);
    struct kiln_tensors t = f->tensors;
    t.y = y;
    must(kiln_run_launch(f->run, &t, stream, &f->err), f->err);
    must(kiln_stream_finish(stream, &f->err), f->err);
    expect_scaled(f, y);
    kiln_memory_destroy(y);
    kiln_stream_destroy(stream);
}

TEST_F(device_opencl, a_run_works_on_a_jobs_buffers_and_queue)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    struct job job = job_start(f, 0);
    float numbers[MADE_ELEMENTS] = { 0 };
    open_in(f, &job);
    load(f);
    struct kiln_native_tensors n = { .size = sizeof(n),
                                     .x = kiln_memory_native(f->tensors.x),
                                     .w = kiln_memory_native(f->tensors.w),
                                     .y = job.memory,
                                     .stream = job.queue };
    must(kiln_run_launch_native(f->run, &n, &f->err), f->err);
    assert_int_equal(
        cl->clEnqueueReadBuffer(job.queue, job.memory, CL_TRUE, 0, BYTES, numbers, 0, NULL, NULL),
        0);
    assert_true(numbers[0] == 8 && numbers[63] == 63 * 20 + 8);

    n.stream = NULL;
    n.y = kiln_memory_native(f->tensors.y);
    must(kiln_run_launch_native(f->run, &n, &f->err), f->err);
    must(kiln_device_finish(f->device, &f->err), f->err);
    expect_scaled(f, f->tensors.y);
    unload(f);
    job_end(&job);
}

TEST_F(device_opencl, an_object_of_another_context_is_refused)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    struct job job = job_start(f, 0);
    struct kiln_stream *stream = NULL;
    struct kiln_memory *y = NULL;
    assert_int_equal(kiln_stream_wrap(f->device, job.queue, &stream, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "opencl:0");
    assert_int_equal(kiln_memory_wrap(f->device, job.memory, BYTES, &y, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "opencl:0");
    assert_says(f->err.text, "kiln_device_open_in");
    assert_int_equal(kiln_stream_wrap(f->device, NULL, &stream, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "default");
    assert_null(stream);
    assert_null(y);
    job_end(&job);
}

TEST_F(device_opencl, a_memory_smaller_than_stated_is_refused)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    struct job job = job_start(f, 0);
    struct kiln_memory *y = NULL;
    open_in(f, &job);
    assert_int_equal(kiln_memory_wrap(f->device, job.memory, BYTES + 1, &y, &f->err),
                     KILN_E_INVALID);
    assert_says(f->err.text, "not 257");
    expect_references_at_most(&job, job.memory, 1);
    job_end(&job);
}

TEST_F(device_opencl, a_queue_that_keeps_no_order_is_refused)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    struct job job = job_start(f, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    struct kiln_stream *stream = NULL;
    open_in(f, &job);
    assert_int_equal(kiln_stream_wrap(f->device, job.queue, &stream, &f->err), KILN_E_UNSUPPORTED);
    assert_says(f->err.text, "order");
    job_end(&job);
}

TEST_F(device_opencl, a_queue_without_profiling_cannot_measure_time)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    struct job job = job_start(f, 0);
    struct kiln_stream *stream = NULL;
    struct kiln_event *event = NULL;
    double ms;
    open_in(f, &job);
    must(kiln_stream_wrap(f->device, job.queue, &stream, &f->err), f->err);
    must(kiln_event_create(f->device, &event, &f->err), f->err);
    must(kiln_event_record(event, stream, &f->err), f->err);
    must(kiln_event_wait(event, &f->err), f->err);
    assert_int_equal(kiln_event_elapsed(event, event, &ms, &f->err), KILN_E_UNSUPPORTED);
    assert_says(f->err.text, "CL_QUEUE_PROFILING_ENABLE");
    kiln_event_destroy(event);
    kiln_stream_destroy(stream);
    job_end(&job);
}

TEST_F(device_opencl, dynamic_shared_memory_is_unsupported)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    struct made_plan made = made_plan_scale(kiln_device_target(f->device), binary);
    made.shared_bytes = 16;
    f->plan = made_plan_create(&made);
    assert_int_equal(kiln_run_create(f->device, f->plan, &f->run, &f->err), KILN_E_UNSUPPORTED);
    assert_says(f->err.text, "'scale'");
}

TEST_F(device_opencl, a_launch_of_another_shape_than_the_kernels_is_refused)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    load(f);
    kiln_run_destroy(f->run);
    kiln_plan_unref(f->plan);
    f->run = NULL;
    struct made_plan made = made_plan_scale(kiln_device_target(f->device), binary);
    made.group[0] = 8;
    f->plan = made_plan_create(&made);
    must(kiln_run_create(f->device, f->plan, &f->run, &f->err), f->err);
    assert_int_equal(kiln_run_launch(f->run, &f->tensors, NULL, &f->err), KILN_E_UNSUPPORTED);
    assert_says(f->err.text, "CL_INVALID_WORK_GROUP_SIZE");
}

TEST_F(device_opencl, too_large_a_memory_fails_with_no_memory)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    struct kiln_memory *m = NULL;
    assert_int_equal(kiln_memory_create(f->device, 1ull << 50, &m, &f->err), KILN_E_NO_MEMORY);
    assert_says(f->err.text, "1125899906842624");
}

TEST_F(device_opencl, a_forked_child_cannot_use_its_parents_device)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    load(f);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct kiln_memory *m = NULL;
        bool refused = kiln_memory_create(f->device, 4, &m, &f->err) == KILN_E_INVALID &&
                       kiln_run_launch(f->run, &f->tensors, NULL, &f->err) == KILN_E_INVALID;
        unload(f); /* frees the memory of this process without calling the OpenCL runtime */
        _exit(refused ? 0 : 1);
    }
    assert_int_equal(await_child(child), 0);
    must(kiln_run_launch(f->run, &f->tensors, NULL, &f->err), f->err);
    expect_scaled(f, f->tensors.y);
}

struct member {
    struct fixture *f;
    struct kiln_memory *y;
    struct kiln_error err;
    pthread_t thread;
    int rc;
};

static void *launch_again_and_again(void *argument)
{
    struct member *m = argument;
    struct fixture *f = m->f;
    struct kiln_run *own = NULL;
    struct kiln_stream *stream = NULL;
    struct kiln_tensors t = f->tensors;
    t.y = m->y;
    m->rc = kiln_run_create(f->device, f->plan, &own, &m->err);
    if (!m->rc)
        m->rc = kiln_stream_create(f->device, &stream, &m->err);
    for (int i = 0; !m->rc && i < LAUNCHES_EACH; i++)
        m->rc = kiln_run_launch(i % 2 ? own : f->run, &t, i % 3 ? stream : NULL, &m->err);
    if (!m->rc)
        m->rc = kiln_stream_finish(stream, &m->err);
    if (!m->rc)
        m->rc = kiln_device_finish(f->device, &m->err);
    kiln_stream_destroy(stream);
    kiln_run_destroy(own);
    return NULL;
}

/* A cl_kernel stores the arguments of its next launch. A thread's launch must never use arguments
 * that another thread has stored. */
TEST_F(device_opencl, threads_that_share_a_run_do_not_mix_their_arguments)
{
    SKIP_IF(!f->device, "no OpenCL device here");
    load(f);
    struct member crowd[CROWD];
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = (struct member){ .f = f, .y = memory(f, -1) };
        assert_int_equal(pthread_create(&crowd[i].thread, NULL, launch_again_and_again, &crowd[i]),
                         0);
    }
    for (int i = 0; i < CROWD; i++)
        await_thread(crowd[i].thread, NULL);
    for (int i = 0; i < CROWD; i++) {
        must(crowd[i].rc, crowd[i].err);
        expect_scaled(f, crowd[i].y);
        kiln_memory_destroy(crowd[i].y);
    }
    assert_int_equal(f->device->modules.modules.count, 1);
}
