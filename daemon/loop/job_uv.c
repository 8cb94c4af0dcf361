/* SPDX-License-Identifier: MIT */
/*
 * libuv's functions, as far as this folder calls them, for a process that is not ours: the engine
 * in a job is linked with these and not with libuv.
 *
 * libuv has two descriptors for the whole process, from its first loop on.  It closes them by their
 * numbers in every child of fork, where it makes new ones, and at exit.  Our thread's table of
 * descriptors is not the job's, so these numbers would be files of the job's own; and in the job's
 * table they would be its own as soon as it closes what it does not know.  What is here has no
 * state but a loop's, and nothing that runs at fork or exit: a job may have a libuv of its own.
 *
 * The structs are libuv's; |u.reserved[0]| is the next handle of a list, |flags| are ours.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#define IS_ACTIVE 1u
#define IS_REFERRED 2u /* the loop runs while it is active */
#define IS_CLOSING 4u

#define EVENTS_MOST 128

struct turns { /* a loop's |internal_fields| */
    unsigned open;
    uint64_t turn;
    void *timers, *checks; /* lists; the timers are those of the next turn */
    int at, count;         /* of |events|: the one that is told, and all */
    struct epoll_event events[EVENTS_MOST];
};

static struct turns *turns_of(const uv_loop_t *loop) { return loop->internal_fields; }

/* ---- a loop ---- */

static void update_time(uv_loop_t *loop)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    loop->time = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int uv_loop_init(uv_loop_t *loop)
{
    memset(loop, 0, sizeof(*loop));
    struct turns *turns = calloc(1, sizeof(*turns));
    if (!turns)
        return UV_ENOMEM;
    loop->backend_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->backend_fd < 0) {
        free(turns);
        return -errno;
    }
    loop->internal_fields = turns;
    update_time(loop);
    return 0;
}

int uv_loop_close(uv_loop_t *loop)
{
    if (turns_of(loop)->open > 0)
        return UV_EBUSY;
    close(loop->backend_fd);
    free(loop->internal_fields);
    return 0;
}

uint64_t uv_now(const uv_loop_t *loop) { return loop->time; }

/* ---- any handle ---- */

static void begin(uv_loop_t *loop, uv_handle_t *handle, uv_handle_type type)
{
    handle->loop = loop;
    handle->type = type;
    handle->flags = IS_REFERRED;
    handle->u.reserved[0] = NULL;
    turns_of(loop)->open++;
}

static void set_flag(uv_handle_t *handle, unsigned flag, bool on)
{
    const unsigned both = IS_ACTIVE | IS_REFERRED;
    bool counted = (handle->flags & both) == both;
    handle->flags = on ? handle->flags | flag : handle->flags & ~flag;
    bool counts = (handle->flags & both) == both;
    handle->loop->active_handles += (unsigned)counts - (unsigned)counted;
}

void uv_ref(uv_handle_t *handle) { set_flag(handle, IS_REFERRED, true); }

void uv_unref(uv_handle_t *handle) { set_flag(handle, IS_REFERRED, false); }

int uv_is_active(const uv_handle_t *handle) { return (handle->flags & IS_ACTIVE) != 0; }

void *uv_handle_get_data(const uv_handle_t *handle) { return handle->data; }

void uv_handle_set_data(uv_handle_t *handle, void *data) { handle->data = data; }

static void append(void **list, uv_handle_t *handle)
{
    while (*list)
        list = &((uv_handle_t *)*list)->u.reserved[0];
    handle->u.reserved[0] = NULL;
    *list = handle;
}

static void take_out(void **list, const uv_handle_t *handle)
{
    while (*list && *list != handle)
        list = &((uv_handle_t *)*list)->u.reserved[0];
    if (*list)
        *list = handle->u.reserved[0];
}

static int watch(const uv_handle_t *handle, int fd, int what, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = (void *)(uintptr_t)handle };
    return epoll_ctl(handle->loop->backend_fd, what, fd, &event) == 0 ? 0 : -errno;
}

/* What has come for it already is not told any more. */
static void unwatch(const uv_handle_t *handle, int fd)
{
    struct turns *turns = turns_of(handle->loop);
    watch(handle, fd, EPOLL_CTL_DEL, 0);
    for (int i = turns->at; i < turns->count; i++) {
        if (turns->events[i].data.ptr == handle)
            turns->events[i].data.ptr = NULL;
    }
}

