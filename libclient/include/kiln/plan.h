/* SPDX-License-Identifier: MIT */
#ifndef KILN_PLAN_H
#define KILN_PLAN_H

/*
 * Plans: a plan says how to solve a problem on a device, and has the kernels for it.
 *
 * Ownership  Plans are reference-counted (kiln_plan_unref) and own their kernels.  Strings and
 *            kernels that a plan returns are borrowed and stay valid as long as the plan.
 * Threads    Plans are immutable and may be shared.
 */
#include <kiln/kernel.h>
#include <kiln/problem.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_plan;

/* What determined a plan's solver and perf config. */
enum {
    /* The request's options set both. */
    KILN_PLAN_FORCED,
    /* A perf record set the config; the options or the heuristic set the solver. */
    KILN_PLAN_PERF,
    /* A find record set the solver; a perf record set its config, if there is one. */
    KILN_PLAN_FIND,
    /* No record applied.  The heuristic set what the options did not. */
    KILN_PLAN_HEURISTIC,
    /* The records of a similar problem set the solver and its config; see kiln_plan_options. */
    KILN_PLAN_NEAREST,
    /* Kernels of the chosen plan were not stored, so generic kernels stand in for them; see
     * kiln_plan_options. */
    KILN_PLAN_GENERIC,
};

struct kiln_plan_options {
    size_t size;
    const char *target; /* the target to compile for; see kiln_device_target() */
    /* The database id (kiln_device_database_id()) of the device whose records and packages are
     * used, such as "gfx90a68"; NULL: use no records. */
    const char *database_id;
    const char *solver;    /* name of the solver to use; NULL: the best one that applies */
    const char *toolchain; /* NULL: the daemon chooses */
    int priority;          /* KILN_INTERACTIVE or KILN_PREFETCH */
    int no_objects;        /* 1: compile and cache the kernels, but do not send them (prefetch) */
    /* Only with |solver|: the perf config to use; NULL: the best known one. */
    const char *config;
    int heuristic; /* 1: ignore all records */
    /* The device's driver version, to detect stale records; NULL: treat no record as stale. */
    const char *driver;
    int timeout_ms; /* time-out of the call, or of the whole batch; 0: the client's default */
    /* 1: if the problem has no find record, use the records of the most similar problem that has
     * one.  Batch sizes are compared first, then spatial sizes.  A kilnd of an older release uses
     * the heuristic instead. */
    int nearest;
    /* 1: if a kernel of the chosen plan is not stored, but generic kernels for the problem are, use
     * these.  Generic kernels take their sizes as arguments, so they need no compilation, but they
     * are slower.  Ignored with |solver|, and by a kilnd of an older release. */
    int generic;
    /* 1: use no kernels of packages that another compiler than kilnd's may have built, because the
     * GPU's driver refuses them.  A kilnd of an older release uses them all the same. */
    int no_packages;
};

/* Returns a plan with its code objects.  The daemon compiles the objects that are not cached.
 * Returns KILN_E_UNSUPPORTED if no solver applies or no compiler of this host supports the target.
 * Returns KILN_E_COMPILE_FAILED if a compiler failed; its log is in err->log.
 *
 * An identical request is answered from the in-process cache, unless |no_objects| or |config| is
 * set.  A cached answer is dropped when this client records measurements of the problem, or
 * takes a lease to tune the problem (<kiln/tuning.h>).  Records of other clients only affect
 * clients that are opened later. */
int kiln_plan_get(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_plan_options *options, struct kiln_plan **ret_plan,
                  struct kiln_error *err);

/* Called once for each problem, as plans become ready, on the calling thread.  On success, |plan|
 * is borrowed and |err| is NULL.  On failure, |plan| is NULL and |err| says why.  The callback may
 * call the library with the same client.  If it returns a value other than 0, the batch stops and
 * the callback is not called again. */
typedef int kiln_plan_ready(void *context, size_t index, struct kiln_plan *plan,
                            const struct kiln_error *err);
struct kiln_plan_batch {
    size_t size;
    const struct kiln_problem *problems; /* borrowed */
    size_t count;
    const struct kiln_plan_options *options; /* borrowed; they apply to every problem */
    kiln_plan_ready *ready;
    void *context; /* passed to |ready| */
};
/* Requests many plans at once, with as many in flight as the daemon allows.  Returns KILN_E_OK when
 * every problem was answered, including those that failed, and KILN_E_CANCELLED when |ready|
 * stopped the batch.  After any other error, the remaining plans cannot be obtained. */
int kiln_plan_batch(struct kiln_client *client, const struct kiln_plan_batch *batch,
                    struct kiln_error *err);

struct kiln_plan *kiln_plan_ref(struct kiln_plan *plan);
void kiln_plan_unref(struct kiln_plan *plan); /* accepts NULL */
const char *kiln_plan_solver(const struct kiln_plan *plan);
/* Returns the solver's perf config, in the form that <kiln/tuning.h> records ("128,64,8"), or "" if
 * there is nothing to tune. */
const char *kiln_plan_config(const struct kiln_plan *plan);
int kiln_plan_source(const struct kiln_plan *plan); /* KILN_PLAN_FORCED, ... */
/* Returns the time recorded for this solver and config, in milliseconds; 0 if none is recorded. */
double kiln_plan_expected_ms(const struct kiln_plan *plan);
const char *kiln_plan_toolchain(const struct kiln_plan *plan);
/* Returns the compiler's name, version and identity, for kiln_recording.toolchain and
 * kiln_tuning_options.toolchain; "" if the kernels came from a package. */
const char *kiln_plan_toolchain_identity(const struct kiln_plan *plan);
/* Returns how many bytes of workspace the caller must pass at launch. */
uint64_t kiln_plan_workspace(const struct kiln_plan *plan);
/* Returns how many nanoseconds the daemon spent on planning. */
uint64_t kiln_plan_ns(const struct kiln_plan *plan);

/* Returns the number of distinct code objects. */
unsigned kiln_plan_object_count(const struct kiln_plan *plan);
/* Returns a code object, borrowed; NULL if the options had |no_objects|, or if |index| is too
 * large. */
struct kiln_kernel *kiln_plan_object(const struct kiln_plan *plan, unsigned index);
/* Return a code object's key and tier, which are known even if the options had |no_objects|. */
const char *kiln_plan_object_key(const struct kiln_plan *plan, unsigned index);
int kiln_plan_object_tier(const struct kiln_plan *plan, unsigned index);
uint64_t kiln_plan_object_size(const struct kiln_plan *plan, unsigned index);
uint64_t kiln_plan_object_compile_ns(const struct kiln_plan *plan, unsigned index);

struct kiln_plan_launch {
    size_t size;
    const char *kernel;    /* entry point */
    unsigned object;       /* index of its code object */
    uint32_t grid[3];      /* work groups (blocks) */
    uint32_t group[3];     /* work items (threads) in a group */
    uint32_t shared_bytes; /* dynamic shared memory (LDS) that the launch must request */
};
unsigned kiln_plan_launch_count(const struct kiln_plan *plan);
/* Gets a launch.  Returns KILN_E_INVALID if |index| is too large. */
int kiln_plan_launch(const struct kiln_plan *plan, unsigned index,
                     struct kiln_plan_launch *ret_launch, struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
