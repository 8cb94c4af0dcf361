/* SPDX-License-Identifier: MIT */
#pragma once

/* Jobs on a host where no kilnd runs, so libkiln starts a private one. A job is a child process
 * with its own home directory, and exits with the number of the NEED that failed. */
#include "tests/support/child.h"
#include "tests/support/daemon_process.h"

#include <kiln/kiln.h>
#include <stdatomic.h>

#define PRIVATE_RACERS 20
#define PRIVATE "cache-home/kiln/private"
#define PRIVATE_LOCK "state-home/kiln/private/private.lock"

struct private_shared {
    atomic_int ready, go, servers[PRIVATE_RACERS];
    char error[1024];
};

struct fixture {
    /* gives the jobs a directory and a socket path; only some tests start this kilnd */
    struct daemon_process daemon;
    struct program_result result;
    struct private_shared *shared;
};

#define NEED(step, condition) \
    do {                      \
        if (!(condition))     \
            return (step);    \
    } while (0)

void private_open(struct fixture *f);
void private_close(struct fixture *f);
SET_UP(set_up) { private_open(f); }
TEAR_DOWN(tear_down) { private_close(f); }
FIXTURE(private_kilnd, set_up, tear_down);

void private_path_of(const struct fixture *f, const char *below, char path[256]);
/* Returns the pid in the private kilnd's lock file, or 0 if no process holds the lock. */
int private_holder_of_lock(const struct fixture *f);
/* For wait_until: returns whether the private kilnd has ended. |context| is the fixture. */
bool private_has_ended(void *context);
/* Reads the file |name| of /proc/|pid|, and replaces NULs by spaces. */
void private_read_proc(int pid, const char *name, char *text, size_t size);

void private_be_a_job(const struct fixture *f);
void private_set_variable(const struct fixture *f, const char *name, const char *below);
pid_t private_start_job(struct fixture *f, int (*body)(struct fixture *f));
void private_run_job(struct fixture *f, int (*body)(struct fixture *f));

/* Steps of a job. If a step fails, |shared->error| has its message. */
int private_open_client(struct fixture *f, struct kiln_client **ret_client);
int private_ping(struct fixture *f, struct kiln_client *client, int timeout_ms);
struct kiln_status private_status(struct kiln_client *client);
/* Pings the private kilnd with a new client. Stores its pid in |shared->servers[0]|, and the
 * reason why libkiln uses a private kilnd in |shared->error|. */
int private_use_once(struct fixture *f);
