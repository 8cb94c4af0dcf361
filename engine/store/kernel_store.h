/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The kernel store: compiled kernels on disk (kernels.db), within a limit.
 *
 * Role       second level of a fetch; content and claim are separate: an object is checked
 *            against its SHA-256 whenever it comes off disk, a key's claim names the object
 * Ownership  the caller owns what ret_ parameters return
 * Threading  what reads (get, show, list, match, each_named, nearest, usage, health, probes): any
 *            thread, at the same time.  What writes: one thread at a time (the write lane).
 * On disk    docs/formats/kernels-db.md; schema in db/schema/kernels/
 *
 * Damage is never an error to a reader: a row that fails its check is KILN_NOT_FOUND, and
 * |ret_damaged| asks the caller to have kernel_store_quarantine run on the write lane.  Where the
 * file itself is damaged, the next call that writes removes it and makes an empty one; so it does
 * where the file is gone.  The message for the log is at kernel_store_take_notice.
 *
 * Nor is a disk that cannot be written to: what is stored goes on being served.  The first write
 * that fails returns the failure; from then on kernel_store_health tells it, and what nobody waits
 * for (put, touch, quarantine, probe_put) is dropped with KILN_OK, but for a try now and then. What
 * somebody asked for (all else) is tried each time.  When a write works again, a notice says so.
 */
#include "engine/store/kernel_name.h"
#include "engine/store/object.h"

struct kernel_store;

enum kernel_store_mode {
    KERNEL_STORE_ON,
    /* Serves what is there and changes no file: puts and touches are dropped with KILN_OK, what
     * somebody asks to be changed is KILN_DENIED. */
    KERNEL_STORE_READ_ONLY,
    /* Opens nothing: every look-up is a miss, every list empty; writes as above. */
    KERNEL_STORE_OFF,
};

struct kernel_store_options {
    const char *directory;    /* holds kernels.db; made if absent, mode 0700 */
    uint64_t limit_bytes;     /* of the blocks that kernels.db and its log take on the disk */
    uint64_t quota_bytes_uid; /* of one uid's kernels, compressed, with their rows; 0: none */
    unsigned readers;         /* connections for look-ups, one per thread that may ask at once */
    enum kernel_store_mode mode;
    bool allow_network_fs; /* only tests set it */
};

struct kernel_record { /* everything known about one stored kernel; text fields are borrowed */
    struct digest key; /* of a named kernel: its kernel_name_key */
    struct digest object;
    struct digest toolchain_id; /* zeros: not known, never stale */
    struct digest source_id;    /* SHA-256 over the source; zeros: not known */
    struct digest headers_id;   /* over the headers; zeros: not known */
    const char *target;
    const char *toolchain;
    const char *program;     /* of a named kernel: its name, verbatim */
    const char *options;     /* of a named kernel: its arguments, verbatim */
    const char *database_id; /* "gfx90a68" makes it a named kernel; NULL or "": kiln's own */
    const char *package;     /* file name of the one it came from; NULL or "": none */
    const char *version;     /* kiln's that stored it */
    uint64_t raw_size;       /* bytes */
    uint64_t stored_size;    /* bytes, compressed */
    uint64_t compile_ns;     /* 0: not known */
    uint64_t created;        /* seconds since the epoch */
    uint64_t last_used;      /* seconds since the epoch */
    uint64_t uses;
    uint64_t id;     /* rises in the order in which kernels were stored; put takes no notice */
    uint32_t uid;    /* who asked for it first, and whose quota it counts against */
    bool is_private; /* it answers |uid| alone, else everyone */
    bool pinned;     /* never evicted */
};

/* KERNEL_SCOPE_EVERYONE, or the uid. */
uint64_t kernel_record_scope(const struct kernel_record *record);

