/* SPDX-License-Identifier: MIT */
#ifndef KILN_CLIENT_H
#define KILN_CLIENT_H

/*
 * A client: one process's way to kilnd, with a table of what it already got.
 *
 * Threads  one client may be used by any number of threads at once.
 * Fork     a child must not use a client its parent opened: calls return KILN_E_INVALID there;
 *          kiln_client_close() is allowed and leaves the parent's connection alone.
 *          Kernels and plans obtained before the fork stay valid in the child.
 * Time     every call that may block takes a timeout in milliseconds, 0 meaning the client's
 *          default; when it passes, the call returns KILN_E_TIMED_OUT and the daemon is told to
 *          forget the request.  A negative one is KILN_E_INVALID.
 * Daemon   where none is there, or it is not for us (it refuses us, or is silent for as long as
 *          KILN_FALLBACK_PATIENCE says), a private daemon of this user serves,
 *          which is started where none runs (kiln_client_status tells), until one welcomes us; with
 * KILN_FALLBACK=off a client that never reached a daemon fails at once with KILN_E_UNAVAILABLE. One
 * that did waits for it to return, some seconds or, without fallback, until its time is up; a
 * daemon that returns in time is not noticed: what it had not answered, or put off because it was
 *          stopping, is asked again.
 * Files    a client has one or two descriptors.  A caller that closes descriptors it did not open
 *          loses no file of its own by that: the client connects again.  A socket of the caller's
 *          that took the number by then may get one request.
 * Signals  a daemon that goes away never raises SIGPIPE; calls interrupted by a handler go on.
 */
#include <kiln/error.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_client;

struct kiln_client_options {
    size_t size;             /* sizeof(struct kiln_client_options) */
    const char *socket_path; /* NULL: $KILN_SOCKET, else $XDG_RUNTIME_DIR/kiln/kilnd.sock where that
                                exists, else /run/kiln/kilnd.sock */
    int timeout_ms;          /* default for every call; 0: 120 000 */
    const char *name;        /* of the program, told to the daemon (not used yet); may be NULL */
    int table_entries;       /* answers that this process remembers; 0: 8192; negative: none */
    /* Where no daemon is there, or it is not for us: "private", a private daemon of this user;
     * "off", the error.  NULL: as $KILN_FALLBACK says, else "private".  With the engine linked in:
     * "embedded", which is it, or "off". */
    const char *fallback;
};

/* What serves: the host's daemon, the engine linked into the program (KILN_EMBED_BUILD), or a
 * private daemon of this user. */
enum {
    KILN_LEVEL_NONE = 0,
    KILN_LEVEL_DAEMON = 1,
    KILN_LEVEL_EMBEDDED = 2,
    KILN_LEVEL_PRIVATE = 3,
};

struct kiln_status {
    size_t size;           /* in: sizeof(struct kiln_status) */
    int level;             /* KILN_LEVEL_* of the last answer; NONE before the first */
    char socket_path[256]; /* where the daemon is looked for */
    char daemon[64];       /* version of what answered, "" when never reached */
    int daemon_pid;        /* its process, this one on the level EMBEDDED; 0: none */
    int role;              /* ours, as the daemon sees it: 0 use, 1 publish, 2 admin */
    char reason[512];      /* why the level is not DAEMON; "" when it is */
    uint64_t requests;     /* sent to the daemon */
    uint64_t reconnects;   /* after the first connection */
    uint64_t table_hits;   /* answered in this process */
    uint64_t table_entries;
};

/* Does not connect yet, so it does not fail when no daemon runs. */
int kiln_client_open(const struct kiln_client_options *options, struct kiln_client **ret_client,
                     struct kiln_error *err);
/* Accepts NULL.  Kernels and plans already handed out stay valid. */
void kiln_client_close(struct kiln_client *client);

/* Asks the daemon for a sign of life; |ret_ns| (may be NULL) receives the round trip. */
int kiln_client_ping(struct kiln_client *client, int timeout_ms, uint64_t *ret_ns,
                     struct kiln_error *err);
/* Which level served, and how much; never blocks. */
int kiln_client_status(struct kiln_client *client, struct kiln_status *ret_status,
                       struct kiln_error *err);

/* "0.1.0": of this library. */
const char *kiln_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
