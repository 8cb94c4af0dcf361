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
 * A reader never gets an error for damage. If a row fails its check, the reader gets
 * KILN_NOT_FOUND, and |ret_damaged| asks it to run kernel_store_quarantine on the write queue. If
 * the file itself is damaged or gone, the next write replaces it by an empty one.
 * kernel_store_take_notice returns the message for the log.
 *
 * A disk that cannot be written to is not an error for readers either: stored kernels are still
 * served. The first failing write returns the failure, and from then on kernel_store_health reports
 * it. While writing is off, writes without a waiting caller (put, touch, quarantine, probe_put) are
 * dropped with KILN_OK, apart from an occasional retry. Explicitly requested writes (all others)
 * are always tried. A notice reports when writing works again.
 */
#include "common/base/list.h"
#include "common/miopen/device_database_id.h"
#include "engine/store/kernel_name.h"
#include "engine/store/object.h"

struct kernel_store;

enum kernel_store_mode {
    KERNEL_STORE_ON,
    /* Serves stored kernels and changes no file. Puts and touches are dropped with KILN_OK;
     * explicitly requested changes fail with KILN_DENIED. */
    KERNEL_STORE_READ_ONLY,
    /* Opens nothing: every lookup misses, and every list is empty. Writes behave as in
     * READ_ONLY. */
    KERNEL_STORE_OFF,
};

struct kernel_store_options {
    const char *directory;    /* contains kernels.db; created if absent, mode 0700 */
    uint64_t limit_bytes;     /* limit of the disk blocks of kernels.db and its log, bytes */
    uint64_t quota_bytes_uid; /* limit of one uid's compressed kernels and rows; 0: no limit */
    unsigned readers; /* connections for lookups: one for each thread that may read concurrently */
    enum kernel_store_mode mode;
    bool allow_network_fs; /* only tests set it */
};

/* All that is known about a stored kernel; texts are borrowed. A named kernel is one that is found
 * by its MIOpen name (kernel_name.h). */
struct kernel_record {
    struct digest key; /* of a named kernel: kernel_name_key() */
    struct digest object;
    struct digest toolchain_id; /* zeros: unknown; then gc never treats the kernel as stale */
    struct digest source_id;    /* SHA-256 over the source; zeros: unknown */
    struct digest headers_id;   /* SHA-256 over the headers; zeros: unknown */
    struct digest client_key;   /* of what a client compiled: the client's key; zeros: none */
    const char *target;
    const char *toolchain;
    const char *program;     /* of a named kernel: its name, verbatim */
    const char *options;     /* of a named kernel: its arguments, verbatim */
    const char *database_id; /* of a named kernel, as "gfx90a68"; NULL or "": the kernel is not
                              * named */
    const char *package;     /* file name of the package it came from; NULL or "": none */
    const char *version;     /* version of the kiln that stored it */
    uint64_t raw_size;       /* bytes */
    uint64_t stored_size;    /* bytes, compressed */
    uint64_t compile_ns;     /* 0: unknown */
    uint64_t created;        /* seconds since the epoch */
    uint64_t last_used;      /* seconds since the epoch */
    uint64_t uses;
    uint64_t id; /* increases in the order in which kernels were stored; ignored by put */
    enum object_kind kind;
    uint32_t uid;    /* the first user who requested the kernel, which counts for this user's
                      * quota */
    bool is_private; /* true: only |uid| may fetch it; false: everyone may */
    bool pinned;     /* never evicted */
};

/* Returns false if |digest| is all zeros, which means "unknown". */
bool digest_is_known(const struct digest *digest);

/* Returns KERNEL_SCOPE_EVERYONE for a public kernel, else the owner's uid. */
uint64_t kernel_record_scope(const struct kernel_record *record);

#define KERNELS_OF(kind) (1u << (kind))

struct kernel_filter {          /* a kernel must match all fields that are set; zeros match all */
    const char *target;         /* "gfx90a" also matches gfx90a:xnack- */
    const char *program;        /* the complete name of a program or a named kernel */
    const char *toolchain;      /* name of the toolchain */
    const char *database_id;    /* of named kernels; "gfx906_60" also matches gfx906_60@3.2.0 */
    const char *package;        /* file name */
    struct digest toolchain_id; /* zeros: any */
    uint64_t older_than;        /* last used before this second; 0: any */
    unsigned kinds;             /* a set of KERNELS_OF(kind); 0: any */
    uint64_t scope;             /* with by_scope: a uid or KERNEL_SCOPE_EVERYONE */
    uint32_t uid;               /* used with by_uid */
    bool by_scope;
    bool by_uid;
    bool not_pinned; /* excludes pinned kernels */
    bool by_reader;  /* excludes kernels private to other users than |reader| */
    uint32_t reader; /* uid */
};

