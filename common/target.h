/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What code is compiled for.
 *
 *   AMD      gfx90a, gfx90a:sramecc+:xnack-, gfx1030      (features in HIP's order)
 *   NVIDIA   sm_90, sm_90a
 *   OpenCL   opencl:<cpu>:<platform>-<driver version>-<hash>    (common/opencl_target.h)
 *
 * The text is the identity: two targets are the same when their canonical texts are.
 */
#include "common/bytes.h"
#include "common/err.h"
#include "common/limits.h"

enum target_family { TARGET_AMDGPU, TARGET_NVIDIA, TARGET_OPENCL };

struct target {
    enum target_family family;
    char text[LIMIT_TARGET_TEXT]; /* canonical, terminated */
    /* Not of the text; target_parse clears them. */
    bool has_tensor_maps; /* who launches can encode them */
    uint32_t processors;  /* multiprocessors (compute units) of the device; 0: not known */
};

/* Parses and canonicalises: AMD features are sorted (sramecc before xnack), letters checked.
 * The sentence says what a target looks like. */
KILN_MUST_CHECK enum kiln_code target_parse(struct bytes text, struct target *ret_target,
                                            struct kiln_err *err);
/* "gfx90a" of gfx90a:sramecc+:xnack-; the whole text of others. */
void target_arch(const struct target *t, char *arch, size_t size);
/* Of NVIDIA's: 86 of sm_86, 90 of sm_90a.  0 of others. */
unsigned target_capability(const struct target *t);
/* What find records of such devices are under: "HIP", "CUDA", "OpenCL". */
const char *target_backend(enum target_family family);
/* Whether it is one of them. */
bool target_is_backend(struct bytes word);
