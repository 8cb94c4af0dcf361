/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The tuning databases of a host: look-up by precedence, and everything that changes them.
 *
 * Role       user, then host, then system; joins tuning.db, its records in memory and the mapped
 *            indices
 * Ownership  an answer borrows until the next look-up, and until a change is taken over
 * Threading  tuning_find and what lists: the engine's thread.  A change is prepared and written on
 *            the tuning lane (tuning_job_work), then taken over on the engine's thread
 *            (tuning_job_take), so a look-up never waits for the disk; one change at a time
 */
#include "common/problem.h"
#include "engine/data/engine_data.h"
#include "engine/miopen/tuning_file.h"
#include "engine/tuning/tuning_index.h"
#include "engine/tuning/tuning_table.h"

struct tuning;

/* What to do with entries that another driver or toolchain than the asker's made.  Answers mark
 * them in any case. */
enum tuning_stale { TUNING_TRUST, TUNING_WARN, TUNING_IGNORE };

struct tuning_options {
    const char *directory; /* the state directory; NULL: what is measured stays in memory, other
                              changes are KILN_UNSUPPORTED */
    const struct engine_data *data;    /* borrowed: its indices are system databases, where none was
                                          imported; may be NULL */
    bool without_user, without_system; /* no record of theirs counts; user: none is taken */
    uint64_t records_per_uid, bytes_per_uid; /* see tuning_db.h; 0: no limit; without a directory
                                                bytes of memory, all records together */
    enum tuning_stale stale; /* TRUST serves them, WARN counts them, IGNORE leaves them out */
    bool allow_network_fs;
};
KILN_MUST_CHECK enum kiln_code tuning_open(const struct tuning_options *options,
                                           struct tuning **ret_tuning, char ret_notice[512],
                                           struct kiln_err *err);
/* The limits of |options| and what becomes of stale records; the directory is not looked at.  Jobs
 * under way may end by what was in force when they began. */
void tuning_set_limits(struct tuning *tuning, const struct tuning_options *options);
void tuning_destroy(struct tuning *tuning);
KILN_DEFINE_AUTO(tuning)

/* ---- look-up ---- */

struct tuning_question {
    enum tuning_kind kind;
    const char *database_id, *backend; /* backend "": of find the device's own */
    uint32_t uid;                      /* whose user tier */
    const struct problem *problem;     /* or NULL: by key */
    struct bytes key;
    const char *driver, *toolchain; /* the asker's; "": nothing is stale */
    bool nearest;                   /* else by another batch size, then another spatial size */
};

struct tuning_answer {
    enum tuning_tier tier;
    const char *database_id; /* of the record: where no system database is for the asker's, MIOpen's
                              * rule gives that of the same arch with the nearest compute units */
    struct bytes key;        /* of the record; another than asked for where it is a neighbour */
    struct bytes value; /* common/tuning_text.h; of perf merged: user's entries, then host's, then
                           system's */
    const struct tuning_row *
        rows; /* measurements, one an entry in order; the system's entries, at the end, have none */
    size_t row_count;
    bool is_stale;
    bool is_near;
    double batch_ratio;   /* larger by smaller, 1 when equal */
    double spatial_ratio; /* of the areas (volumes) of the inputs, larger by smaller */
};
/* Whether another driver or toolchain than these made it; what either side does not know, "" or
 * NULL, tells nothing. */
bool tuning_is_stale(const struct tuning_origin *origin, const char *driver, const char *toolchain);
/* KILN_NOT_FOUND without a sentence on a miss. */
KILN_MUST_CHECK enum kiln_code tuning_find(struct tuning *tuning,
                                           const struct tuning_question *question,
                                           struct tuning_answer *ret_answer, struct kiln_err *err);

/* What one tier alone has, for a question without |nearest|; not counted.  False on a miss. */
bool tuning_find_tier(struct tuning *tuning, const struct tuning_question *question,
                      enum tuning_tier tier, struct tuning_answer *ret_answer);

/* ---- changes: one at a time ---- */

