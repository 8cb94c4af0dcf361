/* SPDX-License-Identifier: MIT */
#pragma once

/* Jobs on a host without a kilnd, which start a private kilnd. A job is a separate process with
 * its own home directory. A job's exit status is the number of the failed check. */
#include "tests/support/child.h"
#include "tests/support/daemon_process.h"

#include <kiln/kiln.h>
#include <stdatomic.h>

#define PRIVATE_RACERS 20
#define PRIVATE "cache-home/kiln/private"
#define PRIVATE_LOCK "state-home/kiln/private/private.lock"

struct private_shared { /* memory that all jobs of a test share */
    atomic_int ready, go, servers[PRIVATE_RACERS];
    char error[1024];
};

struct fixture {
    /* only for its directory and socket path; most tests do not start this kilnd */
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
/* Returns the process id in the lock file of a private kilnd, or 0 if no process holds the lock. */
int private_holder_of_lock(const struct fixture *f);
/* Returns whether the private kilnd has ended. For wait_until; |context| is the fixture. */
bool private_has_ended(void *context);
/* Reads a file of /proc/|pid|, with spaces instead of NULs. */
void private_read_proc(int pid, const char *name, char *text, size_t size);

void private_be_a_job(const struct fixture *f);
void private_set_variable(const struct fixture *f, const char *name, const char *below);
pid_t private_start_job(struct fixture *f, int (*body)(struct fixture *f));
void private_run_job(struct fixture *f, int (*body)(struct fixture *f));

/* Steps of a job. On failure, |shared->error| has the message. */
int private_open_client(struct fixture *f, struct kiln_client **ret_client);
int private_ping(struct fixture *f, struct kiln_client *client, int timeout_ms);
struct kiln_status private_status(struct kiln_client *client);
/* Pings the private kilnd with a new client. Stores kilnd's process id in |shared->servers[0]|, and
 * the reason for the use of a private kilnd in |shared->error|. */
int private_use_once(struct fixture *f);
