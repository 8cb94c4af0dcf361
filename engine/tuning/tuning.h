/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The tuning databases of a host: look-up by precedence, and all changes.
 *
 * A record describes one problem on one kind of device, and has an entry for each solver that was
 * measured. Records belong to a tier: the user tier has one user's measurements, the host tier
 * those that all users share, and the system tier databases imported from MIOpen's files.
 *
 * Role       searches the user tier first, then host, then system
 * Ownership  an answer is borrowed until the next look-up or tuning_job_take
 * Threading  tuning_find and listing functions: the engine's thread. A change is written on the
 *            tuning work queue (tuning_job_work), then the engine's thread copies it into memory
 *            (tuning_job_take), so a look-up never waits for the disk. Only one step runs at a time
 */
#include "common/protocol/problem.h"
#include "engine/data/engine_data.h"
#include "engine/miopen/names/tuning_file_name.h"
#include "engine/miopen/tuning_file.h"
#include "engine/tuning/tuning_index.h"
#include "engine/tuning/tuning_table.h"

struct tuning;

/* Stale entries were measured with another driver or toolchain than the client's. Look-ups mark
 * stale entries. WARN also counts them; IGNORE leaves them out. */
enum tuning_stale { TUNING_TRUST, TUNING_WARN, TUNING_IGNORE };

struct tuning_options {
    const char *directory;          /* NULL: records stay in memory, and only puts are
                                     * possible */
    const struct engine_data *data; /* may be NULL; an imported database replaces a built-in
                                     * one, until it is removed */
    /* Ignore the user tier (and refuse new records), ignore the system tier. */
    bool without_user, without_system;
    uint64_t records_per_uid, bytes_per_uid; /* limits for each user (tuning_db.h); 0: no limit */
    enum tuning_stale stale;
    bool allow_network_fs;
    /* Called on the engine's thread after look-ups see changed records of this tier, and in the
     * user tier of this owner. May be NULL. */
    void (*changed)(void *context, enum tuning_tier tier, uint32_t owner);
    void *context;
};
KILN_MUST_CHECK enum kiln_code tuning_open(const struct tuning_options *options,
                                           struct tuning **ret_tuning, char ret_notice[512],
                                           struct kiln_err *err);
/* Ignores the directory of |options|. Jobs in progress may finish under their old limits. */
void tuning_set_limits(struct tuning *tuning, const struct tuning_options *options);
void tuning_destroy(struct tuning *tuning);
KILN_DEFINE_AUTO(tuning)

struct tuning_question {
    enum tuning_kind kind;
    const char *database_id,
        *backend; /* for find, an empty backend means the backend of the device */
    uint32_t uid;
    const struct problem *problem;
    struct bytes key;
    const char *driver, *toolchain; /* the client's; "": unknown, which makes no entry stale */
    bool nearest;                   /* on a miss, search the problem's families (family.h) */
};

struct tuning_answer {
    enum tuning_tier tier;
    /* The record's database id. Its number of compute units may differ from the question's. */
    const char *database_id;
    struct bytes key;              /* of the record; if |is_near|, not the key of the question */
    struct bytes value;            /* text of the record; for perf, the entries of the user's, the
                                    * host's and the system's record */
    const struct tuning_row *rows; /* one for each entry, except entries of the system tier,
                                    * which come last */
    size_t row_count;
    bool is_stale;
    bool is_near;
    double batch_ratio;   /* the larger batch size divided by the smaller */
    double spatial_ratio; /* the larger area of the input (in 3-D, volume) divided by the smaller */
};
/* A text that is unknown ("" or NULL) on either side does not make the measurement stale. */
bool tuning_is_stale(const struct tuning_origin *origin, const char *driver, const char *toolchain);
KILN_MUST_CHECK enum kiln_code tuning_find(struct tuning *tuning,
                                           const struct tuning_question *question,
                                           struct tuning_answer *ret_answer, struct kiln_err *err);

/* |question| must not set |nearest|. Leaves the statistics unchanged. Returns false on a miss. */
bool tuning_find_tier(struct tuning *tuning, const struct tuning_question *question,
                      enum tuning_tier tier, struct tuning_answer *ret_answer);

