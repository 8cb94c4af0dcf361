/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One connection: passes frames to the service and sends its replies.
 *
 * Role       stops reading from a peer that does not read its replies.  Closes the connection to a
 *            peer that is too slow, sends too much or breaks the protocol.  Requests wait in the
 *            loop's queue, which is fair between users
 * Ownership  belongs to its server; frees itself after its last handle closed
 * Threading  the loop's thread.  The service may reply within a call of the session, so a broken
 *            session is only marked, and the server's reaper closes it later
 */
#include "daemon/loop/loop_queue.h"
#include "daemon/loop/watch.h"
#include "daemon/server/inbox.h"
#include "daemon/server/outbox.h"
#include "daemon/server/peer.h"
#include "daemon/server/request_files.h"
#include "engine/service/service.h"

struct server;

enum session_end {
    END_NOT,
    END_GONE,
    END_ANSWERED, /* close the session when the last reply has been sent */
    END_PROTOCOL,
    /* The peer did not read, did not finish a frame or did not send hello in
     * time. */
    END_SLOW,
};

struct session {
    struct caller caller;
    struct server *server;
    struct closer *closer; /* borrowed; exists longer than the server */
    struct account *account;
    struct loop_owner owner;
    struct loop_watch watch;
    struct task turn; /* handles |events| */
    unsigned events;
    int fd;
    struct inbox inbox;
    struct outbox outbox;
    struct request_files files;
    uint64_t joined_ms;
    uint64_t frame_ms; /* when the unfinished frame began */
    /* When bytes were last sent, or when a reply was added to the empty outbox, whichever is
     * later. */
    uint64_t moved_ms;
    enum session_end end;
    bool hold; /* more requests were received already, so small replies are combined */
    /* Nothing is read from the peer, because too many files of this user wait to be closed. */
    bool is_barred;
    /* No more requests are read; the session is closed once the pending requests are answered. */
    bool draining;
    struct list_link link;
};

/* Owns |fd| if it succeeds.  Returns KILN_BUSY if the user has as many connections as allowed. */
KILN_MUST_CHECK enum kiln_code session_open(struct server *server, int fd, const struct peer *peer,
                                            struct session **ret_session, struct kiln_err *err);
/* Call it after the session was removed from the server's list. */
void session_close(struct session *session);
/* Ends the session if the peer is too slow.  |now_ms| is a time of the loop's clock. */
void session_check_time(struct session *session, uint64_t now_ms);
/* Continues after a pause.  Sends again after Linux lacked memory or had too many of kilnd's
 * descriptors in transit.  Reads again after too many of the user's files waited to be closed. */
void session_retry(struct session *session);
void session_drain(struct session *session);
bool session_is_idle(const struct session *session);
