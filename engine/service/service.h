/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests in, replies out: what a transport (the daemon's sessions, the in-process one) needs
 * to know of the engine.
 *
 * Role       decodes a frame, checks the caller's role, does it, encodes the answer
 * Ownership  the transport owns its caller; the engine never touches it after service_leave
 * Threading  the engine's thread (the loop).  Replies are sent from within service_handle when
 *            the answer is at hand, else later; sinks must allow both.
 */
#include "common/json.h"
#include "common/limits.h"
#include "common/list.h"
#include "common/messages.h"
#include "engine/store/object.h"

#include <sys/types.h>

struct engine;
struct caller;

/* The bytes of |object|, which go into a body in front of its byte |at|: so they are not copied
 * before they are sent. */
struct segment {
    size_t at;
    struct object *object;
};

static inline size_t inlaid_size(const struct segment *segments, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += segments[i].object->size;
    return size;
}

/* How an answer gets back.  Borrows everything for the length of the call; a sink that cannot
 * send at once takes its own references to the objects. */
struct reply {
    enum message_type type;
    uint64_t request_id;
    uint16_t flags;                 /* FRAME_MORE */
    struct bytes body;              /* without its inlays */
    const struct segment *segments; /* in order */
    size_t segment_count;
    struct object *const *objects; /* the frame's descriptors, in order */
    size_t object_count;
};

struct caller_ops {
    /* Must not call service_leave() from within: a connection that fails is left later. */
    void (*reply)(struct caller *caller, const struct reply *reply);
};

/* One connection (or one in-process client).  Embed it; fill the first part. */
struct caller {
    const struct caller_ops *ops;
    uid_t uid;
    gid_t gid;
    pid_t pid;
    enum role role;
    /* |uid| is nobody's own: it may be any number of users, who share its limits, and for whom
     * nothing is kept that others should not see or change. */
    bool is_anonymous;
    /* Descriptors that came with the request in hand, owned by the transport but for those that a
     * handler takes by writing -1. */
    int files[LIMIT_REQUEST_FILES];
    unsigned file_count;
    /* The engine's from here on: zero it before service_join. */
    struct list unanswered; /* of struct deferred, the newest first */
    unsigned in_flight;
    bool greeted;
    bool wants_events;
    uint64_t events_request; /* id that the events answer */
    uint16_t version;
    uint64_t capabilities;
    struct caller *next, *previous; /* list of callers that joined */
};

void service_join(struct engine *engine, struct caller *caller);
/* Cancels what the caller still waits for; queued work that nobody else wants is dropped. */
void service_leave(struct engine *engine, struct caller *caller);

/* Handles one request.  A failure to understand it is answered, not returned: only
 * KILN_INVALID before hello means that the connection should be closed after the reply. */
KILN_MUST_CHECK enum kiln_code service_handle(struct engine *engine, struct caller *caller,
                                              const struct frame_header *header, struct bytes body,
                                              struct kiln_err *err);

/* Tells every subscriber; |event| is taken over.  Cheap when nobody listens: ask first. */
bool service_has_listeners(const struct engine *engine);
void service_event(struct engine *engine, struct json *event);
