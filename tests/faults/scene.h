/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs a real kilnd under a fault plan, and acts as its client.
 *
 * A scene starts kilnd with the shim (plan.h), sends requests whose correct answers are known, and
 * records what kilnd acknowledged. Afterwards the scene checks that exactly the acknowledged data
 * exist and that kilnd's counters are consistent. scene_close ends all processes and removes the
 * directory. Only one thread may use a scene. */
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
    char files[128]; /* directory with files to import and a package */
    /* The program into which faults are injected, such as "kilnd". "" means this process, which is
     * kilnd's client. */
    const char *program;
    unsigned kernel;
    /* version of the next tuning record that is stored; a higher version has a shorter time */
    unsigned version;
    /* for each record, the latest version that kilnd acknowledged; 0 if none */
    unsigned acknowledged[SCENE_RECORDS];
    /* for each record, the latest version sent to kilnd, which may be stored */
    unsigned tried[SCENE_RECORDS];
    /* the number of the latest problem whose kernels were prefetched */
    unsigned prefetch;
    /* the number of the latest problem whose prefetch kilnctl reported as successful, or 0 */
    unsigned prefetch_kept;
    unsigned tuned; /* the number of the latest problem for which a lease was taken */
    /* the number of the latest problem whose lease ended with an acknowledged result, or 0 */
    unsigned tuned_kept;
    size_t listed; /* number of kernels in the latest list from kilnctl; 0 means unknown */
    bool apart_done;
    bool knows_rest;
    struct descriptors resting; /* descriptors of an idle kilnd */
    char why[512];              /* why the latest kernel was not received, or "" */
};

/* Makes a directory and an empty plan for |program|. Starts no kilnd. */
void scene_open(struct scene *s, const struct fault_case *c, const char *program);
/* Starts kilnd, and stores SCENE_WARM kernels and all records. */
void scene_start(struct scene *s);
/* Records which descriptors an idle kilnd has. scene_is_sound compares with them. */
void scene_rest(struct scene *s);
void scene_warm(struct scene *s);
bool scene_try_start(struct scene *s);
void scene_serves(struct scene *s);
/* Like scene_serves, but accepts that kilnd could not open its tuning database. */
void scene_serves_kernels(struct scene *s);
/* Checks that kilnd runs, that its counters are consistent and that no lease exists. kilnd must
 * have the descriptors that scene_rest recorded. */
void scene_is_sound(struct scene *s);
void scene_stop(struct scene *s);
/* For wait_until. Reaps all children that have ended. Returns true if no child is left. */
bool scene_has_no_child(void *unused);
/* Waits until all of kilnd's threads and child processes sleep, so that faults are also injected
 * into the work that kilnd does after its answer. */
void scene_settle(struct scene *s);
/* Runs |act| in a separate process. Kills the separate process if the fault has killed kilnd, or if
 * kilnd does not answer because the fault lasts. If |is_faulty|, faults are injected into the
 * separate process. |s| must be in shared memory. */
bool scene_act_apart(struct scene *s, bool (*act)(struct scene *s), bool is_faulty);
void scene_reap(struct scene *s);
/* Checks that the databases are consistent, that a new kilnd without faults serves everything that
 * was acknowledged, and that no temporary files are left. */
void scene_survives(struct scene *s);
void scene_close(struct scene *s);

struct kiln_client *scene_client(const struct scene *s);
/* Returns true if |rc| is success. A failure must have a code and a message. */
bool scene_ended(int rc, const struct kiln_error *err);
/* Returns true if the kernel was received. Its bytes must be correct. */
bool scene_fetch(struct scene *s, struct kiln_client *client, unsigned number);
bool scene_fetch_batch(struct scene *s, struct kiln_client *client, unsigned count);
bool scene_put(struct scene *s, struct kiln_client *client, unsigned number);
bool scene_prefetch(struct scene *s);
bool scene_tune(struct scene *s, struct kiln_client *client);
/* Runs kilnctl with |words|. Returns true if kilnctl succeeded; otherwise it must have printed the
 * reason. */
bool scene_asks(struct scene *s, const char *const *words);
