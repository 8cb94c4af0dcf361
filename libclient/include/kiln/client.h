/* SPDX-License-Identifier: MIT */
#ifndef KILN_CLIENT_H
#define KILN_CLIENT_H

/*
 * A client: a process's connection to kilnd, with an in-process cache of answers.
 *
 * Ownership  The caller closes a client with kiln_client_close.
 * Threads    Any number of threads may use one client at once.
 * Fork       A child process must not use a client that its parent opened: calls return
 *            KILN_E_INVALID. kiln_client_close() is allowed in the child and leaves the parent's
 *            connection alone.  Kernels and plans obtained before the fork stay valid in the child.
 * Time       Every call that may block has a time-out, |timeout_ms|, in milliseconds.  The time-out
 *            is a member of the call's options struct, or a parameter if the call has no such
 *            struct. 0 means the client's default.  A negative value is KILN_E_INVALID, except
 *            where <kiln/admin.h> gives it a meaning.  When the time is up, the call returns
 *            KILN_E_TIMED_OUT and cancels the request at the daemon.
 * Daemon     A private daemon of this user serves the client in three cases: no daemon of the host
 *            is running, the host's daemon rejects this user, or the host's daemon does not answer
 *            within the time KILN_FALLBACK_PATIENCE. libkiln starts the private daemon if none is
 *            running.  The client goes back to the host's daemon as soon as that daemon accepts the
 *            client; kiln_client_status reports which daemon serves.  With KILN_FALLBACK=off, a
 *            client that has never reached a daemon fails at once with KILN_E_UNAVAILABLE.  A
 *            client that has reached a daemon before waits some seconds for that daemon to return,
 *            or for the whole time-out with KILN_FALLBACK=off.  If the daemon returns in time,
 *            calls succeed: libkiln sends unanswered requests again, and also the requests that
 *            the stopping daemon rejected.
 * Files      A client has one or two descriptors.  Closing descriptors that the caller did not open
 *            is safe: the client reconnects.  But if the caller then opens a socket that gets the
 *            same descriptor number, this socket may receive one request.
 * Signals    A daemon that exits never causes SIGPIPE.  Calls continue after a signal handler
 *            returns.
 */
#include <kiln/error.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_client;

struct kiln_client_options {
    size_t size;
    /* NULL: $KILN_SOCKET, else $XDG_RUNTIME_DIR/kiln/kilnd.sock if that exists, else
     * /run/kiln/kilnd.sock. */
    const char *socket_path;
    int timeout_ms; /* default for every call; 0: 120 000 */
    /* the program's name, which is sent to the daemon but not used yet; may be NULL */
    const char *name;
    /* Number of answers that the in-process cache may hold; 0: 8192; negative: no cache. */
    int cache_entries;
    /* What to do if no daemon is running or the daemon rejects this user.  "private": use a private
     * daemon of this user; "off": fail.  A program with the engine linked in has other values:
     * "embedded" (use the linked engine) or "off".  NULL means the value of $KILN_FALLBACK, else
     * "private" (or "embedded"). */
    const char *fallback;
};

/* What serves the client: the host's daemon, the engine linked into the program (KILN_EMBED_BUILD),
 * or a private daemon of this user. */
enum {
    KILN_LEVEL_NONE = 0,
    KILN_LEVEL_DAEMON = 1,
    KILN_LEVEL_EMBEDDED = 2,
    KILN_LEVEL_PRIVATE = 3,
};

struct kiln_status {
    size_t size;
    int level; /* KILN_LEVEL_* of the server that answered last; NONE before the first answer */
    char socket_path[256]; /* where the client looks for the daemon */
    char daemon[64]; /* version of the server that answered last; "" before the first answer */
    /* Process id of the server that answered last, or of this process on level EMBEDDED; 0:
     * none. */
    int daemon_pid;
    int role; /* the caller's role, according to the daemon: 0 use, 1 publish, 2 admin */
    /* why the client does not use the host's daemon; "" if the client uses that daemon */
    char reason[512];
    uint64_t requests; /* number of requests sent to the daemon */
    uint64_t reconnects;
    uint64_t cache_hits; /* number of requests answered from the in-process cache */
    uint64_t cache_entries;
};

/* Creates a client.  Does not connect yet, so the call succeeds even if no daemon is running. */
int kiln_client_open(const struct kiln_client_options *options, struct kiln_client **ret_client,
                     struct kiln_error *err);
/* Accepts NULL.  Kernels and plans obtained from the client stay valid.  After a find with
 * KILN_FIND_SOON (<kiln/conv.h>), first waits until the client's thread has ended. */
void kiln_client_close(struct kiln_client *client);

/* Checks that the daemon answers; |ret_ns| (may be NULL) receives the round-trip time. */
int kiln_client_ping(struct kiln_client *client, int timeout_ms, uint64_t *ret_ns,
                     struct kiln_error *err);
/* Reports what serves the client, with counters; never blocks. */
int kiln_client_status(struct kiln_client *client, struct kiln_status *ret_status,
                       struct kiln_error *err);

/* Returns this library's version, such as "0.1.0". */
const char *kiln_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
