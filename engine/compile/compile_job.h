/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One job for a kiln-compiler process, and its result.
 *
 * Role       what the engine requests and receives; the executor decides where it runs (a worker
 *            process, or this process in the embedded build)
 * Ownership  a job borrows everything; a result owns its descriptors and log
 *            (compile_result_done)
 * Threading  plain values
 */
#include "common/base/digest.h"
#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum compile_kind {
    COMPILE_KERNEL,   /* source -> code object */
    COMPILE_PROBE,    /* can |toolchain| build a one-line kernel for |target|? no object kept */
    COMPILE_DESCRIBE, /* which toolchains are installed? The object is JSON (compile/toolchain.h) */
};

/* The origin of the compiler's input.  Source code can exploit a bug and take over the compiler
 * process.  So may the name of a target that the compiler does not know.  Therefore no other job
 * may follow a job of outside origin in the same process. */
enum compile_origin {
    COMPILE_OF_CLIENT, /* source, headers or options came from outside, or the target was never
                        * tried */
    COMPILE_OF_KILN,   /* built-in source; options are numbers that were checked */
};

struct compile_job {
    enum compile_kind kind;
    enum compile_origin origin; /* not sent to the worker */
    bool target_works;          /* a probe of this compiler built a kernel for the target; not
                                 * sent either */
    struct bytes toolchain;     /* name: "hiprtc", "clang", "nvrtc", "opencl"; unused by DESCRIBE */
    struct bytes target;        /* canonical text */
    struct bytes program;       /* "ConvDirectNaive.cl" */
    struct bytes options;       /* canonical, and checked against the allow-list */
    struct bytes source;
    uint32_t header_count;
    struct bytes headers; /* header_count x message_header */
    /* The toolchain that is part of the kernel's key.  A worker whose compiler differs (because
     * it was upgraded meanwhile) refuses the job with COMPILE_OUTDATED.  All zero: any. */
    struct digest toolchain_id;
};

/* How a job ended; everything except COMPILE_DONE is a failure. */
enum compile_end {
    COMPILE_DONE,
    COMPILE_REFUSED,     /* the compiler reported errors: see the log */
    COMPILE_CRASHED,     /* the worker was killed by a signal or exited during the job */
    COMPILE_TIMED_OUT,   /* wall clock or CPU time */
    COMPILE_MEMORY,      /* the memory limit */
    COMPILE_OUTPUT,      /* the object exceeded its limit */
    COMPILE_UNAVAILABLE, /* the toolchain is not installed, or no worker could be started */
    COMPILE_OUTDATED,    /* the toolchain differs from the job's toolchain_id */
};

struct compile_result {
    enum compile_end end;
    struct kiln_err err;  /* code and message;  KILN_OK when COMPILE_DONE */
    int object_fd;        /* owned memfd, fully sealed; -1 unless COMPILE_DONE */
    uint64_t object_size; /* bytes */
    char *log;            /* owned, terminated, at most LIMIT_COMPILE_LOG; NULL when empty */
    uint64_t wall_ns;
    uint64_t cpu_ns;   /* of the worker and its children during this job */
    uint64_t peak_rss; /* bytes */
};

#define COMPILE_RESULT_INIT ((struct compile_result){ .object_fd = -1, .err = KILN_ERR_INIT })

/* "done", "refused", "crashed", "timed-out", "memory", "output", "unavailable",
 * "outdated" */
const char *compile_end_name(enum compile_end end);
void compile_result_done(struct compile_result *result);
/* For a compiler process that is out of memory. */
enum compile_end compile_no_memory(struct kiln_err *err);
