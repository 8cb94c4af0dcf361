/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Device names: "auto", "opencl", "opencl:0", "hip", "hip:0", "hip://GPU-<uuid>", "cuda:0",
 * "cuda://GPU-<uuid>", "cuda://MIG-<uuid>", and lists of them.
 *
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

#define DEVICE_UUID_SIZE 64
#define DEVICE_NAME_MAX 128

enum device_kind { DEVICE_AUTO, DEVICE_HIP, DEVICE_CUDA, DEVICE_OPENCL };

struct device_uri {
    enum device_kind kind;
    unsigned index; /* 0 if the name has no number */
    /* "GPU-..." or "MIG-...", in which case |index| is not used; otherwise "" */
    char uuid[DEVICE_UUID_SIZE];
};

/* Returns KILN_INVALID if the name has no known form.  The message describes a valid name. */
KILN_MUST_CHECK enum kiln_code device_uri_parse(const char *name, struct device_uri *ret_uri,
                                                struct kiln_err *err);

/* Removes the first name from |*names|, a comma-separated list.  Returns false if the list is
 * empty.  A name that is too long is truncated, and device_uri_parse then rejects it. */
bool device_uri_next(const char **names, char ret_name[DEVICE_NAME_MAX]);
