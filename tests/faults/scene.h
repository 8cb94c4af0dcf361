/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A real kilnd that a plan strikes, and a client of it.
 *
 * Role       starts kilnd with the shim, asks it for what a test knows the answer to, keeps what
 *            was acknowledged, and checks afterwards that it is there, that nothing else is, and
 *            that counters add up
 * Ownership  scene_close ends all processes and removes the directory
 * Threading  one thread
 */
#include "tests/faults/cases.h"
#include "tests/faults/descriptors.h"
#include "tests/support/daemon_process.h"

#include <kiln/kiln.h>

#define SCENE_RECORDS 4u /* tuning records by number */
#define SCENE_WARM 4u    /* kernels 1 to 4 are there from the start */

struct scene {
    const struct fault_case *c;
    struct daemon_process daemon;
    struct program_result result;
    struct fault_plan *plan;
    char plan_path[128];
    char files[128];     /* what is imported, and a package */
    const char *program; /* that the plan strikes: "kilnd"; "": this process */
    unsigned kernel;     /* the number of the latest new one */
    unsigned version;    /* of tuning records: each is faster than the one before */
    unsigned acknowledged[SCENE_RECORDS]; /* versions that must not be lost; 0: none */
    unsigned tried[SCENE_RECORDS];        /* the latest that may be there */
    unsigned prefetch;          /* the number of the latest problem whose kernels were prefetched */
    unsigned prefetch_kept;     /* the latest that is stored, as kilnctl says; 0: none */
    unsigned tuned;             /* the number of the latest problem that a lease was taken for */
    unsigned tuned_kept;        /* the latest whose lease came to its end; 0: none */
    bool apart_done;            /* what was done in another process succeeded */
    bool knows_rest;            /* |resting| is kilnd's */
    struct descriptors resting; /* of kilnd, when nobody asks for anything */
    char why[512];              /* the latest kernel did not come; "" */
};

/* A directory, a plan that strikes nothing in |program|; no kilnd yet. */
void scene_open(struct scene *s, const struct fault_case *c, const char *program);
/* Starts it and has SCENE_WARM kernels and a record of each number. */
void scene_start(struct scene *s);
/* What it has open now is what it must have open at rest, until it ends. */
void scene_rest(struct scene *s);
void scene_warm(struct scene *s);
/* Starts it where it may fail: true when it serves; else it must have ended and said why. */
bool scene_try_start(struct scene *s);
/* Must serve all, as if nothing had been. */
void scene_serves(struct scene *s);
/* The same of kernels alone: a kilnd whose tuning database could not be opened says so. */
void scene_serves_kernels(struct scene *s);
/* What must hold at any moment without a fault: it lives, its counters add up, nobody holds a
 * lease, at rest it has the descriptors that it had before. */
void scene_is_sound(struct scene *s);
/* Ends kilnd in order; then no process is left. */
void scene_stop(struct scene *s);
/* Reaps what has ended.  For wait_until. */
bool scene_has_no_child(void *unused);
/* Lets it do what it does after it answered, until all its threads and processes sleep; what a
 * place is struck in, not what is judged. */
void scene_settle(struct scene *s);
/* |act| in a process of its own, which is ended when kilnd was killed or, with a fault that lasts,
 * cannot answer.  |is_struck|: that process obeys the plan.  |s| must be shared memory. */
bool scene_act_apart(struct scene *s, bool (*act)(struct scene *s), bool is_struck);
/* Reaps a kilnd that the plan has killed. */
void scene_reap(struct scene *s);
/* The stores are sound, the next start serves what was acknowledged, nothing is left behind. */
void scene_survives(struct scene *s);
void scene_close(struct scene *s);

struct kiln_client *scene_client(const struct scene *s);
/* A call of the library ended: well, or with a code and a sentence. */
bool scene_ended(int rc, const struct kiln_error *err);
/* Fetches; whether it came, with the right bytes. */
bool scene_fetch(struct scene *s, struct kiln_client *client, unsigned number);
bool scene_fetch_batch(struct scene *s, struct kiln_client *client, unsigned count);
bool scene_put(struct scene *s, struct kiln_client *client, unsigned number);
/* Has a problem's kernels compiled ahead, another one each time; takes a lease for a problem and
 * ends it. */
bool scene_prefetch(struct scene *s);
bool scene_tune(struct scene *s, struct kiln_client *client);
/* Runs kilnctl: whether it succeeded; else it must have said why. */
bool scene_asks(struct scene *s, const char *const *words);
