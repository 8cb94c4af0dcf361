/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the files of the kernel store share; not for others.
 *
 *   kernel_store.c             open, close, move a damaged file aside, start anew
 *   kernel_store_folder.c      the folder, its lock, and whether the file is still there
 *   kernel_store_readers.c     the pool of connections for look-ups
 *   kernel_store_read.c        get, show, list, match, usage, probes
 *   kernel_store_put.c         put
 *   kernel_store_write.c       touch, remove, clear, probes
 *   kernel_store_quarantine.c  damaged rows
 *   kernel_store_evict.c       which kernels go when the limit is reached
 */
#include "engine/db/query.h"
#include "engine/store/codec_zstd.h"
#include "engine/store/kernel_store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define STORE_FILE "kernels.db"

enum kernel_statement {
#define KERNEL_STATEMENT(name, text) KERNEL_##name,
#include "engine/store/kernel_statements.def"
#undef KERNEL_STATEMENT
    KERNEL_STATEMENT_COUNT,
};
/* Readers prepare only the first section of the table: most of the time that opening takes. */
#define KERNEL_READING_COUNT (KERNEL_PROBES + 1)

extern const struct db_schema kernel_schema;
extern const char *const kernel_statements[KERNEL_STATEMENT_COUNT];

struct store_reader {
    struct kernel_store *store; /* borrowed */
    struct db *db;              /* owned */
    struct codec *codec;        /* owned */
    struct store_reader *next;
};

struct kernel_store {
    char *directory; /* owned */
    char *path;      /* owned: of kernels.db */
    uint64_t limit_bytes;
    unsigned reader_count;
    bool allow_network_fs;
    int folder;   /* owned; -1 when closed */
    int lock;     /* owned; held while we live: one daemon a folder */
    dev_t device; /* the file that is open, to tell it from one put in its place */
    ino_t inode;
    bool made_file;           /* it was not there when we opened */
    bool removed;             /* it vanished while open, which was not told yet */
    struct db *writer;        /* owned; NULL when starting anew failed */
    struct codec *codec;      /* owned; the writer's */
    atomic_bool file_damaged; /* seen by a reader: the next write starts anew */

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t returned;
    struct store_reader *idle; /* owned */
    unsigned out;              /* readers in use */
    bool open;                 /* readers may be taken */
    char notice[512];
};

/* Opens the folder, made where it is absent, and takes its lock; what is open and still in place
 * stays so.  KILN_BUSY, naming the other's pid, while another daemon lives there. */
KILN_MUST_CHECK enum kiln_code store_folder_open(struct kernel_store *store, struct kiln_err *err);
void store_folder_close(struct kernel_store *store);
/* Makes the file where it is absent; refuses what is not our own. */
KILN_MUST_CHECK enum kiln_code store_file_make(struct kernel_store *store, struct kiln_err *err);
/* False when the path no longer names the file that is open. */
bool store_file_is_in_place(const struct kernel_store *store);

/* Pool.  store_readers_close waits until every reader has come back. */
KILN_MUST_CHECK enum kiln_code store_readers_open(struct kernel_store *store, struct kiln_err *err);
void store_readers_close(struct kernel_store *store);
/* KILN_UNAVAILABLE while the file is being replaced. */
KILN_MUST_CHECK enum kiln_code store_reader_take(struct kernel_store *store,
                                                 struct store_reader **ret_reader,
                                                 struct kiln_err *err);
void store_reader_return(struct store_reader *reader);
static inline void store_reader_auto(struct store_reader **p) { store_reader_return(*p); }

/* Options of every connection to kernels.db. */
struct db_options store_db_options(const struct kernel_store *store, bool writer);

/* Runs |work| on the writer.  Where the file was removed a new one is made first; where it turns
 * out damaged it is moved aside, an empty one made, and |work| run once more. */
typedef enum kiln_code (*store_work)(struct kernel_store *store, void *context,
                                     struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code store_write(struct kernel_store *store, store_work work,
                                           void *context, struct kiln_err *err);

enum damage { DAMAGE_NONE, DAMAGE_CLAIM, DAMAGE_CONTENT, DAMAGE_FILE };

/* Reads and checks.  KILN_CORRUPT comes with |ret_damage|: what is not as it was written. */
KILN_MUST_CHECK enum kiln_code store_read_object(struct db *db, struct codec *codec,
                                                 const struct digest *key,
                                                 struct object **ret_object,
                                                 enum damage *ret_damage, struct kiln_err *err);

/* A claim ties a key to its object: a flipped bit in an index or a row id would otherwise answer
 * with the wrong object, intact. */
#define CLAIM_SIZE 16
void store_claim(const struct digest *key, const struct digest *object, uint8_t claim[CLAIM_SIZE]);

/* Runs a statement whose only parameter is the key. */
KILN_MUST_CHECK enum kiln_code store_run_with_key(struct kernel_store *store,
                                                  enum kernel_statement statement,
                                                  const struct digest *key, struct kiln_err *err);
/* Cuts a time to what can be added up without overflow. */
uint64_t store_time(uint64_t seconds);
KILN_MUST_CHECK enum kiln_code store_usage(struct db *db, struct kernel_usage *ret_usage,
                                           struct kiln_err *err);
/* Inside a transaction: brings the store below its limit, sparing |spared|. */
KILN_MUST_CHECK enum kiln_code store_evict(struct kernel_store *store, uint64_t spared,
                                           uint64_t *ret_evicted, struct kiln_err *err);
/* The point in time until which a kernel is worth keeping, next to the others'. */
int64_t store_keep_until(uint64_t last_used, uint64_t compile_ns, uint64_t stored_size);

static inline struct bytes digest_view(const struct digest *d)
{
    return bytes_of(d->bytes, sizeof(d->bytes));
}