struct kernel_usage {
    uint64_t objects;      /* distinct objects: several kernels may share one */
    uint64_t stored_bytes; /* of objects, compressed */
    uint64_t raw_bytes;    /* of objects */
    uint64_t limit_bytes;  /* the limit of taken_bytes */
    uint64_t taken_bytes;  /* disk blocks of kernels.db and its log */
    uint64_t kernels;      /* number of keys */
    uint64_t pinned;       /* number of pinned keys */
    uint64_t quarantined;  /* rows kept after a failed check, including rows of packages */
    uint64_t row_bytes;    /* bytes that quotas count for the metadata rows of kernels */
};

/* Changes the limits from the next write on. If the store exceeds a lower limit, later writes evict
 * kernels in several steps. */
void kernel_store_set_limits(struct kernel_store *store, uint64_t limit_bytes,
                             uint64_t quota_bytes_uid);
/* Opens the store. KILN_UNSUPPORTED: a network filesystem; the message names the setting of the
 * directory. KILN_BUSY: another daemon uses the directory; the message names its pid. A damaged
 * database is replaced by an empty one, and |ret_notice| says so. If the disk is full, read-only or
 * failing, stored kernels are still served; |ret_notice| and kernel_store_health report the
 * failure. */
KILN_MUST_CHECK enum kiln_code kernel_store_open(const struct kernel_store_options *options,
                                                 struct kernel_store **ret_store,
                                                 char ret_notice[512], struct kiln_err *err);
void kernel_store_destroy(struct kernel_store *store);
enum kernel_store_mode kernel_store_mode(const struct kernel_store *store);
const char *kernel_store_mode_name(enum kernel_store_mode mode); /* "on", "read-only", "off" */
KILN_DEFINE_AUTO(kernel_store)

enum kernel_notice {
    KERNEL_NOTICE_NONE,
    KERNEL_NOTICE_REPLACED,  /* the file was damaged, removed or replaced; another one is in use */
    KERNEL_NOTICE_TROUBLE,   /* the store exceeds its limit and stores nothing new for a while, or a
                              * failed write with a waiting caller changed the state of
                              * kernel_store_health */
    KERNEL_NOTICE_RECOVERED, /* writing works again */
};
/* Returns the kind of the notice that kernel_store_open returned in |ret_notice|. */
enum kernel_notice kernel_store_opening_notice(const struct kernel_store *store);
/* Returns each notice once, with the message for the log in |ret_notice|. Call it on any thread. */
enum kernel_notice kernel_store_take_notice(struct kernel_store *store, char ret_notice[512]);

/* Number of reads since the store was opened that found damage which a second read from the disk
 * did not confirm. Call it on any thread. */
uint64_t kernel_store_misreads(const struct kernel_store *store);

/* ---- health ---- */

enum kernel_health_state {
    KERNEL_HEALTH_OK,
    KERNEL_HEALTH_FULL,      /* the disk is full, or a disk quota is exhausted */
    KERNEL_HEALTH_READ_ONLY, /* read-only filesystem, or no permission */
    KERNEL_HEALTH_IO_ERROR,
};

struct kernel_health {
    enum kernel_health_state state; /* whether writing works; reading is not affected */
    uint64_t since;                 /* seconds since the epoch; 0 while ok */
    uint64_t dropped;               /* writes dropped since |since|, for which no caller waited */
    char text[512];                 /* the reason, and what to do; "" while ok */
};

/* "ok", "full", "read-only", "io-error" */
const char *kernel_health_name(enum kernel_health_state state);
void kernel_store_health(struct kernel_store *store, struct kernel_health *ret_health);
/* Does one short step of background maintenance: retries writing while it is off, shrinks a store
 * that exceeds its limit, and vacuums free pages. |ret_more|: call again soon. Call it
 * periodically. Other writes do such steps, too. */
KILN_MUST_CHECK enum kiln_code kernel_store_tidy(struct kernel_store *store, bool *ret_more,
                                                 struct kiln_err *err);

/* ---- one kernel ---- */

