/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One build: makes a package of the kernels that a list of problems needs.
 *
 * Role       each loop iteration chooses some solvers and perf configs, as a plan for the same
 *            caller would. A step on a work queue then sorts the kernels into the package's order.
 *            The kernels are fetched in this order, and further steps write them
 * Ownership  a deferred request
 * Threading  the engine's thread; while a step runs on a work queue, only the step uses its data.
 *            The steps of all builds run one at a time
 */
#include "engine/package/package_writer.h"
#include "engine/service/kernels/fetch.h"
#include "engine/service/requests/exported_files.h"
#include "engine/service/requests/plan_choose.h"

#include <limits.h>

/* Maximum number of kernels that are fetched, but not yet written: enough to keep every compiler
 * busy, but with few open descriptors. */
#define BUILD_WINDOW 256
#define BUILD_ROWS_A_STEP 64
/* Estimated memory of one item, including the kernel's name and arguments. */
#define BUILD_ITEM_BYTES (sizeof(struct build_item) + sizeof(struct solution_program) + 1024)

struct build_item {
    struct fetch_ticket ticket;
    struct build *build;
    struct list_link again;
    struct solution_program *program; /* owned until the row is written, like |name| and |args| */
    struct buffer name, args;
    struct problem problem;
    struct object *object;
    struct digest key;
    bool ended;
};

struct build_fetches {
    size_t begun, ended, failed;
    size_t ready; /* index in |order|: all fetches before it have ended */
    size_t under_way, max;
    struct list again; /* fetches to repeat, because the queue was full */
    uint64_t reported_ns;
};

struct build_package {
    struct package_writer *writer;
    char path[PATH_MAX];
    size_t written, step_end; /* rows before |written| are in the file */
    uint64_t rows;
    struct export_space space;
    struct object *file;
};

struct build_records { /* tuning records that the package will have, as MIOpen's text files */
    bool wanted;
    struct buffer text[2]; /* FindDb, PerfDb */
    uint64_t count;
};

struct build {
    struct deferred base;
    struct json *failures;
    struct target target;
    struct toolchain toolchain;
    enum package_format format;
    struct buffer problems;
    struct plan_ids ids;
    bool is_generic;             /* the choices are made already */
    struct plan_choice *choices; /* owned; one for each problem, until the problems are solved */
    size_t problem_count, chosen;
    struct build_item *items;
    size_t item_count, capacity;
    struct build_item **order; /* owned; each kernel once, in the order of the package */
    size_t count;
    size_t charged_items;
    struct build_fetches fetches;
    struct build_package package;
    struct build_records records;
};

struct build *build_create(struct engine *e, struct caller *caller, uint64_t request_id,
                           struct kiln_err *err);
static inline struct build *build_of(struct deferred *d) { return (struct build *)d; }
void build_drop_item(struct build_item *item);
/* Queues |step|, unless a step of the build already waits or runs. The step's |done| must first
 * call build_step_ended. */
void build_enqueue(struct build *b, const struct deferred_step *step);
/* If the step failed or the caller has left, frees the build and returns false. */
bool build_step_ended(struct build *b);

void build_begin(struct build *b);

/* Begins fetches or the step that writes rows. May free the build. */
void build_go_on(struct build *b);
/* Counts the failure, and adds it to the answer if it is one of the first. */
void build_note_failure(struct build *b, const struct problem *problem, const struct kiln_err *why);

/* Makes the build add the tuning records of all problems to the package. Returns KILN_INVALID if
 * the package's format has no records, or if the build is for no device. */
KILN_MUST_CHECK enum kiln_code build_want_records(struct build *b, struct kiln_err *err);
/* If build_want_records was called, collects the problem's tuning records for the package. Runs on
 * the engine's thread, because it looks up records. */
void build_note_records(struct build *b, const struct problem *problem);
/* Writes the collected records into the new package. */
KILN_MUST_CHECK enum kiln_code build_write_records(struct build *b, struct kiln_err *err);

extern const struct deferred_step build_write_step;
