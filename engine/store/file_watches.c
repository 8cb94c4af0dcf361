/* SPDX-License-Identifier: MIT */
#include "engine/store/file_watches.h"

#include <stdio.h>
#include <stdlib.h>
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

/* inotify reports IN_IGNORED when Linux frees a watched file; no bit of the mask is needed for
 * that. The mask must not be empty, so it has IN_MOVE_SELF, an event that cannot occur for a file
 * without a name. */
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

static bool append_watch(struct file_watch_list *list, int watch)
{
    const size_t n = list->count;
    if ((n & (n - 1)) == 0) {
        int *more = realloc(list->watches, (n ? 2 * n : 1) * sizeof(*more));
        if (!more)
            return false;
        list->watches = more;
    }
    list->watches[list->count++] = watch;
    return true;
}

static int compare_watches(const void *a, const void *b)
{
    const int one = *(const int *)a, other = *(const int *)b;
    return (one > other) - (one < other);
}

static bool read_watches(FILE *info, struct file_watch_list *list)
{
    char line[512];
    unsigned watch;
    while (fgets(line, sizeof(line), info))
        if (sscanf(line, "inotify wd:%x ", &watch) == 1 && !append_watch(list, (int)watch))
            return false;
    return !ferror(info);
}

void file_watches_list(const struct file_watches *w, struct file_watch_list *ret_list)
{
    char path[sizeof("/proc/self/fdinfo/") + 12];
    *ret_list = (struct file_watch_list){ .watches = calloc(1, sizeof(int)) };
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", w->inotify);
    FILE *info = fopen(path, "re");
    if (!info || !ret_list->watches || !read_watches(info, ret_list))
        file_watch_list_done(ret_list);
    if (ret_list->count > 0)
        qsort(ret_list->watches, ret_list->count, sizeof(int), compare_watches);
    if (info)
        fclose(info);
}

bool file_watch_list_has(const struct file_watch_list *list, int watch)
{
    return list->count > 0 &&
           bsearch(&watch, list->watches, list->count, sizeof(watch), compare_watches);
}

void file_watch_list_done(struct file_watch_list *list)
{
    free(list->watches);
    *list = (struct file_watch_list){ .count = 0 };
}
