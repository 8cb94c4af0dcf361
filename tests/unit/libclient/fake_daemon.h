/* SPDX-License-Identifier: MIT */
#pragma once

/* A fake kilnd: a thread that accepts clients and counts requests. Each request is answered by
 * the test's handler, which runs on that thread. Tests set the fields before the start. */
#include "common/protocol/messages.h"

#include <kiln/kiln.h>
#include <pthread.h>
#include <stdatomic.h>

#define FAKE_PEERS_MAX 64
/* Time-out, in ms, of a call that the test lets time out. It is long enough to connect and to send
 * a request on a busy machine. */
#define WAIT_MS 400

struct fake_daemon;

struct fake_request { /* valid until the handler returns */
    struct fake_daemon *daemon;
    int peer;
    struct frame_header header;
    struct bytes body;
    int files[LIMIT_REQUEST_FILES]; /* received with the request; closed when the handler returns */
    unsigned file_count;
};

struct fake_daemon {
    void (*handle)(struct fake_request *request);
    void *context;
    uint16_t version; /* protocol version in the welcome message; 0 means FRAME_VERSION */
    /* text of an error that answers hello; NULL means that the daemon accepts the client */
    const char *refusal;
    enum kiln_code refused; /* code of |refusal|; OK means KILN_UNSUPPORTED */
    bool silent;            /* whether hello is not answered at all */
    bool without_inline;    /* whether the daemon cannot send small objects inline */
    uint32_t max_in_flight; /* 0 means LIMIT_REQUESTS_IN_FLIGHT */
    bool stopping;          /* whether replies have FRAME_STOPPING; handlers may change it */

    atomic_uint connections, requests, cancels;

    char path[96];
    int listener, stop_fd;
    int peers[FAKE_PEERS_MAX];
    unsigned peer_count;
    pthread_t thread;
    bool running;
};

/* Starts the daemon. A stopped daemon may be started again, at the same path. If it runs when
 * the test ends, it is stopped then. */
void fake_daemon_start(struct fake_daemon *d);
/* Acts like kill -9: closes every connection, but does not remove the socket file. */
void fake_daemon_kill(struct fake_daemon *d);

struct fake_files { /* descriptors to send, which the caller still owns */
    const int *fds;
    size_t count;
};

void fake_reply(const struct fake_request *rq, uint16_t type, uint16_t flags, struct bytes body);
void fake_reply_files(const struct fake_request *rq, uint16_t type, uint16_t flags,
                      struct bytes body, struct fake_files files);
void fake_pong(struct fake_request *rq);
void fake_reply_error(const struct fake_request *rq, enum kiln_code code, const char *text,
                      const char *log);
/* Sends a frame whose |header| may be invalid. */
void fake_send(int peer, const struct frame_header *header, struct bytes body, const int *fds,
               size_t fd_count);
/* Closes this connection when the handler returns. */
void fake_hang_up(struct fake_request *rq);

struct fake_results {
    struct buffer records; /* freed with buffer_done */
    uint32_t count;
};
void fake_result_add(struct fake_results *o, const struct message_result *result);
void fake_results_reply(struct fake_results *o, const struct fake_request *rq, uint16_t flags,
                        const int *fds, size_t fd_count);
struct message_result fake_inline_result(uint32_t index, const struct digest *key,
                                         struct bytes content);
struct digest fake_key(unsigned seed);

int fake_memfd(struct bytes content, bool sealed);

struct kiln_client *fake_client(const struct fake_daemon *d);
/* Starts |d| with |handle| and |context|, and opens a client. The client is closed when the test
 * ends, unless the test has set |*ret_client| to NULL. */
void fake_daemon_serve(struct fake_daemon *d, void (*handle)(struct fake_request *), void *context,
                       struct kiln_client **ret_client);
