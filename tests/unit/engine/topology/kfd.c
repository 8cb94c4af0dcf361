/* SPDX-License-Identifier: MIT */
#include "tests/support/failing_calls.h"
#include "tests/support/test.h"
#include "tests/support/test_data.h"
#include "tests/support/test_files.h"

#include "common/base/fs.h"
#include "engine/topology/kfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct fixture {
    const char *directory;
    struct gpu gpus[GPUS_MAX];
    size_t count;
    char skipped[256];
    struct kiln_err err;
};

SET_UP(setup) { f->directory = test_directory(); }

FIXTURE(kfd, setup, NULL);

static const char *make_node(struct fixture *f, const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", f->directory, name);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/%s/properties", f->directory, name);
    return path;
}

static void add_bytes(struct fixture *f, const char *name, struct bytes properties)
{
    test_write(make_node(f, name), properties);
}

static void add_node(struct fixture *f, const char *name, const char *properties)
{
    add_bytes(f, name, bytes_of_text(properties));
}

static void look_into(struct fixture *f, const char *directory)
{
    memset(f->skipped, 'x', sizeof(f->skipped));
    must(kfd_gpus(directory, f->gpus, &f->count, f->skipped, &f->err), f->err);
}

static void read_gpus(struct fixture *f) { look_into(f, f->directory); }

#define GPU_90A "simd_count 416\nsimd_per_cu 4\ngfx_target_version 90010\nvendor_id 4098\n"

TEST_F(kfd, a_gpu_is_read_from_its_properties)
{
    add_node(f, "1", "cpu_cores_count 0\n" GPU_90A "unique_id 1801979520617338022\nlast 1\n");

    read_gpus(f);

    assert_int_equal(f->count, 1);
    assert_int_equal(f->gpus[0].node, 1);
    assert_string_equal(f->gpus[0].arch, "gfx90a");
    assert_int_equal(f->gpus[0].compute_units, 104);
    assert_int_equal(f->gpus[0].unique_id, 1801979520617338022);
    assert_string_equal(f->gpus[0].uuid, "GPU-1901ead3a2ecd4a6");
    assert_string_equal(f->gpus[0].database_id, "gfx90a68");
    assert_string_equal(f->skipped, "");
}

TEST_F(kfd, cpu_nodes_are_skipped_and_gpus_sorted_by_number)
{
    add_node(f, "10", GPU_90A);
    add_node(f, "0", "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n");
    add_node(f, "9", "simd_count 240\nsimd_per_cu 4\ngfx_target_version 90006");
    add_node(f, "generation_id", "1\n");

    read_gpus(f);

    assert_int_equal(f->count, 2);
    assert_string_equal(f->gpus[0].database_id, "gfx906_60");
    assert_int_equal(f->gpus[0].node, 9);
    assert_int_equal(f->gpus[1].node, 10);
    assert_string_equal(f->gpus[0].uuid, "");
    assert_string_equal(f->skipped, "");
}

TEST_F(kfd, from_gfx10_on_work_group_processors_are_counted)
{
    add_node(f, "1", "simd_count 144\nsimd_per_cu 2\ngfx_target_version 100300\n");
    add_node(f, "2", "simd_count 192\nsimd_per_cu 2\ngfx_target_version 110000\n");
    add_node(f, "3", "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\n");

    read_gpus(f);

    assert_int_equal(f->count, 3);
    assert_string_equal(f->gpus[0].database_id, "gfx1030_36");
    assert_string_equal(f->gpus[1].database_id, "gfx1100_48");
    assert_string_equal(f->gpus[2].database_id, "gfx942130");
}

