/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Tuning records inside libkiln: kilnd's answer for one problem, parsed.
 *
 * Role       parses and checks kilnd's answer.  A record is one allocation, with the entries and
 *            then all their texts
 * Ownership  tuned_create / kiln_tuned_free
 * Threading  immutable
 */
#include "common/miopen/tuning_text.h"
#include "common/protocol/messages.h"

#include <kiln/tuning.h>

/* Returns KILN_CORRUPT if the answer is inconsistent. */
KILN_MUST_CHECK enum kiln_code tuned_create(enum tuning_kind kind,
                                            const struct message_tuning_answer *answer,
                                            struct kiln_tuned **ret_tuned, struct kiln_err *err);
