/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An access to the fleet's tree, which contains the files that the hosts of a fleet share. An
 * access reads a file or a range of it, adds a file, or lists the files in a directory.
 *
 * Role       The engine decides which files it needs. Another process (kiln-transfer --fleet)
 *            accesses the files, because kilnd has no network access
 * Ownership  the engine owns each access, and must keep it until |done| is called. The engine also
 *            owns the |fd| of an access that adds a file, and any |fd| after |done|
 * Threading  the engine's thread; no callback runs before the function that starts the access has
 *            returned
 */
#include "common/base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define FLEET_FILE_NAME_MAX 128
/* Maximum duration of an access, even if nobody waits for it any longer. */
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
    /* True: the access adds a file with the content of |fd|, a memory file. If the tree already has
     * a file of this name, that file does not change, and |end| is FLEET_END_EXISTS. */
    bool is_put;
    /* True: the access reads the list of the files in the directory |name|. The file |fd| then has
     * a line for each of them, which begins with its name (engine/transfer/fleet_wire.h). */
    bool is_list;
    bool is_partial;       /* after |done|: the list lacks some files */
    uint64_t offset, size; /* for reading: a range; if |size| is 0, the whole file */
    uint64_t size_max;     /* for reading: the largest size of a whole file */
    uint64_t budget_ms;    /* |slow| is called after this time; 0: never */
    /* Called once, before |done|, if the access takes longer than |budget_ms|. May be NULL. */
    void (*slow)(struct fleet_access *access);
    void (*done)(struct fleet_access *access);
    bool is_slow;
    uint64_t sent_ns; /* when fleet_access_start was called */
    enum fleet_end end;
    /* With FLEET_END_BUSY: how long the store wants to be left alone. 0: unknown. */
    uint64_t wait_s;
    int fd; /* after reading: a memory file with the content; -1 unless |end| is FLEET_END_DONE */
    struct list_link link;
    uint64_t id, began_ms; /* private to the executor, like |link| */
};
