/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The targets of compilation.
 *
 *   AMD      gfx90a, gfx90a:sramecc+:xnack-, gfx1030      (features in HIP's order)
 *   NVIDIA   sm_90, sm_90a
 *   OpenCL   opencl:<cpu>:<platform>-<driver version>-<hash>    (common/target/opencl_target.h)
 *
 * Two targets are the same if and only if their canonical texts are equal.
 *
 * Threading  plain values
 */
#include "common/base/bytes.h"
#include "common/base/err.h"
#include "common/protocol/limits.h"

enum target_family { TARGET_AMDGPU, TARGET_NVIDIA, TARGET_OPENCL };

struct target {
    enum target_family family;
    char text[LIMIT_TARGET_TEXT]; /* canonical form, NUL-terminated */
    /* The members below are not part of the text; target_parse clears them. */
    bool has_tensor_maps; /* the client that will launch the kernels can encode tensor maps */
    uint32_t processors;  /* multiprocessors (compute units) of the device; 0 if not known */
};

/* Parses and canonicalises: sorts AMD features (sramecc before xnack) and checks the characters.
 * The error message describes the form of a target. */
KILN_MUST_CHECK enum kiln_code target_parse(struct bytes text, struct target *ret_target,
                                            struct kiln_err *err);
/* Writes the architecture: "gfx90a" for gfx90a:sramecc+:xnack-, and the whole text for other
 * families. */
void target_arch(const struct target *t, char *arch, size_t size);
/* Returns NVIDIA's compute capability: 86 for sm_86, 90 for sm_90a.  Returns 0 for other
 * families. */
unsigned target_capability(const struct target *t);
/* Returns the backend ("HIP", "CUDA" or "OpenCL") of the FindDb records for devices of this
 * family. */
const char *target_backend(enum target_family family);
/* Returns whether |word| is "HIP", "CUDA" or "OpenCL". */
bool target_is_backend(struct bytes word);
