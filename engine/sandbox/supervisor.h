/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A process namespace needs a first process (init).  Outside the namespace, it needs a process that
 * reports how the worker ended.
 *
 *   supervisor (the caller)      waits for the worker; ends with its exit status or by its signal
 *     +- init of the namespace   reaps orphans; when init ends, Linux ends all processes there
 *     +- worker (in which        an ordinary process there: SIGABRT and SIGXCPU end it, but would
 *        supervisor_fork         not end an init (pid_namespaces(7))
 *        returns)
 *
 * All three processes form one process group.  Killing the supervisor ends all of them
 * (PR_SET_PDEATHSIG).  If the supervisor's parent ends at any time after the call of
 * supervisor_fork, all three end, too.
 *
 * Ownership  the supervisor keeps no descriptor except standard error
 * Threading  call before any thread is started
 */
#include "common/base/err.h"

/* Called in the supervisor and in init: drops the privileges that were needed to create the
 * namespace. If it returns false, the process must exit. */
typedef bool supervisor_give_up(void *context);

/* Starts init and the worker. Call it after unshare(CLONE_NEWPID).  On success, it returns only in
 * the worker.  On failure, it returns in the caller, and no process is left in the namespace.
 * Returns KILN_UNAVAILABLE if init could not drop its privileges. */
KILN_MUST_CHECK enum kiln_code supervisor_fork(supervisor_give_up *give_up, void *context,
                                               struct kiln_err *err);
