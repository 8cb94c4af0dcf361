/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the hosts of a fleet state about one device: the verified tuning records of a shard.
 *
 * Role       verifies the blocks of the shard's packs, and reads the newest of each series
 * Ownership  owns the descriptors of the packs, and the records
 * Threading  fleet_statements_read runs on a work queue, everything else on the engine's thread
 */
#include "engine/fleet/fleet_index.h"
#include "engine/service/fleet/fleet_parts.h"
#include "engine/service/fleet/fleet_records.h"
#include "engine/tuning/record.h"

struct fleet_statements {
    struct trusted *trusted;    /* owned reference */
    struct fleet_place *places; /* owned; of the blocks */
    uint32_t place_count;
    struct fleet_shard shard; /* its texts are in |target| */
    char target[LIMIT_TARGET_TEXT];
    struct fleet_pack names[FLEET_RECORDS_PACKS_MAX]; /* |wanted| packs to read, the index's last */
    uint32_t first_pack;                              /* number of the first of them in the index */
    int packs[FLEET_RECORDS_PACKS_MAX];               /* owned; |pack_count| that were read */
    unsigned wanted, pack_count;
    /* Results of fleet_statements_read. */
    struct record_list records; /* of the blocks, in the order of their builders and series */
    uint64_t entries;
    uint64_t faults[FLEET_FAULTS];
    bool is_cut; /* a limit was reached */
    enum kiln_code rc;
    struct kiln_err err;
};

/* Copies what the other functions need of the index. Returns false if memory ran out. */
bool fleet_statements_begin(struct fleet_statements *statements, const struct fleet_index *index,
                            struct trusted *trusted);
/* All packs have been read. Counts blocks that are not valid in |faults|. Sets |rc| to KILN_CORRUPT
 * if a pack does not have the digest that the index states. */
void fleet_statements_read(struct fleet_statements *statements, const char *database_id);
void fleet_statements_done(struct fleet_statements *statements);
