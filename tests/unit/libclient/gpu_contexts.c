/* SPDX-License-Identifier: MIT */
#include "tests/support/wait.h"
#include "tests/unit/libclient/gpu_fixture.h"

#include <pthread.h>
#include <string.h>

static struct {
    int (*get_current)(void **ret_context);
    int (*set_current)(void *context);
    int (*create)(void **ret_context, unsigned flags, int device);
    int (*destroy)(void *context);
    int (*retain)(void **ret_context, int device);
    int (*release)(int device);
    int (*state)(int device, unsigned *ret_flags, int *ret_active);
    int (*attribute)(void *ret, int what, void *pointer);
} cu;

static void bind(void)
{
    *(void **)&cu.get_current = gpu_symbol("cuCtxGetCurrent");
    *(void **)&cu.set_current = gpu_symbol("cuCtxSetCurrent");
    *(void **)&cu.create = gpu_symbol("cuCtxCreate_v2");
    *(void **)&cu.destroy = gpu_symbol("cuCtxDestroy_v2");
    *(void **)&cu.retain = gpu_symbol("cuDevicePrimaryCtxRetain");
    *(void **)&cu.release = gpu_symbol("cuDevicePrimaryCtxRelease_v2");
    *(void **)&cu.state = gpu_symbol("cuDevicePrimaryCtxGetState");
    *(void **)&cu.attribute = gpu_symbol("cuPointerGetAttribute");
}

static void *current(void)
{
    void *context = &cu;
    assert_int_equal(cu.get_current(&context), 0);
    return context;
}

static bool primary_is_in_use(int device)
{
    unsigned flags;
    int active = -1;
    assert_int_equal(cu.state(device, &flags, &active), 0);
    return active;
}

static void *context_of(const struct kiln_memory *memory)
{
    void *context = NULL;
    assert_int_equal(cu.attribute(&context, 1, kiln_memory_native(memory)), 0);
    return context;
}

static void use(struct kiln_device *d, const void *wanted)
{
    struct gpu_work work;
    struct made_plan made = gpu_scale();
    struct kiln_stream *stream = NULL;
    struct kiln_event *event = NULL;
    struct kiln_memory *wrapped = NULL;
    double ms;
#define STEP(call)                                   \
    do {                                             \
        must(call, gpu.err);                         \
        assert_ptr_equal(current(), (void *)wanted); \
    } while (0)
    STEP(gpu_work_start(d, &made, &work, &gpu.err));
    STEP(kiln_memory_wrap(d, kiln_memory_native(work.x), 4, &wrapped, &gpu.err));
    STEP(kiln_stream_create(d, &stream, &gpu.err));
    STEP(kiln_event_create(d, &event, &gpu.err));
    STEP(kiln_event_record(event, stream, &gpu.err));
    STEP(kiln_run_launch(work.run, &work.tensors, stream, &gpu.err));
    STEP(kiln_event_wait(event, &gpu.err));
    STEP(kiln_event_elapsed(event, event, &ms, &gpu.err));
    STEP(kiln_stream_finish(stream, &gpu.err));
    STEP(kiln_device_finish(d, &gpu.err));
    STEP(kiln_memory_fill(work.w, 0, stream, &gpu.err));
    gpu_work_check_scale(&work);
#undef STEP
    kiln_memory_destroy(wrapped);
    kiln_event_destroy(event);
    kiln_stream_destroy(stream);
    gpu_work_end(&work);
    assert_ptr_equal(current(), (void *)wanted);
}

static void *use_in_a_thread(void *device)
{
    use(device, NULL);
    return NULL;
}

TEST(gpu, without_a_context_the_primary_one_is_used)
{
    struct kiln_device *d = gpu_open(1);
    assert_null(current());
    assert_true(primary_is_in_use(1) && !primary_is_in_use(0));
    use(d, NULL);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, use_in_a_thread, d), 0);
    await_thread(thread, NULL);
    kiln_device_close(d);
    assert_false(primary_is_in_use(1));
    assert_null(current());
}

/* The job uses the primary context, as the CUDA runtime and PyTorch do. */
TEST(gpu, a_job_with_the_primary_context_shares_it)
{
    void *primary = NULL;
    assert_int_equal(cu.retain(&primary, 0), 0);
    cu.set_current(primary);
    struct kiln_device *d = gpu_open(0);
    struct kiln_memory *m = NULL;
    must(kiln_memory_create(d, 64, &m, &gpu.err), gpu.err);
    assert_ptr_equal(context_of(m), primary);
    use(d, primary);
    cu.set_current(NULL);
    cu.release(0); /* the job releases the primary context before libkiln does */
    assert_true(primary_is_in_use(0));
    use(d, NULL);
    kiln_memory_destroy(m);
    kiln_device_close(d);
    assert_false(primary_is_in_use(0));
}

