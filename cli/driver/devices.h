/* SPDX-License-Identifier: MIT */
#pragma once

/* `kiln-driver devices`: what can run kernels here, and why the rest cannot. */
#include "cli/fail.h"

#include <stdbool.h>

/* KILN_E_UNSUPPORTED when there is no device at all. */
CLI_MUST_CHECK int devices_print(bool json, struct kiln_error *err);
