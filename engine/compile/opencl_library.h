/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * OpenCL, loaded at run time. OpenCL's handles are plain pointers here, so that no vendor's header
 * is needed.
 *
 * Ownership  stays open for the life of the process (engine/compile/library.h)
 * Threading  one thread
 */
#include "common/base/err.h"
#include "common/protocol/limits.h"

#include <stddef.h>
#include <stdint.h>

#define OPENCL_OUT_OF_HOST_MEMORY (-6)
#define OPENCL_DEVICE_TYPE_CPU 2u
#define OPENCL_DEVICE_TYPE_ALL 0xffffffffu
#define OPENCL_PLATFORM_VERSION 0x0901u
#define OPENCL_PLATFORM_NAME 0x0902u
#define OPENCL_DEVICE_NAME 0x102bu
#define OPENCL_DRIVER_VERSION 0x102du
#define OPENCL_DEVICE_VERSION 0x102fu
#define OPENCL_PROGRAM_BINARY_SIZES 0x1165u
#define OPENCL_PROGRAM_BINARIES 0x1166u
#define OPENCL_PROGRAM_BUILD_LOG 0x1183u
#define OPENCL_KERNEL_COMPILE_WORK_GROUP_SIZE 0x11b1u

struct opencl_library {
#define OPENCL_SYMBOL(need, result, function, ...) result (*function)(__VA_ARGS__);
#include "engine/compile/opencl_symbols.def"
#undef OPENCL_SYMBOL
};

struct opencl_device {
    void *platform;
    void *device;
    char target[LIMIT_TARGET_TEXT];
    char version[192];
};

KILN_MUST_CHECK enum kiln_code opencl_library_open(struct opencl_library *ret_library,
                                                   struct kiln_err *err);
/* Lists one device of each platform: a CPU if it has one, else its first device.  CPUs come
 * first. */
size_t opencl_devices(const struct opencl_library *library, struct opencl_device *ret_devices,
                      size_t max);
