/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The kernel store: compiled kernels on disk (kernels.db), within a byte limit.
 *
 * Role       second level of a fetch; content and claim are separate: an object is checked
 *            against its SHA-256 whenever it comes off disk, a key's claim names the object
 * Ownership  the caller owns what ret_ parameters return
 * Threading  kernel_store_get/list/show/usage/probes: any thread, at the same time.
 *            Everything that writes: one thread at a time (the write lane).
 * On disk    docs/formats/kernels-db.md; schema in db/schema/kernels/
 *
 * Damage is never an error to a reader: a row that fails its check is KILN_NOT_FOUND, and
 * |ret_damaged| asks the caller to have kernel_store_quarantine run on the write lane.  Where the
 * file itself is damaged, the next call that writes moves it aside and starts an empty one; where
 * it was removed, a new one is made.  The sentence for the log is at kernel_store_take_notice.
 */
#include "engine/store/object.h"

struct kernel_store;

struct kernel_store_options {
    const char *directory; /* holds kernels.db; made if absent, mode 0700 */
    uint64_t limit_bytes;  /* of the objects' stored (compressed) bytes and their rows */
    unsigned readers;      /* connections for look-ups, one per thread that may ask at once */
    bool allow_network_fs; /* only tests set it */
};

struct kernel_record { /* everything known about one stored kernel; text fields are borrowed */
    struct digest key;
    struct digest object;
    struct digest toolchain_id;
    const char *target;
    const char *toolchain;
    const char *program;
    const char *options;
    uint64_t raw_size;    /* bytes */
    uint64_t stored_size; /* bytes, compressed */
    uint64_t compile_ns;
    uint64_t created;   /* seconds since the epoch */
    uint64_t last_used; /* seconds since the epoch */
    uint64_t uses;
    uint32_t uid; /* who asked for it first */
};

struct kernel_filter {   /* NULL and empty fields match everything */
    const char *target;  /* "gfx90a" matches gfx90a:xnack- too */
    const char *program; /* the whole name */
    uint64_t older_than; /* last used before this second; 0: any */
};

struct kernel_usage {
    uint64_t objects;      /* different ones: several kernels may share one */
    uint64_t stored_bytes; /* of objects, compressed */
    uint64_t raw_bytes;    /* of objects */
    uint64_t limit_bytes;  /* for stored_bytes + row_bytes */
    uint64_t kernels;      /* keys */
    uint64_t row_bytes;    /* what the rows about them are counted as */
};

/* Refuses a network filesystem (KILN_UNSUPPORTED, saying what to set) and a folder that another
 * daemon uses (KILN_BUSY, with its pid).  A damaged database is moved aside
 * (kernels.db.damaged-<time>), named in |ret_notice|, and a fresh one made. */
KILN_MUST_CHECK enum kiln_code kernel_store_open(const struct kernel_store_options *options,
                                                 struct kernel_store **ret_store,
                                                 char ret_notice[512], struct kiln_err *err);
void kernel_store_destroy(struct kernel_store *store);
KILN_DEFINE_AUTO(kernel_store)

/* Once after each repair made while running: what was done, for the log.  Any thread. */
bool kernel_store_take_notice(struct kernel_store *store, char ret_notice[512]);

/* KILN_NOT_FOUND, without a sentence, on a miss. */
KILN_MUST_CHECK enum kiln_code kernel_store_get(struct kernel_store *store,
                                                const struct digest *key,
                                                struct object **ret_object, bool *ret_damaged,
                                                struct kiln_err *err);
/* Stores |object| under |record|'s key; evicts first where the limit demands it and adds the number
 * of evicted kernels to |ret_evicted|.  KILN_FULL when the object alone exceeds the limit or the
 * disk is full. */
KILN_MUST_CHECK enum kiln_code kernel_store_put(struct kernel_store *store,
                                                const struct kernel_record *record,
                                                const struct object *object, uint64_t *ret_evicted,
                                                struct kiln_err *err);
/* Moves the row of a damaged object out of the way, keeping it for inspection (bounded).  Looks
 * again first: a kernel that passes its check, or is gone, is KILN_OK and left alone. */
KILN_MUST_CHECK enum kiln_code kernel_store_quarantine(struct kernel_store *store,
                                                       const struct digest *key,
                                                       struct kiln_err *err);
/* Recency, in one transaction: |keys| were used at |now| (seconds since the epoch). */
KILN_MUST_CHECK enum kiln_code kernel_store_touch(struct kernel_store *store,
                                                  const struct digest *keys, size_t count,
                                                  uint64_t now, struct kiln_err *err);
/* One kernel; |each| is called once.  KILN_NOT_FOUND without a sentence. */
KILN_MUST_CHECK enum kiln_code kernel_store_show(struct kernel_store *store,
                                                 const struct digest *key,
                                                 void (*each)(void *, const struct kernel_record *),
                                                 void *context, struct kiln_err *err);
/* Calls |each| for at most |count| kernels that match, by key, after |after| (NULL: from the
 * start). */
KILN_MUST_CHECK enum kiln_code kernel_store_list(struct kernel_store *store,
                                                 const struct kernel_filter *filter,
                                                 const struct digest *after, size_t count,
                                                 void (*each)(void *, const struct kernel_record *),
                                                 void *context, struct kiln_err *err);
/* Keys whose hexadecimal form begins with |prefix| (1 to 64 digits), at most |most| of them. */
KILN_MUST_CHECK enum kiln_code kernel_store_match(struct kernel_store *store, const char *prefix,
                                                  struct digest *ret_keys, size_t most,
                                                  size_t *ret_count, struct kiln_err *err);
/* How many kernels match and the stored bytes of their objects (each once); with |dry_run| false
 * removes them and gives the space back to the filesystem. */
KILN_MUST_CHECK enum kiln_code kernel_store_clear(struct kernel_store *store,
                                                  const struct kernel_filter *filter, bool dry_run,
                                                  uint64_t *ret_count, uint64_t *ret_bytes,
                                                  struct kiln_err *err);
/* KILN_NOT_FOUND, without a sentence. */
KILN_MUST_CHECK enum kiln_code kernel_store_remove(struct kernel_store *store,
                                                   const struct digest *key, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code kernel_store_usage(struct kernel_store *store,
                                                  struct kernel_usage *ret_usage,
                                                  struct kiln_err *err);

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
