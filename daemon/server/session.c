/* SPDX-License-Identifier: MIT */
#include "daemon/server/session.h"

#include "common/base/clock.h"
#include "common/log/log.h"
#include "daemon/server/server.h"
#include "engine/jobs/executor.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static struct session *session_of(struct caller *caller)
{
    return LOOP_OWNER_OF(struct session, caller, caller);
}

static bool may_read(const struct session *s)
{
    return s->end == END_NOT && !s->draining && !s->is_barred &&
           s->outbox.bytes <= s->server->limits.pause_bytes;
}

static void await_turn(struct session *s, unsigned events)
{
    s->events |= events;
    if (!s->turn.item.user)
        loop_queue_add(s->server->loop, &s->turn);
}

static void update_watch(struct session *s)
{
    unsigned events = may_read(s) ? WATCH_READ : 0;
    if (events && inbox_kept(&s->inbox).size > 0)
        await_turn(s, WATCH_READ);
    if (!outbox_is_empty(&s->outbox) && !s->outbox.starved)
        events |= WATCH_WRITE;
    loop_watch_set(&s->watch, events);
}

static void end_session(struct session *s, enum session_end end)
{
    if (s->end != END_NOT && s->end != END_ANSWERED)
        return;
    s->end = end;
    if (end == END_PROTOCOL || end == END_ANSWERED)
        s->server->counts.protocol_errors++;
    else if (end == END_SLOW)
        s->server->counts.slow_peers_closed++;
    server_reap_soon(s->server);
}

static void after_send(struct session *s, enum kiln_code rc, const struct kiln_err *err)
{
    if (rc) {
        log_debug("closing the connection of pid %d: %s", (int)s->caller.pid, err->text);
        end_session(s, rc == KILN_FULL ? END_SLOW : END_GONE);
    }
    if (s->outbox.starved)
        server_retry_soon(s->server);
    if (s->outbox.progressed) {
        s->outbox.progressed = false;
        s->moved_ms = loop_now_ms(s->server->loop);
    }
    if (s->draining || s->end == END_ANSWERED)
        server_reap_soon(s->server);
    update_watch(s);
}

static void send_reply(struct caller *caller, const struct reply *r)
{
    struct session *s = session_of(caller);
    if (s->end != END_NOT && s->end != END_ANSWERED)
        return;
    struct kiln_err err;
    kiln_err_init(&err);
    bool was_empty = outbox_is_empty(&s->outbox);
    const struct outgoing frame = {
        .header = { .version = caller->version ? caller->version : FRAME_VERSION,
                    .type = (uint16_t)r->type,
                    .request_id = r->request_id,
                    .body_size =
                        (uint32_t)(r->body.size + segments_size(r->segments, r->segment_count)),
                    .descriptors = (uint16_t)r->object_count,
                    .flags = (uint16_t)(r->flags | (s->draining ? FRAME_STOPPING : 0)) },
        .body = r->body,
        .segments = r->segments,
        .segment_count = r->segment_count,
        .objects = r->objects,
        .object_count = r->object_count,
    };
    enum kiln_code rc = outbox_send(&s->outbox, s->fd, &frame, s->hold, &err);
    if (was_empty)
        s->moved_ms = loop_now_ms(s->server->loop);
    if (rc || !s->hold || s->outbox.starved)
        after_send(s, rc, &err);
}

static const struct caller_ops caller_ops = { .reply = send_reply };

static void refuse_stream(struct session *s, uint64_t request_id, const struct kiln_err *why)
{
    uint8_t raw[1024];
    struct buffer body = { .data = raw, .capacity = sizeof(raw), .limit = sizeof(raw) };
    const struct message_error error = { .code = (uint16_t)why->code,
                                         .text = bytes_of_text(why->text) };
    message_error_write(&body, &error);
    const struct reply last = { .type = MESSAGE_error,
                                .request_id = request_id,
                                .body = buffer_view(&body) };
    log_debug("refusing pid %d: %s", (int)s->caller.pid, why->text);
    send_reply(&s->caller, &last);
    end_session(s, END_ANSWERED);
}

static enum kiln_code handle_with_files(struct session *s, const struct frame_header *header,
                                        struct bytes body, struct kiln_err *err)
{
    struct caller *caller = &s->caller;
    for (unsigned i = 0; i < header->descriptors; i++)
        caller->files[i] = s->files.fds[i];
    caller->file_count = header->descriptors;
    if (header->descriptors > 0)
        request_files_clear(&s->files);
    enum kiln_code rc = service_handle(s->server->engine, caller, header, body, err);
    for (unsigned i = 0; i < caller->file_count; i++) {
        if (caller->files[i] >= 0)
            closer_take(s->closer, caller->uid, caller->files[i]);
    }
    caller->file_count = 0;
    return rc;
}

