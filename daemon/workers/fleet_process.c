/* SPDX-License-Identifier: MIT */
#include "daemon/workers/fleet_process.h"

#include "common/log/log.h"
#include "engine/transfer/fleet_wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How often kilnd checks whether requests are slow (beyond their budget) or hang. */
#define TICK_MS 10u
/* A process that has not answered for this time counts as hanging.  The time is longer than the
 * process's own time limit for a request. */
#define HANG_MS (FLEET_ACCESS_MAX_MS + 5000u)
/* Maximum number of processes at a time.  A process that waits for a hanging filesystem cannot be
 * killed, and each one that replaces it may hang, too. */
#define CHILDREN_MAX 4u

struct fleet_child {
    struct fleet_process *parent;
    struct loop_owner owner;
    struct worker_process process;
    struct loop_watch watch;
    int socket; /* owned; -1: closed */
    bool is_ending;
};

struct fleet_process {
    struct fleet_process_options options;
    char *program, *service, *url; /* owned */
    char user[32];
    struct loop_owner owner;
    struct loop_timer timer;
    struct fleet_child *child; /* NULL: none runs */
    /* Lists of struct fleet_access, the oldest first. */
    /* requests that wait for space in the socket, which holds about 200 of them */
    struct list unsent;
    struct list sent;
    struct list ended; /* their done callbacks must still be called */
    unsigned out, children;
    unsigned moves; /* how often a request has left its list */
    uint64_t next_id;
    bool is_stopped, is_closing;
    void (*closed)(void *context);
    void *context;
};

static void end_get(struct fleet_process *p, struct fleet_access *get, enum fleet_end end)
{
    p->moves++;
    list_remove(&get->link);
    get->end = end;
    list_append(&p->ended, &get->link);
}

static bool has_accesses(const struct fleet_process *p)
{
    return !list_is_empty(&p->unsent) || !list_is_empty(&p->sent);
}

static void end_all(struct fleet_process *p, enum fleet_end end)
{
    LIST_EACH (&p->sent, struct fleet_access, link, get)
        end_get(p, get, end);
    LIST_EACH (&p->unsent, struct fleet_access, link, get)
        end_get(p, get, end);
    loop_timer_start(&p->timer, 0, TICK_MS);
}

static void close_if_done(struct fleet_process *p)
{
    if (p->is_closing && p->out == 0 && p->children == 0)
        loop_timer_close(&p->timer);
}

static void on_child_closed(struct loop_owner *owner)
{
    struct fleet_child *child = LOOP_OWNER_OF(struct fleet_child, owner, owner);
    struct fleet_process *p = child->parent;
    close(child->socket);
    free(child);
    p->children--;
    close_if_done(p);
}

/* Makes the next request start a new process. */
static void detach_child(struct fleet_process *p)
{
    if (p->child)
        p->child->is_ending = true;
    p->child = NULL;
}

static void kill_child(struct fleet_process *p)
{
    struct fleet_child *child = p->child;
    detach_child(p);
    if (child)
        worker_process_kill(&child->process);
}

/* Logs why a process ended that had pending requests.  An idle process may end without a log
 * record. */
static void report_exit(const struct fleet_child *child, int status, int number)
{
    const struct fleet_process *p = child->parent;
    if (!has_accesses(p))
        return;
    if (status == WORKER_PROCESS_NOT_STARTED)
        log_event(LOG_EVENT_fleet_error, NULL, "cannot run '%s': %s (setting transfer)", p->program,
                  strerror(child->process.start_errnum));
    else if (status == WORKER_PROCESS_LOST)
        log_event(LOG_EVENT_fleet_error, NULL,
                  "kiln-transfer --fleet was not started, or ended, by the service manager: see "
                  "'journalctl -u \"kiln-transfer@*\"'");
    else
        log_event(LOG_EVENT_fleet_error, NULL, "kiln-transfer --fleet ended: %s %d",
                  number ? "signal" : "status", number ? number : status);
}

static void on_exited(struct worker_process *process, int status, int number)
{
    struct fleet_child *child = LOOP_OWNER_OF(struct fleet_child, process, process);
    struct fleet_process *p = child->parent;
    worker_process_kill(process); /* other processes of its group may still run */
    if (!child->is_ending) {
        report_exit(child, status, number);
        detach_child(p);
        end_all(p, FLEET_END_STOPPED);
    }
    loop_watch_close(&child->watch);
    worker_process_close(&child->process);
}

static struct fleet_access *find_get(struct fleet_process *p, uint64_t id)
{
    LIST_EACH (&p->sent, struct fleet_access, link, get)
        if (get->id == id)
            return get;
    return NULL;
}

/* Ends the request that |answer| belongs to.  An answer to no pending request is an error, so that
 * a process cannot occupy the loop by sending answers without end. */
