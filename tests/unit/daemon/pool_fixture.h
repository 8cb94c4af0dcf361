/* SPDX-License-Identifier: MIT */
#pragma once

/* A pool of fake workers. The name of a job's program tells the worker what to do
 * (fake_worker.c). */
#include "daemon/workers/pool.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

/* The last answer of a worker. Instead of a job, the fake connection sends the worker the name of
 * the job's program, and the worker answers with a text. */
extern char last_answer[256];
extern struct sandbox_report handshake; /* the report that each worker sends when it is ready */
/* number of warm-ups begun so far. A warm-up of the toolchain "breaks" fails, and one of "hangs"
 * hangs. */
extern unsigned warmups;
extern int refusal; /* errno with which sending a job fails; 0 means that it succeeds */
extern enum compile_end warmup_end; /* result of a warm-up whose worker answers */
extern uint8_t warmup_toolchain;    /* the first byte of the last warm-up's toolchain_id */

struct fixture {
    struct loop *loop;
    struct work_queues *work_queues;
    struct pool *pool;
    struct pool_options options;
    const char *directory;
    bool closed;
    struct kiln_err err;
};

struct job {
    struct compile_task task;
    bool ended;
    char answer[sizeof(last_answer)]; /* answer of the job's worker, once the job has ended */
};

/* Makes a job that kiln itself starts, for hiprtc and gfx942. */
struct job job_of(const char *program, enum compile_kind kind);
struct job kernel(const char *program);
/* Makes a job with a client's source, for a target that works. */
struct job source(const char *program);
struct job source_for(const char *program, const char *toolchain);
void wait_for_job(struct fixture *f, const struct job *job);
void wait_for_jobs(struct fixture *f, const struct job *jobs, size_t count);
struct compile_result *run_job(struct fixture *f, struct job *job);
void expect_end(struct fixture *f, struct job job, enum compile_end end, const char *says);

void open_pool_fixture(struct fixture *f);
void start_pool(struct fixture *f);
/* Waits until all workers are idle. */
void start_workers(struct fixture *f, unsigned workers);
/* Workers that start after this call misbehave as |manner| says (fake_worker.c). */
void break_workers(const char *manner);
void wait_until_idle(struct fixture *f, unsigned workers);
void close_pool(struct fixture *f);

#define TOOLCHAIN_ID 0x5a /* the first byte of each job's toolchain_id */

SET_UP(set_up) { open_pool_fixture(f); }
TEAR_DOWN(tear_down) { close_pool(f); }
FIXTURE(pool, set_up, tear_down);
