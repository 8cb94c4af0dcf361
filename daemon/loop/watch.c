/* SPDX-License-Identifier: MIT */
#include "daemon/loop/watch.h"

#include "daemon/loop/uv_handle.h"

LOOP_HANDLE_FITS(uv_poll_t);
_Static_assert(WATCH_READ == UV_READABLE && WATCH_WRITE == UV_WRITABLE, "events pass unchanged");

static void on_poll(uv_poll_t *uv, int status, int events)
{
    struct loop_watch *watch = uv_handle_get_data((uv_handle_t *)uv);
    if (status < 0)
        watch->events = 0;
    watch->ready(watch, status < 0 ? WATCH_BROKEN : (unsigned)events);
}

enum kiln_code loop_watch_init(struct loop *loop, struct loop_watch *watch,
                               struct loop_owner *owner, int fd, struct kiln_err *err)
{
    int status = uv_poll_init(&loop->uv, LOOP_UV(uv_poll_t, &watch->handle), fd);
    if (status)
        return loop_fail(err, status, "cannot watch a descriptor");
    watch->events = 0;
    loop_handle_opened(&watch->handle, owner, watch);
    return KILN_OK;
}

void loop_watch_set(struct loop_watch *watch, unsigned events)
{
    if (!loop_handle_is_open(&watch->handle) || watch->events == events)
        return;
    watch->events = events;
    if (events)
        uv_poll_start(LOOP_UV(uv_poll_t, &watch->handle), (int)events, on_poll);
    else
        uv_poll_stop(LOOP_UV(uv_poll_t, &watch->handle));
}

void loop_watch_close(struct loop_watch *watch) { loop_handle_close(&watch->handle); }
