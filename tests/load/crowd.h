/* SPDX-License-Identifier: MIT */
#pragma once

/* Many clients of one kilnd at once. Some of them misbehave. Each client is a thread, but a
 * KILLED client is a process. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum client_kind {
    BEHAVING, /* uses libkiln: single requests or a batch */
    KILLED,   /* killed in the middle of a request */
    SLOW,     /* sends all requests at once, and reads one byte at a time */
    /* sends as many requests as kilnd accepts, and reads nothing until the others are served */
    STALLED,
    HOSTILE, /* sends garbage and invalid requests */
    CLIENT_KINDS
};

struct crowd_counts {     /* in shared memory */
    atomic_uint joined;   /* clients that are connected and wait for the start */
    atomic_uint ready;    /* KILLED clients in the middle of a request */
    atomic_uint answered; /* correct kernels that BEHAVING and SLOW clients received */
    atomic_uint late;     /* kernels that STALLED clients received */
    atomic_uint early;    /* kernels that KILLED clients received */
    atomic_uint attacks;
    atomic_uint cut_off; /* number of STALLED clients whose connection kilnd closed */
    atomic_uint wrong;   /* number of wrong or missing answers */
    char why[512];       /* message of the first wrong answer */
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
    unsigned first, pool; /* the kernels that all clients request are first .. first + pool - 1 */
    unsigned count_of[CLIENT_KINDS];
    uint64_t *hashes; /* owned: expected hashes of the pool's kernels */
    /* pipes: closing |gate| lets clients continue, closing |late| lets STALLED clients continue */
    int gate[2], late[2];
    struct crowd_counts *counts;
    struct crowd_member *members; /* owned */
};

/* If root runs the test, HOSTILE clients have this uid, which has no role. Otherwise all clients
 * have the same user. */
#define CROWD_HOSTILE 45002u

/* Returns when all clients are connected. Otherwise fails the test. */
void crowd_open(struct crowd *crowd, const char *socket, unsigned clients, unsigned kernels,
                unsigned first);
/* Returns when all clients are served or killed. */
void crowd_run(struct crowd *crowd);
void crowd_close(struct crowd *crowd);

void crowd_run_member(struct crowd_member *member);
unsigned crowd_kernel(const struct crowd_member *member, unsigned i);
void crowd_fail(struct crowd *crowd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Time limit for one answer, or for the other clients. The limit is long enough for sanitizers on a
 * loaded machine. */
#define CROWD_WAIT_MS 300000
void crowd_wait_for_close(struct crowd *crowd, int fd);
void crowd_wait_for_start(struct crowd *crowd);
/* Number of kernels of a KILLED client that no other client requests. */
#define CROWD_PRIVATE_KERNELS 3u
