/* SPDX-License-Identifier: MIT */
#include "daemon/workers/process_stderr.h"

#include "common/log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Number of bytes that kilnd reads before it pauses for PAUSE_MS.  So kilnd reads at most 410 kB in
 * a second.  Compilers print much less. */
#define READ_BYTES 8192
#define PAUSE_MS 20
#define READ_LINES 32

struct line_counts {
    unsigned logged, left_out;
};

static void clear_line(struct process_stderr *o)
{
    o->used = 0;
    o->is_cut = false;
}

static void log_line(struct process_stderr *o)
{
    o->line[o->used] = '\0';
    if (o->used)
        log_event(LOG_EVENT_worker_output, NULL, "%s: %s%s", o->program, o->line,
                  o->is_cut ? " (cut)" : "");
    clear_line(o);
}

static void end_line(struct process_stderr *o, struct line_counts *counts)
{
    if (o->used == 0)
        return;
    if (counts->logged < READ_LINES) {
        log_line(o);
        counts->logged++;
        return;
    }
    clear_line(o);
    counts->left_out++;
}

static void split_lines(struct process_stderr *o, const char *bytes, size_t size)
{
    struct line_counts counts = { 0 };
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\n')
            end_line(o, &counts);
        else if (o->used == STDERR_LINE_MAX)
            o->is_cut = true;
        else if (bytes[i])
            o->line[o->used++] = bytes[i];
    }
    if (counts.left_out)
        log_event(LOG_EVENT_worker_output, NULL, "%s: (%u lines omitted)", o->program,
                  counts.left_out);
}

static bool read_pipe(struct process_stderr *o)
{
    char bytes[READ_BYTES];
    ssize_t got;
    do
        got = read(o->fd, bytes, sizeof(bytes));
    while (got < 0 && errno == EINTR);
    if (got > 0)
        split_lines(o, bytes, (size_t)got);
    return got > 0 || (got < 0 && errno == EAGAIN);
}

static void on_ready(struct loop_watch *watch, unsigned events)
{
    struct process_stderr *o = LOOP_OWNER_OF(struct process_stderr, watch, watch);
    (void)events;
    loop_watch_set(watch, 0);
    if (read_pipe(o))
        loop_timer_start(&o->pause, PAUSE_MS, 0);
}

static void on_pause_end(struct loop_timer *timer)
{
    loop_watch_set(&LOOP_OWNER_OF(struct process_stderr, pause, timer)->watch, WATCH_READ);
}

enum kiln_code process_stderr_open(struct loop *loop, struct process_stderr *o,
                                   struct loop_owner *owner, int *ret_fd, struct kiln_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return kiln_fail_errno(err, errno, "cannot create a pipe for the output of %s", o->program);
    enum kiln_code rc = KILN_OK;
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        rc = kiln_fail_errno(err, errno, "cannot create a pipe for the output of %s", o->program);
    o->watch.ready = on_ready;
    if (!rc)
        rc = loop_watch_init(loop, &o->watch, owner, ends[0], err);
    if (rc) {
        close(ends[0]);
        close(ends[1]);
        return rc;
    }
    loop_timer_init(loop, &o->pause, owner, on_pause_end);
    loop_watch_set(&o->watch, WATCH_READ);
    o->fd = ends[0];
    *ret_fd = ends[1];
    return KILN_OK;
}

void process_stderr_close(struct process_stderr *o)
{
    if (!loop_handle_is_open(&o->watch.handle))
        return;
    read_pipe(o);
    log_line(o);
    loop_watch_close(&o->watch);
    loop_timer_close(&o->pause);
    close(o->fd);
}
