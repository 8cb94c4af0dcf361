/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The members of struct tuning_job (engine/tuning/tuning.h); private to this directory.
 *
 * Ownership  a job owns its records and files, and borrows the databases
 * Threading  the tuning work queue while the job works, otherwise the engine's thread
 */
#include "engine/tuning/merge.h"
#include "engine/tuning/record.h"
#include "engine/tuning/tuning_parts.h"

enum job_type {
    JOB_IMPORT,
    JOB_MERGE,
    JOB_PUT,
    JOB_PROMOTE,
    JOB_RESTATE,
    JOB_UNDO_PROMOTION,
    JOB_REMOVE,
    JOB_REMOVE_SYSTEM,
    JOB_VACUUM,
    JOB_BACKUP,
};

struct tuning_job {
    struct tuning *tuning;
    enum job_type type;
    struct tuning_import import;       /* texts are owned */
    struct tuning_selection selection; /* texts and keys are owned */
    struct tuning_walk walk;
    struct tuning_promotion promotion;
    char *path;               /* owned; of the backup */
    struct record_list given; /* records to store; for a removal, the records to remove, without
                               * rows */
    size_t applied;
    struct tuning_reading *reading;
    bool is_worked_out;
    struct tuning_put_token token;
    bool is_once;
    struct record_list changes; /* of this step; they are in tuning.db if the step succeeded */
    size_t written;             /* how many of |changes| are in the transaction */
    /* Owned; finds a record that the job has already changed, by its place. NULL for JOB_PUT, and
     * until the first change. */
    struct tuning_table *pending;
    /* Used by JOB_RESTATE; both owned: the fleet's records before and after they are merged. */
    struct record_list statements;
    struct tuning_table *merged;
    size_t stated;      /* how many of |statements| are in |merged| */
    size_t merged_next; /* cursor in |merged| */
    bool is_listed;     /* all of |merged| is in |given| */
    tuning_keep *keeps; /* NULL: keeps no old entry of the fleet */
    const void *keeps_context;
    bool is_on_disk;
    bool needs_checkpoint;
    size_t taken; /* how many of |changes| are already in tuning_table */
    unsigned retries;
    struct system_slot *slot; /* owned: the imported system database */
    struct system_slot *old;  /* owned; the system database that was replaced or removed */
    char *new_index;          /* owned; a file that tuning.db does not list yet */
    struct tuning_counts counts;
    const struct tuning_job_events *events; /* borrowed during work */
};

/* Reads part of the file: for the system tier into |job->slot|, otherwise into |job->given|. */
KILN_MUST_CHECK enum kiln_code job_read(struct tuning_job *job, uint64_t end_ns, bool *ret_more,
                                        struct kiln_err *err);
void job_reading_destroy(struct tuning_reading *reading);
uint64_t job_reading_bytes(const struct tuning_reading *reading);

/* Both functions add the host's changed records to |job->changes|. */
KILN_MUST_CHECK enum kiln_code job_promote(struct tuning_job *job, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code job_undo_promotion(struct tuning_job *job, struct kiln_err *err);

/* Merges |from| into job->merged. */
KILN_MUST_CHECK enum kiln_code job_merge_statement(struct tuning_job *job,
                                                   const struct record *from, struct kiln_err *err);
/* Adds the host's record at |place| to |job->changes|, unless it stays as it is: the entries of its
 * own, and |count| entries of the fleet. */
KILN_MUST_CHECK enum kiln_code job_restate_record(struct tuning_job *job,
                                                  const struct tuning_place *place,
                                                  const struct tuning_row *fleet, size_t count,
                                                  struct kiln_err *err);
/* Returns KILN_INVALID if a put would refuse the entry. */
KILN_MUST_CHECK enum kiln_code job_check_row(const struct tuning_place *place,
                                             const struct tuning_row *row, struct kiln_err *err);
/* Limits the number of samples, because a measurement with a huge number would win over all
 * others. */
void job_cap_samples(struct record *record);
/* Adds to |job->given| the records that the fleet changes. */
KILN_MUST_CHECK enum kiln_code job_list_restated(struct tuning_job *job, uint64_t end_ns,
                                                 bool *ret_more, struct kiln_err *err);
/* Merges |from|'s entries into the record (engine/tuning/merge.h). An import replaces the
 * record, but keeps measurements of other solvers. If the record would be too long, a put fails
 * with KILN_FULL; other jobs leave entries out and report a conflict. */
KILN_MUST_CHECK enum kiln_code job_merge_record(struct tuning_job *job,
                                                const struct tuning_place *place,
                                                const struct tuning_row *from, size_t count,
                                                struct kiln_err *err);
void job_remove_index(const struct tuning *t, const char *name);
enum kiln_code job_no_memory(struct kiln_err *err);
void job_progress(const struct tuning_job *job, const char *step, uint64_t done, uint64_t total);
