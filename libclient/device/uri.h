/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Device names: "auto", "opencl", "opencl:0", "hip", "hip:0", "hip://GPU-<uuid>", "cuda:0".
 *
 * Threading  pure functions
 */
#include "common/bytes.h"
#include "common/err.h"

enum device_kind { DEVICE_AUTO, DEVICE_HIP, DEVICE_CUDA, DEVICE_OPENCL };

struct device_uri {
    enum device_kind kind;
    unsigned index; /* 0 where the name has none */
    char uuid[64];  /* "GPU-...": then |index| says nothing; "" where the name has none */
};

/* KILN_INVALID for anything else; the sentence says what a name looks like. */
KILN_MUST_CHECK enum kiln_code device_uri_parse(const char *name, struct device_uri *ret_uri,
                                                struct kiln_err *err);
