/* SPDX-License-Identifier: MIT */
#pragma once

/* Fake plans with one kernel each, in the form of kilnd's answers. The caller owns the results
 * (kiln_plan_unref, free). */
#include "common/protocol/messages.h"
#include "common/protocol/tensor_map.h"

#include <kiln/plan.h>

#define MADE_ARGUMENTS_MAX 6
#define MADE_MAPS_MAX 2
#define MADE_ELEMENTS 64 /* number of elements of x, of w and of y, which are fp32 */

struct made_plan {
    struct bytes object; /* borrowed; if it has no data, the plan has no objects */
    const char *target, *entry;
    uint32_t grid[3], group[3], shared_bytes;
    struct message_plan_argument arguments[MADE_ARGUMENTS_MAX];
    uint32_t argument_count;
    struct tensor_map maps[MADE_MAPS_MAX];
    uint32_t map_count;
    uint32_t elements;  /* number of elements of each tensor; 0 means MADE_ELEMENTS */
    uint64_t workspace; /* in bytes */
    unsigned key;       /* key of the object; plans with the same key share a module */
};

struct kiln_plan *made_plan_create(const struct made_plan *made);

/* The plan computes y[i] = x[i] * w[0] * 2 + 5 + 3 in four groups of sixteen. */
struct made_plan made_plan_scale(const char *target, struct bytes object);

struct bytes made_object(unsigned machine, uint32_t flags, const char *names);
