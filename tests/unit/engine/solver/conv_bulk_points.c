/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_implicit_gemm_paths.h"
#include "tests/unit/engine/solver/conv_bulk_fixture.h"

struct axis {
    uint32_t in, filter, pad, stride, dilation;
    uint32_t residue;
};

/* Counts the pixels of x along an axis for which (index + pad) modulo the stride is |a.residue|.
 * Returns 0 if no tap reaches them. */
static uint32_t pixels_met(struct axis a)
{
    uint32_t count = 0, taps = 0;
    for (uint32_t tap = 0; tap < a.filter; tap++)
        taps += tap * a.dilation % a.stride == a.residue;
    for (uint32_t at = 0; at < a.in && taps > 0; at++)
        count += (at + a.pad) % a.stride == a.residue;
    return count;
}

static uint64_t bytes_of_operand(const struct fixture *f, uint8_t operand)
{
    const struct problem *p = &f->problem;
    struct extent out = problem_output(p);
    uint64_t element = data_type_size((enum data_type)p->type);
    switch (operand) {
    case ARGUMENT_X: return element * p->n * p->c * p->in.d * p->in.h * p->in.w;
    case ARGUMENT_W:
        return element * p->k * (p->c / p->groups) * p->filter.d * p->filter.h * p->filter.w;
    case ARGUMENT_Y: return element * p->n * p->k * out.d * out.h * out.w;
    default: return f->solution.workspace_size;
    }
}

static uint32_t residues_of(const struct problem *p)
{
    return p->direction == DIRECTION_BACKWARD_DATA ? p->stride.w * p->stride.h * p->stride.d : 2;
}

/* Checks that the copies cover the right number of pixels along each axis. In backward data, these
 * are the pixels of x with one residue modulo the stride. In the other directions, they are those
 * of y. */
static void expect_pixels(const struct fixture *f, const struct tensor_map *map, uint32_t index)
{
    const struct problem *p = &f->problem;
    struct extent out = problem_output(p);
    uint32_t wanted[3] = { out.w, out.h, out.d };
    if (p->direction == DIRECTION_BACKWARD_DATA) {
        wanted[0] = pixels_met((struct axis){ p->in.w, p->filter.w, p->pad.w, p->stride.w,
                                              p->dilation.w, index % p->stride.w });
        wanted[1] = pixels_met((struct axis){ p->in.h, p->filter.h, p->pad.h, p->stride.h,
                                              p->dilation.h, index / p->stride.w % p->stride.h });
        wanted[2] = pixels_met((struct axis){ p->in.d, p->filter.d, p->pad.d, p->stride.d,
                                              p->dilation.d, index / (p->stride.w * p->stride.h) });
    }
    if (wanted[0] == 0 || wanted[1] == 0 || wanted[2] == 0 || index >= residues_of(p))
        return;
    for (unsigned axis = 0; axis < map->rank - 2; axis++) {
        int64_t span = (int64_t)map->dims[1 + axis] + map->upper[axis] - map->lower[axis] - 1;
        assert_int_equal(span / map->steps[1 + axis] + 1, wanted[axis]);
    }
}

static bool has_option(const struct fixture *f, const char *name)
{
    char text[64];
    snprintf(text, sizeof(text), "-DKILN_%s=", name);
    return strstr(f->solution.programs[product_of_solution(f)->program].options, text);
}

/* Returns whether the kernel transposes its right operand, for which it needs two more tiles of
 * shared memory. It does so in TF32, for backward weights with channels last. */
static bool turns_right(const struct fixture *f)
{
    return f->problem.type == TYPE_FLOAT32 && f->problem.direction == DIRECTION_BACKWARD_WEIGHTS &&
           !has_option(f, "PLANES");
}

/* Checks the size of shared memory, which has the tiles of the operands, and two barriers for each
 * stage. The result's tile reuses the space of the operands' tiles, except in persistent work
 * groups. Split sums and most fp32 sums need no such tile, because they are stored from
 * registers. */
static void expect_shared_memory(const struct fixture *f)
{
    const uint16_t *v = f->solution.config.values;
    bool is_persistent = v[WIDE] == PERSISTENT_GROUPS;
    uint32_t stages = v[STAGES], slice = number_argument(f, is_persistent ? 2 : 0);
    if (!is_persistent && stages > slice)
        stages = slice;
    uint32_t operands = stages * (v[TILE_M] + v[TILE_N]) * 128, signals = stages * 16;
    if (turns_right(f))
        operands += 2 * v[TILE_N] * 128;
    bool is_wide = f->problem.type == TYPE_FLOAT32;
    bool is_direct =
        v[SPLIT] > 1 || (is_wide && (!is_persistent || has_option(f, "RESULT_PLANES")));
    uint32_t result = is_direct ? 0 : v[TILE_M] * v[TILE_N] * (is_wide ? 4 : 2);
    uint32_t tiles = is_persistent ? operands + result : operands > result ? operands : result;
    uint32_t bytes = product_of_solution(f)->shared_bytes;
    assert_int_equal(option(f, "STAGES"), stages);
    assert_int_equal(option(f, "LASTING"), is_persistent);
    assert_int_equal(bytes, tiles + signals);
    assert_true(bytes <= SHARED_MAX);
}

