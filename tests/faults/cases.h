/* SPDX-License-Identifier: MIT */
#pragma once

/* A fault case injects one kind of fault into one operation at one place. Places are numbered from
 * 1: place n is the n-th call (or step) that the fault can hit.
 *
 * Each case runs in a separate process with a time limit. Further cases try the following
 * places until the operation ends before it reaches the place. A failed case is called lost. The
 * process of a case removes the case's directory. When the process of a case ends, all processes
 * that it started are killed. */
#include "tests/faults/plan.h"

#include <stddef.h>

struct fault_kind {
    const char *name;
    unsigned calls; /* bits of enum fault_calls */
    enum fault_action action;
    int error;
    bool onwards;
    const char *path; /* only calls on files whose path contains this text; NULL means all calls */
};

enum {
    KIND_MEMORY,
    KIND_MEMORY_ON,
    KIND_FULL,
    KIND_FULL_ON,
    KIND_WRITE,
    KIND_WRITE_SHORT,
    KIND_SYNC,
    KIND_READ,
    KIND_READ_SHORT,
    KIND_MAP,
    KIND_NAME,
    KIND_DESCRIPTOR,
    KIND_DESCRIPTOR_ON,
    KIND_MEMFD,
    KIND_RESET,
    KIND_INTERRUPTED,
    KIND_SOCKET_SHORT,
    KIND_CONNECT,
    KIND_PROCESS,
    KIND_KILL,
    KIND_TEAR,
    KIND_STEP,  /* kills at a step; a first run without faults finds the steps (plan.h) */
    KIND_POWER, /* the power fails after an entry of the log of writes (lossy_vfs.h) */
    FAULT_KINDS
};
extern const struct fault_kind fault_kinds[FAULT_KINDS];

#define BIT(kind) (1u << (kind))
#define KINDS_OF_MEMORY (BIT(KIND_MEMORY) | BIT(KIND_MEMORY_ON))
#define KINDS_OF_FILES                                                                         \
    (BIT(KIND_FULL) | BIT(KIND_FULL_ON) | BIT(KIND_WRITE) | BIT(KIND_WRITE_SHORT) |            \
     BIT(KIND_SYNC) | BIT(KIND_READ) | BIT(KIND_READ_SHORT) | BIT(KIND_MAP) | BIT(KIND_NAME) | \
     BIT(KIND_DESCRIPTOR) | BIT(KIND_DESCRIPTOR_ON))
#define KINDS_OF_SOCKETS                                                                    \
    (BIT(KIND_RESET) | BIT(KIND_INTERRUPTED) | BIT(KIND_SOCKET_SHORT) | BIT(KIND_CONNECT) | \
     BIT(KIND_MEMFD))
#define KINDS_OF_DEATH (BIT(KIND_KILL) | BIT(KIND_TEAR) | BIT(KIND_STEP))

struct case_report { /* shared with the process that runs the case */
    unsigned tried;
    bool passed;
    unsigned at;
    char where[256];     /* the call that failed at this place */
    char directory[96];  /* directory to remove after a lost case; "" if there is none */
    unsigned step_count; /* number of entries in |steps|, for KIND_STEP; place n is steps[n - 1] */
    char steps[FAULT_STEPS_MAX][FAULT_STEP_SIZE];
};

struct fault_case {
    const struct operation *operation;
    const struct fault_kind *kind;
    unsigned first, every; /* the places to try are first, first + every, first + 2 * every, ... */
    unsigned count;
    /* calls from the library whose path contains this text are not counted; may be NULL */
    const char *without;
    struct case_report *report;
};

struct operation {
    const char *name;
    unsigned kinds; /* bit set of KIND_... values */
    /* Number of places that one process tries; 0 means one. If the fault is deadly, a process tries
     * only one place, because the fault ends the process. */
    unsigned at_once;
    /* Tries the places of |c|. If this function exits instead of returning, the case is lost. */
    void (*run)(const struct fault_case *c);
    const void *context;
};

/* Returns true for short reads, short writes and interrupted calls. An operation must succeed in
 * spite of these faults. */
bool fault_is_harmless(const struct fault_kind *kind);
bool fault_is_deadly(const struct fault_kind *kind);

void fault_case_plan(const struct fault_case *c, unsigned at, struct fault_plan *plan);
/* Called after each place. |injected| is what fault_plan_disarm returned. Returns false if there
 * are no more places. */
bool fault_case_next(const struct fault_case *c, const struct fault_plan *plan, bool injected);

/* Parses the options, and runs the cases of |operations|, whose last entry has no name. Returns
 * main's exit status. */
int fault_cases_main(int argc, char **argv, const struct operation *operations);