struct kernel_filter {          /* all zero matches everything; what is set must match */
    const char *target;         /* "gfx90a" matches gfx90a:xnack- too */
    const char *program;        /* the whole name, of a program or a named kernel */
    const char *toolchain;      /* its name */
    const char *database_id;    /* of named kernels; "gfx906_60" matches gfx906_60@3.2.0 too */
    const char *package;        /* file name */
    struct digest toolchain_id; /* zeros: any */
    uint64_t older_than;        /* last used before this second; 0: any */
    uint64_t scope;             /* with by_scope: a uid or KERNEL_SCOPE_EVERYONE */
    uint32_t uid;               /* with by_uid */
    bool by_scope;
    bool by_uid;
    bool not_pinned; /* leaves pinned ones out */
    bool by_reader;  /* leaves out what is private to others than |reader| */
    uint32_t reader; /* uid */
};

struct kernel_usage {
    uint64_t objects;      /* different ones: several kernels may share one */
    uint64_t stored_bytes; /* of objects, compressed */
    uint64_t raw_bytes;    /* of objects */
    uint64_t limit_bytes;  /* for taken_bytes */
    uint64_t taken_bytes;  /* blocks of kernels.db and its log */
    uint64_t kernels;      /* keys */
    uint64_t pinned;       /* keys */
    uint64_t quarantined;  /* rows that failed their check and are kept, the packages' too */
    uint64_t row_bytes;    /* what the rows about them are counted as, in quotas */
};

/* Refuses a network filesystem (KILN_UNSUPPORTED, saying what to set) and a directory that another
 * daemon uses (KILN_BUSY, with its pid).  A damaged database is removed, which
 * |ret_notice| says, and an empty one made.  Where the disk is
 * full, read-only or failing, what is there is served; |ret_notice| and health say so. */
/* Other limits from the next write on.  What is beyond them goes as room is made for it. */
void kernel_store_set_limits(struct kernel_store *store, uint64_t limit_bytes,
                             uint64_t quota_bytes_uid);
KILN_MUST_CHECK enum kiln_code kernel_store_open(const struct kernel_store_options *options,
                                                 struct kernel_store **ret_store,
                                                 char ret_notice[512], struct kiln_err *err);
void kernel_store_destroy(struct kernel_store *store);
enum kernel_store_mode kernel_store_mode(const struct kernel_store *store);
const char *kernel_store_mode_name(enum kernel_store_mode mode); /* "on", "read-only", "off" */
KILN_DEFINE_AUTO(kernel_store)

enum kernel_notice {
    KERNEL_NOTICE_NONE,
    KERNEL_NOTICE_REPLACED,  /* the file was damaged, removed or exchanged: another one is used */
    KERNEL_NOTICE_TROUBLE,   /* it is beyond its limit, so that nothing new is taken for a while; or
                                what somebody waited for was the first write that failed */
    KERNEL_NOTICE_RECOVERED, /* it is written to again */
};
/* Of which kind opening's |ret_notice| was. */
enum kernel_notice kernel_store_opening(const struct kernel_store *store);
/* Once after each of them; |ret_notice| says what happened, for the log.  Any thread. */
enum kernel_notice kernel_store_take_notice(struct kernel_store *store, char ret_notice[512]);

/* ---- health ---- */

enum kernel_health_state {
    KERNEL_HEALTH_OK,
    KERNEL_HEALTH_FULL,      /* no room on the disk, or a quota of it */
    KERNEL_HEALTH_READ_ONLY, /* the filesystem, or no permission */
    KERNEL_HEALTH_IO_ERROR,
};

struct kernel_health {
    enum kernel_health_state state; /* of writing; reading goes on */
    uint64_t since;                 /* seconds since the epoch; 0 while ok */
    uint64_t dropped;               /* writes that nobody waited for, since then */
    char text[512];                 /* why, and what to do; "" while ok */
};

/* "ok", "full", "read-only", "io-error" */
const char *kernel_health_name(enum kernel_health_state state);
void kernel_store_health(struct kernel_store *store, struct kernel_health *ret_health);
/* One short step of what nobody asks for: tries to write where writing is off, brings a store that
 * is beyond its limit nearer to it, gives free pages back to the filesystem.  |ret_more|: call
 * again soon.  To be called now and then; other writes do such steps too. */
