/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The requests that find and tune need: for the solvers that apply, and for perf configs to try.
 *
 * Role       sends the request and checks the reply; nothing in the reply is trusted
 * Ownership  lists own their texts
 * Threading  any thread; lists are plain values
 */
#include "libclient/client.h"

#include <kiln/solutions.h>

struct kiln_solutions {
    unsigned count;
    /* Stored after this struct, like the texts of its elements, in the same allocation. */
    struct kiln_solution *list;
};

/*
 * A solver's candidates are numbered 0 .. kiln_solution.candidates - 1, in a pseudo-random order
 * that is the same in every process.  A lease's share (kiln_lease.first, count) refers to these
 * numbers.  Not every candidate is valid, so a range may have fewer configs than candidates, or
 * none.
 */
struct configs_question {
    const struct problem *problem;
    struct bytes target, solver;
    uint32_t first, count; /* candidates first .. first + count - 1; |count| is at least 1 */
};

struct config {
    uint32_t candidate;
    size_t at;
};
struct config_list {
    struct config *configs; /* sorted by candidate number */
    uint32_t count, capacity;
    struct buffer texts;
};
static inline const char *config_text(const struct config_list *list, uint32_t index)
{
    return (const char *)list->texts.data + list->configs[index].at;
}
void config_list_done(struct config_list *list);
#define CONFIG_LIST_AUTO __attribute__((cleanup(config_list_done)))

/* Adds the valid candidates of the range to a zeroed |ret_list|.  The caller releases |ret_list|
 * even on failure. */
KILN_MUST_CHECK enum kiln_code configs_ask(struct kiln_client *client,
                                           const struct configs_question *question,
                                           uint64_t deadline_ns, struct config_list *ret_list,
                                           struct failure *failure);
