/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads a file of the fleet's tree, or a range of one, or adds a file.
 *
 * Role       The engine knows the tree's files. Another process (kiln-transfer --fleet) accesses
 *            them, because kilnd has no network
 * Ownership  the engine owns an access until |done|; then it owns |fd|
 * Threading  the engine's thread; neither callback runs within the call that passes the access
 */
#include "common/base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define FLEET_FILE_NAME_MAX 128
/* An access is ended after this time, whether or not anybody still waits for it. */
#define FLEET_ACCESS_MAX_MS 30000u

enum fleet_end {
#define FLEET_END(name, label, text) FLEET_END_##name,
#include "engine/fleet/fleet_ends.def"
#undef FLEET_END
    FLEET_ENDS
};
const char *fleet_end_label(enum fleet_end end); /* for metrics, such as "timed-out" */
const char *fleet_end_text(enum fleet_end end);

struct fleet_access {
    char name[FLEET_FILE_NAME_MAX]; /* of the file, relative to the root of the tree */
    /* Adds |fd|, a memory file, as the file. FLEET_END_EXISTS means that the tree had the file
     * before, and that it has not changed. The members up to |slow| are for reading only. */
    bool is_put;
    uint64_t offset, size; /* a range; if |size| is 0, the whole file */
    uint64_t size_max;     /* of a whole file */
    uint64_t budget_ms;    /* until |slow|; 0: none */
    /* Called at most once, before |done|, if the answer has not come within the budget. May be
     * NULL. */
    void (*slow)(struct fleet_access *access);
    void (*done)(struct fleet_access *access);
    bool is_slow; /* the budget was used up before the answer came */
    enum fleet_end end;
    int fd; /* after reading: a memory file with the content; -1 unless |end| is FLEET_END_DONE */
    struct list_link link;
    uint64_t id, began_ms; /* private to the executor, like |link| */
};
