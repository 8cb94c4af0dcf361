/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The kernel store: compiled kernels on disk (kernels.db), within a size limit.
 *
 * Role       second tier of a fetch, after the hot set. It checks whatever it reads from disk: the
 *            object against its SHA-256, and that SHA-256 against the key (store_claim)
 * Ownership  the caller owns what ret_ parameters return
 * Threading  readers (get, show, list, match, each_named, nearest, usage, health, probes): any
 *            thread, concurrently. Writers: one thread at a time (the write queue).
 * On disk    docs/formats/kernels-db.md; schema in db/schema/kernels/
 *
 * Damage is not an error for a reader: the reader gets KILN_NOT_FOUND. If |ret_damaged| is set, the
 * reader must run kernel_store_quarantine on the write queue. If the file itself is damaged or
 * gone, the next write replaces it by an empty one.
 *
 * If the disk cannot be written to, stored kernels are still served. The first failing write
 * returns the failure, and kernel_store_health reports it until writing works again. Until then,
 * the store drops most writes for which no caller waits (put, touch, quarantine, probe_put), and
 * returns KILN_OK for these writes. From time to time, the store tries one of these writes to find
 * out whether the disk works again. Writes for which a caller waits are always tried.
 */
#include "common/base/list.h"
#include "common/miopen/device_database_id.h"
#include "engine/store/kernel_name.h"
#include "engine/store/object.h"

struct kernel_store;

enum kernel_store_mode {
    KERNEL_STORE_ON,
    /* Changes no file. Puts and touches are dropped with KILN_OK; changes that a user requests fail
     * with KILN_DENIED. */
    KERNEL_STORE_READ_ONLY,
    /* Opens nothing: every look-up misses. Writes behave as in KERNEL_STORE_READ_ONLY. */
    KERNEL_STORE_OFF,
};

struct kernel_store_options {
    const char *directory;    /* contains kernels.db; created with mode 0700 if absent */
    uint64_t limit_bytes;     /* limit of the disk blocks of kernels.db and its log */
    uint64_t quota_bytes_uid; /* limit of one uid's compressed kernels and rows; 0: no limit */
    unsigned readers;         /* connections: one for each thread that may read concurrently */
    enum kernel_store_mode mode;
    bool allow_network_fs; /* only tests set it */
};

/* A named kernel is one that is found by its MIOpen name (kernel_name.h). Texts are borrowed. */
struct kernel_record {
    struct digest key;
    struct digest object;
    struct digest toolchain_id; /* zeros: unknown; then gc never treats the kernel as stale */
    struct digest source_id;    /* SHA-256 over the source; zeros: unknown */
    struct digest headers_id;
    struct digest client_key; /* the client's key if a client compiled the kernel; zeros: none */
    const char *target;
    const char *toolchain;
    const char *program;
    const char *options;     /* for a named kernel, its arguments, verbatim */
    const char *database_id; /* for a named kernel, such as "gfx90a68"; otherwise NULL or "" */
    const char *package;     /* file name of the package that had the kernel; NULL or "": none */
    const char *version;
    uint64_t raw_size;
    uint64_t stored_size; /* bytes, compressed */
    uint64_t compile_ns;  /* 0: unknown */
    uint64_t created;     /* seconds since the epoch */
    uint64_t last_used;   /* seconds since the epoch */
    uint64_t uses;
    uint64_t id; /* increases in the order in which kernels were stored; ignored by put */
    enum object_kind kind;
    uint32_t uid; /* the kernel counts for this user's quota */
    bool is_private;
    bool pinned;
};

/* Returns false if |digest| is all zeros. */
bool digest_is_known(const struct digest *digest);

uint64_t kernel_record_scope(const struct kernel_record *record);

#define KERNELS_OF(kind) (1u << (kind))

