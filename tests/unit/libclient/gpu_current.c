/* SPDX-License-Identifier: MIT */
/* Tests that no call of libkiln changes the current HIP device of the calling thread. */
#include "tests/unit/libclient/gpu_fixture.h"

#include <string.h>

static int (*get_device)(int *ret_device);
static int (*set_device)(int device);
static int (*last_error)(void);

static int current(void)
{
    int device = -1;
    assert_int_equal(get_device(&device), 0);
    return device;
}

static void use(struct kiln_device *d, int wanted)
{
    struct gpu_work work;
    struct made_plan made = gpu_scale();
    struct kiln_stream *stream = NULL;
    struct kiln_event *event = NULL;
    double ms;
#define STEP(call)                           \
    do {                                     \
        must(call, gpu.err);                 \
        assert_int_equal(current(), wanted); \
        assert_int_equal(last_error(), 0);   \
    } while (0)
    STEP(gpu_work_start(d, &made, &work, &gpu.err));
    STEP(kiln_stream_create(d, &stream, &gpu.err));
    STEP(kiln_event_create(d, &event, &gpu.err));
    STEP(kiln_event_record(event, stream, &gpu.err));
    STEP(kiln_run_launch(work.run, &work.tensors, stream, &gpu.err));
    STEP(kiln_event_elapsed(event, event, &ms, &gpu.err));
    STEP(kiln_stream_finish(stream, &gpu.err));
    gpu_work_check_scale(&work);
#undef STEP
    kiln_event_destroy(event);
    kiln_stream_destroy(stream);
    gpu_work_end(&work);
    assert_int_equal(current(), wanted);
}

TEST(gpu, the_current_device_stays)
{
    for (int device = 0; device < FAKE_GPU_DEVICES; device++) {
        assert_int_equal(set_device(device), 0);
        struct kiln_device *d = gpu_open(1);
        use(d, device);
        kiln_device_close(d);
        assert_int_equal(current(), device);
    }
    set_device(0);
}

TEST(gpu, the_current_device_stays_when_a_call_fails)
{
    struct kiln_device *d = gpu_open(1);
    assert_int_equal(set_device(2), 0);
    for (unsigned n = 1; n < 4; n++) {
        struct kiln_memory *m = NULL;
        gpu.fake->fail_at = n;
        assert_int_not_equal(kiln_memory_create(d, 1ull << 50, &m, &gpu.err), KILN_E_OK);
        gpu.fake->fail_at = 0;
        assert_int_equal(current(), 2);
        assert_int_equal(last_error(), 0);
    }
    kiln_device_close(d);
    set_device(0);
}

TEST(gpu, a_context_is_refused)
{
    struct kiln_device *d = NULL;
    assert_int_equal(kiln_device_open_in("hip:0", &d, &d, &gpu.err), KILN_E_INVALID);
    assert_says(gpu.err.text, "context");
}

int main(int argc, char **argv)
{
    gpu_init(argc, argv, "hip7");
    *(void **)&get_device = gpu_symbol("hipGetDevice");
    *(void **)&set_device = gpu_symbol("hipSetDevice");
    *(void **)&last_error = gpu_symbol("hipPeekAtLastError");
    return test_run(NULL);
}
