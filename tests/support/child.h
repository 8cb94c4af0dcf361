/* SPDX-License-Identifier: MIT */
#pragma once

/* Child processes of tests. Every wait ends after WAIT_MAX_S (tests/support/wait.h). */
#include <stdbool.h>
#include <sys/types.h>

/* Runs |run| in a child process and returns its result. The child ends without closing or flushing
 * anything, like a killed process. */
bool run_in_child(bool (*run)(void *context), void *context);
/* Waits until |pid| (-1: any child) has ended. Returns its status as waitpid(2) does. */
int await_child(pid_t pid);
/* Reads |count| bytes from a pipe into which a child reports its progress. */
void await_progress(int fd, unsigned count);
/* True while any process holds the writing end of the pipe that |reading_fd| reads. */
bool has_writer(int reading_fd);
/* Waits until no process holds that end. */
void await_no_writer(int reading_fd);
