/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The way into the engine that runs in a job's own process: what libkiln calls of
 * libkiln-embedded.so.0.
 *
 * Role       one for a process, whatever the number of clients: a thread serves while there are
 *            connections; connections are sockets that speak kilnd's protocol
 * Ownership  descriptors returned are the caller's
 * Threading  any thread.  A child of fork has none of it, and its own first connect begins anew;
 *            where what it was forked from served, it follows others or keeps all in memory
 */
#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

/* Both sides must have the same, and be of the same release: structs and codes are shared. */
#define EMBEDDED_ENTRY_VERSION 2u
#define EMBEDDED_ENTRY_SYMBOL "kiln_embedded_entry"
#define EMBEDDED_TEXT_MOST 512

struct engine_data;

struct embedded_options { /* all borrowed for the life of the process; zeros are the defaults */
    /* Where the library lies: kiln-compiler is looked for from there.  NULL: there is no library,
     * and kiln-compiler is looked for where it was to be installed. */
    const char *library_folder;
    /* Built into the program (engine/data/engine_data.h); NULL: nothing is. */
    const struct engine_data *data;
    bool memory;       /* no folder is used, no file opened to keep anything */
    bool no_compilers; /* what is not there is not compiled */
    /* Flags of kilnd's that count here too, "--workers", "2" and so on, ended by NULL; the folders
     * and the socket are not among them.  NULL: none. */
    const char *const *settings;
    unsigned leader_ms; /* how long another process of this user may take to answer; 0: 5000 */
    /* Of this call alone (clock_monotonic_ns): until when it may wait; 0: for as long as it takes.
     */
    uint64_t deadline_ns;
};

enum embedded_role {
    EMBEDDED_UNUSED,  /* no connection was asked for yet */
    EMBEDDED_LEADS,   /* this process keeps the user's private store */
    EMBEDDED_FOLLOWS, /* another one of this user's does, and serves this one */
    EMBEDDED_MEMORY,  /* this process serves itself alone and keeps nothing; |why| */
};

struct embedded_status {
    enum embedded_role role;
    char folder[EMBEDDED_TEXT_MOST]; /* of the store; "" where there is none */
    char why[EMBEDDED_TEXT_MOST]; /* it is in memory alone; "" when it is not, or was asked for */
    char trouble[EMBEDDED_TEXT_MOST]; /* the last that went wrong within; "" */
};

struct embedded_entry {
    unsigned version;    /* EMBEDDED_ENTRY_VERSION */
    const char *release; /* KILN_VERSION */
    /* A connected stream socket, close-on-exec and non-blocking; may wait for another process for
     * some seconds.  The options of the first call count.  Each one is to be let go of.
     * KILN_TIMED_OUT: it was not to be had by the deadline; what was begun for it goes on. */
    enum kiln_code (*connect)(const struct embedded_options *options, int *ret_fd,
                              struct kiln_err *err);
    /* A connection is closed.  With the last one what serves begins to end; it is not waited for.
     */
    void (*let_go)(void);
    /* Waits until that has ended: all that was answered is on disk then.  An engine that does not
     * end is left alone after twelve times |leader_ms|. */
    void (*settle)(void);
    void (*status)(struct embedded_status *ret_status);
    /* Whether the process that serves this one by its connections still answers; false once it has
     * not for |ms|, asked in one call or in several: it is not asked any more then, and this
     * process serves itself from now on. */
    bool (*answers)(unsigned ms, uint64_t deadline_ns);
};

/* Of the library, found by dlsym. */
__attribute__((visibility("default"))) extern const struct embedded_entry kiln_embedded_entry;
