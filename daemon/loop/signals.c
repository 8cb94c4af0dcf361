/* SPDX-License-Identifier: MIT */
#include "daemon/loop/signals.h"

#include "daemon/loop/uv_handle.h"

LOOP_HANDLE_FITS(uv_signal_t);

static void on_signal(uv_signal_t *uv, int number)
{
    struct loop_signal *signal = uv_handle_get_data((uv_handle_t *)uv);
    signal->received(signal, number);
}

enum kiln_code loop_signal_init(struct loop *loop, struct loop_signal *signal,
                                struct loop_owner *owner, int number, struct kiln_err *err)
{
    int status = uv_signal_init(&loop->uv, LOOP_UV(uv_signal_t, &signal->handle));
    if (status)
        return loop_fail(err, status, "cannot watch for signals");
    loop_handle_opened(&signal->handle, owner, signal);
    status = uv_signal_start(LOOP_UV(uv_signal_t, &signal->handle), on_signal, number);
    if (status) {
        loop_signal_close(signal);
        return loop_fail(err, status, "cannot watch for signals");
    }
    return KILN_OK;
}

void loop_signal_close(struct loop_signal *signal) { loop_handle_close(&signal->handle); }
