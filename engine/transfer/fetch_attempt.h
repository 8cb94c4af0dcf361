/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One HTTP request of a fetch, for fetch.c.
 *
 * If an earlier attempt fetched a part of the file, the request continues it with Range and
 * If-Range. To allow that, the server must have sent a strong validator with the part: an ETag that
 * is not weak, or a Last-Modified older than the response's Date. The response is appended to the
 * part only if it begins where the part ends, and has the same validator.
 *
 * Threading  one thread for each fetch; blocks
 */
#include "engine/transfer/fetch.h"

#define VALIDATOR_MAX 256

struct part {
    int fd;
    uint64_t size;
    uint64_t whole; /* size of the whole file in bytes; 0: the server did not state it */
    /* The server's ETag or Last-Modified, which identifies the version of the file; "": the part
     * cannot be continued. */
    char validator[VALIDATOR_MAX];
    bool by_date;
    long status;     /* 0: there was no response */
    uint64_t wait_s; /* the server's Retry-After, or 0 */
};

enum attempt_end { ATTEMPT_DONE, ATTEMPT_MAY_REPAIR, ATTEMPT_FINAL };

/* Makes the attempt |number|, counted from 1. |note| says why the previous attempt failed. Fills
 * |err| unless the result is ATTEMPT_DONE. */
enum attempt_end fetch_attempt(const struct fetch_request *request, unsigned number,
                               const char *note, struct part *part, struct kiln_err *err);
