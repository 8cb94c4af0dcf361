/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Usage data stored with the kernels: usage accounting and the history of metrics.
 *
 * Role       reads and writes rows of kernels.db, whose meaning the service defines
 *            (engine/service/metrics/accounting.h, history.h)
 * Ownership  texts are borrowed for the call
 * Threading  as kernel_store.h: puts run on the write queue, the rest on any thread
 *
 * While the disk cannot be written to, nothing is stored: |ret_written| is then false, and the
 * caller keeps its data.
 */
#include "engine/store/kernel_history.def"
#include "engine/store/kernel_store.h"

/* The largest sum that is stored or read. A larger sum is replaced by it, so that all sums fit into
 * SQLite's signed 64-bit numbers. */
#define KERNEL_SUM_MAX (UINT64_C(1) << 62)

struct kernel_sums {
    uint64_t saved_us;
    uint64_t hits;
    uint64_t compiles;
    uint64_t compile_us;
};

/* The |uid| of the row that contains the sum of all users who have no row of their own. */
#define KERNEL_ACCOUNTING_OTHERS (-1)

struct kernel_accounting_row {
    bool is_user; /* true: |uid| identifies the row; false: |target| and |program| do */
    int64_t uid;
    const char *target, *program;
    struct kernel_sums sums;
};

struct kernel_accounting {
    const struct kernel_accounting_row *rows;
    size_t count;
    uint64_t since; /* start of accounting, in seconds since the epoch; ignored if a start is
                     * already stored */
    bool forget_users;
    bool forget_kinds;
};

/* Replaces stored rows of the same user, or of the same target and program. */
KILN_MUST_CHECK enum kiln_code kernel_store_accounting_put(
    struct kernel_store *store, const struct kernel_accounting *accounting, bool *ret_written,
    struct kiln_err *err);
struct kernel_accounting_request {
    size_t max; /* maximum number of users to report, and of pairs of target and program; reports
                 * those whose hits saved the most time */
    void (*each)(void *context, const struct kernel_accounting_row *row);
    void *context;
};
/* Reads the rows. |ret_since| is the start of accounting, or 0 if there are no rows. */
KILN_MUST_CHECK enum kiln_code kernel_store_accounting(
    struct kernel_store *store, const struct kernel_accounting_request *request,
    uint64_t *ret_since, struct kiln_err *err);

#define KERNEL_HISTORY_MEMBER(name) HISTORY_##name,
enum kernel_history_column {
    KERNEL_HISTORY(KERNEL_HISTORY_MEMBER, KERNEL_HISTORY_MEMBER) HISTORY_COLUMNS
};
extern const char *const kernel_history_names[HISTORY_COLUMNS];

struct kernel_sample {
    /* Seconds since the epoch: the end of the period of a sample. For a sample that is merged from
     * several samples, the beginning of its period. */
    uint64_t time;
    uint64_t span_s;
    uint64_t values[HISTORY_COLUMNS];
};

/* Stores a sample. Deletes stored samples that are older than |kept_s| seconds, or more than a day
 * in the future. */
KILN_MUST_CHECK enum kiln_code kernel_store_history_put(struct kernel_store *store,
                                                        const struct kernel_sample *sample,
                                                        uint64_t kept_s, bool *ret_written,
                                                        struct kiln_err *err);
struct kernel_history_range {
    uint64_t since;
    uint64_t step_s; /* samples are merged into steps of this length */
    size_t max;
};
KILN_MUST_CHECK enum kiln_code kernel_store_history(
    struct kernel_store *store, const struct kernel_history_range *range,
    void (*each)(void *context, const struct kernel_sample *sample), void *context,
    struct kiln_err *err);

struct kernel_slowest_request {
    const uint32_t *uid; /* NULL: all kernels; otherwise only those that this user may fetch */
    size_t max;
};
KILN_MUST_CHECK enum kiln_code kernel_store_slowest(
    struct kernel_store *store, const struct kernel_slowest_request *request,
    void (*each)(void *, const struct kernel_record *), void *context, struct kiln_err *err);

struct kernel_share {
    /* The name by which kernels are grouped. NULL: the share of all private kernels or, if
     * |is_of_clients| is true, of all kernels that clients compiled. */
    const char *name;
    bool is_of_clients;
    uint64_t kernels;
    uint64_t bytes; /* stored bytes of objects and rows; an object that several kernels share counts
                     * once for each of them */
};
struct kernel_share_request {
    bool by_program;
    size_t max;
};
/* Reports the largest share first. Reads every kernel. */
KILN_MUST_CHECK enum kiln_code kernel_store_shares(struct kernel_store *store,
                                                   const struct kernel_share_request *request,
                                                   void (*each)(void *context,
                                                                const struct kernel_share *share),
                                                   void *context, struct kiln_err *err);