KILN_MUST_CHECK enum kiln_code kernel_store_tidy(struct kernel_store *store, bool *ret_more,
                                                 struct kiln_err *err);

/* ---- one kernel ---- */

/* KILN_NOT_FOUND, without a sentence, on a miss.  The object tells whether it is private. */
KILN_MUST_CHECK enum kiln_code kernel_store_get(struct kernel_store *store,
                                                const struct digest *key,
                                                struct object **ret_object, bool *ret_damaged,
                                                struct kiln_err *err);
struct kernel_reader {
    uint32_t uid;
    bool hidden;    /* filled: it is there, and private to |owner| */
    uint32_t owner; /* filled */
};
/* The same for |reader|: what is private to another uid is KILN_NOT_FOUND before its bytes are
 * read, so that neither the answer nor its time tells that it is there. */
KILN_MUST_CHECK enum kiln_code kernel_store_get_as(struct kernel_store *store,
                                                   struct kernel_reader *reader,
                                                   const struct digest *key,
                                                   struct object **ret_object, bool *ret_damaged,
                                                   struct kiln_err *err);
/* Stores |object| under |record|'s key; evicts first where limit or quota demand it (a quota only
 * that uid's own; the limit those of a uid that has more than half of it, then anybody's) and adds
 * the number of evicted kernels to |ret_evicted|.  KILN_FULL when the object alone exceeds limit or
 * quota, when only pinned kernels could make room, or when the disk is full. */
KILN_MUST_CHECK enum kiln_code kernel_store_put(struct kernel_store *store,
                                                const struct kernel_record *record,
                                                const struct object *object, uint64_t *ret_evicted,
                                                struct kiln_err *err);
/* How many puts and imports since the store was opened it has kept: a put that is dropped while
 * writing is off is KILN_OK, too.  On the write lane. */
uint64_t kernel_store_kept(const struct kernel_store *store);
/* How many kernels quotas have driven out since the store was opened; on the write lane. */
uint64_t kernel_store_quota_evictions(const struct kernel_store *store);
/* As put, of something that somebody brings.  For the quota nothing of theirs is evicted: KILN_FULL
 * beyond it, saying how much the uid has and what to do.  For a private one only private kernels of
 * the same uid go (all of the uid's, where it has more than half of the limit), last used before
 * |record|'s last_used (so that of what is brought together none pushes out another): KILN_FULL
 * when that does not make enough room. */
KILN_MUST_CHECK enum kiln_code kernel_store_import(struct kernel_store *store,
                                                   const struct kernel_record *record,
                                                   const struct object *object,
                                                   uint64_t *ret_evicted, struct kiln_err *err);
/* Moves the row of a damaged object out of the way, keeping it for inspection (bounded).  Looks
 * again first: a kernel that passes its check, or is gone, is KILN_OK and left alone. */
KILN_MUST_CHECK enum kiln_code kernel_store_quarantine(struct kernel_store *store,
                                                       const struct digest *key,
                                                       struct kiln_err *err);

struct kernel_damage {   /* of a row of a package, which stays where it is; texts are borrowed */
    const char *package; /* file name */
    const char *row;     /* the kernel's name, or its key in hexadecimal */
    const char *reason;  /* a sentence */
    uint64_t found;      /* seconds since the epoch; put takes no notice */
};
/* Remembers it (bounded, the oldest go; the same row once). */
KILN_MUST_CHECK enum kiln_code kernel_store_quarantine_packaged(struct kernel_store *store,
                                                                const struct kernel_damage *damage,
                                                                struct kiln_err *err);
/* |package| was replaced or removed: forgets what is remembered of it. */
KILN_MUST_CHECK enum kiln_code kernel_store_quarantine_forget(struct kernel_store *store,
                                                              const char *package,
                                                              struct kiln_err *err);
/* What is remembered of |package|, the newest first. */
KILN_MUST_CHECK enum kiln_code kernel_store_quarantine_of(
    struct kernel_store *store, const char *package,
    void (*each)(void *context, const struct kernel_damage *damage), void *context,
    struct kiln_err *err);
