/* SPDX-License-Identifier: MIT */
#ifndef KILN_DEVICE_H
#define KILN_DEVICE_H

/*
 * Devices: the GPUs on which this process runs kernels.
 *
 * Names      "hip", "hip:0", "hip://GPU-<uuid>", "cuda:0", "cuda://GPU-<uuid>",
 *            "cuda://MIG-<uuid>", "opencl:0".  A kind without a number means number 0.  "auto"
 *            tries hip, cuda and opencl and uses the first that works.  Numbers and uuids refer to
 *            the devices that this process can see: ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and
 *            CUDA_VISIBLE_DEVICES can hide devices.
 * Runtimes   libkiln opens libamdhip64 (ROCm 5 to 7), libcuda and libOpenCL with dlopen at their
 *            first use and never closes them.  docs/devices.md lists where it searches for them.
 * Contexts   libkiln creates no context if the program has one.  On CUDA, libkiln uses the calling
 *            thread's current context if this context belongs to the device, else the primary
 *            context, which the CUDA runtime also uses.  On HIP, libkiln uses the device's context.
 *            On OpenCL, libkiln uses the caller's context if the caller passed it to
 *            kiln_device_open_in.  Calls leave a thread's current context (or device) unchanged.  A
 *            context that is not the primary one must outlive the device.
 * Threads    Any thread may make any call, but only one thread at a time may use an event.
 * Forks      A device is unusable in a child of the process that opened it: every call returns
 *            KILN_E_INVALID, and destroying objects only frees memory.
 * Ownership  Memory objects, streams and events hold a reference to their device, so the device may
 *            be closed before they are destroyed.
 */
#include <kiln/error.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_device;
struct kiln_memory; /* memory on the device */
struct kiln_stream; /* a queue of work, executed in order */
struct kiln_event;  /* a point in a stream */

/* Opens a device.  Returns KILN_E_INVALID if |name| has no known form, KILN_E_NOT_FOUND if no
 * visible device has the number or uuid, and KILN_E_UNAVAILABLE if the runtime is absent, is too
 * old, or finds no device. */
int kiln_device_open(const char *name, struct kiln_device **ret_device, struct kiln_error *err);
/* Opens a device in the caller's |context|, a CUcontext or a cl_context.  A cl_context must contain
 * the device, and libkiln retains the cl_context.  If |context| is NULL, does the same as
 * kiln_device_open.  |name| may not be "auto". */
int kiln_device_open_in(const char *name, void *context, struct kiln_device **ret_device,
                        struct kiln_error *err);
/* Opens every device of a list such as "cuda:0,cuda:1", in this order.  |ret_devices| has
 * |capacity| elements.  No device may be listed twice.  On failure, no device is open. */
int kiln_device_open_list(const char *names, struct kiln_device **ret_devices, size_t capacity,
                          size_t *ret_count, struct kiln_error *err);
void kiln_device_close(struct kiln_device *device); /* accepts NULL */
/* Returns the kind and a number, such as "hip:0". */
const char *kiln_device_name(const struct kiln_device *device);
/* Returns the runtime's name of the device. */
const char *kiln_device_model(const struct kiln_device *device);
/* Returns the target for which plans and kernels must be requested. */
const char *kiln_device_target(const struct kiln_device *device);
/* Returns the id under which the device's tuning records are stored, such as "gfx90a68",
 * "sm_90_132", "opencl_1a2b3c4d". */
const char *kiln_device_database_id(const struct kiln_device *device);
/* Returns the number of compute units: multiprocessors on CUDA; work group processors on HIP for
 * gfx10 and later. */
unsigned kiln_device_compute_units(const struct kiln_device *device);
/* The functions below return "" or 0 if the runtime does not report the value. */
const char *kiln_device_uuid(const struct kiln_device *device);   /* "GPU-...", "MIG-..." */
const char *kiln_device_driver(const struct kiln_device *device); /* "HIP 6.2.41133, amdgpu ..." */
const char *kiln_device_pci(const struct kiln_device *device);    /* "0000:63:00.0" */
unsigned kiln_device_clock_mhz(const struct kiln_device *device); /* the highest clock */
uint64_t kiln_device_memory(const struct kiln_device *device);    /* bytes */

/* What is known about a device without opening it.  The members have the meaning of the functions
 * above; "" or 0 means not known. */
struct kiln_device_info {
    /* Size of the struct that libkiln passes.  A newer header may have more members. */
    size_t size;
    const char *name; /* such as "hip:0", or "hip" if there is no device of this kind */
    const char *model, *target, *database_id, *uuid, *driver, *pci;
    unsigned compute_units, clock_mhz;
    uint64_t memory; /* bytes */
};

