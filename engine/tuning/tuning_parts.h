/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations that the files of tuning.h share; private to this directory.
 *
 *   tuning.c           opening, the list of system databases, statistics
 *   tuning_find.c      look-up by precedence, and in a problem's families
 *   tuning_job_make.c  creating and destroying changes
 *   tuning_job.c       executing changes and taking them over
 *   tuning_blend.c     combining the measurements of one record
 *
 * Ownership  struct tuning owns databases, tables and slots
 * Threading  as in tuning.h
 */
#include "engine/miopen/problem_key.h"
#include "engine/tuning/family.h"
#include "engine/tuning/tuning.h"

#define SYSTEMS_MAX 512u

struct system_slot {
    struct tuning_system_file file; /* texts are owned */
    struct database_id id;          /* |device| is "" if the database id is not in MIOpen's form */
    struct tuning_index *index;
    struct engine_item *item; /* borrowed; built-in data; NULL: the database was imported */
    char why[320];
};

struct scratch {
    char key[PROBLEM_KEY_MAX];
    struct buffer fresh;     /* a value without its stale entries */
    struct tuning_row *kept; /* owned; the entries of |fresh| */
    size_t kept_max;
    struct buffer joined; /* a value joined from several tiers */
    /* Owned; a row for each entry of |joined| that comes from the user or host tier. */
    struct tuning_row *joined_rows;
    size_t joined_count, joined_max;
    enum tuning_stale stale;
    bool left_some_out; /* the current look-up left out stale entries */
    uint64_t hits[3], misses, near, stale_hits, ignored;
};
void scratch_init(struct scratch *scratch, enum tuning_stale stale);
void scratch_done(struct scratch *scratch);

struct tuning {
    char *directory;      /* owned; NULL: nothing is stored on disk */
    struct tuning_db *db; /* NULL without |directory| */
    bool without_user, without_system;
    struct tuning_table *table;
    struct system_slot *systems[SYSTEMS_MAX];
    unsigned system_count;
    struct scratch scratch;
    uint64_t left_out; /* records that look-ups do not find because memory ran out */
    bool has_job;
    void (*changed)(void *context, enum tuning_tier tier, uint32_t owner); /* may be NULL */
    void *context;
    /* tuning_set_limits changes the members from here on, on any thread. */
    _Atomic uint64_t records_per_uid, bytes_per_uid; /* 0: no limit */
    _Atomic enum tuning_stale stale;
};

/* Like tuning_find, but with the caller's scratch memory, so it may also run on the tuning work
 * queue. There, it must not run at the same time as tuning_job_take. */
KILN_MUST_CHECK enum kiln_code find_with(struct tuning *t, struct scratch *scratch,
                                         const struct tuning_question *question,
                                         struct tuning_answer *ret_answer, struct kiln_err *err);
/* Succeeds even if the index is damaged or missing; the slot then has no index. */
enum kiln_code system_slot_open(struct tuning *t, const struct tuning_system_file *file,
                                struct system_slot **ret_slot, struct kiln_err *err);
/* Returns false if the index or its built-in data is damaged or missing. */
bool system_slot_is_usable(const struct system_slot *slot);
void system_slot_destroy(struct system_slot *slot);
KILN_DEFINE_AUTO(system_slot)
/* Returns the system database with this id. If there is none, returns the one of the same arch with
 * the nearest number of compute units (MIOpen's rule), or NULL. */
struct system_slot *system_slot_for(struct tuning *t, enum tuning_kind kind,
                                    const char *database_id, const char *backend);
/* Returns the imported database with this id or, if there is none, the built-in one. */
struct system_slot *system_slot_find(const struct tuning *t, enum tuning_kind kind,
                                     const char *database_id, const char *backend);
struct system_slot *system_slot_find_imported(const struct tuning *t, enum tuning_kind kind,
                                              const char *database_id, const char *backend);
/* Returns the backend of a record's place. For find, replaces an empty |backend| by that of the
 * device (common/miopen/device_database_id.h). For perf, only TUNING_BATCHNORM is not "". */
const char *tuning_backend(enum tuning_kind kind, const char *database_id, const char *backend);
bool tuning_is_selected(const struct tuning_selection *selection, const struct tuning_held *held);
/* Checks only the solver and the age of the entry; tuning_is_selected checks everything else. */
bool tuning_row_is_selected(const struct tuning_selection *selection, const struct tuning_row *row);
/* The entry borrows from the row. Returns false if the row is malformed. */
bool tuning_row_entry(const struct tuning_row *row, struct tuning_entry *ret_entry);
