/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The inputs of a compile with NVRTC or hiprtc.  kilnd may run this compile once for all users (the
 * request compile_program).
 *
 * Role       before kilnd compiles, libkiln-rtc and kilnd check that the compile depends on these
 *            inputs alone: it reads no file, and no option, variable or path of the client's
 *            process changes it
 * Ownership  everything is borrowed
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "common/base/digest.h"

struct program_inputs {
    struct digest library; /* SHA-256 over the build ids of NVRTC or hiprtc and its libraries */
    struct bytes options;
    struct bytes name; /* name of the program, which may occur in the outputs */
    struct bytes source;
    uint32_t header_count;
    struct bytes headers;     /* header_count x message_header */
    struct bytes expressions; /* name expressions, as sized texts with their NUL */
};

/* Part of the key of a result.  Increase this number whenever a rule of program_inputs_obstacle
 * becomes stricter.  A client looks for a result without checking the rules, so it must not find a
 * result that kilnd compiled under the older rules. */
#define PROGRAM_INPUTS_RULES 2u

/* Returns NULL if the compile depends only on its inputs.  Otherwise returns a literal that names
 * something else that the compile may depend on.  Even a comment in the source may be taken for a
 * dependency.  If the target is an AMD GPU, the rules for hiprtc apply, else those for NVRTC. */
const char *program_inputs_obstacle(const struct program_inputs *inputs);
/* Returns the architecture in the options, such as "sm_90" or "gfx90a"; empty: none. */
struct bytes program_inputs_target(const struct program_inputs *inputs);
