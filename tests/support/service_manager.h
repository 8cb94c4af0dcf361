/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What kilnd needs of systemd, in a test: a notify socket, a listening socket, a descriptor store.
 *
 * Role       starts kilnd with LISTEN_FDS and NOTIFY_SOCKET, listens to what it says, keeps what it
 *            gives, hands that to the next one
 * Ownership  owns its sockets and what it keeps; kilnd is the daemon_process's
 * Threading  a thread of its own listens; calls are the test's thread's
 */
#include "tests/support/daemon_process.h"

#include <pthread.h>

#define KEPT_MAX 128

struct kept_fd {
    int fd; /* owned */
    char name[256];
};

struct service_manager_counts { /* of messages */
    uint64_t ready_ns;          /* when the last one came */
    uint64_t extended_us;       /* by EXTEND_TIMEOUT_USEC */
    unsigned ready, reloading, stopping, watchdog, status, stored, removed;
};

struct service_manager {
    struct daemon_process *daemon; /* borrowed */
    char path[160];                /* of the notify socket */
    int notify, listener;          /* owned; listener: -1 where kilnd makes its own */
    int wake[2];
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    struct kept_fd kept[KEPT_MAX];
    size_t kept_count;
    struct service_manager_counts counts;
    char status[256];
    unsigned settled, settling;
    /* Read when kilnd is started. */
    const char *store_size;   /* FDSTORE; NULL: as before systemd 254 */
    const char *watchdog_us;  /* WATCHDOG_USEC; NULL: none */
    const char *watchdog_pid; /* NULL: kilnd's */
};

/* |with_socket|: the manager makes the socket that kilnd listens on, as kilnd.socket does. */
void service_manager_open(struct service_manager *m, struct daemon_process *daemon,
                          bool with_socket);
/* Starts kilnd and waits until it says READY=1. */
void service_manager_start(struct service_manager *m);
/* Waits until all that was sent before has been read. */
void service_manager_settle(struct service_manager *m);
/* SIGTERM or SIGKILL, then the next one. */
void service_manager_restart(struct service_manager *m, int signal);
struct service_manager_counts service_manager_counts(struct service_manager *m);
/* The last STATUS=. */
void service_manager_status(struct service_manager *m, char text[256]);
/* How many descriptors are kept under names that begin so. */
size_t service_manager_kept(struct service_manager *m, const char *prefix);
/* As if kilnd had given it: takes |fd|. */
void service_manager_put(struct service_manager *m, int fd, const char *name);
/* What is kept goes, as with systemctl stop. */
void service_manager_forget(struct service_manager *m);
void service_manager_close(struct service_manager *m);
