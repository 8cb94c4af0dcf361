/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One piece of work for a kiln-compiler process, and how it ended.
 *
 * Role       what the engine asks for and what it gets back; who carries it (a worker
 *            process, or this process in the embedded build) is the executor's business
 * Ownership  a job borrows everything; an outcome owns its descriptors and log
 *            (compile_result_done)
 * Threading  plain values
 */
#include "common/digest.h"
#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>

enum compile_kind {
    COMPILE_KERNEL,   /* source -> code object */
    COMPILE_PROBE,    /* can |toolchain| build a one-line kernel for |target|? no object kept */
    COMPILE_DESCRIBE, /* which toolchains are here? the object is JSON (compile/toolchain.h) */
};

/* Who chose what the compiler will read.  A source can take over the process that compiles it, and
 * so may the name of a target that the compiler does not know: of one that came from outside
 * nothing may come after it. */
enum compile_origin {
    COMPILE_OF_CLIENT, /* source, headers or options came from outside, or a target not yet tried */
    COMPILE_OF_KILN,   /* a source that is built in; options that are numbers, which were checked */
};

struct compile_job {
    enum compile_kind kind;
    enum compile_origin origin; /* not told to the compiler */
    bool target_works;          /* a probe of this very compiler made a kernel for it; likewise */
    struct bytes toolchain;     /* name: "hiprtc", "clang", "nvrtc", "opencl"; unused by DESCRIBE */
    struct bytes target;        /* canonical text */
    struct bytes program;       /* "ConvDirectNaive.cl" */
    struct bytes options;       /* already through the allow-list and canonical */
    struct bytes source;
    uint32_t header_count;
    struct bytes headers; /* header_count x message_header */
    /* What the kernel's key says it is made with: a compiler that is another one (upgraded
     * meanwhile) refuses the job as unavailable.  All zero: whichever is there will do. */
    struct digest toolchain_id;
};

/* How a job ended; everything but COMPILE_DONE is a failure. */
enum compile_end {
    COMPILE_DONE,
    COMPILE_REFUSED,     /* the compiler reported errors: see the log */
    COMPILE_CRASHED,     /* the worker died of a signal or exited in mid-job */
    COMPILE_TIMED_OUT,   /* wall clock or CPU time */
    COMPILE_MEMORY,      /* the memory limit */
    COMPILE_OUTPUT,      /* the object exceeded its limit */
    COMPILE_UNAVAILABLE, /* no such toolchain here, or no worker could be started */
    COMPILE_OUTDATED,    /* the toolchain is another one than the job's toolchain_id */
};

struct compile_result {
    enum compile_end end;
    struct kiln_err err;  /* code and sentence; KILN_OK when COMPILE_DONE */
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