struct kernel_filter {  /* a kernel must match all fields that are set */
    const char *target; /* "gfx90a" also matches gfx90a:xnack- */
    const char *program;
    const char *toolchain;
    const char *database_id;    /* of named kernels; "gfx906_60" also matches gfx906_60@3.2.0 */
    const char *package;        /* "fleet" also matches fleet:0123456789abcdef */
    struct digest toolchain_id; /* zeros: any */
    uint64_t older_than;        /* last used before this second; 0: any */
    unsigned kinds;             /* a set of KERNELS_OF(kind); 0: any */
    uint64_t scope;             /* valid if |by_scope|: a uid or KERNEL_SCOPE_EVERYONE */
    uint32_t uid;               /* valid if |by_uid| */
    bool by_scope;
    bool by_uid;
    bool not_pinned;
    bool by_reader; /* excludes kernels that are private to other users than |reader| */
    uint32_t reader;
};

struct kernel_usage {
    uint64_t objects;      /* distinct objects: several kernels may share one */
    uint64_t stored_bytes; /* size of the compressed objects */
    uint64_t raw_bytes;
    uint64_t limit_bytes;
    uint64_t taken_bytes; /* disk blocks of kernels.db and its log */
    uint64_t kernels;
    uint64_t pinned;
    uint64_t quarantined;
    uint64_t row_bytes; /* bytes that quotas count for the rows of kernels, without objects */
};

/* Sets both limits. If the store uses more than a new limit, it shrinks gradually: later writes
 * evict kernels. */
void kernel_store_set_limits(struct kernel_store *store, uint64_t limit_bytes,
                             uint64_t quota_bytes_uid);
/* Returns KILN_UNSUPPORTED for a network filesystem, and KILN_BUSY if another daemon uses the
 * directory. Replaces a damaged database by an empty one. If the disk is full, read-only or
 * failing, stored kernels are still served. |ret_notice| reports these problems. */
KILN_MUST_CHECK enum kiln_code kernel_store_open(const struct kernel_store_options *options,
                                                 struct kernel_store **ret_store,
                                                 char ret_notice[512], struct kiln_err *err);
void kernel_store_destroy(struct kernel_store *store);
enum kernel_store_mode kernel_store_mode(const struct kernel_store *store);
const char *kernel_store_mode_name(enum kernel_store_mode mode);
KILN_DEFINE_AUTO(kernel_store)

enum kernel_notice {
    KERNEL_NOTICE_NONE,
    KERNEL_NOTICE_REPLACED, /* the file was damaged or removed, and an empty one is in use */
    KERNEL_NOTICE_TROUBLE,  /* the store exceeds its limit, or a write failed */
    KERNEL_NOTICE_RECOVERED,
};
enum kernel_notice kernel_store_opening_notice(const struct kernel_store *store);
/* Returns each notice once, with a message for the log. Any thread may call this function. */
enum kernel_notice kernel_store_take_notice(struct kernel_store *store, char ret_notice[512]);

/* Number of reads that found damage which a second read did not find. Any thread may call this
 * function. */
uint64_t kernel_store_misreads(const struct kernel_store *store);

enum kernel_health_state {
    KERNEL_HEALTH_OK,
    KERNEL_HEALTH_FULL,
    KERNEL_HEALTH_READ_ONLY, /* read-only filesystem, or no permission */
    KERNEL_HEALTH_IO_ERROR,
};

struct kernel_health {
    enum kernel_health_state state;
    uint64_t since;   /* seconds since the epoch; 0 if |state| is KERNEL_HEALTH_OK */
    uint64_t dropped; /* writes that were dropped since |since|; no caller waited for them */
    char text[512];   /* the reason, and what to do; "" if |state| is KERNEL_HEALTH_OK */
};

const char *kernel_health_name(enum kernel_health_state state);
void kernel_store_health(struct kernel_store *store, struct kernel_health *ret_health);
/* Does one short step of maintenance: after a failed write, tests whether writing works again;
 * shrinks a store that exceeds its limit; vacuums free pages. Call this function periodically, and
 * again soon if |ret_more| is true. */
KILN_MUST_CHECK enum kiln_code kernel_store_tidy(struct kernel_store *store, bool *ret_more,
                                                 struct kiln_err *err);

