/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests in, replies out: the engine's interface for transports (the daemon's sessions, the
 * in-process transport).
 *
 * Role       decodes a frame, checks the caller's role, runs the request, encodes the answer
 * Ownership  the transport owns its caller; the engine does not use it after service_leave
 * Threading  the engine's thread (the loop). A reply is sent within service_handle if the answer is
 *            available at once, and otherwise later; a transport must allow both
 */
#include "common/base/json.h"
#include "common/base/list.h"
#include "common/protocol/limits.h"
#include "common/protocol/messages.h"
#include "engine/store/object.h"

#include <sys/types.h>

struct engine;
struct caller;
struct tuning_watch;

/* The bytes of |object| are sent before byte |at| of the body, and are not copied into the body. */
struct segment {
    size_t at;
    struct object *object;
};

static inline size_t segments_size(const struct segment *segments, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += segments[i].object->size;
    return size;
}

/* Members are borrowed for the call. A transport that sends later takes references to the
 * objects. */
struct reply {
    enum message_type type;
    uint64_t request_id;
    uint16_t flags;
    struct bytes body; /* without the bytes of the segments */
    const struct segment *segments;
    size_t segment_count;
    struct object *const *objects; /* the frame's descriptors, in order */
    size_t object_count;
};

struct request {
    struct caller *caller;
    const struct frame_header *header;
    struct bytes body;
};

struct caller_ops {
    /* Sends a reply. Must not call service_leave(). After a failure, the transport calls
     * service_leave() later. */
    void (*reply)(struct caller *caller, const struct reply *reply);
};

/* One connection, or one in-process client. The transport embeds it and sets the members before
 * |unanswered|. */
struct caller {
    const struct caller_ops *ops;
    uid_t uid;
    gid_t gid;
    pid_t pid;
    enum role role;
    /* |uid| may stand for several users (the overflow uid), who share one user's limits. The
     * engine stores nothing private for this uid, because each of these users could read it. */
    bool is_anonymous;
    /* Owned by the transport. To take a descriptor, a handler replaces it by -1. */
    int files[LIMIT_REQUEST_FILES];
    unsigned file_count;
    /* The members from here on belong to the engine: zero them before service_join. */
    struct list unanswered; /* of struct deferred, the newest first */
    struct list compiles;   /* of struct client_compile; the compiles that this connection may do */
    unsigned in_flight;
    bool greeted;
    uint64_t events_request;
    uint16_t version;
    uint64_t capabilities;
    struct list_link subscribed;
    struct tuning_watch *watch; /* borrowed; NULL: the client did not ask for the counter */
};

void service_join(struct engine *engine, struct caller *caller);
/* Cancels unanswered requests, and drops queued work that no other caller needs. */
void service_leave(struct engine *engine, struct caller *caller);

/* Returns KILN_OK even if the request is refused. The only failure is KILN_INVALID before hello:
 * the transport should then close the connection after the reply. */
KILN_MUST_CHECK enum kiln_code service_handle(struct engine *engine, struct caller *caller,
                                              const struct frame_header *header, struct bytes body,
                                              struct kiln_err *err);

/* service_event sends |event| to all subscribers, and takes ownership of |event|. Create an event
 * only if service_has_listeners returns true. */
bool service_has_listeners(const struct engine *engine);
void service_event(struct engine *engine, struct json *event);
