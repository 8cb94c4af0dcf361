/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The way into the engine that runs in a job's own process: what libkiln calls of
 * libkiln-embedded.so.0, or of the same code linked into the program (KILN_EMBED_BUILD).
 *
 * Role       one for a process, whatever the number of clients: a thread serves while there are
 *            connections; connections are sockets that speak kilnd's protocol
 * Ownership  descriptors returned are the caller's
 * Threading  any thread.  A child of fork has none of it: its own first connect begins anew
 */
#include "common/err.h"

#include <stddef.h>

/* Both sides must have the same, and be of the same release: structs and codes are shared. */
#define EMBEDDED_ENTRY_VERSION 1u
#define EMBEDDED_ENTRY_SYMBOL "kiln_embedded_entry"
#define EMBEDDED_TEXT_MOST 512

struct engine_data;
/* Of a program with the engine linked in: what was built into it (db/embed). */
__attribute__((visibility("default"))) extern const struct engine_data kiln_built_in;

struct embedded_options { /* all borrowed for the life of the process; zeros are the defaults */
    /* Where the library lies: kiln-compiler is looked for from there.  NULL: there is no library,
     * and kiln-compiler is looked for where it was to be installed. */
    const char *library_folder;
    /* Built into the program (engine/data/engine_data.h); NULL: nothing is. */
    const struct engine_data *data;
    bool memory;        /* no folder is used, no file opened to keep anything */
    bool no_compilers;  /* what is not there is not compiled */
    unsigned leader_ms; /* how long another process of this user may take to answer; 0: 5000 */
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
     * some seconds.  The options of the first call count.  Each one is to be let go of. */
    enum kiln_code (*connect)(const struct embedded_options *options, int *ret_fd,
                              struct kiln_err *err);
    /* A connection is closed.  With the last one what serves begins to end; it is not waited for.
     */
    void (*let_go)(void);
    /* Waits until that has ended: all that was answered is on disk then. */
    void (*settle)(void);
    void (*status)(struct embedded_status *ret_status);
};

/* Of the library, or of the program; in the former case found by dlsym. */
__attribute__((visibility("default"))) extern const struct embedded_entry kiln_embedded_entry;