/* Reads an object. Returns KILN_NOT_FOUND without a message on a miss. */
KILN_MUST_CHECK enum kiln_code kernel_store_get(struct kernel_store *store,
                                                const struct digest *key,
                                                struct object **ret_object, bool *ret_damaged,
                                                struct kiln_err *err);
struct kernel_reader { /* the user on whose behalf a kernel is read */
    uint32_t uid;
    /* Set by the store: */
    bool damaged;   /* the kernel failed its check: call kernel_store_quarantine */
    bool hidden;    /* the kernel exists and is private to |owner| */
    uint32_t owner; /* valid if |hidden| */
};
/* Like kernel_store_get, on behalf of |reader|. If the kernel is private to another uid, returns
 * KILN_NOT_FOUND before it reads the bytes, so that neither the answer nor its timing reveals that
 * the kernel exists. */
KILN_MUST_CHECK enum kiln_code kernel_store_get_as(struct kernel_store *store,
                                                   struct kernel_reader *reader,
                                                   const struct digest *key,
                                                   struct object **ret_object,
                                                   struct kiln_err *err);
/* Stores |object| under |record|'s key and adds the number of evicted kernels to |ret_evicted|. If
 * the quota is exceeded, kernels of the same uid are evicted. If the limit is exceeded, kernels of
 * a uid that uses more than half of the limit are evicted first, then kernels of any uid.
 * KILN_FULL: the object alone exceeds limit or quota, only pinned kernels are left to evict, or the
 * disk is full. */
KILN_MUST_CHECK enum kiln_code kernel_store_put(struct kernel_store *store,
                                                const struct kernel_record *record,
                                                const struct object *object, uint64_t *ret_evicted,
                                                struct kiln_err *err);
/* Larger objects are stored in pieces of this size. */
#define KERNEL_PIECE_MAX (1u << 20)

struct kernel_putting { /* a put or an import in steps; zeroed before the first step, except for the
                         * first three members */
    const struct kernel_record *record; /* borrowed during each step */
    const struct object *object;        /* borrowed until |is_over| */
    bool is_import;                     /* true: like kernel_store_import; false: like
                                         * kernel_store_put */
    uint64_t evicted;                   /* kernels evicted so far */
    bool is_over;
    /* The members below are private to the store. */
    struct list_link link;
    uint64_t opening;     /* value of kernel_store.openings when the pieces were stored */
    uint64_t piece_set;   /* number of the set of pieces; 0: no piece is stored */
    uint64_t packed_size; /* bytes of the stored pieces */
    uint64_t raw_size;    /* bytes of the object that the stored pieces have */
};
/* Does one step of a put or an import. A step packs and stores at most KERNEL_PIECE_MAX bytes, or
 * evicts kernels for 20 ms. Call it until |is_over|, or call kernel_store_put_abandon. A failure
 * also ends the put. The kernel cannot be read before the last step. */
KILN_MUST_CHECK enum kiln_code kernel_store_put_some(struct kernel_store *store,
                                                     struct kernel_putting *putting,
                                                     struct kiln_err *err);
/* Ends a put early. The pieces that it has stored are removed later. Call it on any thread while no
 * step of |putting| runs. Does nothing if the put is over or has not begun. */
void kernel_store_put_abandon(struct kernel_store *store, struct kernel_putting *putting);
/* Number of puts and imports that stored something since the store was opened. A put that is
 * dropped while writing is off returns KILN_OK but does not count. Call it on the write queue. */
uint64_t kernel_store_stored_count(const struct kernel_store *store);
/* Number of kernels evicted by quotas since the store was opened. Call it on the write queue. */
uint64_t kernel_store_quota_evictions(const struct kernel_store *store);
/* Like kernel_store_put, for a kernel that a user imports. If the quota is exceeded, evicts nothing
 * and returns KILN_FULL; the message has the uid's usage and what to do. If there is no space for a
 * private kernel, evicts only private kernels of the same uid, or any kernels of the uid if they
 * use more than half of the limit. Only kernels last used before |record|'s last_used are evicted,
 * so that kernels of one import do not evict each other. Returns KILN_FULL if that does not free
 * enough space. */
KILN_MUST_CHECK enum kiln_code kernel_store_import(struct kernel_store *store,
                                                   const struct kernel_record *record,
                                                   const struct object *object,
                                                   uint64_t *ret_evicted, struct kiln_err *err);
/* Moves the row of a damaged object to the quarantine, which keeps a limited number of rows for
 * inspection. First checks the kernel again. If it passes or no longer exists, changes nothing and
 * returns KILN_OK. */
