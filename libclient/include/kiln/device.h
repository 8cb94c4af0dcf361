/* SPDX-License-Identifier: MIT */
#ifndef KILN_DEVICE_H
#define KILN_DEVICE_H

/*
 * Devices: where kernels run, in this process.
 *
 * Names      "opencl", "opencl:0", "hip", "hip:0", "hip://GPU-<uuid>", "cuda:0"; a kind without a
 *            number means number 0; "auto" takes the first that works of hip, cuda, opencl.
 * Runtimes   opened by dlopen when first asked for, never closed: libamdhip64, libcuda, libOpenCL
 *            (KILN_HIP_LIBRARY, KILN_CUDA_LIBRARY, KILN_OPENCL_LIBRARY name other files).  This
 *            version runs kernels on OpenCL devices: opening a hip or cuda device that is there, or
 *            any uuid, is KILN_E_UNSUPPORTED, one whose runtime is absent KILN_E_UNAVAILABLE.
 * Threads    a device may be used by several threads; memory copies and launches go to one
 *            in-order queue a device unless stated otherwise.
 * Ownership  a memory keeps its device: closing that first is allowed.
 */
#include <kiln/error.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_device;
struct kiln_memory; /* device memory */

/* KILN_E_INVALID for a name of another form, KILN_E_NOT_FOUND for a number that no device has. */
int kiln_device_open(const char *name, struct kiln_device **ret_device, struct kiln_error *err);
void kiln_device_close(struct kiln_device *device);               /* accepts NULL */
const char *kiln_device_name(const struct kiln_device *device);   /* "opencl:0" */
const char *kiln_device_model(const struct kiln_device *device);  /* as its runtime calls it */
const char *kiln_device_target(const struct kiln_device *device); /* for plans and kernels */
/* "" where MIOpen has none. */
const char *kiln_device_database_id(const struct kiln_device *device);
unsigned kiln_device_compute_units(const struct kiln_device *device);

/* |model| and |target| are NULL where they are not known, |why_not| where the device can be opened.
 * All are borrowed for the call. */
typedef void kiln_device_found(void *context, const char *name, const char *model,
                               const char *target, const struct kiln_error *why_not);
/* Every device that is here, then every kind ("hip") that has none, with the reason. */
int kiln_device_list(kiln_device_found *found, void *context, struct kiln_error *err);

int kiln_memory_create(struct kiln_device *device, uint64_t bytes, struct kiln_memory **ret_memory,
                       struct kiln_error *err);
void kiln_memory_destroy(struct kiln_memory *memory); /* accepts NULL */
/* Both return when the copy is done. */
int kiln_memory_write(struct kiln_memory *memory, const void *from, uint64_t bytes,
                      struct kiln_error *err);
int kiln_memory_read(struct kiln_memory *memory, void *to, uint64_t bytes, struct kiln_error *err);
/* Waits for everything launched so far. */
int kiln_device_finish(struct kiln_device *device, struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
