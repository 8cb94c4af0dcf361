/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Getting a file, or a range of one, from the fleet's tree.
 *
 * Role       The engine knows the tree's files. Another process (kiln-transfer --fleet) reads them,
 *            because kilnd has no network
 * Ownership  the engine owns a request until |done|; then it owns |fd|
 * Threading  the engine's thread; neither callback runs within the call that passes the request
 */
#include "common/base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define FLEET_GET_NAME_MAX 128
/* A request is ended after this time, whether or not anybody still waits for it. */
#define FLEET_GET_MAX_MS 30000u

enum fleet_get_end {
#define FLEET_GET_END(name, label, text) FLEET_GET_##name,
#include "engine/fleet/fleet_get_ends.def"
#undef FLEET_GET_END
    FLEET_GET_ENDS
};
const char *fleet_get_end_label(enum fleet_get_end end); /* for metrics, such as "timed-out" */
const char *fleet_get_end_text(enum fleet_get_end end);

struct fleet_get {
    char name[FLEET_GET_NAME_MAX]; /* of the file, relative to the root of the tree */
    uint64_t offset, size;         /* a range; if |size| is 0, the whole file */
    uint64_t size_max;             /* of a whole file */
    uint64_t budget_ms;            /* until |slow|; 0: none */
    /* Called at most once, before |done|, if the answer has not come within the budget. May be
     * NULL. */
    void (*slow)(struct fleet_get *get);
    void (*done)(struct fleet_get *get);
    bool is_slow; /* the budget was used up before the answer came */
    enum fleet_get_end end;
    int fd; /* a memory file with the content; -1 unless |end| is FLEET_GET_DONE */
    struct list_link link;
    uint64_t id, began_ms; /* private to the executor, like |link| */
};
