/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One message that requests records, and its answers.
 *
 * Role       encodes the options; checks that every problem of a message is answered exactly once
 * Ownership  an ask borrows its question and the array for its records; the array's owner owns the
 *            records
 * Threading  as for requests (libclient/connection/multiplexer.h)
 */
#include "libclient/connection/multiplexer.h"
#include "libclient/tuning/tuned.h"

/* Maximum bytes of each text in the options. kilnd has a lower limit, which its error message
 * names. */
#define QUESTION_TEXT_MAX 1024u
#define ASK_FRAME_MAX(count) \
    (FRAME_HEADER_SIZE + 2 + 4 * (4 + QUESTION_TEXT_MAX) + 8 + (count)*PROBLEM_WIRE_SIZE)

struct question {
    enum tuning_kind kind;
    struct message_tuning_get message;
    int timeout_ms;
};
KILN_MUST_CHECK enum kiln_code question_read(enum tuning_kind kind,
                                             const struct kiln_tuning_options *options,
                                             struct question *ret_question, struct kiln_err *err);

struct ask {
    /* The caller initialises this buffer, and calls buffer_done if it is on the heap. */
    struct buffer frame;
    const struct question *question;
    struct kiln_tuned **tuned; /* an element is NULL if its problem has no record */
    uint32_t count, answered;
    bool used;
    /* KILN_OK, or the first failure that kilnd reported for a problem; |failure| has the details */
    enum kiln_code code;
    struct failure failure;
    struct request request;
};

/* This value marks an array element as not answered yet. */
struct kiln_tuned *ask_unanswered(void);

void ask_init(struct ask *ask, const struct question *question, struct kiln_tuned **tuned,
              struct waiter *waiter);
/* Writes the message for |count| encoded |problems|.  Marks all of them as not answered. */
void ask_write(struct ask *ask, struct bytes problems, uint32_t count);
/* Returns the result of a request that ended with |code|.  Moves the failure, if any, to
 * |failure|. */
KILN_MUST_CHECK enum kiln_code ask_end(struct ask *ask, enum kiln_code code,
                                       struct failure *failure);
void ask_done(struct ask *ask);
