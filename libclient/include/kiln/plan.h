/* SPDX-License-Identifier: MIT */
#ifndef KILN_PLAN_H
#define KILN_PLAN_H

/*
 * Plans: how to solve a problem on a device, with the kernels to do it.
 *
 * Ownership  a plan is counted (kiln_plan_unref) and owns its kernels; strings and kernels
 *            asked of it are borrowed and live as long as it does.
 * Threads    plans are immutable and may be shared.
 */
#include <kiln/kernel.h>
#include <kiln/problem.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_plan;

/* What decided on a plan's solver and perf config. */
enum {
    KILN_PLAN_FORCED,    /* the options named both */
    KILN_PLAN_PERF,      /* a perf record the config; the options or the heuristic the solver */
    KILN_PLAN_FIND,      /* a find record the solver; a perf record its config where there is one */
    KILN_PLAN_HEURISTIC, /* nothing recorded was of use */
};

struct kiln_plan_options {
    size_t size;             /* sizeof(struct kiln_plan_options) */
    const char *target;      /* what to compile for; see kiln_device_target() */
    const char *database_id; /* kiln_device_database_id() ("gfx90a68"): what was recorded for this
                                device counts, and its packages; NULL: nothing recorded does */
    const char *solver;      /* NULL: the best that applies; else a name to force */
    const char *toolchain;   /* NULL: the daemon chooses */
    int priority;            /* KILN_INTERACTIVE or KILN_PREFETCH */
    int no_objects;          /* 1: have the kernels made and kept, but not sent (prefetch) */
    const char *config;      /* with |solver|: a perf config to force; NULL: the best known */
    int heuristic;           /* 1: as if nothing were recorded */
    const char *driver;      /* version here, to tell which records are stale; NULL: none is */
};

/* One plan, with its code objects, compiled by the daemon where nobody had them.  The same question
 * asked again is answered in this process (not with no_objects or a config), until this client
 * records something for the problem or asks for a lease to tune it (<kiln/tuning.h>).  What others
 * record meanwhile counts for clients that open later. */
int kiln_plan_get(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_plan_options *options, int timeout_ms,
                  struct kiln_plan **ret_plan, struct kiln_error *err);

/* Called once for each problem, in the order they are ready, on the calling thread.  |plan|
 * (borrowed) is NULL on failure, |err| then says why; |err| is NULL otherwise.  May call the
 * library with the same client.  Not 0: stop, no more calls. */
typedef int kiln_plan_ready(void *context, size_t index, struct kiln_plan *plan,
                            const struct kiln_error *err);
/* Many at once, all in flight together as far as the daemon allows.  KILN_E_OK when every problem
 * was answered, failed ones included; KILN_E_CANCELLED when |ready| stopped it; another error only
 * when the rest will never come.  The time-out is for the whole. */
int kiln_plan_batch(struct kiln_client *client, const struct kiln_problem *problems, size_t count,
                    const struct kiln_plan_options *options, int timeout_ms, kiln_plan_ready *ready,
                    void *context, struct kiln_error *err);

struct kiln_plan *kiln_plan_ref(struct kiln_plan *plan);
void kiln_plan_unref(struct kiln_plan *plan); /* accepts NULL */
const char *kiln_plan_solver(const struct kiln_plan *plan);
/* The solver's perf config, as <kiln/tuning.h> records it ("128,64,8"); "": nothing to tune. */
const char *kiln_plan_config(const struct kiln_plan *plan);
int kiln_plan_source(const struct kiln_plan *plan); /* KILN_PLAN_FORCED, ... */
/* What was recorded for this solver and config, milliseconds; 0 where nothing was. */
double kiln_plan_expected_ms(const struct kiln_plan *plan);
const char *kiln_plan_toolchain(const struct kiln_plan *plan);
/* The compiler's name, version and identity, as kiln_recording.toolchain should have it and
 * kiln_tuning_options.toolchain asks for; "" where a package had the kernels. */
const char *kiln_plan_toolchain_identity(const struct kiln_plan *plan);
uint64_t kiln_plan_workspace(const struct kiln_plan *plan); /* bytes to be given at launch */
uint64_t kiln_plan_ns(const struct kiln_plan *plan);        /* what planning cost the daemon */

/* Distinct code objects, and the launches that use them, in order. */
unsigned kiln_plan_object_count(const struct kiln_plan *plan);
/* Borrowed; NULL with no_objects. */
struct kiln_kernel *kiln_plan_object(const struct kiln_plan *plan, unsigned index);
/* Key and tier, known also with no_objects. */
const char *kiln_plan_object_key(const struct kiln_plan *plan, unsigned index);
int kiln_plan_object_tier(const struct kiln_plan *plan, unsigned index);
uint64_t kiln_plan_object_size(const struct kiln_plan *plan, unsigned index);
uint64_t kiln_plan_object_compile_ns(const struct kiln_plan *plan, unsigned index);

struct kiln_plan_launch {
    size_t size;           /* in: sizeof(struct kiln_plan_launch) */
    const char *kernel;    /* entry point */
    unsigned object;       /* index of its code object */
    uint32_t grid[3];      /* work groups (blocks) */
    uint32_t group[3];     /* work items (threads) in a group */
    uint32_t shared_bytes; /* of shared memory (LDS) to be given at launch, beside the static */
};
unsigned kiln_plan_launch_count(const struct kiln_plan *plan);
int kiln_plan_launch(const struct kiln_plan *plan, unsigned index,
                     struct kiln_plan_launch *ret_launch, struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