/* Receives one device.  |why_not| is NULL if the device can be opened.  All arguments are borrowed
 * for the call. */
typedef void kiln_device_found(void *context, const struct kiln_device_info *info,
                               const struct kiln_error *why_not);
/* Reports every device of this host, then every kind that has no device, with the reason.  Opens no
 * device and creates no context. */
int kiln_device_list(kiln_device_found *found, void *context, struct kiln_error *err);

/* Sets directories in which to look for the runtime of |kind| ("hip", "cuda", "opencl") before the
 * dynamic loader's own directories.  |path| is a list of absolute directories, separated by ':';
 * NULL means none.  Returns KILN_E_INVALID if opening or listing devices has loaded the runtime
 * already. */
int kiln_library_path_set(const char *kind, const char *path, struct kiln_error *err);
/* Returns the file that the runtime of |kind| was loaded from, or NULL if it is not loaded.  Static
 * storage. */
const char *kiln_library_file(const char *kind);

/* ---- memory ---- */

/* Allocates device memory.  Returns KILN_E_NO_MEMORY if the device has too little. */
int kiln_memory_create(struct kiln_device *device, uint64_t bytes, struct kiln_memory **ret_memory,
                       struct kiln_error *err);
/* Wraps memory of the caller.  With CUDA and HIP, |native| is a device pointer, which must outlive
 * the result.  With OpenCL, |native| is a cl_mem of the device's context. libkiln retains the
 * cl_mem.  Returns KILN_E_INVALID if |native| is not memory of the device. */
int kiln_memory_wrap(struct kiln_device *device, void *native, uint64_t bytes,
                     struct kiln_memory **ret_memory, struct kiln_error *err);
void kiln_memory_destroy(struct kiln_memory *memory); /* accepts NULL */
void *kiln_memory_native(const struct kiln_memory *memory);
uint64_t kiln_memory_bytes(const struct kiln_memory *memory);
/* Copy to and from the device.  Both functions wait for the device's own stream, and return when
 * the copy is complete.  Both return KILN_E_INVALID if the memory is smaller than |bytes|. */
int kiln_memory_write(struct kiln_memory *memory, const void *from, uint64_t bytes,
                      struct kiln_error *err);
int kiln_memory_read(struct kiln_memory *memory, void *to, uint64_t bytes, struct kiln_error *err);
/* Sets every byte to |value|.  Enqueues the operation on |stream| and does not wait for it. */
int kiln_memory_fill(struct kiln_memory *memory, unsigned char value, struct kiln_stream *stream,
                     struct kiln_error *err);

/* ---- streams: NULL always means the device's own stream ---- */

int kiln_stream_create(struct kiln_device *device, struct kiln_stream **ret_stream,
                       struct kiln_error *err);
/* Wraps a stream of the caller.  With CUDA and HIP, |native| is a CUstream or hipStream_t, which
 * must outlive the result; NULL means the default stream.  With OpenCL, |native| is an in-order
 * cl_command_queue of the device and its context. libkiln retains the queue. */
int kiln_stream_wrap(struct kiln_device *device, void *native, struct kiln_stream **ret_stream,
                     struct kiln_error *err);
void kiln_stream_destroy(struct kiln_stream *stream); /* accepts NULL */
void *kiln_stream_native(const struct kiln_stream *stream);
/* Waits for all work submitted to the stream so far.  Returns KILN_E_GPU_FAULT if some of it
 * failed. */
int kiln_stream_finish(struct kiln_stream *stream, struct kiln_error *err);
/* Like kiln_stream_finish, for the device's own stream. */
int kiln_device_finish(struct kiln_device *device, struct kiln_error *err);

/* ---- events ---- */

int kiln_event_create(struct kiln_device *device, struct kiln_event **ret_event,
                      struct kiln_error *err);
void kiln_event_destroy(struct kiln_event *event); /* accepts NULL */
/* Marks the end of the work submitted to |stream| so far.  Recording the event again replaces the
 * earlier mark.  If |stream| wraps an OpenCL command queue, kiln_event_elapsed requires that the
 * queue has CL_QUEUE_PROFILING_ENABLE. */
int kiln_event_record(struct kiln_event *event, struct kiln_stream *stream, struct kiln_error *err);
/* Waits until the work before the mark is done. */
int kiln_event_wait(struct kiln_event *event, struct kiln_error *err);
/* Waits for both events; |ret_ms| receives the device's time from |begin| to |end|. */
int kiln_event_elapsed(struct kiln_event *begin, struct kiln_event *end, double *ret_ms,
                       struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
