/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the files of the kernel store share; not for others.
 *
 *   kernel_store.c             open, close, the way into everything that writes
 *   kernel_store_rebuild.c     another file in place of one that is damaged or gone
 *   kernel_store_health.c      whether writing works, and when to try again
 *   kernel_store_directory.c      the file in its directory, and whether it is still there
 *   kernel_store_readers.c     connections for look-ups, in a pool
 *   kernel_record.c            what is known about a kernel: out of a row, into a filter
 *   kernel_store_read.c        get, show, list, match, usage, probes
 *   kernel_store_named.c       each_named
 *   kernel_store_nearest.c     nearest
 *   kernel_store_put.c         put, import
 *   kernel_store_write.c       touch, remove, probes
 *   kernel_store_many.c        clear, pin
 *   kernel_store_quarantine.c  damaged rows
 *   kernel_store_evict.c       which kernels go first; counters that went wrong
 *   kernel_store_space.c       what the files take on the disk; giving some back
 *   kernel_store_room.c        room for a put, below the limit; tidy
 *   kernel_store_gc.c          gc
 *   kernel_store_ledger.c      what hits saved, and who fills the store (kernel_figures.h)
 *   kernel_store_check.c       whether the file as a whole is sound
 *   kernel_store_history.c     samples of the counters, the slowest compiles (likewise)
 */
#include "engine/db/directory.h"
#include "engine/db/pool.h"
#include "engine/db/query.h"
#include "engine/store/codec_zstd.h"
#include "engine/store/kernel_store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>

#define STORE_FILE "kernels.db"
#define STORE_LOG STORE_FILE "-wal"

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

enum store_access { /* how a connection is opened */
                    STORE_WRITER,
                    STORE_BESIDE_WRITER, /* reads; the writer of this process keeps the file in
                                            order */
                    STORE_LOG_ALONE,     /* reads; there is no writer, but a log and its index */
                    STORE_FILE_ALONE,    /* reads; there is no writer, and no log */
};

struct store_reader {
    struct kernel_store *store; /* borrowed */
    struct db *db;              /* owned */
    struct codec *codec;        /* owned */
};

struct store_checked { /* what SQLite found when it looked at the whole file last */
    uint64_t at_ns;    /* 0: it did not, or damage was seen or the file exchanged since */
    uint64_t damages;  /* how often that was */
    char damage[256];
};

struct kernel_store {
    char *directory;              /* owned */
    char *path;                   /* owned: of kernels.db */
    char *log_path;               /* owned: of its write-ahead log */
    _Atomic uint64_t limit_bytes; /* both may change at any time: kernel_store_set_limits */
    _Atomic uint64_t quota_bytes_uid;
    enum kernel_store_mode mode;
    enum kernel_notice opening; /* what opening had to say */

    /* The write lane's. */
    struct db_directory home; /* locked while the store is open: one daemon a directory */
    dev_t device; /* the file that is open, to tell it from one put in its place; 0: none was */
    ino_t inode;
    bool made_file;        /* it was not there when we opened */
    bool removed;          /* it vanished while open, which was not told yet */
    struct db *writer;     /* owned; NULL while it cannot be opened */
    struct codec *codec;   /* owned; the writer's */
    bool giving_back;      /* kernels went: their pages are given back, step by step */
    bool shrinking;        /* it was told that the file is beyond the limit */
    uint64_t pinned_bytes; /* of pinned kernels' objects, where pinned_known */
    bool pinned_known;
    uint64_t quota_evictions; /* kernels that a quota drove out */
    uint64_t kept;            /* kernels that were put */
    uint64_t retry_at_ns;     /* while writing is off: not before */
    uint64_t retry_after_ns;  /* how long the wait was */
    uint64_t wanted_bytes;    /* what did not fit on the disk */

    atomic_bool file_damaged; /* seen by a reader: the next write rebuilds it */

    struct db_pool readers;           /* of struct store_reader */
    enum store_access opens_as;       /* readers that are opened now */
    _Atomic enum store_access access; /* of the readers */
    atomic_bool nothing_there;        /* there is nothing to read: all is a miss */

    pthread_mutex_t mutex; /* guards what follows */
    struct kernel_health health;
    struct store_checked checked;
    enum kernel_notice notice_kind; /* of |notice| */
    char notice[512];
};

