/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Warm-up: compiler processes load libraries before clients' sources, which each get a process
 * alone.
 *
 * Role       remembers which libraries sources needed and how many sources came at once.  Makes a
 *            job that loads them: kiln's own one-line kernel
 * Ownership  a warm-up is part of its process's struct worker, and its task points into it
 * Threading  the loop's thread
 */
#include "common/protocol/limits.h"
#include "engine/jobs/executor.h"

#define TOOLCHAIN_NAME_MAX 16

struct warmup { /* the warm-up of one process */
    struct compile_task task;
    char toolchain[TOOLCHAIN_NAME_MAX];
    char target[LIMIT_TARGET_TEXT];
};

struct warmup_need {
    char toolchain[TOOLCHAIN_NAME_MAX]; /* of the last source; "": none is known */
    char target[LIMIT_TARGET_TEXT];
    struct digest toolchain_id;
    uint64_t
        window_ns; /* set by the owner: length of a window; a need is forgotten after two at most */
    uint64_t since_ns; /* when this window began */
    unsigned most,
        concurrent_max_before; /* most concurrent sources in this window and in the previous one */
    char failed[TOOLCHAIN_NAME_MAX]; /* toolchain of the last warm-up that failed */
    struct digest failed_id;         /* likewise */
    uint64_t failed_ns;              /* time of that failure; 0: none failed */
};

/* Records that a client's source starts; |under_way| sources, with this one, now run at once. Call
 * it only for a target that the compiler is known to support. Otherwise the compiler may abort in
 * every process that warms up for the target. */
void warmup_note(struct warmup_need *need, const struct compile_job *job, unsigned under_way,
                 uint64_t now_ns);
/* How many processes to keep warm.  0 if nothing is needed, or if a warm-up failed within the
 * last window; else at least 1. */
unsigned warmup_wanted(struct warmup_need *need, uint64_t now_ns);
/* Records that |p| failed: its compiler is not loaded in advance again for one window. Otherwise
 * warm-ups might kill one process after another and delay the jobs that wait for them. */
void warmup_failed(struct warmup_need *need, const struct warmup *p, uint64_t now_ns);
/* The warm-up could not start, or lacked a resource temporarily.  Waits until another source
 * needs it. */
void warmup_put_off(struct warmup_need *need);
/* Fills |ret_warmup|.  Call it only when warmup_wanted is not 0. */
void warmup_make(const struct warmup_need *need, struct warmup *ret_warmup);
