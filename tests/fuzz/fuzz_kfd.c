/* SPDX-License-Identifier: MIT */
/* Tests readers of KFD's sysfs tree. The input is a list of files with their paths and contents. */
#include "tests/fuzz/fuzz.h"

#include "engine/topology/kfd.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILES_MAX 12

static const char *const directories[] = {
    "0", "1", "2", "10", "007", "x", "1/mem_banks", "1/mem_banks/0", "1/mem_banks/1"
};
static const char *const files[] = { "0/properties",
                                     "1/properties",
                                     "2/properties",
                                     "10/properties",
                                     "007/properties",
                                     "x/properties",
                                     "generation_id",
                                     "1/mem_banks/0/properties",
                                     "1/mem_banks/1/properties",
                                     "1/gpu_id" };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void make_tree(struct reader *r)
{
    char name[64];
    fuzz_remove(fuzz_path("nodes"));
    (void)mkdir(fuzz_path("nodes"), 0700);
    for (size_t i = 0; i < COUNT(directories); i++) {
        snprintf(name, sizeof(name), "nodes/%s", directories[i]);
        (void)mkdir(fuzz_path(name), 0700);
    }
    for (unsigned i = 0; i < FILES_MAX && reader_left(r) > 0; i++) {
        snprintf(name, sizeof(name), "nodes/%s", files[reader_u8(r) % COUNT(files)]);
        fuzz_file(name, fuzz_part(r));
    }
}

static void check_gpu(const char *directory, const struct gpu *gpus, size_t count, size_t at)
{
    const struct gpu *gpu = &gpus[at];
    struct kiln_err err = KILN_ERR_INIT;
    struct database_id id;
    struct target target;
    /* May fail, because the tree may list a GPU of an unknown architecture. */
    (void)!database_id_parse(bytes_of_text(gpu->database_id), &id, &err);
    fuzz_expect(target_parse(bytes_of_text(gpu->target), &target, &err) == KILN_OK, "and a target");
    fuzz_expect(at == 0 || gpus[at - 1].node < gpu->node, "GPUs come in the order of nodes");
    kfd_memory(directory, gpu);
    kfd_partition_mode(kfd_partitions(gpus, count, gpu), gpu->xcc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gpu gpus[GPUS_MAX];
    struct reader r = reader_of(bytes_of(data, size));
    struct kiln_err err = KILN_ERR_INIT;
    char skipped[256];
    size_t count = 0;
    make_tree(&r);
    const char *directory = fuzz_path("nodes");
    if (kfd_gpus(directory, gpus, &count, skipped, &err))
        return 0;
    fuzz_expect(count <= GPUS_MAX, "no more GPUs than there is room for");
    fuzz_expect(memchr(skipped, '\0', sizeof(skipped)),
                "skipped files are reported in a terminated text");
    for (size_t i = 0; i < count; i++)
        check_gpu(directory, gpus, count, i);
    return 0;
}
