/* SPDX-License-Identifier: MIT */
#include "libclient/device/device.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/gpu_fixture.h"

#include <pthread.h>
#include <string.h>

#define CROWD 4
#define LAUNCHES_EACH 40

#define SKIP_WITHOUT_MAPS() SKIP_IF(!gpu.has_tensor_maps, "this runtime has no tensor maps")

static void expect_copied(struct kiln_memory *y, unsigned first)
{
    float read[MADE_ELEMENTS];
    must(kiln_memory_read(y, read, sizeof(read), &gpu.err), gpu.err);
    for (unsigned i = 0; i < MADE_ELEMENTS / 2; i++)
        assert_true(read[i] == (float)(first + i));
}

TEST(gpu, a_map_is_encoded_for_the_memory_of_a_launch)
{
    SKIP_WITHOUT_MAPS();
    struct kiln_device *d = gpu_open(1);
    struct gpu_work work;
    struct made_plan made = gpu_copy_mapped();
    must(gpu_work_start(d, &made, &work, &gpu.err), gpu.err);

    must(kiln_run_launch(work.run, &work.tensors, NULL, &gpu.err), gpu.err);

    const struct fake_gpu_map *map = &gpu.fake->last_map;
    static const uint64_t dims[] = { 16, 4, 0, 0, 0 }, strides[] = { 32, 0, 0, 0 };
    static const uint32_t box[] = { 8, 2, 0, 0, 0 };
    expect_copied(work.y, 0);
    assert_ptr_equal(map->address, work.x->native);
    assert_false(map->is_im2col);
    assert_int_equal(map->type, 6); /* CU_TENSOR_MAP_DATA_TYPE_FLOAT16 */
    assert_int_equal(map->swizzle, 3);
    assert_int_equal(map->interleave + map->fill, 0);
    assert_int_equal(map->rank, 2);
    assert_memory_equal(map->dims, dims, sizeof(dims));
    assert_memory_equal(map->strides, strides, sizeof(strides));
    assert_memory_equal(map->box, box, sizeof(box));
    gpu_work_end(&work);
    kiln_device_close(d);
}

static int encoded_type(uint8_t type)
{
    struct kiln_device *d = gpu_open(0);
    struct gpu_work work;
    struct made_plan made = gpu_copy_mapped();
    made.maps[0].type = type;
    made.maps[0].dims[0] /= 2;
    made.maps[0].strides[0] = 4;
    made.maps[0].box[0] /= 2;
    must(gpu_work_start(d, &made, &work, &gpu.err), gpu.err);
    must(kiln_run_launch(work.run, &work.tensors, NULL, &gpu.err), gpu.err);
    int ret = gpu.fake->last_map.type;
    gpu_work_end(&work);
    kiln_device_close(d);
    return ret;
}

/* 7 is CU_TENSOR_MAP_DATA_TYPE_FLOAT32. 11 is CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, with which copies
 * round to TF32. */
TEST(gpu, maps_of_fp32_keep_all_bits_and_maps_of_tf32_round)
{
    SKIP_WITHOUT_MAPS();
    assert_int_equal(encoded_type(TYPE_FLOAT32), 7);
    assert_int_equal(encoded_type(TENSOR_MAP_TF32), 11);
}

TEST(gpu, a_map_may_begin_inside_its_tensor)
{
    SKIP_WITHOUT_MAPS();
    struct kiln_device *d = gpu_open(0);
    struct gpu_work work;
    struct made_plan made = gpu_copy_mapped();
    made.maps[0].offset = 32;
    must(gpu_work_start(d, &made, &work, &gpu.err), gpu.err);
    must(kiln_run_launch(work.run, &work.tensors, NULL, &gpu.err), gpu.err);
    expect_copied(work.y, 8);
    gpu_work_end(&work);
    kiln_device_close(d);
}

