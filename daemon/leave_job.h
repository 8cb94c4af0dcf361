/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Undoes the restrictions that a private kilnd inherits from the job that started it, because that
 * kilnd also serves other jobs: the set of processors (taskset, MPI), the soft resource limits
 * (ulimit) and the nice value.
 *
 * Threading  before any thread is created, and before the processors are counted
 */
void leave_job(void);
