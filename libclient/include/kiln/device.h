/* SPDX-License-Identifier: MIT */
#ifndef KILN_DEVICE_H
#define KILN_DEVICE_H

/*
 * Devices: where kernels run, in this process.
 *
 * Names      "hip", "hip:0", "hip://GPU-<uuid>", "cuda:0", "cuda://GPU-<uuid>",
 *            "cuda://MIG-<uuid>", "opencl:0"; a kind without a number means number 0; "auto" takes
 *            the first that works of hip, cuda, opencl.  Numbers and uuids are among the devices
 *            that the runtime shows this process:
 *            ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES hide others.
 * Runtimes   opened by dlopen when first asked for, never closed: libamdhip64 (ROCm 5 to 7),
 *            libcuda, libOpenCL.  docs/devices.md says where they are looked for.
 * Contexts   libkiln makes none where the job has one: on CUDA it works in the calling thread's
 *            current context if that is one of the device, else in the primary one, which the CUDA
 *            runtime uses, too; on HIP in the device's one; on OpenCL in the job's if it is given
 *            to kiln_device_open_in.  A thread's current context (device) is the same after a call
 *            as before.  A context that is not the primary one must outlive the device.
 * Threads    any call from any thread; an event in one at a time.
 * Forks      a device is of no use in a child of the process that opened it: every call there is
 *            KILN_E_INVALID, and giving things back only frees memory.
 * Ownership  memories, streams and events keep their device: closing that first is allowed.
 */
#include <kiln/error.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_device;
struct kiln_memory; /* device memory */
struct kiln_stream; /* a queue of work that is done in order */
struct kiln_event;  /* a moment in a stream */

/* KILN_E_INVALID for a name of another form, KILN_E_NOT_FOUND for a number or uuid that no visible
 * device has, KILN_E_UNAVAILABLE where the runtime is absent, too old, or finds no device. */
int kiln_device_open(const char *name, struct kiln_device **ret_device, struct kiln_error *err);
/* In the job's own |context|: a cl_context, which is held and must have the device, or a CUcontext;
 * NULL: as kiln_device_open.  Not with "auto". */
int kiln_device_open_in(const char *name, void *context, struct kiln_device **ret_device,
                        struct kiln_error *err);
/* Every device of a list, "cuda:0,cuda:1", in its order; |room| is how many fit.  No device may be
 * in it twice.  On failure none is open. */
int kiln_device_open_list(const char *names, struct kiln_device **ret_devices, size_t room,
                          size_t *ret_count, struct kiln_error *err);
void kiln_device_close(struct kiln_device *device);               /* accepts NULL */
const char *kiln_device_name(const struct kiln_device *device);   /* with a number: "hip:0" */
const char *kiln_device_model(const struct kiln_device *device);  /* as its runtime calls it */
const char *kiln_device_target(const struct kiln_device *device); /* for plans and kernels */
/* What its tuning records are kept by: "gfx90a68", "sm_90_132", "opencl_1a2b3c4d". */
const char *kiln_device_database_id(const struct kiln_device *device);
/* Multiprocessors on CUDA; on HIP of gfx10 and later work group processors. */
unsigned kiln_device_compute_units(const struct kiln_device *device);
/* "" or 0 where the runtime does not tell. */
const char *kiln_device_uuid(const struct kiln_device *device);   /* "GPU-...", "MIG-..." */
const char *kiln_device_driver(const struct kiln_device *device); /* "HIP 6.2.41133, amdgpu ..." */
const char *kiln_device_pci(const struct kiln_device *device);    /* "0000:63:00.0" */
unsigned kiln_device_clock_mhz(const struct kiln_device *device); /* the highest */
uint64_t kiln_device_memory(const struct kiln_device *device);    /* bytes */

/* What there is to know of a device without opening it: as the functions above, "" or 0 where it is
 * not known. */
struct kiln_device_info {
    size_t size;      /* of what libkiln fills: members behind it are of a newer header */
    const char *name; /* "hip:0"; of a kind that has no device: "hip" */
    const char *model, *target, *database_id, *uuid, *driver, *pci;
    unsigned compute_units, clock_mhz;
    uint64_t memory; /* bytes */
};