KILN_MUST_CHECK enum kiln_code kernel_store_quarantine(struct kernel_store *store,
                                                       const struct digest *key,
                                                       struct kiln_err *err);

struct kernel_damage {   /* a damaged row of a package (kiln does not change the package); texts are
                          * borrowed */
    const char *package; /* file name */
    const char *row;     /* the kernel's name, or its key in hexadecimal */
    const char *reason;  /* a complete message */
    uint64_t found;      /* seconds since the epoch; ignored by put */
};
/* Records the damage, once for each row. The number of records is limited; the oldest are
 * deleted. */
KILN_MUST_CHECK enum kiln_code kernel_store_quarantine_packaged(struct kernel_store *store,
                                                                const struct kernel_damage *damage,
                                                                struct kiln_err *err);
/* Deletes the records of |package|, which was replaced or removed. */
KILN_MUST_CHECK enum kiln_code kernel_store_quarantine_forget(struct kernel_store *store,
                                                              const char *package,
                                                              struct kiln_err *err);
/* Reports the records of |package|, the newest first. */
KILN_MUST_CHECK enum kiln_code kernel_store_quarantine_of(
    struct kernel_store *store, const char *package,
    void (*each)(void *context, const struct kernel_damage *damage), void *context,
    struct kiln_err *err);
/* Records that |keys| were used at |now| (seconds since the epoch). */
KILN_MUST_CHECK enum kiln_code kernel_store_touch(struct kernel_store *store,
                                                  const struct digest *keys, size_t count,
                                                  uint64_t now, struct kiln_err *err);
/* Calls |each| once for the kernel. KILN_NOT_FOUND without a message if there is none. */
KILN_MUST_CHECK enum kiln_code kernel_store_show(struct kernel_store *store,
                                                 const struct digest *key,
                                                 void (*each)(void *, const struct kernel_record *),
                                                 void *context, struct kiln_err *err);
/* Sets |ret_agrees| to whether a user other than |record|->uid sent the same object for the same
 * client_key. */
KILN_MUST_CHECK enum kiln_code kernel_store_agrees(struct kernel_store *store,
                                                   const struct kernel_record *record,
                                                   bool *ret_agrees, struct kiln_err *err);
/* Removes a kernel. KILN_NOT_FOUND without a message if there is none. */
KILN_MUST_CHECK enum kiln_code kernel_store_remove(struct kernel_store *store,
                                                   const struct digest *key, struct kiln_err *err);

/* ---- many kernels ---- */

struct kernel_page { /* one page of a list */
    struct kernel_filter filter;
    const struct digest *after; /* borrowed: the last key of the previous page; NULL: none */
    size_t max;                 /* maximum number of kernels */
};
/* Calls |each| for the kernels of |page| in order of their keys. */
KILN_MUST_CHECK enum kiln_code kernel_store_list(struct kernel_store *store,
                                                 const struct kernel_page *page,
                                                 void (*each)(void *, const struct kernel_record *),
                                                 void *context, struct kiln_err *err);
struct kernel_keys {
    struct digest *keys; /* borrowed array of |max| elements */
    size_t max;
    size_t count; /* set by the store */
};
/* Writes into |ret_keys| the keys that begin with |prefix| (1 to 64 hexadecimal digits). Leaves out
 * kernels that are private to other users than |uid|; if |uid| is NULL, leaves out nothing.
 * Examines only a limited number of keys, and returns KILN_INVALID if more of them begin with
 * |prefix|. */
KILN_MUST_CHECK enum kiln_code kernel_store_match(struct kernel_store *store, const char *prefix,
                                                  const uint32_t *uid, struct kernel_keys *ret_keys,
                                                  struct kiln_err *err);

struct kernel_position { /* the position of an export; zeroed before the first call */
    bool is_public;      /* true: private kernels are done, and public ones are reported */
    uint64_t id;         /* id of the kernel that was reported last */
};

/* Returns "gfx90a68@VERSION" if all named kernels of this device that the uid may fetch are stored
 * under this one version of MIOpen. Returns KILN_NOT_FOUND without a message if they have several
 * versions, if one has no version, or if there are none. */
KILN_MUST_CHECK enum kiln_code kernel_store_only_version(struct kernel_store *store, uint32_t uid,
                                                         struct bytes database_id,
                                                         char ret_id[VERSIONED_ID_MAX],
                                                         struct kiln_err *err);

