/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_grouped.h"

#include "tests/unit/engine/solver/solver_fixture.h"
#include "tests/unit/engine/solver/spaces.h"

/* A 3x3 layer with 32 groups at 28x28, in fp16, batch 16. */
SOLVER_FIXTURE("ConvGrouped", "sm_90a", .type = TYPE_FLOAT16, .n = 16, .c = 128, .k = 128,
               .groups = 32, .in = { 1, 28, 28 }, CHANNELS_LAST);

static bool applies_on(struct fixture *f, const char *target)
{
    must(target_parse(bytes_of_text(target), &f->target, &f->err), f->err);
    return solver_conv_grouped.applies(&f->problem, &f->target);
}

TEST_F(solver, applies_to_grouped_channels_last_halves_on_nvidia)
{
    assert_true(applies_on(f, "sm_80"));
    assert_true(applies_on(f, "sm_90a"));
    assert_false(applies_on(f, "sm_75"));
    assert_false(applies_on(f, "gfx90a"));
    f->problem.type = TYPE_FLOAT32;
    assert_false(applies_on(f, "sm_90a"));
    f->problem.type = TYPE_BFLOAT16;
    assert_true(applies_on(f, "sm_90a"));
    f->problem.groups = 1;
    assert_false(applies_on(f, "sm_90a"));
    f->problem.groups = 32;
    f->problem.x_layout = LAYOUT_CHANNELS_FIRST;
    assert_false(applies_on(f, "sm_90a"));
}

TEST_F(solver, the_grouped_solver_is_favoured_for_few_channels_and_for_weights_of_one)
{
    assert_true(solver_conv_grouped.is_favoured(&f->problem, &f->target));
    f->problem.groups = 128;
    assert_false(solver_conv_grouped.is_favoured(&f->problem, &f->target));
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    assert_ptr_equal(solver_choose(&f->problem, &f->target), &solver_conv_grouped);
    f->problem.groups = 2;
    assert_false(solver_conv_grouped.is_favoured(&f->problem, &f->target));
}

/* ConvDirectNarrow also applies, but uses only the vector units. */
TEST_F(solver, backward_data_of_narrow_groups_is_chosen_over_vector_units)
{
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    assert_ptr_equal(solver_choose(&f->problem, &f->target), &solver_conv_grouped);
}

TEST_F(solver, the_heuristic_is_valid_among_hundreds_of_configs)
{
    struct perf_config config;
    for (uint32_t direction = 0; direction < 3; direction++)
        for (uint32_t groups = 4; groups <= 64; groups *= 2) {
            f->problem.direction = direction;
            f->problem.groups = groups;
            assert_true(choice_is_valid(&solver_conv_grouped, &f->problem, &f->target, &config));
            assert_in_range(valid_points(&solver_conv_grouped, &f->problem, &f->target), 100, 5000);
        }
}
