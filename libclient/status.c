/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "libclient/client.h"
#include "libclient/connection/substitute.h"
#include "libclient/sized.h"

#include <stdio.h>
#include <string.h>

#define PING_PAYLOAD 8

static enum kiln_code accept_pong(struct request *request, const struct reply *reply,
                                  struct failure *failure)
{
    struct bytes sent = bytes_of(request->context, PING_PAYLOAD);
    struct reader r = reader_of(reply->body);
    struct message_pong pong = message_pong_read(&r);
    if (reply->header->type != MESSAGE_pong || r.failed || !bytes_equal(pong.payload, sent))
        return kiln_fail(&failure->err, KILN_CORRUPT, "kilnd's answer to ping is not a pong");
    return KILN_OK;
}

static enum kiln_code send_ping(struct kiln_client *client, uint64_t deadline_ns, uint64_t *ret_ns,
                                struct failure *failure)
{
    uint8_t storage[64];
    struct buffer frame;
    uint64_t begin = clock_monotonic_ns();
    client_frame_init_in(&frame, storage, sizeof(storage));
    message_ping_write(&frame, &(struct message_ping){ .payload = bytes_of(&begin, PING_PAYLOAD) });
    WAITER_AUTO struct waiter waiter;
    waiter_init(&waiter);
    struct request rq = { .type = MESSAGE_ping,
                          .frame = &frame,
                          .waiter = &waiter,
                          .accept = accept_pong,
                          .context = &begin };
    enum kiln_code rc = multiplexer_call(client->multiplexer, &rq, deadline_ns);
    *failure = rq.failure;
    if (!rc && ret_ns)
        *ret_ns = clock_monotonic_ns() - begin;
    return rc;
}

int kiln_client_ping(struct kiln_client *client, int timeout_ms, uint64_t *ret_ns,
                     struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    uint64_t deadline_ns;
    enum kiln_code rc = client_enter(client, timeout_ms, &deadline_ns, &f.err);
    if (!rc)
        rc = send_ping(client, deadline_ns, ret_ns, &f);
    return failure_return(&f, rc, err);
}

static void fill_status(struct kiln_client *client, struct kiln_status *s)
{
    struct multiplexer_status x;
    multiplexer_status(client->multiplexer, &x);
    char why_substitute[sizeof(s->reason)];
    bool has_substitute =
        x.answered && fallback_serves(client->fallback, why_substitute, sizeof(why_substitute));
    s->level = !x.answered      ? KILN_LEVEL_NONE
               : has_substitute ? substitute.level
                                : KILN_LEVEL_DAEMON;
    snprintf(s->socket_path, sizeof(s->socket_path), "%s", client->socket_path);
    snprintf(s->daemon, sizeof(s->daemon), "%s", x.handshake.software);
    s->daemon_pid = (int)x.handshake.pid;
    s->role = (int)x.handshake.role;
    const char *silent = x.requests ? "kilnd has not answered any request yet"
                                    : "this client has sent no request yet";
    const char *why_none = x.reason[0] ? x.reason : silent;
    snprintf(s->reason, sizeof(s->reason), "%s",
             has_substitute ? why_substitute
             : x.answered   ? ""
                            : why_none);
    s->requests = x.requests;
    s->reconnects = x.reconnects;
    s->cache_hits = answer_cache_hits(client->cache);
    s->cache_entries = answer_cache_count(client->cache);
}

int kiln_client_status(struct kiln_client *client, struct kiln_status *ret_status,
                       struct kiln_error *err)
{
    struct kiln_err e = KILN_ERR_INIT;
    uint64_t unused;
    enum kiln_code rc = client_enter(client, 0, &unused, &e);
    if (rc)
        return error_return(&e, rc, err);
    if (!ret_status ||
        !sized_is_fine(ret_status->size, SIZED_TO(struct kiln_status, cache_entries)))
        return error_argument(err, "kiln_status.size is not set: give it sizeof the struct");
    struct kiln_status full = { .size = ret_status->size };
    fill_status(client, &full);
    memcpy(ret_status, &full, full.size < sizeof(full) ? full.size : sizeof(full));
    return KILN_E_OK;
}
