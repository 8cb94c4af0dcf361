/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Plans inside libkiln: a checked answer of kilnd, with the kernels that it sent.
 *
 * Role       turns the body of a 'planned' reply into launches; nothing in it is trusted
 * Ownership  reference-counted; owns references to its kernels
 * Threading  immutable, except for the count
 */
#include "common/protocol/messages.h"
#include "common/protocol/tensor_map.h"
#include "libclient/kernels/kernel.h"

#include <kiln/plan.h>

struct plan_launch {
    const char *name; /* into the plan's text */
    uint32_t object;
    uint32_t grid[3], group[3];
    uint32_t shared_bytes; /* dynamic */
    uint32_t argument_count;
    struct message_plan_argument arguments[LIMIT_KERNEL_ARGUMENTS];
    uint32_t first_map, map_count; /* its tensor map arguments, in order, in the plan's |maps| */
};

struct plan_object {
    struct kiln_kernel *kernel; /* owned; NULL if the request asked for no objects */
    struct digest key;
    char hex[DIGEST_HEX_SIZE];
    int tier;
    uint64_t size, compile_ns;
};

struct plan_content;

struct kiln_plan { /* a handle; lives inside its content */
    struct plan_content *content;
    bool from_cache;
};

struct plan_content {
    atomic_uint references;         /* sum for both handles */
    struct kiln_plan answer, again; /* two handles, as in struct kernel_content */
    struct problem problem;
    char target[LIMIT_TARGET_TEXT];                               /* as requested */
    const char *solver, *config, *toolchain, *toolchain_identity; /* into |text| */
    int source;                                                   /* KILN_PLAN_... */
    double expected_ms;
    uint64_t workspace_size, plan_ns;
    uint32_t object_count, launch_count;
    struct plan_object objects[LIMIT_PLAN_KERNELS];
    struct plan_launch *launches; /* after |text|, in the same allocation */
    uint32_t map_count;
    struct tensor_map maps[LIMIT_PLAN_MAPS]; /* checked */
    char text[];
};

struct plan_question { /* the request */
    struct problem problem;
    struct bytes target; /* borrowed */
    bool without_objects;
};

/* Reads a 'planned' reply to |question|.  KILN_CORRUPT with *ret_damaged if the reply is
 * inconsistent. If an object failed, returns the failure that the daemon reported. */
KILN_MUST_CHECK enum kiln_code plan_create(const struct reply *reply,
                                           const struct plan_question *question,
                                           struct kiln_plan **ret_plan, bool *ret_damaged,
                                           struct failure *failure);
void plan_destroy(struct kiln_plan *plan); /* kiln_plan_unref */
static inline void plan_auto(struct kiln_plan **plan) { plan_destroy(*plan); }
struct kiln_plan *plan_again(struct kiln_plan *plan);
extern const struct answer_ops plan_value_ops;

struct kiln_client;
/* Call this when records of |problem| (NULL: of any) may have changed.  Plans that this process has
 * cached, or is waiting for, are not used again.  Any thread. */
void plans_forget(struct kiln_client *client, const struct problem *problem);
