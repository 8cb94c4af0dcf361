/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Fault cases: one operation, one kind of fault, and one place where the fault is injected.
 *
 * Role       runs each case in a separate process with a time limit, for the first place, the
 *            second, and so on, until no fault is injected; prints how many cases were tried and
 *            lost
 * Ownership  a case's process removes its directory; all processes of a case end with it
 * Threading  one thread; cases run one after the other
 */
#include "tests/faults/plan.h"

#include <stddef.h>

struct fault_kind {
    const char *name;
    unsigned calls; /* of enum fault_calls */
    enum fault_action action;
    int error;
    bool onwards;
    const char *path; /* only files with this in their path; NULL: all */
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
    KIND_STEP,  /* places are names of crash points, found by a first run without faults */
    KIND_POWER, /* not a call: power fails at an entry of a log (lossy_vfs.h) */
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

struct case_report {     /* shared with the case's process */
    unsigned tried;      /* places where a fault was injected */
    bool passed;         /* the operation ran without an injected fault */
    unsigned at;         /* the current place */
    char where[256];     /* the call that failed there */
    char directory[96];  /* removed after a lost case; "": there is none */
    unsigned step_count; /* for KIND_STEP: place n is steps[n - 1] */
    char steps[FAULT_STEPS_MAX][FAULT_STEP_SIZE];
};

struct fault_case {
    const struct operation *operation;
    const struct fault_kind *kind;
    unsigned first, every; /* places: first, first + every, ... */
    unsigned count;        /* the maximum number of places */
    struct case_report *report;
};

struct operation {
    const char *name;
    unsigned kinds;   /* bits of the kinds of faults to inject */
    unsigned at_once; /* how many places one process tries, unless it is killed; 0: one */
    /* Tries the case's places. The case is lost unless this function returns. */
    void (*run)(const struct fault_case *c);
    const void *context;
};

/* True for short reads and writes and interrupted calls. Callers must handle them, and succeed as
 * without a fault. */
bool fault_is_harmless(const struct fault_kind *kind);
/* True if the fault kills the process. */
bool fault_is_deadly(const struct fault_kind *kind);

/* Fills |plan| for place |at| of a case. */
void fault_case_plan(const struct fault_case *c, unsigned at, struct fault_plan *plan);
/* Records a tried place. |injected| is the result of fault_plan_disarm. False: there are no more
 * places. */
bool fault_case_next(const struct fault_case *c, const struct fault_plan *plan, bool injected);

/* The main() of a program of cases. |operations| end with one without a name. Returns the exit
 * status. */
int fault_cases_main(int argc, char **argv, const struct operation *operations);
