/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/wait.h"

#include <stdbool.h>
#include <sys/types.h>

/* Calls |run| in a child process and returns its result. The child ends with _exit(2), as if it
 * was killed: it closes and flushes nothing. */
bool run_in_child(bool (*run)(void *context), void *context);
/* Waits until the process |pid| (-1: any child) has ended, and returns its status as waitpid(2)
 * stores it. After |max_s| seconds, kills the process and fails the test: "waited 60 s for the
 * process 'PID' to end". */
#define await_child(pid) await_process((pid), "the process '" #pid "' to end", WAIT_MAX_S)
int await_process(pid_t pid, const char *what, int max_s);
/* Reads |count| bytes from the pipe |fd|, to which a child writes one byte for each step. */
void await_progress(int fd, unsigned count);
/* Returns true while any process has the writing end of the pipe open. */
bool has_writer(int reading_fd);
void await_no_writer(int reading_fd);
