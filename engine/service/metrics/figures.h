/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the engine counts of its work, beyond the counters of metrics.def: results, durations, the
 * ledger and samples of it all.
 *
 * Role       struct figures is the engine's; the requests metrics, ledger and history answer from
 * it Threading  the engine's thread; nothing here locks or waits
 *
 * On the way of a fetch that is found in memory this is some ten instructions: the clock is read
 * for one in HOT_TIMED_EVERY of them.
 */
#include "common/clock.h"
#include "common/err.h"
#include "common/messages.h"
#include "engine/compile/toolchain.h"
#include "engine/service/metrics/histogram.h"
#include "engine/service/metrics/ledger.h"

#define FIGURE_REQUESTS 64                     /* types of requests; 0: unknown */
#define FIGURE_TOOLCHAINS (TOOLCHAINS_MAX + 1) /* the last: others */
/* A prime: batches of any usual size are timed at each of their places. */
#define HOT_TIMED_EVERY 31

enum { /* one more than the last code */
#define KILN_CODE(name, number, retry, text) FIGURE_CODE_##name = (number),
#include "common/err_codes.def"
#undef KILN_CODE
       FIGURE_CODES
};

enum lookup_end {
    LOOKUP_HOT,
    LOOKUP_DISK,
    LOOKUP_PACKAGE,
    LOOKUP_COMPILE,
    LOOKUP_NONE,
    LOOKUP_ENDS
};

/* Why no tier had a kernel; each miss has one. */
enum miss_reason {
    MISS_NEW,        /* nobody had it yet, or not any more */
    MISS_DAMAGED,    /* what was there failed its check */
    MISS_STORE,      /* the store or the packages could not be asked */
    MISS_UNCACHED,   /* the asker wanted it made */
    MISS_REMEMBERED, /* it is remembered that it cannot be compiled */
    MISS_UNKNOWN,    /* asked for by key or name, and there is nothing to compile it from */
    MISS_REFUSED,    /* a limit, no memory, no compiler */
    MISS_PREFETCH,   /* no job waited */
};

enum compile_metric { /* of a compile that ended; the rest are those of compile_end */
                      COMPILED_INVALID =
                          COMPILE_OUTDATED + 1, /* what came is no code object for the target */
                      COMPILE_RESULTS
};

/* What a file is brought in for. */
enum transfer_tier {
    TRANSFER_PACKAGE, /* to install */
    TRANSFER_DISK,    /* its kernels, into the store */
    TRANSFER_TUNING,  /* its records: imported, merged, compared */
    TRANSFER_TIERS
};

enum transfer_op { TRANSFER_DOWNLOAD, TRANSFER_COPY, TRANSFER_OPS };

struct toolchain_figures {
    char name[sizeof(((struct toolchain *)0)->name)];
    struct histogram duration;
    uint64_t results[COMPILE_RESULTS];
};

/* The request that is being handled, or that ended last: whose error comes next. */
struct request_mark {
    const struct caller *caller; /* NULL: none */
    uint64_t id;
    uint16_t type;
    uint16_t code;
    bool waits; /* it was not answered at once: its waiter counts it */
};

struct figures {
    uint64_t requests[FIGURE_REQUESTS][FIGURE_CODES]; /* that ended */
    struct request_mark handled, ended;
    uint64_t in_flight;

    uint64_t compiled; /* kernels that their askers got from a compiler */
    struct histogram lookups[LOOKUP_ENDS];
    uint64_t ahead[LOOKUP_ENDS];   /* of these, what a prefetch asked for and was found */
    unsigned hot_left, hot_bucket; /* to the next that is timed; where those until then count */
    uint64_t hot_ns;

    struct histogram plan, queue;
    struct toolchain_figures toolchains[FIGURE_TOOLCHAINS];
    unsigned toolchain_count;

    /* That ended.  An outcome's code is one of the table: whoever receives it sees to that. */
    uint64_t transfers[TRANSFER_TIERS][TRANSFER_OPS][FIGURE_CODES];

    uint64_t rejections; /* for a limit */
    uint64_t saved_us, compile_us;
    uint64_t batches;      /* that asked for kernels: their numbers */
    uint64_t started;      /* seconds since the epoch */
    struct ledger *ledger; /* owned */
};

KILN_MUST_CHECK enum kiln_code figures_open(struct figures *f, struct kiln_err *err);
void figures_close(struct figures *f);

/* When a look-up begins that may be found in memory; 0: it is not timed. */
static inline uint64_t figures_hot_begins(const struct figures *f)
{
    return f->hot_left == 0 ? clock_monotonic_ns() : 0;
}

/* It was found. */
static inline void figures_hot_ends(struct figures *f, uint64_t began_ns)
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

static inline void figures_lookup(struct figures *f, enum lookup_end end, uint64_t began_ns)
{
    histogram_observe(&f->lookups[end], clock_monotonic_ns() - began_ns, 1);
}

/* The row of a compiler, perhaps a new one. */
struct toolchain_figures *figures_of_toolchain(struct figures *f, struct bytes name);
void figures_compile_ended(struct figures *f, struct bytes toolchain, unsigned result,
                           uint64_t wall_ns);
const char *figures_compile_result(unsigned result); /* "done", "refused", ... */

/* |url| NULL: the file came with the request. */
void figures_transfer_ended(struct figures *f, enum transfer_tier tier, const char *url,
                            enum kiln_code code);

/* An item of a batch, or the one kernel of a fetch, that was answered by a code. */
void figures_result_failed(struct figures *f, enum kiln_code code);
