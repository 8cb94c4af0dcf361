/* SPDX-License-Identifier: MIT */
#include "engine/store/file_watches.h"

#include <stdio.h>
#include <unistd.h>

void file_watches_init(struct file_watches *w)
{
    w->inotify = -1;
    w->at = w->size = 0;
}

void file_watches_done(struct file_watches *w)
{
    if (w->inotify >= 0)
        close(w->inotify);
}

/* The kernel reports the end of a file by the event IN_IGNORED, whatever the mask. The mask must
 * not be empty. It names an event that a file without a name cannot have, so that there is one
 * event for each file. */
int file_watches_add(struct file_watches *w, int fd)
{
    char path[sizeof("/proc/self/fd/") + 12];
    if (w->inotify < 0)
        w->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->inotify < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return inotify_add_watch(w->inotify, path, IN_MOVE_SELF);
}

/* Returns false if there is no event. */
static bool read_events(struct file_watches *w)
{
    if (w->inotify < 0)
        return false;
    ssize_t size = read(w->inotify, w->events, sizeof(w->events));
    w->at = 0;
    w->size = size > 0 ? (size_t)size : 0;
    return w->size > 0;
}

int file_watches_next(struct file_watches *w)
{
    while (w->at < w->size || read_events(w)) {
        const struct inotify_event *event = (const void *)(w->events + w->at);
        w->at += sizeof(*event) + event->len;
        if (event->mask & IN_Q_OVERFLOW)
            return FILE_WATCHES_LOST;
        if (event->mask & IN_IGNORED)
            return event->wd;
    }
    return FILE_WATCHES_END;
}
