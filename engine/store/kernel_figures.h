/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the kernel store keeps of its use beside the kernels: the ledger and the history.
 *
 * Role       rows of kernels.db, in and out; what they mean is the service's
 *            (engine/service/metrics/ledger.h, history.h)
 * Ownership  texts are borrowed for the call
 * Threading  as kernel_store.h: puts on the write lane, the rest on any thread
 *
 * They go with the cache: who removes kernels.db removes them.  Nothing is written while the disk
 * cannot be written to; |ret_written| says so, and the caller keeps what it had.
 */
#include "engine/store/kernel_history.def"
#include "engine/store/kernel_store.h"

/* No sum is larger: what SQLite can add up. */
#define KERNEL_SUM_MAX (UINT64_C(1) << 62)

struct kernel_sums {
    uint64_t saved_us; /* compile time that hits were worth */
    uint64_t hits;
    uint64_t compiles;
    uint64_t compile_us;
};

#define KERNEL_LEDGER_OTHERS (-1) /* uid: more users than have rows of their own */

struct kernel_ledger_row {
    bool is_user; /* |uid| counts, else |target| and |program| */
    int64_t uid;
    const char *target, *program;
    struct kernel_sums sums;
};

struct kernel_ledger { /* what is written, or read */
    const struct kernel_ledger_row *rows;
    size_t count;
    uint64_t since;    /* seconds since the epoch: when it began; kept where there is one */
    bool forget_users; /* first all rows of users go */
    bool forget_kinds; /* likewise those of targets and programs */
};

/* Replaces the rows that are given, in one transaction. */
KILN_MUST_CHECK enum kiln_code kernel_store_ledger_put(struct kernel_store *store,
                                                       const struct kernel_ledger *ledger,
                                                       bool *ret_written, struct kiln_err *err);
/* The rows worth most, at most |most| users and as many kinds; |ret_since| is 0 when there are
 * none.  |each| keeps no text. */
KILN_MUST_CHECK enum kiln_code kernel_store_ledger(
    struct kernel_store *store, size_t most,
    void (*each)(void *context, const struct kernel_ledger_row *row), void *context,
    uint64_t *ret_since, struct kiln_err *err);

#define KERNEL_HISTORY_MEMBER(name) HISTORY_##name,
enum kernel_history_column {
    KERNEL_HISTORY(KERNEL_HISTORY_MEMBER, KERNEL_HISTORY_MEMBER) HISTORY_COLUMNS
};
extern const char *const kernel_history_names[HISTORY_COLUMNS];

struct kernel_sample {
    uint64_t time;   /* its end, seconds since the epoch; of several together the step's begin */
    uint64_t span_s; /* what it covers */
    uint64_t values[HISTORY_COLUMNS];
};

/* Also forgets what is older than |kept_s|, and what claims to be from the future. */
KILN_MUST_CHECK enum kiln_code kernel_store_history_put(struct kernel_store *store,
                                                        const struct kernel_sample *sample,
                                                        uint64_t kept_s, bool *ret_written,
                                                        struct kiln_err *err);
/* By time, from |since| on, in steps of |step_s| (at least 1), at most |most| of them. */
KILN_MUST_CHECK enum kiln_code kernel_store_history(
    struct kernel_store *store, uint64_t since, uint64_t step_s, size_t most,
    void (*each)(void *context, const struct kernel_sample *sample), void *context,
    struct kiln_err *err);

/* The kernels that took longest to compile, of those that everyone may have and those private to
 * |uid|; with NULL of all. */
KILN_MUST_CHECK enum kiln_code kernel_store_slowest(
    struct kernel_store *store, const uint32_t *uid, size_t most,
    void (*each)(void *, const struct kernel_record *), void *context, struct kiln_err *err);

struct kernel_share { /* what a target or a program has of the store */
    const char *name; /* NULL: private kernels, whatever they are called */
    uint64_t kernels;
    uint64_t bytes; /* of objects, compressed, and rows; an object that several share counts for
                       each */
};
/* The largest first, at most |most|; looks at every kernel. */
KILN_MUST_CHECK enum kiln_code kernel_store_shares(struct kernel_store *store, bool by_program,
                                                   size_t most,
                                                   void (*each)(void *context,
                                                                const struct kernel_share *share),
                                                   void *context, struct kiln_err *err);