/* Checks that each thread has enough registers for the promised number of resident work groups.
 * With NVRTC 13.0, ptxas needs 26 registers in addition to the sums. A left operand in registers
 * takes 16 more for each 64 rows of a team. */
static void expect_registers(const struct fixture *f)
{
    const uint16_t *v = f->solution.config.values;
    uint32_t sums = v[TILE_M] / v[WARPS_M] * (v[TILE_N] / v[WARPS_N]) / 32;
    uint32_t threads = product_of_solution(f)->group[0];
    uint32_t registers = REGISTERS / (threads * option(f, "BLOCKS")) / 8 * 8;
    uint32_t held = turns_right(f) ? 16 * v[TILE_M] / v[WARPS_M] * 4 / 64 : 0;
    assert_true(registers >= sums + held + 26);
}

static void expect_solution(struct fixture *f)
{
    const struct solution_kernel *k = product_of_solution(f);
    const uint16_t *v = f->solution.config.values;
    assert_int_equal(k->group[0], 32 * (v[WARPS_M] * v[WARPS_N] + 1));
    expect_shared_memory(f);
    expect_registers(f);
    if (v[WIDE] == PERSISTENT_GROUPS)
        expect_persistent_groups(f, PROCESSORS);
    assert_in_range(f->solution.map_count, 2, LIMIT_PLAN_MAPS);
    for (uint32_t i = 0; i < f->solution.map_count; i++) {
        const struct tensor_map *map = &f->solution.maps[i];
        assert_int_equal(k->arguments[i].kind, ARGUMENT_TENSOR_MAP);
        assert_int_equal(k->arguments[i].value, i);
        if (tensor_map_check(map, &f->err))
            fail_msg("map %u: %s", i, f->err.text);
        assert_true(tensor_map_reach(map) <= bytes_of_operand(f, map->operand));
        if (map->mode == TENSOR_MAP_IM2COL)
            expect_pixels(f, map, i);
    }
}

static unsigned check_valid_points(struct fixture *f, uint16_t wide)
{
    struct perf_space space = igemm_path_mma.space(&f->problem, &f->target);
    uint32_t size = perf_space_size(&space);
    unsigned valid = 0;
    for (uint32_t i = 0; i < size; i++) {
        struct perf_config config;
        char text[PERF_CONFIG_TEXT_MAX];
        perf_space_at(&space, i, &config);
        if (config.values[WIDE] != wide ||
            !igemm_path_mma.config_is_valid(&f->problem, &f->target, &config))
            continue;
        perf_config_write(&config, text);
        assert_int_equal(solve(f, text), KILN_OK);
        expect_solution(f);
        valid++;
    }
    return valid;
}

TEST_F(solver, every_valid_point_fits_and_its_maps_do)
{
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        assert_in_range(check_valid_points(f, BULK_COPIES), 50, 20000);
        unsigned lasting = check_valid_points(f, PERSISTENT_GROUPS);
        assert_in_range(lasting, direction == DIRECTION_FORWARD ? 20 : 0, 2000);
    }
}

TEST_F(solver, every_valid_point_in_tf32_fits_and_its_maps_do)
{
    f->problem.type = TYPE_FLOAT32;
    f->problem.allow_tf32 = 1;
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        assert_in_range(check_valid_points(f, BULK_COPIES), 50, 20000);
        unsigned lasting = check_valid_points(f, PERSISTENT_GROUPS);
        assert_in_range(lasting, direction == DIRECTION_FORWARD ? 20 : 0, 2000);
    }
}

/* If a sum fits one tile, it needs little shared memory. Only registers then limit the number of
 * resident work groups. */
TEST_F(solver, short_sums_have_as_many_groups_as_registers_allow)
{
    f->problem.c = f->problem.k = 64;
    f->problem.filter = f->problem.stride = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    for (uint32_t direction = 0; direction < 2; direction++) {
        f->problem.direction = direction;
        assert_in_range(check_valid_points(f, BULK_COPIES), 10, 2000);
        assert_in_range(check_valid_points(f, PERSISTENT_GROUPS), 10, 2000);
    }
    assert_int_equal(solve(f, "128,64,64,8,1,3,1,1,0,2"), KILN_OK);
    assert_int_equal(option(f, "STAGES"), 1);
    /* With four resident work groups, each thread would have only 56 registers. */
    assert_int_equal(option(f, "BLOCKS"), 3);
}

