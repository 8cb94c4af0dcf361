/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One build: problems in, a package of their kernels out.
 *
 * Role       solvers and perf configs are chosen as plans choose them for the asker, some
 *            problems a turn; a lane solves the problems and sorts the kernels as the package has
 *            them.  They are fetched in that order, like a plan's, a window of them at a time, and
 *            written in steps on a lane as they come; the package goes back as a descriptor
 * Ownership  a build frees itself once its answer is out and no step of it runs
 * Threading  the engine's thread; while a step runs, the lane alone touches what that step is
 * about. One step of one build runs at a time
 */
#include "engine/package/package_writer.h"
#include "engine/service/kernels/fetch.h"
#include "engine/service/requests/plan_choose.h"

#include <limits.h>

/* Kernels begun and not written: enough for every compiler, few enough for descriptors. */
#define BUILD_WINDOW 256
#define BUILD_ROWS_A_STEP 64
/* What a kernel takes, its name and arguments more or less. */
#define BUILD_ITEM_BYTES (sizeof(struct build_item) + sizeof(struct solution_program) + 1024)

struct build_item {
    struct fetch_ticket ticket; /* first member */
    struct build *build;
    struct build_item *next_again;
    struct solution_program *program; /* owned, as the next; until the row is written */
    struct buffer name, args;         /* the row's place */
    struct problem problem;
    struct object *object; /* owned reference; NULL until it is there, and when it failed */
    struct digest key;
    bool ended;
};

struct build {
    struct service_waiter waiter; /* first member */
    struct task task;
    struct engine *engine;
    struct build *next;             /* in the engine's list */
    struct build *next_waiting;     /* for its turn */
    struct json *question, *answer; /* owned */
    struct json *failures;          /* owned until it is in the answer */
    struct target target;
    struct toolchain toolchain; /* a copy */
    enum package_format format;
    struct buffer problems;
    struct plan_ids ids;          /* of the device it is for */
    struct plan_choice *choices;  /* owned: one a problem, until they are solved */
    size_t problem_count, chosen; /* chosen: so many of them are */
    struct build_item *items;     /* owned */
    size_t item_count, capacity;
    struct build_item **order; /* owned: each kernel once, as the package has them */
    size_t count;
    uid_t uid;
    bool is_admin;        /* who asked */
    uint64_t charged;     /* bytes: to its user's budget */
    size_t charged_items; /* of them, kernels */
    size_t begun, ended, failed;
    size_t ready;             /* of order: all before it have ended */
    size_t written, step_end; /* all before are written, and are when the step is done */
    size_t under_way, fetches_most;
    struct build_item *again; /* to be asked for again: there was no room in the queue */
    uint64_t told_ns;
    bool step_waits, step_runs;    /* for the turn; on a lane */
    struct package_writer *writer; /* owned */
    char path[PATH_MAX];
    uint64_t rows;
    struct object *file; /* owned reference: the package */
    enum kiln_code rc;
    struct kiln_err err;
};

/* ---- build.c: its end, and the turns that steps take ---- */

/* A build of |uid|, in the engine's list; NULL without memory. */
struct build *build_create(struct engine *e, uid_t uid);
/* Gives back what the kernel holds; once its row is written, or when it is not needed. */
void build_drop_item(struct build_item *item);
/* No step may run. */
void build_destroy(struct build *b);
struct build *build_of_task(struct task *task);
/* Nobody waits for it any more: gone at once, or when the step that runs is done. */
void build_end(struct build *b);
/* Refuses it to whoever waits, and ends it. */
void build_fail(struct build *b, const struct kiln_err *why);
/* |work| on a lane when its turn comes, then |done|, which calls build_end_step first. */
void build_ask_for_step(struct build *b, void (*work)(struct task *), void (*done)(struct task *));
/* False: the build has ended meanwhile, and is gone. */
bool build_end_step(struct build *b);

/* ---- build_kernels.c: the first steps, which kernels ---- */

/* Asks for the steps; the build may be gone when this returns. */
void build_begin(struct build *b);

/* ---- build_gather.c: fetches them ---- */

/* Begins, or asks for a step, as far as there is room.  The build may be gone when this returns. */
void build_go_on(struct build *b);
/* Kept for the answer; of many, the first. */
void build_note_failure(struct build *b, const struct problem *problem, const struct kiln_err *why);

/* ---- build_package.c: the step that writes rows ---- */

void build_write_rows(struct task *task);
void build_rows_written(struct task *task);