TEST_F(kfd, without_gfx_target_version_the_pci_device_gives_the_arch)
{
    add_node(f, "1", "simd_count 256\nsimd_per_cu 4\nvendor_id 4098\ndevice_id 26720\n");
    add_node(f, "2", "simd_count 256\nsimd_per_cu 4\nvendor_id 4318\ndevice_id 26720\n");
    add_node(f, "3", "simd_count 256\nsimd_per_cu 4\nvendor_id 4098\ndevice_id 1\n");

    read_gpus(f);

    assert_int_equal(f->count, 1);
    assert_string_equal(f->gpus[0].database_id, "gfx900_64");
    assert_says(f->skipped, "0x6860");
    assert_says(f->skipped, "node 3");
}

TEST_F(kfd, a_host_without_the_driver_has_no_gpus)
{
    char absent[128];
    snprintf(absent, sizeof(absent), "%s/absent", f->directory);
    f->directory = absent;

    read_gpus(f);

    assert_int_equal(f->count, 0);
    assert_string_equal(f->skipped, "");
    *strrchr(f->directory, '/') = '\0';
}

TEST_F(kfd, a_topology_that_is_not_a_directory_is_reported)
{
    char path[256];
    snprintf(path, sizeof(path), "%s", make_node(f, "1"));
    fclose(fopen(path, "w"));

    enum kiln_code rc = kfd_gpus(path, f->gpus, &f->count, f->skipped, &f->err);

    assert_int_not_equal(rc, KILN_OK);
    assert_says(f->err.text, "GPUs");
}

static enum kiln_code list_gpus(void *context, struct kiln_err *err)
{
    struct fixture *f = context;
    return kfd_gpus(f->directory, f->gpus, &f->count, f->skipped, err);
}

TEST_F(kfd, a_topology_that_cannot_be_read_to_its_end_is_reported)
{
    add_node(f, "1", GPU_90A);
    add_node(f, "2", GPU_90A);
    expect_failures(list_gpus, f, FAILING("readdir", EIO), KILN_IO, "GPUs");
}

TEST_F(kfd, each_invalid_node_is_reported_and_skipped)
{
    static const struct {
        const char *properties, *says;
    } cases[] = {
        { "", "simd_count" },
        { "simd_count\n", "simd_count" },
        { "simd_count \n", "simd_count" },
        { "simd_count 41x6\n", "simd_count" },
        { "simd_count -416\n", "simd_count" },
        { "simd_count 4 16\n", "simd_count" },
        { "simd_count 99999999999999999999\n", "simd_count" },
        { "simd_count 18446744073709551616\n", "simd_count" },
        { GPU_90A "simd_count 8\n", "simd_count" },
        { GPU_90A "unique_id 0x12\n", "unique_id" },
        { "simd_count 416\ngfx_target_version 90010\n", "416" },
        { "simd_count 417\nsimd_per_cu 4\ngfx_target_version 90010\n", "417" },
        { "simd_count 416\nsimd_per_cu 9000\ngfx_target_version 90010\n", "9000" },
        { "simd_count 18446744073709551615\nsimd_per_cu 1\ngfx_target_version 90010\n", "SIMDs" },
        { "simd_count 416\nsimd_per_cu 4\ngfx_target_version 9001099\n", "gfx_target_version" },
        { "simd_count 416\nsimd_per_cu 4\ngfx_target_version 90016\n", "gfx_target_version" },
        { "simd_count 416\nsimd_per_cu 4\ngfx_target_version 91600\n", "gfx_target_version" },
        { "simd_count 416\nsimd_per_cu 4\ngfx_target_version 7\n", "gfx_target_version" },
        { "simd_count 416\nsimd_per_cu 4\n", "gfx_target_version" },
    };
    add_node(f, "7", GPU_90A);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        add_node(f, "3", cases[i].properties);

        read_gpus(f);

        assert_says(f->skipped, "node 3: ");
        assert_says(f->skipped, cases[i].says);
        assert_int_equal(f->count, 1);
        assert_int_equal(f->gpus[0].node, 7);
        char path[256];
        snprintf(path, sizeof(path), "%s/3", f->directory);
        fs_remove_tree(AT_FDCWD, path);
    }
}

