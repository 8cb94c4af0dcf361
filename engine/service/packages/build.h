/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One build: makes a package of the kernels that a list of problems needs.
 *
 * Role       in each loop iteration, chooses the solvers and perf configs of some problems, as a
 *            plan for the same caller would.  A step on a work queue then determines the kernels
 *            and sorts them into the package's order.  The kernels are fetched in this order, at
 *            most BUILD_WINDOW at a time.  Further steps write them to the package.  The package is
 *            returned as a descriptor
 * Ownership  a deferred request
 * Threading  the engine's thread; while a step runs on a work queue, only the step uses its data.
 *            The steps of all builds run one at a time
 */
#include "engine/package/package_writer.h"
#include "engine/service/kernels/fetch.h"
#include "engine/service/requests/exported_files.h"
#include "engine/service/requests/plan_choose.h"

#include <limits.h>

/* Maximum number of kernels whose fetch has begun and that are not written yet. This number keeps
 * every compiler busy and needs few descriptors. */
#define BUILD_WINDOW 256
#define BUILD_ROWS_A_STEP 64
/* Estimated memory for one kernel, including its name and arguments. */
#define BUILD_ITEM_BYTES (sizeof(struct build_item) + sizeof(struct solution_program) + 1024)

struct build_item {
    struct fetch_ticket ticket; /* first member */
    struct build *build;
    struct list_link again;
    struct solution_program *program; /* owned until the row is written, as are |name| and |args| */
    struct buffer name, args;         /* name and arguments of the package's row */
    struct problem problem;
    struct object *object; /* owned reference; NULL until the fetch has succeeded */
    struct digest key;
    bool ended;
};

struct build_fetches { /* state of build_gather.c */
    size_t begun, ended, failed;
    size_t ready; /* index in |order|: all fetches before it have ended */
    size_t under_way, max;
    struct list again; /* of struct build_item; fetches to repeat, because the queue was full */
    uint64_t reported_ns;
};

struct build_package {             /* state of build_package.c */
    struct package_writer *writer; /* owned */
    char path[PATH_MAX];
    size_t written, step_end; /* rows before |written| are in the file; the current step ends at
                               * |step_end| */
    uint64_t rows;
    struct export_space space; /* reserved for the file */
    struct object *file;       /* owned reference */
};

struct build {
    struct deferred base;  /* first member */
    struct json *failures; /* owned until it is in the answer */
    struct target target;
    struct toolchain toolchain; /* a copy */
    enum package_format format;
    struct buffer problems;
    struct plan_ids ids;          /* ids of the device */
    struct plan_choice *choices;  /* owned; one for each problem, until the problems are solved */
    size_t problem_count, chosen; /* |chosen|: number of problems whose solver was chosen */
    struct build_item *items;     /* owned */
    size_t item_count, capacity;
    struct build_item **order; /* owned; each kernel once, in the order of the package */
    size_t count;
    size_t charged_items; /* how many kernels are charged to the user's budget */
    struct build_fetches fetches;
    struct build_package package;
};

/* ---- build.c: beginning, steps and end ---- */

struct build *build_create(struct engine *e, struct caller *caller, uint64_t request_id,
                           struct kiln_err *err);
static inline struct build *build_of(struct deferred *d) { return (struct build *)d; }
/* Frees what the item owns. Call it once the item's row is written, or if the item is not
 * needed. */
void build_drop_item(struct build_item *item);
/* Runs |step| when the queue serves this user. Does nothing if a step already waits or runs. The
 * step's |done| must first call build_step_ended. */
void build_enqueue(struct build *b, const struct deferred_step *step);
/* Ends and frees the build if the step failed or the caller has left; then returns false. */
bool build_step_ended(struct build *b);

/* ---- build_kernels.c: the first steps, which find the kernels ---- */

/* Starts the steps. The build may have been freed when this returns. */
void build_begin(struct build *b);

/* ---- build_gather.c: fetches the kernels ---- */

/* Begins as many fetches as the limits allow. If there are enough rows to write, enqueues the step
 * that writes them. The build may have been freed when this returns. */
void build_go_on(struct build *b);
/* Stores a failure for the answer, which has only the first failures. */
void build_note_failure(struct build *b, const struct problem *problem, const struct kiln_err *why);

/* ---- build_package.c: the step that writes rows ---- */

extern const struct deferred_step build_write_step;