static enum kiln_code take_answer(struct fleet_process *p, const struct fleet_answer *answer,
                                  struct kiln_err *err)
{
    struct fleet_access *get = find_get(p, answer->id);
    if (!get) {
        if (answer->fd >= 0)
            close(answer->fd);
        return kiln_fail(err, KILN_INVALID,
                         "the process that reads the fleet's tree answered what was not asked");
    }
    bool has_file = answer->fd >= 0, needs_file = answer->end == FLEET_END_DONE && !get->is_put;
    if (!get->is_put)
        get->fd = answer->fd;
    else if (has_file)
        close(answer->fd);
    get->wait_s = answer->wait_s;
    get->is_partial = answer->token[0] != '\0';
    end_get(p, get, needs_file && !has_file ? FLEET_END_MALFORMED : answer->end);
    loop_timer_start(&p->timer, 0, TICK_MS);
    return KILN_OK;
}

static enum kiln_code send_get(const struct fleet_process *p, const struct fleet_access *get,
                               struct kiln_err *err)
{
    struct fleet_request request = { .id = get->id,
                                     .offset = get->offset,
                                     .size = get->size,
                                     .size_max = get->size_max,
                                     .is_put = get->is_put,
                                     .is_list = get->is_list,
                                     .fd = get->fd };
    snprintf(request.name, sizeof(request.name), "%s", get->name);
    return fleet_send_request(p->child->socket, &request, err);
}

static void send_requests(struct fleet_process *p)
{
    struct kiln_err err = KILN_ERR_INIT;
    LIST_EACH (&p->unsent, struct fleet_access, link, get) {
        enum kiln_code rc = p->child ? send_get(p, get, &err) : KILN_UNAVAILABLE;
        if (rc == KILN_BUSY)
            return;
        p->moves++;
        list_remove(&get->link);
        list_append(&p->sent, &get->link);
        if (!rc)
            continue;
        end_get(p, get, FLEET_END_STOPPED);
        loop_timer_start(&p->timer, 0, TICK_MS);
    }
}

static void on_readable(struct loop_watch *watch, unsigned events)
{
    struct fleet_child *child = LOOP_OWNER_OF(struct fleet_child, watch, watch);
    struct fleet_process *p = child->parent;
    struct fleet_answer answer;
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    while (!rc && !child->is_ending && events & WATCH_READ) {
        rc = fleet_receive_answer(child->socket, &answer, &err);
        if (!rc)
            rc = take_answer(p, &answer, &err);
    }
    if (child->is_ending || !(events & WATCH_READ) || rc == KILN_UNAVAILABLE) {
        loop_watch_set(&child->watch, 0); /* on_exited ends the requests */
    } else if (rc == KILN_BUSY) {
        send_requests(p);
    } else {
        log_event(LOG_EVENT_fleet_error, NULL, "%s", err.text);
        kill_child(p);
        end_all(p, FLEET_END_STOPPED);
    }
}

static enum kiln_code send_setup(const struct fleet_process *p, struct kiln_err *err)
{
    struct fleet_setup setup = { .writes = p->options.writes };
    int size = snprintf(setup.url, sizeof(setup.url), "%s", p->url);
    if (size < 0 || (size_t)size >= sizeof(setup.url))
        return kiln_fail(err, KILN_INVALID, "the URL of the fleet's tree is too long");
    return fleet_send_setup(p->child->socket, &setup, err);
}

static enum kiln_code run_program(struct fleet_process *p, struct fleet_child *child, int their_fd,
                                  struct kiln_err *err)
{
    const struct fleet_process_options *o = &p->options;
    const char *const arguments[] = { "kiln-transfer", "--fleet", o->user.other ? "--user" : NULL,
                                      p->user, NULL };
    static const char *const launched[] = { "kiln-transfer", "--fleet", "--launched", NULL };
    const struct worker_spawn spawn = { .program = p->program,
                                        .service = p->service,
                                        .arguments = *p->service ? launched : arguments,
                                        .fd_3 = their_fd,
                                        .directory = -1,
                                        .work_queues = o->work_queues,
                                        .uid = getuid() };
    enum kiln_code rc = worker_process_start(o->loop, &child->process, &child->owner, &spawn, err);
    if (rc) {
        loop_watch_close(&child->watch);
        return rc;
    }
    child->process.exited = on_exited;
    loop_watch_set(&child->watch, WATCH_READ);
    p->child = child;
    rc = send_setup(p, err);
    if (rc)
        kill_child(p);
    return rc;
}

static enum kiln_code start_child(struct fleet_process *p, struct kiln_err *err)
{
    int pair[2];
    if (p->children >= CHILDREN_MAX)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "%u processes that read the fleet's tree were killed and have not ended",
                         p->children);
    struct fleet_child *child = calloc(1, sizeof(*child));
    if (!child)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot start kiln-transfer");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        free(child);
        return kiln_fail_errno(err, errno, "cannot make a socket pair for kiln-transfer");
    }
    *child = (struct fleet_child){ .parent = p,
                                   .owner = { .gone = on_child_closed },
                                   .watch = { .ready = on_readable },
                                   .socket = pair[0] };
    p->children++;
    enum kiln_code rc =
        loop_watch_init(p->options.loop, &child->watch, &child->owner, pair[0], err);
    if (rc)
        /* no handle is open, so nothing else calls on_child_closed */
        on_child_closed(&child->owner);
    else
        rc = run_program(p, child, pair[1], err);
    close(pair[1]);
    return rc;
}

