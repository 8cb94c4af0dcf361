/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Takes plans that other processes have measured, for the thread of soon_thread.c.
 *
 * Role       Looks at kilnd's counter of changed records (libclient/tuning/watch.h). When it has
 *            changed, soon_thread.c asks for the choice of each watched problem
 * Ownership  follow_done
 * Threading  the thread of soon_thread.c
 */
#include "libclient/tuning/watch.h"

#include <kiln/conv.h>

struct follow {
    struct kiln_client *client; /* borrowed */
    struct watch watch;
    uint64_t seen;       /* the counter at the last change that was reported */
    uint64_t opened_ns;  /* when kilnd was asked for the counter; 0: not yet */
    uint64_t reconnects; /* of the client, until then */
    uint64_t looked_ns;  /* when the last change was reported */
    uint64_t next_ns;    /* the next change is reported at this time, or later */
    uint64_t idle_ns;    /* the last result of follow_idle_ns; 0: none since the last change */
};

void follow_done(struct follow *follow);
/* Returns whether records may have changed since the last call that returned true. Sends a request
 * only when it opens the counter: in the first call, after the client has connected again, and once
 * a minute, because an idle client does not notice that kilnd was restarted. */
bool follow_has_changed(struct follow *follow);
/* Call it after the requests that a change caused. The next change is reported after a multiple of
 * their time, so that many clients do not overload kilnd. */
void follow_rest(struct follow *follow);
/* Returns whether there is a counter. */
bool follow_is_possible(const struct follow *follow);
/* Returns how long a thread that measures nothing may wait before the next look at the counter:
 * 250 ms after a change, then twice as long after each look without one, up to 4 s. Without a
 * counter, returns the time until kilnd is asked again. */
uint64_t follow_idle_ns(struct follow *follow);

struct follow_question { /* all members are borrowed */
    const struct kiln_problem *problem;
    const struct problem *wire; /* the same problem */
    const struct kiln_conv_options *options;
    const struct kiln_plan *incumbent; /* the plan that the job uses */
};
/* Returns the plan that the problem's records choose, with its kernels. Returns NULL if the job
 * should keep its plan: it is the choice, or there is no time to compare with. */
struct kiln_plan *follow_ask(const struct follow *follow, const struct follow_question *question);
