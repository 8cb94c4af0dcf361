/* SPDX-License-Identifier: MIT */
#ifndef KILN_RUN_H
#define KILN_RUN_H

/*
 * Runs: a plan loaded on a device, ready to launch.
 *
 * Modules    A device caches loaded code objects (modules) by key, so a second run with the same
 *            object loads nothing, on any thread.  A module is unloaded when the device is closed,
 *            or when 512 other modules were used after the module's last run was destroyed.
 * Ownership  A run holds references to its plan and device, so the caller may release those first.
 *            Launched work must finish before its memory objects are destroyed, and before the last
 *            run with its kernels is destroyed.
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
    size_t size;
    struct kiln_memory *x, *w, *y;
    struct kiln_memory *workspace; /* may be NULL when kiln_plan_workspace() is 0 */
};

/* Launches every kernel of the plan on |stream| (NULL: the device's own), and does not wait.  The
 * stream may be a wrapped stream of the caller (kiln_stream_wrap).  The memory objects must belong
 * to the run's device, begin at a multiple of 16 bytes, and hold the tensors in the layouts and the
 * type of the problem.  Returns KILN_E_INVALID if a memory object has the wrong size, and
 * KILN_E_UNSUPPORTED if the device rejects the geometry or the resources of a launch.  If a kernel
 * fails while it runs, the next call that waits for the stream reports the failure. */
int kiln_run_launch(struct kiln_run *run, const struct kiln_tensors *tensors,
                    struct kiln_stream *stream, struct kiln_error *err);

/* Memory and a stream of the caller.  With CUDA and HIP, memory is a device pointer, and |stream|
 * is a CUstream or hipStream_t; NULL means the default stream.  With OpenCL, memory is a cl_mem,
 * and |stream| is an in-order cl_command_queue; NULL means the device's own.  All of them must
 * belong to the run's device and context. */
struct kiln_native_tensors {
    size_t size;
    void *x, *w, *y;
    void *workspace;          /* may be NULL when kiln_plan_workspace() is 0 */
    uint64_t workspace_bytes; /* size of |workspace| */
    void *stream;
};

/* Does the same as kiln_run_launch without memory and stream objects, for frameworks that manage
 * memory themselves.  Allocates nothing, sends no request and, on CUDA and HIP, waits for no lock.
 * So the function may be called while a stream is captured into a graph.  Checks the alignment of
 * pointers and the size of the workspace; the caller guarantees the sizes of the tensors. */
int kiln_run_launch_native(struct kiln_run *run, const struct kiln_native_tensors *tensors,
                           struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
