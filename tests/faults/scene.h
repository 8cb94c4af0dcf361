/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A real kilnd under a fault plan, and its client.
 *
 * Role       starts kilnd with the shim, sends requests with known answers, records what was
 *            acknowledged, and checks afterwards that it exists, that nothing else does, and that
 *            counters add up
 * Ownership  scene_close ends all processes and removes the directory
 * Threading  one thread
 */
#include "tests/faults/cases.h"
#include "tests/faults/descriptors.h"
#include "tests/support/daemon_process.h"

#include <kiln/kiln.h>

#define SCENE_RECORDS 4u /* how many tuning records a scene has */
#define SCENE_WARM 4u    /* kernels 1 to 4 are stored at the start */

struct scene {
    const struct fault_case *c;
    struct daemon_process daemon;
    struct program_result result;
    struct fault_plan *plan;
    char plan_path[128];
    char files[128];     /* directory of files to import, and a package */
    const char *program; /* where faults are injected: "kilnd"; "": this process */
    unsigned kernel;     /* the number of the latest new one */
    unsigned version;    /* of tuning records: each is faster than the one before */
    unsigned acknowledged[SCENE_RECORDS]; /* versions that must not be lost; 0: none */
    unsigned tried[SCENE_RECORDS];        /* the latest that may be stored */
    unsigned prefetch;          /* the number of the latest problem whose kernels were prefetched */
    unsigned prefetch_kept;     /* the latest that kilnctl reported as stored; 0: none */
    unsigned tuned;             /* the number of the latest problem that a lease was taken for */
    unsigned tuned_kept;        /* the latest whose lease ended with a result; 0: none */
    bool apart_done;            /* the separate process of scene_act_apart succeeded */
    bool knows_rest;            /* |resting| is known */
    struct descriptors resting; /* descriptors of an idle kilnd */
    char why[512];              /* why the latest kernel did not come, or "" */
};

/* Makes a directory and an empty plan for |program|. Starts no kilnd. */
void scene_open(struct scene *s, const struct fault_case *c, const char *program);
/* Starts kilnd, and stores SCENE_WARM kernels and all records. */
void scene_start(struct scene *s);
/* Records kilnd's descriptors. Until it ends, an idle kilnd must have the same. */
void scene_rest(struct scene *s);
void scene_warm(struct scene *s);
/* Starts kilnd, which may fail. True: it serves. Otherwise it must have exited and logged the
 * reason. */
bool scene_try_start(struct scene *s);
/* kilnd must serve everything as without a fault. */
void scene_serves(struct scene *s);
/* The same for kernels only, for a kilnd that could not open its tuning database. */
void scene_serves_kernels(struct scene *s);
/* Checks what must hold without a fault: kilnd runs, its counters add up, there is no lease, and
 * its descriptors are those of scene_rest. */
void scene_is_sound(struct scene *s);
/* Stops kilnd with SIGTERM. Afterwards no process may be left. */
void scene_stop(struct scene *s);
/* Reaps children. True: there are no more. For wait_until. */
bool scene_has_no_child(void *unused);
/* Waits until all threads and processes of kilnd sleep, so that faults are also injected into work
 * after the answer. Checks nothing. */
void scene_settle(struct scene *s);
/* Runs |act| in a separate process. Kills that process if kilnd was killed, or cannot answer during
 * a lasting fault. |is_faulty|: that process obeys the plan. |s| must be in shared memory. */
bool scene_act_apart(struct scene *s, bool (*act)(struct scene *s), bool is_faulty);
/* Reaps a kilnd that the plan has killed. */
void scene_reap(struct scene *s);
/* Checks that the stores are sound, that the next kilnd serves everything acknowledged, and that
 * nothing is left behind. */
void scene_survives(struct scene *s);
void scene_close(struct scene *s);

struct kiln_client *scene_client(const struct scene *s);
/* True if a libkiln call succeeded. A failure must have a code and a message. */
bool scene_ended(int rc, const struct kiln_error *err);
/* Fetches a kernel. True: it came. Its bytes must be right. */
bool scene_fetch(struct scene *s, struct kiln_client *client, unsigned number);
bool scene_fetch_batch(struct scene *s, struct kiln_client *client, unsigned count);
bool scene_put(struct scene *s, struct kiln_client *client, unsigned number);
/* Each call uses a new problem: the first prefetches its kernels, the second takes a lease for it
 * and ends the lease. */
bool scene_prefetch(struct scene *s);
bool scene_tune(struct scene *s, struct kiln_client *client);
/* Runs kilnctl. True: it succeeded. Otherwise it must have printed the reason. */
bool scene_asks(struct scene *s, const char *const *words);
