/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * tuning.db: what was measured on this host, and which system databases were imported.
 *
 * Role       the persistent store (in the state directory): SQLite, WAL, full sync. Each change is
 *            one transaction, which is on disk when tuning_change_commit returns
 * Ownership  rows are borrowed for the duration of a call
 * Threading  one thread at a time (the tuning work queue), also for tuning_db_each
 * On disk    docs/formats/tuning-db.md; schema in db/schema/tuning/
 *
 * A damaged file is renamed to tuning.db.damaged-<time> and kept. Every readable row is copied into
 * a new file; lost rows are counted and reported.
 */
#include "common/base/digest.h"
#include "common/miopen/tuning_text.h"

enum tuning_tier { TUNING_TIER_NONE, TUNING_TIER_SYSTEM, TUNING_TIER_HOST, TUNING_TIER_USER };
const char *tuning_tier_name(enum tuning_tier tier);

#define TUNING_NOBODY 0xffffffffu /* owner of host-tier records */

struct tuning_origin {       /* where a measurement was made; texts are borrowed, "" if unknown */
    const char *device_uuid; /* "GPU-..." */
    const char *device;      /* "gfx90a:sramecc+:xnack-" */
    const char *driver;
    const char *toolchain;
    const char *library; /* "libkiln 0.1.0", "MIOpen 2.17.0" */
    uint32_t clock_mhz;
};

struct tuning_measurement {
    struct tuning_origin origin;
    uint32_t samples;     /* 0: unknown, as for imported files */
    double median_ms;     /* of the samples; 0: unknown */
    double spread_ms;     /* half the distance between the 25th and 75th percentiles; 0: unknown */
    uint64_t measured_at; /* seconds since the epoch; 0: unknown */
    uint32_t uid;
};

struct tuning_place {
    enum tuning_tier tier;
    uint32_t uid; /* owner; TUNING_NOBODY for host */
    enum tuning_kind kind;
    const char *database_id;
    const char *backend; /* "HIP", "CUDA", "OpenCL"; "" for perf */
    struct bytes key;    /* as in engine/miopen/problem_key.h, or any bytes if kiln could not parse
                          * an imported key */
};

struct tuning_row {
    struct tuning_place place;
    struct bytes id, values; /* as in MIOpen's text (common/miopen/tuning_text.h) */
    struct tuning_measurement measured;
};

struct tuning_db;

struct tuning_db_options {
    const char *directory;    /* of tuning.db; created with mode 0700 if absent */
    uint64_t records_per_uid; /* 0: no limit; a put beyond a limit fails with KILN_FULL */
    uint64_t bytes_per_uid;   /* packed records with keys, plus TUNING_ENTRY_COST for each entry */
    bool allow_network_fs;
};
struct tuning_salvage {
    uint64_t saved, lost;
    bool lost_unknown;
    char notice[512]; /* message for kilnd's log; may be "" */
};
KILN_MUST_CHECK enum kiln_code tuning_db_open(const struct tuning_db_options *options,
                                              struct tuning_db **ret_db,
                                              struct tuning_salvage *ret_salvage,
                                              struct kiln_err *err);
void tuning_db_destroy(struct tuning_db *db);
KILN_DEFINE_AUTO(tuning_db)
/* The limits apply from the next put on. Any thread may call this function. */
void tuning_db_set_limits(struct tuning_db *db, uint64_t records_per_uid, uint64_t bytes_per_uid);

/* Reports records in the order in which they were first stored, until |each| returns false. */
KILN_MUST_CHECK enum kiln_code tuning_db_each(struct tuning_db *db,
                                              bool (*each)(void *context,
                                                           const struct tuning_place *place,
                                                           const struct tuning_row *rows,
                                                           size_t count),
                                              void *context, struct kiln_err *err);

/* Calls |each| for records with |after|'s tier, uid, kind, database id and backend and a greater
 * key, in the order of their keys, until |each| returns false. */
KILN_MUST_CHECK enum kiln_code tuning_db_each_after(
    struct tuning_db *db, const struct tuning_place *after,
    bool (*each)(void *context, const struct tuning_place *place, const struct tuning_row *rows,
                 size_t count),
    void *context, struct kiln_err *err);

struct tuning_change;
KILN_MUST_CHECK enum kiln_code tuning_change_begin(struct tuning_db *db,
                                                   struct tuning_change **ret_change,
                                                   struct kiln_err *err);
