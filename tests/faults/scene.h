/* SPDX-License-Identifier: MIT */
#pragma once

/* A real kilnd under a fault plan, and its client.
 *
 * A scene starts kilnd with the shim (plan.h), sends requests with known answers, and records
 * what kilnd acknowledged. Afterwards the scene checks that exactly the acknowledged data exist,
 * and that counters add up. scene_close ends all processes and removes the directory. One thread
 * uses a scene. */
#include "tests/faults/cases.h"
#include "tests/faults/descriptors.h"
#include "tests/support/daemon_process.h"

#include <kiln/kiln.h>

#define SCENE_RECORDS 4u
#define SCENE_WARM 4u /* kernels 1 to 4 are stored at the start */

struct scene {
    const struct fault_case *c;
    struct daemon_process daemon;
    struct program_result result;
    struct fault_plan *plan;
    char plan_path[128];
    char files[128]; /* directory of files to import, and of a package */
    /* program into which faults are injected, such as "kilnd"; "" means this process */
    const char *program;
    unsigned kernel;
    unsigned version; /* version of tuning records; each version is faster than the one before */
    unsigned acknowledged[SCENE_RECORDS]; /* versions that must not be lost; 0 if there are none */
    unsigned tried[SCENE_RECORDS];        /* the latest versions that may be stored */
    unsigned prefetch;                    /* the latest problem whose kernels were prefetched */
    /* the latest problem that kilnctl reported as stored, or 0 */
    unsigned prefetch_kept;
    unsigned tuned; /* the latest problem for which a lease was taken */
    /* the latest problem whose lease ended with a result, or 0 */
    unsigned tuned_kept;
    size_t listed; /* number of kernels that kilnctl lists; 0 means unknown */
    bool apart_done;
    bool knows_rest;
    struct descriptors resting; /* descriptors of an idle kilnd */
    char why[512];              /* why the latest kernel was not received, or "" */
};

/* Makes a directory and an empty plan for |program|. Starts no kilnd. */
void scene_open(struct scene *s, const struct fault_case *c, const char *program);
/* Starts kilnd, and stores SCENE_WARM kernels and all records. */
void scene_start(struct scene *s);
/* Records the descriptors that kilnd must have whenever it is idle. */
void scene_rest(struct scene *s);
void scene_warm(struct scene *s);
bool scene_try_start(struct scene *s);
void scene_serves(struct scene *s);
/* Like scene_serves, but kilnd may have failed to open its tuning database. */
void scene_serves_kernels(struct scene *s);
/* Checks that kilnd runs, its counters add up and no lease exists. kilnd's descriptors must be
 * those that scene_rest recorded. */
void scene_is_sound(struct scene *s);
void scene_stop(struct scene *s);
/* For wait_until. Reaps children, and returns true if there are no more children. */
bool scene_has_no_child(void *unused);
/* Waits until all threads and processes of kilnd sleep. In this way, faults are also injected into
 * the work that kilnd does after its answer. */
void scene_settle(struct scene *s);
/* Runs |act| in a separate process, which is killed if kilnd was killed, or cannot answer during
 * a lasting fault. If |is_faulty|, the separate process obeys the plan. |s| must be in shared
 * memory. */
bool scene_act_apart(struct scene *s, bool (*act)(struct scene *s), bool is_faulty);
void scene_reap(struct scene *s);
/* Checks that the stores are sound, that the next kilnd serves everything acknowledged, and that
 * nothing is left behind. */
void scene_survives(struct scene *s);
void scene_close(struct scene *s);

struct kiln_client *scene_client(const struct scene *s);
/* Returns true if a libkiln call succeeded. Checks that a failure has a code and a message. */
bool scene_ended(int rc, const struct kiln_error *err);
/* Returns true if the kernel was received. Checks its bytes. */
bool scene_fetch(struct scene *s, struct kiln_client *client, unsigned number);
bool scene_fetch_batch(struct scene *s, struct kiln_client *client, unsigned count);
bool scene_put(struct scene *s, struct kiln_client *client, unsigned number);
bool scene_prefetch(struct scene *s);
bool scene_tune(struct scene *s, struct kiln_client *client);
/* Returns true if kilnctl succeeded. Otherwise, it must have printed the reason. */
bool scene_asks(struct scene *s, const char *const *words);