/* |why_not| is NULL where the device can be opened.  All is borrowed for the call. */
typedef void kiln_device_found(void *context, const struct kiln_device_info *info,
                               const struct kiln_error *why_not);
/* Every device that is here, then every kind that has none, with the reason.  Opens none and makes
 * no context. */
int kiln_device_list(kiln_device_found *found, void *context, struct kiln_error *err);

/* Where to look for the runtime of |kind| ("hip", "cuda", "opencl") before the places that the
 * dynamic loader knows: directories, absolute, with ':' between them; NULL: none.  Before the first
 * device is opened or listed: later it is KILN_E_INVALID. */
int kiln_library_path_set(const char *kind, const char *path, struct kiln_error *err);
/* The file that the runtime of |kind| was loaded from; NULL: it was not.  Static storage. */
const char *kiln_library_file(const char *kind);

/* ---- memory ---- */

int kiln_memory_create(struct kiln_device *device, uint64_t bytes, struct kiln_memory **ret_memory,
                       struct kiln_error *err);
/* The job's own memory: a device pointer of CUDA or HIP, which must outlive the result, or a cl_mem
 * of the device's context, which is held.  KILN_E_INVALID for what is not memory of the device. */
int kiln_memory_wrap(struct kiln_device *device, void *native, uint64_t bytes,
                     struct kiln_memory **ret_memory, struct kiln_error *err);
void kiln_memory_destroy(struct kiln_memory *memory); /* accepts NULL */
void *kiln_memory_native(const struct kiln_memory *memory);
uint64_t kiln_memory_bytes(const struct kiln_memory *memory);
/* Writing and reading wait for the device's own stream, and return when the copy is done. */
int kiln_memory_write(struct kiln_memory *memory, const void *from, uint64_t bytes,
                      struct kiln_error *err);
int kiln_memory_read(struct kiln_memory *memory, void *to, uint64_t bytes, struct kiln_error *err);
/* Sets every byte to |value|, in |stream|'s order; does not wait. */
int kiln_memory_fill(struct kiln_memory *memory, unsigned char value, struct kiln_stream *stream,
                     struct kiln_error *err);

/* ---- streams: wherever one is asked for, NULL is the device's own ---- */

int kiln_stream_create(struct kiln_device *device, struct kiln_stream **ret_stream,
                       struct kiln_error *err);
/* The job's own: a CUstream or hipStream_t, which must outlive the result (NULL: the default
 * stream), or an in-order cl_command_queue of the device and its context, which is held. */
int kiln_stream_wrap(struct kiln_device *device, void *native, struct kiln_stream **ret_stream,
                     struct kiln_error *err);
void kiln_stream_destroy(struct kiln_stream *stream); /* accepts NULL */
void *kiln_stream_native(const struct kiln_stream *stream);
/* Waits for everything put on the stream so far; its failures come to light here. */
int kiln_stream_finish(struct kiln_stream *stream, struct kiln_error *err);
/* Waits for everything put on the device's own stream so far; its failures come to light here. */
int kiln_device_finish(struct kiln_device *device, struct kiln_error *err);

/* ---- events ---- */

int kiln_event_create(struct kiln_device *device, struct kiln_event **ret_event,
                      struct kiln_error *err);
void kiln_event_destroy(struct kiln_event *event); /* accepts NULL */
/* Marks what has been put on |stream| so far; recording again forgets the earlier time.  A queue of
 * the job's needs CL_QUEUE_PROFILING_ENABLE for kiln_event_elapsed. */
int kiln_event_record(struct kiln_event *event, struct kiln_stream *stream, struct kiln_error *err);
int kiln_event_wait(struct kiln_event *event, struct kiln_error *err);
/* The device's time from |begin| to |end|, for which it waits. */
int kiln_event_elapsed(struct kiln_event *begin, struct kiln_event *end, double *ret_ms,
                       struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