TEST(gpu, rows_of_pixels_are_encoded_as_such)
{
    SKIP_WITHOUT_MAPS();
    struct kiln_device *d = gpu_open(0);
    struct gpu_work work;
    struct made_plan made = gpu_copy_mapped();
    made.maps[0] = (struct tensor_map){ .operand = ARGUMENT_W,
                                        .type = TYPE_BFLOAT16,
                                        .mode = TENSOR_MAP_IM2COL,
                                        .swizzle = TENSOR_MAP_SWIZZLE_32,
                                        .rank = 4,
                                        .dims = { 8, 2, 3, 2 },
                                        .strides = { 2, 16, 32, 96 },
                                        .steps = { 1, 2, 1, 1 },
                                        .lower = { -1, -2 },
                                        .upper = { 1, 0 },
                                        .channels = 16,
                                        .pixels = 64 };
    must(gpu_work_start(d, &made, &work, &gpu.err), gpu.err);
    must(kiln_run_launch(work.run, &work.tensors, NULL, &gpu.err), gpu.err);
    const struct fake_gpu_map *map = &gpu.fake->last_map;
    static const uint64_t strides[] = { 16, 32, 96, 0 };
    assert_ptr_equal(map->address, work.w->native);
    assert_true(map->is_im2col);
    assert_int_equal(map->type, 9); /* CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 */
    assert_int_equal(map->swizzle, 1);
    assert_memory_equal(map->strides, strides, sizeof(strides));
    assert_int_equal(map->steps[1], 2);
    assert_int_equal(map->lower[0], -1);
    assert_int_equal(map->lower[1], -2);
    assert_int_equal(map->upper[0], 1);
    assert_int_equal(map->channels, 16);
    assert_int_equal(map->pixels, 64);
    gpu_work_end(&work);
    kiln_device_close(d);
}

TEST(gpu, while_the_memory_stays_a_map_is_encoded_once)
{
    SKIP_WITHOUT_MAPS();
    struct kiln_device *d = gpu_open(0);
    struct gpu_work work;
    struct made_plan made = gpu_copy_mapped();
    must(gpu_work_start(d, &made, &work, &gpu.err), gpu.err);
    struct kiln_tensors other = work.tensors;
    other.x = work.w;
    for (unsigned i = 0; i < 3; i++)
        must(kiln_run_launch(work.run, &work.tensors, NULL, &gpu.err), gpu.err);
    assert_int_equal(gpu.fake->encodes, 1);
    must(kiln_run_launch(work.run, &other, NULL, &gpu.err), gpu.err);
    assert_int_equal(gpu.fake->encodes, 2);
    must(kiln_run_launch(work.run, &work.tensors, NULL, &gpu.err), gpu.err);
    assert_int_equal(gpu.fake->encodes, 3);
    expect_copied(work.y, 0);
    gpu_work_end(&work);
    kiln_device_close(d);
}

static void expect_refused(struct made_plan *made, int code, const char *words)
{
    struct kiln_device *d = gpu_open(0);
    struct gpu_work work;
    must(gpu_work_start(d, made, &work, &gpu.err), gpu.err);
    assert_int_equal(kiln_run_launch(work.run, &work.tensors, NULL, &gpu.err), code);
    assert_says(gpu.err.text, words);
    assert_says(gpu.err.text, "'copy_mapped'");
    assert_int_equal(gpu.fake->launches, 0);
    gpu_work_end(&work);
    kiln_device_close(d);
}

/* x has 256 bytes. */
TEST(gpu, a_map_that_reaches_beyond_its_memory_is_refused)
{
    struct made_plan made = gpu_copy_mapped();
    made.maps[0].offset = 144;
    expect_refused(&made, KILN_E_INVALID, "byte 272");
    made.maps[0].offset = 0;
    made.maps[0].dims[1] = 9;
    expect_refused(&made, KILN_E_INVALID, "byte 288");
    made.maps[0].dims[1] = UINT32_MAX;
    made.maps[0].strides[1] = (1ull << 40) - 16;
    expect_refused(&made, KILN_E_INVALID, "tensor map");
    made.maps[0].offset = UINT64_MAX - 15;
    expect_refused(&made, KILN_E_INVALID, "18446744073709551615");
    assert_int_equal(gpu.fake->encodes, 0);
}

