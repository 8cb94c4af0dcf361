/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/miopen/tuning_text.h"
#include "tests/support/public_problem.h"
#include "tests/unit/libclient/fake_daemon.h"

#define FAKE_ALGORITHM "miopenConvolutionFwdAlgoDirect"
struct kiln_measurement fake_measurement(const char *solver);
/* Makes a recording for the user tier of one device. */
struct kiln_recording fake_recording(const struct kiln_measurement *measurements, uint32_t count);

/* The texts of the request are borrowed from its body. */
struct message_tuning_get fake_tuning_question(const struct fake_request *rq);
struct problem fake_tuning_problem(const struct message_tuning_get *question, uint32_t index);

/* Makes an answer with a record of tier host, which has the key "key". */
struct message_tuning_answer fake_tuning_answer(uint32_t index, const char *value);

/* A 'tuned' reply under construction. */
struct fake_tuned {
    struct buffer answers; /* freed with buffer_done */
    uint32_t count;
};
void fake_tuned_add(struct fake_tuned *t, const struct message_tuning_answer *answer);
void fake_tuned_reply(struct fake_tuned *t, const struct fake_request *rq, uint16_t flags);

uint64_t fake_real(double real); /* encodes a number as the protocol does */
