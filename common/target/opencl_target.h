/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The target text of an OpenCL device: opencl:<cpu>:<platform>-<driver version>-<hash>.
 *
 * Role       Writes the target text.  A program binary only works with the device and the driver
 *            build that made it, so both are part of the text.  The compiler (engine/compile) and
 *            the client (libclient/device) use this code, so that their texts are equal
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

/* Writes the target's canonical text, which has only the characters [A-Za-z0-9_.:+-].  Its hash
 * covers all five strings. */
void opencl_target_text(const struct opencl_names *names, char text[LIMIT_TARGET_TEXT]);