static inline struct bytes digest_view(const struct digest *d)
{
    return bytes_of(d->bytes, sizeof(d->bytes));
}
/* False for all zeros: "not known". */
bool digest_is_known(const struct digest *digest);

/* ---- directory and file ---- */

/* Once, before it is opened (db_directory_refresh). */
void store_directory_init(struct kernel_store *store, bool allow_network_fs);
/* Makes the file where it is absent; refuses what is not our own. */
KILN_MUST_CHECK enum kiln_code store_file_make(struct kernel_store *store, struct kiln_err *err);
/* KILN_NOT_FOUND, without a sentence, where it is absent; refuses what is not our own. */
KILN_MUST_CHECK enum kiln_code store_file_look(struct kernel_store *store, struct kiln_err *err);
/* False when the path no longer names the file that was opened. */
bool store_file_is_in_place(const struct kernel_store *store);
/* Whether a file of the directory is there, and how long it is. */
bool store_file_size(const struct kernel_store *store, const char *name, uint64_t *ret_size);

/* ---- connections ---- */

/* Options of every connection to kernels.db. */
struct db_options store_db_options(const struct kernel_store *store, enum store_access access);
/* Once, before anything is opened. */
void store_readers_init(struct kernel_store *store, unsigned count);
/* Opens all readers; those that were open are replaced. */
KILN_MUST_CHECK enum kiln_code store_readers_open(struct kernel_store *store,
                                                  enum store_access access, struct kiln_err *err);
/* From now on there is nothing to read. */
void store_readers_do_without(struct kernel_store *store);
/* KILN_OK with no reader where there is nothing to read; KILN_UNAVAILABLE while the file is being
 * replaced. */
KILN_MUST_CHECK enum kiln_code store_reader_take(struct kernel_store *store,
                                                 struct store_reader **ret_reader,
                                                 struct kiln_err *err);
void store_reader_return(struct store_reader *reader);
static inline void store_reader_auto(struct store_reader **p) { store_reader_return(*p); }

/* Opens writer and readers; on failure the readers stay as they were. */
KILN_MUST_CHECK enum kiln_code store_open_all(struct kernel_store *store, struct kiln_err *err);
/* Opens readers alone, changing no file.  KILN_NOT_FOUND, without a sentence, where there is no
 * file; on any failure there is nothing to read. */
KILN_MUST_CHECK enum kiln_code store_open_reading(struct kernel_store *store, struct kiln_err *err);
void store_close_all(struct kernel_store *store);
/* Opens; a file that is damaged, or was found so (|damage|), is removed first. */
KILN_MUST_CHECK enum kiln_code store_open_or_rebuild(struct kernel_store *store, const char *damage,
                                                     char notice[512], struct kiln_err *err);
/* Opens again what was damaged (|damage|), was removed, or could not be opened for writing. */
KILN_MUST_CHECK enum kiln_code store_reopen(struct kernel_store *store, const char *damage,
                                            struct kiln_err *err);
/* Removes the file and starts an empty one: clearing without room for a transaction. */
KILN_MUST_CHECK enum kiln_code store_wipe(struct kernel_store *store, struct kiln_err *err);

/* Damage was seen, or there is another file: whether it is sound is not known any more. */
void store_check_forget(struct kernel_store *store);

/* ---- writing ---- */

enum store_wish {
    STORE_ASKED,   /* somebody waits for the outcome: tried each time, failures are returned */
    STORE_UNASKED, /* nobody does: dropped with KILN_OK while writing is off */
};

/* Runs |work| on the writer.  Where the file was removed a new one is made first; where it turns
 * out damaged it is removed, an empty one made, and |work| run once more. */
