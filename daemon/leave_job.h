/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Undoes the restrictions that a private kilnd inherits from the job that started it, because that
 * kilnd also serves other jobs.
 *
 * Role       uses all processors of the cgroup even if the job is bound to some (taskset, MPI),
 *            raises the soft resource limits to the hard ones (ulimit), and sets the nice value
 *            to 0 if this user may do that
 * Threading  before any thread is created, and before the processors are counted
 */
void leave_job(void);
