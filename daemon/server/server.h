/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The server: accepts connections and keeps them within their limits.
 *
 * Role       creates sessions from the listener's connections; counts and refuses connections
 * Ownership  owns its sessions, borrows listener, loop and engine; frees itself after
 *            server_close, when the last handle is closed
 * Threading  the loop's thread
 */
#include "daemon/loop/loop.h"
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"
#include "daemon/server/account.h"
#include "daemon/server/listener.h"
#include "daemon/server/session.h"

struct server_limits {
    unsigned connections;
    unsigned connections_per_uid;
    uint64_t hello_ms; /* maximum time from the connection to its hello message */
    uint64_t frame_ms; /* maximum time from a frame's first byte to its last */
    uint64_t stuck_ms; /* maximum time for which the peer may leave replies unread */
    /* How long a user may stay at the maximum number of files that wait to be closed. */
    uint64_t full_ms;
    size_t bytes_per_session; /* limit of unread replies */
    size_t bytes_per_uid;     /* limit of unread replies and unfinished requests */
    size_t bytes;             /* limit for all users */
    /* Number of bytes of unread replies above which a session's requests are not read. */
    size_t pause_bytes;
};

#define SERVER_LIMITS_DEFAULT           \
    ((struct server_limits){            \
        .connections = 4096,            \
        .connections_per_uid = 2048,    \
        .hello_ms = 10000,              \
        .frame_ms = 30000,              \
        .stuck_ms = 30000,              \
        .full_ms = 5000,                \
        .bytes_per_session = 64u << 20, \
        .bytes_per_uid = 512u << 20,    \
        .bytes = 2048u << 20,           \
        .pause_bytes = 1u << 20,        \
    })

struct server_counts {
    unsigned clients;
    uint64_t connections_refused;
    uint64_t protocol_errors;
    uint64_t slow_peers_closed;
};

/* Size of the buffer for reads.  All sessions share the buffer: each request is handled before the
 * next read. */
#define SERVER_SCRATCH (64u << 10)

struct server {
    struct loop *loop;
    struct engine *engine;
    struct closer *closer;
    struct listener *listener; /* borrowed; NULL after kilnd stopped accepting connections */
    struct server_limits limits;
    struct server_counts counts;
    struct accounts accounts;
    struct list sessions;
    struct peer_groups groups;
    struct peer_overflow overflow;
    /* Owned; closed when no other descriptor is free, so that a connection can be refused with a
     * reason. */
    int spare_fd;
    /* 0 if a descriptor is free for a connection.  Otherwise the time when the descriptors ran
     * out, or when a session last ended, whichever is later. */
    uint64_t starved_ms;
    bool draining, own_user_only;
    struct loop_owner owner;
    struct loop_watch watch;
    struct loop_timer accept_again; /* runs while the listener is not watched */
    struct loop_timer sweep;
    struct task acceptor;
    struct task reaper;
    struct loop_timer retry;
    void (*closed)(void *context);
    void *context;
    uint8_t scratch[SERVER_SCRATCH];
};

struct server_options {
    struct loop *loop; /* borrowed, as are the members below */
    struct engine *engine;
    struct listener *listener;
    struct closer *closer; /* must outlive the loop, whose last iterations use it */
    /* NULL or "": none */
    const char *publish_group;
    bool own_user_only;                 /* accept only kilnd's own user; groups do not matter */
    const struct server_limits *limits; /* copied */
};

KILN_MUST_CHECK enum kiln_code server_create(const struct server_options *options,
                                             struct server **ret_server, struct kiln_err *err);
/* The new limits only apply to connections accepted from now on. */
void server_set_limits(struct server *server, unsigned connections, unsigned connections_per_uid);
void server_set_groups(struct server *server, const struct peer_groups *groups);
/* Accepts no more connections and requests.  Pending requests are answered, and each session ends
 * when it is idle. */
void server_drain(struct server *server);
bool server_is_empty(const struct server *server);
void server_drop_sessions(struct server *server);
/* Call it after server_drop_sessions.  |closed| is called when the server is freed, but never
 * within this call. */
void server_close(struct server *server, void (*closed)(void *context), void *context);
struct server_counts server_counts(const struct server *server);
size_t server_bytes(const struct server *server);

/* Returns how long there has been neither a free descriptor for a connection nor a client. */
uint64_t server_starved_ms(const struct server *server, uint64_t now_ms);

void server_reap_soon(struct server *server);
void server_retry_soon(struct server *server);
void server_check_times(struct server *server, uint64_t now_ms);