struct kernel_export { /* the named kernels to report; borrowed for the call */
    uint32_t uid;      /* the user who may fetch them */
    const char *database_id;
    size_t max; /* limit of kernels that are read, whether they are reported or not */
    /* Called for each kernel. |raw| is the checked object, borrowed for the call. It is empty if
     * the object failed its check; call kernel_store_quarantine later in that case. |each| must not
     * call the store. It returns false to stop; the current kernel still counts as reported. */
    bool (*each)(void *context, const struct kernel_record *record, struct bytes raw);
    void *context;
};
/* Reports named kernels, starting at |position|, which it advances. The user's private kernels come
 * first, then the public ones that no private kernel replaces, each group in the order in which
 * they were stored. |ret_end|: no kernel is left. */
KILN_MUST_CHECK enum kiln_code kernel_store_each_named(struct kernel_store *store,
                                                       const struct kernel_export *kernels,
                                                       struct kernel_position *position,
                                                       bool *ret_end, struct kiln_err *err);

#define KERNEL_NEAREST_MAX 3
/* Reports the stored kernels most similar to |wanted| that |wanted|->uid may fetch, best first. If
 * there are kernels of the same program, only these are compared. Kernels are ranked by how many of
 * these fields agree: arch, target features, options, source, headers, toolchain, toolchain
 * identity and database id. Empty fields of |wanted| do not count. Only a limited number of the
 * newest kernels is examined. Returns KILN_NOT_FOUND without a message if there is no kernel. */
KILN_MUST_CHECK enum kiln_code kernel_store_nearest(
    struct kernel_store *store, const struct kernel_record *wanted,
    void (*each)(void *, const struct kernel_record *), void *context, struct kiln_err *err);

/* Counts the matching kernels and the stored bytes of their objects (each object once). */
KILN_MUST_CHECK enum kiln_code kernel_store_count(struct kernel_store *store,
                                                  const struct kernel_filter *filter,
                                                  uint64_t *ret_count, uint64_t *ret_bytes,
                                                  struct kiln_err *err);
/* The progress of kernel_store_clear_some(). The caller zeroes it before the first call, except for
 * |filter|. */
struct kernel_clearing {
    struct kernel_filter filter; /* its texts are borrowed */
    uint64_t count, bytes;       /* removed so far: kernels, and stored bytes of their objects */
    uint64_t after;              /* id of the last kernel that was examined */
    bool is_removed;             /* all matching kernels are removed; the next steps truncate the
                                  * file */
    bool is_over;
};
/* Does one step of removing the matching kernels and returning their space to the filesystem. An
 * object is removed with its last kernel. A filter that matches everything works even on a full
 * disk, because the file itself is removed. A step ends after 20 ms, after 512 removed kernels, or
 * after 4096 examined ones; a large object or a vacuum may take longer. Call it until
 * |is_over|. */
KILN_MUST_CHECK enum kiln_code kernel_store_clear_some(struct kernel_store *store,
                                                       struct kernel_clearing *clearing,
                                                       struct kiln_err *err);
/* Pins or unpins one kernel. If it does not exist, sets |ret_found| to false and returns
 * KILN_OK. */
KILN_MUST_CHECK enum kiln_code kernel_store_pin(struct kernel_store *store,
                                                const struct digest *key, bool pinned,
                                                bool *ret_found, struct kiln_err *err);
struct kernel_pinning { /* a change of pins in steps; zeroed before the first call, except for
                         * |filter| and |pinned| */
    struct kernel_filter filter; /* its texts are borrowed */
    bool pinned;
    uint64_t count; /* matching kernels so far */
    uint64_t after; /* id of the last kernel that was examined */
    bool is_over;
};
/* Pins or unpins matching kernels for at most 20 ms. Call it until |is_over|. */
KILN_MUST_CHECK enum kiln_code kernel_store_pin_some(struct kernel_store *store,
                                                     struct kernel_pinning *pinning,
                                                     struct kiln_err *err);

struct kernel_gc {
    bool stale;                      /* remove kernels of toolchains that are not in |toolchains| */
    const struct digest *toolchains; /* identities of the toolchains that are still installed */
    size_t toolchain_count;
    bool shrink;       /* evict the least valuable kernels until at most |to_bytes| are taken */
    uint64_t to_bytes; /* disk blocks */
    bool dry_run;      /* only count; the result for |shrink| is an estimate */
};

