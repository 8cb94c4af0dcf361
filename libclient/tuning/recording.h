/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the caller measured, checked before it goes to kilnd.
 *
 * Ownership  what is read borrows from the caller's structs
 * Threading  pure functions
 */
#include "common/messages.h"
#include "common/tuning_text.h"

#include <kiln/tuning.h>

/* A copy with all members, |library| set. */
KILN_MUST_CHECK enum kiln_code recording_read(const struct kiln_recording *recording,
                                              struct kiln_recording *ret_recording,
                                              struct kiln_err *err);
/* The |index|-th measurement of what recording_read() gave: names that can stand in a record,
 * finite times, at least one sample.  Of perf the parameter text may be empty. */
KILN_MUST_CHECK enum kiln_code recording_measurement(const struct kiln_recording *recording,
                                                     enum tuning_kind kind, size_t index,
                                                     struct message_tuning_entry *ret_entry,
                                                     struct kiln_err *err);
