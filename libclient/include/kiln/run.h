/* SPDX-License-Identifier: MIT */
#ifndef KILN_RUN_H
#define KILN_RUN_H

/*
 * Runs: a plan loaded on a device, ready to launch.
 *
 * Modules    a device keeps loaded code objects by key: another run with one of them, in whatever
 *            thread, loads nothing.  They are unloaded with the device, or when 512 others were
 *            used after their last run went.
 * Ownership  a run holds references to plan and device: giving those back first is allowed.  What
 *            was launched must be done before its memories, or the last run with its kernels, go.
 * Threads    a run may be launched by several threads at once.
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

struct kiln_tensors {
    size_t size; /* sizeof(struct kiln_tensors) */
    struct kiln_memory *x, *w, *y;
    struct kiln_memory *workspace; /* may be NULL when kiln_plan_workspace() is 0 */
};

/* Launches every kernel of the plan on the device's own stream; does not wait.  The memories must
 * be of the run's device, begin at a multiple of 16 bytes and hold the problem's tensors in its
 * layouts and type, which is checked by size: else KILN_E_INVALID.  KILN_E_UNSUPPORTED where the
 * device refuses the launch's geometry or resources; that a kernel failed while it ran comes to
 * light when its stream is waited for. */
int kiln_run_launch(struct kiln_run *run, struct kiln_memory *x, struct kiln_memory *w,
                    struct kiln_memory *y, struct kiln_memory *workspace, struct kiln_error *err);
/* What kiln_run_launch does, on |stream|, which may be one of the job's (kiln_stream_wrap). */
int kiln_run_launch_on(struct kiln_run *run, const struct kiln_tensors *tensors,
                       struct kiln_stream *stream, struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
