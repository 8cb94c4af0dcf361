/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A file that the engine wrote, as something that can go out with an answer: its descriptor, open
 * for reading, so that nothing of it is held in memory however large it is.  It may be unlinked
 * afterwards.  Its digest is not known.  Any thread.
 */
#include "engine/store/object.h"

KILN_MUST_CHECK enum kiln_code object_of_file(const char *path, struct object **ret_object,
                                              struct kiln_err *err);
