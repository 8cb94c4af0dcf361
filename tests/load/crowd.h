/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Many clients of one kilnd at once. Some of them misbehave.
 *
 * Role       connects all clients, lets all send requests at once, and checks every answer
 * Ownership  crowd_close frees everything
 * Threading  one thread calls; each client is a thread, but a KILLED client is a process
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum client_kind {
    BEHAVING, /* uses libkiln: single requests or a batch */
    KILLED,   /* killed in the middle of a request */
    SLOW,     /* sends all requests at once, reads one byte at a time */
    STALLED,  /* sends as many requests as kilnd accepts, reads nothing until the others are served
               */
    HOSTILE,  /* sends garbage and invalid requests */
    CLIENT_KINDS
};

struct crowd_counts {     /* in shared memory */
    atomic_uint joined;   /* clients that are connected and wait for the start */
    atomic_uint ready;    /* KILLED clients in the middle of a request */
    atomic_uint answered; /* correct kernels received by BEHAVING and SLOW clients */
    atomic_uint late;     /* kernels received by STALLED clients */
    atomic_uint early;    /* kernels received by KILLED clients */
    atomic_uint attacks;
    atomic_uint cut_off; /* STALLED clients whose connection kilnd closed */
    atomic_uint wrong;   /* wrong or missing answers */
    char why[512];       /* message of the first */
};

struct crowd_member {
    struct crowd *crowd;
    unsigned index; /* among the clients of its kind */
    enum client_kind kind;
    pid_t pid; /* DYING */
    pthread_t thread;
};

struct crowd {
    const char *socket; /* borrowed */
    unsigned clients, kernels;
    unsigned first, pool;            /* all clients request kernels first .. first + pool - 1 */
    unsigned count_of[CLIENT_KINDS]; /* how many clients */
    uint64_t *hashes;                /* owned: expected hashes of the pool's kernels */
    int gate[2], late[2]; /* pipes whose closing lets clients, or STALLED clients, go on */
    struct crowd_counts *counts;
    struct crowd_member *members; /* owned */
};

/* The user of HOSTILE clients if root runs the test. That user has no role. Otherwise all clients
 * have one user. */
#define CROWD_HOSTILE 45002u

/* Connects all clients. Returns when all are connected, or fails the test. */
void crowd_open(struct crowd *crowd, const char *socket, unsigned clients, unsigned kernels,
                unsigned first);
/* Starts the requests. Returns when all clients are served or killed. */
void crowd_run(struct crowd *crowd);
void crowd_close(struct crowd *crowd);

/* The body of a client's thread or process. */
void crowd_run_member(struct crowd_member *member);
/* The number of the client's |i|-th kernel. */
unsigned crowd_kernel(const struct crowd_member *member, unsigned i);
/* Counts a wrong answer and keeps the first message. */
void crowd_fail(struct crowd *crowd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define CROWD_WAIT_MS 300000 /* for one answer, or for the other clients: sanitizers under load */
/* Blocks until the other end of |fd| is closed. */
void crowd_wait_for_close(struct crowd *crowd, int fd);
/* Blocks until crowd_run starts the requests. */
void crowd_wait_for_start(struct crowd *crowd);
/* How many kernels a KILLED client requests that no other client does. */
#define CROWD_PRIVATE_KERNELS 3u
