/* SPDX-License-Identifier: MIT */
#include "engine/service/internal.h"
#include "engine/service/kernels/built_in.h"
#include "engine/service/metrics/request_metrics.h"
#include "engine/service/requests/client_compiles.h"
#include "engine/service/requests/leases.h"
#include "engine/service/tuning/tuning_watch.h"

#include <stdio.h>

enum needed_role { USE, ADMIN };
enum body { BINARY, JSON, BINARY_FILES, JSON_FILES };

/* Returns true for requests that are accepted even if the connection has reached its limit of
 * unanswered requests. */
static bool is_answered_at_once(unsigned type)
{
    return type == MESSAGE_hello || type == MESSAGE_ping || type == MESSAGE_cancel ||
           type == MESSAGE_events;
}

/* Returns whether a request acts on per-user data. Such a request is refused for the unmapped uid,
 * which may stand for several users. */
static bool needs_own_uid(unsigned type)
{
    return type == MESSAGE_kernel_import || type == MESSAGE_tuning_put ||
           type == MESSAGE_tuning_lease || type == MESSAGE_tuning_report ||
           type == MESSAGE_tuning_import || type == MESSAGE_tuning_merge ||
           type == MESSAGE_tuning_remove || type == MESSAGE_tuning_watch ||
           type == MESSAGE_compile_begin || type == MESSAGE_compile_end;
}

static const struct route {
    const char *name;
    enum needed_role role;
    enum body body;
    enum kiln_code (*handle)(struct engine *, struct caller *, const struct frame_header *,
                             struct bytes, struct kiln_err *);
} routes[] = {
#define KILN_REQUEST(name_, number, role_, body_, purpose) \
    [number] = { .name = #name_, .role = role_, .body = body_, .handle = handle_##name_ },
#define KILN_REPLY(name, number, body, purpose)
#include "common/protocol/messages.def"
#undef KILN_REQUEST
#undef KILN_REPLY
};

void service_join(struct engine *e, struct caller *caller)
{
    list_init(&caller->unanswered);
    list_init(&caller->compiles);
    e->callers++;
}

void service_leave(struct engine *e, struct caller *caller)
{
    while (!list_is_empty(&caller->unanswered)) {
        struct deferred *d = LIST_FIRST(&caller->unanswered, struct deferred, link);
        d->code = KILN_CANCELLED;
        deferred_cancel(d);
    }
    list_remove(&caller->subscribed);
    e->callers--;
    leases_leave(e, caller);
    tuning_watches_leave(e, caller);
    client_compiles_leave(e, caller);
}

void service_refuse(struct engine *e, struct caller *caller, uint64_t request_id,
                    const struct kiln_err *why, const char *log)
{
    e->stats.refused++;
    request_refused(&e->metrics, caller, request_id, why->code);
    const char *text = why->text[0] ? why->text : kiln_code_text(why->code);
    struct message_error m = {
        .code = (uint16_t)why->code,
        .text = bytes_of_text(text),
        .log = bytes_of_text(log),
    };
    buffer_clear(&e->body);
    message_error_write(&e->body, &m);
    struct reply reply = {
        .type = MESSAGE_error,
        .request_id = request_id,
        /* If memory ran out, this is only a part of the message, which the client refuses. */
        .body = buffer_view(&e->body),
    };
    caller->ops->reply(caller, &reply);
}

void service_refuse_unbuilt(struct engine *e, struct caller *caller, uint64_t request_id)
{
    const struct kiln_err why = { .code = KILN_NO_MEMORY, .text = "cannot build the answer" };
    service_refuse(e, caller, request_id, &why, NULL);
}

void service_reply_body(struct engine *e, struct caller *caller, uint16_t type, uint64_t request_id)
{
    const struct reply reply = { .type = type,
                                 .request_id = request_id,
                                 .body = buffer_view(&e->body) };
    if (e->body.failed)
        service_refuse_unbuilt(e, caller, request_id);
    else
        caller->ops->reply(caller, &reply);
}

/* Returns the command that sends the request. Error messages name the command, because users do not
 * know requests. */
static const char *command_of(unsigned type)
{
    static const char *const commands[] = {
        [MESSAGE_package_install] = "kilnctl pkg install",
        [MESSAGE_package_verify] = "kilnctl pkg verify",
        [MESSAGE_package_remove] = "kilnctl pkg rm",
        [MESSAGE_kernel_pin] = "kilnctl kernel pin",
        [MESSAGE_kernel_promote] = "kilnctl kernel promote",
        [MESSAGE_gc] = "kilnctl gc",
        [MESSAGE_fleet_export] = "kilnctl fleet push",
        [MESSAGE_fleet_keys] = "kilnctl fleet revoke",
        [MESSAGE_fleet_pull] = "kilnctl fleet pull",
        [MESSAGE_fleet_tuning_export] = "kilnctl fleet push",
        [MESSAGE_kernel_import] = "kilnctl kernel import",
        [MESSAGE_tuning_import] = "kilnctl db import",
        [MESSAGE_tuning_merge] = "kilnctl db merge",
        [MESSAGE_tuning_remove] = "kilnctl db rm",
        [MESSAGE_tuning_promote] = "kilnctl db promote",
        [MESSAGE_tuning_vacuum] = "kilnctl db vacuum",
        [MESSAGE_tuning_backup] = "kilnctl db backup",
    };
    bool known = type < sizeof(commands) / sizeof(commands[0]) && commands[type];
    return known ? commands[type] : message_name(type);
}

static enum kiln_code check_request(struct caller *caller, const struct route *route,
                                    const struct frame_header *header, struct kiln_err *err)
{
    if (!route)
        return kiln_fail(err, KILN_INVALID, "unknown request type %u", (unsigned)header->type);
    if (route->role == ADMIN && caller->role != ROLE_ADMIN)
        return kiln_fail(err, KILN_DENIED, "'%s' needs an administrator: %s",
                         command_of(header->type), ADMINISTRATORS);
    if (caller->is_anonymous && needs_own_uid(header->type))
        return kiln_fail(
            err, KILN_DENIED,
            "'%s' acts on per-user data, which the unmapped uid %u does not have: kilnd sees this "
            "uid for every user that its user namespace does not map. Ask as a user of this host",
            command_of(header->type), (unsigned)caller->uid);
    if (caller->file_count > 0 && route->body < BINARY_FILES)
        return kiln_fail(err, KILN_INVALID, "request '%s' takes no descriptors", route->name);
    if (caller->in_flight >= LIMIT_REQUESTS_IN_FLIGHT && !is_answered_at_once(header->type))
        return kiln_fail(
            err, KILN_BUSY,
            "this connection has %u unanswered requests, which is the maximum: wait for an answer",
            caller->in_flight);
    return KILN_OK;
}

static const struct route *route_of(unsigned type)
{
    bool known = type < sizeof(routes) / sizeof(routes[0]) && routes[type].handle;
    return known ? &routes[type] : NULL;
}

static enum kiln_code handle_request(struct engine *e, struct caller *caller,
                                     const struct frame_header *header, struct bytes body,
                                     struct kiln_err *err)
{
    const struct route *route = route_of(header->type);
    request_begins(&e->metrics, caller, header->request_id, route ? header->type : 0);
    if (!caller->greeted && header->type != MESSAGE_hello)
        return kiln_fail(err, KILN_INVALID, "the first request of a connection must be hello");
    enum kiln_code rc = check_request(caller, route, header, err);
    if (!rc)
        rc = built_in_check_request(e, header->type, command_of(header->type), err);
    return rc ? rc : route->handle(e, caller, header, body, err);
}

enum kiln_code service_handle(struct engine *e, struct caller *caller,
                              const struct frame_header *header, struct bytes body,
                              struct kiln_err *err)
{
    e->stats.requests++;
    struct kiln_err why;
    kiln_err_init(&why);
    enum kiln_code rc = handle_request(e, caller, header, body, &why);
    if (rc) {
        why.code = rc;
        service_refuse(e, caller, header->request_id, &why, NULL);
    }
    request_returns(&e->metrics);
    if (!rc || caller->greeted)
        return KILN_OK;
    *err = why;
    return KILN_INVALID;
}

static void send_welcome(struct engine *e, struct caller *caller, uint64_t request_id)
{
    struct message_welcome m = {
        .version = caller->version,
        .capabilities = CAPABILITIES_HERE,
        .instance = e->instance,
        .pid = (uint32_t)getpid(),
        .role = (uint8_t)caller->role,
        .max_body = LIMIT_FRAME_BODY,
        .max_in_flight = LIMIT_REQUESTS_IN_FLIGHT,
        .software = bytes_of_text("kilnd " KILN_VERSION),
    };
    buffer_clear(&e->body);
    message_welcome_write(&e->body, &m);
    service_reply_body(e, caller, MESSAGE_welcome, request_id);
}

enum kiln_code handle_hello(struct engine *e, struct caller *caller,
                            const struct frame_header *header, struct bytes body,
                            struct kiln_err *err)
{
    struct reader r = reader_of(body);
    struct message_hello m = message_hello_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_hello, err);
    if (rc)
        return rc;
    if (caller->greeted)
        return kiln_fail(err, KILN_INVALID, "this connection has sent hello already");
    uint16_t version = m.newest_version < FRAME_VERSION ? m.newest_version : FRAME_VERSION;
    if (version < m.oldest_version || version < FRAME_VERSION_OLDEST)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "the client speaks protocol versions %u to %u, this kilnd %u to %u: "
                         "upgrade the older one",
                         (unsigned)m.oldest_version, (unsigned)m.newest_version,
                         FRAME_VERSION_OLDEST, FRAME_VERSION);
    caller->greeted = true;
    caller->version = version;
    caller->capabilities = m.capabilities & CAPABILITIES_HERE;
    send_welcome(e, caller, header->request_id);
    return KILN_OK;
}

