/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs a real kilnd on a private directory, and other programs of this build.
 * daemon_process_stop ends all processes that kilnd started. */
#include "common/base/json.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <stdbool.h>
#include <sys/types.h>

#define DAEMON_ARGUMENTS_MAX 16

struct daemon_process {
    char directory[96]; /* private; contains all files of kilnd */
    char socket[128];
    char cache[128], state[128];
    char log[128];
    pid_t pid;                                   /* 0 if kilnd is not running */
    const char *arguments[DAEMON_ARGUMENTS_MAX]; /* further arguments for kilnd; ends with NULL */
    bool keep_log; /* kilnd writes to the file |log|, not to standard error */
    /* the user as whom run_program and start_program run programs; 0 means the test's user */
    uid_t user;
    /* called in the child before kilnd's program starts; may be NULL */
    void (*prepare)(void *context);
    void *context;
};

/* Makes the private directory, but starts no process. |d| must exist until the end of the test. */
void daemon_process_init(struct daemon_process *d);
void daemon_process_begin(struct daemon_process *d);
/* Starts kilnd and waits until it answers. Fails the test after a minute. */
void daemon_process_start(struct daemon_process *d);
/* Calls daemon_process_init and daemon_process_start. |arguments| ends with NULL, or is NULL for
 * no arguments. */
void daemon_process_open(struct daemon_process *d, const char *const *arguments);
void admit_all_users(const struct daemon_process *d);
/* Like daemon_process_start, but kilnd must use every layer of the compilers' sandbox. If this
 * host lacks layers, prints them and starts kilnd without that requirement. |arguments| must be
 * empty. */
void daemon_process_start_in_whole_sandbox(struct daemon_process *d);
/* Sends SIGTERM, and returns kilnd's exit status. */
int daemon_process_stop(struct daemon_process *d);
void daemon_process_kill(struct daemon_process *d); /* SIGKILL */
/* Waits until kilnd has ended. kilnd must already be stopping. Returns its exit status. */
int daemon_process_wait(struct daemon_process *d);
/* Sends |signal| (SIGSTOP or SIGCONT) to all kiln-compilers of this kilnd. Before SIGSTOP, waits
 * until none of them is starting. */
void daemon_process_signal_workers(struct daemon_process *d, int signal);
/* Returns a value of kilnd's /proc/PID/status in kB, such as "VmRSS" or "VmHWM". */
long daemon_process_memory(const struct daemon_process *d, const char *name);
void daemon_process_remove(struct daemon_process *d);
/* Returns the text of |log|, which exists only with |keep_log|. The caller owns the text. */
char *daemon_process_log(const struct daemon_process *d);

struct program_result {
    int status;         /* exit status; 128 + n if signal n killed the program */
    char output[65536]; /* standard output and standard error, NUL-terminated; may be truncated */
};

/* Runs a program of this build by its name, such as "kilnctl", and waits for it. The arguments
 * end with NULL. KILN_SOCKET is |d|'s socket; HOME, XDG_* and POCL_CACHE_DIR are in |d|'s
 * directory. */
void run_program(struct daemon_process *d, struct program_result *ret_result, const char *name, ...)
    __attribute__((sentinel));
/* Like run_program, but returns without waiting. The caller reads the program's output from
 * |ret_fd| and closes it, or calls finish_program. */
pid_t start_program(struct daemon_process *d, int *ret_fd, const char *name, ...)
    __attribute__((sentinel));
/* Reads the output of a program that start_program has started, until its end, and closes |fd|. */
void finish_program(pid_t pid, int fd, const char *name, struct program_result *ret_result);
int wait_program(pid_t pid);

/* Parses the program's output as JSON. The caller owns the result. */
struct json *result_json(const struct program_result *result);

/* Returns the number |name| of an answer to "stats", such as "compiles" or "hits.hot". */
unsigned long long stats_number(const struct json *stats, const char *name);
/* Returns the number |name| from `kilnctl stats --json`. */
unsigned long long daemon_stat(struct daemon_process *d, const char *name);
