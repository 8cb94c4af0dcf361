/* SPDX-License-Identifier: MIT */
#include "daemon/server/server.h"

#include "common/base/clock.h"
#include "common/log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define SWEEP_MS 1000
#define RETRY_MS 10
#define TURN_NS 500000u
#define ACCEPT_PAUSE_MS 2
/* Time between two attempts to accept while no descriptor is free, not even the spare one. */
#define STARVED_PAUSE_MS 100
/* One in ADMINS_SHARE connections, but at most ADMINS_MAX, is reserved for administrators, so that
 * other users cannot lock them out. */
#define ADMINS_SHARE 8u
#define ADMINS_MAX 16u

static void refuse_connection(struct server *server, int fd, uid_t uid, const struct kiln_err *why)
{
    uint8_t raw[FRAME_HEADER_SIZE + 1024];
    struct buffer body = { .data = raw + FRAME_HEADER_SIZE,
                           .capacity = sizeof(raw) - FRAME_HEADER_SIZE,
                           .limit = sizeof(raw) - FRAME_HEADER_SIZE };
    const struct message_error error = { .code = (uint16_t)why->code,
                                         .text = bytes_of_text(why->text) };
    message_error_write(&body, &error);
    const struct frame_header header = { .version = FRAME_VERSION,
                                         .type = MESSAGE_error,
                                         .body_size = (uint32_t)body.size };
    frame_header_write(raw, &header);
    ssize_t sent = send(fd, raw, FRAME_HEADER_SIZE + body.size, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent;
    closer_take_socket(server->closer, uid, fd);
    server->counts.connections_refused++;
    log_debug("%s", why->text);
}

static unsigned connections_for(const struct server *server, enum role role)
{
    unsigned all = server->limits.connections, kept = all / ADMINS_SHARE;
    return role == ROLE_ADMIN ? all : all - (kept < ADMINS_MAX ? kept : ADMINS_MAX);
}

static enum kiln_code open_connection(struct server *server, int fd, uid_t *ret_uid,
                                      struct kiln_err *err)
{
    struct peer peer;
    enum kiln_code rc = peer_of(fd, &server->groups, &server->overflow, &peer, err);
    if (rc)
        return rc;
    *ret_uid = peer.uid;
    if (server->own_user_only && peer.uid != geteuid())
        return kiln_fail(
            err, KILN_DENIED,
            "this kilnd is private to user %u: connect to the host's kilnd, or start your own",
            (unsigned)geteuid());
    if (closer_check(server->closer, peer.uid, server->limits.full_ms) == CLOSER_IS_STUCK)
        return closer_refuse(peer.uid, err);
    if (server->counts.clients >= connections_for(server, peer.role))
        return kiln_fail(
            err, KILN_BUSY, "kilnd has %u connections, which is the limit (setting connections)%s",
            server->counts.clients,
            peer.role == ROLE_ADMIN ? "" : ", minus those reserved for administrators");
    struct session *s;
    rc = session_open(server, fd, &peer, &s, err);
    if (rc)
        return rc;
    list_prepend(&server->sessions, &s->link);
    server->counts.clients++;
    return KILN_OK;
}

static void open_spare(struct server *server)
{
    if (server->spare_fd < 0)
        server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void pause_accepting(struct server *server, uint64_t pause_ms)
{
    loop_watch_set(&server->watch, 0);
    loop_timer_start(&server->accept_again, pause_ms, 0);
}

/* Accepts one connection with the spare descriptor, and refuses it.  If the connection stayed in
 * the socket's queue, it would wake the loop again and again. */
static void refuse_without_descriptors(struct server *server)
{
    struct kiln_err err = KILN_ERR_INIT;
    kiln_fail(&err, KILN_BUSY,
              "kilnd has no free descriptor for this connection: raise its limit of open files "
              "(LimitNOFILE=)");
    if (server->spare_fd >= 0)
        close(server->spare_fd);
    server->spare_fd = -1;
    int fd = accept4(server->listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        refuse_connection(server, fd, geteuid(), &err);
    else
        pause_accepting(server, STARVED_PAUSE_MS);
    open_spare(server);
    if (!server->starved_ms)
        server->starved_ms = loop_now_ms(server->loop);
    log_event(LOG_EVENT_descriptors_none, NULL, "%s", err.text);
}

static void take_connection(struct server *server, int fd)
{
    struct kiln_err err = KILN_ERR_INIT;
    uid_t uid = geteuid();
    if (open_connection(server, fd, &uid, &err) != KILN_OK)
        refuse_connection(server, fd, uid, &err);
}

/* Returns whether the client has already disconnected.  Without this check, clients that connect
 * and disconnect in a loop would delay other new connections: creating a session takes several
 * times longer than the check. */
static bool has_left(int fd)
{
    uint8_t first;
    return recv(fd, &first, sizeof(first), MSG_PEEK | MSG_DONTWAIT) == 0;
}

static bool accept_one(struct server *server)
{
    int fd = accept4(server->listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        refuse_without_descriptors(server);
    if (fd < 0)
        return false;
    open_spare(server);
    server->starved_ms = 0;
    if (has_left(fd))
        close(fd);
    else
        take_connection(server, fd);
    return true;
}

/* Accepts connections for a limited time, then pauses.  Without pauses, clients that connect and
 * disconnect in a loop would keep this thread always busy, and on a busy host the scheduler makes
 * such threads wait. */
static void on_accept(struct task *acceptor)
{
    struct server *server = LOOP_OWNER_OF(struct server, acceptor, acceptor);
    const uint64_t end_ns = clock_monotonic_ns() + TURN_NS;
    while (accept_one(server)) {
        if (clock_monotonic_ns() < end_ns)
            continue;
        pause_accepting(server, ACCEPT_PAUSE_MS);
        return;
    }
}

static void on_accept_again(struct loop_timer *timer)
{
    struct server *server = LOOP_OWNER_OF(struct server, accept_again, timer);
    loop_watch_set(&server->watch, WATCH_READ);
}

/* Queues the acceptor like a request, so that users who open many connections do not delay other
 * users' requests. */
static void on_connection(struct loop_watch *watch, unsigned events)
{
    (void)events;
    struct server *server = LOOP_OWNER_OF(struct server, watch, watch);
    if (!server->acceptor.item.user)
        loop_queue_add(server->loop, &server->acceptor);
}

static bool is_over(const struct session *s)
{
    if (s->end == END_ANSWERED || s->draining)
        return (s->end != END_NOT && s->end != END_ANSWERED) || session_is_idle(s);
    return s->end != END_NOT;
}

static void drop_session(struct server *server, struct session *s)
{
    list_remove(&s->link);
    server->counts.clients--;
    session_close(s);
    /* restart the time without a free descriptor: the session's descriptor may be free now */
    if (server->starved_ms)
        server->starved_ms = loop_now_ms(server->loop);
}

/* Closes sessions for a limited time, because a user may end thousands of them at once, each with
 * many waiting requests. */
static void on_reap(struct task *reaper)
{
    struct server *server = LOOP_OWNER_OF(struct server, reaper, reaper);
    const uint64_t end_ns = clock_monotonic_ns() + TURN_NS;
    LIST_EACH (&server->sessions, struct session, link, s) {
        if (!is_over(s))
            continue;
        drop_session(server, s);
        if (clock_monotonic_ns() < end_ns)
            continue;
        server_reap_soon(server);
        return;
    }
}

void server_reap_soon(struct server *server)
{
    if (!server->reaper.item.user)
        loop_queue_add(server->loop, &server->reaper);
}

void server_check_times(struct server *server, uint64_t now_ms)
{
    LIST_EACH (&server->sessions, struct session, link, s)
        session_check_time(s, now_ms);
    if (server->draining)
        server_reap_soon(server);
}

/* Notices that a descriptor is free again.  Otherwise kilnd would only notice it at the next
 * connection, which may never come. */
static void end_starvation(struct server *server)
{
    if (!server->starved_ms)
        return;
    open_spare(server);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    close(fd);
    server->starved_ms = 0;
}

uint64_t server_starved_ms(const struct server *server, uint64_t now_ms)
{
    return server->starved_ms && server_is_empty(server) ? now_ms - server->starved_ms : 0;
}

static void on_sweep(struct loop_timer *timer)
{
    struct server *server = LOOP_OWNER_OF(struct server, sweep, timer);
    server_check_times(server, loop_now_ms(server->loop));
    end_starvation(server);
}

static void on_retry(struct loop_timer *timer)
{
    struct server *server = LOOP_OWNER_OF(struct server, retry, timer);
    LIST_EACH (&server->sessions, struct session, link, s) {
        if (s->outbox.starved || s->is_barred)
            session_retry(s);
    }
}

void server_retry_soon(struct server *server)
{
    if (!loop_timer_is_running(&server->retry))
        loop_timer_start(&server->retry, RETRY_MS, 0);
}

static void on_closed(struct loop_owner *owner)
{
    struct server *server = LOOP_OWNER_OF(struct server, owner, owner);
    void (*closed)(void *) = server->closed;
    void *context = server->context;
    if (server->spare_fd >= 0)
        close(server->spare_fd);
    free(server);
    if (closed)
        closed(context);
}

static enum kiln_code init_groups(struct server *server, const struct server_options *options,
                                  struct kiln_err *err)
{
    const struct peer_groups nobody = { .admin = PEER_NO_GROUP, .publish = PEER_NO_GROUP };
    const struct peer_overflow none = { .uid = (uid_t)-1, .gid = PEER_NO_GROUP };
    server->groups = nobody;
    server->overflow = none;
    if (options->own_user_only)
        return KILN_OK;
    server->overflow = peer_overflow();
    return peer_groups_find(options->publish_group, &server->groups, err);
}

static enum kiln_code listen_on(struct server *server, struct listener *listener,
                                struct kiln_err *err)
{
    server->watch.ready = on_connection;
    enum kiln_code rc =
        loop_watch_init(server->loop, &server->watch, &server->owner, listener->fd, err);
    if (rc)
        return kiln_while(err, "listening on '%s'", listener->path);
    server->listener = listener;
    open_spare(server);
    loop_watch_set(&server->watch, WATCH_READ);
    return KILN_OK;
}

enum kiln_code server_create(const struct server_options *options, struct server **ret_server,
                             struct kiln_err *err)
{
    struct loop *loop = options->loop;
    const struct server_limits *limits = options->limits;
    KILN_AUTO(mem) struct server *server = calloc(1, sizeof(*server));
    if (!server)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the server");
    server->loop = loop;
    server->acceptor = (struct task){ .done = on_accept, .uid = geteuid() };
    server->reaper = (struct task){ .done = on_reap, .uid = geteuid() };
    server->engine = options->engine;
    server->closer = options->closer;
    server->spare_fd = -1;
    server->limits = *limits;
    const struct account_limits of_accounts = { .connections_uid = limits->connections_per_uid,
                                                .bytes_uid = limits->bytes_per_uid,
                                                .bytes = limits->bytes };
    accounts_init(&server->accounts, &of_accounts);
    list_init(&server->sessions);
    server->own_user_only = options->own_user_only;
    server->owner.gone = on_closed;
    enum kiln_code rc = init_groups(server, options, err);
    if (!rc)
        rc = listen_on(server, options->listener, err);
    if (rc)
        return rc;
    loop_timer_init(loop, &server->accept_again, &server->owner, on_accept_again);
    loop_timer_init(loop, &server->sweep, &server->owner, on_sweep);
    loop_timer_init(loop, &server->retry, &server->owner, on_retry);
    loop_timer_start(&server->sweep, SWEEP_MS, SWEEP_MS);
    *ret_server = KILN_TAKE(server);
    return KILN_OK;
}

void server_set_limits(struct server *server, unsigned connections, unsigned connections_per_uid)
{
    server->limits.connections = connections;
    server->limits.connections_per_uid = connections_per_uid;
    server->accounts.limits.connections_uid = connections_per_uid;
}

void server_set_groups(struct server *server, const struct peer_groups *groups)
{
    server->groups = *groups;
}

void server_drain(struct server *server)
{
    server->draining = true;
    loop_watch_close(&server->watch);
    loop_queue_cancel(server->loop, &server->acceptor);
    server->listener = NULL;
    LIST_EACH (&server->sessions, struct session, link, s)
        session_drain(s);
    server_reap_soon(server);
}

bool server_is_empty(const struct server *server) { return list_is_empty(&server->sessions); }

void server_drop_sessions(struct server *server)
{
    LIST_EACH (&server->sessions, struct session, link, s)
        drop_session(server, s);
}

void server_close(struct server *server, void (*closed)(void *context), void *context)
{
    server->closed = closed;
    server->context = context;
    loop_watch_close(&server->watch);
    loop_timer_close(&server->accept_again);
    loop_timer_close(&server->sweep);
    loop_queue_cancel(server->loop, &server->acceptor);
    loop_queue_cancel(server->loop, &server->reaper);
    loop_timer_close(&server->retry);
}

struct server_counts server_counts(const struct server *server) { return server->counts; }

size_t server_bytes(const struct server *server) { return server->accounts.bytes; }
