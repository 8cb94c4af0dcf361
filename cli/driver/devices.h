/* SPDX-License-Identifier: MIT */
#pragma once

/* `kiln-driver devices`: lists the devices that can run kernels, and says why others cannot. */
#include "cli/fail.h"

#include <stdbool.h>

/* Returns KILN_E_UNSUPPORTED when there is no device at all.  |ret_reported| is set when the JSON,
 * with the reasons and that failure as its "error", was printed nevertheless. */
CLI_MUST_CHECK int devices_print(bool json, bool *ret_reported, struct kiln_error *err);
