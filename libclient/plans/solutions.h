/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What find and tune ask kilnd for, inside libkiln: solvers, and perf configs to try.
 *
 * Role       asks, and checks what comes; nothing in it is trusted
 * Ownership  lists own their texts
 * Threading  calls: any thread; lists are plain values
 */
#include "libclient/client.h"

#include <kiln/solutions.h>

struct solutions_question {
    const struct problem *problem;                       /* borrowed, as the texts */
    struct bytes target, database_id, driver, toolchain; /* all but the first may be empty */
};

struct kiln_solutions {
    unsigned count;             /* at least 1 */
    struct kiln_solution *list; /* behind this, in the same allocation, as the texts */
};

KILN_MUST_CHECK enum kiln_code solutions_ask(struct kiln_client *client,
                                             const struct solutions_question *question,
                                             uint64_t deadline_ns,
                                             struct kiln_solutions **ret_solutions,
                                             struct failure *failure);

/*
 * Candidates of a solver are numbered 0 .. kiln_solution.candidates - 1, in an order that looks
 * random and is the same in every process; a lease's share (kiln_lease.first, count) counts them.
 * Not every candidate is valid: a range has fewer configs than candidates, none perhaps.
 */
struct configs_question {
    const struct problem *problem; /* borrowed, as the texts */
    struct bytes target, solver;
    uint32_t first, count; /* candidates first .. first + count - 1, at least one */
};

struct config {         /* a valid candidate */
    uint32_t candidate; /* its number */
    size_t at;          /* of its text */
};
struct config_list {
    struct config *configs; /* owned; by number */
    uint32_t count, room;
    struct buffer texts; /* owned */
};
static inline const char *config_text(const struct config_list *list, uint32_t index)
{
    return (const char *)list->texts.data + list->configs[index].at;
}
void config_list_done(struct config_list *list); /* accepts a zeroed one */
#define CONFIG_LIST_AUTO __attribute__((cleanup(config_list_done)))

/* The valid ones of the range, into a zeroed |ret_list|, which is to be released in any case. */
KILN_MUST_CHECK enum kiln_code configs_ask(struct kiln_client *client,
                                           const struct configs_question *question,
                                           uint64_t deadline_ns, struct config_list *ret_list,
                                           struct failure *failure);
