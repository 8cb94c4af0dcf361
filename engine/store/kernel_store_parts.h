/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations shared by the files of the kernel store. Not for other modules.
 *
 *   kernel_store.c             opens and closes the store, and runs every write
 *   kernel_record.c            converts rows to records, and filters to parameters
 *   kernel_store_read.c        get, show, list, match, usage, probes
 *   kernel_store_write.c       touch, remove, probe_put
 *   kernel_store_many.c        count, clear, pin
 *   kernel_store_evict.c       the order of eviction; repair of wrong counters
 *   kernel_store_space.c       the disk space of the files; vacuuming
 *   kernel_store_make_space.c  frees space for a put within the limit; tidy
 *
 * The other files implement what their names say.
 *
 * Ownership  the store owns its connections; a reader is borrowed from the pool
 * Threading  as in kernel_store.h: readers on any thread, one writer at a time
 */
#include "engine/codec/codec_zstd.h"
#include "engine/db/directory.h"
#include "engine/db/pool.h"
#include "engine/db/query.h"
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
/* Number of statements in the first section of kernel_statements.def. Readers prepare only these,
 * because preparing takes time. */
#define KERNEL_READING_COUNT (KERNEL_PROBES + 1)

extern const struct db_schema kernel_schema;
extern const char *const kernel_statements[KERNEL_STATEMENT_COUNT];

enum store_access {
    STORE_WRITER,
    STORE_BESIDE_WRITER, /* reads; the writer of this process maintains the file */
    STORE_LOG_ALONE,     /* reads; there is no writer, but a log and its index exist */
    STORE_FILE_ALONE,    /* reads; there is neither a writer nor a log */
};

struct store_reader {
    struct kernel_store *store;
    struct db *db;
    struct codec *codec;
};

struct store_checked { /* latest result of SQLite's check of the whole file */
    uint64_t at_ns;    /* time of the check; 0: there is no result that is still valid */
    uint64_t damages;  /* how often damage was seen or the file was replaced */
    char damage[256];
};

struct store_readers {
    struct db_pool pool;
    enum store_access opens_as;
    _Atomic enum store_access access;
    atomic_bool is_empty; /* true: there is no file to read, so every look-up misses */
};

struct store_file {
    dev_t device;
    ino_t inode; /* 0: no file was opened yet */
    bool is_made;
    bool is_gone; /* the file was removed while it was open; not reported yet */
};

struct store_pinned {
    uint64_t bytes;
    bool is_known;
};

struct store_retry { /* used after a failed write, until writing works again */
    uint64_t at_ns;
    uint64_t after_ns;
    uint64_t wanted;
};

struct store_orphans {   /* the search for pieces that belong to no object and no put
                          * (kernel_store_pieces.c) */
    atomic_bool are_due; /* a search must begin; set on any thread */
    bool is_scanning;
    uint64_t after;
};

struct store_notice {
    enum kernel_notice kind;
    char text[512];
};

struct kernel_store {
    char *directory;
    char *path;
    char *log_path;
    _Atomic uint64_t limit_bytes; /* kernel_store_set_limits changes both limits on any thread */
    _Atomic uint64_t quota_bytes_uid;
    enum kernel_store_mode mode;
    enum kernel_notice opening;

    /* The members from here to |file_damaged| are used only on the write queue. */
    struct db_directory home; /* locked while the store is open */
    struct store_file file;
    struct db *writer; /* owned; NULL while it cannot be opened */
    struct codec *codec;
    bool vacuum_due;
    bool shrinking; /* the operator was already notified that the file exceeds the limit */
    struct store_pinned pinned;
    uint64_t quota_evictions;
    uint64_t kept; /* kernels stored by put and import */
    struct store_retry retry;
    /* How many times the file was opened. Each opening may have replaced the file by an empty
     * one. */
    uint64_t openings;
    struct store_orphans orphans;

    atomic_bool file_damaged;
    _Atomic uint64_t misreads;

    struct store_readers readers;

    pthread_mutex_t mutex; /* guards what follows */
    struct kernel_health health;
    struct store_checked checked;
    struct store_notice notice;
    struct list puttings; /* of struct kernel_putting, borrowed: the puts that have stored pieces */
};

static inline struct bytes digest_view(const struct digest *d)
{
    return bytes_of(d->bytes, sizeof(d->bytes));
}

void store_directory_init(struct kernel_store *store, bool allow_network_fs);
/* Refuses a file that other users may access. */
KILN_MUST_CHECK enum kiln_code store_file_make(struct kernel_store *store, struct kiln_err *err);
/* Returns KILN_NOT_FOUND without a message if the file is absent. Refuses a file that other
 * users may access. */
