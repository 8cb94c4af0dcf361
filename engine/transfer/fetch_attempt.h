/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One HTTP request of a fetch, for fetch.c.
 *
 * If an earlier attempt fetched a part of the file, the request continues it with Range and
 * If-Range. To allow that, the server must have sent a strong validator with the part: an ETag that
 * is not weak, or a Last-Modified older than the response's Date.  The response is appended only if
 * it begins where the part ends and has the same validator.  Otherwise the file is fetched from the
 * start.
 *
 * Threading  one thread for each fetch; blocks
 */
#include "engine/transfer/fetch.h"

#define VALIDATOR_MAX 256

struct part { /* the part of the file that has been fetched */
    int fd;
    uint64_t size;
    uint64_t whole; /* size of the whole file; 0: the server did not state it */
    /* Identifies the version of the file; "": the part cannot be continued. */
    char validator[VALIDATOR_MAX];
    bool by_date;    /* the validator is a Last-Modified */
    long status;     /* HTTP status of the latest response; 0: there was none */
    uint64_t wait_s; /* the server's Retry-After in the latest response, or 0 */
};

enum attempt_end { ATTEMPT_DONE, ATTEMPT_MAY_REPAIR, ATTEMPT_FINAL };

/* Makes an attempt.  |number| counts from 1; |note| says why the previous attempt failed.  Fills
 * |err| unless the result is ATTEMPT_DONE. */
enum attempt_end fetch_attempt(const struct fetch_request *request, unsigned number,
                               const char *note, struct part *part, struct kiln_err *err);
