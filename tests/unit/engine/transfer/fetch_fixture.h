/* SPDX-License-Identifier: MIT */
#pragma once

/* Tests of fetches into a memfd, from an HTTP server that the test controls. */
#include "engine/transfer/fetch.h"
#include "tests/support/http_script.h"
#include "tests/support/test.h"

#include <sys/types.h>

#define SIZE 50000
#define PAUSES_KEPT 64

struct fixture {
    struct http_script server;
    struct fetch_policy policy;
    struct fetch_request request;
    struct url url;
    uint64_t limit;
    uint8_t content[SIZE], other[SIZE]; /* two versions of the file */
    unsigned ranges;
    char etag[64], date[64]; /* headers of the next responses; "" means no such header */
    unsigned cuts;           /* number of responses to cut, each after |step| more bytes */
    size_t step;
    int status;        /* HTTP status that is sent instead of the file */
    const char *extra; /* header lines of responses with |status| */
    unsigned failures; /* number of requests that get |status| */
    int fd;
    long status_seen;
    struct kiln_err err;
};

/* Pauses that fetches requested. The fixture records them instead of waiting. */
extern uint64_t pauses[PAUSES_KEPT];
extern unsigned pause_count;

void open_fetch(struct fixture *f);
SET_UP(set_up_fetch) { open_fetch(f); }
FIXTURE(fetch, set_up_fetch, NULL);

void serve(struct fixture *f, void (*answer)(struct http_script *script, unsigned number, int fd));
/* Fetches |path|, then stops the server, so that the test can examine the requests. */
enum kiln_code get(struct fixture *f, const char *credentials, const char *path);
void expect_content(struct fixture *f, const uint8_t *content);
off_t size_of_file(const struct fixture *f);

/* say_head sends the headers without the final empty line. send_file answers like a correct
 * server, except that it cuts the first |cuts| responses. answer_file sends |status| for the
 * first |failures| requests, and then the file. */
void say_head(struct fixture *f, int fd, const char *status, size_t length);
void send_file(struct fixture *f, int fd, const uint8_t *content);
void answer_file(struct http_script *script, unsigned number, int fd);