/*
 * A change. It is created on the engine's thread, executed on the tuning work queue, then taken
 * over (tuning_job_take) and destroyed on the engine's thread. A change whose work succeeded stays
 * on the disk, and look-ups see the whole change. Any other change has no effect.
 */
struct tuning_job;

struct tuning_counts {
    uint64_t records, entries;
    uint64_t added, replaced, removed;
    uint64_t bad;
    uint64_t verbatim; /* records whose key kiln cannot parse as a problem */
    uint64_t conflicts;
    uint64_t held; /* entries that were not promoted, because only one user has them */
    uint64_t bytes;
    uint64_t before; /* how many records the replaced system database had */
};

struct tuning_promoter {
    uint32_t uid;
    uint64_t entries, promoted;
    /* Number of plans (solver and parameters) of other users that the examined entries change or
     * would change. */
    uint64_t changes;
};

struct tuning_plan_change { /* borrowed for the call */
    uint32_t uid;
    const struct tuning_place *place; /* of the host's record */
    struct bytes solver;
    struct bytes from, to;
    bool is_held; /* the entry was not promoted, because no other user has measured it */
};

struct tuning_job_events { /* called on the work queue; any may be NULL */
    void (*bad)(void *context, uint64_t line, const char *why);
    /* Reports a record that is stored verbatim, because kiln cannot parse its key as a problem. */
    void (*verbatim)(void *context, uint64_t line, struct bytes key, const char *why);
    void (*conflict)(void *context, const struct tuning_place *place, const char *why);
    void (*plan_change)(void *context, const struct tuning_plan_change *change);
    void (*promoter)(void *context, const struct tuning_promoter *user);
    void (*progress)(void *context, const char *step, uint64_t done, uint64_t total);
    void *context;
};

struct tuning_key {
    enum tuning_kind kind;
    struct bytes key;
};

struct tuning_selection { /* records of the host and user tiers; a member that is NULL, empty or
                           * NONE selects any */
    enum tuning_tier tier;
    /* With |by_uid|, only this user's records of the user tier are selected. A removal with
     * |by_uid| and tier NONE removes no records of the host tier. */
    uint32_t uid;
    bool by_uid;
    bool by_kind;
    enum tuning_kind kind;
    const char *database_id, *backend;
    const char *solver;
    struct bytes key;
    const struct tuning_key *keys; /* |key_count| keys; 0: any key */
    size_t key_count;
    /* Selects entries measured before this time; 0: all entries, even if their time is unknown. */
    uint64_t older_than;
    /* Selects entries whose library begins with this, such as TUNING_FLEET_ORIGIN
     * (tuning_share.h). */
    const char *origin;
};

struct tuning_import {
    const char *path; /* an unpacked copy that only kilnd can access */
    const char *source_name;
    struct tuning_file_name name;
    enum tuning_tier tier; /* an import to the system tier replaces the existing index */
    uint32_t uid;          /* the user who imports; in the user tier, also the owner */
    bool strict;
    const char *library;
};
KILN_MUST_CHECK enum kiln_code tuning_job_import(struct tuning *tuning,
                                                 const struct tuning_import *import,
                                                 struct tuning_job **ret_job, struct kiln_err *err);
#define TUNING_FIGURE_MAX 1e9
/* Stores measured entries of one record; entries of other solvers stay. If the same solver was
 * measured before on the same device, driver and toolchain, the two are merged
 * (engine/tuning/merge.h); otherwise the old entry is replaced. |rows| are not trusted: the
 * message of KILN_INVALID names what cannot be stored. */
KILN_MUST_CHECK enum kiln_code tuning_job_put(struct tuning *tuning, const struct tuning_row *rows,
                                              size_t count, struct tuning_job **ret_job,
                                              struct kiln_err *err);
/* Makes a put idempotent. If the same user's put with this token was stored before, the job has no
 * effect and counts no records. */
