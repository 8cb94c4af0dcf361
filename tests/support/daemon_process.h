/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A real kilnd over a private directory, and programs run beside it.
 *
 * Ownership  daemon_process_stop (or _remove) ends what was started; only own children are
 *            signalled
 */
#include "common/json.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <stdbool.h>
#include <sys/types.h>

#define DAEMON_ARGUMENTS_MAX 16

struct daemon_process {
    char directory[96];                          /* private, holds everything below */
    char socket[128];                            /* kilnd's socket in it */
    char cache[128], state[128];                 /* its directories; it makes them */
    pid_t pid;                                   /* 0 while none runs */
    const char *arguments[DAEMON_ARGUMENTS_MAX]; /* further ones for kilnd, NULL-terminated */
    bool keep_log; /* kilnd's log goes to kilnd.log in the directory, else to standard error */
    uid_t user;    /* programs beside it run as this one; 0: as the test */
    void (*prepare)(void *context); /* in kilnd's process before it is one; NULL: nothing */
    void *context;
};

/* Makes the directory; starts nothing. */
void daemon_process_init(struct daemon_process *d);
/* Starts kilnd without waiting for it. */
void daemon_process_begin(struct daemon_process *d);
/* Starts kilnd and returns once it answers; the test fails when it does not within a minute. */
void daemon_process_start(struct daemon_process *d);
/* The same, with every layer of the compilers' sandbox required, where this host gives every one;
 * elsewhere it says which are missing.  For one without arguments of its own. */
void daemon_process_start_in_whole_sandbox(struct daemon_process *d);
/* SIGTERM; returns the exit status. */
int daemon_process_stop(struct daemon_process *d);
void daemon_process_kill(struct daemon_process *d); /* SIGKILL */
/* Exit status of a daemon that was told to end, or ends by itself. */
int daemon_process_wait(struct daemon_process *d);
/* To every kiln-compiler of it: SIGSTOP holds the work where it is, once none is starting any more;
 * SIGCONT lets it go on. */
void daemon_process_signal_workers(struct daemon_process *d, int signal);
/* A number in kB of /proc/PID/status: "VmRSS", "VmHWM". */
long daemon_process_memory(const struct daemon_process *d, const char *name);
/* Stops it if it runs, and removes the directory. */
void daemon_process_remove(struct daemon_process *d);

struct program_result {
    int status;         /* exit status; 128 + n after signal n */
    char output[65536]; /* standard output and error, terminated, cut */
};

/* Runs a program of this build by name ("kilnctl"), waits for it.  KILN_SOCKET is set to |d|'s,
 * HOME, XDG_* and POCL_CACHE_DIR point into its directory. */
void run_program(struct daemon_process *d, struct program_result *ret_result, const char *name, ...)
    __attribute__((sentinel));
/* The same without waiting; the caller reads its output from |ret_fd| and closes it. */
pid_t start_program(struct daemon_process *d, int *ret_fd, const char *name, ...)
    __attribute__((sentinel));
/* Exit status of what start_program began. */
int wait_program(pid_t pid);

/* What it printed, which must be JSON; owned by the caller. */
struct json *result_json(const struct program_result *result);

/* One number of the answer to "stats"; hits as "hits.hot". */
unsigned long long stats_number(const struct json *stats, const char *name);
/* The same, by `kilnctl stats --json`. */
unsigned long long daemon_stat(struct daemon_process *d, const char *name);
