/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Data that is built into the program: tuning databases and packages, used in place.
 *
 * Role       names each item after the file from which it was built, and detects damage.  Each
 *            record and each kernel of an item has its own check, so an item can be used at once.
 *            After its first use, the whole item is compared with its digest, once per process and
 *            in small steps.  An item that fails this check is not used again
 * Ownership  items and bytes belong to the program and are never freed
 * Threading  any thread; a check belongs to one thread at a time
 */
#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "engine/digest/sha256.h"

#include <stdatomic.h>

enum engine_item_kind {
    ENGINE_ITEM_TUNING,  /* an index (docs/formats/tuning-index.md) */
    ENGINE_ITEM_PACKAGE, /* a .kpkg or .kdb file */
};

enum engine_item_state { ITEM_UNUSED, ITEM_USED, ITEM_CHECKED, ITEM_DAMAGED };

struct engine_item {
    enum engine_item_kind kind;
    const char *name; /* such as "gfx906_60.HIP.fdb.txt" */
    const unsigned char *bytes;
    const unsigned long *size;
    struct digest digest;
    _Atomic int state; /* enum engine_item_state */
};

struct engine_data {
    struct engine_item *items;
    size_t count;
};

struct bytes engine_item_view(const struct engine_item *item);
/* Marks the item as used, so that it will be checked. Returns false if the item is damaged. Call
 * this function before each use of the item. */
bool engine_item_use(struct engine_item *item);
bool engine_item_is_damaged(const struct engine_item *item);

struct engine_item_check {
    struct engine_item *item;
    struct sha256 sum;
    size_t at;
};
/* Starts the check of an item that was used but is not checked yet. Returns false if there is no
 * such item. |data| may be NULL. */
bool engine_item_check_begin(const struct engine_data *data, struct engine_item_check *ret_check);
/* Returns true when the check is finished. */
bool engine_item_check_step(struct engine_item_check *check);
/* Checks a whole item that could not be opened. Returns false if its bytes are damaged; the item is
 * then not used again. Returns true if the bytes are undamaged: the item was then already invalid
 * when it was built in. */
bool engine_item_is_as_built(struct engine_item *item);
