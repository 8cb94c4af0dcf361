/* SPDX-License-Identifier: MIT */
#pragma once

/* `kiln-driver devices`: what can run kernels here, and why the rest cannot. */
#include "cli/fail.h"

#include <stdbool.h>

/* KILN_E_UNSUPPORTED when there is no device at all; |ret_reported|: JSON with the reasons, and
 * this one as its "error", was printed all the same. */
CLI_MUST_CHECK int devices_print(bool json, bool *ret_reported, struct kiln_error *err);
