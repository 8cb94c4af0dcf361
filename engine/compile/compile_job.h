/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One job for a kiln-compiler process, and its result.
 *
 * Ownership  a job borrows everything; a result owns its descriptors and log
 *            (compile_result_done)
 * Threading  plain values
 */
#include "common/base/digest.h"
#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum compile_kind {
    COMPILE_KERNEL,
    /* Tests whether |toolchain| can build a one-line kernel for |target|. */
    COMPILE_PROBE,
    COMPILE_DESCRIBE,
};

/* Source code, or an untried target, may exploit a bug and take control of the compiler process. So
 * a process that ran a COMPILE_OF_CLIENT job must not run another job. */
enum compile_origin {
    /* Source, headers or options came from outside, or the target was not tried before. */
    COMPILE_OF_CLIENT,
    COMPILE_OF_KILN, /* the source is built in, and the options are numbers that were checked */
};

struct compile_job {
    enum compile_kind kind;
    enum compile_origin origin;
    /* An earlier probe has shown that this compiler can build for the target. Not sent to the
     * worker. */
    bool target_works;
    struct bytes toolchain;
    struct bytes target;
    struct bytes program;
    struct bytes options; /* canonical, and checked against the allow-list */
    struct bytes source;
    uint32_t header_count;
    struct bytes headers; /* header_count x message_header */
    /* A job of libkiln-rtc: compile with exactly |options|, as if the client's program called the
     * run-time compiler itself. The resulting object contains everything that the compiler returns
     * (common/protocol/program_result.h). */
    bool is_program;
    /* Only with |is_program|: name expressions, as sized texts that end with a NUL. */
    struct bytes expressions;
    /* The toolchain identity that is part of the kernel's key. If the worker's compiler has a
     * different identity, because it was upgraded meanwhile, the result is COMPILE_OUTDATED. Zeros:
     * any compiler. */
    struct digest toolchain_id;
};

enum compile_end {
    COMPILE_DONE,
    COMPILE_REFUSED,
    COMPILE_CRASHED, /* the worker was killed by a signal or exited during the job */
    COMPILE_TIMED_OUT,
    COMPILE_MEMORY,
    COMPILE_OUTPUT,
    COMPILE_UNAVAILABLE, /* the toolchain is not installed, or no worker could be started */
    COMPILE_OUTDATED,
};

struct compile_result {
    enum compile_end end;
    struct kiln_err err;
    int object_fd; /* owned memfd, fully sealed; -1 unless COMPILE_DONE */
    /* Owned, at most LIMIT_COMPILE_LOG bytes; NULL if empty. */
    char *log;
    uint64_t wall_ns;
    uint64_t cpu_ns;
    uint64_t peak_rss;
};

#define COMPILE_RESULT_INIT ((struct compile_result){ .object_fd = -1, .err = KILN_ERR_INIT })

const char *compile_end_name(enum compile_end end);
void compile_result_done(struct compile_result *result);
enum compile_end compile_no_memory(struct kiln_err *err);