void uv_close(uv_handle_t *handle, uv_close_cb closed)
{
    switch (handle->type) {
    case UV_POLL: unwatch(handle, ((uv_poll_t *)handle)->io_watcher.fd); break;
    case UV_ASYNC:
        unwatch(handle, (int)((uv_async_t *)handle)->u.fd);
        close(((uv_async_t *)handle)->u.fd);
        break;
    case UV_TIMER: uv_timer_stop((uv_timer_t *)handle); break;
    case UV_CHECK: uv_check_stop((uv_check_t *)handle); break;
    default: break;
    }
    set_flag(handle, IS_ACTIVE, false);
    handle->flags |= IS_CLOSING;
    handle->close_cb = closed;
    handle->next_closing = handle->loop->closing_handles;
    handle->loop->closing_handles = handle;
}

static void end_closing(uv_loop_t *loop)
{
    uv_handle_t *closing = loop->closing_handles;
    loop->closing_handles = NULL;
    while (closing) {
        uv_handle_t *next = closing->next_closing;
        turns_of(loop)->open--;
        if (closing->close_cb)
            closing->close_cb(closing); /* may free it */
        closing = next;
    }
}

/* ---- timers: for the next turn alone ---- */

int uv_timer_init(uv_loop_t *loop, uv_timer_t *timer)
{
    begin(loop, (uv_handle_t *)timer, UV_TIMER);
    return 0;
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb fired, uint64_t after_ms, uint64_t repeat_ms)
{
    struct turns *turns = turns_of(timer->loop);
    if (after_ms || repeat_ms)
        return UV_ENOTSUP;
    if (timer->flags & IS_CLOSING || !fired)
        return UV_EINVAL;
    uv_timer_stop(timer);
    timer->timer_cb = fired;
    timer->start_id = turns->turn;
    append(&turns->timers, (uv_handle_t *)timer);
    set_flag((uv_handle_t *)timer, IS_ACTIVE, true);
    return 0;
}

int uv_timer_stop(uv_timer_t *timer)
{
    if (!uv_is_active((uv_handle_t *)timer))
        return 0;
    take_out(&turns_of(timer->loop)->timers, (uv_handle_t *)timer);
    set_flag((uv_handle_t *)timer, IS_ACTIVE, false);
    return 0;
}

/* Those that were started before this turn; whether there was one. */
static bool run_timers(uv_loop_t *loop)
{
    struct turns *turns = turns_of(loop);
    uint64_t turn = ++turns->turn;
    bool ran = false;
    while (turns->timers) {
        uv_timer_t *timer = turns->timers;
        if (timer->start_id >= turn)
            break;
        uv_timer_stop(timer);
        timer->timer_cb(timer);
        ran = true;
    }
    return ran;
}

/* ---- what is done after the events ---- */

int uv_check_init(uv_loop_t *loop, uv_check_t *check)
{
    begin(loop, (uv_handle_t *)check, UV_CHECK);
    return 0;
}

int uv_check_start(uv_check_t *check, uv_check_cb checked)
{
    if (uv_is_active((uv_handle_t *)check))
        return 0;
    check->check_cb = checked;
    append(&turns_of(check->loop)->checks, (uv_handle_t *)check);
    set_flag((uv_handle_t *)check, IS_ACTIVE, true);
    return 0;
}

int uv_check_stop(uv_check_t *check)
{
    if (!uv_is_active((uv_handle_t *)check))
        return 0;
    take_out(&turns_of(check->loop)->checks, (uv_handle_t *)check);
    set_flag((uv_handle_t *)check, IS_ACTIVE, false);
    return 0;
}

/* One may stop itself, not another. */
static void run_checks(uv_loop_t *loop)
{
    uv_check_t *next;
    for (uv_check_t *at = turns_of(loop)->checks; at; at = next) {
        next = at->u.reserved[0];
        at->check_cb(at);
    }
}

/* ---- descriptors ---- */