static uint32_t draw(uint64_t *seed, uint32_t least, uint32_t most)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return least + (uint32_t)(*seed >> 33) % (most - least + 1);
}

static struct extent draw_extent(uint64_t *seed, bool is_volume, uint32_t least, uint32_t most)
{
    uint32_t plane = least > 0;
    return (struct extent){ is_volume ? draw(seed, least, most) : plane, draw(seed, least, most),
                            draw(seed, least, most) };
}

static void draw_problem(uint64_t *seed, struct problem *p)
{
    bool is_volume = draw(seed, 0, 1);
    p->spatial_dims = is_volume ? 3 : 2;
    p->direction = draw(seed, 0, 2);
    p->x_layout = p->w_layout = p->y_layout =
        draw(seed, 0, 3) ? LAYOUT_CHANNELS_LAST : LAYOUT_CHANNELS_FIRST;
    p->n = draw(seed, 1, 4);
    p->groups = draw(seed, 1, 2);
    p->c = p->groups * (draw(seed, 0, 1) ? 64 : 8) * draw(seed, 1, 3);
    p->k = p->groups * (draw(seed, 0, 1) ? 64 : 8) * draw(seed, 1, 3);
    p->in = draw_extent(seed, is_volume, 1, 20);
    p->filter = draw_extent(seed, is_volume, 1, 5);
    p->pad = draw_extent(seed, is_volume, 0, 3);
    p->stride = draw_extent(seed, is_volume, 1, 3);
    p->dilation = draw_extent(seed, is_volume, 1, 3);
}

static unsigned check_odd_problems(struct fixture *f, const char *const *configs, size_t count)
{
    uint64_t seed = 42;
    unsigned in_bulk = 0;
    for (unsigned i = 0; i < 3000; i++) {
        draw_problem(&seed, &f->problem);
        if (problem_check(&f->problem, &f->err))
            continue;
        for (size_t j = 0; j < count; j++) {
            if (solve(f, configs[j]))
                continue;
            expect_solution(f);
            in_bulk++;
        }
        assert_int_equal(solve(f, ""), KILN_OK);
    }
    return in_bulk;
}

TEST_F(solver, odd_problems_have_right_maps_or_another_way)
{
    static const char *const configs[] = { "64,64,64,4,1,3,1,1,0,2", "128,128,64,4,1,4,1,1,0,2",
                                           "64,64,64,4,1,4,2,1,0,2", "64,64,64,4,1,2,1,1,0,3" };
    assert_in_range(check_odd_problems(f, configs, 4), 300, 9000);
}

TEST_F(solver, odd_problems_in_tf32_have_right_maps_or_another_way)
{
    static const char *const configs[] = { "64,64,32,4,1,3,1,1,0,2", "128,128,32,4,1,4,1,1,0,2",
                                           "64,64,32,4,1,4,2,1,0,2", "64,64,32,4,1,2,1,1,0,3" };
    f->problem.type = TYPE_FLOAT32;
    f->problem.allow_tf32 = 1;
    assert_in_range(check_odd_problems(f, configs, 4), 400, 9000);
}

/* In TF32, wgmma can only read operands whose rows run along the sum. In backward weights, the rows
 * of both operands run across the sum, so the kernel transposes one of them. */
TEST_F(solver, backward_weights_in_tf32_transpose_an_operand)
{
    f->problem.type = TYPE_FLOAT32;
    f->problem.allow_tf32 = 1;
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    assert_int_equal(solve(f, "128,128,32,8,1,3,4,1,0,2"), KILN_OK);
    expect_solution(f);
    assert_int_equal(product_of_solution(f)->shared_bytes, (3 * 256 + 2 * 128) * 128 + 3 * 16);
    assert_int_equal(f->solution.maps[0].type, TENSOR_MAP_TF32);
    assert_int_equal(f->solution.maps[1].type, TENSOR_MAP_TF32);
    assert_int_equal(solve(f, "128,256,32,8,1,3,4,1,0,2"), KILN_INVALID); /* too many registers */
    f->problem.in = (struct extent){ 1, 4, 4 }; /* the sum is over 32 pixels, which fit one tile */
    assert_int_equal(solve(f, ""), KILN_OK);
    assert_int_equal(f->solution.map_count, 0);
}
