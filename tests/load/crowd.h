/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Many clients of one kilnd at once. Some of them misbehave.
 *
 * Role       connects all clients, makes all of them send requests at once, and checks every answer
 * Ownership  crowd_close frees everything
 * Threading  one thread makes the calls; each client is a thread, but a KILLED client is a process
 */
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
    atomic_uint joined;   /* number of clients that are connected and wait for the start */
    atomic_uint ready;    /* number of KILLED clients in the middle of a request */
    atomic_uint answered; /* number of correct kernels that BEHAVING and SLOW clients received */
    atomic_uint late;     /* number of kernels that STALLED clients received */
    atomic_uint early;    /* number of kernels that KILLED clients received */
    atomic_uint attacks;
    atomic_uint cut_off; /* number of STALLED clients whose connection kilnd closed */
    atomic_uint wrong;   /* number of wrong or missing answers */
    char why[512];       /* message of the first wrong answer */
};

struct crowd_member {
    struct crowd *crowd;
    unsigned index; /* number among the clients of its kind */
    enum client_kind kind;
    pid_t pid; /* for a KILLED client */
    pthread_t thread;
};

struct crowd {
    const char *socket; /* borrowed */
    unsigned clients, kernels;
    unsigned first, pool; /* the kernels that all clients request are first .. first + pool - 1 */
    unsigned count_of[CLIENT_KINDS]; /* number of clients of each kind */
    uint64_t *hashes;                /* owned: expected hashes of the pool's kernels */
    /* pipes: closing |gate| lets clients continue, closing |late| lets STALLED clients continue */
    int gate[2], late[2];
    struct crowd_counts *counts;
    struct crowd_member *members; /* owned */
};

/* If root runs the test, HOSTILE clients have this uid, which has no role. Otherwise all clients
 * have the same user. */
#define CROWD_HOSTILE 45002u

/* Connects all clients. Returns when all are connected; otherwise fails the test. */
void crowd_open(struct crowd *crowd, const char *socket, unsigned clients, unsigned kernels,
                unsigned first);
/* Starts the requests. Returns when all clients are served or killed. */
void crowd_run(struct crowd *crowd);
void crowd_close(struct crowd *crowd);

/* The body of a client's thread or process. */
void crowd_run_member(struct crowd_member *member);
/* Returns the number of the client's |i|-th kernel. */
unsigned crowd_kernel(const struct crowd_member *member, unsigned i);
/* Counts a wrong answer and keeps the first message. */
void crowd_fail(struct crowd *crowd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Time limit for one answer, or for the other clients. It is long enough for sanitizers on a loaded
 * machine. */
#define CROWD_WAIT_MS 300000
/* Blocks until the other end of |fd| is closed. */
void crowd_wait_for_close(struct crowd *crowd, int fd);
/* Blocks until crowd_run starts the requests. */
void crowd_wait_for_start(struct crowd *crowd);
/* Number of kernels of a KILLED client that no other client requests. */
#define CROWD_PRIVATE_KERNELS 3u
