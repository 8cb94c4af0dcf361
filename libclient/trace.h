/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The trace of a client: the plans and kernels that this process uses, when it wanted each of them
 * for the first time, and how long it waited.  docs/formats/trace.md describes the files.
 *
 * Role       notes a request when its answer has come.  Answers of the in-process cache are not
 *            first uses, so they are not noted and cost nothing
 * Ownership  a client owns its trace.  All functions accept NULL, which means that KILN_TRACE is
 *            not set
 * Threading  any thread
 */
#include "common/base/trace_text.h"
#include "common/protocol/problem.h"

struct kiln_kernel;
struct kiln_plan;
struct trace;

/* Returns NULL if KILN_TRACE is not set, or if memory runs out.  |software| is borrowed.  The first
 * noted request creates the file.  If the file cannot be created, prints one line on standard error
 * and notes nothing. */
struct trace *trace_create(const char *software);
void trace_destroy(struct trace *trace);

/* Returns the current time for a note, or 0 if |trace| is NULL. */
uint64_t trace_now(const struct trace *trace);

struct trace_request { /* parts of a plan request; a part that the request does not have is empty */
    struct bytes target, database_id, toolchain, solver;
    bool is_prefetch; /* the job does not wait for the plan, so its wait is recorded as 0 */
};

struct trace_plan { /* trace_plan_end ignores a zeroed struct */
    uint64_t wanted_ns;
    struct bytes words[4]; /* target, database id, toolchain, solver: parts of |text| */
    char *text;            /* owned; ends with the problem */
    bool is_prefetch;
};

void trace_plan_begin(const struct trace *trace, const struct problem *problem,
                      const struct trace_request *request, struct trace_plan *ret_plan);
/* |plan| is NULL if the request failed. */
void trace_plan_end(struct trace *trace, const struct trace_plan *asked,
                    const struct kiln_plan *plan);
void trace_plan_done(struct trace_plan *asked);

struct trace_kernel {
    uint64_t wanted_ns;
    struct bytes target; /* empty if unknown */
    const char *key;     /* 64 hexadecimal digits; NULL: the kernel is not noted */
    enum trace_tier tier;
    uint64_t compile_ns;
    bool is_own_library; /* requested from the process's own NVRTC, hiprtc or comgr (libkiln-rtc) */
};

void trace_kernel(struct trace *trace, const struct trace_kernel *kernel);
enum trace_tier trace_tier_of(const struct kiln_kernel *kernel);
/* Notes an answer of kilnd in the trace.  If |kernel| is NULL, notes that the request for |key|
 * failed. */
void trace_answer(struct trace *trace, uint64_t wanted_ns, struct bytes target, const char *key,
                  const struct kiln_kernel *kernel);
