/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Whether a job is over but for us: its first thread has ended (pthread_exit), and so have all
 * others but quiet ones (daemon/loop/quiet_thread.h), for which the process would stay for ever.
 *
 * Threading  any thread; asks /proc, where there is none the answer is no
 */
#include <stdbool.h>

bool job_is_over(void);
/* The same with no file opened, and none of /proc looked at before the first thread has ended. */
bool job_is_over_unopened(void);
