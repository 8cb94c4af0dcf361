/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Warm-up: compiler processes load libraries before they get a client's source.  Each client's
 * source needs a process that has run no other source.
 *
 * Role       remembers which libraries sources needed, and how many sources came at the same time.
 *            Creates the job that loads the libraries: kiln's own one-line kernel
 * Ownership  a warm-up is part of its process's struct worker, and the warm-up's task points into
 *            the warm-up
 * Threading  the loop's thread
 */
#include "common/protocol/limits.h"
#include "engine/jobs/executor.h"

#define TOOLCHAIN_NAME_MAX 16

struct warmup {
    struct compile_task task;
    char toolchain[TOOLCHAIN_NAME_MAX];
    char target[LIMIT_TARGET_TEXT];
};

struct warmup_need {
    char toolchain[TOOLCHAIN_NAME_MAX]; /* "" if there was no source */
    char target[LIMIT_TARGET_TEXT];
    struct digest toolchain_id;
    /* Length of a window, set by the owner.  After two windows without a source, only one worker is
     * kept warm. */
    uint64_t window_ns;
    uint64_t since_ns;
    /* Maximum number of concurrent sources in the current window, and in the previous one. */
    unsigned concurrent_max, concurrent_max_before;
    char failed[TOOLCHAIN_NAME_MAX]; /* the compiler whose warm-up failed last */
    struct digest failed_id;
    uint64_t failed_ns;
};

/* Records the needs of |job|'s source.  |under_way| sources run now, including this one.  Call it
 * only for a target that the compiler is known to support.  Otherwise the compiler may abort in
 * every process that warms up for the target. */
void warmup_note(struct warmup_need *need, const struct compile_job *job, unsigned under_way,
                 uint64_t now_ns);
/* Returns how many processes to keep warm; 0 if nothing is needed, or if a warm-up failed within
 * the last window. */
unsigned warmup_wanted(struct warmup_need *need, uint64_t now_ns);
/* Stops warm-ups for the toolchain of |p| for one window.  Without this pause, warm-ups might kill
 * one process after another, and delay the jobs that wait for these processes. */
void warmup_failed(struct warmup_need *need, const struct warmup *p, uint64_t now_ns);
/* Postpones a warm-up that could not start, or that temporarily lacked a resource, until another
 * source needs the warm-up. */
void warmup_put_off(struct warmup_need *need);
/* Call it only if warmup_wanted does not return 0. */
void warmup_make(const struct warmup_need *need, struct warmup *ret_warmup);