/* Recency: |keys| were used at |now| (seconds since the epoch). */
KILN_MUST_CHECK enum kiln_code kernel_store_touch(struct kernel_store *store,
                                                  const struct digest *keys, size_t count,
                                                  uint64_t now, struct kiln_err *err);
/* One kernel; |each| is called once.  KILN_NOT_FOUND without a sentence. */
KILN_MUST_CHECK enum kiln_code kernel_store_show(struct kernel_store *store,
                                                 const struct digest *key,
                                                 void (*each)(void *, const struct kernel_record *),
                                                 void *context, struct kiln_err *err);
/* KILN_NOT_FOUND, without a sentence. */
KILN_MUST_CHECK enum kiln_code kernel_store_remove(struct kernel_store *store,
                                                   const struct digest *key, struct kiln_err *err);

/* ---- many kernels ---- */

/* Calls |each| for at most |count| kernels that match, by key, after |after| (NULL: from the
 * start). */
KILN_MUST_CHECK enum kiln_code kernel_store_list(struct kernel_store *store,
                                                 const struct kernel_filter *filter,
                                                 const struct digest *after, size_t count,
                                                 void (*each)(void *, const struct kernel_record *),
                                                 void *context, struct kiln_err *err);
/* Keys whose hexadecimal form begins with |prefix| (1 to 64 digits), at most |most| of them: of
 * what everyone may have and what is private to |uid|; with NULL of all. */
KILN_MUST_CHECK enum kiln_code kernel_store_match(struct kernel_store *store, const char *prefix,
                                                  const uint32_t *uid, struct digest *ret_keys,
                                                  size_t most, size_t *ret_count,
                                                  struct kiln_err *err);

struct kernel_place { /* how far an export is; zeroed: at its beginning */
    bool everyones;   /* |uid|'s own are done */
    uint64_t id;
};

#define KERNEL_VERSIONED_ID_MAX 128 /* letters of "gfx90a68@2.17.0.a82233c22", with their end */
/* "gfx90a68@VERSION", when the uid and everyone together have named kernels of this device under
 * one version alone and under none without one; else KILN_NOT_FOUND without a sentence. */
KILN_MUST_CHECK enum kiln_code kernel_store_only_version(struct kernel_store *store, uint32_t uid,
                                                         struct bytes database_id,
                                                         char ret_id[KERNEL_VERSIONED_ID_MAX],
                                                         struct kiln_err *err);

/* Calls |each| for at most |count| named kernels of |database_id| that |uid| may have: its own,
 * then everyone's that none of its own replaces, each kind in the order in which they were stored.
 * |raw| is the checked object, borrowed for the call; empty where it failed its check (have
 * kernel_store_quarantine run).  |each| must not call the store, and returns false to stop; that
 * kernel counts as told.  Goes on from |place|; |ret_end|: that was all. */
KILN_MUST_CHECK enum kiln_code kernel_store_each_named(
    struct kernel_store *store, uint32_t uid, const char *database_id, struct kernel_place *place,
    size_t count, bool (*each)(void *context, const struct kernel_record *record, struct bytes raw),
    void *context, bool *ret_end, struct kiln_err *err);

#define KERNEL_NEAREST_MAX 3
/* The stored kernels that |uid| may have and that are most like |wanted|, best first: of the same
 * program where there are any, then those that agree in most of target's arch, target's features,
 * options, source, headers, toolchain, its identity, database id.  What |wanted| leaves empty does
 * not count.  Looks at a bounded number, the newest.  KILN_NOT_FOUND without a sentence. */
KILN_MUST_CHECK enum kiln_code kernel_store_nearest(
    struct kernel_store *store, const struct kernel_record *wanted, uint32_t uid,
    void (*each)(void *, const struct kernel_record *), void *context, struct kiln_err *err);

/* How many kernels match and the stored bytes of their objects (each once); with |dry_run| false
 * removes them and gives the space back to the filesystem.  A filter that everything matches works
 * on a full disk, too: the file itself is removed. */
