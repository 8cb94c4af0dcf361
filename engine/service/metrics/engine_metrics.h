/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The engine's metrics beyond the counters of metrics.def: results of requests, durations, and
 * usage accounting.
 *
 * Role       counts what the requests "metrics", "accounting" and "history" report
 * Ownership  the engine owns the struct
 * Threading  the engine's thread; nothing here locks or waits
 */
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/protocol/messages.h"
#include "engine/compile/toolchain.h"
#include "engine/service/metrics/accounting.h"
#include "engine/service/metrics/histogram.h"

#define METRICS_REQUESTS 64
#define METRICS_TOOLCHAINS (TOOLCHAINS_MAX + 1)
/* One of this many hits in the hot set is timed. The number is a prime, so that if all batches have
 * the same size, the timed hits are not always at the same position of a batch. */
#define HOT_TIMED_EVERY 31

enum {
#define KILN_CODE(name, number, retry, text) METRICS_CODE_##name = (number),
#include "common/base/err_codes.def"
#undef KILN_CODE
    METRICS_CODES
};

enum lookup_end {
    LOOKUP_HOT,
    LOOKUP_DISK,
    LOOKUP_PACKAGE,
    LOOKUP_FLEET,
    LOOKUP_COMPILE,
    LOOKUP_NONE,
    LOOKUP_ENDS
};

enum miss_reason {
    MISS_NEW,
    MISS_DAMAGED,
    MISS_STORE,
    MISS_UNCACHED,
    MISS_REMEMBERED, /* an earlier failure to compile the kernel is stored */
    MISS_UNKNOWN,    /* requested by key or name, without a source to compile */
    MISS_REFUSED,    /* a limit was reached, memory ran out, or there was no compiler */
    MISS_PREFETCH,   /* requested by a prefetch, so no job waited */
};

/* Results in addition to those of enum compile_end. */
enum compile_metric {
    /* The compiler's output is not a code object for the target. */
    COMPILED_INVALID = COMPILE_OUTDATED + 1,
    COMPILE_RESULTS
};

enum transfer_tier { TRANSFER_PACKAGE, TRANSFER_DISK, TRANSFER_TUNING, TRANSFER_TIERS };

enum transfer_op { TRANSFER_DOWNLOAD, TRANSFER_COPY, TRANSFER_OPS };

struct toolchain_metrics {
    char name[sizeof(((struct toolchain *)0)->name)];
    struct histogram duration;
    uint64_t results[COMPILE_RESULTS];
};

/* The request that is being handled, or the one that ended last. The next error that is sent may
 * belong to either of these two. */
struct request_mark {
    const struct caller *caller;
    uint64_t id;
    uint16_t type;
    uint16_t code;
    bool waits; /* the request is deferred, so it is counted when it ends */
};

struct engine_metrics {
    uint64_t requests[METRICS_REQUESTS][METRICS_CODES];
    struct request_mark handled, ended;
    uint64_t in_flight;

    uint64_t compiled;
    struct histogram lookups[LOOKUP_ENDS];
    uint64_t ahead[LOOKUP_ENDS]; /* how many of |lookups| found kernels for prefetches */
    /* After |hot_left| more hits, a hit is timed again. Untimed hits count in |hot_bucket|, the
     * bucket of the last timed hit. */
    unsigned hot_left, hot_bucket;
    uint64_t hot_ns;

    struct histogram plan, queue;
    struct toolchain_metrics toolchains[METRICS_TOOLCHAINS];
    unsigned toolchain_count;

    /* The codes come from kiln-transfer. transfer_receive_report rejects unknown codes. */
    uint64_t transfers[TRANSFER_TIERS][TRANSFER_OPS][METRICS_CODES];

    uint64_t rejections;
    uint64_t saved_us, compile_us;
    uint64_t client_saved_us; /* the part of |saved_us| for compiles that clients do themselves */
    uint64_t batches;
    uint64_t started;
    struct accounting *accounting;
};

KILN_MUST_CHECK enum kiln_code metrics_open(struct engine_metrics *f, struct kiln_err *err);
void metrics_close(struct engine_metrics *f);

/* Returns the start time, or 0 if this look-up is not timed. */
static inline uint64_t metrics_hot_begins(const struct engine_metrics *f)
{
    return f->hot_left == 0 ? clock_monotonic_ns() : 0;
}

/* Call this function when the look-up has found the kernel in memory. |began_ns| is the result of
 * metrics_hot_begins. */
static inline void metrics_hot_ends(struct engine_metrics *f, uint64_t began_ns)
{
    if (began_ns) {
        f->hot_ns = clock_monotonic_ns() - began_ns;
        f->hot_bucket = histogram_bucket(f->hot_ns);
        f->hot_left = HOT_TIMED_EVERY;
    }
    f->hot_left--;
    f->lookups[LOOKUP_HOT].counts[f->hot_bucket]++;
    f->lookups[LOOKUP_HOT].sum_ns += f->hot_ns;
}

static inline void metrics_lookup(struct engine_metrics *f, enum lookup_end end, uint64_t began_ns)
{
    histogram_observe(&f->lookups[end], clock_monotonic_ns() - began_ns, 1);
}

struct toolchain_metrics *metrics_of_toolchain(struct engine_metrics *f, struct bytes name);
void metrics_compile_ended(struct engine_metrics *f, struct bytes toolchain, unsigned result,
                           uint64_t wall_ns);
/* Returns the mean duration of this toolchain's compiles. Returns one second if this toolchain has
 * compiled nothing yet. */
uint64_t metrics_compile_expected(const struct engine_metrics *f, struct bytes toolchain);
const char *metrics_compile_result(unsigned result);

/* Counts the end of a transfer. |url| is NULL if the file came with the request. */
void metrics_transfer_ended(struct engine_metrics *f, enum transfer_tier tier, const char *url,
                            enum kiln_code code);

void metrics_result_failed(struct engine_metrics *f, enum kiln_code code);
