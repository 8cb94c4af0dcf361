/* SPDX-License-Identifier: MIT */
#pragma once

/* A fault plan says which call fails, and how. A test writes the plan. The shim (shim.c) replaces
 * functions of libc, counts their calls while the plan is armed, and injects the fault into the
 * planned call.
 *
 * Ownership  a plan is in shared memory, and is never unmapped
 * Threading  |seen|, |injected| and |armed| are atomic; a test writes the other members only while
 *            the plan is disarmed */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum fault_calls { /* kinds of calls, as bits; a call may belong to several kinds */
                   FAULT_MEMORY = 1
                                  << 0, /* malloc, calloc, realloc, posix_memalign, aligned_alloc */
                   FAULT_WRITE = 1 << 1, /* writes to files, and calls that change their size */
                   FAULT_SYNC = 1 << 2,
                   FAULT_READ = 1 << 3,
                   FAULT_MAP = 1 << 4,
                   FAULT_NAME = 1 << 5,       /* open, rename, unlink, mkdir and their variants */
                   FAULT_DESCRIPTOR = 1 << 6, /* calls that return a new descriptor */
                   FAULT_SEND = 1 << 7,
                   FAULT_RECEIVE = 1 << 8,
                   FAULT_CONNECT = 1 << 9,
                   FAULT_PROCESS = 1 << 10,
                   FAULT_WAIT = 1 << 11,
                   FAULT_MEMFD = 1 << 12,
};

/* A call of these kinds is a step (crash point): a deadly fault kills the process there. */
#define FAULT_STEPS                                                                   \
    (FAULT_WRITE | FAULT_SYNC | FAULT_MAP | FAULT_NAME | FAULT_SEND | FAULT_RECEIVE | \
     FAULT_CONNECT | FAULT_PROCESS | FAULT_MEMFD)

/* Length of a step's name, such as "pwrite of kernels.db-wal". The name has no random parts. It
 * depends on the function and the file, but not on the calling code. */
#define FAULT_STEP_SIZE 64
#define FAULT_STEPS_MAX 96u

enum fault_action {
    FAULT_FAIL,
    FAULT_SHORT, /* the call writes or reads half of its bytes */
    FAULT_KILL,  /* the process is killed just before the call */
    FAULT_TEAR,  /* the call writes half of its bytes, then the process is killed */
};

struct fault_plan {
    atomic_bool armed;
    unsigned calls; /* bits of enum fault_calls */
    enum fault_action action;
    int error;        /* what a failed call stores in errno (FAULT_FAIL) */
    unsigned first;   /* the number, from 1, of the matching call that fails */
    bool onwards;     /* whether all later calls fail, too */
    char program[32]; /* only calls of the program with this name; "" means all programs */
    char path[64];    /* only calls on files whose path contains this text; "" means all calls */
    /* except calls from the library whose path contains this text; "" means no exception */
    char without[32];
    char step[FAULT_STEP_SIZE]; /* only calls at the step with this name; "" means all calls */
    bool notes_steps;
    int64_t realtime_ns; /* added to CLOCK_REALTIME, even if the plan is not armed */
    /* added to CLOCK_MONOTONIC and CLOCK_BOOTTIME, even if the plan is not armed */
    int64_t monotonic_ns;
    /* Makes fsync and fdatasync do nothing, which is faster in tests without power failures. */
    bool no_sync;
    atomic_uint programs;
    atomic_uint seen; /* number of matching calls since the plan was armed */
    atomic_uint injected;
    int pid; /* the process into which the first fault was injected */
    /* the call into which the first fault was injected, such as "pwrite64 of kernels.db-wal" */
    char where[256];
    atomic_flag noting; /* a spin lock for the following members */
    unsigned step_count;
    char steps[FAULT_STEPS_MAX][FAULT_STEP_SIZE];
};

/* The environment variable with the path of the plan's file, for programs that have the shim in
 * LD_PRELOAD. */
#define FAULT_PLAN_VARIABLE "KILN_TEST_FAULT_PLAN"

/* Creates and maps the file |path| with an empty plan. Returns NULL on failure. */
struct fault_plan *fault_plan_make(const char *path);
void fault_plan_arm(struct fault_plan *plan);
bool fault_plan_disarm(struct fault_plan *plan);
/* Makes the shim in this process follow |plan|. NULL means no plan. */
void fault_plan_obey(struct fault_plan *plan);
