/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The blocks of tuning records that this host has exported for the fleet's tree
 * (docs/formats/fleet.md#tuning-records).
 *
 * Role       gives each block its time, by which a block replaces the older ones of its series. New
 *            content gets a new time, so its file has a new name even if the tree has a file with
 *            the same records. Knows which blocks there were, so that an empty block can replace a
 *            block that the host no longer has. They are in the file fleet-blocks of the state
 *            directory
 * Ownership  a struct fleet_blocks owns its list
 * Threading  one thread at a time
 */
#include "common/base/digest.h"
#include "common/base/err.h"
#include "common/miopen/device_database_id.h"

#define FLEET_BLOCKS_MAX 4096u

struct fleet_block {
    char database_id[DATABASE_ID_MAX];
    unsigned part; /* the number of the block among those of its device */
    uint64_t time; /* seconds since 1970; 0: never exported */
    /* The highest time that the block ever had. It differs from |time| if the host's clock was
     * wrong by more than a day. */
    uint64_t latest;
    struct digest content;
    bool is_current; /* exported since the list was read */
};

struct fleet_blocks {
    struct fleet_block *list;
    size_t count, capacity;
};

/* Leaves out damaged lines of the file. Without the file, there are no blocks. */
KILN_MUST_CHECK enum kiln_code fleet_blocks_read(const char *state_directory,
                                                 struct fleet_blocks *ret_blocks,
                                                 struct kiln_err *err);
/* Notes that the block has this content now. Sets |ret_time| to the time of the block, which is
 * larger than the time of each block with other content that readers take for valid. */
KILN_MUST_CHECK enum kiln_code fleet_blocks_note(struct fleet_blocks *blocks,
                                                 const struct fleet_block *block, uint64_t now,
                                                 uint64_t *ret_time, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code fleet_blocks_write(const struct fleet_blocks *blocks,
                                                  const char *state_directory,
                                                  struct kiln_err *err);
void fleet_blocks_done(struct fleet_blocks *blocks);