void tuning_job_once(struct tuning_job *job, const struct tuning_put_token *token);
struct tuning_promotion {
    bool needs_two;  /* promote an entry only if a second user has about the same time and, for
                      * perf, the same parameters */
    uint32_t caller; /* entries of this user need no second user */
    bool is_dry_run;
};
/* Merges the selected records into the host's, in the order in which they were stored. */
KILN_MUST_CHECK enum kiln_code tuning_job_promote(struct tuning *tuning,
                                                  const struct tuning_selection *selection,
                                                  const struct tuning_promotion *promotion,
                                                  struct tuning_job **ret_job,
                                                  struct kiln_err *err);
/* Restores the host's records that the last promotion changed. Records that were changed after the
 * promotion stay as they are and are reported as conflicts. The work fails with KILN_NOT_FOUND if
 * no promotion is stored. */
KILN_MUST_CHECK enum kiln_code tuning_job_undo_promotion(struct tuning *tuning,
                                                         struct tuning_job **ret_job,
                                                         struct kiln_err *err);
struct record_list;
/* Replaces the fleet's entries in the host's records of a device by those of |records|, of which
 * several may have the same place. First merges |records| (engine/tuning/merge.h), in their order.
 * The host's own entries stay, and the fleet's entries of the same solvers are left out. Leaves out
 * entries that a put would refuse, and counts them as bad. Takes the content of |records|, also on
 * failure. */
KILN_MUST_CHECK enum kiln_code tuning_job_restate(struct tuning *tuning, const char *database_id,
                                                  struct record_list *records,
                                                  struct tuning_job **ret_job,
                                                  struct kiln_err *err);
/* Lets the job of tuning_job_restate keep the fleet's old entries for which |keeps| returns true,
 * if their record is not in |records|. */
typedef bool tuning_keep(const void *context, const struct tuning_row *row);
void tuning_job_restate_keep(struct tuning_job *job, tuning_keep *keeps, const void *context);
KILN_MUST_CHECK enum kiln_code tuning_job_remove(struct tuning *tuning,
                                                 const struct tuning_selection *selection,
                                                 struct tuning_job **ret_job, struct kiln_err *err);
/* Merges a file into the records of the host or of a user (engine/tuning/merge.h). */
KILN_MUST_CHECK enum kiln_code tuning_job_merge(struct tuning *tuning,
                                                const struct tuning_import *import,
                                                struct tuning_job **ret_job, struct kiln_err *err);
