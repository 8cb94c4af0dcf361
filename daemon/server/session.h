/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One connection: frames in, to the service; replies out.
 *
 * Role       reads when the socket is readable, answers at once where it can, stops reading from
 *            a peer that does not read, and closes one that dawdles, floods or talks nonsense
 * Ownership  belongs to its server; frees itself after its last handle closed
 * Threading  the loop's thread.  The service may reply from within session's own calls, so a
 *            session that broke is only marked, and closed from the server's reaper
 */
#include "daemon/loop/watch.h"
#include "daemon/server/inbox.h"
#include "daemon/server/outbox.h"
#include "daemon/server/peer.h"
#include "daemon/server/request_files.h"
#include "engine/service/service.h"

struct server;

enum session_end { /* why it is to be closed; decides what is counted */
                   END_NOT,
                   END_GONE,     /* the peer left */
                   END_ANSWERED, /* a last reply is on its way: close when it is out */
                   END_PROTOCOL, /* what came was not the protocol */
                   END_SLOW,     /* did not read, finish a frame or say hello in time */
};

struct session {
    struct caller caller;    /* the engine's view of us */
    struct server *server;   /* borrowed */
    struct closer *closer;   /* borrowed; outlives the server */
    struct account *account; /* borrowed */
    struct loop_owner owner;
    struct loop_watch watch;
    int fd; /* owned */
    struct inbox inbox;
    struct outbox outbox;
    struct request_files files; /* came with the frame that is not whole yet */
    uint64_t joined_ms;
    uint64_t frame_ms; /* when the unfinished frame began */
    uint64_t moved_ms; /* when bytes last went out, or began to wait */
    enum session_end end;
    bool hold;      /* more requests are at hand: gather the small replies */
    bool is_barred; /* not read: his user has too many files that wait to be closed */
    bool draining;  /* no more requests; closed when what is asked is answered */
    struct session *next, *previous; /* server's list */
};

/* Takes |fd| on success.  |account| has this connection counted already. */
KILN_MUST_CHECK enum kiln_code session_open(struct server *server, int fd, const struct peer *peer,
                                            struct account *account, struct session **ret_session,
                                            struct kiln_err *err);
/* Leaves the service and closes; the session is the server's no more. */
void session_close(struct session *session);
/* Ends the session from the reaper, after what is in hand. */
void session_end(struct session *session, enum session_end end);
/* Once a second: ends it when it is too slow.  |now_ms| is on the loop's clock. */
void session_check_time(struct session *session, uint64_t now_ms);
/* Tries again what there was no room for. */
void session_retry(struct session *session);
/* Reads no more requests. */
void session_drain(struct session *session);
/* Nothing asked is unanswered and everything answered is sent. */
bool session_is_idle(const struct session *session);
