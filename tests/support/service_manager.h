/* SPDX-License-Identifier: MIT */
#pragma once

/* Emulates the parts of systemd that kilnd uses: a notify socket, a listening socket and a
 * descriptor store. A thread reads kilnd's notifications; only the test's thread may call the
 * functions. */
#include "tests/support/daemon_process.h"

#include <pthread.h>

#define KEPT_MAX 128

struct kept_fd {
    int fd; /* owned */
    char name[256];
};

struct service_manager_counts {
    uint64_t ready_ns;    /* time of the last READY=1 */
    uint64_t extended_us; /* total of EXTEND_TIMEOUT_USEC */
    unsigned ready, reloading, stopping, watchdog, status, stored, removed;
};

struct service_manager {
    struct daemon_process *daemon; /* borrowed */
    char path[160];
    int notify, listener; /* owned; |listener| is -1 if kilnd itself creates its socket */
    int wake[2];
    pthread_t thread;
    pthread_mutex_t mutex; /* protects the members below */
    struct kept_fd kept[KEPT_MAX];
    size_t kept_count;
    struct service_manager_counts counts;
    char status[256];
    unsigned settled, settling;
    /* value of the variable FDSTORE; NULL means not set, as before systemd 254 */
    const char *store_size;
    const char *watchdog_us;  /* value of WATCHDOG_USEC; NULL means not set */
    const char *watchdog_pid; /* value of WATCHDOG_PID; NULL means kilnd's pid */
};

/* Starts the manager, but not kilnd. If |with_socket| is true, the manager listens on kilnd's
 * socket and passes it to kilnd, like kilnd.socket. */
void service_manager_open(struct service_manager *m, struct daemon_process *daemon,
                          bool with_socket);
void service_manager_start(struct service_manager *m);
/* Waits until the manager's thread has read all notifications sent so far. */
void service_manager_settle(struct service_manager *m);
void service_manager_restart(struct service_manager *m, int signal);
struct service_manager_counts service_manager_counts(struct service_manager *m);
void service_manager_status(struct service_manager *m, char text[256]);
size_t service_manager_kept(struct service_manager *m, const char *prefix);
/* Stores |fd| under |name|, as if kilnd had sent it. Takes ownership of |fd|. */
void service_manager_put(struct service_manager *m, int fd, const char *name);
/* Closes all stored descriptors, like `systemctl stop`. */
void service_manager_forget(struct service_manager *m);
void service_manager_close(struct service_manager *m);
