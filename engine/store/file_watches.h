/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Watches for files that have no name. A watch reports that Linux has freed its file, because
 * no process has the file open or mapped any longer.
 *
 * Role       held_objects.h and exported_files.h count a file toward a user's limit until its watch
 *            reports that the file was freed
 * Ownership  struct file_watches is embedded in its owner; it owns an inotify instance
 * Threading  the owner synchronises access; no call blocks
 *
 * Clients can neither cause nor suppress this report, which is an event of inotify(7). File leases
 * (fcntl(2)) would be less reliable, because they overlook descriptors that were opened with
 * O_PATH.
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/inotify.h>
#include <sys/types.h>

struct file_watches {
    int inotify; /* owned; -1: not opened yet */
    size_t at, size;
    _Alignas(struct inotify_event) char events[4096]; /* events read from |inotify|; the first |at|
                                                       * bytes of |size| are already processed */
};

void file_watches_init(struct file_watches *w);
void file_watches_done(struct file_watches *w);
/* Watches the open file |fd|, whose last name is or will be removed. Returns the number of the
 * watch, or -1 if inotify has no resources left or /proc is missing. */
int file_watches_add(struct file_watches *w, int fd);

#define FILE_WATCHES_END 0
#define FILE_WATCHES_LOST (-1) /* Linux lost events; call file_watches_list */
/* Returns the number of the watch of the next file that Linux freed. That watch no longer
 * exists. Returns FILE_WATCHES_END if no further file was freed, and FILE_WATCHES_LOST if events
 * were lost. */
int file_watches_next(struct file_watches *w);

struct file_watch_list {
    int *watches; /* owned, in ascending order; NULL: the list could not be read */
    size_t count;
};

/* Lists the watches that still exist, as /proc shows them. Takes about a millisecond for a thousand
 * watches. */
void file_watches_list(const struct file_watches *w, struct file_watch_list *ret_list);
bool file_watch_list_has(const struct file_watch_list *list, int watch);
void file_watch_list_done(struct file_watch_list *list);
