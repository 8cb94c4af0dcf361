/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A server with one client over a service that counts and answers as the request's type says:
 * hello is noted, fetch gets an object, plan waits for answer_the_waiting, all else is a ping.
 * What it took of a request's files is the test's to close.
 */
#include "daemon/server/server.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

struct fake_service {
    unsigned joined, left, handled;
    size_t last_body;
    unsigned in_order; /* requests whose id was one more than the last one's */
    uint64_t last_id;
    struct caller *waiting; /* who asked for something that is answered later */
    uint64_t waiting_id;
    size_t reply_size; /* of the answer to a ping; 0: as long as the ping */
    struct object *object;
    bool refuse;
    bool takes_files;    /* keeps the descriptors that come with a request */
    unsigned file_count; /* of the last request */
    int files[LIMIT_REQUEST_FILES];
    unsigned references; /* that queued replies hold */
};

extern struct fake_service service;

struct fixture {
    char directory[64];
    char path[100];
    struct loop *loop;
    struct listener listener;
    struct closer *closer;
    struct server *server;
    struct object object;
    int client;
    bool closed;
    struct kiln_err err;
};

int set_up(void **state);
int tear_down(void **state);

/* The service's side. */
void answer(struct caller *caller, uint64_t id, enum message_type type, struct bytes body,
            struct object *object);
void answer_the_waiting(void);

/* The client's side. */
int dial(struct fixture *f);
/* Dials and waits until the service knows of it. */
int join(struct fixture *f);
size_t put_frame(uint8_t *raw, enum message_type type, uint64_t id, const void *body, size_t size);
/* A request package_install that announces |descriptors|. */
size_t put_install_frame(uint8_t *raw, uint64_t id, const char *body, unsigned descriptors);
void send_raw(int fd, const void *data, size_t size);
/* The same with descriptors, at the first byte of |data|. */
void send_files(int fd, const void *data, size_t size, const int *files, unsigned count);
void ask(int fd, enum message_type type, uint64_t id, const char *body);
/* Turns the loop until |size| bytes came or the connection ended; how many came. */
size_t take(struct fixture *f, int fd, void *data, size_t size);
struct frame_header take_header(struct fixture *f, int fd);
bool is_closed(struct fixture *f, int fd);
/* The next frame is an error to request |id| whose sentence has |words|. */
void assert_refused(struct fixture *f, int fd, uint64_t id, const char *words);

static inline struct session *first_session(struct fixture *f)
{
    return LIST_FIRST(&f->server->sessions, struct session, link);
}

FIXTURE(session, set_up, tear_down);
