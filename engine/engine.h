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
    const char *event;        /* kind of the event: one of common/log/log_events.def */
    const char *text;         /* the message for the log */
    bool trouble;             /* true if something is wrong */
    const struct digest *key; /* the kernel that the event is about; NULL: none */
    const uint32_t *uid;      /* the user whose request caused it; NULL: no single user did */
    struct bytes target;      /* the target that the event is about; empty: none */
    uint64_t duration_ns;     /* 0: none */
};

/* The process around the engine, which adds its own data to administrative answers. */
struct engine_host {
    /* Returns the settings with their origins, for the answer to 'config'.  The caller owns the
     * result.  May be NULL if the host has no settings. */
    struct json *(*config)(struct engine_host *host);
    /* Adds the host's members (paths, pools, pid) to the answer to 'status'. */
    void (*add_status)(struct engine_host *host, struct json *status);
    /* Adds the host's counters (clients, worker_crashes, ...) to the answer to 'stats'. */
    void (*add_stats)(struct engine_host *host, struct json *stats);
    /* Reports an event.  It may be called often, so the host limits the rate of its log. */
    void (*report)(struct engine_host *host, const struct engine_report *report);
};

struct engine_options {
    struct executor *executor; /* borrowed */
    struct engine_host *host;  /* borrowed; may be NULL */
    unsigned readers;          /* how many tasks of WORK_QUEUE_READ the executor runs in parallel */
    const struct engine_data *data; /* borrowed; data that is built into the program; NULL: none */
    const char *cache_directory;    /* NULL: no cache, only allowed with KERNEL_STORE_OFF */
    uint64_t store_limit_bytes;
    uint64_t store_limit_bytes_uid; /* 0: none */
    enum kernel_store_mode store_mode;
    /* Directory of tuning.db; NULL: records are kept in memory if |data| is given; otherwise
     * there are none. */
    const char *state_directory;
    uint64_t tuning_records_per_uid, tuning_bytes_per_uid; /* 0: no limit */
    enum tuning_stale tuning_stale;
    /* Directory of installed packages; NULL: there are only the packages of |data|, and requests
     * that would write a package fail. */
    const char *package_directory;
    /* Directories that are only read; NULL-terminated; NULL: none. */
    const char *const *more_package_directories;
    const char *trusted_keys; /* directory of public keys */
    uint64_t package_limit;   /* maximum bytes of one package */
    /* Directory of the KFD topology (the host's AMD GPUs); NULL: the one in sysfs; tests set
     * another. */
    const char *kfd_directory;
    bool require_signature; /* do not use packages without a trusted signature */
    uint64_t hot_limit_bytes;
    unsigned hot_limit_count;
    /* Maximum bytes of code objects that were sent to one user's processes and that these may still
     * have; 0: no limit. */
    uint64_t held_limit_bytes_uid;
    unsigned failure_ttl_s;   /* how long a failed compilation is stored, so that it is not
                               * repeated */
    unsigned queue_limit;     /* maximum number of waiting compilations of all users */
    unsigned queue_limit_uid; /* maximum number of waiting compilations of one user */
    uint64_t queue_bytes;     /* maximum bytes that waiting requests of all users hold */
    uint64_t queue_bytes_uid; /* maximum bytes that waiting requests of one user hold */
};

KILN_MUST_CHECK enum kiln_code engine_open(const struct engine_options *options,
                                           struct engine **ret_engine, struct kiln_err *err);
/* Closes the engine.  Call it only if engine_idle() returns true: no task is running, and no caller
 * has joined (service_join). */
void engine_close(struct engine *engine);

/* Starts the engine: reports what was found when the store was opened, and asks a compiler process
 * which toolchains are installed.  Requests that need a toolchain wait for that answer. */
void engine_start(struct engine *engine);
/* Stops accepting compilations: queued ones fail with KILN_UNAVAILABLE, running ones finish. */
void engine_drain(struct engine *engine);
bool engine_idle(const struct engine *engine);
/* Applies new limits and policies: the sizes, counts and times of |options|, and tuning_stale. The
 * other options keep the values that they had when the engine was opened. */
void engine_set_limits(struct engine *engine, const struct engine_options *options);

struct engine_pulse {            /* the metrics that users look at first */
    uint64_t asked;              /* number of kernels requested; each item of a batch counts */
    uint64_t found;              /* number of those that were found in a tier */
    unsigned compiling, waiting; /* compiles that run now, and compiles that wait */
};
struct engine_pulse engine_pulse(const struct engine *engine);

struct engine_waiting { /* bytes of waiting requests */
    uint64_t now, peak; /* |peak|: the maximum since the previous call */
};
struct engine_waiting engine_waiting(const struct engine *engine);

/* Does periodic work, such as writing times of last use in batches and retrying work that failed.
 * Call it about once a second. */
void engine_tick(struct engine *engine);
/* Stops compiles which must give way to another user; engine_tick does this as well. Call it more
 * often than engine_tick while compiles wait. */
void engine_share_compilers(struct engine *engine);
