/* SPDX-License-Identifier: MIT */
#pragma once

/* A file that the engine wrote, as a sealed memory file that can go out with an answer.  Any
 * thread. */
#include "engine/store/object.h"

/* KILN_FULL, saying how large it is, beyond LIMIT_CODE_OBJECT. */
KILN_MUST_CHECK enum kiln_code object_of_file(const char *path, struct object **ret_object,
                                              struct kiln_err *err);