/* A change on its way: made on the engine's thread, worked off on the tuning lane, then taken over
 * on the engine's thread.  Destroyed (on that thread) before its work ended well, it never
 * happened; later, it is on the disk, and what was not taken over yet is. */
struct tuning_job;

struct tuning_counts {                 /* of what a job did */
    uint64_t records, entries;         /* read, or looked at */
    uint64_t added, replaced, removed; /* records */
    uint64_t bad;                      /* lines or rows that were none */
    uint64_t verbatim;                 /* records whose key is no problem of ours */
    uint64_t conflicts;
    uint64_t bytes;  /* of the source */
    uint64_t before; /* records of the system database that it replaced */
};

struct tuning_job_events { /* on the lane; any may be NULL */
    /* A line or row that is no record. */
    void (*bad)(void *context, uint64_t line, const char *why);
    /* A record whose key is no problem of ours, and why not: it is kept as it is. */
    void (*verbatim)(void *context, uint64_t line, struct bytes key, const char *why);
    void (*conflict)(void *context, const struct tuning_place *place, const char *why);
    void (*progress)(void *context, const char *step, uint64_t done, uint64_t total);
    void *context;
};

struct tuning_key { /* a problem's, in one kind of database */
    enum tuning_kind kind;
    struct bytes key;
};

struct tuning_selection { /* records of the host and user tiers; NULL, empty, NONE: any */
    enum tuning_tier tier;
    uint32_t uid; /* with by_uid: of the user tier none but his; removing: nothing but his */
    bool by_uid;
    bool by_kind;
    enum tuning_kind kind;
    const char *database_id, *backend;
    const char *solver; /* only entries with it */
    struct bytes key;
    const struct tuning_key *keys; /* of |key_count|; 0: any */
    size_t key_count;
    uint64_t older_than; /* only entries measured before, as far as it is known when; 0: any */
};

struct tuning_import {
    const char *path;             /* unpacked, private to us */
    const char *source_name;      /* what the user calls the file */
    struct tuning_file_name name; /* kind, format, database id, backend */
    enum tuning_tier tier; /* system: compiled into an index that replaces the one there was */
    uint32_t uid;          /* whose, of tier user; and who imported it */
    bool strict;           /* the first bad line fails it */
    const char *library;   /* what wrote it, as far as the name tells */
};
KILN_MUST_CHECK enum kiln_code tuning_job_import(struct tuning *tuning,
                                                 const struct tuning_import *import,
                                                 struct tuning_job **ret_job, struct kiln_err *err);
#define TUNING_FIGURE_MAX 1e9 /* ms: no measurement takes eleven days */
/* Entries of one record measured here; those of other solvers in it stay.  The same solver measured
 * before on the same device, driver and toolchain: by engine/tuning/merge.h; on others: replaced.
 * |rows| are hostile: KILN_INVALID names what cannot stand in a record. */
KILN_MUST_CHECK enum kiln_code tuning_job_put(struct tuning *tuning, const struct tuning_row *rows,
                                              size_t count, struct tuning_job **ret_job,
                                              struct kiln_err *err);
/* Of a put: where one of the same user and token was recorded lately, it does nothing, counts no
 * records and ends well. */
void tuning_job_once(struct tuning_job *job, const struct tuning_put_token *token);
/* User tier to host tier, merged by engine/tuning/merge.h, in the order in which they were stored;
 * the users' records stay. */
