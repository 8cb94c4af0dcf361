/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One job for a kiln-compiler process, and its result.
 *
 * Role       what the engine requests and receives.  The executor runs the job in a worker process.
 *            In the embedded build, this is the program's only compiler process
 * Ownership  a job borrows everything; a result owns its descriptors and log
 *            (compile_result_done)
 * Threading  plain values
 */
#include "common/base/digest.h"
#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum compile_kind {
    COMPILE_KERNEL, /* compiles source to a code object */
    /* Tests whether |toolchain| can build a one-line kernel for |target|.  The object is
     * dropped. */
    COMPILE_PROBE,
    /* Lists the installed toolchains.  The object is JSON (compile/toolchain.h). */
    COMPILE_DESCRIBE,
};

/* The origin of the compiler's input.  Source code, or the name of a target that the compiler does
 * not know, may exploit a bug and take control of the compiler process.  Therefore a process that
 * ran a job with COMPILE_OF_CLIENT must not run another job. */
enum compile_origin {
    /* Source, headers or options came from outside, or the target was not tried before. */
    COMPILE_OF_CLIENT,
    COMPILE_OF_KILN, /* the source is built in, and the options are numbers that were checked */
};

struct compile_job {
    enum compile_kind kind;
    enum compile_origin origin; /* not sent to the worker */
    /* True if a probe of this compiler has built a kernel for the target.  Not sent to the
     * worker. */
    bool target_works;
    /* "hiprtc", "clang", "nvrtc" or "opencl"; unused for COMPILE_DESCRIBE. */
    struct bytes toolchain;
    struct bytes target;  /* canonical text */
    struct bytes program; /* name of the program, such as "ConvDirectNaive.cl" */
    struct bytes options; /* canonical, and checked against the allow-list */
    struct bytes source;
    uint32_t header_count;
    struct bytes headers; /* header_count x message_header */
    /* True for a job of libkiln-rtc: compile with exactly |options|, as if the client's program
     * called the run-time compiler itself.  The object is then all that the compiler returns
     * (common/protocol/program_result.h). */
    bool is_program;
    /* for |is_program|: name expressions, as sized texts with their NUL */
    struct bytes expressions;
    /* The toolchain that is part of the kernel's key.  A worker with a different compiler (which
     * was upgraded meanwhile) rejects the job with COMPILE_OUTDATED.  All zero means any
     * toolchain. */
    struct digest toolchain_id;
};

/* How a job ended; everything except COMPILE_DONE is a failure. */
enum compile_end {
    COMPILE_DONE,
    COMPILE_REFUSED,     /* the compiler reported errors: see the log */
    COMPILE_CRASHED,     /* the worker was killed by a signal or exited during the job */
    COMPILE_TIMED_OUT,   /* the limit of wall-clock time or of CPU time was exceeded */
    COMPILE_MEMORY,      /* the memory limit was exceeded */
    COMPILE_OUTPUT,      /* the object exceeded its limit */
    COMPILE_UNAVAILABLE, /* the toolchain is not installed, or no worker could be started */
    COMPILE_OUTDATED,    /* the toolchain differs from the job's toolchain_id */
};

struct compile_result {
    enum compile_end end;
    struct kiln_err err; /* code and message; KILN_OK if |end| is COMPILE_DONE */
    int object_fd;       /* owned memfd, fully sealed; -1 unless COMPILE_DONE */
    /* Owned, NUL-terminated, at most LIMIT_COMPILE_LOG bytes; NULL if empty. */
    char *log;
    uint64_t wall_ns;
    uint64_t cpu_ns;   /* CPU time of the worker and its children during this job */
    uint64_t peak_rss; /* bytes */
};

#define COMPILE_RESULT_INIT ((struct compile_result){ .object_fd = -1, .err = KILN_ERR_INIT })

/* Returns "done", "refused", "crashed", "timed-out", "memory", "output", "unavailable" or
 * "outdated". */
const char *compile_end_name(enum compile_end end);
void compile_result_done(struct compile_result *result);
/* Fails with the message of a compiler process that is out of memory. */
enum compile_end compile_no_memory(struct kiln_err *err);
