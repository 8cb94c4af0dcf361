/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A kernel's key: a digest of everything that determines the compiled object.
 *
 * The key is SHA-256 over these length-prefixed fields: "kiln-key-1", toolchain name, target,
 * toolchain identity, program name, canonical options, source, each header's name and text in the
 * order of their names, COMPILE_ABI.
 *
 * Threading  pure functions
 */
#include "common/base/digest.h"
#include "engine/compile/compile_job.h"
#include "engine/compile/headers.h"

/* Version of the fixed options and defines that the back ends add. Raise the version when an option
 * or define changes, so that objects compiled with the old options are no longer found. */
#define COMPILE_ABI 1u

/* Returns the key of the job's kernel. The headers must have passed headers_check, and the options
 * must be canonical (options.h). */
struct digest kernel_key(const struct compile_job *job, const struct digest *toolchain_identity);

struct digest kernel_source_id(const struct compile_job *job);
struct digest kernel_headers_id(const struct compile_job *job);
