/* SPDX-License-Identifier: MIT */
/* Prints what a fleet's index costs: the size of its file, its memory, and the duration of a
 * look-up that finds no kernel. scripts/test-fleet checks the limits. */
#include "common/base/clock.h"
#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_index.h"
#include "tests/support/fleet_keys.h"

#include <malloc.h>
#include <stdlib.h>

#define KEYS 100000u
#define LOOKUPS 1000000u

static void fail(const struct kiln_err *err)
{
    fprintf(stderr, "fleet_index_cost: %s\n", err->text);
    exit(1);
}

static struct digest key_of(uint32_t number) { return sha256_of(bytes_of(&number, 4)); }

static void write_index(const struct fleet_signer *signer, struct buffer *ret_index)
{
    struct kiln_err err = KILN_ERR_INIT;
    const struct fleet_pack pack = { .size = UINT32_MAX };
    KILN_AUTO(mem) struct fleet_entry *entries = calloc(KEYS, sizeof(*entries));
    if (!entries)
        exit(1);
    for (uint32_t i = 0; i < KEYS; i++)
        entries[i] = (struct fleet_entry){ key_of(i), { .offset = 5000 * i, .size = 5000 } };
    struct fleet_index_draft draft = {
        .shard = { .target = bytes_of_text("gfx90a"), .toolchain = bytes_of_text("clang") },
        .epoch = 1,
        .packs = &pack,
        .pack_count = 1,
        .entries = entries,
        .entry_count = KEYS,
    };
    if (fleet_index_write(&draft, signer, ret_index, &err))
        fail(&err);
}

static uint64_t memory_in_use(void)
{
    const struct mallinfo2 in_use = mallinfo2();
    return in_use.uordblks + in_use.hblkhd;
}

static double miss_ns(const struct fleet_index *index)
{
    static struct digest absent[4096];
    struct fleet_place place;
    uint32_t found = 0;
    for (uint32_t i = 0; i < 4096; i++)
        absent[i] = key_of(KEYS + i);
    uint64_t begin = clock_monotonic_ns();
    for (uint32_t i = 0; i < LOOKUPS; i++)
        found += fleet_index_find(index, &absent[i % 4096], &place);
    uint64_t end = clock_monotonic_ns();
    if (found > 0)
        exit(1);
    return (double)(end - begin) / LOOKUPS;
}

int main(int argc, char **argv)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum fleet_fault fault;
    KILN_AUTO(fleet_trust) struct fleet_trust *trust = NULL;
    KILN_AUTO(fleet_index) struct fleet_index *index = NULL;
    BUFFER_AUTO struct buffer content;
    const struct fleet_signer signer = fleet_test_signer(1);
    if (argc != 2) {
        fprintf(stderr, "Usage: fleet_index_cost DIRECTORY\n");
        return 2;
    }
    fleet_test_trust(argv[1], &signer, &(struct fleet_test_key){ "signer", NULL, true });
    if (fleet_trust_read(argv[1], &trust, &err))
        fail(&err);
    uint64_t before = memory_in_use();
    buffer_init(&content, FLEET_INDEX_MAX);
    write_index(&signer, &content);
    uint64_t size = content.size;
    if (fleet_index_open(&content, trust, &index, &fault, &err))
        fail(&err);
    buffer_done(&content);
    uint64_t memory = memory_in_use() - before;
    printf("{\"keys\":%u,\"size\":%llu,\"memory\":%llu,\"miss_ns\":%.1f}\n", KEYS,
           (unsigned long long)size, (unsigned long long)memory, miss_ns(index));
    return 0;
}
