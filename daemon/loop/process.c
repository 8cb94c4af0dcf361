/* SPDX-License-Identifier: MIT */
#include "daemon/loop/process.h"

#include "daemon/loop/uv_handle.h"

#include <signal.h>

LOOP_HANDLE_FITS(uv_process_t);

static void on_exit_status(uv_process_t *uv, int64_t status, int signal)
{
    struct loop_process *process = uv_handle_get_data((uv_handle_t *)uv);
    process->exited(process, (int)status, signal);
}

enum kiln_code loop_process_start(struct loop *loop, struct loop_process *process,
                                  struct loop_owner *owner, const struct loop_spawn *spawn,
                                  struct kiln_err *err)
{
    uv_stdio_container_t stdio[] = {
        { .flags = UV_IGNORE },
        { .flags = UV_IGNORE },
        { .flags = UV_INHERIT_FD, .data.fd = 2 },
        { .flags = UV_INHERIT_FD, .data.fd = spawn->fd_3 },
    };
    uv_process_options_t options = {
        .exit_cb = on_exit_status,
        .file = spawn->program,
        .args = (char **)(uintptr_t)spawn->arguments,
        .flags = UV_PROCESS_DETACHED,
        .stdio = stdio,
        .stdio_count = sizeof(stdio) / sizeof(stdio[0]),
    };
    uv_process_t *uv = LOOP_UV(uv_process_t, &process->handle);
    int status = uv_spawn(&loop->uv, uv, &options);
    loop_handle_opened(&process->handle, owner, process);
    if (status) {
        loop_process_close(process);
        return kiln_fail_errno(err, -status, "cannot run '%s'", spawn->program);
    }
    process->pid = uv_process_get_pid(uv);
    return KILN_OK;
}

void loop_process_kill(const struct loop_process *process)
{
    if (process->pid > 0)
        kill(-process->pid, SIGKILL);
}

void loop_process_close(struct loop_process *process) { loop_handle_close(&process->handle); }
