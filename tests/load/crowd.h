/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Many clients of one kilnd at once, of which some behave and some do not.
 *
 * Role       connects all of them, lets them all ask at once, and judges each answer that comes
 * Ownership  crowd_close ends what was started
 * Threading  one thread calls; a client is a thread, or a process where it is to be killed
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum manner {
    RIGHT,   /* libkiln's: one by one, or as a batch */
    DYING,   /* killed in the middle of a request */
    SIPPING, /* asks for all at once, reads a byte at a time */
    MUTE,    /* asks for as much as kilnd takes, reads nothing until the others are served */
    HOSTILE, /* sends what is no request, or none that makes sense */
    MANNERS
};

struct crowd_counts {     /* in memory that the processes share */
    atomic_uint joined;   /* connected, and waiting for the others */
    atomic_uint ready;    /* dying ones in the middle of it */
    atomic_uint answered; /* kernels that came and were right: of right and sipping ones */
    atomic_uint late;     /* the same of mute ones */
    atomic_uint early;    /* the same of dying ones */
    atomic_uint attacks;
    atomic_uint cut_off; /* mute ones whose connection kilnd has closed */
    atomic_uint wrong;   /* answers that were not right, or did not come */
    char why[512];       /* of the first */
};

struct crowd_member {
    struct crowd *crowd;
    unsigned index; /* among those of its manner */
    enum manner manner;
    pid_t pid; /* DYING */
    pthread_t thread;
};

struct crowd {
    const char *socket; /* borrowed */
    unsigned clients, kernels;
    unsigned first, pool; /* the kernels that all ask for: first .. first + pool - 1 */
    unsigned of[MANNERS]; /* how many clients */
    uint64_t *hashes;     /* owned: of the pool's kernels */
    int gate[2], late[2]; /* closed when they may go on */
    struct crowd_counts *counts;
    struct crowd_member *members; /* owned */
};

/* Who the hostile ones are, where root runs this: a user of no role.  Else all are one user. */
#define CROWD_HOSTILE 45002u

/* Connects all; returns when they are there, or the test fails. */
void crowd_open(struct crowd *crowd, const char *socket, unsigned clients, unsigned kernels,
                unsigned first);
/* Lets them ask; returns when all were served, or killed. */
void crowd_run(struct crowd *crowd);
void crowd_close(struct crowd *crowd);

/* A dying client's process and the others' threads, by manner. */
void crowd_live(struct crowd_member *member);
/* The member's |i|-th kernel, a number. */
unsigned crowd_kernel(const struct crowd_member *member, unsigned i);
/* Counts a wrong answer and keeps the first one's sentence. */
void crowd_complain(struct crowd *crowd, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Until all are there. */
void crowd_wait(struct crowd *crowd);
/* How many different kernels a dying client asks for that nobody else does. */
#define CROWD_OWN_KERNELS 3u
