/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The fleet tier of a look-up: kernels that other hosts compiled (docs/formats/fleet.md).
 *
 * Role       keeps the index of each shard that this host uses up to date (a shard is all kernels
 *            of one target and toolchain), and fetches and stores kernels. If anything fails here,
 *            the look-up is a miss, and the kernel is compiled
 * Ownership  the engine owns the tier; a query frees itself when it ends
 * Threading  the engine's thread; records and indices are verified on WORK_QUEUE_READ
 *
 * A look-up waits at most |wait_ms| in total. If the store of the fleet fails, or answers nothing
 * within that time, look-ups stop asking the store. They ask it again once it has answered a
 * request of fleet_tier_tick, for which no job waits. A kernel that comes too late is still stored
 * in kernels.db.
 */
#include "engine/fleet/fleet_access.h"
#include "engine/fleet/fleet_trust.h"
#include "engine/jobs/compile_queue.h"
#include "engine/store/object.h"

#include <sys/types.h>

#define FLEET_WAIT_MS 300u
/* First part of the package name that a kernel from the fleet has in kernels.db. A colon and the id
 * of the builder's key follow. 'kilnctl fleet push' leaves out all kernels of packages, so it does
 * not push kernels that came from the fleet. */
#define FLEET_PACKAGE_NAME "fleet"

struct engine;
struct json;
struct fleet_tier;
struct fleet_query;

/* How this host's requests for leases ended. */
enum fleet_lease_end {
    FLEET_LEASE_TAKEN,   /* this host got the lease, and compiled the kernel */
    FLEET_LEASE_SHARED,  /* this host waited, and used the kernel that another host compiled */
    FLEET_LEASE_EXPIRED, /* this host waited in vain, and compiled the kernel itself */
    FLEET_LEASE_ENDS
};

struct fleet_tier_options {
    bool is_on;
    uint64_t wait_ms;              /* how long a look-up may wait; 0: FLEET_WAIT_MS */
    bool adds_kernels;             /* this host uploads the kernels that it compiles */
    uint64_t lease_compile_min_ns; /* compiles that are expected to take less need no lease */
    const char *keys;              /* directory of the public keys of the fleet */
    const char *state_directory;   /* contains fleet-epochs; NULL: epochs are kept in memory only */
};
KILN_MUST_CHECK enum kiln_code fleet_tier_create(const struct fleet_tier_options *options,
                                                 struct fleet_tier **ret_tier,
                                                 struct kiln_err *err);
/* Call it only if fleet_tier_is_idle returns true. */
void fleet_tier_destroy(struct fleet_tier *tier);
bool fleet_tier_is_idle(const struct fleet_tier *tier);
bool fleet_tier_is_on(const struct fleet_tier *tier);
/* Returns whether look-ups ask the fleet now. */
bool fleet_tier_is_up(const struct fleet_tier *tier);
/* Returns "unused" if this host adds no kernels, "unknown" until the store was probed, "on", or
 * "off" if the store cannot give leases, because it replaces files in spite of If-None-Match. */
const char *fleet_tier_leases(const struct fleet_tier *tier);
uint64_t fleet_tier_lease_count(const struct fleet_tier *tier, enum fleet_lease_end end);
uint64_t fleet_tier_late(const struct fleet_tier *tier);
uint64_t fleet_tier_ends(const struct fleet_tier *tier, enum fleet_end end);
uint64_t fleet_tier_faults(const struct fleet_tier *tier, enum fleet_fault fault);
/* To read the keys again, call fleet_keys_begin on the engine's thread, then fleet_keys_read on any
 * thread, then fleet_keys_install on the engine's thread, with the number from fleet_keys_begin.
 * fleet_keys_install takes ownership of the reference |trusted|. It ignores these keys if the keys
 * in use were read later. It drops the indices whose signers may no longer sign indices, and
 * returns the number of dropped indices. */
struct trusted;
uint64_t fleet_keys_begin(struct engine *e);
KILN_MUST_CHECK enum kiln_code fleet_keys_read(const struct fleet_tier *tier,
                                               struct trusted **ret_trusted, struct kiln_err *err);
unsigned fleet_keys_install(struct engine *e, struct trusted *trusted, uint64_t number);
void trusted_unref(struct trusted *trusted);
struct json *fleet_keys_describe(const struct fleet_tier *tier);
/* Returns JSON for the answer to a status request. */
struct json *fleet_tier_describe(const struct fleet_tier *tier);
/* Refreshes the keys and the indices that were used lately, and tries a store that failed. Call it
 * about once a second. */
void fleet_tier_tick(struct engine *e);
/* Requests the leases of kernels that this host can soon compile. Call it when a compile has
 * ended. */
void fleet_leases_next(struct engine *e);
/* Stops waiting for other hosts. Call it before the engine stops. */
void fleet_tier_drain(struct engine *e);

struct fleet_asked { /* borrowed for the call */
    struct digest key;
    struct fleet_shard shard;
    uid_t uid; /* the user who is charged for the work and for the stored kernel */
    enum priority priority;
    uint64_t expected_ns; /* expected duration of the compile */
    /* |object| is borrowed for the call; NULL: compile the kernel. Called once, but neither from
     * within fleet_tier_ask nor after fleet_tier_forget. */
    void (*answered)(void *context, struct object *object);
    void *context;
};
/* Returns false if the fleet does not have the kernel, or must not be asked now. */
bool fleet_tier_ask(struct engine *e, const struct fleet_asked *asked,
                    struct fleet_query **ret_query);
/* Call it when another request, of |uid|, needs the kernel, too. If the query waits until this host
 * can soon compile the kernel, it then waits no longer than a query of the other request would. */
void fleet_tier_join(struct fleet_query *query, uid_t uid, enum priority priority);
/* Requests the index of the shard, unless the fleet was asked for it before. An index with kernels
 * shows that the toolchain works: when it arrives, toolchains_note_works is called. Returns whether
 * such an index is in memory already. */
bool fleet_tier_load(struct engine *e, const struct fleet_shard *what);
enum fleet_presence { FLEET_LACKS_KERNEL, FLEET_HAS_KERNEL, FLEET_LOADS_INDEX };
/* Returns whether the fleet has the kernel, without fetching it. If the index is not in memory,
 * requests the index, and returns FLEET_LOADS_INDEX until the index has come. */
enum fleet_presence fleet_tier_look(struct engine *e, const struct fleet_shard *what,
                                    const struct digest *key);
/* Returns the target of an index in memory that has |key|, or NULL if no index in memory has it. */
const char *fleet_tier_target_of(const struct fleet_tier *tier, const struct digest *key);
struct fleet_pull_options {
    const struct json *targets; /* borrowed for the call; an array of texts */
    bool pulls_used;            /* also copies the kernels of all indices in memory */
    uint64_t bytes_max;
};
/* Copies kernels of the fleet into the store, in the background. Returns KILN_BUSY if another pull
 * runs. The answer to a status request describes the progress. */
KILN_MUST_CHECK enum kiln_code fleet_pull_start(struct engine *e,
                                                const struct fleet_pull_options *options,
                                                struct kiln_err *err);
void fleet_pull_stop(struct engine *e);
/* Call it when nobody waits for the answer any longer. |answered| is then not called. */
void fleet_tier_forget(struct fleet_query *query);
