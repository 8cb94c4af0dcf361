/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The encoding of the messages in engine/compile/worker_wire.h, for both sides.
 *
 *   ready packet    u8 WORKER_READY, u32 layers, u32 Landlock's version, sized reasons,
 *                   sized release
 *   job packet      u8 WORKER_JOB, with three descriptors: job, object, log
 *   result packet   u8 WORKER_RESULT, u8 end, u64 cpu_ns, u64 peak_rss, sized text
 *   job file        u8 kind, sized toolchain, target, program, options, source, u32 header count,
 *                   sized headers, u8 is_program, sized expressions
 *
 * Ownership  a decoded job borrows from the bytes it was decoded from
 * Threading  plain values
 */
#include "common/protocol/limits.h"
#include "engine/compile/worker_wire.h"

#define WORKER_JOB 1
#define WORKER_JOB_FILES 3
#define WORKER_PACKET_MAX 1024
/* Maximum size of a job file: LIMIT_FRAME_BODY for the source and headers, and 64 KiB for names and
 * options. */
#define WORKER_JOB_MAX (LIMIT_FRAME_BODY + (64u << 10))

void worker_job_write(struct buffer *b, const struct compile_job *job);
KILN_MUST_CHECK enum kiln_code worker_job_read(struct bytes content, struct compile_job *ret_job,
                                               struct kiln_err *err);
void worker_ready_write(struct buffer *b, const struct sandbox_report *sandbox);
void worker_result_write(struct buffer *b, const struct worker_result *result);
KILN_MUST_CHECK enum kiln_code worker_ready_read(struct reader *r, struct worker_result *ret_result,
                                                 struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code worker_result_read(struct reader *r,
                                                  struct worker_result *ret_result,
                                                  struct kiln_err *err);
