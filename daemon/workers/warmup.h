/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What compiler processes do ahead of clients' sources, each of which gets a process of its own.
 *
 * Role       remembers what they need, and for how many; makes the job that loads it: a kernel of
 *            one line, which is kiln's own, so that a source finds the libraries loaded
 * Ownership  a preparation lies in its process's struct worker, and its task points into it
 * Threading  the loop's thread
 */
#include "common/limits.h"
#include "engine/jobs/executor.h"

#define TOOLCHAIN_NAME_MAX 16

struct warmup { /* of one process */
    struct compile_task task;
    char toolchain[TOOLCHAIN_NAME_MAX];
    char target[LIMIT_TARGET_TEXT];
};

struct warmup_need {
    char toolchain[TOOLCHAIN_NAME_MAX]; /* of the last source; "": none is known */
    char target[LIMIT_TARGET_TEXT];
    struct digest toolchain_id;
    uint64_t window_ns;         /* the owner's: for so long, and once more at most, it counts */
    uint64_t since_ns;          /* when this window began */
    unsigned most, most_before; /* sources under way at once, in this window, in the one before */
    char failed[TOOLCHAIN_NAME_MAX]; /* what the last preparation that failed was to load */
    struct digest failed_id;         /* likewise */
    uint64_t failed_ns;              /* when; 0: none has */
};

/* A client's source is begun, as one of |under_way|.  Only for a target that the compiler is known
 * to build for: what it would abort on ends every process that prepares for it. */
void warmup_note(struct warmup_need *need, const struct compile_job *job, unsigned under_way,
                 uint64_t now_ns);
/* How many processes are to be kept prepared: 0 where nothing is needed, or where that failed less
 * than a window ago; else 1 at least. */
unsigned warmup_wanted(struct warmup_need *need, uint64_t now_ns);
/* |p| failed: its compiler is not loaded ahead again for a window, whatever comes meanwhile.  It
 * might end process after process, and hold up who waits for one of them each time. */
void warmup_failed(struct warmup_need *need, const struct warmup *p, uint64_t now_ns);
/* It could not be begun, or lacked what may be there again: not before another source needs it. */
void warmup_put_off(struct warmup_need *need);
/* Fills |ret_warmup|; only where something is needed. */
void warmup_make(const struct warmup_need *need, struct warmup *ret_warmup);
