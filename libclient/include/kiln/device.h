/* SPDX-License-Identifier: MIT */
#ifndef KILN_DEVICE_H
#define KILN_DEVICE_H

/*
 * Devices: where kernels run, in this process.
 *
 * Names     "opencl", "opencl:0", "hip", "hip:0", "hip://GPU-<uuid>", "cuda:0"; a kind without a
 *           number means number 0; "auto" takes the first that works of hip, cuda, opencl.
 * Runtimes  opened by dlopen when first asked for: libamdhip64, libcuda, libOpenCL.
 * Threads   a device may be used by several threads; memory copies and launches go to one
 *           in-order queue a device unless stated otherwise.
 */
#include <kiln/error.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_device;
struct kiln_memory; /* device memory */

int kiln_device_open(const char *name, struct kiln_device **ret_device, struct kiln_error *err);
void kiln_device_close(struct kiln_device *device); /* accepts NULL */
const char *kiln_device_name(const struct kiln_device *device);   /* "opencl:0" */
const char *kiln_device_model(const struct kiln_device *device);  /* as its runtime calls it */
const char *kiln_device_target(const struct kiln_device *device); /* for plans and kernels */
const char *kiln_device_database_id(const struct kiln_device *device); /* "" where MIOpen has none */
unsigned kiln_device_compute_units(const struct kiln_device *device);

/* Every device that can be opened here, then every kind that cannot with the reason. */
typedef void kiln_device_found(void *context, const char *name, const char *model,
                               const char *target, const struct kiln_error *why_not);
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