static uint32_t events_of(unsigned wanted)
{
    return (wanted & UV_READABLE ? (uint32_t)EPOLLIN : 0) |
           (wanted & UV_WRITABLE ? (uint32_t)EPOLLOUT : 0);
}

/* One that rests stays with the kernel, which has room for it then: that it hangs up is told once,
 * to nobody. */
#define RESTING ((uint32_t)EPOLLET)

int uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0))
        return -errno;
    poll->loop = loop;
    int rc = watch((uv_handle_t *)poll, fd, EPOLL_CTL_ADD, RESTING);
    if (rc)
        return rc;
    begin(loop, (uv_handle_t *)poll, UV_POLL);
    poll->io_watcher.fd = fd;
    poll->io_watcher.pevents = 0;
    return 0;
}

int uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb told)
{
    int rc = watch((uv_handle_t *)poll, poll->io_watcher.fd, EPOLL_CTL_MOD,
                   events ? events_of((unsigned)events) : RESTING);
    poll->poll_cb = told;
    poll->io_watcher.pevents = (unsigned)events;
    set_flag((uv_handle_t *)poll, IS_ACTIVE, events != 0);
    return rc;
}

int uv_poll_stop(uv_poll_t *poll) { return uv_poll_start(poll, 0, poll->poll_cb); }

static void tell(uv_poll_t *poll, uint32_t came)
{
    unsigned wanted = poll->io_watcher.pevents;
    if (wanted && came & EPOLLERR) {
        uv_poll_stop(poll);
        poll->poll_cb(poll, UV_EBADF, 0);
        return;
    }
    unsigned events =
        (came & EPOLLIN ? UV_READABLE : 0u) | (came & EPOLLOUT ? (unsigned)UV_WRITABLE : 0u);
    if (came & EPOLLHUP) /* reading or writing will say more */
        events = wanted;
    events &= wanted;
    if (events)
        poll->poll_cb(poll, 0, (int)events);
}

/* ---- a word from another thread ---- */

int uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb rung)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    async->loop = loop;
    int rc = watch((uv_handle_t *)async, fd, EPOLL_CTL_ADD, EPOLLIN);
    if (rc) {
        close(fd);
        return rc;
    }
    begin(loop, (uv_handle_t *)async, UV_ASYNC);
    async->u.fd = fd;
    async->async_cb = rung;
    set_flag((uv_handle_t *)async, IS_ACTIVE, true);
    return 0;
}

int uv_async_send(uv_async_t *async) { return eventfd_write(async->u.fd, 1) == 0 ? 0 : -errno; }

static void ring(uv_async_t *async)
{
    eventfd_t times;
    if (eventfd_read(async->u.fd, &times) == 0)
        async->async_cb(async);
}

/* ---- turns ---- */

static bool is_alive(const uv_loop_t *loop)
{
    return loop->active_handles > 0 || loop->closing_handles;
}

/* There is no end to the wait but an event: a timerfd is one too. */
static bool may_wait(const uv_loop_t *loop)
{
    return loop->active_handles > 0 && !loop->closing_handles && !turns_of(loop)->timers;
}

static void take_events(uv_loop_t *loop, bool wait)
{
    struct turns *turns = turns_of(loop);
    int count;
    do
        count = epoll_wait(loop->backend_fd, turns->events, EVENTS_MOST, wait ? -1 : 0);
    while (count < 0 && errno == EINTR);
    update_time(loop);
    turns->count = count;
    for (turns->at = 0; turns->at < turns->count; turns->at++) {
        uv_handle_t *handle = turns->events[turns->at].data.ptr;
        if (handle && handle->type == UV_ASYNC)
            ring((uv_async_t *)handle);
        else if (handle)
            tell((uv_poll_t *)handle, turns->events[turns->at].events);
    }
    turns->at = turns->count = 0;
}

int uv_run(uv_loop_t *loop, uv_run_mode mode)
{
    bool alive = is_alive(loop);
    update_time(loop);
    while (alive) {
        bool ran = run_timers(loop);
        take_events(loop, mode != UV_RUN_NOWAIT && !(mode == UV_RUN_ONCE && ran) && may_wait(loop));
        run_checks(loop);
        end_closing(loop);
        alive = is_alive(loop);
        if (mode != UV_RUN_DEFAULT)
            break;
    }
    return alive;
}
