/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Undoes restrictions that a private kilnd inherits from the job that started it: the set of
 * processors (taskset, MPI), the soft resource limits (ulimit) and the nice value. A private kilnd
 * also serves other jobs.
 *
 * Threading  before any thread is created, and before the processors are counted
 */
void leave_job(void);
