/* SPDX-License-Identifier: MIT */
#pragma once

/* A server with one client and a fake service. The service answers requests by their type: a
 * hello marks the caller as greeted, a fetch gets an object, and a plan waits for
 * answer_deferred_request. It answers all others like a ping. Tests must close the descriptors
 * that the service keeps. */
#include "daemon/server/server.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <sys/resource.h>

struct fake_service {
    unsigned joined, left, handled;
    size_t last_body;
    unsigned in_order; /* number of requests whose id follows that of the previous request */
    uint64_t last_id;
    struct caller *waiting; /* the caller of a deferred request */
    uint64_t waiting_id;
    size_t reply_size; /* size of the reply to a ping; 0 means the size of the ping */
    struct object *object;
    void (*handling)(void); /* called for each request; may be NULL */
    bool refuse;
    bool takes_files; /* whether the service keeps the descriptors of a request */
    unsigned file_count;
    int files[LIMIT_REQUEST_FILES];
    unsigned references;
};

extern struct fake_service service;

struct fixture {
    const char *directory;
    char path[100];
    struct loop *loop;
    struct listener listener;
    struct closer *closer;
    struct server *server;
    struct object object;
    int client;
    bool closed;
    struct rlimit descriptors; /* the original limit, restored when the test ends or fails */
    struct kiln_err err;
};

void open_server(struct fixture *f);
void close_server(struct fixture *f);

void send_answer(struct caller *caller, uint64_t id, enum message_type type, struct bytes body,
                 struct object *object);
void answer_deferred_request(void);

int connect_to_server(struct fixture *f);
/* Waits until the service knows the connection. */
int join_server(struct fixture *f);
size_t put_frame(uint8_t *raw, enum message_type type, uint64_t id, const void *body, size_t size);
/* Writes the frame of a package_install request that announces |descriptors| descriptors.
 * Returns its size. */
size_t put_install_frame(uint8_t *raw, uint64_t id, const char *body, unsigned descriptors);
void send_raw(int fd, const void *data, size_t size);
/* Sends |data| with the descriptors |files| attached to its first byte. */
void send_files(int fd, const void *data, size_t size, const int *files, unsigned count);
void send_request(int fd, enum message_type type, uint64_t id, const char *body);
/* Runs the loop until |size| bytes have arrived or the connection has ended. Returns the number
 * of bytes. */
size_t receive_bytes(struct fixture *f, int fd, void *data, size_t size);
struct frame_header receive_header(struct fixture *f, int fd);
/* Receives a whole frame, which must be the answer to ping |id|. */
void receive_pong(struct fixture *f, int fd, uint64_t id);
void expect_pong(struct fixture *f, int fd, uint64_t id);
bool is_closed(struct fixture *f, int fd);
/* The next frame must be an error for request |id| with a message that contains |words|. */
void assert_refused(struct fixture *f, int fd, uint64_t id, const char *words);

static inline struct session *first_session(struct fixture *f)
{
    return LIST_FIRST(&f->server->sessions, struct session, link);
}

SET_UP(set_up) { open_server(f); }
TEAR_DOWN(tear_down) { close_server(f); }
FIXTURE(session, set_up, tear_down);