/* Replaces the whole record at |place|. A |count| of 0 removes it. */
KILN_MUST_CHECK enum kiln_code tuning_change_record(struct tuning_change *change,
                                                    const struct tuning_place *place,
                                                    const struct tuning_row *rows, size_t count,
                                                    struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_change_commit(struct tuning_change *change,
                                                    struct kiln_err *err);
void tuning_change_destroy(struct tuning_change *change); /* rolls back what was not committed */
KILN_DEFINE_AUTO(tuning_change)

/* Stores a copy of the record before a promotion changes it. tuning_db_each_before reports these
 * copies. */
KILN_MUST_CHECK enum kiln_code tuning_change_keep_before(struct tuning_change *change,
                                                         const struct tuning_place *place,
                                                         struct kiln_err *err);
/* Stores the checksum of the record that the promotion has written, with which
 * tuning_db_each_before detects later changes. */
KILN_MUST_CHECK enum kiln_code tuning_change_note_written(struct tuning_change *change,
                                                          const struct tuning_place *place,
                                                          struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_change_forget_before(struct tuning_change *change,
                                                           struct kiln_err *err);
/* Reports records as they were before the last promotion. |count| is 0 if there was no record.
 * |is_unchanged|: the record has not changed since the promotion wrote it. */
KILN_MUST_CHECK enum kiln_code tuning_db_each_before(struct tuning_db *db,
                                                     bool (*each)(void *context,
                                                                  const struct tuning_place *place,
                                                                  const struct tuning_row *rows,
                                                                  size_t count, bool is_unchanged),
                                                     void *context, struct kiln_err *err);

struct tuning_system_file {
    enum tuning_kind kind;
    const char *database_id, *backend;
    const char *source;
    const char *index_file;
    struct digest digest;
    uint64_t records, entries, rejected; /* |rejected|: lines that are not records */
    uint64_t imported_at;
    uint32_t uid;
};
/* Replaces an earlier import of the same kind, database id and backend. */
KILN_MUST_CHECK enum kiln_code tuning_change_system(struct tuning_change *change,
                                                    const struct tuning_system_file *file,
                                                    struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_change_system_remove(struct tuning_change *change,
                                                           enum tuning_kind kind,
                                                           const char *database_id,
                                                           const char *backend,
                                                           struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_db_each_system(
    struct tuning_db *db, bool (*each)(void *context, const struct tuning_system_file *file),
    void *context, struct kiln_err *err);

/*
 * A client that lost its connection sends its put again with the same token, which is stored in the
 * same transaction as the put. Only the latest tokens are kept: at most TUNING_PUTS_UID of a user
 * and TUNING_PUTS_MAX in all. Both limits exceed the number of puts that can be in progress at a
 * time.
 */
#define TUNING_PUT_TOKEN 16u
#define TUNING_PUTS_UID 256u
#define TUNING_PUTS_MAX 65536u

struct tuning_put_token {
    uint8_t bytes[TUNING_PUT_TOKEN];
};
KILN_MUST_CHECK enum kiln_code tuning_db_has_put(struct tuning_db *db, uint32_t uid,
                                                 const struct tuning_put_token *token,
                                                 bool *ret_has, struct kiln_err *err);
/* Adds a new token, and removes the oldest tokens beyond the limits. */
KILN_MUST_CHECK enum kiln_code tuning_change_add_put(struct tuning_change *change, uint32_t uid,
                                                     const struct tuning_put_token *token,
                                                     struct kiln_err *err);

unsigned tuning_db_log_pages(const struct tuning_db *db);
KILN_MUST_CHECK enum kiln_code tuning_db_checkpoint(struct tuning_db *db, struct kiln_err *err);
/* Writes a consistent copy, while the database may be used. |path| must not exist. */
KILN_MUST_CHECK enum kiln_code tuning_db_backup(struct tuning_db *db, const char *path,
                                                struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_db_vacuum(struct tuning_db *db, uint64_t *ret_freed,
                                                struct kiln_err *err);
/* Runs SQLite's integrity check, and checks the checksums and the number of the rows. The message
 * of KILN_CORRUPT says what is wrong. */
KILN_MUST_CHECK enum kiln_code tuning_db_verify(struct tuning_db *db, struct kiln_err *err);
uint64_t tuning_db_bytes(const struct tuning_db *db); /* of the file and its log */
