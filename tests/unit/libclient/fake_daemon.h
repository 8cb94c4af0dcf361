/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A daemon of the test's making: a thread that greets, counts, and leaves every answer to the
 * test.
 *
 * Ownership  fake_daemon_start / fake_daemon_stop; its directory goes with it
 * Threading  handlers run on the daemon's thread; fields are set before start
 */
#include "common/messages.h"

#include <kiln/kiln.h>
#include <pthread.h>
#include <stdatomic.h>

#define FAKE_PEERS_MAX 64
/* A time-out that is to be over: enough to connect and to send where other work has the machine. */
#define WAIT_MS 400

struct fake_daemon;

struct fake_request { /* borrowed by the handler for its call */
    struct fake_daemon *daemon;
    int peer; /* the socket to answer on */
    struct frame_header header;
    struct bytes body;
    int files[LIMIT_REQUEST_FILES]; /* that came with it; closed when the handler returns */
    unsigned file_count;
};

struct fake_daemon {
    /* The test's, before start. */
    void (*handle)(struct fake_request *request);
    void *context;
    uint16_t version;       /* in welcome; 0: the right one */
    const char *refusal;    /* answers hello with this error instead */
    enum kiln_code refused; /* its code; OK: KILN_UNSUPPORTED */
    bool silent;            /* does not answer hello at all */
    bool without_inline;    /* capability withheld */
    uint32_t max_in_flight; /* 0: LIMIT_REQUESTS_IN_FLIGHT */
    bool stopping;          /* replies say so; handlers may change it */

    /* Counted. */
    atomic_uint connections, requests, cancels;

    char directory[64], path[96];
    int listener, stop_fd;
    int peers[FAKE_PEERS_MAX];
    unsigned peer_count;
    pthread_t thread;
    bool running;
};

/* Makes a temporary directory for the socket unless there is one from before. */
void fake_daemon_start(struct fake_daemon *d);
/* As by kill -9: every connection closed, the socket file left behind. */
void fake_daemon_kill(struct fake_daemon *d);
/* Killed, and its directory removed. */
void fake_daemon_stop(struct fake_daemon *d);

/* Answers, from the handler.  |fds| are sent and stay the caller's. */
void fake_reply(const struct fake_request *rq, uint16_t type, uint16_t flags, struct bytes body,
                const int *fds, size_t fd_count);
void fake_reply_error(const struct fake_request *rq, enum kiln_code code, const char *text,
                      const char *log);
/* The same with any header at all. */
void fake_send(int peer, const struct frame_header *header, struct bytes body, const int *fds,
               size_t fd_count);
/* Closes this connection when the handler returns. */
void fake_hang_up(struct fake_request *rq);

/* Outcomes: a 'kernels' body under construction. */
struct fake_results {
    struct buffer records; /* buffer_done */
    uint32_t count;
};
void fake_result_add(struct fake_results *o, const struct message_result *result);
void fake_results_reply(struct fake_results *o, const struct fake_request *rq, uint16_t flags,
                        const int *fds, size_t fd_count);
/* A good outcome with |content| inside the frame, and its key made of |seed|. */
struct message_result fake_inline_result(uint32_t index, const struct digest *key,
                                         struct bytes content);
struct digest fake_key(unsigned seed);

/* A memfd with |content|, sealed or not. */
int fake_memfd(struct bytes content, bool sealed);

/* A client of |d|; asserts that it opens. */
struct kiln_client *fake_client(const struct fake_daemon *d);
/* Starts |d|, whose requests |handle| answers and find |context| in it; a client of it comes back.
 */
struct kiln_client *fake_daemon_serve(struct fake_daemon *d, void (*handle)(struct fake_request *),
                                      void *context);
