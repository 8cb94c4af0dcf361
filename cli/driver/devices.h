/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * `kiln-driver devices`: lists the devices that can run kernels, and says why others cannot.
 *
 * Threading  main thread; may load GPU runtimes
 */
#include "cli/fail.h"

#include <stdbool.h>

/* Prints the devices.  Returns KILN_E_UNSUPPORTED if no device can be used.  If |json| is also set,
 * still prints the JSON document, whose member "error" is then the failure, and sets
 * |ret_reported|. */
CLI_MUST_CHECK int devices_print(bool json, bool *ret_reported, struct kiln_error *err);
