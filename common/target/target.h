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
    char text[LIMIT_TARGET_TEXT]; /* canonical */
    /* target_parse clears the members below. */
    bool has_tensor_maps; /* the client that will launch the kernels can encode tensor maps */
    uint32_t processors;  /* multiprocessors (compute units) of the device; 0 if not known */
};

/* Sorts AMD features (sramecc before xnack).  The error message describes the form of a target. */
KILN_MUST_CHECK enum kiln_code target_parse(struct bytes text, struct target *ret_target,
                                            struct kiln_err *err);
/* Writes "gfx90a" for gfx90a:sramecc+:xnack-, and the whole text for other families. */
void target_arch(const struct target *t, char *arch, size_t size);
/* Writes the target with another xnack: |mode| is "-", "+", or "" for a target that states none.
 * Returns false if there is no such target, or if it equals |t|. */
bool target_with_xnack(const struct target *t, const char *mode, struct target *ret_target);
/* Returns 86 for sm_86, 90 for sm_90a, and 0 for other families. */
unsigned target_capability(const struct target *t);
const char *target_backend(enum target_family family);
bool target_is_backend(struct bytes word);
