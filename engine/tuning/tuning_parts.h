/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the files of the facade share.  Not for other directories.
 *
 *   tuning.c           opening, the list of system databases, numbers
 *   tuning_find.c      look-up by precedence, neighbours
 *   tuning_job_make.c  changes: made, given up
 *   tuning_job.c       worked off, taken over
 *   tuning_blend.c     measurements of one record put together
 *   tuning_import.c    what a job reads from MIOpen's files
 *   tuning_export.c    MIOpen's files out
 */
#include "engine/miopen/problem_key.h"
#include "engine/tuning/family.h"
#include "engine/tuning/tuning.h"

#define SYSTEMS_MAX 512u /* imported system databases */

struct system_slot {
    struct tuning_system_file file; /* its texts are owned */
    struct database_id id;          /* |device| is "" where the database id is none of MIOpen's */
    struct tuning_index *index;     /* owned; NULL: damaged or gone */
    struct engine_item *item;       /* borrowed: it is built into the program; else NULL */
    char why[320];
};

struct scratch {               /* of one thread's look-ups */
    char key[PROBLEM_KEY_MAX]; /* of the question */
    struct buffer fresh;       /* a value without its stale entries */
    struct tuning_row *kept;   /* owned; those entries */
    size_t kept_max;
    struct buffer joined;           /* a value put together from several tiers */
    struct tuning_row *joined_rows; /* owned; of its entries, but for the system's at its end */
    size_t joined_count, joined_max;
    enum tuning_stale stale;
    bool left_some_out; /* in the look-up at hand: entries that are stale */
    uint64_t hits[3], misses, near, stale_hits, ignored;
};
void scratch_init(struct scratch *scratch, enum tuning_stale stale);
void scratch_done(struct scratch *scratch);

struct tuning {
    char *directory;      /* owned; NULL: nothing is on the disk */
    struct tuning_db *db; /* with |directory| */
    bool without_user, without_system;
    struct tuning_table *table;
    struct system_slot *systems[SYSTEMS_MAX]; /* owned */
    unsigned system_count;
    struct scratch scratch; /* the engine's thread's */
    uint64_t left_out;      /* records that memory had no room for */
    bool has_job;           /* one is on its way */
    /* These may change at any time: tuning_set_limits. */
    _Atomic uint64_t records_per_uid, bytes_per_uid; /* 0: no limit */
    _Atomic enum tuning_stale stale;                 /* for scratches to come */
};

/* As tuning_find; on the tuning lane, while no job is taken over, with a scratch of its own. */
KILN_MUST_CHECK enum kiln_code find_with(struct tuning *t, struct scratch *scratch,
                                         const struct tuning_question *question,
                                         struct tuning_answer *ret_answer, struct kiln_err *err);
/* Also where the index's file is damaged or gone. */
enum kiln_code system_slot_open(struct tuning *t, const struct tuning_system_file *file,
                                struct system_slot **ret_slot, struct kiln_err *err);
/* False where it must not be used: its file is damaged or gone, or what is built in is damaged. */
bool system_slot_is_usable(const struct system_slot *slot);
void system_slot_destroy(struct system_slot *slot);
KILN_DEFINE_AUTO(system_slot)
/* That of the database id; else, by MIOpen's rule, of the same arch with the nearest compute units;
 * else NULL. */
struct system_slot *system_slot_for(struct tuning *t, enum tuning_kind kind,
                                    const char *database_id, const char *backend);
/* Exactly this one, or NULL. */
struct system_slot *system_slot_find(const struct tuning *t, enum tuning_kind kind,
                                     const char *database_id, const char *backend);
/* Where a find names none, the device's own: common/device_database_id.h. */
const char *tuning_backend(enum tuning_kind kind, const char *database_id, const char *backend);
bool tuning_is_selected(const struct tuning_selection *selection, const struct tuning_held *held);
/* By solver and age; the rest is its record's. */
bool tuning_row_is_selected(const struct tuning_selection *selection, const struct tuning_row *row);
/* The entry of its id and values, which it borrows; false where they are none. */
bool tuning_row_entry(const struct tuning_row *row, struct tuning_entry *ret_entry);
