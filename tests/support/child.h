/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/wait.h"

#include <stdbool.h>
#include <sys/types.h>

/* Calls |run| in a child process. The child ends as if it was killed, without closing or flushing
 * anything. Returns the result of |run|. */
bool run_in_child(bool (*run)(void *context), void *context);
/* Waits until |pid| (-1: any child) has ended. Returns its status as waitpid(2) does. A child
 * that does not end is killed, and the test fails: "waited 60 s for the process 'PID' to end". */
#define await_child(pid) await_process((pid), "the process '" #pid "' to end", WAIT_MAX_S)
int await_process(pid_t pid, const char *what, int max_s);
/* Reads |count| bytes from a pipe into which a child reports its progress. */
void await_progress(int fd, unsigned count);
/* Returns true while any process has the writing end of the pipe open. */
bool has_writer(int reading_fd);
void await_no_writer(int reading_fd);
