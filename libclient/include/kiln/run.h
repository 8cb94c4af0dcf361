/* SPDX-License-Identifier: MIT */
#ifndef KILN_RUN_H
#define KILN_RUN_H

/*
 * Runs: a plan loaded on a device, ready to launch.
 *
 * Ownership  a run holds references to plan and device: giving those back first is allowed.
 * Threads    launch from one thread at a time; different runs are independent.
 */
#include <kiln/device.h>
#include <kiln/plan.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_run;

/* Loads the plan's code objects into the device's runtime and finds their entry points.
 * KILN_E_INVALID when the plan is for another target or came without objects; KILN_E_CORRUPT when
 * the runtime does not take an object. */
int kiln_run_create(struct kiln_device *device, struct kiln_plan *plan, struct kiln_run **ret_run,
                    struct kiln_error *err);
void kiln_run_destroy(struct kiln_run *run); /* accepts NULL */

/* Launches every kernel of the plan on the device's queue; does not wait.  The memories must be of
 * the run's device and hold the problem's tensors in its layouts and type, which is checked by
 * size; |workspace| may be NULL when kiln_plan_workspace() is 0. */
int kiln_run_launch(struct kiln_run *run, struct kiln_memory *x, struct kiln_memory *w,
                    struct kiln_memory *y, struct kiln_memory *workspace, struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
