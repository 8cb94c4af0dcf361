/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes an object from a file that the engine wrote and will send with an answer. The object has
 * only the file's descriptor, so even a large file takes no memory. The object's digest is unknown.
 *
 * Ownership  the caller owns the object
 * Threading  any thread
 */
#include "engine/store/object.h"

KILN_MUST_CHECK enum kiln_code object_of_file(const char *path, struct object **ret_object,
                                              struct kiln_err *err);
