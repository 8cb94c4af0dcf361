/* SPDX-License-Identifier: MIT */
#pragma once

/* A pool of workers that do what each job's program says (fake_worker.c). */
#include "daemon/workers/pool.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

/* What a worker said last; a job is its program's name, an answer one word. */
extern char last_answer[256];
extern struct sandbox_report handshake; /* what workers say of themselves */
extern unsigned warmups;                /* that were begun; those for "breaks" and "hangs" do so */
extern int refusal;                     /* errno with which a job is not sent; 0: it is */
extern enum compile_end prepared_as;    /* how those end that answer */
extern uint8_t prepared_for;            /* the first byte of the last one's toolchain_id */

struct fixture {
    struct loop *loop;
    struct work_queues *work_queues;
    struct pool *pool;
    struct pool_options options;
    char directory[64];
    bool closed;
    struct kiln_err err;
};

struct job {
    struct compile_task task;
    bool ended;
    char answer[sizeof(last_answer)]; /* its worker's, once it ended with one */
};

/* Of kiln's own, for hiprtc and gfx942. */
struct job job_of(const char *program, enum compile_kind kind);
struct job kernel(const char *program);
/* The same, of a client, and for a target that works. */
struct job source(const char *program);
void wait_for(struct fixture *f, const struct job *job);
struct compile_result *run(struct fixture *f, struct job *job);

int set_up(void **state);
void start(struct fixture *f);
void wait_until_idle(struct fixture *f, unsigned workers);
void on_closed(void *context);
int tear_down(void **state);

#define TOOLCHAIN_ID 0x5a /* the first byte of every job's, unless its test says otherwise */

FIXTURE(pool, set_up, tear_down);
