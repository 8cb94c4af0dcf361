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
    bool is_postponed; /* another process measured the problem when the thread asked last */
    bool is_outdated;  /* the problem's records may have changed since the thread compared them */
    double generic_ms; /* measured time of the generic plan, if the job uses one; 0: unknown */
    /* The members below are guarded by the lock. */
    struct kiln_plan *plan; /* owned: the best plan so far */
    enum stage stage;
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

/* Measures, and follows the records, until |pace| is stopped.  |context| is the struct soon. */
void *soon_improve_plans(void *context);
