/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The inside of a change, shared by tuning_job.c, tuning_blend.c and tuning_import.c.  Not for
 * other directories.
 */
#include "engine/tuning/merge.h"
#include "engine/tuning/record.h"
#include "engine/tuning/tuning_parts.h"

enum job_type {
    JOB_IMPORT,
    JOB_MERGE,
    JOB_PUT,
    JOB_PROMOTE,
    JOB_REMOVE,
    JOB_REMOVE_SYSTEM,
    JOB_VACUUM,
    JOB_BACKUP,
    JOB_TYPES
};

struct tuning_job {
    struct tuning *tuning; /* borrowed */
    enum job_type type;
    struct tuning_import import;       /* its texts are owned */
    struct tuning_selection selection; /* so are these */
    enum tuning_kind kind;             /* of a system database to remove */
    char *path;                        /* owned; of the backup */
    struct record_list given;          /* of put: what was measured */
    struct tuning_put_token token;     /* of put, where |is_once| */
    bool is_once;
    struct record_list changes;   /* as they are to be; in tuning.db once work ended well */
    struct tuning_table *pending; /* owned; the same by place, where one may come twice */
    bool is_on_disk;              /* they are */
    size_t taken;                 /* of them, in the table */
    struct system_slot *slot;     /* owned: the imported system database */
    struct system_slot *old;      /* owned: the one it replaced, once taken */
    char *new_index;              /* owned; a file that nothing lists yet: removed with the job */
    struct tuning_counts counts;
    const struct tuning_job_events *events; /* borrowed during work */
};

/* Reads the file: of tier system into |job->slot|, else into |job->changes|. */
KILN_MUST_CHECK enum kiln_code job_read_system(struct tuning_job *job, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code job_read_records(struct tuning_job *job, struct kiln_err *err);

/* |from|'s entries into what is at |place|, by engine/tuning/merge.h, as a change.  With |replace|
 * the record becomes |from|, and keeps what was measured of other solvers.  KILN_FULL, of put
 * alone: the record would be too long; elsewhere what has no room is left out, and told as a
 * conflict. */
KILN_MUST_CHECK enum kiln_code job_merge_record(struct tuning_job *job,
                                                const struct tuning_place *place,
                                                const struct tuning_row *from, size_t count,
                                                bool replace, struct kiln_err *err);
void job_remove_index(const struct tuning *t, const char *name);
enum kiln_code job_no_memory(struct kiln_err *err);
void job_progress(const struct tuning_job *job, const char *step, uint64_t done, uint64_t total);
