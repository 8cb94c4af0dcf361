/* SPDX-License-Identifier: MIT */
#pragma once

/* A fault case is one operation, one kind of fault, and one place (a call or a step) where the
 * fault is injected.
 *
 * Each case runs in a separate process with a time limit: at the first place, at the second
 * place, and so on, until an operation has no further place. A failed case is called lost. A
 * case's process removes its directory. All processes of the case end with that process. */
#include "tests/faults/plan.h"

#include <stddef.h>

struct fault_kind {
    const char *name;
    unsigned calls; /* bits of enum fault_calls */
    enum fault_action action;
    int error;
    bool onwards;
    const char *path; /* only files whose path contains this text; NULL means all files */
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
    KIND_STEP,  /* places are the names of crash points, which a run without faults finds */
    KIND_POWER, /* the power fails at an entry of a log (lossy_vfs.h) */
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

struct case_report { /* memory shared with the case's process */
    unsigned tried;
    bool passed;
    unsigned at;
    char where[256];     /* the call that failed at this place */
    char directory[96];  /* removed after a lost case; "" if there is none */
    unsigned step_count; /* for KIND_STEP: place n is steps[n - 1] */
    char steps[FAULT_STEPS_MAX][FAULT_STEP_SIZE];
};

struct fault_case {
    const struct operation *operation;
    const struct fault_kind *kind;
    unsigned first, every; /* the places to try: first, first + every, ... */
    unsigned count;
    const char *without; /* library whose calls do not count; NULL means none */
    struct case_report *report;
};

struct operation {
    const char *name;
    unsigned kinds; /* bit set of KIND_... values */
    /* number of places that one process tries; 0 means one. With a fault that kills, a process
     * tries one place. */
    unsigned at_once;
    /* Tries the case's places. If this function does not return, the case is lost. */
    void (*run)(const struct fault_case *c);
    const void *context;
};

/* Returns true for short reads, short writes and interrupted calls. These faults must not make the
 * operation fail. */
bool fault_is_harmless(const struct fault_kind *kind);
bool fault_is_deadly(const struct fault_kind *kind);

void fault_case_plan(const struct fault_case *c, unsigned at, struct fault_plan *plan);
/* Records a tried place. |injected| is the result of fault_plan_disarm. Returns false if there
 * are no more places. */
bool fault_case_next(const struct fault_case *c, const struct fault_plan *plan, bool injected);

/* Does the work of main(). An operation without a name ends |operations|. Returns the exit
 * status. */
int fault_cases_main(int argc, char **argv, const struct operation *operations);