/* Returns the kernel's object, or KILN_NOT_FOUND without a message. */
KILN_MUST_CHECK enum kiln_code kernel_store_get(struct kernel_store *store,
                                                const struct digest *key,
                                                struct object **ret_object, bool *ret_damaged,
                                                struct kiln_err *err);
struct kernel_reader {
    uint32_t uid;
    /* The members from here on are results. */
    bool damaged;   /* the kernel failed its check; call kernel_store_quarantine */
    bool hidden;    /* the kernel exists and is private to |owner| */
    uint32_t owner; /* valid if |hidden| */
};
/* Like kernel_store_get, but returns only kernels that |reader| may fetch. If the kernel is private
 * to another uid, returns KILN_NOT_FOUND before it reads the bytes, so that the time of the answer
 * does not reveal that the kernel exists. */
KILN_MUST_CHECK enum kiln_code kernel_store_get_as(struct kernel_store *store,
                                                   struct kernel_reader *reader,
                                                   const struct digest *key,
                                                   struct object **ret_object,
                                                   struct kiln_err *err);
/* Stores a kernel. If the quota is exceeded, evicts kernels of the same uid. If the limit is
 * exceeded, evicts kernels of any uid, but first of a uid that uses more than half of the limit.
 * Adds the number of evicted kernels to |ret_evicted|. Returns KILN_FULL if the object alone
 * exceeds limit or quota, if only pinned kernels are left to evict, or if the disk is full. */
KILN_MUST_CHECK enum kiln_code kernel_store_put(struct kernel_store *store,
                                                const struct kernel_record *record,
                                                const struct object *object, uint64_t *ret_evicted,
                                                struct kiln_err *err);
#define KERNEL_PIECE_MAX (1u << 20)

struct kernel_putting { /* the caller sets |record|, |object| and |is_import|, and zeroes the other
                         * members */
    const struct kernel_record *record; /* borrowed during each step */
    const struct object *object;        /* borrowed until |is_over| */
    bool is_import;                     /* the rules of kernel_store_import apply */
    uint64_t evicted;
    bool is_over;
    struct list_link link;
    uint64_t opening;     /* the members from here on are private to the store */
    uint64_t piece_set;   /* 0: no piece is stored */
    uint64_t packed_size; /* bytes of the stored pieces */
    uint64_t raw_size;    /* bytes of the stored pieces before packing */
};
/* Packs and stores at most KERNEL_PIECE_MAX bytes, or evicts kernels for 20 ms. Repeat the call
 * until |is_over| is true, or end the put early with kernel_store_put_abandon. A failure also ends
 * the put. Readers cannot find the kernel before the last step. */
KILN_MUST_CHECK enum kiln_code kernel_store_put_some(struct kernel_store *store,
                                                     struct kernel_putting *putting,
                                                     struct kiln_err *err);
/* Ends a put early. Any thread may call this function, but not while a step of |putting| runs. Does
 * nothing if the put is over or has not begun. */
void kernel_store_put_abandon(struct kernel_store *store, struct kernel_putting *putting);
/* Number of puts and imports that stored something. Call this function on the write queue. */
uint64_t kernel_store_stored_count(const struct kernel_store *store);
/* Number of kernels that were evicted because a user exceeded their quota. Call this function on
 * the write queue. */
uint64_t kernel_store_quota_evictions(const struct kernel_store *store);
/* Stores a kernel that a user imports. If the quota is exceeded, returns KILN_FULL and evicts
 * nothing. If there is no space for a private kernel, evicts only private kernels of the same uid
 * or, if that uid uses more than half of the limit, any kernels of it. Only kernels last used
 * before |record|'s last_used are evicted, so that kernels of one import do not evict each
 * other. */
