/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Jobs without a kilnd: what the tests of the engine in a job's process share.  A job is a child of
 * the test; what it does and sees is in memory that both share.
 */
#include "tests/integration/steps.h"

#include <kiln/kiln.h>
#include <stdatomic.h>

#define JOBS_MOST 8
#define OVER 1000u

struct seen {        /* by one job */
    atomic_uint had; /* kernels so far */
    atomic_int rung, server;
    char reason[512];
    char error[1024];
};

struct shared {
    atomic_uint allowed; /* kernels that a job may have by now; OVER: it ends */
    struct seen jobs[JOBS_MOST];
};

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
    struct shared *shared;
    pid_t pids[JOBS_MOST];
    unsigned jobs;
    char store[256]; /* folder of the private store */
};

int embedded_setup(void **state);
int embedded_teardown(void **state);

FIXTURE(embedded, embedded_setup, embedded_teardown);

/* ---- in a job ---- */

/* Its environment, and a standard error of its own. */
void in_a_job(const struct fixture *f, unsigned job);
struct kiln_client *open_client(struct kiln_error *err);
/* The kernel of that number. */
int fetch(struct kiln_client *client, unsigned n, struct kiln_error *err);
/* What the client's status is. */
void look(struct kiln_client *client, struct seen *seen);
/* From now on, of an engine whose compilers need not be waited for. */
void without_compilers(void);
/* A client that asks something and is closed; 0: it was served. */
int use_once(struct fixture *f);

/* The step of a job that failed is its exit status. */
#define NEED(step, condition) \
    do {                      \
        if (!(condition))     \
            return (step);    \
    } while (0)

/* ---- of the test ---- */

/* Runs |body| as a job; its exit status must be 0, else it is the step that failed. */
void run_as_job(struct fixture *f, int (*body)(struct fixture *f));
/* So that there are |count|. */
void start_jobs(struct fixture *f, unsigned count);
/* All that live have so many kernels then. */
void let_have(struct fixture *f, unsigned kernels);
void end_jobs(struct fixture *f);
void expect_alive(struct fixture *f);

struct turn {
    struct shared *shared;
    unsigned had;
};

struct wish {
    struct fixture *f;
    int rung;
};
bool have_all(void *wish);
bool are_on_rung(void *wish);

const char *stderr_of(struct fixture *f, unsigned job);
void expect_the_notice_alone(struct fixture *f, unsigned job, const char *place);
void expect_sound_store(struct fixture *f);
/* So many in it, and none that was found damaged. */
void expect_kernels(struct fixture *f, unsigned count);
unsigned long long leaders_stat(struct fixture *f, const char *name);
unsigned job_that_serves(const struct fixture *f);