KILN_MUST_CHECK enum kiln_code tuning_job_promote(struct tuning *tuning,
                                                  const struct tuning_selection *selection,
                                                  struct tuning_job **ret_job,
                                                  struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_job_remove(struct tuning *tuning,
                                                 const struct tuning_selection *selection,
                                                 struct tuning_job **ret_job, struct kiln_err *err);
/* A file's records into the host's or a user's, merged by engine/tuning/merge.h. */
KILN_MUST_CHECK enum kiln_code tuning_job_merge(struct tuning *tuning,
                                                const struct tuning_import *import,
                                                struct tuning_job **ret_job, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_job_remove_system(
    struct tuning *tuning, enum tuning_kind kind, const char *database_id, const char *backend,
    struct tuning_job **ret_job, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_job_vacuum(struct tuning *tuning, struct tuning_job **ret_job,
                                                 struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_job_backup(struct tuning *tuning, const char *path,
                                                 struct tuning_job **ret_job, struct kiln_err *err);
void tuning_job_destroy(struct tuning_job *job);
KILN_DEFINE_AUTO(tuning_job)
/* On the lane: on the disk, whole or not at all. */
KILN_MUST_CHECK enum kiln_code tuning_job_work(struct tuning_job *job,
                                               const struct tuning_job_events *events,
                                               struct kiln_err *err);
/* On the engine's thread, after work that ended well, again and again until it returns true (each
 * time some thousand records): look-ups see it from then on. */
bool tuning_job_take(struct tuning *tuning, struct tuning_job *job);
/* On the lane, after that: gives back what was replaced, an index of many megabytes perhaps.
 * Destroying the job does it too, at once. */
void tuning_job_clear(struct tuning_job *job);
const struct tuning_counts *tuning_job_counts(const struct tuning_job *job);

/* ---- lists ---- */

/* Records of the user and host tiers, see tuning_table_each. */
void tuning_each(const struct tuning *tuning, const struct tuning_selection *selection,
                 bool (*each)(void *context, const struct tuning_held *held), void *context);
struct tuning_system { /* one imported or built-in system database */
    const struct tuning_system_file *file;
    const struct tuning_index *index; /* NULL: its file is damaged or gone, |why| says how */
    const char *why;
};
void tuning_each_system(const struct tuning *tuning,
                        bool (*each)(void *context, const struct tuning_system *system),
                        void *context);
/* Every tier that has something for the question, the most private first; at most three. */
unsigned tuning_find_all(struct tuning *tuning, const struct tuning_question *question,
                         struct tuning_answer ret_answers[3]);

struct tuning_stats {
    uint64_t system_records, host_records, user_records;
    uint64_t hits[3]; /* by tier: system, host, user */
    uint64_t misses, near, stale;
    uint64_t ignored;  /* look-ups that stale entries were left out of (TUNING_IGNORE) */
    uint64_t damaged;  /* records of indices that failed their check, and indices that could not be
                          opened */
    uint64_t left_out; /* records on the disk that memory had no room for */
    uint64_t memory_bytes, disk_bytes, mapped_bytes;
};
struct tuning_stats tuning_stats_of(const struct tuning *tuning);
uint64_t tuning_count_of(const struct tuning *tuning, uint32_t uid); /* user's records */
/* SQLite's own check of tuning.db, KILN_CORRUPT saying what is wrong.  On the tuning lane. */
KILN_MUST_CHECK enum kiln_code tuning_check_db(struct tuning *tuning, struct kiln_err *err);

/* ---- MIOpen's files out ---- */

struct tuning_export {
    struct tuning_file_name name; /* what to write: kind, format, database id, backend */
    enum tuning_tier tier;
    uint32_t uid;
    bool merged;   /* the tier and those below it, as a look-up joins them (for a system file of a
                      host) */
    bool converts; /* records in another dialect are written anew */
    enum find_dialect
        dialect; /* with |converts|; the old one keeps the fastest solver of an algorithm */
    /* Before the first record and each megabyte or so: anything but KILN_OK ends it.  May be NULL.
     */
    enum kiln_code (*room)(void *context, uint64_t bytes, struct kiln_err *err);
    void *context;
};
/* Bytes as the source had them where a system database is exported unchanged.  KILN_NOT_FOUND when
 * there is nothing to write.  |path| must not exist.  Blocks: on a lane; no job is taken over
 * meanwhile. */
KILN_MUST_CHECK enum kiln_code tuning_export_file(struct tuning *tuning,
                                                  const struct tuning_export *what,
                                                  const char *path,
                                                  struct tuning_counts *ret_counts,
                                                  struct kiln_err *err);