KILN_MUST_CHECK enum kiln_code store_file_check(struct kernel_store *store, struct kiln_err *err);
bool store_file_is_in_place(const struct kernel_store *store);
bool store_file_size(const struct kernel_store *store, const char *name, uint64_t *ret_size);

struct db_options store_db_options(struct kernel_store *store, enum store_access access);
void store_readers_init(struct kernel_store *store, unsigned count);
KILN_MUST_CHECK enum kiln_code store_readers_open(struct kernel_store *store,
                                                  enum store_access access, struct kiln_err *err);
void store_readers_close(struct kernel_store *store);
/* If |hold| is true, look-ups wait until this function is called with false. Without this call,
 * look-ups would fail while the readers are closed. */
void store_readers_hold(struct kernel_store *store, bool hold);
/* Returns KILN_OK and a NULL reader if there is nothing to read. Returns KILN_UNAVAILABLE while
 * the file is being replaced. */
KILN_MUST_CHECK enum kiln_code store_reader_take(struct kernel_store *store,
                                                 struct store_reader **ret_reader,
                                                 struct kiln_err *err);
void store_reader_return(struct store_reader *reader);
static inline void store_reader_auto(struct store_reader **p) { store_reader_return(*p); }

/* On failure the readers are unchanged. */
KILN_MUST_CHECK enum kiln_code store_open_all(struct kernel_store *store, struct kiln_err *err);
/* Opens the store for reading, without changing any file. Returns KILN_NOT_FOUND without a message
 * if there is no file. After any failure, every look-up misses. */
KILN_MUST_CHECK enum kiln_code store_open_reading(struct kernel_store *store, struct kiln_err *err);
void store_close_all(struct kernel_store *store);
/* Opens the file for reading and writing. If the file is damaged, or |damage| describes damage that
 * was found earlier (NULL: none), replaces the file by an empty one. */