void fleet_process_access(struct fleet_process *p, struct fleet_access *get)
{
    struct kiln_err err = KILN_ERR_INIT;
    p->out++;
    get->id = p->next_id++;
    get->began_ms = loop_now_ms(p->options.loop);
    list_append(&p->unsent, &get->link);
    if (!p->is_stopped && !p->child && start_child(p, &err))
        log_event(LOG_EVENT_fleet_error, NULL, "%s", err.text);
    send_requests(p);
    if (!loop_timer_is_running(&p->timer))
        loop_timer_start(&p->timer, TICK_MS, TICK_MS);
}

static bool is_hanging(const struct list *accesses, uint64_t now_ms)
{
    const struct fleet_access *oldest = LIST_FIRST(accesses, struct fleet_access, link);
    return oldest && now_ms - oldest->began_ms >= HANG_MS;
}

static void mark_slow(struct list *accesses, uint64_t now_ms)
{
    LIST_EACH (accesses, struct fleet_access, link, get)
        get->is_slow |= get->budget_ms && now_ms - get->began_ms >= get->budget_ms;
}

/* Calls |slow| of the slow requests in the list, until a callback moves a request to another list,
 * for example because it starts a request. Returns whether one did. */
static bool call_slow(const struct fleet_process *p, const struct list *accesses)
{
    const unsigned moves = p->moves;
    LIST_EACH (accesses, struct fleet_access, link, get) {
        void (*slow)(struct fleet_access *) = get->is_slow ? get->slow : NULL;
        if (!slow)
            continue;
        get->slow = NULL;
        slow(get);
        if (p->moves != moves)
            return true;
    }
    return false;
}

static void note_slow(const struct fleet_process *p, struct list *accesses, uint64_t now_ms)
{
    mark_slow(accesses, now_ms);
    while (call_slow(p, accesses))
        ;
}

static void check_times(struct fleet_process *p)
{
    uint64_t now_ms = loop_now_ms(p->options.loop);
    if (is_hanging(&p->sent, now_ms) || is_hanging(&p->unsent, now_ms)) {
        kill_child(p);
        end_all(p, FLEET_END_TIMED_OUT);
        return;
    }
    note_slow(p, &p->sent, now_ms);
    note_slow(p, &p->unsent, now_ms);
}

static void on_timer(struct loop_timer *timer)
{
    struct fleet_process *p = LOOP_OWNER_OF(struct fleet_process, timer, timer);
    struct fleet_access *get;
    check_times(p);
    send_requests(p);
    while ((get = LIST_POP(&p->ended, struct fleet_access, link))) {
        p->out--;
        get->done(get);
    }
    if (!has_accesses(p) && list_is_empty(&p->ended))
        loop_timer_stop(&p->timer);
    close_if_done(p);
}

static void on_closed(struct loop_owner *owner)
{
    struct fleet_process *p = LOOP_OWNER_OF(struct fleet_process, owner, owner);
    void (*closed)(void *) = p->closed;
    void *context = p->context;
    free(p->program);
    free(p->service);
    free(p->url);
    free(p);
    closed(context);
}

enum kiln_code fleet_process_create(const struct fleet_process_options *options,
                                    struct fleet_process **ret_process, struct kiln_err *err)
{
    struct fleet_process *p = calloc(1, sizeof(*p));
    char *program = strdup(options->program), *service = strdup(options->service);
    char *url = strdup(options->url);
    if (!p || !program || !service || !url) {
        free(p);
        free(program);
        free(service);
        free(url);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the process of the fleet");
    }
    *p = (struct fleet_process){ .options = *options,
                                 .program = program,
                                 .service = service,
                                 .url = url,
                                 .owner = { .gone = on_closed } };
    snprintf(p->user, sizeof(p->user), "%u:%u", (unsigned)options->user.uid,
             (unsigned)options->user.gid);
    list_init(&p->unsent);
    list_init(&p->sent);
    list_init(&p->ended);
    loop_timer_init(options->loop, &p->timer, &p->owner, on_timer);
    *ret_process = p;
    return KILN_OK;
}

unsigned fleet_process_out(const struct fleet_process *p) { return p->out; }

void fleet_process_stop(struct fleet_process *p)
{
    p->is_stopped = true;
    kill_child(p);
    end_all(p, FLEET_END_STOPPED);
}

void fleet_process_close(struct fleet_process *p, void (*closed)(void *context), void *context)
{
    p->is_closing = true;
    p->closed = closed;
    p->context = context;
    fleet_process_stop(p);
}
