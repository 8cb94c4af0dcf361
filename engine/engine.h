/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The engine: everything that the daemon does, except for sockets and the event loop.
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

struct engine_report {
    const char *event;
    const char *text;
    bool trouble;
    const struct digest *key; /* NULL: none */
    const uint32_t *uid;      /* NULL: no single user caused the event */
    struct bytes target;      /* empty: none */
    uint64_t duration_ns;     /* 0: none */
};

struct engine_host {
    /* Returns the settings and where each comes from. The caller owns the result. May be NULL. */
    struct json *(*config)(struct engine_host *host);
    void (*add_status)(struct engine_host *host, struct json *status);
    void (*add_stats)(struct engine_host *host, struct json *stats);
    /* Reports an event. The engine calls it often, so the host must limit the rate of its log. */
    void (*report)(struct engine_host *host, const struct engine_report *report);
};

struct engine_options {
    struct executor *executor;
    struct engine_host *host; /* borrowed; may be NULL */
    unsigned readers;
    const struct engine_data *data; /* borrowed; may be NULL */
    const char *cache_directory;    /* NULL: no cache, only allowed with KERNEL_STORE_OFF */
    uint64_t store_limit_bytes;
    uint64_t store_limit_bytes_uid; /* 0: none */
    enum kernel_store_mode store_mode;
    /* Directory of tuning.db. NULL: records stay in memory, and only puts can change them. */
    const char *state_directory;
    uint64_t tuning_records_per_uid, tuning_bytes_per_uid; /* 0: no limit */
    enum tuning_stale tuning_stale;
    /* Directory of the installed packages. NULL: the engine has only the packages of |data|, and no
     * package can be installed. */
    const char *package_directory;
    /* NULL-terminated; may be NULL */
    const char *const *more_package_directories;
    const char *trusted_keys;
    bool has_fleet;         /* the executor can read the files that the hosts of a fleet share */
    uint64_t fleet_wait_ms; /* how long a look-up may wait for the fleet; 0: the default */
    const char *fleet_keys; /* directory of the public keys of the fleet; NULL: none */
    /* If a compile is expected to take at least this long, this host requests a lease first. The
     * lease makes the other hosts wait for the kernel instead of compiling it, too. */
    uint64_t fleet_lease_ns;
    const char *fleet_tree;    /* URL of the fleet's tree; NULL: unknown */
    const char *fleet_builder; /* file of the secret key that signs compiled kernels; NULL: none */
    uint64_t package_limit;
    /* The directory of the KFD topology; NULL: the one in sysfs. */
    const char *kfd_directory;
    bool require_signature;
    uint64_t hot_limit_bytes;
    unsigned hot_limit_count;
    /* Maximum number of bytes of code objects that one user's processes may hold (held_objects.h);
     * 0: no limit. */
    uint64_t held_limit_bytes_uid;
    unsigned failure_ttl_s; /* a failed compile is not repeated for this long */
    unsigned queue_limit;
    unsigned queue_limit_uid;
    uint64_t queue_bytes;
    uint64_t queue_bytes_uid;
};

KILN_MUST_CHECK enum kiln_code engine_open(const struct engine_options *options,
                                           struct engine **ret_engine, struct kiln_err *err);
/* Closes and frees the engine. Call this function only while engine_idle() returns true: then no
 * task runs, and every caller has left (service_leave). */
void engine_close(struct engine *engine);

/* Reports problems that were found when the store was opened. Starts a compiler process that lists
 * the installed toolchains. Requests that need a toolchain wait for this list. */
void engine_start(struct engine *engine);
void engine_drain(struct engine *engine);
bool engine_idle(const struct engine *engine);
/* Applies the sizes, counts, times and tuning_stale of |options|, and no other option. */
void engine_set_limits(struct engine *engine, const struct engine_options *options);

struct engine_pulse {
    uint64_t asked;
    uint64_t found;
    unsigned compiling, waiting;
};
struct engine_pulse engine_pulse(const struct engine *engine);

struct engine_waiting {
    uint64_t now, peak; /* |peak|: the maximum of |now| since the previous call */
};
struct engine_waiting engine_waiting(const struct engine *engine);

/* Call this function about once a second. */
void engine_tick(struct engine *engine);
/* Stops running compiles whose compiler another user needs, and compiles whose result nobody wants
 * any longer. engine_tick does this, too, but only about once a second. Call this function more
 * often while compiles wait. */
void engine_share_compilers(struct engine *engine);
