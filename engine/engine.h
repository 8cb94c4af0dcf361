/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The engine: everything that the daemon does, without sockets or an event loop.
 *
 * Role       opens and closes the stores, packages, toolchain table, hot set and queues
 * Ownership  borrows the executor and the host; owns everything below it
 * Threading  one thread (the loop) makes every call; blocking work goes to the executor
 */
#include "common/base/json.h"
#include "engine/data/engine_data.h"
#include "engine/jobs/executor.h"
#include "engine/store/kernel_store.h"
#include "engine/tuning/tuning.h"

struct engine;

/* An event that an operator should know about. */
struct engine_report {
    const char *event;        /* its kind, one of common/log/log_events.def */
    const char *text;         /* the message for the log */
    bool trouble;             /* something is wrong */
    const struct digest *key; /* the kernel that the event is about; NULL: none */
    const uint32_t *uid;      /* the user whose request caused it; NULL: no particular user */
    struct bytes target;      /* empty: none */
    uint64_t duration_ns;     /* 0: none */
};

/* What the process around the engine adds to administrative answers. */
struct engine_host {
    /* Settings with their origins, for 'config'; the caller owns the result. NULL if there are
     * none. */
    struct json *(*config)(struct engine_host *host);
    /* Adds the host's members (paths, pools, pid) to the answer of 'status'. */
    void (*add_status)(struct engine_host *host, struct json *status);
    /* Adds the host's counters (clients, worker_crashes, ...) to the answer of 'stats'. */
    void (*add_stats)(struct engine_host *host, struct json *stats);
    /* May be called often: the host limits the rate of its log. */
    void (*report)(struct engine_host *host, const struct engine_report *report);
};

struct engine_options {
    struct executor *executor; /* borrowed */
    struct engine_host *host;  /* borrowed; may be NULL */
    unsigned readers;          /* tasks of WORK_QUEUE_READ that the executor runs in parallel */
    const struct engine_data *data; /* built into the program; borrowed; NULL: none */
    const char *cache_directory;    /* NULL, with KERNEL_STORE_OFF: no cache */
    uint64_t store_limit_bytes;
    uint64_t store_limit_bytes_uid; /* 0: none */
    enum kernel_store_mode store_mode;
    const char *state_directory; /* of tuning.db; NULL: records are kept in memory if |data| is
                                    given, else there are none */
    uint64_t tuning_records_per_uid, tuning_bytes_per_uid; /* 0: no limit */
    enum tuning_stale tuning_stale;
    const char *package_directory; /* of installed packages; NULL: only the packages of |data|
                                      exist, and no request can write a file */
    const char *const *more_package_directories; /* read-only; NULL-terminated; NULL: none */
    const char *trusted_keys;                    /* directory of public keys */
    uint64_t package_limit;                      /* bytes of one package */
    const char *kfd_directory;                   /* NULL: sysfs; tests name another */
    bool require_signature; /* packages without a trusted signature are not used */
    uint64_t hot_limit_bytes;
    unsigned hot_limit_count;
    unsigned failure_ttl_s;   /* how long a failed compile is remembered */
    unsigned queue_limit;     /* waiting compiles of all users */
    unsigned queue_limit_uid; /* waiting compiles of one user */
    uint64_t queue_bytes;     /* held by waiting requests of all users */
    uint64_t queue_bytes_uid; /* held by waiting requests of one user */
};

KILN_MUST_CHECK enum kiln_code engine_open(const struct engine_options *options,
                                           struct engine **ret_engine, struct kiln_err *err);
/* Call it only when engine_idle(): no task is running, and no caller is joined. */
void engine_close(struct engine *engine);

/* Reports what opening the store found, and asks a compiler process which toolchains are installed.
 * Requests that need a toolchain wait for that answer. */
void engine_start(struct engine *engine);
/* From now on queued compiles fail with KILN_UNAVAILABLE; running compiles finish. */
void engine_drain(struct engine *engine);
bool engine_idle(const struct engine *engine);
/* Applies new limits and policies from now on: the sizes, counts and times of |options|, and
 * tuning_stale. The other options keep the values that they had when the engine was opened. */
void engine_set_limits(struct engine *engine, const struct engine_options *options);

struct engine_pulse {            /* the metrics that users look at first */
    uint64_t asked;              /* kernels requested; each item of a batch counts */
    uint64_t found;              /* of these, kernels found in a tier */
    unsigned compiling, waiting; /* now */
};
struct engine_pulse engine_pulse(const struct engine *engine);

/* Housekeeping, about once a second: writes recency in batches, retries what failed before. */
void engine_tick(struct engine *engine);
/* The part of engine_tick that stops compiles which must give way to another user. Call it more
 * often while compiles wait. */
void engine_share_compilers(struct engine *engine);
