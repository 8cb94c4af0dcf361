/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The target text of an OpenCL device: opencl:<cpu>:<platform>-<driver version>-<hash>.
 *
 * Role       A program binary only works with the device and the driver build that made it.  The
 *            compiler and the client use this code, so that their texts are equal
 * Ownership  none; a pure function
 * Threading  any thread
 */
#include "common/protocol/limits.h"

/* NULL counts as empty */
struct opencl_names {
    const char *platform_name;
    const char *platform_version;
    const char *device_name;
    const char *device_version;
    const char *driver_version;
};

/* Writes the target's text, which has only the characters [A-Za-z0-9_.:+-].  The hash covers all
 * five names. */
void opencl_target_text(const struct opencl_names *names, char text[LIMIT_TARGET_TEXT]);