static void handle_frame(struct session *s, const struct frame_header *header, struct bytes body)
{
    struct kiln_err err;
    kiln_err_init(&err);
    if (header->descriptors > 0 && !request_files_are(&s->files, header->descriptors)) {
        kiln_fail(
            &err, KILN_INVALID,
            "request '%s' announces %u descriptors, but %u%s arrived (at most %u are allowed)",
            message_name(header->type), header->descriptors, s->files.count,
            s->files.is_cut ? " and more" : "", LIMIT_REQUEST_FILES);
        refuse_stream(s, header->request_id, &err);
        return;
    }
    if (handle_with_files(s, header, body, &err) != KILN_OK)
        end_session(s, END_ANSWERED);
}

static void drop_strays(struct session *s)
{
    bool expected =
        (inbox_is_partial(&s->inbox) || inbox_kept(&s->inbox).size > 0) && s->end == END_NOT;
    if ((s->files.count == 0 && !s->files.is_cut) || expected)
        return;
    request_files_drop(&s->files);
    s->server->counts.protocol_errors++;
}

static void keep_rest(struct session *s, struct bytes received)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (s->end != END_NOT)
        received.size = 0;
    if (inbox_keep(&s->inbox, received, &err))
        refuse_stream(s, /* request_id= */ 0, &err);
}

/* Handles complete frames for one time slice.  The inbox keeps the other complete frames and the
 * beginning of an incomplete one. */
static void handle_frames(struct session *s, struct bytes received)
{
    const uint64_t end_ns = clock_monotonic_ns() + TASK_SLICE_NS;
    while (s->end == END_NOT) {
        struct kiln_err err;
        struct frame_header header = { 0 };
        struct bytes body;
        kiln_err_init(&err);
        enum kiln_code rc = inbox_next(&s->inbox, &received, &header, &body, &err);
        if (rc == KILN_NOT_FOUND)
            break;
        if (rc) {
            refuse_stream(s, header.request_id, &err);
            break;
        }
        s->hold = s->hold || received.size >= FRAME_HEADER_SIZE;
        handle_frame(s, &header, body);
        if (received.size > 0 && clock_monotonic_ns() > end_ns)
            break;
    }
    keep_rest(s, received);
    if (!s->hold)
        return;
    s->hold = false;
    struct kiln_err err = KILN_ERR_INIT;
    after_send(s, outbox_flush(&s->outbox, s->fd, &err), &err);
}

static void note_partial(struct session *s, bool was_partial, bool had_frames)
{
    if (inbox_is_partial(&s->inbox) && (!was_partial || had_frames))
        s->frame_ms = loop_now_ms(s->server->loop);
}

static ssize_t receive_bytes(struct session *s, struct iovec *iov, int count)
{
    struct msghdr m = { .msg_iov = iov, .msg_iovlen = (size_t)count };
    struct request_files_buffer control;
    ssize_t got;
    do {
        request_files_expect(&control, &m);
        got = recvmsg(s->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got >= 0 && !request_files_received(&s->files, &m))
        s->server->counts.protocol_errors++;
    return got;
}

/* Returns false if too many of the user's files wait to be closed.  Closing usually takes
 * microseconds, so the session retries soon.  Ending the session would also disturb the user's
 * other jobs. */
static bool may_receive_files(struct session *s)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum closer_state state = closer_check(s->closer, s->caller.uid, s->server->limits.full_ms);
    if (state == CLOSER_HAS_SPACE)
        return true;
    if (state == CLOSER_IS_STUCK) {
        closer_refuse(s->caller.uid, &err);
        refuse_stream(s, /* request_id= */ 0, &err);
        return false;
    }
    s->is_barred = true;
    update_watch(s);
    server_retry_soon(s->server);
    return false;
}

static bool receive_some(struct session *s, struct bytes *ret_received)
{
    if (!may_receive_files(s))
        return false;
    struct bytes scratch = bytes_of(s->server->scratch, sizeof(s->server->scratch));
    struct iovec iov[2];
    int count = inbox_buffers(&s->inbox, scratch, iov);
    ssize_t got = receive_bytes(s, iov, count);
    if (got < 0 && errno == EAGAIN)
        return false;
    if (got <= 0) {
        end_session(s, END_GONE);
        update_watch(s);
        return false;
    }
    *ret_received = inbox_received(&s->inbox, scratch, (size_t)got);
    return true;
}

/* Reads at most once in a time slice, so that a peer with very many requests does not delay other
 * peers.  Requests that the previous slice received but did not handle come first. */
static void read_requests(struct session *s)
{
    bool was_partial = inbox_is_partial(&s->inbox);
    struct bytes received = inbox_kept(&s->inbox);
    if (received.size == 0 && !receive_some(s, &received))
        return;
    size_t owed = s->inbox.wanted - s->inbox.size;
    handle_frames(s, received);
    drop_strays(s);
    note_partial(s, was_partial, received.size > owed || owed == 0);
    update_watch(s);
}

