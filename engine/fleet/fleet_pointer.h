/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The pointer to the current index of a shard, and the epochs (version numbers of indices) that a
 * host has seen (docs/formats/fleet.md).
 *
 * Ownership  a struct fleet_epochs owns its table
 * Threading  plain values
 *
 * The pointer is not signed, but the index that it names is. So an attacker who may write to the
 * tree can only make the pointer name an index that a trusted key signed. Epochs prevent the use of
 * an old index: a host refuses an index whose epoch is lower than one that the host has seen.
 */
#include "engine/fleet/fleet_index.h"

#define FLEET_POINTER_MAX 128

struct fleet_pointer {
    uint64_t epoch;
    struct digest sha256; /* of the index file, and part of its name */
};

void fleet_pointer_write(const struct fleet_pointer *pointer, char text[FLEET_POINTER_MAX]);
/* Returns false unless |text| is exactly one pointer. */
bool fleet_pointer_read(struct bytes text, struct fleet_pointer *ret_pointer);

struct fleet_epoch {
    char shard_id[FLEET_SHARD_ID_SIZE];
    uint8_t key_id[FLEET_KEY_ID_SIZE];
    uint64_t epoch;
};

/* Maximum number of entries in a struct fleet_epochs, which has the highest epoch of each shard and
 * signer. If there are more, the least recently changed ones are dropped. */
#define FLEET_EPOCHS_MAX 1024u
#define FLEET_EPOCHS_TEXT_MAX (FLEET_EPOCHS_MAX * 80u)

struct fleet_epochs {
    struct fleet_epoch *list; /* owned */
    size_t count, capacity;
};
void fleet_epochs_done(struct fleet_epochs *epochs);
/* If the text is damaged, returns false, and |ret_epochs| has the entries before the damage. */
bool fleet_epochs_read(struct bytes text, struct fleet_epochs *ret_epochs);
void fleet_epochs_write(const struct fleet_epochs *epochs, struct buffer *ret_text);
/* Returns FLEET_FAULT_ROLLED_BACK if a key that may still sign indices has signed an index of the
 * same shard with a higher epoch. Epochs of revoked keys do not count. Otherwise a revoked signer
 * could block the shard for ever. */
enum fleet_fault fleet_epochs_check(const struct fleet_epochs *epochs,
                                    const struct fleet_trust *trust,
                                    const struct fleet_index *index);
KILN_MUST_CHECK enum kiln_code fleet_epochs_note(struct fleet_epochs *epochs,
                                                 const struct fleet_index *index,
                                                 struct kiln_err *err);
