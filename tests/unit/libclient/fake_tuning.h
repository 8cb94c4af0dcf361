/* SPDX-License-Identifier: MIT */
#pragma once

/* Fake answers with tuning records. */
#include "common/miopen/tuning_text.h"
#include "tests/unit/libclient/fake_daemon.h"

/* Returns a valid 2-D problem. Problems with different |n| differ. */
struct kiln_problem fake_problem(uint32_t n);

/* Reads a request. Its texts are borrowed from the request's body. */
struct message_tuning_get fake_tuning_question(const struct fake_request *rq);
struct problem fake_tuning_problem(const struct message_tuning_get *question, uint32_t index);

/* Returns a valid record of tier host, with the key "key" and this value. */
struct message_tuning_answer fake_tuning_answer(uint32_t index, const char *value);

/* The body of a 'tuned' reply under construction. */
struct fake_tuned {
    struct buffer answers; /* freed with buffer_done */
    uint32_t count;
};
void fake_tuned_add(struct fake_tuned *t, const struct message_tuning_answer *answer);
void fake_tuned_reply(struct fake_tuned *t, const struct fake_request *rq, uint16_t flags);

uint64_t fake_real(double real); /* returns the number in the form of the protocol */
