/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One message that asks for records, and their answers.
 *
 * Role       the options as the wire has them; every problem of a message answered exactly once
 * Ownership  an ask borrows its question and the places of its records; the records are of who owns
 *            the places
 * Threading  as requests (libclient/connection/multiplexer.h)
 */
#include "libclient/connection/multiplexer.h"
#include "libclient/tuning/tuned.h"

/* Bytes of each text in the options.  kilnd allows fewer, and says so. */
#define QUESTION_TEXT_MAX 1024u
/* A whole frame that asks for |count| problems, at most. */
#define ASK_FRAME_MAX(count) \
    (FRAME_HEADER_SIZE + 2 + 4 * (4 + QUESTION_TEXT_MAX) + 8 + (count)*PROBLEM_WIRE_SIZE)

struct question {
    enum tuning_kind kind;
    struct message_tuning_get message; /* but for the problems */
};
KILN_MUST_CHECK enum kiln_code question_read(enum tuning_kind kind,
                                             const struct kiln_tuning_options *options,
                                             struct question *ret_question, struct kiln_err *err);

struct ask {
    struct buffer frame;             /* the caller's to init, and to free where it is on the heap */
    const struct question *question; /* borrowed */
    struct kiln_tuned **tuned;       /* borrowed; NULL where nothing is recorded */
    uint32_t count, answered;
    bool used;
    enum kiln_code code; /* why kilnd could not answer for one of them */
    struct failure failure;
    struct request request;
};

/* What a place holds that has no answer yet. */
struct kiln_tuned *ask_unanswered(void);

void ask_init(struct ask *ask, const struct question *question, struct kiln_tuned **tuned,
              struct waiter *waiter);
/* |problems| is |count| of them as the wire has them; all become unanswered. */
void ask_write(struct ask *ask, struct bytes problems, uint32_t count);
/* What became of it, after its request ended with |code|; the failure moves to |failure|. */
KILN_MUST_CHECK enum kiln_code ask_end(struct ask *ask, enum kiln_code code,
                                       struct failure *failure);
void ask_done(struct ask *ask);
