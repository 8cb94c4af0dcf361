/* SPDX-License-Identifier: MIT */
#pragma once

/* A fault plan says which call fails, and how. A test writes the plan. The shim (shim.c) replaces
 * functions of libc, counts calls while the plan is armed, and records where it injected a fault.
 *
 * Ownership  a plan is in shared memory, and is never unmapped
 * Threading  |seen|, |injected| and |armed| are atomic; a test writes the other members while
 *            the plan is disarmed */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum fault_calls { /* a call may have several kinds */
                   FAULT_MEMORY = 1
                                  << 0, /* malloc, calloc, realloc, posix_memalign, aligned_alloc */
                   FAULT_WRITE = 1 << 1, /* writes to files, and calls that change their size */
                   FAULT_SYNC = 1 << 2,
                   FAULT_READ = 1 << 3,
                   FAULT_MAP = 1 << 4,
                   FAULT_NAME = 1 << 5,       /* open, rename, unlink, mkdir and their variants */
                   FAULT_DESCRIPTOR = 1 << 6, /* calls that return a new descriptor */
                   FAULT_SEND = 1 << 7,       /* writes to sockets */
                   FAULT_RECEIVE = 1 << 8,    /* reads from sockets */
                   FAULT_CONNECT = 1 << 9,
                   FAULT_PROCESS = 1 << 10,
                   FAULT_WAIT = 1 << 11,
                   FAULT_MEMFD = 1 << 12,
};

/* Each of these calls is a crash point. */
#define FAULT_STEPS                                                                   \
    (FAULT_WRITE | FAULT_SYNC | FAULT_MAP | FAULT_NAME | FAULT_SEND | FAULT_RECEIVE | \
     FAULT_CONNECT | FAULT_PROCESS | FAULT_MEMFD)

/* A crash point has a name such as "pwrite of kernels.db-wal", without numbers and random
 * letters. The name does not depend on where the code makes the call. */
#define FAULT_STEP_SIZE 64
#define FAULT_STEPS_MAX 96u

enum fault_action {
    FAULT_FAIL,
    FAULT_SHORT, /* half of the bytes are written or read */
    FAULT_KILL,  /* SIGKILL is sent just before the call */
    FAULT_TEAR,  /* half of the bytes are written, then SIGKILL is sent */
};

struct fault_plan {
    atomic_bool armed;
    unsigned calls; /* bits of enum fault_calls */
    enum fault_action action;
    int error;        /* errno, with FAULT_FAIL */
    unsigned first;   /* number of the call that fails, counted from 1 */
    bool onwards;     /* whether all later calls fail, too */
    char program[32]; /* only programs with this name; "" means all */
    char path[64];    /* only files whose path contains this text; "" means all */
    char without[32]; /* no calls of the library whose path contains this text; "" means all */
    char step[FAULT_STEP_SIZE]; /* only the crash point with this name; "" means all */
    bool notes_steps;           /* whether to record the names of crash points */
    int64_t realtime_ns;        /* offset of CLOCK_REALTIME, even if the plan is not armed */
    int64_t monotonic_ns;       /* offset of CLOCK_MONOTONIC and CLOCK_BOOTTIME */
    /* whether fsync and fdatasync do nothing, for tests in which the power does not fail */
    bool no_sync;
    atomic_uint programs;
    atomic_uint seen; /* number of matching calls since the plan was armed */
    atomic_uint injected;
    int pid;            /* the first process with an injected fault */
    char where[256];    /* the first call that failed, such as "pwrite64 of kernels.db-wal" */
    atomic_flag noting; /* protects the following members */
    unsigned step_count;
    char steps[FAULT_STEPS_MAX][FAULT_STEP_SIZE];
};

/* Environment variable for programs that have the shim in LD_PRELOAD. */
#define FAULT_PLAN_VARIABLE "KILN_TEST_FAULT_PLAN"

/* Creates and maps the file |path| with an empty plan. Returns NULL on failure. */
struct fault_plan *fault_plan_make(const char *path);
void fault_plan_arm(struct fault_plan *plan);
bool fault_plan_disarm(struct fault_plan *plan);
/* Makes this process obey |plan|. NULL means no plan. */
void fault_plan_obey(struct fault_plan *plan);
