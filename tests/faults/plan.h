/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What goes wrong, and when: the word between a test and the shim that makes it go wrong.
 *
 * Role       a plan names kinds of calls, which of them is struck, and what happens to it; the shim
 *            counts calls while the plan is armed, and says in it what it struck.  So what goes
 *            before the mark is not counted
 * Ownership  a plan lies in memory that processes share: fault_plan_map; nobody else's
 * Threading  |seen|, |struck| and |armed| are atomic; the rest is written while it is not armed
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum fault_calls { /* of which kind a call is; one may be of several */
                   FAULT_MEMORY = 1
                                  << 0, /* malloc, calloc, realloc, posix_memalign, aligned_alloc */
                   FAULT_WRITE = 1 << 1, /* to files, and what makes them longer or shorter */
                   FAULT_SYNC = 1 << 2,  /* fsync, fdatasync */
                   FAULT_READ = 1 << 3,  /* of files */
                   FAULT_MAP = 1 << 4,   /* mmap */
                   FAULT_NAME =
                       1 << 5, /* open, rename, unlink, mkdir and what they are called today */
                   FAULT_DESCRIPTOR = 1 << 6, /* what makes a descriptor */
                   FAULT_SEND = 1 << 7,       /* to sockets */
                   FAULT_RECEIVE = 1 << 8,    /* from sockets */
                   FAULT_CONNECT = 1 << 9,    /* connect, accept, socket, socketpair */
                   FAULT_PROCESS = 1 << 10,   /* fork, posix_spawn */
                   FAULT_WAIT = 1 << 11,      /* epoll_wait, poll */
                   FAULT_MEMFD = 1 << 12,     /* memfd_create */
};

/* Between any two of them is a crash point. */
#define FAULT_STEPS                                                                   \
    (FAULT_WRITE | FAULT_SYNC | FAULT_MAP | FAULT_NAME | FAULT_SEND | FAULT_RECEIVE | \
     FAULT_CONNECT | FAULT_PROCESS | FAULT_MEMFD)

/* Names of crash points: "pwrite of kernels.db-wal", numbers and random letters left out.  The
 * same call in the same file has one name wherever it is made. */
#define FAULT_STEP_SIZE 64
#define FAULT_STEPS_MAX 96u

enum fault_action {
    FAULT_FAIL,  /* with |error| */
    FAULT_SHORT, /* half of the bytes are written or read */
    FAULT_KILL,  /* SIGKILL to the process, just before the call */
    FAULT_TEAR,  /* half of the bytes are written, then SIGKILL */
};

struct fault_plan {
    atomic_bool armed;
    unsigned calls;             /* of enum fault_calls */
    enum fault_action action;   /* what happens */
    int error;                  /* errno, with FAULT_FAIL */
    unsigned first;             /* which call, counted from 1 */
    bool onwards;               /* and all that follow it */
    char program[32];           /* only in programs of this name; "": in all */
    char path[64];              /* only of files whose names have this in them; "": of all */
    char step[FAULT_STEP_SIZE]; /* only calls of this name; "": of all */
    bool notes_steps;           /* and notes the names that it sees */
    int64_t realtime_ns;        /* how far CLOCK_REALTIME is ahead, armed or not */
    int64_t monotonic_ns;       /* the same of CLOCK_MONOTONIC and CLOCK_BOOTTIME */
    bool no_sync;               /* fsync and fdatasync do nothing: nobody cuts the power */
    atomic_uint programs;       /* that obey it, since it was made */
    atomic_uint seen;           /* calls of these kinds since it was armed */
    atomic_uint struck;         /* how many of them */
    int pid;                    /* of the first process that was struck */
    char where[256];            /* the first one that was struck: "pwrite64 of kernels.db-wal" */
    atomic_flag noting;         /* guards what follows */
    unsigned step_count;
    char steps[FAULT_STEPS_MAX][FAULT_STEP_SIZE];
};

/* Environment: the plan's file, for programs that are started with the shim in LD_PRELOAD. */
#define FAULT_PLAN_VARIABLE "KILN_TEST_FAULT_PLAN"

/* Makes the file |path| a plan that strikes nothing, and maps it; NULL when that fails. */
struct fault_plan *fault_plan_make(const char *path);
/* Counts from now on. */
void fault_plan_arm(struct fault_plan *plan);
/* Whether a call was struck since it was armed. */
bool fault_plan_disarm(struct fault_plan *plan);
/* From now on calls of this process obey |plan|; NULL: none. */
void fault_plan_obey(struct fault_plan *plan);
