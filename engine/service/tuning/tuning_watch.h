/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Counters by which clients learn, without a request, that tuning records have changed.
 *
 * Role       Keeps a memory file of one counter for each user whose clients asked for it. The
 *            counter changes whenever a record changes that the user's look-ups may find
 *            (docs/decisions/0024-a-plan-at-once.md). A client gets the file once, maps it, and
 *            can neither write to it nor shrink it
 * Ownership  the tuning service owns the files. A file is closed when the last connection that
 *            asked for it ends; mappings of clients stay valid
 * Threading  the engine's thread
 */
#include "engine/service/internal.h"
#include "engine/tuning/tuning_db.h"

/* Maximum number of files in all, and of one user, who can have many uids. Each file takes a
 * page and one of the 512 descriptors in kilnd's reserve (daemon/server/descriptors.c). */
#define TUNING_WATCHES_MAX 256u
#define TUNING_WATCHES_MAX_USER 16u

struct tuning_watch;

struct tuning_watches {
    struct list list; /* of struct tuning_watch */
    unsigned count;
};

void tuning_watches_init(struct tuning_watches *watches);
void tuning_watches_done(struct tuning_watches *watches);
/* Changes the counters of the users whose look-ups may find the records of this tier and owner. */
void tuning_watches_note(struct tuning_watches *watches, enum tuning_tier tier, uint32_t owner);
/* Changes all counters. */
void tuning_watches_note_all(struct tuning_watches *watches);
/* Releases the caller's file, if it has one. */
void tuning_watches_leave(struct engine *e, struct caller *caller);
