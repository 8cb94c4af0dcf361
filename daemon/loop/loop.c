/* SPDX-License-Identifier: MIT */
#include "daemon/loop/uv_handle.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DESCRIPTORS 12 /* at least as many as libuv opens for a loop */

#ifdef __SANITIZE_THREAD__
/* libuv closes descriptors with a direct system call, which ThreadSanitizer does not see.  So
 * ThreadSanitizer reports a race with the next file that gets the same number. */
const char *__tsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void)
{
    return "race:uv_pipe\n";
}
#endif

enum kiln_code loop_fail(struct kiln_err *err, int status, const char *what)
{
    return kiln_fail_errno(err, -status, "%s", what);
}

/* Fails if too few descriptors are free.  libuv would abort the process if it could not create its
 * pipes and event descriptors. */
static enum kiln_code check_descriptors(struct kiln_err *err)
{
    int fds[DESCRIPTORS], count = 0;
    while (count < DESCRIPTORS && (fds[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
        count++;
    int errnum = errno;
    bool enough = count == DESCRIPTORS;
    while (count > 0)
        close(fds[--count]);
    return enough
               ? KILN_OK
               : kiln_fail_errno(err, errnum,
                                 "cannot open the %d descriptors of an event loop (LimitNOFILE=, "
                                 "ulimit -n)",
                                 DESCRIPTORS);
}

static enum kiln_code open_parts(struct loop *loop, struct kiln_err *err)
{
    enum kiln_code rc = loop_timers_open(loop, err);
    if (rc)
        return rc;
    rc = loop_queue_open(loop, err);
    if (rc)
        loop_timers_close(loop);
    return rc;
}

enum kiln_code loop_create(struct loop **ret_loop, struct kiln_err *err)
{
    enum kiln_code enough = check_descriptors(err);
    if (enough)
        return enough;
    struct loop *loop = calloc(1, sizeof(*loop));
    if (!loop)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the event loop");
    int status = uv_loop_init(&loop->uv);
    if (status) {
        free(loop);
        return loop_fail(err, status, "cannot make the event loop");
    }
    enum kiln_code rc = open_parts(loop, err);
    if (rc) {
        uv_loop_close(&loop->uv);
        free(loop);
        return rc;
    }
    *ret_loop = loop;
    return KILN_OK;
}

void loop_destroy(struct loop *loop)
{
    if (!loop)
        return;
    loop_queue_close(loop);
    loop_timers_close(loop);
    if (uv_loop_close(&loop->uv) == 0)
        free(loop);
}

void loop_run(struct loop *loop) { uv_run(&loop->uv, UV_RUN_DEFAULT); }

bool loop_iteration(struct loop *loop) { return uv_run(&loop->uv, UV_RUN_ONCE) != 0; }

uint64_t loop_now_ms(const struct loop *loop) { return uv_now(&loop->uv); }

bool loop_handle_is_open(const struct loop_handle *handle) { return handle->owner; }

void loop_handle_opened(struct loop_handle *handle, struct loop_owner *owner, void *self)
{
    uv_handle_set_data(LOOP_UV(uv_handle_t, handle), self);
    handle->owner = owner;
    handle->count = owner;
    owner->open++;
}

static void on_closed(uv_handle_t *uv)
{
    struct loop_handle *handle = LOOP_OWNER_OF(struct loop_handle, uv, uv);
    struct loop_owner *owner = handle->count;
    if (--owner->open == 0 && owner->gone)
        owner->gone(owner);
}

void loop_handle_close(struct loop_handle *handle)
{
    if (!handle->owner)
        return;
    handle->owner = NULL;
    uv_close(LOOP_UV(uv_handle_t, handle), on_closed);
}