KILN_MUST_CHECK enum kiln_code store_open_or_rebuild(struct kernel_store *store, const char *damage,
                                                     char notice[512], struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code store_reopen(struct kernel_store *store, const char *damage,
                                            struct kiln_err *err);
/* Replaces the file by an empty one. This works even if there is no space for a transaction. */
KILN_MUST_CHECK enum kiln_code store_wipe(struct kernel_store *store, struct kiln_err *err);

void store_check_discard(struct kernel_store *store);

enum store_write_kind {
    STORE_AWAITED,    /* a caller waits: the write is always tried, and a failure is returned */
    STORE_BACKGROUND, /* no caller waits: if store_health_drops, the write is dropped with
                       * KILN_OK */
};

/* The work of one write, which store_write runs. If the file was removed, store_write first creates
 * an empty one. If the file turns out to be damaged, store_write replaces it by an empty one, and
 * runs |work| once more. */
typedef enum kiln_code (*store_work)(struct kernel_store *store, void *context,
                                     struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code store_write(struct kernel_store *store, enum store_write_kind kind,
                                           store_work work, void *context, struct kiln_err *err);

/* Returns the state of the disk after a write failed with |rc|: KERNEL_HEALTH_OK if the disk did
 * not cause the failure. */
enum kernel_health_state store_health_of(const struct kernel_store *store, enum kiln_code rc);
/* Returns true if the next write must be dropped, because an earlier write failed and it is too
 * early for the next try. In that case, also counts the dropped write. */
bool store_health_drops(struct kernel_store *store);
/* Call this function after each write, with its result |rc|. Returns the result for the caller of
 * the write: |rc| if this failure is the first one or if the caller waits, otherwise KILN_OK. */
enum kiln_code store_health_note(struct kernel_store *store, enum store_write_kind kind,
                                 enum kiln_code rc, const struct kiln_err *err);
void store_set_notice(struct kernel_store *store, enum kernel_notice kind, const char *text);

enum damage { DAMAGE_NONE, DAMAGE_CLAIM, DAMAGE_CONTENT, DAMAGE_FILE };

struct stored_row { /* a row of the table kernel with its object; borrowed from the query */
    const struct digest *key;
    struct bytes claim, sha256;
    struct packed_object packed;
    uint64_t piece_set; /* 0: |packed| contains the whole object; otherwise it only states the
                         * size */
    struct db *db;
};
struct checked_row {
    struct digest digest;
    struct bytes raw; /* borrowed, see codec_unpack */
    enum damage damage;
};
struct piece_sink { /* receives the unpacked pieces of a large object, in order */
    enum kiln_code (*put)(void *context, struct bytes piece, struct kiln_err *err);
    void *context;
};
/* Unpacks and checks the object of a row. With KILN_CORRUPT, only |ret_checked|->damage is set. If
 * the object is stored in pieces, |ret_checked|->raw is empty and |sink| gets the bytes before they
 * are checked. */
KILN_MUST_CHECK enum kiln_code store_check_row(const struct stored_row *row, struct codec *codec,
                                               const struct piece_sink *sink,
                                               struct checked_row *ret_checked,
                                               struct kiln_err *err);
struct object_request {
    const struct digest *key;
    struct kernel_reader *reader;
    enum damage damage;
};
KILN_MUST_CHECK enum kiln_code store_read_object(struct db *db, struct codec *codec,
                                                 struct object_request *request,
                                                 struct object **ret_object, struct kiln_err *err);
/* Call this function after every look-up, with its result |rc|. If |rc| shows that the file is
 * damaged, the next write replaces the file. Returns |rc|. */
enum kiln_code store_note_read(struct kernel_store *store, enum kiln_code rc);

/* Bytes of a claim, which is a checksum of a key and its object's digest. Without a claim, a
 * flipped bit in an index or a row id could lead to an intact but wrong object. */
#define CLAIM_SIZE 16
void store_claim(const struct digest *key, const struct digest *object, uint8_t claim[CLAIM_SIZE]);

bool store_is_large(const struct object *object);
/* Forgets the pieces of a put if the file was replaced since the latest step of the put. */
void store_pieces_resume(const struct kernel_store *store, struct kernel_putting *putting);
KILN_MUST_CHECK enum kiln_code store_piece_add(struct kernel_store *store,
                                               struct kernel_putting *putting,
                                               const struct packed_object *piece,
                                               struct kiln_err *err);
/* Ends a put. Any thread may call this function, but not while a step of the put runs. If
 * |are_owned|, the pieces of the put now belong to a stored object. Otherwise they are removed
 * later. */
void store_pieces_end(struct kernel_store *store, struct kernel_putting *putting, bool are_owned);
/* Returns the digest of all unpacked bytes. Returns KILN_CORRUPT if the pieces have more bytes than
 * the object's row says. */
KILN_MUST_CHECK enum kiln_code store_read_pieces(const struct stored_row *row, struct codec *codec,
                                                 const struct piece_sink *sink,
                                                 struct digest *ret_digest, struct kiln_err *err);
/* Removes pieces that belong to no object and no put, but stops at the time |end_ns|. */
KILN_MUST_CHECK enum kiln_code store_remove_orphans(struct kernel_store *store, uint64_t end_ns,
                                                    bool *ret_more, struct kiln_err *err);

/* Returns false, without copying, if |bytes| does not have the size of a digest. */
bool store_to_digest(struct bytes bytes, struct digest *ret_digest);
#define RECORD_COLUMN_COUNT 24
struct kernel_record store_record(const struct query *q);
KILN_MUST_CHECK enum kiln_code store_report_records(struct query *q,
                                                    void (*each)(void *,
                                                                 const struct kernel_record *),
                                                    void *context, struct kiln_err *err);
void store_bind_filter(struct query *q, const struct kernel_filter *filter);
/* Returns -1 for KERNEL_SCOPE_EVERYONE. */
int64_t store_scope_number(uint64_t scope);
/* Returns OBJECT_CODE for an unknown number. */
enum object_kind store_kind(uint64_t number);

KILN_MUST_CHECK enum kiln_code store_run(struct kernel_store *store,
                                         enum kernel_statement statement, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code store_run_with_key(struct kernel_store *store,
                                                  enum kernel_statement statement,
                                                  const struct digest *key, struct kiln_err *err);
/* Returns the first column of the first row, or 0 if there is no row. */
KILN_MUST_CHECK enum kiln_code store_number(struct db *db, enum kernel_statement statement,
                                            uint64_t *ret_number, struct kiln_err *err);
/* Limits |seconds|, so that sums of times do not overflow. */
uint64_t store_time(uint64_t seconds);
KILN_MUST_CHECK enum kiln_code store_usage(struct db *db, struct kernel_usage *ret_usage,
                                           struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code store_count_matches(struct db *db,
                                                   const struct kernel_filter *filter,
                                                   uint64_t *ret_count, uint64_t *ret_bytes,
                                                   struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code store_clear_some(struct kernel_store *store,
                                                struct kernel_clearing *clearing,
                                                struct kiln_err *err);

/* Returns the kernel's value. The kernel with the lowest value is evicted first. */
int64_t store_keep_until(uint64_t last_used, uint64_t compile_ns, uint64_t stored_size,
                         bool is_named);
/* Evicts a kernel of |uid|, or of any user if |uid| is NULL. Call this function within a
 * transaction. |ret_gone| is false if all kernels are pinned. */
KILN_MUST_CHECK enum kiln_code store_evict_one(struct kernel_store *store, const uint32_t *uid,
                                               bool *ret_gone, struct kiln_err *err);
struct store_own {
    uint32_t uid;
    uint64_t before; /* only kernels last used before this time may be evicted */
    bool shared_too; /* public kernels of the user may be evicted, too */
};
KILN_MUST_CHECK enum kiln_code store_evict_own(struct kernel_store *store,
                                               const struct store_own *own, bool *ret_gone,
                                               struct kiln_err *err);
/* Finds the user with the most bytes, if that user exceeds their share of the limit. Otherwise
 * |ret_any| is false. */
KILN_MUST_CHECK enum kiln_code store_find_heaviest(struct kernel_store *store, uint32_t *ret_uid,
                                                   bool *ret_any, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code store_repair(struct kernel_store *store, struct kiln_err *err);

#define STORE_PAGE 4096u
/* Free disk space that a write needs. With less, the next write is likely to fail. */
#define STORE_FREE_MIN (1u << 20)

struct store_space { /* bytes */
    uint64_t file;   /* size of the file, including pages that are only in the log */
    uint64_t used;   /* pages of the file that are not free */
    uint64_t blocks; /* disk blocks of the file */
};
KILN_MUST_CHECK enum kiln_code store_measure(struct kernel_store *store,
                                             struct store_space *ret_space, struct kiln_err *err);
uint64_t store_log_share(uint64_t limit);

KILN_MUST_CHECK enum kiln_code store_bound_log(struct kernel_store *store, uint64_t max,
                                               struct kiln_err *err);

struct store_space_result {
    uint64_t evicted;
    bool again; /* the step's time was not sufficient: another step is needed */
    bool never; /* the bytes cannot fit, whatever is evicted */
    bool later; /* the file is being shrunk and is still too large */
    char why[320];
};
struct store_wanted {
    uint64_t need;               /* the number of bytes that the next transaction of the write
                                  * adds */
    uint64_t whole;              /* the maximum number of bytes that all transactions of the write
                                  * add */
    const struct store_own *own; /* NULL: the least valuable kernels may be evicted */
};
/* Works for about 20 ms to free space for a transaction. Call this function before that
 * transaction, because this function uses transactions of its own. If the whole write
 * (|wanted|->whole) can never fit, refuses it before it evicts anything. */
KILN_MUST_CHECK enum kiln_code store_make_space(struct kernel_store *store,
                                                const struct store_wanted *wanted,
                                                struct store_space_result *ret_result,
                                                struct kiln_err *err);
/* Returns the maximum number of bytes that a kernel's rows and its object may take. */
uint64_t store_need(uint64_t stored_size, uint64_t texts_size);
/* Moves pages until the file has |target| bytes or |pages_max| pages were moved. */
KILN_MUST_CHECK enum kiln_code store_truncate(struct kernel_store *store, uint64_t target,
                                              uint64_t pages_max, struct kiln_err *err);
struct store_eviction {
    uint64_t kernels;
    bool is_reached, none_left;
};
/* Runs for at most 20 ms. Stops when at most |used_max| bytes of pages are used, or when only
 * pinned kernels are left. */
KILN_MUST_CHECK enum kiln_code store_evict_some(struct kernel_store *store, uint64_t used_max,
                                                struct store_eviction *ret_eviction,
                                                struct kiln_err *err);
/* Replaces a message about a full disk by one that says what the operator can do. */
enum kiln_code store_advise_space(const struct kernel_store *store, enum kiln_code rc,
                                  struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code store_try_to_write(struct kernel_store *store, struct kiln_err *err);
/* Vacuums some pages after a write. */
KILN_MUST_CHECK enum kiln_code store_vacuum(struct kernel_store *store, struct kiln_err *err);
/* Returns the bytes of the disk blocks of kernels.db and its log. */
uint64_t store_taken_bytes(const struct kernel_store *store);
/* Returns how many kernels one transaction may change. Call store_before_batch before such a
 * transaction, so that its changes fit into the log. */
unsigned store_batch(const struct kernel_store *store);
KILN_MUST_CHECK enum kiln_code store_before_batch(struct kernel_store *store, struct kiln_err *err);
/* Returns the number of pages at which the log is checkpointed. */
unsigned store_log_pages(uint64_t limit_bytes);
