/* SPDX-License-Identifier: MIT */
#pragma once

/* Many clients that use one kilnd at the same time. Some of them misbehave. Clients are threads,
 * except that each KILLED client is a process. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum client_kind {
    BEHAVING, /* uses libkiln, for single requests or a batch */
    KILLED,   /* killed in the middle of a request */
    SLOW,     /* sends all requests at once, then reads one byte at a time */
    /* sends as many requests as kilnd accepts, and reads nothing until the BEHAVING and SLOW
     * clients are served */
    STALLED,
    HOSTILE, /* sends garbage and invalid requests */
    CLIENT_KINDS
};

struct crowd_counts {   /* in shared memory */
    atomic_uint joined; /* number of clients that are connected and wait at |gate| */
    /* number of KILLED clients that have stopped in the middle of a request and can be killed */
    atomic_uint ready;
    atomic_uint answered; /* number of correct kernels that BEHAVING and SLOW clients received */
    atomic_uint late;     /* number of correct kernels that STALLED clients received */
    atomic_uint early;    /* number of correct kernels that KILLED clients received */
    atomic_uint attacks;
    atomic_uint cut_off; /* number of STALLED clients whose connection kilnd closed */
    atomic_uint wrong;   /* number of wrong or missing answers */
    char why[512];       /* what was wrong with the first wrong answer */
};

struct crowd_member {
    struct crowd *crowd;
    unsigned index;
    enum client_kind kind;
    pid_t pid; /* process id of a KILLED client */
    pthread_t thread;
};

struct crowd {
    const char *socket; /* borrowed */
    unsigned clients, kernels;
    /* all clients request kernels with the numbers first .. first + pool - 1 */
    unsigned first, pool;
    unsigned count_of[CLIENT_KINDS];
    uint64_t *hashes; /* owned: expected hashes of the pool's kernels */
    /* Two pipes. Closing |gate| starts the clients. Closing |late| makes the STALLED clients
     * read. */
    int gate[2], late[2];
    struct crowd_counts *counts;
    struct crowd_member *members; /* owned */
};

/* User id of the HOSTILE clients if root runs the test; this user has no special rights. Otherwise
 * all clients have the user who runs the test. */
#define CROWD_HOSTILE 45002u

/* Creates the clients and returns when all are connected. If one cannot connect, the test fails. */
void crowd_open(struct crowd *crowd, const char *socket, unsigned clients, unsigned kernels,
                unsigned first);
/* Starts the clients and returns when all are served or killed. */
void crowd_run(struct crowd *crowd);
void crowd_close(struct crowd *crowd);

void crowd_run_member(struct crowd_member *member);
unsigned crowd_kernel(const struct crowd_member *member, unsigned i);
void crowd_fail(struct crowd *crowd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* How long a client waits for one answer or for the other clients. Long enough for sanitizers on a
 * loaded machine. */
#define CROWD_WAIT_MS 300000
void crowd_wait_for_close(struct crowd *crowd, int fd);
void crowd_wait_for_start(struct crowd *crowd);
/* Number of kernels that each KILLED client requests; no other client requests them. */
#define CROWD_PRIVATE_KERNELS 3u