/* Removes the system database with the kind, database id and backend of |database|. */
KILN_MUST_CHECK enum kiln_code tuning_job_remove_system(struct tuning *tuning,
                                                        const struct tuning_selection *database,
                                                        struct tuning_job **ret_job,
                                                        struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_job_vacuum(struct tuning *tuning, struct tuning_job **ret_job,
                                                 struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_job_backup(struct tuning *tuning, const char *path,
                                                 struct tuning_job **ret_job, struct kiln_err *err);
void tuning_job_destroy(struct tuning_job *job);
KILN_DEFINE_AUTO(tuning_job)
/* Executes a step on the work queue. Imports, merges and removals have steps of about 10 ms;
 * other jobs have one step. When the function returns, the step's changes are on disk completely
 * or not at all. An import stores nothing until its whole file was read. */
KILN_MUST_CHECK enum kiln_code tuning_job_work(struct tuning_job *job,
                                               const struct tuning_job_events *events,
                                               struct kiln_err *err);
/* Makes the changes of a step visible to look-ups, some hundred records in each call. After a
 * successful step, call this function on the engine's thread until it returns true. Until then,
 * no job may execute a step. If memory runs out, the next call tries again, at most ten times
 * for a job. */
bool tuning_job_take(struct tuning *tuning, struct tuning_job *job);
bool tuning_job_has_more(const struct tuning_job *job);
/* Frees what the step replaced, such as a large index. Call this function on the work queue
 * after tuning_job_take. */
void tuning_job_clear(struct tuning_job *job);
/* Frees what the further steps of an abandoned job would need. Call this function on the work
 * queue. */
void tuning_job_give_up(struct tuning_job *job);
const struct tuning_counts *tuning_job_counts(const struct tuning_job *job);
/* Returns the bytes of memory that an import, a merge or a removal holds between two steps; 0 for
 * other jobs. */
uint64_t tuning_job_bytes(const struct tuning_job *job);

struct tuning_walk { /* records of the user and host tiers, in no particular order */
    const struct tuning_selection *selection; /* borrowed; the caller sets these three members */
    bool (*each)(void *context, const struct tuning_held *held);
    void *context;
    size_t cursor;
    bool is_over;
};
/* Duration of one step of a long change or query. Another user's put may have to wait for one such
 * step, and then for its own commit. */
#define TUNING_STEP_NS 10000000u
/* Runs until |end_ns|. A record that stays until the end of the walk is visited once. */
void tuning_walk_step(const struct tuning *tuning, struct tuning_walk *walk, uint64_t end_ns);
/* Calls |each| for records with |after|'s tier, user, kind and device and a greater key, in the
 * order of their keys, until |each| returns false. Runs on the tuning work queue. */
KILN_MUST_CHECK enum kiln_code tuning_each_after(struct tuning *tuning,
                                                 const struct tuning_place *after,
                                                 bool (*each)(void *context,
                                                              const struct tuning_held *held),
                                                 void *context, struct kiln_err *err);
struct tuning_system {
    const struct tuning_system_file *file;
    const struct tuning_index *index; /* NULL: damaged or missing, as |why| says */
    const char *why;
};
void tuning_each_system(const struct tuning *tuning,
                        bool (*each)(void *context, const struct tuning_system *system),
                        void *context);
/* Looks in all tiers, in the order user, host, system, and returns the number of answers. */
unsigned tuning_find_all(struct tuning *tuning, const struct tuning_question *question,
                         struct tuning_answer ret_answers[3]);

struct tuning_stats {
    uint64_t system_records, host_records, user_records;
    uint64_t hits[3]; /* by tier: system, host, user */
    uint64_t misses, near, stale;
    uint64_t ignored;  /* look-ups that left out stale entries (TUNING_IGNORE) */
    uint64_t damaged;  /* records that failed their check, and indices that could not be opened */
    uint64_t left_out; /* records on disk that are missing in memory, because memory ran out */
    uint64_t memory_bytes, disk_bytes, mapped_bytes;
};
struct tuning_stats tuning_stats_of(const struct tuning *tuning);
uint64_t tuning_count_of(const struct tuning *tuning, uint32_t uid);
/* Runs SQLite's integrity check, and checks the checksums and the number of the records. Call this
 * function on the tuning work queue. The message of KILN_CORRUPT says what is wrong. */
KILN_MUST_CHECK enum kiln_code tuning_check_db(struct tuning *tuning, struct kiln_err *err);

struct tuning_export {
    struct tuning_file_name name;
    enum tuning_tier tier;
    uint32_t uid;
    bool merged; /* combine the tier with lower tiers, as a look-up does */
    bool converts;
    enum find_dialect dialect; /* the old dialect keeps only the fastest solver of each algorithm */
    /* Called about once for each megabyte. If it returns an error, the export fails with this
     * error. May be NULL. */
    enum kiln_code (*reserve_space)(void *context, uint64_t bytes, struct kiln_err *err);
    void *context;
};
/* Writes records into a file, in steps. Each step writes the records that exist at that time.
 * |path| must not exist. */
struct tuning_exporter;
KILN_MUST_CHECK enum kiln_code tuning_exporter_create(struct tuning *tuning,
                                                      const struct tuning_export *what,
                                                      const char *path,
                                                      struct tuning_exporter **ret_exporter,
                                                      struct kiln_err *err);
/* Writes at least one record, then more until |end_ns|. Runs on a work queue, but not at the same
 * time as tuning_job_take. |ret_more|: another step is needed. */
KILN_MUST_CHECK enum kiln_code tuning_exporter_step(struct tuning_exporter *exporter,
                                                    uint64_t end_ns, bool *ret_more,
                                                    struct kiln_err *err);
/* Must follow the last step. Returns KILN_NOT_FOUND if there is nothing to write. A system
 * database that is exported unchanged has the same bytes as its source. */
KILN_MUST_CHECK enum kiln_code tuning_exporter_finish(struct tuning_exporter *exporter,
                                                      struct tuning_counts *ret_counts,
                                                      struct kiln_err *err);
void tuning_exporter_destroy(struct tuning_exporter *exporter);
KILN_DEFINE_AUTO(tuning_exporter)
