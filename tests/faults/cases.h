/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Fault cases.  A case is one operation, one kind of fault, and one place where the fault is
 * injected (a call or a step).
 *
 * Role       runs each case in a separate process with a time limit: for the first place, for the
 *            second, and so on, until an operation has no further place.  Prints how many cases
 *            were tried, and how many failed ("lost")
 * Ownership  a case's process removes its directory; all processes of a case end with it
 * Threading  one thread; cases run one after the other
 */
#include "tests/faults/plan.h"

#include <stddef.h>

struct fault_kind {
    const char *name;
    unsigned calls; /* bits of enum fault_calls */
    enum fault_action action;
    int error;
    bool onwards;
    const char *path; /* only files with this in their path; NULL: all files */
};

/* Indices of fault_kinds. */
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
    KIND_STEP,  /* places are the names of crash points, which a first run without faults finds */
    KIND_POWER, /* not a call: the power fails at an entry of a log (lossy_vfs.h) */
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

struct case_report {     /* memory shared with the case's process */
    unsigned tried;      /* number of places where a fault was injected */
    bool passed;         /* the operation ran without an injected fault */
    unsigned at;         /* the current place */
    char where[256];     /* the call that failed at this place */
    char directory[96];  /* removed after a lost case; "" if there is none */
    unsigned step_count; /* for KIND_STEP, place n is steps[n - 1] */
    char steps[FAULT_STEPS_MAX][FAULT_STEP_SIZE];
};

struct fault_case {
    const struct operation *operation;
    const struct fault_kind *kind;
    unsigned first, every; /* the places to try: first, first + every, ... */
    unsigned count;        /* the maximum number of places */
    struct case_report *report;
};

struct operation {
    const char *name;
    unsigned kinds; /* bit set of the kinds of faults to inject */
    /* number of places that one process tries, unless it is killed; 0 means one */
    unsigned at_once;
    /* Tries the case's places. The case is lost unless this function returns. */
    void (*run)(const struct fault_case *c);
    const void *context;
};

/* Returns true for short reads and writes and for interrupted calls. Callers must handle these
 * faults, and succeed as without a fault. */
bool fault_is_harmless(const struct fault_kind *kind);
/* Returns true if the fault kills the process. */
bool fault_is_deadly(const struct fault_kind *kind);

/* Fills |plan| for place |at| of a case. */
void fault_case_plan(const struct fault_case *c, unsigned at, struct fault_plan *plan);
/* Records a tried place. |injected| is the result of fault_plan_disarm. Returns false if there are
 * no more places. */
bool fault_case_next(const struct fault_case *c, const struct fault_plan *plan, bool injected);

/* Does the work of main() for a program of cases. |operations| ends with an operation without a
 * name. Returns the exit status. */
int fault_cases_main(int argc, char **argv, const struct operation *operations);
