/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What soon.c, which serves the job, and soon_thread.c, which looks for better plans, share.
 *
 * Role       the watched problems of a client, with their best plans and stages
 * Ownership  soon.c creates and frees both structs
 * Threading  as the comments of the members say; other members do not change after the creation
 */
#include "libclient/conv/follow.h"
#include "libclient/conv/pace.h"
#include "libclient/conv/soon.h"

#include <pthread.h>

enum stage { STAGE_FIND, STAGE_TUNE, STAGE_TUNED };

struct soon_watch {
    struct list_link link;
    struct soon *soon;
    struct kiln_problem problem;
    struct problem wire;
    /* |device| is a counted reference; texts are owned */
    struct kiln_conv_options options;
    /* used only by the thread */
    unsigned attempts;
    double found_ms;   /* time of the fastest solver; 0 before the problem is found */
    bool is_postponed; /* another process measured the problem when the thread asked last */
    bool is_outdated;  /* the problem's records may have changed since the thread compared them */
    unsigned replacements; /* number of vain attempts to replace the problem's generic plan */
    bool by_heuristic;     /* the plan that the records choose instead does not compile */
    /* The members below are guarded by the lock. */
    struct kiln_plan *plan; /* owned: the best plan so far */
    enum stage stage;
    unsigned finds; /* how often the job has found the problem, for example once for each layer */
};

struct soon {
    struct list_link link;      /* in the list |living| */
    struct kiln_client *client; /* borrowed */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* the thread has work, or must end */
    struct list watches;
    unsigned count;
    struct pace pace;
    struct follow follow; /* used only by the thread */
    bool has_thread;      /* false when the thread was joined */
    pthread_t thread;
    atomic_ulong generation;
};

/* Returns whether both options measure and record in the same way.  Time limits may differ. */
bool soon_is_same_work(const struct kiln_conv_options *a, const struct kiln_conv_options *b);
/* Publishes the plan that was chosen instead of |incumbent|, and moves on to the next stage. |plan|
 * is NULL if there is none.  Drops |plan| if the records have replaced |incumbent| meanwhile: they
 * contain what was measured, and the thread compares them again. */
void soon_publish(struct soon_watch *watch, struct kiln_plan *plan,
                  const struct kiln_plan *incumbent, enum stage next);
/* Replaces generic plans by those for which they stand in, and waits until their kernels are
 * compiled.  Returns false if there is no plan to replace.  Call it on the thread. */
bool soon_replace_generic(struct soon *soon);
/* Measures, and follows the records, until |pace| is stopped.  |context| is the struct soon. */
void *soon_improve_plans(void *context);
