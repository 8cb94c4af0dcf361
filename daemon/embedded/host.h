/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The thread in a job's process that serves: what kilnd's process is to kilnd.
 *
 * Role       leads where it can (listens for the user's other processes, keeps the private store),
 *            else serves this process alone from memory; takes connections and the word to stop by
 *            a control socket
 * Ownership  borrows what the options point to until it has returned
 * Threading  embedded_host_run is the whole of a thread's life; that thread and those which it
 *            starts have a table of descriptors of their own: a child that the job forks has none
 *            of them (no lock, no listening socket, no client's connection outlives us in it), and
 *            the job may close what it likes
 */
#include "common/embedded_entry.h"
#include "daemon/embedded/places.h"

#include <sys/types.h>

enum embedded_word { EMBEDDED_WORD_CONNECTION = 'c', EMBEDDED_WORD_STOP = 's' };

struct embedded_news {
    enum { HOST_LEADS, HOST_MEMORY, HOST_IS_LED, HOST_FAILED, HOST_HAS_NO_ROOM } what;
    bool own_files;      /* the table is its own: this process has its end of |control| still */
    const char *why;     /* borrowed; not of HOST_LEADS and HOST_IS_LED; "": it was asked for */
    enum kiln_code code; /* of HOST_FAILED and HOST_HAS_NO_ROOM */
};

struct embedded_host_options {
    const struct embedded_options *options;
    const struct embedded_places *places;
    int control; /* SOCK_SEQPACKET; taken */
    /* Its own: until there is a table of its own, the job may close it, and have another at that
     * number.  Then HOST_FAILED with KILN_UNAVAILABLE, and that one is left alone. */
    ino_t control_inode;
    bool is_orphan; /* SQLite is not to be touched, nor is any package; in memory alone */
    /* On the host's thread.  Once before it serves; a second time where it could not as it said.
     * HOST_IS_LED: somebody else leads, and it has ended.  HOST_HAS_NO_ROOM: it serves on, but a
     * connection that it was given is gone. */
    void (*tell)(const struct embedded_news *news);
    void (*trouble)(const char *text); /* any of its threads */
};

/* Whether |fd| is that socket still; negative: it is not. */
bool embedded_is_still(int fd, ino_t inode);
/* Returns when told to stop and all is closed. */
void embedded_host_run(const struct embedded_host_options *options);
