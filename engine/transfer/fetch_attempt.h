/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One request of a fetch: for fetch.c.
 *
 * A part that is here already is asked to be continued only when the server gave a strong validator
 * with it (an ETag that is not weak; else a Last-Modified older than its Date), by Range and
 * If-Range; and what comes is appended only when it begins where the part ends and carries the same
 * validator.  Otherwise it is fetched from the start.
 */
#include "engine/transfer/fetch.h"

#define VALIDATOR_MAX 256

struct part { /* of the file, as far as it is here */
    int fd;
    uint64_t size;
    uint64_t whole;                /* 0: the server did not say */
    char validator[VALIDATOR_MAX]; /* "": cannot be continued */
    bool by_date;                  /* the validator is a Last-Modified */
    long status;                   /* of the last answer; 0: none */
};

enum attempt_end { ATTEMPT_DONE, ATTEMPT_MAY_REPAIR, ATTEMPT_FINAL };

/* |number| from 1; |note| why the last one failed.  |err| is filled unless ATTEMPT_DONE;
 * |ret_wait_s| what the server asks to wait. */
enum attempt_end fetch_attempt(const struct fetch_request *request, unsigned number,
                               const char *note, struct part *part, uint64_t *ret_wait_s,
                               struct kiln_err *err);
