/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One connection: passes frames to the service and sends its replies.
 *
 * Role       reads when the socket is readable, and answers at once if possible.  It stops reading
 *            from a peer that does not read its replies.  It closes one that is too slow, floods or
 *            breaks the protocol.  All work that costs time waits in the loop's queue, which is
 *            fair between users
 * Ownership  belongs to its server; frees itself after its last handle closed
 * Threading  the loop's thread.  The service may reply from within session's own calls, so a broken
 *            session is only marked; the server's reaper closes it
 */
#include "daemon/loop/loop_queue.h"
#include "daemon/loop/watch.h"
#include "daemon/server/inbox.h"
#include "daemon/server/outbox.h"
#include "daemon/server/peer.h"
#include "daemon/server/request_files.h"
#include "engine/service/service.h"

struct server;

enum session_end { /* why the session ends; decides what is counted */
                   END_NOT,
                   END_GONE,     /* the peer left */
                   END_ANSWERED, /* close once the last reply is sent */
                   END_PROTOCOL, /* the peer broke the protocol */
                   END_SLOW,     /* the peer did not read, finish a frame or send hello in time */
};

struct session {
    struct caller caller;    /* what the engine sees of this session */
    struct server *server;   /* borrowed */
    struct closer *closer;   /* borrowed; outlives the server */
    struct account *account; /* borrowed */
    struct loop_owner owner;
    struct loop_watch watch;
    struct task turn; /* waits in the loop's queue while |events| are due */
    unsigned events;
    int fd; /* owned */
    struct inbox inbox;
    struct outbox outbox;
    struct request_files files; /* belong to the incomplete frame */
    uint64_t joined_ms;
    uint64_t frame_ms; /* when the unfinished frame began */
    uint64_t moved_ms; /* when bytes were last sent, or began to wait */
    enum session_end end;
    bool hold;             /* more requests are here: combine small replies */
    bool is_barred;        /* not read: this user has too many files waiting to be closed */
    bool draining;         /* reads no requests; closed once the pending ones are answered */
    struct list_link link; /* in the server's list */
};

/* Takes |fd| on success.  KILN_BUSY if the user has as many connections as allowed. */
KILN_MUST_CHECK enum kiln_code session_open(struct server *server, int fd, const struct peer *peer,
                                            struct session **ret_session, struct kiln_err *err);
/* Leaves the service and closes.  The session no longer belongs to the server. */
void session_close(struct session *session);
/* Called once a second: ends the session when it is too slow.  |now_ms| is on the loop's clock. */
void session_check_time(struct session *session, uint64_t now_ms);
/* Retries what failed because the kernel or the closer was full. */
void session_retry(struct session *session);
/* Reads no more requests. */
void session_drain(struct session *session);
/* True when all requests are answered and all replies sent. */
bool session_is_idle(const struct session *session);