static void take_turn(struct task *turn)
{
    struct session *s = LOOP_OWNER_OF(struct session, turn, turn);
    unsigned events = s->events;
    s->events = 0;
    if ((events & WATCH_WRITE) && !outbox_is_empty(&s->outbox))
        session_retry(s);
    if ((events & WATCH_READ) && may_read(s))
        read_requests(s);
}

static void on_ready(struct loop_watch *watch, unsigned events)
{
    struct session *s = LOOP_OWNER_OF(struct session, watch, watch);
    if (events & WATCH_BROKEN)
        end_session(s, END_GONE);
    else
        await_turn(s, events);
}

void session_retry(struct session *s)
{
    struct kiln_err err = KILN_ERR_INIT;
    s->is_barred = false;
    if (!outbox_is_empty(&s->outbox))
        after_send(s, outbox_flush(&s->outbox, s->fd, &err), &err);
    update_watch(s);
}

void session_drain(struct session *s)
{
    s->draining = true;
    update_watch(s);
}

bool session_is_idle(const struct session *s)
{
    return outbox_is_empty(&s->outbox) && (s->caller.in_flight == 0 || s->end == END_ANSWERED);
}

static const char *why_slow(const struct session *s, uint64_t now_ms)
{
    const struct server_limits *limits = &s->server->limits;
    if (!outbox_is_empty(&s->outbox) && now_ms - s->moved_ms > limits->stuck_ms)
        return "does not read its replies";
    if (inbox_is_partial(&s->inbox) && now_ms - s->frame_ms > limits->frame_ms)
        return "does not finish its request";
    if (!s->caller.greeted && now_ms - s->joined_ms > limits->hello_ms)
        return "sent no hello message";
    return NULL;
}

void session_check_time(struct session *s, uint64_t now_ms)
{
    const char *why = why_slow(s, now_ms);
    if (!why)
        return;
    const uint32_t uid = (uint32_t)s->caller.uid;
    const struct log_fields fields = { .uid = &uid };
    log_event(LOG_EVENT_client_slow, &fields, "closing the connection of pid %d, uid %u: it %s",
              (int)s->caller.pid, (unsigned)s->caller.uid, why);
    end_session(s, END_SLOW);
}

static void on_gone(struct loop_owner *owner)
{
    struct session *s = LOOP_OWNER_OF(struct session, owner, owner);
    closer_take_socket(s->closer, s->caller.uid, s->fd);
    closer_leave(s->closer, s->caller.uid);
    free(s);
}

static enum kiln_code connect_session(struct session *s, uid_t uid, struct kiln_err *err)
{
    struct server *server = s->server;
    s->account = account_join(&server->accounts, uid);
    if (!s->account)
        return kiln_fail(
            err, KILN_BUSY,
            "user %u has %u connections to kilnd, which is the limit (setting connections_per_uid)",
            (unsigned)uid, server->limits.connections_per_uid);
    enum kiln_code rc = closer_join(server->closer, uid, err);
    if (!rc) {
        rc = loop_watch_init(server->loop, &s->watch, &s->owner, s->fd, err);
        if (!rc)
            return KILN_OK;
        closer_leave(server->closer, uid);
    }
    account_leave(s->account);
    return rc;
}

enum kiln_code session_open(struct server *server, int fd, const struct peer *peer,
                            struct session **ret_session, struct kiln_err *err)
{
    KILN_AUTO(mem) struct session *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for another connection");
    *s = (struct session){ .server = server,
                           .closer = server->closer,
                           .fd = fd,
                           .watch.ready = on_ready,
                           .owner.gone = on_gone,
                           .turn = { .done = take_turn, .uid = peer->uid } };
    request_files_init(&s->files, server->closer, peer->uid);
    s->caller = (struct caller){ .ops = &caller_ops,
                                 .uid = peer->uid,
                                 .gid = peer->gid,
                                 .pid = peer->pid,
                                 .role = peer->role,
                                 .is_anonymous = peer->is_anonymous };
    enum kiln_code rc = connect_session(s, peer->uid, err);
    if (rc)
        return rc;
    inbox_init(&s->inbox, s->account);
    outbox_init(&s->outbox, s->account, server->limits.bytes_per_session);
    s->joined_ms = loop_now_ms(server->loop);
    service_join(server->engine, &s->caller);
    update_watch(s);
    *ret_session = KILN_TAKE(s);
    return KILN_OK;
}

void session_close(struct session *s)
{
    loop_queue_cancel(s->server->loop, &s->turn);
    service_leave(s->server->engine, &s->caller);
    inbox_done(&s->inbox);
    request_files_drop(&s->files);
    outbox_done(&s->outbox);
    account_leave(s->account);
    s->account = NULL;
    loop_watch_close(&s->watch);
}
