/* SPDX-License-Identifier: MIT */
#include "daemon/workers/process_words.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* At most so much a look, and so many looks a second: 400 kB, many times what compilers say. */
#define LOOK_BYTES 8192
#define REST_MS 20
/* Each becomes a record, wanted or not: of thousands of short lines the rest is only counted. */
#define LOOK_LINES 32

static void report(struct process_words *w)
{
    w->line[w->used] = '\0';
    if (w->used)
        log_event(LOG_EVENT_worker_said, NULL, "%s: %s%s", w->who, w->line,
                  w->is_cut ? " (cut)" : "");
    w->used = 0;
    w->is_cut = false;
}

struct lines { /* of one look */
    unsigned reported, left_out;
};

static void end_line(struct process_words *w, struct lines *lines)
{
    if (w->used == 0)
        return;
    if (lines->reported < LOOK_LINES) {
        report(w);
        lines->reported++;
        return;
    }
    w->used = 0;
    w->is_cut = false;
    lines->left_out++;
}

static void take(struct process_words *w, const char *bytes, size_t size)
{
    struct lines lines = { 0 };
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\n')
            end_line(w, &lines);
        else if (w->used == WORDS_LINE_MAX)
            w->is_cut = true;
        else if (bytes[i])
            w->line[w->used++] = bytes[i];
    }
    if (lines.left_out)
        log_event(LOG_EVENT_worker_said, NULL, "%s: (%u lines left out)", w->who, lines.left_out);
}

/* False when nothing more will come. */
static bool look(struct process_words *w)
{
    char bytes[LOOK_BYTES];
    ssize_t got;
    do
        got = read(w->fd, bytes, sizeof(bytes));
    while (got < 0 && errno == EINTR);
    if (got > 0)
        take(w, bytes, (size_t)got);
    return got > 0 || (got < 0 && errno == EAGAIN);
}

static void on_ready(struct loop_watch *watch, unsigned events)
{
    struct process_words *w = LOOP_OWNER_OF(struct process_words, watch, watch);
    (void)events;
    loop_watch_want(watch, 0);
    if (look(w))
        loop_timer_start(&w->rest, REST_MS, 0);
}

static void on_rested(struct loop_timer *timer)
{
    loop_watch_want(&LOOP_OWNER_OF(struct process_words, rest, timer)->watch, WATCH_READ);
}

enum kiln_code process_words_open(struct loop *loop, struct process_words *w,
                                  struct loop_owner *owner, const char *who, int *ret_fd,
                                  struct kiln_err *err)
{
    int ends[2];
    *w = (struct process_words){ .who = who, .fd = -1 };
    if (pipe2(ends, O_CLOEXEC) != 0)
        return kiln_fail_errno(err, errno, "cannot make a pipe for what %s prints", who);
    enum kiln_code rc = KILN_OK;
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        rc = kiln_fail_errno(err, errno, "cannot make a pipe for what %s prints", who);
    if (!rc)
        rc = loop_watch_init(loop, &w->watch, owner, ends[0], on_ready, err);
    if (rc) {
        close(ends[0]);
        close(ends[1]);
        return rc;
    }
    loop_timer_init(loop, &w->rest, owner, on_rested);
    loop_watch_want(&w->watch, WATCH_READ);
    w->fd = ends[0];
    *ret_fd = ends[1];
    return KILN_OK;
}

void process_words_close(struct process_words *w)
{
    if (!loop_handle_is_open(&w->watch.handle))
        return;
    look(w);
    report(w);
    loop_watch_close(&w->watch);
    loop_timer_close(&w->rest);
    close(w->fd);
}