#define PING_MAX 4096

enum kiln_code handle_ping(struct engine *e, struct caller *caller,
                           const struct frame_header *header, struct bytes body,
                           struct kiln_err *err)
{
    struct reader r = reader_of(body);
    struct message_ping m = message_ping_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_ping, err);
    if (rc)
        return rc;
    if (m.payload.size > PING_MAX)
        return kiln_fail(err, KILN_INVALID, "ping of %zu bytes exceeds the limit of %d",
                         m.payload.size, PING_MAX);
    (void)e;
    struct reply reply = { .type = MESSAGE_pong, .request_id = header->request_id, .body = body };
    caller->ops->reply(caller, &reply);
    return KILN_OK;
}

enum kiln_code handle_cancel(struct engine *e, struct caller *caller,
                             const struct frame_header *header, struct bytes body,
                             struct kiln_err *err)
{
    (void)header;
    struct reader r = reader_of(body);
    struct message_cancel m = message_cancel_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_cancel, err);
    if (rc)
        return rc;
    LIST_EACH (&caller->unanswered, struct deferred, link, d) {
        if (d->request_id != m.cancelled_id)
            continue;
        struct kiln_err why = { .code = KILN_CANCELLED };
        deferred_cancel(d);
        service_refuse(e, caller, m.cancelled_id, &why, NULL);
        return KILN_OK;
    }
    client_compiles_cancel(e, caller, m.cancelled_id);
    return KILN_OK;
}
