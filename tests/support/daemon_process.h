/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Runs a real kilnd on a private directory, and other programs of this build.
 *
 * Ownership  daemon_process_stop (or _remove) ends all processes that it started, and signals only
 *            its own children
 */
#include "common/base/json.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <stdbool.h>
#include <sys/types.h>

#define DAEMON_ARGUMENTS_MAX 16

struct daemon_process {
    char directory[96];                          /* private; contains all of the following */
    char socket[128];                            /* of kilnd */
    char cache[128], state[128];                 /* directories, which kilnd makes */
    pid_t pid;                                   /* 0: none runs */
    const char *arguments[DAEMON_ARGUMENTS_MAX]; /* more arguments for kilnd, NULL-terminated */
    bool keep_log; /* kilnd's log goes to kilnd.log in the directory, else to standard error */
    uid_t user;    /* the user of other programs; 0: as the test */
    void (*prepare)(void *context); /* runs in the child before kilnd; may be NULL */
    void *context;
};

/* Makes the directory; starts nothing. */
void daemon_process_init(struct daemon_process *d);
/* Starts kilnd without waiting for it. */
void daemon_process_begin(struct daemon_process *d);
/* Starts kilnd and waits until it answers. The test fails after a minute. */
void daemon_process_start(struct daemon_process *d);
/* Does the same and requires every layer of the compilers' sandbox if this host has all. Otherwise
 * it prints the missing ones. Only for a kilnd without arguments. */
void daemon_process_start_in_whole_sandbox(struct daemon_process *d);
/* Sends SIGTERM and returns the exit status. */
int daemon_process_stop(struct daemon_process *d);
void daemon_process_kill(struct daemon_process *d); /* SIGKILL */
/* Waits for a kilnd that is ending; returns its exit status. */
int daemon_process_wait(struct daemon_process *d);
/* Sends |signal| to every kiln-compiler of this kilnd, once none is starting: SIGSTOP or
 * SIGCONT. */
void daemon_process_signal_workers(struct daemon_process *d, int signal);
/* A value of /proc/PID/status in kB: "VmRSS", "VmHWM". */
long daemon_process_memory(const struct daemon_process *d, const char *name);
/* Stops it if it runs, and removes the directory. */
void daemon_process_remove(struct daemon_process *d);

struct program_result {
    int status;         /* exit status; 128 + n after signal n */
    char output[65536]; /* standard output and error, terminated, truncated */
};

/* Runs a program of this build by name ("kilnctl"), waits for it.  KILN_SOCKET is set to |d|'s,
 * HOME, XDG_* and POCL_CACHE_DIR point into its directory. */
void run_program(struct daemon_process *d, struct program_result *ret_result, const char *name, ...)
    __attribute__((sentinel));
/* Does not wait. The caller reads the output from |ret_fd| and closes it. */
pid_t start_program(struct daemon_process *d, int *ret_fd, const char *name, ...)
    __attribute__((sentinel));
/* Waits for a started program; returns its exit status. */
int wait_program(pid_t pid);

/* Parses the output, which must be JSON. Owned by the caller. */
struct json *result_json(const struct program_result *result);

/* One number of the answer to "stats"; hits as "hits.hot". */
unsigned long long stats_number(const struct json *stats, const char *name);
/* The same, by `kilnctl stats --json`. */
unsigned long long daemon_stat(struct daemon_process *d, const char *name);
