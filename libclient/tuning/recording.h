/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks a caller's measurements before they are sent to kilnd.
 *
 * Ownership  results borrow from the caller's structs
 * Threading  pure functions
 */
#include "common/miopen/tuning_text.h"
#include "common/protocol/messages.h"

#include <kiln/tuning.h>

/* Copies the caller's struct, which may be of another release and size, to a complete struct.  Sets
 * |library| if the caller has not. */
KILN_MUST_CHECK enum kiln_code recording_read(const struct kiln_recording *recording,
                                              struct kiln_recording *ret_recording,
                                              struct kiln_err *err);
/* Reads measurement |index| of a copy that recording_read() made.  Checks that names can be part of
 * a record, times are finite, and there is at least one sample.  For perf, the parameters may be
 * empty. */
KILN_MUST_CHECK enum kiln_code recording_measurement(const struct kiln_recording *recording,
                                                     enum tuning_kind kind, size_t index,
                                                     struct message_tuning_entry *ret_entry,
                                                     struct kiln_err *err);
