/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Fixture of the tests of products with bulk copies: ResNet-50's 3x3 layer with stride 2, in fp16,
 * batch 8. One file of a program includes it.
 *
 * Role       solves problems for sm_90a with tensor maps, and reads options of the solution
 * Ownership  the fixture owns the solution
 * Threading  one thread
 */
#include "engine/solver/conv_bulk.h"

#include "tests/unit/engine/solver/solver_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BULK "128,128,64,8,1,4,1,1,0,2"
#define PERSISTENT "128,128,64,8,1,4,1,1,0,3"
#define BULK_TF32 "128,128,32,8,1,4,1,1,0,2"
#define KERNEL "conv_implicit_gemm_bulk"
#define SHARED_MAX (227 * 1024)
#define ASYNC_COPIES 1
#define BULK_COPIES 2
#define PERSISTENT_GROUPS 3
#define REGISTERS 65536
/* number of multiprocessors that the solver assumes if the target does not state any */
#define PROCESSORS 132
enum { TILE_M, TILE_N, TILE_K, WARPS_M, WARPS_N, STAGES, SPLIT, BAND, CACHE, WIDE };

SET_UP(make_fixture)
{
    const struct problem problem = {
        .type = TYPE_FLOAT16, .n = 8, .c = 128, .k = 256, .in = { 1, 56, 56 }, .stride = { 1, 2, 2 }
    };
    fill_fixture(f, "ConvImplicitGemm", "sm_90a", &problem);
    put_channels_last(f);
    f->target.has_tensor_maps = true;
}

FIXTURE(solver, make_fixture, NULL);

static inline const struct solution_kernel *product_of_solution(const struct fixture *f)
{
    for (uint32_t i = 0; i < f->solution.kernel_count; i++)
        if (strstr(f->solution.kernels[i].name, KERNEL))
            return &f->solution.kernels[i];
    fail_msg("nothing copies in bulk");
    return NULL;
}

/* Returns the value of -DKILN_<name>= with which the program of the product kernel is compiled. */
static inline uint32_t option(const struct fixture *f, const char *name)
{
    const char *options = f->solution.programs[product_of_solution(f)->program].options;
    char text[64];
    snprintf(text, sizeof(text), "-DKILN_%s=", name);
    const char *at = strstr(options, text);
    if (!at)
        fail_msg("no %s in %s", text, options);
    return (uint32_t)strtoul(at + strlen(text), NULL, 10);
}

static inline uint16_t wide_of(const struct fixture *f) { return f->solution.config.values[WIDE]; }

static inline uint32_t number_argument(const struct fixture *f, unsigned from_the_end)
{
    const struct solution_kernel *k = product_of_solution(f);
    const struct solution_argument *a = &k->arguments[k->argument_count - 1 - from_the_end];
    assert_int_equal(a->kind, ARGUMENT_U32);
    return (uint32_t)a->value;
}

/* Checks that all persistent work groups except the last compute the same number of tiles, and
 * that all groups are resident at the same time. */
static inline void expect_persistent_groups(const struct fixture *f, uint32_t processors)
{
    uint32_t tiles = number_argument(f, 1), groups = number_argument(f, 0);
    uint32_t together = processors * option(f, "BLOCKS");
    assert_int_equal(product_of_solution(f)->grid[0], groups);
    assert_in_range(groups, 1, tiles < together ? tiles : together);
    uint32_t rounds = (tiles + groups - 1) / groups;
    assert_int_equal(rounds, (tiles + together - 1) / together);
    assert_true(rounds == 1 || (groups - 1) * rounds < tiles);
}
