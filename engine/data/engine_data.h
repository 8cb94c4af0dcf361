/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Data that is built into the program: tuning databases and packages, used in place.
 *
 * Role       names each item after the file from which it was built, and detects damage to its
 *            bytes.  A look-up uses an item without checking all of it, because each record and
 *            each kernel in it has its own check.  After its first use, the whole item is compared
 *            with its digest, once per process and in small steps.  An item that fails this check
 *            is not used again
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
    const char *name; /* name of MIOpen's file or of the package, such as "gfx906_60.HIP.fdb.txt" */
    const unsigned char *bytes; /* embedded by kiln_embed() */
    const unsigned long *size;
    struct digest digest; /* SHA-256 of |bytes| */
    _Atomic int state;    /* enum engine_item_state */
};

struct engine_data {
    struct engine_item *items;
    size_t count;
};

struct bytes engine_item_view(const struct engine_item *item);
/* Marks the item as used; call it before each use.  Returns false if the item is damaged. */
bool engine_item_use(struct engine_item *item);
bool engine_item_is_damaged(const struct engine_item *item);

struct engine_item_check { /* a check in progress */
    struct engine_item *item;
    struct sha256 sum;
    size_t at;
};
/* Starts the check of the first item that was used but not checked.  Returns false if there is no
 * such item.  |data| may be NULL. */
bool engine_item_check_begin(const struct engine_data *data, struct engine_item_check *ret_check);
/* Runs the check for a fraction of a millisecond.  Returns true when it is finished; the item's
 * state then tells the result. */
bool engine_item_check_step(struct engine_item_check *check);
/* Runs the whole check at once, for an item that could not be opened.  Returns true if the bytes
 * are unchanged since the build; then the item was invalid from the beginning.  Returns false if
 * the bytes are damaged; the item is then not used again. */
bool engine_item_is_as_built(struct engine_item *item);