TEST(gpu, a_map_of_a_workspace_that_was_not_given_is_refused)
{
    struct made_plan made = gpu_copy_mapped();
    made.maps[0].operand = ARGUMENT_WORKSPACE;
    expect_refused(&made, KILN_E_INVALID, "workspace");
}

TEST(gpu, a_driver_without_tensor_maps_is_unsupported)
{
    struct made_plan made = gpu_copy_mapped();
    SKIP_IF(gpu.has_tensor_maps, "this runtime has tensor maps");
    expect_refused(&made, KILN_E_UNSUPPORTED, gpu.is_cuda ? "(801)" : "tensor maps");
}

TEST(gpu, a_driver_that_fails_to_encode_is_reported_and_asked_again)
{
    SKIP_WITHOUT_MAPS();
    struct kiln_device *d = gpu_open(0);
    struct gpu_work work;
    struct made_plan made = gpu_copy_mapped();
    must(gpu_work_start(d, &made, &work, &gpu.err), gpu.err);
    gpu.fake->fail_name = "cuTensorMapEncodeTiled";
    assert_int_equal(kiln_run_launch(work.run, &work.tensors, NULL, &gpu.err), KILN_E_GPU_FAULT);
    assert_says(gpu.err.text, "tensor map");
    gpu.fake->fail_status = 1; /* an invalid value, after which the device still works */
    assert_int_equal(kiln_run_launch(work.run, &work.tensors, NULL, &gpu.err), KILN_E_UNSUPPORTED);
    gpu.fake->fail_name = NULL;
    must(kiln_run_launch(work.run, &work.tensors, NULL, &gpu.err), gpu.err);
    expect_copied(work.y, 0);
    gpu_work_end(&work);
    kiln_device_close(d);
}

struct crowd {
    struct kiln_device *device;
    struct kiln_run *run;
    struct gpu_work work[CROWD];
};

struct member {
    struct crowd *crowd;
    unsigned number;
};

static void *launch_often(void *argument)
{
    const struct member *m = argument;
    struct kiln_error err = { 0 };
    int rc = 0;
    for (unsigned i = 0; i < LAUNCHES_EACH && !rc; i++)
        rc = kiln_run_launch(m->crowd->run, &m->crowd->work[m->number].tensors, NULL, &err);
    return rc ? m->crowd : NULL;
}

TEST(gpu, threads_share_a_run_each_with_its_own_memory)
{
    SKIP_WITHOUT_MAPS();
    struct crowd crowd = { .device = gpu_open(0) };
    struct made_plan made = gpu_copy_mapped();
    struct member members[CROWD];
    pthread_t threads[CROWD];
    for (unsigned i = 0; i < CROWD; i++) {
        float numbers[MADE_ELEMENTS];
        for (unsigned j = 0; j < MADE_ELEMENTS; j++)
            numbers[j] = (float)(1000 * i + j);
        must(gpu_work_start(crowd.device, &made, &crowd.work[i], &gpu.err), gpu.err);
        must(kiln_memory_write(crowd.work[i].x, numbers, sizeof(numbers), &gpu.err), gpu.err);
    }
    crowd.run = crowd.work[0].run;
    for (unsigned i = 0; i < CROWD; i++) {
        members[i] = (struct member){ &crowd, i };
        assert_int_equal(pthread_create(&threads[i], NULL, launch_often, &members[i]), 0);
    }
    for (unsigned i = 0; i < CROWD; i++) {
        void *failed;
        await_thread(threads[i], &failed);
        assert_null(failed);
    }
    for (unsigned i = 0; i < CROWD; i++) {
        expect_copied(crowd.work[i].y, 1000 * i);
        gpu_work_end(&crowd.work[i]);
    }
    kiln_device_close(crowd.device);
}

int main(int argc, char **argv)
{
    gpu_init(argc, argv, "cuda");
    return test_run(NULL);
}
