/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One HTTP request of a fetch, for fetch.c.
 *
 * A part of the file that an earlier attempt fetched is continued with Range and If-Range, if the
 * server gave a strong validator with it. A strong validator is an ETag that is not weak, or else a
 * Last-Modified older than the response's Date. The response is appended only if it begins where
 * the part ends and has the same validator. Otherwise the file is fetched from the start.
 *
 * Threading  one thread for each fetch; blocks
 */
#include "engine/transfer/fetch.h"

#define VALIDATOR_MAX 256

struct part { /* the part of the file that has been fetched */
    int fd;
    uint64_t size;
    uint64_t whole;                /* size of the whole file; 0: the server did not state it */
    char validator[VALIDATOR_MAX]; /* "": cannot be continued */
    bool by_date;                  /* the validator is a Last-Modified */
    long status;                   /* of the latest response; 0: there was none */
    uint64_t wait_s;               /* the server's Retry-After in the latest response, or 0 */
};

enum attempt_end { ATTEMPT_DONE, ATTEMPT_MAY_REPAIR, ATTEMPT_FINAL };

/* |number| counts from 1; |note| says why the previous attempt failed. |err| is filled unless the
 * attempt ends with ATTEMPT_DONE. */
enum attempt_end fetch_attempt(const struct fetch_request *request, unsigned number,
                               const char *note, struct part *part, struct kiln_err *err);