TEST_F(kfd, properties_with_nuls_are_refused)
{
    static const char nul[] = "simd_count 4\00016\n", high[] = "simd_count \xb2\n\xff\xfe";
    add_bytes(f, "1", bytes_of(nul, sizeof(nul) - 1));
    add_bytes(f, "2", bytes_of(high, sizeof(high) - 1));

    read_gpus(f);

    assert_int_equal(f->count, 0);
    assert_says(f->skipped, "node 2");
}

TEST_F(kfd, endless_properties_are_refused)
{
    size_t size = 1 << 20;
    char *text = malloc(size);
    memset(text, ' ', size);
    add_bytes(f, "1", bytes_of(text, size));
    free(text);
    add_node(f, "2", GPU_90A);

    read_gpus(f);

    assert_int_equal(f->count, 1);
    assert_says(f->skipped, "65536");
}

TEST_F(kfd, a_fifo_in_the_topology_is_not_waited_for)
{
    assert_int_equal(mkfifo(make_node(f, "1"), 0600), 0);
    assert_int_equal(mkdir(make_node(f, "2"), 0700), 0);
    make_node(f, "3");
    add_node(f, "4", GPU_90A);

    read_gpus(f);

    assert_int_equal(f->count, 1);
    assert_says(f->skipped, "node 1");
    assert_says(f->skipped, "node 2");
    assert_says(f->skipped, "node 3");
}

TEST_F(kfd, a_gpu_that_the_cgroup_hides_is_not_listed)
{
    add_node(f, "1", GPU_90A);
    add_node(f, "2", GPU_90A);
    fail_call("pread", 1, EPERM);

    read_gpus(f);

    assert_int_equal(f->count, 1);
    assert_int_equal(f->gpus[0].node, 2);
    assert_string_equal(f->skipped, "");
    fail_call("pread", 1, EIO);
    read_gpus(f);
    assert_int_equal(f->count, 1);
    assert_says(f->skipped, "Input/output");
}

TEST_F(kfd, directories_without_a_number_are_not_nodes)
{
    add_node(f, "-1", GPU_90A);
    add_node(f, "01", GPU_90A);
    add_node(f, "1e", GPU_90A);
    add_node(f, "4294967296", GPU_90A);
    add_node(f, "4294967295", GPU_90A);

    read_gpus(f);

    assert_int_equal(f->count, 1);
    assert_int_equal(f->gpus[0].node, UINT32_MAX);
    assert_string_equal(f->skipped, "");
}

TEST_F(kfd, thousands_of_nodes_do_not_overflow)
{
    char name[16];
    for (unsigned i = 0; i < 4200; i++) {
        snprintf(name, sizeof(name), "%u", i);
        if (i < 300)
            add_node(f, name, GPU_90A);
        else
            make_node(f, name);
    }

    read_gpus(f);

    assert_true(f->count <= GPUS_MAX);
    assert_says(f->skipped, "node ");
    assert_true(strlen(f->skipped) < sizeof(f->skipped));
}

TEST_F(kfd, gpus_beyond_the_limit_are_counted)
{
    char name[16];
    for (unsigned i = 0; i < GPUS_MAX + 5; i++) {
        snprintf(name, sizeof(name), "%u", i);
        add_node(f, name, GPU_90A);
    }

    read_gpus(f);

    assert_int_equal(f->count, GPUS_MAX);
    assert_int_equal(f->gpus[GPUS_MAX - 1].node, GPUS_MAX - 1);
    assert_says(f->skipped, "5 GPUs");
    assert_says(f->skipped, "256");
}