KILN_MUST_CHECK enum kiln_code kernel_store_clear(struct kernel_store *store,
                                                  const struct kernel_filter *filter, bool dry_run,
                                                  uint64_t *ret_count, uint64_t *ret_bytes,
                                                  struct kiln_err *err);
/* Pins or unpins; |ret_count| of them are there.  Unknown keys are left out. */
KILN_MUST_CHECK enum kiln_code kernel_store_pin(struct kernel_store *store,
                                                const struct digest *keys, size_t count,
                                                bool pinned, uint64_t *ret_count,
                                                struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code kernel_store_pin_matching(struct kernel_store *store,
                                                         const struct kernel_filter *filter,
                                                         bool pinned, uint64_t *ret_count,
                                                         struct kiln_err *err);

struct kernel_gc {
    bool stale;                      /* removes what toolchains made that are not in |toolchains| */
    const struct digest *toolchains; /* identities of those still here */
    size_t toolchain_count;
    bool shrink;       /* evicts, least worth first, until at most |to_bytes| are taken */
    uint64_t to_bytes; /* blocks on the disk, beside the reserve */
    bool dry_run;      /* only tells; what |shrink| would take is an estimate */
};

struct kernel_gc_result {
    uint64_t stale_kernels, stale_bytes;     /* bytes: of objects, compressed */
    uint64_t evicted_kernels, evicted_bytes; /* with their rows */
    uint64_t taken_before, taken_after;      /* likewise; after a dry run both are the same */
    bool missed; /* more than |to_bytes| stays: pinned kernels, or the file's own tables */
};

/* Spares pinned kernels; named ones, and others whose toolchain is not known, are never stale. Also
 * mends counters that disagree with the rows, and gives all free space back. */
KILN_MUST_CHECK enum kiln_code kernel_store_gc(struct kernel_store *store,
                                               const struct kernel_gc *gc,
                                               struct kernel_gc_result *ret_result,
                                               struct kiln_err *err);

/* ---- what is taken ---- */

KILN_MUST_CHECK enum kiln_code kernel_store_usage(struct kernel_store *store,
                                                  struct kernel_usage *ret_usage,
                                                  struct kiln_err *err);
struct kernel_check {
    const char *directory; /* borrowed from the store */
    uint64_t bytes;        /* of file and log; 0: there is none, or it is not read (mode off) */
    bool checked;          /* SQLite looked at every page, and |damage| says what it found */
    uint64_t age_s;        /* how long ago */
    char damage[256];      /* "": nothing */
    uint64_t newest;       /* latest time that something is recorded under; 0: nothing is */
};
struct kernel_check_wish {
    uint64_t bytes_max;  /* a longer file is not read: that reads it all */
    uint64_t age_most_s; /* what was found so long ago will do, unless damage was seen since */
};
/* Has SQLite look at the whole file. */
KILN_MUST_CHECK enum kiln_code kernel_store_check(struct kernel_store *store,
                                                  const struct kernel_check_wish *wish,
                                                  struct kernel_check *ret_check,
                                                  struct kiln_err *err);
/* By uid; an object that several kernels share counts for each. */
KILN_MUST_CHECK enum kiln_code kernel_store_usage_by_uid(struct kernel_store *store,
                                                         void (*each)(void *, uint32_t uid,
                                                                      uint64_t kernels,
                                                                      uint64_t bytes),
                                                         void *context, struct kiln_err *err);

/* ---- probes ---- */

/* What probes found, remembered by toolchain identity (engine/compile/toolchain.h). */
KILN_MUST_CHECK enum kiln_code kernel_store_probe_put(struct kernel_store *store,
                                                      const struct digest *toolchain_id,
                                                      const char *target, bool works,
                                                      const char *detail, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code kernel_store_probes(struct kernel_store *store,
                                                   void (*each)(void *,
                                                                const struct digest *toolchain_id,
                                                                const char *target, bool works,
                                                                const char *detail),
                                                   void *context, struct kiln_err *err);