typedef enum kiln_code (*store_work)(struct kernel_store *store, void *context,
                                     struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code store_write(struct kernel_store *store, enum store_wish wish,
                                           store_work work, void *context, struct kiln_err *err);

/* What a failure means for writing: OK when it says nothing about the disk. */
enum kernel_health_state store_health_of(const struct kernel_store *store, enum kiln_code rc);
/* True while writing is off and it is too early to try again; counts what is dropped. */
bool store_health_drops(struct kernel_store *store);
/* After each try.  Returns what the caller of a write is to be told: the first failure, and later
 * ones too where somebody asked. */
enum kiln_code store_health_note(struct kernel_store *store, enum store_wish wish,
                                 enum kiln_code rc, const struct kiln_err *err);
void store_say(struct kernel_store *store, enum kernel_notice kind, const char *text);

/* ---- rows ---- */

enum damage { DAMAGE_NONE, DAMAGE_CLAIM, DAMAGE_CONTENT, DAMAGE_FILE };

struct stored_row { /* of kernel and object; borrowed from the query */
    struct bytes claim, sha256, stored;
    uint64_t codec, raw_size;
};
/* KILN_CORRUPT comes with |ret_damage|: what is not as it was written.  |ret_raw| is borrowed as
 * codec_unpack's. */
KILN_MUST_CHECK enum kiln_code store_check_row(const struct stored_row *row, struct codec *codec,
                                               const struct digest *key, struct digest *ret_digest,
                                               struct bytes *ret_raw, enum damage *ret_damage,
                                               struct kiln_err *err);
/* Reads and checks, for |reader| or, where that is NULL, for whomever. */
KILN_MUST_CHECK enum kiln_code store_read_object(struct db *db, struct codec *codec,
                                                 struct kernel_reader *reader,
                                                 const struct digest *key,
                                                 struct object **ret_object,
                                                 enum damage *ret_damage, struct kiln_err *err);
/* What every look-up does with a failure: a damaged file is replaced by the next write. */
enum kiln_code store_note_read(struct kernel_store *store, enum kiln_code rc);

/* A claim ties a key to its object: a flipped bit in an index or a row id would otherwise answer
 * with the wrong object, intact. */
#define CLAIM_SIZE 16
void store_claim(const struct digest *key, const struct digest *object, uint8_t claim[CLAIM_SIZE]);

/* False, and nothing written, unless |bytes| has a digest's size. */
bool store_to_digest(struct bytes bytes, struct digest *ret_digest);
/* The record in RECORD_COLUMNS; texts are borrowed from the query. */
#define RECORD_COLUMN_COUNT 22
struct kernel_record store_record(const struct query *q);
/* Those of a query that is bound. */
KILN_MUST_CHECK enum kiln_code store_report_records(struct query *q,
                                                    void (*each)(void *,
                                                                 const struct kernel_record *),
                                                    void *context, struct kiln_err *err);
void store_bind_filter(struct query *q, const struct kernel_filter *filter);
/* scope as it is stored: -1 is everyone. */
int64_t store_scope_number(uint64_t scope);

/* Runs a statement that has no parameter. */
KILN_MUST_CHECK enum kiln_code store_run(struct kernel_store *store,
                                         enum kernel_statement statement, struct kiln_err *err);
/* Runs a statement whose only parameter is the key. */
KILN_MUST_CHECK enum kiln_code store_run_with_key(struct kernel_store *store,
                                                  enum kernel_statement statement,
                                                  const struct digest *key, struct kiln_err *err);
/* The first number of the first row, 0 when there is none. */
KILN_MUST_CHECK enum kiln_code store_number(struct db *db, enum kernel_statement statement,
                                            uint64_t *ret_number, struct kiln_err *err);
/* Cuts a time to what can be added up without overflow. */
uint64_t store_time(uint64_t seconds);
KILN_MUST_CHECK enum kiln_code store_usage(struct db *db, struct kernel_usage *ret_usage,
                                           struct kiln_err *err);
/* Kernels that match, and the bytes of their objects. */
KILN_MUST_CHECK enum kiln_code store_count_matches(struct db *db,
                                                   const struct kernel_filter *filter,
                                                   uint64_t *ret_count, uint64_t *ret_bytes,
                                                   struct kiln_err *err);
/* Removes them in transactions that are short; the space stays in the file. */
KILN_MUST_CHECK enum kiln_code store_remove_matches(struct kernel_store *store,
                                                    const struct kernel_filter *filter,
                                                    struct kiln_err *err);

/* ---- eviction and space ---- */

/* The point in time until which a kernel is worth keeping, next to the others'. */
int64_t store_keep_until(uint64_t last_used, uint64_t compile_ns, uint64_t stored_size,
                         bool is_named);
/* Inside a transaction: removes the one that is worth least, of |uid| where it is given.
 * |ret_gone| false: there is none, or only pinned ones. */
KILN_MUST_CHECK enum kiln_code store_evict_one(struct kernel_store *store, const uint32_t *uid,
                                               bool *ret_gone, struct kiln_err *err);
struct store_own {   /* what a private kernel may push out */
    uint32_t uid;    /* whose private ones */
    uint64_t before; /* last used before this second: not what came with it */
    bool shared_too; /* the user has more than his share: what he had compiled goes as well */
};
/* The same among these. */
KILN_MUST_CHECK enum kiln_code store_evict_own(struct kernel_store *store,
                                               const struct store_own *own, bool *ret_gone,
                                               struct kiln_err *err);
/* The user who has more than his share of the limit; false when nobody has. */
KILN_MUST_CHECK enum kiln_code store_find_heaviest(struct kernel_store *store, uint32_t *ret_uid,
                                                   bool *ret_any, struct kiln_err *err);
/* Makes counters and recency agree with the rows again. */
KILN_MUST_CHECK enum kiln_code store_repair(struct kernel_store *store, struct kiln_err *err);

#define STORE_PAGE 4096u
/* Less room than this on the disk, and the next write is likely to fail. */
#define STORE_ROOM_MIN (1u << 20)

struct store_space { /* bytes */
    uint64_t file;   /* pages, those in the log too */
    uint64_t used;   /* of these, not free */
    uint64_t blocks; /* of the file as it is on the disk */
};
KILN_MUST_CHECK enum kiln_code store_measure(struct kernel_store *store,
                                             struct store_space *ret_space, struct kiln_err *err);
/* What the log may take of the limit. */
uint64_t store_log_share(uint64_t limit);

/* Cuts a log that has more than |most| bytes. */
KILN_MUST_CHECK enum kiln_code store_bound_log(struct kernel_store *store, uint64_t most,
                                               struct kiln_err *err);

struct store_room {
    uint64_t evicted;
    bool never; /* it does not fit, whatever goes */
    bool later; /* the file is being made smaller and is not yet small enough */
    char why[320];
};
/* Before a transaction that adds |need| bytes: makes room for them, in transactions of its own;
 * with |own| (may be NULL) only what it names is evicted. */
KILN_MUST_CHECK enum kiln_code store_make_room(struct kernel_store *store, uint64_t need,
                                               const struct store_own *own,
                                               struct store_room *ret_room, struct kiln_err *err);
/* What a kernel's rows and |stored_size| bytes of object take at most. */
uint64_t store_need(uint64_t stored_size, uint64_t texts_size);
/* Moves pages from the end of the file into free ones, at most |most|, until it has |want| bytes,
 * and gives them back. */
KILN_MUST_CHECK enum kiln_code store_cut(struct kernel_store *store, uint64_t want, uint64_t most,
                                         struct kiln_err *err);
/* Evicts until the files take at most |most| bytes, or only pinned kernels are
 * left. */
KILN_MUST_CHECK enum kiln_code store_shrink_to(struct kernel_store *store, uint64_t most,
                                               uint64_t *ret_evicted, struct kiln_err *err);
/* To a failure of what was to make room: what does make some, where the disk has none. */
enum kiln_code store_advise_room(const struct kernel_store *store, enum kiln_code rc,
                                 struct kiln_err *err);
/* After a write: gives some of the pages back that evicted kernels left. */
KILN_MUST_CHECK enum kiln_code store_give_back(struct kernel_store *store, struct kiln_err *err);
/* Blocks of kernels.db and its log. */
uint64_t store_taken_bytes(const struct kernel_store *store);
#define STORE_SIZE_TEXT 24
/* "38.6 KiB", in |text|. */
const char *store_size_text(uint64_t bytes, char text[STORE_SIZE_TEXT]);
/* How many kernels one transaction may change, and room in the log for that. */
unsigned store_batch(const struct kernel_store *store);
KILN_MUST_CHECK enum kiln_code store_before_batch(struct kernel_store *store, struct kiln_err *err);
/* At so many pages the log is copied back. */
unsigned store_log_pages(uint64_t limit_bytes);