KILN_MUST_CHECK enum kiln_code kernel_store_import(struct kernel_store *store,
                                                   const struct kernel_record *record,
                                                   const struct object *object,
                                                   uint64_t *ret_evicted, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code kernel_store_quarantine(struct kernel_store *store,
                                                       const struct digest *key,
                                                       struct kiln_err *err);

struct kernel_damage { /* a damaged row of a package; texts are borrowed */
    const char *package;
    const char *row; /* the kernel's name, or its hexadecimal key */
    const char *reason;
    uint64_t found; /* seconds since the epoch; ignored by kernel_store_quarantine_packaged */
};
/* Records each row once. If there are too many records, deletes the oldest. */
KILN_MUST_CHECK enum kiln_code kernel_store_quarantine_packaged(struct kernel_store *store,
                                                                const struct kernel_damage *damage,
                                                                struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code kernel_store_quarantine_forget(struct kernel_store *store,
                                                              const char *package,
                                                              struct kiln_err *err);
/* Reports the newest record first. */
KILN_MUST_CHECK enum kiln_code kernel_store_quarantine_of(
    struct kernel_store *store, const char *package,
    void (*each)(void *context, const struct kernel_damage *damage), void *context,
    struct kiln_err *err);
/* |now|: seconds since the epoch */
KILN_MUST_CHECK enum kiln_code kernel_store_touch(struct kernel_store *store,
                                                  const struct digest *keys, size_t count,
                                                  uint64_t now, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code kernel_store_show(struct kernel_store *store,
                                                 const struct digest *key,
                                                 void (*each)(void *, const struct kernel_record *),
                                                 void *context, struct kiln_err *err);
/* Sets |ret_agrees| if another user than |record|->uid has sent the same object for the same
 * client_key. Two uids in one range of subordinate uids (subuid(5)) count as the same user. */
KILN_MUST_CHECK enum kiln_code kernel_store_agrees(struct kernel_store *store,
                                                   const struct kernel_record *record,
                                                   bool *ret_agrees, struct kiln_err *err);
/* Returns KILN_NOT_FOUND without a message if there is no such kernel. */
KILN_MUST_CHECK enum kiln_code kernel_store_remove(struct kernel_store *store,
                                                   const struct digest *key, struct kiln_err *err);

struct kernel_page {
    struct kernel_filter filter;
    const struct digest *after; /* borrowed: the last key of the previous page; NULL: none */
    size_t max;
};
KILN_MUST_CHECK enum kiln_code kernel_store_list(struct kernel_store *store,
                                                 const struct kernel_page *page,
                                                 void (*each)(void *, const struct kernel_record *),
                                                 void *context, struct kiln_err *err);
struct kernel_newer {
    uint64_t after; /* an id */
    size_t max;
    void (*each)(void *context, const struct kernel_record *record);
    void *context;
};
/* Reports public kernels with an id greater than |newer|->after, in the order in which they were
 * stored. |ret_last| is the largest id of all kernels; 0: there is none, or the cache is off. If
 * |ret_last| is less than |newer|->after, kernels.db was replaced. */
KILN_MUST_CHECK enum kiln_code kernel_store_each_newer(struct kernel_store *store,
                                                       const struct kernel_newer *newer,
                                                       uint64_t *ret_last, struct kiln_err *err);
struct kernel_keys {
    struct digest *keys; /* borrowed array of |max| elements */
    size_t max;
    size_t count;
};
/* Returns the keys that begin with |prefix| (1 to 64 hexadecimal digits), without kernels that are
 * private to other users than |uid|. If |uid| is NULL, returns the keys of all kernels. Returns
 * KILN_INVALID if too many keys begin with |prefix|. */
KILN_MUST_CHECK enum kiln_code kernel_store_match(struct kernel_store *store, const char *prefix,
                                                  const uint32_t *uid, struct kernel_keys *ret_keys,
                                                  struct kiln_err *err);

struct kernel_position { /* progress of an export; zeroed before the first call */
    bool is_public;      /* true: private kernels are done, and public ones are reported */
    uint64_t id;
};

/* Returns "gfx90a68@VERSION" if all named kernels of this device that the uid may fetch have the
 * same version of MIOpen. Otherwise, or if there are none, returns KILN_NOT_FOUND without a
 * message. */
KILN_MUST_CHECK enum kiln_code kernel_store_only_version(struct kernel_store *store, uint32_t uid,
                                                         struct bytes database_id,
                                                         char ret_id[VERSIONED_ID_MAX],
                                                         struct kiln_err *err);

struct kernel_export {
    uint32_t uid; /* only kernels that this user may fetch are reported */
    const char *database_id;
    size_t max; /* maximum number of kernels that one call reads; skipped ones count, too */
    /* |raw| is the checked object, borrowed for the call. If the object failed its check, |raw|
     * is empty; call kernel_store_quarantine after the export. |each| must not call the store,
     * and returns false to stop after this kernel. */
    bool (*each)(void *context, const struct kernel_record *record, struct bytes raw);
    void *context;
};
/* Reports the user's private kernels and then the public ones that no private kernel replaces, both
 * in the order in which they were stored. Advances |position|. Sets |ret_end| if no kernel is left
 * to report. */
KILN_MUST_CHECK enum kiln_code kernel_store_each_named(struct kernel_store *store,
                                                       const struct kernel_export *kernels,
                                                       struct kernel_position *position,
                                                       bool *ret_end, struct kiln_err *err);

#define KERNEL_NEAREST_MAX 3
/* Among the kernels that the user |wanted|->uid may fetch, reports those most similar to |wanted|,
 * the most similar first. If there are kernels of the same program, compares only these. A kernel
 * is more similar if more of these fields are equal: arch, target features, options, source,
 * headers, toolchain, toolchain identity and database id. Empty fields of |wanted| do not count.
 * Examines only a limited number of the newest kernels. Returns KILN_NOT_FOUND without a message if
 * it finds no kernel. */
KILN_MUST_CHECK enum kiln_code kernel_store_nearest(
    struct kernel_store *store, const struct kernel_record *wanted,
    void (*each)(void *, const struct kernel_record *), void *context, struct kiln_err *err);

/* Counts matching kernels. |ret_bytes| is the total of the stored bytes of their objects; an object
 * that several kernels share counts once. */
KILN_MUST_CHECK enum kiln_code kernel_store_count(struct kernel_store *store,
                                                  const struct kernel_filter *filter,
                                                  uint64_t *ret_count, uint64_t *ret_bytes,
                                                  struct kiln_err *err);
/* The caller sets |filter| and zeroes the other members. */
struct kernel_clearing {
    struct kernel_filter filter; /* texts are borrowed */
    uint64_t count, bytes;
    uint64_t after;
    bool is_removed;
    bool is_over;
};
/* Removes matching kernels, and objects that no kernel uses any more. If the filter matches
 * everything, removes the file itself, which works even on a full disk. A step ends after 20 ms,
 * after 512 removed kernels, or after 4096 examined ones; a large object or a vacuum may take
 * longer. Repeat the call until |is_over|. */
KILN_MUST_CHECK enum kiln_code kernel_store_clear_some(struct kernel_store *store,
                                                       struct kernel_clearing *clearing,
                                                       struct kiln_err *err);
/* Pins or unpins a kernel. If the kernel does not exist, sets |ret_found| to false and returns
 * KILN_OK. */
KILN_MUST_CHECK enum kiln_code kernel_store_pin(struct kernel_store *store,
                                                const struct digest *key, bool pinned,
                                                bool *ret_found, struct kiln_err *err);
struct kernel_pinning { /* the caller sets |filter| and |pinned|, and zeroes the other members */
    struct kernel_filter filter;
    bool pinned;
    uint64_t count;
    uint64_t after;
    bool is_over;
};
/* Runs for at most 20 ms. Repeat the call until |is_over|. */
KILN_MUST_CHECK enum kiln_code kernel_store_pin_some(struct kernel_store *store,
                                                     struct kernel_pinning *pinning,
                                                     struct kiln_err *err);

struct kernel_gc {
    bool stale; /* remove kernels of toolchains that are not in |toolchains| */
    const struct digest *toolchains;
    size_t toolchain_count;
    bool shrink;       /* evict the least valuable kernels until at most |to_bytes| are taken */
    uint64_t to_bytes; /* disk blocks */
    bool dry_run;
};

struct kernel_gc_result {
    uint64_t stale_kernels, stale_bytes;     /* stored bytes of the objects */
    uint64_t evicted_kernels, evicted_bytes; /* bytes of the objects and of the rows */
    uint64_t taken_before, taken_after;      /* disk blocks; equal after a dry run */
    bool missed; /* the store still takes more than |to_bytes|, because of pinned kernels or empty
                  * tables */
};

/* Maximum number of stale toolchains whose kernels one gc removes. Each compiler upgrade makes one
 * toolchain stale. */
#define KERNEL_STALE_MAX 256u

enum kernel_collecting_phase {
    GC_BEGINNING,
    GC_REPAIRING,
    GC_STALE,
    GC_TRUNCATING,
    GC_SHRINKING,
    GC_OVER,
};

struct kernel_collecting { /* the caller sets |gc| and zeroes the other members */
    struct kernel_gc gc;
    struct kernel_gc_result result;
    enum kernel_collecting_phase phase;
    bool needs_repair; /* the stored counters disagree with the rows */
    struct digest stale[KERNEL_STALE_MAX];
    size_t stale_count, next;
    struct kernel_clearing clearing;
    unsigned rounds;
    uint64_t used_max; /* maximum bytes of used pages after this round of eviction */
    bool is_evicting, none_left;
};

/* Begins a gc that is not a dry run, on any thread. Reads all rows, and writes nothing. */
KILN_MUST_CHECK enum kiln_code kernel_store_collect_begin(struct kernel_store *store,
                                                          struct kernel_collecting *collecting,
                                                          struct kiln_err *err);
/* Does one step of a gc, which never removes pinned kernels. Named kernels and kernels of an
 * unknown toolchain are never stale. The gc also repairs stored counters that disagree with the
 * rows, and vacuums all free space. A step takes about 20 ms; a repair or a large object may take
 * longer. Repeat the call until the phase is GC_OVER. A dry run has one step. */
KILN_MUST_CHECK enum kiln_code kernel_store_collect_some(struct kernel_store *store,
                                                         struct kernel_collecting *collecting,
                                                         struct kiln_err *err);

KILN_MUST_CHECK enum kiln_code kernel_store_usage(struct kernel_store *store,
                                                  struct kernel_usage *ret_usage,
                                                  struct kiln_err *err);
struct kernel_check {
    const char *directory;
    uint64_t bytes; /* size of the file and its log; 0: no file, or the mode is off */
    bool checked;   /* SQLite checked every page; |damage| is its result */
    uint64_t age_s;
    char damage[256];
    uint64_t newest; /* latest time recorded in the store; 0: none */
};
struct kernel_check_options {
    uint64_t bytes_max; /* a larger file is not checked, because the check reads all of it */
    /* Maximum age of an earlier check whose result is returned instead of checking again. Damage
     * that was seen since that check makes its result invalid. */
    uint64_t age_max_s;
};
KILN_MUST_CHECK enum kiln_code kernel_store_check(struct kernel_store *store,
                                                  const struct kernel_check_options *options,
                                                  struct kernel_check *ret_check,
                                                  struct kiln_err *err);
/* Reports for each uid the number of its kernels and the bytes that they take. If several kernels
 * share an object, the object counts once for each of these kernels. */
KILN_MUST_CHECK enum kiln_code kernel_store_usage_by_uid(struct kernel_store *store,
                                                         void (*each)(void *, uint32_t uid,
                                                                      uint64_t kernels,
                                                                      uint64_t bytes),
                                                         void *context, struct kiln_err *err);

struct kernel_probe { /* whether a toolchain can compile for a target; texts are borrowed */
    struct digest toolchain_id;
    const char *target;
    const char *detail; /* why the toolchain cannot; may be NULL or "" */
    bool works;
};
/* Replaces an earlier result for the same toolchain and target. */
KILN_MUST_CHECK enum kiln_code kernel_store_probe_put(struct kernel_store *store,
                                                      const struct kernel_probe *probe,
                                                      struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code kernel_store_probes(struct kernel_store *store,
                                                   void (*each)(void *,
                                                                const struct kernel_probe *probe),
                                                   void *context, struct kiln_err *err);