TEST_F(kfd, sramecc_is_reported_if_kernel_and_arch_report_it)
{
    static const struct {
        const char *properties, *target;
    } cases[] = {
        { GPU_90A "capability 67108864\n", "gfx90a:sramecc+" },
        { GPU_90A "capability 4227858431\n",
          "gfx90a:sramecc-" }, /* all bits but the one of sramecc */
        { GPU_90A, "gfx90a:sramecc-" },
        { "simd_count 240\nsimd_per_cu 4\ngfx_target_version 90006\ncapability 67108864\n",
          "gfx906:sramecc+" },
        { "simd_count 144\nsimd_per_cu 2\ngfx_target_version 100300\ncapability 67108864\n",
          "gfx1030" },
        /* a Linux kernel so old that it uses another bit for sramecc, or none */
        { "simd_count 256\nsimd_per_cu 4\nvendor_id 4098\ndevice_id 26273\n", "gfx906" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[256];
        add_node(f, "1", cases[i].properties);
        read_gpus(f);
        assert_int_equal(f->count, 1);
        assert_string_equal(f->gpus[0].target, cases[i].target);
        snprintf(path, sizeof(path), "%s/1", f->directory);
        fs_remove_tree(AT_FDCWD, path);
    }
}

static void add_bank(struct fixture *f, int bank, const char *properties)
{
    char path[256];
    struct kiln_err err = KILN_ERR_INIT;
    snprintf(path, sizeof(path), "%s/1/mem_banks/%d", f->directory, bank);
    must(fs_make_directories(path, &err), err);
    strcat(path, "/properties");
    must(fs_replace_file(path, bytes_of_text(properties), 0644, &err), err);
}

static uint64_t memory_of(struct fixture *f)
{
    read_gpus(f);
    assert_int_equal(f->count, 1);
    return kfd_memory(f->directory, &f->gpus[0]);
}

TEST_F(kfd, memory_is_the_sum_of_the_devices_own_banks)
{
    add_node(f, "1", GPU_90A "local_mem_size 0\nmem_banks_count 4\n");
    add_bank(f, 0, "heap_type 1\nsize_in_bytes 17179869184\nflags 0\nwidth 4096\n");
    add_bank(f, 1, "heap_type 2\nsize_in_bytes 51539607552\n");
    add_bank(f, 2, "heap_type 0\nsize_in_bytes 99999999999\n"); /* the host's */
    add_bank(f, 3, "heap_type 4\nsize_in_bytes 65536\n");       /* LDS */
    add_bank(f, 4, "heap_type 1\nsize_in_bytes 1\n");           /* beyond the count */
    assert_true(memory_of(f) == 68719476736u);
}

TEST_F(kfd, memory_reported_by_the_node_needs_no_banks)
{
    add_node(f, "1", GPU_90A "local_mem_size 17163091968\nmem_banks_count 1\n");
    add_bank(f, 0, "heap_type 1\nsize_in_bytes 5\n");
    assert_true(memory_of(f) == 17163091968u);
}

TEST_F(kfd, incompletely_reported_memory_is_unknown)
{
    static const char *const wrong[] = { "", "heap_type 1\n", "size_in_bytes 7\n",
                                         "heap_type 1\nsize_in_bytes -7\n",
                                         "heap_type 1\nsize_in_bytes 18446744073709551615\n" };
    add_node(f, "1", GPU_90A "mem_banks_count 2\n");
    assert_true(memory_of(f) == 0);
    add_bank(f, 0, "heap_type 1\nsize_in_bytes 1000\n");
    assert_true(memory_of(f) == 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        add_bank(f, 1, wrong[i]);
        assert_true(memory_of(f) == 0);
    }
    add_bank(f, 1, "heap_type 1\nsize_in_bytes 24\n");
    assert_true(memory_of(f) == 1024);
}

TEST_F(kfd, impossible_numbers_of_banks_or_dies_are_ignored)
{
    add_node(f, "1", GPU_90A "mem_banks_count 4294967296\nnum_xcc 4294967297\n");
    assert_true(memory_of(f) == 0);
    assert_int_equal(f->gpus[0].memory_banks, 0);
    assert_int_equal(f->gpus[0].xcc, 0);
}

TEST_F(kfd, partitions_are_the_nodes_of_one_device)
{
    add_node(f, "1", GPU_90A "unique_id 7\n");
    add_node(f, "2", GPU_90A "unique_id 8\n");
    add_node(f, "3", GPU_90A "unique_id 7\n");
    add_node(f, "4", GPU_90A);
    add_node(f, "5", GPU_90A "unique_id 0\n");
    read_gpus(f);
    static const unsigned wanted[] = { 2, 1, 2, 1, 1 };
    assert_int_equal(f->count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(kfd_partitions(f->gpus, f->count, &f->gpus[i]), wanted[i]);
}

TEST(kfd, a_partition_mode_follows_from_nodes_and_dies)
{
    assert_string_equal(kfd_partition_mode(1, 0), ""); /* not stated */
    assert_string_equal(kfd_partition_mode(8, 0), "");
    /* a device with one die has no partition modes */
    assert_string_equal(kfd_partition_mode(1, 1), "");
    assert_string_equal(kfd_partition_mode(1, 8), "SPX");
    assert_string_equal(kfd_partition_mode(2, 4), "DPX");
    assert_string_equal(kfd_partition_mode(3, 2), "TPX");
    assert_string_equal(kfd_partition_mode(4, 2), "QPX");
    assert_string_equal(kfd_partition_mode(8, 1), "CPX");
    assert_string_equal(kfd_partition_mode(7, 1), "CPX");
    assert_string_equal(kfd_partition_mode(7, 2), "");
}

static void look_at_host(struct fixture *f, const char *host)
{
    char name[64], path[512];
    snprintf(name, sizeof(name), "kfd/%s/nodes", host);
    test_data_path(name, path);
    look_into(f, path);
}

TEST_F(kfd, all_gpus_of_a_host_with_eight_mi210_are_listed)
{
    look_at_host(f, "mi210x8");
    assert_int_equal(f->count, 8);
    for (unsigned i = 0; i < 8; i++) {
        assert_string_equal(f->gpus[i].database_id, "gfx90a68");
        assert_int_equal(f->gpus[i].node, 2 + i);
        assert_int_equal(strlen(f->gpus[i].uuid), 20);
        assert_string_equal(f->gpus[i].target, "gfx90a:sramecc+");
        assert_int_equal(kfd_partitions(f->gpus, f->count, &f->gpus[i]), 1);
        assert_int_equal(f->gpus[i].memory_banks, 1); /* the tree lacks the bank's files */
    }
    assert_string_equal(f->skipped, "");
}

TEST_F(kfd, each_partition_of_an_mi300x_is_listed)
{
    look_at_host(f, "mi300x-cpx");
    assert_int_equal(f->count, 63);
    for (unsigned i = 0; i < 63; i++)
        assert_string_equal(f->gpus[i].database_id, "gfx942_38");
    assert_string_equal(f->gpus[0].uuid, f->gpus[1].uuid); /* one device */
    unsigned partitions = kfd_partitions(f->gpus, f->count, &f->gpus[0]);
    assert_true(partitions == 7 || partitions == 8); /* the tree lacks one of 64 partitions */
    assert_string_equal(kfd_partition_mode(partitions, f->gpus[0].xcc), "CPX");
    assert_string_equal(f->gpus[62].target, "gfx942:sramecc+");
    assert_string_equal(f->skipped, "");
}

TEST_F(kfd, gpus_of_a_host_with_an_old_kernel_are_listed)
{
    look_at_host(f, "mixed");
    assert_int_equal(f->count, 2);
    assert_string_equal(f->gpus[0].database_id, "gfx900_64");
    assert_string_equal(f->gpus[1].database_id, "gfx900_64");
    assert_string_equal(f->gpus[1].target, "gfx900");
    assert_true(kfd_memory("/nonexistent", &f->gpus[1]) == 17163091968u);
    assert_int_equal(f->gpus[1].xcc, 0);
    assert_string_equal(f->skipped, "");
}
