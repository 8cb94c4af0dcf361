/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Cases of a fault: one operation, one kind of fault, one place where it strikes.
 *
 * Role       runs each case in a process of its own, with a limit of time, for the first place, the
 *            second and so on until the operation passes unstruck; prints what was tried and lost
 * Ownership  a case's process removes its directory; nothing outlives it
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
    const char *path; /* only of such files; NULL: of all */
};

/* Places in fault_kinds. */
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
    KIND_STEP,  /* its places are names of crash points, which a first run without faults finds */
    KIND_POWER, /* no call: the power goes at a moment of a log (lossy_vfs.h) */
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
    unsigned tried;      /* places that were struck */
    bool passed;         /* the operation passed, unstruck */
    unsigned at;         /* the place under way */
    char where[256];     /* what was struck there */
    char directory[96];  /* removed after a lost case; "": none */
    unsigned step_count; /* of KIND_STEP: place n is steps[n - 1] */
    char steps[FAULT_STEPS_MAX][FAULT_STEP_SIZE];
};

struct fault_case {
    const struct operation *operation;
    const struct fault_kind *kind;
    unsigned first, every; /* places: first, first + every, ... */
    unsigned count;        /* at most so many */
    struct case_report *report;
};

struct operation {
    const char *name;
    unsigned kinds;   /* which faults: bits of their places */
    unsigned at_once; /* places that one process tries, where it is not killed; 0: 1 */
    /* Tries the case's places.  A lost one is a failed assertion or any other end but to return. */
    void (*run)(const struct fault_case *c);
    const void *context;
};

/* Short reads and writes, calls that were interrupted: whoever calls has to take them, and ends as
 * if nothing had been. */
bool fault_is_harmless(const struct fault_kind *kind);
/* The process that is struck is killed. */
bool fault_is_deadly(const struct fault_kind *kind);

/* Fills |plan| for a case's place |at|. */
void fault_case_plan(const struct fault_case *c, unsigned at, struct fault_plan *plan);
/* After each place: notes it.  |struck|: as fault_plan_disarm says.  False: that was all. */
bool fault_case_next(const struct fault_case *c, const struct fault_plan *plan, bool struck);

/* A program of cases; |operations| end with one that has no name.  The exit status. */
int fault_cases_main(int argc, char **argv, const struct operation *operations);