struct kernel_gc_result {
    uint64_t stale_kernels, stale_bytes;     /* stored bytes of the objects */
    uint64_t evicted_kernels, evicted_bytes; /* bytes of the objects and of the rows */
    uint64_t taken_before, taken_after;      /* disk blocks; equal after a dry run */
    bool missed; /* more than |to_bytes| are still taken, by pinned kernels or empty tables */
};

/* Maximum number of stale toolchains. Each compiler upgrade leaves one. */
#define KERNEL_STALE_MAX 256u

enum kernel_collecting_phase {
    GC_BEGINNING,
    GC_REPAIRING,
    GC_STALE,
    GC_TRUNCATING,
    GC_SHRINKING,
    GC_OVER,
};

struct kernel_collecting { /* a gc in steps; zeroed before the first call, except for |gc| */
    struct kernel_gc gc;   /* its toolchains are borrowed */
    struct kernel_gc_result result;
    enum kernel_collecting_phase phase;
    bool needs_repair; /* counters disagree with the rows, or rows with each other */
    struct digest stale[KERNEL_STALE_MAX]; /* identities in the store that are not installed */
    size_t stale_count, next;
    struct kernel_clearing clearing; /* clears a stale toolchain's kernels, or truncates the file */
    unsigned rounds;                 /* rounds of eviction and truncation */
    uint64_t used_max;               /* bytes that used pages may have after this round */
    bool is_evicting, none_left;
};

/* Begins a gc that is not a dry run: reads all rows, and writes nothing. Call it on any thread,
 * before the steps. */
KILN_MUST_CHECK enum kiln_code kernel_store_collect_begin(struct kernel_store *store,
                                                          struct kernel_collecting *collecting,
                                                          struct kiln_err *err);
/* Does one step of a gc. It never removes pinned kernels. Named kernels, and others whose toolchain
 * is not known, are never stale. The gc also repairs counters that disagree with the rows, and
 * vacuums all free space. A step takes about 20 ms, but a repair and a large object may take
 * longer. Call it until the phase is GC_OVER. A dry run has one step. */
KILN_MUST_CHECK enum kiln_code kernel_store_collect_some(struct kernel_store *store,
                                                         struct kernel_collecting *collecting,
                                                         struct kiln_err *err);

/* ---- usage ---- */

KILN_MUST_CHECK enum kiln_code kernel_store_usage(struct kernel_store *store,
                                                  struct kernel_usage *ret_usage,
                                                  struct kiln_err *err);
struct kernel_check {
    const char *directory; /* directory of the store; borrowed from the store */
    uint64_t bytes;        /* size of the file and its log; 0: no file, or the mode is off */
    bool checked;          /* SQLite checked every page; |damage| is its result */
    uint64_t age_s;        /* age of that check */
    char damage[256];      /* "": none */
    uint64_t newest;       /* latest time recorded in the store; 0: none */
};
struct kernel_check_options {
    uint64_t bytes_max; /* a larger file is not checked, because the check reads all of it */
    /* An earlier result up to this age is accepted, unless damage was seen since. */
    uint64_t age_max_s;
};
/* Runs SQLite's integrity check on the whole file, or returns a recent result. */
KILN_MUST_CHECK enum kiln_code kernel_store_check(struct kernel_store *store,
                                                  const struct kernel_check_options *options,
                                                  struct kernel_check *ret_check,
                                                  struct kiln_err *err);
/* Reports usage by uid. A shared object counts for each of its kernels. */
KILN_MUST_CHECK enum kiln_code kernel_store_usage_by_uid(struct kernel_store *store,
                                                         void (*each)(void *, uint32_t uid,
                                                                      uint64_t kernels,
                                                                      uint64_t bytes),
                                                         void *context, struct kiln_err *err);

/* ---- probes ---- */

struct kernel_probe { /* whether a toolchain can compile for a target; texts are borrowed */
    struct digest toolchain_id; /* see engine/compile/toolchain.h */
    const char *target;
    const char *detail; /* why it cannot; NULL or "": nothing to add */
    bool works;
};
/* Stores a result, which replaces an earlier one for the same toolchain and target. */
KILN_MUST_CHECK enum kiln_code kernel_store_probe_put(struct kernel_store *store,
                                                      const struct kernel_probe *probe,
                                                      struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code kernel_store_probes(struct kernel_store *store,
                                                   void (*each)(void *,
                                                                const struct kernel_probe *probe),
                                                   void *context, struct kiln_err *err);
