/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The server: accepts connections and keeps them within their limits.
 *
 * Role       listener in, sessions out; counts and refuses
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
    uint64_t hello_ms;        /* from the connection to its hello */
    uint64_t frame_ms;        /* from a frame's first byte to its last */
    uint64_t stuck_ms;        /* replies wait, and the peer reads none */
    uint64_t full_ms;         /* as many files wait to be closed as a user may have */
    size_t bytes_per_session; /* of unread replies */
    size_t bytes_per_uid;     /* of unread replies and unfinished requests */
    size_t bytes;             /* of them, for all users together */
    size_t pause_bytes;       /* of unread replies; beyond it, requests are not read */
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
    unsigned clients; /* now */
    uint64_t connections_refused;
    uint64_t protocol_errors;
    uint64_t slow_peers_closed;
};

/* Bytes received in one read; all sessions share the buffer, as each request is handled before
 * the next read. */
#define SERVER_SCRATCH (64u << 10)

struct server {
    struct loop *loop;         /* borrowed */
    struct engine *engine;     /* borrowed */
    struct closer *closer;     /* borrowed */
    struct listener *listener; /* borrowed; NULL when not accepting */
    struct server_limits limits;
    struct server_counts counts;
    struct accounts accounts;
    struct list sessions; /* of struct session; owned */
    struct peer_groups groups;
    struct peer_overflow overflow;
    int spare_fd; /* owned: closed when descriptors run out, so that a connection can be refused
                     with a reason */
    bool draining, own_user_only;
    struct loop_owner owner;
    struct loop_watch watch; /* of the listener */
    struct loop_timer sweep; /* once a second: find slow peers */
    struct task reaper;      /* in the loop's queue: closes ended sessions */
    struct loop_timer retry; /* soon retries what the kernel or the closer had no room for */
    void (*closed)(void *context);
    void *context;
    uint8_t scratch[SERVER_SCRATCH];
};

struct server_options {
    struct loop *loop; /* borrowed, like all that follow */
    struct engine *engine;
    struct listener *listener;
    struct closer *closer;              /* must outlive the loop, whose last iterations use it */
    const char *publish_group;          /* name of a group; NULL, "": none */
    bool own_user_only;                 /* refuse all other users; groups do not count */
    const struct server_limits *limits; /* copied */
};

KILN_MUST_CHECK enum kiln_code server_create(const struct server_options *options,
                                             struct server **ret_server, struct kiln_err *err);
/* Applies to new connections; existing ones stay. */
void server_set_limits(struct server *server, unsigned connections, unsigned connections_per_uid);
void server_set_groups(struct server *server, const struct peer_groups *groups);
/* Accepts no more connections and reads no more requests.  Pending requests are answered;
 * sessions end as they become idle. */
void server_drain(struct server *server);
/* True when no session is left. */
bool server_is_empty(const struct server *server);
/* Closes every session at once. */
void server_drop_sessions(struct server *server);
/* Call after server_drop_sessions.  |closed| is called, never from within, once the server is
 * freed. */
void server_close(struct server *server, void (*closed)(void *context), void *context);
struct server_counts server_counts(const struct server *server);

/* For sessions. */
void server_reap_soon(struct server *server);
void server_retry_soon(struct server *server);
/* For the sweep, and for tests with their own clock. */
void server_check_times(struct server *server, uint64_t now_ms);
