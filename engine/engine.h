/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The engine: all that the daemon knows, with no socket and no event loop.
 *
 * Role       opens stores, toolchain table, hot set and jobs in order; closes them in reverse
 * Ownership  borrows the executor and the host; owns everything below it
 * Threading  one thread (the loop) makes every call; blocking work goes to the executor
 */
#include "common/json.h"
#include "engine/data/engine_data.h"
#include "engine/jobs/executor.h"
#include "engine/store/kernel_store.h"
#include "engine/tuning/tuning.h"

struct engine;

/* Something an operator should know. */
struct engine_report {
    const char *event;        /* its kind: common/log_events.def has them all */
    const char *text;         /* the sentence */
    bool trouble;             /* something is wrong */
    const struct digest *key; /* of the kernel that it is about; NULL: none */
    const uint32_t *uid;      /* of who asked; NULL: nobody in particular */
    struct bytes target;      /* empty: none */
    uint64_t duration_ns;     /* 0: none */
};

/* What the process around the engine adds to administrative answers. */
struct engine_host {
    /* Settings with origins, for 'config'; NULL where there are none.  Owned by the caller. */
    struct json *(*config)(struct engine_host *host);
    /* Adds its own members (paths, pools, pid) to the answer of 'status'. */
    void (*add_status)(struct engine_host *host, struct json *status);
    /* Adds its own counters (clients, worker_crashes, ...) to the answer of 'stats'. */
    void (*add_stats)(struct engine_host *host, struct json *stats);
    /* May come often: the host limits what it writes. */
    void (*report)(struct engine_host *host, const struct engine_report *report);
};

struct engine_options {
    struct executor *executor;      /* borrowed */
    struct engine_host *host;       /* borrowed; may be NULL */
    unsigned readers;               /* tasks of WORK_QUEUE_READ that the executor runs at once */
    const struct engine_data *data; /* built into the program; borrowed; NULL: none */
    const char *cache_directory;    /* NULL, with KERNEL_STORE_OFF: there is none */
    uint64_t store_limit_bytes;
    uint64_t store_limit_bytes_uid; /* 0: none */
    enum kernel_store_mode store_mode;
    const char *state_directory; /* of tuning.db; NULL: with |data| records are kept in memory, else
                                    there are none */
    uint64_t tuning_records_per_uid, tuning_bytes_per_uid; /* 0: no limit */
    enum tuning_stale tuning_stale;
    const char *package_directory; /* of installed packages; NULL: there are those of |data| alone,
                                   and no request can write a file */
    const char *const *more_package_directories; /* only read; NULL-terminated; NULL: none */
    const char *trusted_keys;                    /* directory of public keys */
    uint64_t package_limit;                      /* bytes of one package */
    const char *kfd_directory;                   /* NULL: sysfs; tests name another */
    bool require_signature;                      /* packages without a trusted one are not used */
    uint64_t hot_limit_bytes;
    unsigned hot_limit_count;
    unsigned failure_ttl_s;   /* how long a failed compile is remembered */
    unsigned queue_limit;     /* compiles waiting, all callers together */
    unsigned queue_limit_uid; /* compiles waiting, one uid */
    uint64_t queue_bytes;     /* of requests that wait, all callers together */
    uint64_t queue_bytes_uid; /* of one uid */
};

KILN_MUST_CHECK enum kiln_code engine_open(const struct engine_options *options,
                                           struct engine **ret_engine, struct kiln_err *err);
/* Only when engine_idle(): no task is out, no caller joined. */
void engine_close(struct engine *engine);

/* Reports what opening the store had to say, and asks a compiler process which toolchains are here;
 * requests wait until it answered. */
void engine_start(struct engine *engine);
/* From now on queued compiles fail with KILN_UNAVAILABLE; running ones end. */
void engine_drain(struct engine *engine);
bool engine_idle(const struct engine *engine);
/* Other limits and policies from now on: of |options| those of bytes, numbers, seconds, and
 * tuning_stale.  The rest is as it was at opening, whatever it says. */
void engine_set_limits(struct engine *engine, const struct engine_options *options);

struct engine_pulse {            /* what people ask first */
    uint64_t asked;              /* kernels, each item of a batch */
    uint64_t found;              /* of those, the ones that a tier had */
    unsigned compiling, waiting; /* now */
};
struct engine_pulse engine_pulse(const struct engine *engine);

/* Housekeeping the host calls about once a second: writes recency in batches. */
void engine_tick(struct engine *engine);
