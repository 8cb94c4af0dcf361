/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/users_fixture.h"

#include "common/base/fs.h"

#include <stdio.h>
#include <string.h>

#define MI210                                                                             \
    "simd_count 416\nsimd_per_cu 4\ngfx_target_version 90010\nvendor_id 4098\n"           \
    "unique_id 1801979520617338022\ncapability 746037888\nnum_xcc 1\nmem_banks_count 1\n" \
    "local_mem_size 0\n"
#define PARTITION                                                                       \
    "simd_count 152\nsimd_per_cu 4\ngfx_target_version 90402\nunique_id 7\nnum_xcc 1\n" \
    "capability 2893521536\n"

static void add_file(struct users *f, const char *file, const char *text)
{
    char path[300];
    struct kiln_err err = KILN_ERR_INIT;
    snprintf(path, sizeof(path), "%s/%s", f->engine.gpus, file);
    char *name = strrchr(path, '/');
    *name = '\0';
    must(fs_make_directories(path, &err), err);
    *name = '/';
    must(fs_replace_file(path, bytes_of_text(text), 0644, &err), err);
}

static struct json *ask_devices(struct users *f)
{
    return test_caller_ask(&f->ann, MESSAGE_devices, NULL);
}

TEST_F(users, every_user_sees_every_device)
{
    add_file(f, "0/properties", "simd_count 0\n");
    add_file(f, "1/properties", MI210);
    add_file(f, "1/mem_banks/0/properties", "heap_type 1\nsize_in_bytes 68702699520\nflags 0\n");
    KILN_AUTO(json) struct json *answer = ask_devices(f);
    const struct json *device = json_first(json_get(answer, "devices"));
    assert_int_equal(json_count(json_get(answer, "devices")), 1);
    assert_int_equal(json_get_u64(device, "node", 0), 1);
    assert_string_equal(json_get_text(device, "arch", ""), "gfx90a");
    assert_string_equal(json_get_text(device, "target", ""), "gfx90a:sramecc+");
    assert_int_equal(json_get_u64(device, "compute_units", 0), 104);
    assert_string_equal(json_get_text(device, "uuid", ""), "GPU-1901ead3a2ecd4a6");
    assert_string_equal(json_get_text(device, "database_id", ""), "gfx90a68");
    assert_int_equal(json_get_u64(device, "memory", 0), 68702699520);
    assert_int_equal(json_get_u64(device, "partitions", 0), 1);
    assert_int_equal(json_get_u64(device, "xcc", 0), 1);
    assert_string_equal(json_get_text(device, "partition_mode", "?"), "");
    assert_string_equal(json_get_text(answer, "skipped", "?"), "");
}

TEST_F(users, partitions_of_a_gpu_are_listed_as_partitions)
{
    for (int i = 1; i <= 8; i++) {
        char file[32];
        snprintf(file, sizeof(file), "%d/properties", i);
        add_file(f, file, PARTITION);
    }
    KILN_AUTO(json) struct json *answer = ask_devices(f);
    assert_int_equal(json_count(json_get(answer, "devices")), 8);
    for (const struct json *j = json_first(json_get(answer, "devices")); j; j = json_next(j)) {
        assert_string_equal(json_get_text(j, "partition_mode", ""), "CPX");
        assert_int_equal(json_get_u64(j, "partitions", 0), 8);
        assert_string_equal(json_get_text(j, "target", ""), "gfx942:sramecc+");
    }
}

TEST_F(users, unknown_properties_of_a_device_are_absent)
{
    add_file(f, "1/properties", "simd_count 416\nsimd_per_cu 4\ngfx_target_version 90010\n");
    add_file(f, "2/properties", "simd_count nonsense\n");
    KILN_AUTO(json) struct json *answer = ask_devices(f);
    const struct json *device = json_first(json_get(answer, "devices"));
    assert_null(json_get(device, "memory"));
    assert_null(json_get(device, "xcc"));
    assert_string_equal(json_get_text(device, "uuid", "?"), "");
    assert_says(json_get_text(answer, "skipped", ""), "simd_count");
}

TEST_F(users, a_host_without_gpus_lists_none)
{
    KILN_AUTO(json) struct json *answer = ask_devices(f);
    assert_int_equal(json_count(json_get(answer, "devices")), 0);
    assert_string_equal(json_get_text(answer, "skipped", "?"), "");
}
