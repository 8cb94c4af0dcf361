/* SPDX-License-Identifier: MIT */
#ifndef KILN_RUN_H
#define KILN_RUN_H

/*
 * Runs: a plan loaded on a device, ready to launch.
 *
 * Modules    A device caches loaded code objects by key, so a second run with the same object loads
 *            nothing, on any thread.  Objects are unloaded with the device, or when 512 others were
 *            used after their last run was destroyed.
 * Ownership  A run holds references to its plan and device, so the caller may release those first.
 *            Launched work must finish before its memories, or the last run with its kernels, are
 *            destroyed.
 * Threads    Several threads may launch a run at once.
 */
#include <kiln/device.h>
#include <kiln/plan.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_run;

/* Loads the plan's code objects into the device's runtime and finds their entry points.  Returns
 * KILN_E_INVALID if the plan is for another target or has no objects, and KILN_E_CORRUPT if the
 * runtime rejects an object. */
int kiln_run_create(struct kiln_device *device, struct kiln_plan *plan, struct kiln_run **ret_run,
                    struct kiln_error *err);
void kiln_run_destroy(struct kiln_run *run); /* accepts NULL */

struct kiln_tensors {
    size_t size; /* sizeof(struct kiln_tensors) */
    struct kiln_memory *x, *w, *y;
    struct kiln_memory *workspace; /* may be NULL when kiln_plan_workspace() is 0 */
};

/* Launches every kernel of the plan on |stream| (NULL: the device's own); does not wait.  The
 * stream may be one of the job (kiln_stream_wrap).  The memories must belong to the run's device,
 * begin at a multiple of 16 bytes, and hold the tensors in the layouts and the type of the problem.
 * Returns KILN_E_INVALID if the size of one is wrong, and KILN_E_UNSUPPORTED if the device rejects
 * the geometry or the resources of a launch.  If a kernel fails while it runs, the next call that
 * waits for the stream reports the failure. */
int kiln_run_launch(struct kiln_run *run, const struct kiln_tensors *tensors,
                    struct kiln_stream *stream, struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
