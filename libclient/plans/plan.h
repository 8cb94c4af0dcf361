/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Plans inside libkiln: a checked answer of kilnd, with the kernels that it sent.
 *
 * Role       turns the body of a 'planned' reply into launches; nothing in the reply is trusted
 * Ownership  reference-counted; owns references to its kernels
 * Threading  immutable, except for the count
 */
#include "common/protocol/messages.h"
#include "common/protocol/tensor_map.h"
#include "libclient/kernels/kernel.h"

#include <kiln/plan.h>

struct plan_launch {
    const char *name; /* points into the plan's text */
    uint32_t object;
    uint32_t grid[3], group[3];
    uint32_t shared_bytes;
    uint32_t argument_count;
    struct message_plan_argument arguments[LIMIT_KERNEL_ARGUMENTS];
    /* The range of the plan's |maps| that this launch's arguments use, in order. */
    uint32_t first_map, map_count;
};

struct plan_object {
    struct kiln_kernel *kernel; /* NULL if the request asked for no objects */
    struct digest key;
    char hex[DIGEST_HEX_SIZE];
    int tier;
    uint64_t size, compile_ns;
};

struct plan_content;

struct kiln_plan { /* a handle of a plan, which is stored inside the plan's content */
    struct plan_content *content;
    bool from_cache;
};

struct plan_content {
    atomic_uint references;
    struct kiln_plan answer, again; /* two handles, as in struct kernel_content */
    struct problem problem;
    char target[LIMIT_TARGET_TEXT];
    const char *solver, *config, *toolchain, *toolchain_identity; /* point into |text| */
    int source;
    double expected_ms;
    uint64_t workspace_size, plan_ns;
    uint32_t object_count, launch_count;
    struct plan_object objects[LIMIT_PLAN_KERNELS];
    struct plan_launch *launches; /* stored after |text| in the same allocation */
    uint32_t map_count;
    struct tensor_map maps[LIMIT_PLAN_MAPS];
    char text[];
};

struct plan_question {
    struct problem problem;
    struct bytes target;
    bool without_objects;
};

/* Reads a 'planned' reply to |question|.  If the reply is inconsistent, returns KILN_CORRUPT and
 * sets |ret_damaged|.  If an object failed, returns the failure that kilnd reported. */
KILN_MUST_CHECK enum kiln_code plan_create(const struct reply *reply,
                                           const struct plan_question *question,
                                           struct kiln_plan **ret_plan, bool *ret_damaged,
                                           struct failure *failure);
void plan_destroy(struct kiln_plan *plan);
static inline void plan_auto(struct kiln_plan **plan) { plan_destroy(*plan); }
struct kiln_plan *plan_again(struct kiln_plan *plan);
extern const struct answer_ops plan_value_ops;

struct kiln_client;
/* Drops cached plans of |problem|, or of all problems if |problem| is NULL, because records may
 * have changed.  Plans whose answers have not arrived yet will not be cached, either.  Any thread
 * may call this function. */
void plans_forget(struct kiln_client *client, const struct problem *problem);