TEST(gpu, a_jobs_own_current_context_is_used_and_no_other_made)
{
    void *own = NULL;
    assert_int_equal(cu.create(&own, 0, 0), 0);
    struct kiln_device *d = gpu_open(0);
    struct kiln_memory *m = NULL;
    assert_false(primary_is_in_use(0));
    must(kiln_memory_create(d, 64, &m, &gpu.err), gpu.err);
    assert_ptr_equal(context_of(m), own);
    use(d, own);
    /* the job's context is no longer current, but still belongs to the device */
    cu.set_current(NULL);
    use(d, NULL);
    kiln_memory_destroy(m);
    kiln_device_close(d);
    assert_false(primary_is_in_use(0));
    assert_null(current());
    cu.destroy(own);
}

TEST(gpu, a_jobs_own_context_goes_before_a_primary_one_in_use)
{
    void *own = NULL, *primary = NULL;
    assert_int_equal(cu.retain(&primary, 0), 0);
    assert_int_equal(cu.create(&own, 0, 0), 0);
    struct kiln_device *d = gpu_open(0);
    use(d, own);
    cu.release(0);
    assert_false(primary_is_in_use(0));
    use(d, own);
    kiln_device_close(d);
    cu.destroy(own);
}

TEST(gpu, a_current_context_of_another_device_is_left_alone)
{
    void *other = NULL;
    assert_int_equal(cu.create(&other, 0, 2), 0);
    struct kiln_device *d = gpu_open(0);
    assert_true(primary_is_in_use(0));
    use(d, other);
    kiln_device_close(d);
    assert_ptr_equal(current(), other);
    cu.destroy(other);
}

TEST(gpu, a_context_that_is_given_is_used)
{
    void *own = NULL;
    struct kiln_device *d = NULL;
    struct kiln_memory *m = NULL;
    assert_int_equal(cu.create(&own, 0, 1), 0);
    cu.set_current(NULL);
    must(kiln_device_open_in("cuda:1", own, &d, &gpu.err), gpu.err);
    must(kiln_memory_create(d, 64, &m, &gpu.err), gpu.err);
    assert_ptr_equal(context_of(m), own);
    use(d, NULL);
    kiln_memory_destroy(m);
    kiln_device_close(d);
    assert_false(primary_is_in_use(1));

    assert_int_equal(kiln_device_open_in("cuda:0", own, &d, &gpu.err), KILN_E_INVALID);
    assert_says(gpu.err.text, "cuda:0");
    assert_int_equal(kiln_device_open_in("auto", own, &d, &gpu.err), KILN_E_INVALID);
    assert_says(gpu.err.text, "'auto'");
    assert_null(current());
    cu.destroy(own);
}

TEST(gpu, a_context_is_left_as_it_was_when_a_call_fails)
{
    void *other = NULL;
    assert_int_equal(cu.create(&other, 0, 2), 0);
    struct kiln_device *d = gpu_open(0);
    for (unsigned n = 1; n < 6; n++) {
        struct kiln_stream *stream = NULL;
        struct kiln_memory *m = NULL;
        struct kiln_device *again = NULL;
        gpu.fake->fail_at = n;
        int rc = kiln_stream_create(d, &stream, &gpu.err);
        if (!rc)
            rc = kiln_memory_create(d, 1, &m, &gpu.err);
        if (!rc)
            rc = kiln_memory_create(d, 1ull << 50, &m, &gpu.err);
        assert_int_not_equal(rc, KILN_E_OK);
        gpu.fake->fail_at = n;
        assert_int_not_equal(kiln_device_open("cuda:0", &again, &gpu.err), KILN_E_OK);
        gpu.fake->fail_at = 0;
        assert_ptr_equal(current(), other);
        kiln_stream_destroy(stream);
        kiln_memory_destroy(m);
        assert_ptr_equal(current(), other);
    }
    kiln_device_close(d);
    cu.destroy(other);
}

int main(int argc, char **argv)
{
    gpu_init(argc, argv, "cuda");
    bind();
    return test_run(NULL);
}
