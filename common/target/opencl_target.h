/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The target text of an OpenCL device: opencl:<cpu>:<platform>-<driver version>-<hash>.
 *
 * Role       A program binary only works with the device and the driver build that made it.
 *            Compiler (engine/compile) and client (libclient/device) must therefore name both in
 *            the same way
 * Ownership  none; a pure function
 * Threading  any thread
 */
#include "common/protocol/limits.h"

/* The strings that clGetPlatformInfo and clGetDeviceInfo return; NULL counts as empty. */
struct opencl_names {
    const char *platform_name;    /* CL_PLATFORM_NAME */
    const char *platform_version; /* CL_PLATFORM_VERSION */
    const char *device_name;      /* CL_DEVICE_NAME */
    const char *device_version;   /* CL_DEVICE_VERSION */
    const char *driver_version;   /* CL_DRIVER_VERSION */
};

/* Canonical text, with the characters [A-Za-z0-9_.:+-] only; the hash covers all five strings. */
void opencl_target_text(const struct opencl_names *names, char text[LIMIT_TARGET_TEXT]);
