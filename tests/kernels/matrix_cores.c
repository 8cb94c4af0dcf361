/* SPDX-License-Identifier: MIT */
/* Runs kernels with matrix instructions (of ConvImplicitGemm, ConvGrouped and ConvGeneric) without
 * a GPU. On OpenCL devices, kernels/matrix_cores.h emulates these instructions: work items exchange
 * their registers through local memory, in the layouts that the vendors document. The emulation is
 * slow, so problems and tiles are small.
 *
 *     matrix_cores [all|TEST]
 *
 * "all" runs all trials. Without arguments, each test only runs about a fifth of its trials. */
#include "engine/solver/conv_generic.h"
#include "tests/kernels/random_problem.h"
#include "tests/kernels/trial.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONE_IN 5u

struct fixture {
    struct opencl_device *device;
    bool runs_all;
    /* for each direction, the number of this test's trials so far, including skipped ones */
    unsigned trials[3];
};

/* Returns a problem in which the last tile of each axis (rows, columns, reduction) is only partly
 * filled. */
static struct problem plain(enum direction direction)
{
    return (struct problem){ .direction = direction,
                             .spatial_dims = 2,
                             .type = TYPE_FLOAT16,
                             .x_layout = LAYOUT_CHANNELS_LAST,
                             .w_layout = LAYOUT_CHANNELS_LAST,
                             .y_layout = LAYOUT_CHANNELS_LAST,
                             .n = 2,
                             .c = 40,
                             .k = 48,
                             .groups = 1,
                             .in = { 1, 7, 6 },
                             .filter = { 1, 3, 2 },
                             .pad = { 0, 1, 0 },
                             .stride = { 1, 1, 1 },
                             .dilation = { 1, 1, 1 } };
}

/* Returns a problem whose operands and result must be packed. Its stride divides the taps into
 * classes with different numbers of taps. */
static struct problem awkward(enum direction direction)
{
    struct problem p = plain(direction);
    p.type = TYPE_BFLOAT16;
    p.x_layout = LAYOUT_CHANNELS_FIRST;
    p.y_layout = LAYOUT_CHANNELS_FIRST;
    p.n = 4;
    p.groups = 2;
    p.c = 34;
    p.k = 26;
    p.in = (struct extent){ 1, 9, 8 };
    p.filter = (struct extent){ 1, 3, 3 };
    p.stride = (struct extent){ 1, 2, 3 };
    p.dilation = (struct extent){ 1, 1, 2 };
    p.pad = (struct extent){ 0, 2, 1 };
    return p;
}

/* Returns a problem with so few channels that taps and channels are folded into one axis
 * (conv_packing.h). */
static struct problem image(enum direction direction)
{
    struct problem p = plain(direction);
    p.c = 3;
    p.in = (struct extent){ 1, 11, 13 };
    p.filter = (struct extent){ 1, 5, 5 };
    p.stride = (struct extent){ 1, 2, 2 };
    p.pad = (struct extent){ 0, 2, 2 };
    return p;
}

/* Returns a problem whose filters do not overlap: patches of 3 x 2 pixels with three channels. The
 * 18 values of a patch are padded to 24. The last pixels of x in both axes belong to no patch. */
static struct problem patches(enum direction direction, uint32_t w_layout)
{
    struct problem p = plain(direction);
    p.c = 3;
    p.k = 40;
    p.in = (struct extent){ 1, 11, 15 };
    p.filter = p.stride = (struct extent){ 1, 3, 2 };
    p.pad = (struct extent){ 0, 0, 0 };
    p.w_layout = w_layout;
    return p;
}

/* Returns a problem that is large enough for tiles of whole warp groups, and has at least three
 * tiles along the reduction. */
static struct problem plain_for_warp_groups(enum direction direction)
{
    struct problem p = plain(direction);
    p.n = 5;
    p.c = 72;
    p.k = 80;
    return p;
}

static struct problem awkward_for_warp_groups(enum direction direction)
{
    struct problem p = awkward(direction);
    p.n = 8;
    p.c = 74;
    p.k = 140;
    return p;
}

static void emulate(struct solution *s)
{
    for (uint32_t i = 0; i < s->kernel_count; i++) {
        const struct solution_kernel *k = &s->kernels[i];
        char *options = s->programs[k->program].options, text[96];
        size_t used = strlen(options);
        snprintf(text, sizeof(text), " -DKILN_GROUP_ITEMS=%u", (unsigned)k->group[0]);
        if (!strstr(options, "KILN_TILES_BYTES"))
            snprintf(text + strlen(text), sizeof(text) - strlen(text), " -DKILN_TILES_BYTES=%u",
                     (unsigned)k->shared_bytes);
        assert_true(used + strlen(text) < sizeof(s->programs[0].options));
        strcpy(options + used, text);
    }
}

struct named_config {
    const char *solver, *config; /* config "" means the config that the solver chooses */
};

/* Returns whether the sample contains the next trial: a test's first trial, and every fifth trial
 * of each direction. In backward data, the sample has the 2nd trial, the 7th and so on, so that it
 * also has configs that it skips in forward. */
static bool is_in_sample(struct fixture *f, uint32_t direction)
{
    bool first = f->trials[0] + f->trials[1] + f->trials[2] == 0;
    unsigned number = f->trials[direction]++;
    return first || number % ONE_IN == (direction == DIRECTION_BACKWARD_DATA);
}

static void expect_solver_right(struct fixture *f, struct named_config named,
                                const char *target_text, const struct problem *problem,
                                enum trial_data data)
{
    struct kiln_err err = KILN_ERR_INIT;
    const struct trial_options options = { .choice = { bytes_of_text(named.solver),
                                                       bytes_of_text(named.config) },
                                           .data = data,
                                           .seed = 1 };
    struct target target;
    static struct trial trial;
    if (!is_in_sample(f, problem->direction) && !f->runs_all)
        return;
    must(target_parse(bytes_of_text(target_text), &target, &err), err);
    assert_true(trial_init(&trial, problem, &target, &options));
    emulate(&trial.solution);
    bool right = trial_build_and_run(&trial, f->device, OPENCL_QUICK) && trial_is_right(&trial);
    trial_done(&trial);
    if (!right)
        fail_msg("%s, %s on %s, %s", named.solver, direction_name(problem->direction), target_text,
                 named.config);
}

static void expect_right(struct fixture *f, const char *target_text, const char *config,
                         const struct problem *problem, enum trial_data data)
{
    expect_solver_right(f, (struct named_config){ "ConvImplicitGemm", config }, target_text,
                        problem, data);
}

/* Runs each direction with the configs |whole| (without split-K) and |sliced| (with split-K). */
static void expect_every_direction_right(struct fixture *f, const char *target, const char *whole,
                                         const char *sliced)
{
    for (unsigned i = 0; i < 3; i++) {
        struct problem p = plain((enum direction)i), q = awkward((enum direction)i);
        expect_right(f, target, whole, &p, DATA_EXACT);
        expect_right(f, target, sliced, &q, DATA_EXACT);
    }
}

static struct fixture device;

static int begin_trials(void **state)
{
    memset(device.trials, 0, sizeof(device.trials));
    *state = &device;
    return 0;
}

FIXTURE(device, begin_trials, NULL);

TEST(device, mma_matches_the_reference)
{
    expect_every_direction_right(*state, "sm_90", "64,64,32,2,2,3,1,1,0,0",
                                 "64,32,32,2,1,2,2,16,0,0");
}

TEST(device, wgmma_matches_the_reference)
{
    for (unsigned i = 0; i < 3; i++) {
        struct problem p = plain_for_warp_groups((enum direction)i);
        struct problem q = awkward_for_warp_groups((enum direction)i);
        expect_right(*state, "sm_90a", "128,128,64,8,1,4,1,1,0,1", &p, DATA_EXACT);
        expect_right(*state, "sm_90a", "64,64,64,4,1,3,2,16,0,1", &q, DATA_EXACT);
    }
}

/* Tests tiles with 64-byte rows (32 elements), with several warp groups, and with the narrowest
 * product of a warp group. */
TEST(device, wgmma_in_other_shapes_matches_the_reference)
{
    struct problem forward = plain_for_warp_groups(DIRECTION_FORWARD);
    struct problem weights = plain_for_warp_groups(DIRECTION_BACKWARD_WEIGHTS);
    expect_right(*state, "sm_90a", "64,128,32,4,2,3,1,1,0,1", &forward, DATA_EXACT);
    expect_right(*state, "sm_90a", "128,64,64,4,2,3,1,1,0,1", &forward, DATA_EXACT);
    expect_right(*state, "sm_90a", "128,128,32,4,2,5,1,1,0,1", &weights, DATA_EXACT);
}

TEST(device, mfma_matches_the_reference)
{
    expect_every_direction_right(*state, "gfx90a", "64,64,32,1,2,2,1,1", "64,32,32,1,1,1,2,4");
}

TEST(device, mfma_that_takes_pairs_matches_the_reference)
{
    struct problem p = awkward(DIRECTION_BACKWARD_DATA);
    expect_right(*state, "gfx908", "64,32,32,1,1,2,1,1", &p, DATA_EXACT);
}

/* x and y have planes of 48 and 40 pixels, so that kernels copy 16 bytes at a time. Their channels
 * are 9 and 17 chunks of 8. */
TEST(device, packed_planes_match_the_reference)
{
    for (unsigned i = 0; i < 3; i++) {
        struct problem p = plain((enum direction)i);
        p.x_layout = p.w_layout = p.y_layout = LAYOUT_CHANNELS_FIRST;
        p.in = (struct extent){ 1, 8, 6 };
        p.c = 72;
        p.k = 136;
        expect_right(*state, "sm_90", "64,64,32,2,2,3,1,1,0,0", &p, DATA_EXACT);
        p.groups = 2; /* 36 channels in each group, padded to 40 */
        expect_right(*state, "gfx90a", "64,64,32,1,2,2,1,1", &p, DATA_EXACT);
    }
}

/* The filter has one tap. Strides of 2 and 3 make it read every sixth pixel. */
TEST(device, packing_of_every_few_pixels_matches_the_reference)
{
    for (unsigned i = 0; i < 3; i++) {
        struct problem p = plain((enum direction)i);
        p.x_layout = LAYOUT_CHANNELS_FIRST;
        p.filter = (struct extent){ 1, 1, 1 };
        p.pad = (struct extent){ 0, 0, 0 };
        p.n = 5;
        p.stride = (struct extent){ 1, 2, 3 };
        p.in = (struct extent){ 1, 9, 8 };
        expect_right(*state, "sm_90", "64,64,32,2,2,3,1,1,0,0", &p, DATA_EXACT);
        p.spatial_dims = 3;
        p.in.d = 4;
        p.stride.d = 2;
        p.groups = 2;
        expect_right(*state, "gfx90a", "64,32,32,1,1,1,1,1", &p, DATA_EXACT);
    }
}

TEST(device, wmma_of_rdna3_matches_the_reference)
{
    expect_every_direction_right(*state, "gfx1100", "64,64,32,2,2,2,1,1", "64,32,32,4,1,1,2,4");
}

TEST(device, wmma_of_rdna4_matches_the_reference)
{
    expect_every_direction_right(*state, "gfx1201", "64,64,32,2,2,2,1,1", "64,32,32,2,1,1,2,4");
}

TEST(device, a_folded_image_matches_the_reference)
{
    struct problem forward = image(DIRECTION_FORWARD), weights = image(DIRECTION_BACKWARD_WEIGHTS);
    expect_right(*state, "sm_90", "64,32,32,2,1,2,1,1,0,0", &forward, DATA_EXACT);
    expect_right(*state, "gfx90a", "64,32,32,1,1,2,2,1", &weights, DATA_EXACT);
}

/* Tests full and partial bundles of patches, several slabs, and tiles that are only partly inside
 * the image. */
TEST(device, patches_match_the_reference)
{
    for (int i = 0; i < 3; i++) {
        struct problem last = patches((enum direction)i, LAYOUT_CHANNELS_LAST), volume = last;
        struct problem first = patches((enum direction)i, LAYOUT_CHANNELS_FIRST);
        expect_right(*state, "sm_90", "64,32,32,2,1,2,1,1,0,0", &last, DATA_EXACT);
        expect_right(*state, "sm_90", "64,32,32,2,1,2,1,1,0,0", &first, DATA_EXACT);
        /* One direction is enough here, because all directions use the same packing code. */
        if (i == DIRECTION_BACKWARD_DATA)
            expect_right(*state, "gfx90a", "64,32,32,2,1,1,1,1", &last, DATA_EXACT);
        volume.spatial_dims = 3;
        volume.in.d = 5;
        volume.filter.d = volume.stride.d = 2;
        volume.k = 64;
        volume.x_layout = LAYOUT_CHANNELS_FIRST;
        expect_right(*state, "sm_90", "64,32,32,2,1,2,2,1,0,0", &volume, DATA_EXACT);
        /* the 24 values of a patch need no padding, so x is read in place */
        last.filter = last.stride = (struct extent){ 1, 2, 4 };
        expect_right(*state, "sm_90", "64,32,32,2,1,2,1,1,0,0", &last, DATA_EXACT);
        last.in.w = 16; /* a row has 16 * 3 elements; each patch reads 4 * 3 of them */
        expect_right(*state, "sm_90", "64,32,32,2,1,2,1,1,0,0", &last, DATA_EXACT);
        last.in.w = 20; /* 8 pixels of each row belong to no patch */
        last.filter.w = last.stride.w = 12;
        expect_right(*state, "sm_90", "64,32,32,2,1,2,1,1,0,0", &last, DATA_EXACT);
    }
}

static struct problem grouped(enum direction direction, uint32_t c, uint32_t k, uint32_t groups)
{
    struct problem p = plain(direction);
    p.c = c * groups;
    p.k = k * groups;
    p.groups = groups;
    p.in = (struct extent){ 1, 9, 11 };
    p.filter = (struct extent){ 1, 3, 3 };
    p.pad = (struct extent){ 0, 1, 1 };
    return p;
}

TEST(device, convolutions_in_groups_match_the_reference)
{
    for (unsigned i = 0; i < 3; i++) {
        struct problem p = grouped((enum direction)i, 4, 4, 6);
        expect_solver_right(*state, (struct named_config){ "ConvGrouped", "" }, "sm_90", &p,
                            DATA_EXACT);
        expect_solver_right(*state, (struct named_config){ "ConvGrouped", "4,8,2,2,1" }, "sm_80",
                            &p, DATA_EXACT);
        p = grouped((enum direction)i, 32, 16, 2);
        expect_solver_right(*state, (struct named_config){ "ConvGrouped", "4,14,1,2,2" }, "sm_80",
                            &p, DATA_EXACT);
    }
}

TEST(device, convolutions_in_groups_with_strides_and_depth_match_the_reference)
{
    for (unsigned i = 0; i < 3; i++) {
        struct problem p = grouped((enum direction)i, 8, 16, 3), q = p;
        p.type = TYPE_BFLOAT16;
        p.w_layout = LAYOUT_CHANNELS_FIRST;
        p.stride = (struct extent){ 1, 2, 3 };
        p.dilation = (struct extent){ 1, 1, 2 };
        p.pad = (struct extent){ 0, 2, 1 };
        expect_solver_right(*state, (struct named_config){ "ConvGrouped", "4,7,1,2,1" }, "sm_90",
                            &p, DATA_EXACT);
        q.spatial_dims = 3;
        q.in = (struct extent){ 3, 5, 6 };
        q.filter.d = 2;
        q.pad.d = 1;
        q.stride = (struct extent){ 2, 1, 1 };
        expect_solver_right(*state, (struct named_config){ "ConvGrouped", "" }, "sm_90", &q,
                            DATA_EXACT);
    }
}

static struct problem with_tf32(struct problem p, uint32_t layout)
{
    p.type = TYPE_FLOAT32;
    p.allow_tf32 = 1;
    p.x_layout = p.w_layout = p.y_layout = layout;
    return p;
}

TEST(device, tf32_with_channels_last_matches_the_reference)
{
    for (unsigned i = 0; i < 3; i++) {
        struct problem p = with_tf32(plain((enum direction)i), LAYOUT_CHANNELS_LAST);
        struct problem q = with_tf32(awkward((enum direction)i), LAYOUT_CHANNELS_LAST);
        q.w_layout = LAYOUT_CHANNELS_FIRST;
        expect_right(*state, "sm_90", "64,64,16,2,2,3,1,1,0,0", &p, DATA_EXACT);
        expect_right(*state, "sm_80", "64,32,32,2,1,2,2,16,0,0", &q, DATA_EXACT);
        expect_right(*state, "sm_90a", "64,32,16,2,1,4,1,1,0,0", &p, DATA_GENERAL);
    }
}

TEST(device, tf32_with_channels_first_matches_the_reference)
{
    for (unsigned i = 0; i < 3; i++) {
        struct problem p = with_tf32(plain((enum direction)i), LAYOUT_CHANNELS_FIRST);
        struct problem q = with_tf32(awkward((enum direction)i), LAYOUT_CHANNELS_FIRST);
        expect_right(*state, "sm_90", "32,64,8,4,8,2,2,0,1", &p, DATA_EXACT);
        expect_right(*state, "sm_80", "64,128,16,8,16,3,1,0,0", &p, DATA_EXACT);
        expect_right(*state, "sm_90a", "32,64,8,4,8,2,1,0,1", &q, DATA_EXACT);
        expect_right(*state, "sm_90a", "", &p, DATA_GENERAL);
    }
}

TEST(device, tf32_of_folded_images_and_mixed_layouts_matches_the_reference)
{
    for (unsigned i = 0; i < 3; i++) {
        struct problem last = with_tf32(image((enum direction)i), LAYOUT_CHANNELS_LAST);
        struct problem first = with_tf32(image((enum direction)i), LAYOUT_CHANNELS_FIRST);
        struct problem mixed = with_tf32(plain((enum direction)i), LAYOUT_CHANNELS_FIRST);
        struct problem cut =
            with_tf32(patches((enum direction)i, LAYOUT_CHANNELS_LAST), LAYOUT_CHANNELS_LAST);
        mixed.x_layout = LAYOUT_CHANNELS_LAST;
        cut.filter.w = cut.stride.w = 4;
        cut.in.w = 16;
        expect_right(*state, "sm_90", "", &cut, DATA_EXACT);
        expect_right(*state, "sm_90", "", &last, DATA_EXACT);
        expect_right(*state, "sm_90", "", &first, DATA_EXACT);
        expect_right(*state, "sm_90", "", &mixed, DATA_EXACT);
    }
}

static uint32_t round_up4(uint32_t count) { return (count + 3) / 4 * 4; }

/* Returns the weight that the packed matrix must have for input channel |c|, |tap| and output
 * channel |k|. |c| is numbered over all groups, each padded to a multiple of 4; |k| is numbered
 * within the group. Returns 0 for padding. */
static float weight_of(const struct trial *trial, uint32_t c, uint32_t tap, uint32_t k)
{
    const struct kiln_problem *p = &trial->problem;
    uint32_t taps = p->filter[0] * p->filter[1] * p->filter[2];
    uint32_t group_c = p->c / p->groups, group_k = p->k / p->groups, rows = round_up4(group_c);
    uint32_t row = c / rows * group_k + k, channel = c % rows;
    const float *w = trial->tensors[OPENCL_W].data;
    if (channel >= group_c || k >= group_k)
        return 0;
    return p->w_layout == LAYOUT_CHANNELS_LAST ? w[(row * taps + tap) * group_c + channel]
                                               : w[(row * group_c + channel) * taps + tap];
}

/* Checks the packed weights of a path that uses bulk copies. OpenCL has no bulk copies, so only the
 * path's first kernel, which packs the weights, runs. */
static void expect_weights_turned(struct fixture *f, const struct problem *problem)
{
    struct kiln_err err = KILN_ERR_INIT;
    const struct trial_options options = { .choice = { bytes_of_text("ConvImplicitGemm"),
                                                       bytes_of_text("64,64,32,4,1,3,1,1,0,2") },
                                           .seed = 1 };
    static struct trial trial;
    struct target target;
    must(target_parse(bytes_of_text("sm_90a"), &target, &err), err);
    target.has_tensor_maps = true;
    assert_true(trial_init(&trial, problem, &target, &options));
    trial.solution.program_count = trial.solution.kernel_count = 1;
    assert_string_equal(trial.solution.kernels[0].name, "conv_reorder_pack");
    assert_true(trial_build_and_run(&trial, f->device, OPENCL_QUICK));

    uint32_t taps = problem->filter.d * problem->filter.h * problem->filter.w;
    uint32_t rows = round_up4(problem->c / problem->groups) * problem->groups;
    uint32_t channels = round_up4(problem->k / problem->groups);
    const unsigned char *workspace = trial.tensors[OPENCL_WORKSPACE].data;
    const void *at = workspace + trial.solution.kernels[0].arguments[1].value;
    const float *got = at;
    for (uint32_t i = 0; i < rows * taps * channels; i++) {
        float want = weight_of(&trial, i / channels / taps, i / channels % taps, i % channels);
        if (got[i] != want)
            fail_msg("element %u is %g, not %g", (unsigned)i, (double)got[i], (double)want);
    }
    trial_done(&trial);
}

TEST(device, weights_of_backward_data_in_tf32_are_turned)
{
    for (uint32_t layout = LAYOUT_CHANNELS_FIRST; layout <= LAYOUT_CHANNELS_LAST; layout++) {
        struct problem p = with_tf32(plain(DIRECTION_BACKWARD_DATA), LAYOUT_CHANNELS_LAST);
        p.w_layout = layout;
        p.c = 70; /* padded to 72 rows of 52 output channels */
        p.k = 50;
        expect_weights_turned(*state, &p);
        p.groups = 2; /* 37 rows in each group, padded to 40 */
        p.c = 74;
        p.k = 128;
        p.spatial_dims = 3;
        p.in.d = p.filter.d = 2;
        expect_weights_turned(*state, &p);
    }
}

struct generic_target {
    const char *text;
    uint32_t type;
};

/* How ConvGeneric on matrix cores finds the tensors; it packs those that are not in place. */
enum generic_tensors { IN_PLACE, CHANNELS_FIRST, ODD_CHANNELS, GENERIC_TENSORS };

static bool has_chunks(const struct problem *p)
{
    uint32_t chunk = p->type == TYPE_FLOAT32 ? 4 : 8;
    return p->c / p->groups % chunk == 0 && p->k / p->groups % chunk == 0;
}

/* Returns a random problem that ConvGeneric solves on the target's matrix cores. */
static struct problem random_generic(uint64_t *random, enum direction direction,
                                     struct generic_target target, enum generic_tensors tensors)
{
    struct problem p;
    struct kiln_err err = KILN_ERR_INIT;
    struct target parsed;
    must(target_parse(bytes_of_text(target.text), &parsed, &err), err);
    do {
        p = random_problem(random, direction);
        p.type = target.type;
        p.allow_tf32 = p.type == TYPE_FLOAT32;
        p.x_layout = p.w_layout = p.y_layout =
            tensors == CHANNELS_FIRST ? LAYOUT_CHANNELS_FIRST : LAYOUT_CHANNELS_LAST;
    } while (!solver_conv_generic.applies(&p, &parsed) ||
             (tensors != CHANNELS_FIRST && has_chunks(&p) != (tensors == IN_PLACE)));
    return p;
}

static void expect_generic_right(struct fixture *f, struct generic_target target,
                                 const struct problem *p, const char *config)
{
    expect_solver_right(f, (struct named_config){ "ConvGeneric", config }, target.text, p,
                        DATA_EXACT);
}

/* Runs one trial for each direction. */
static void expect_generic_right_on(struct fixture *f, struct generic_target target,
                                    enum generic_tensors tensors, const char *config)
{
    uint64_t random = target.type + (uint64_t)(target.text[3] + config[0] + config[2] + tensors);
    for (unsigned i = 0; i < 3; i++) {
        struct problem p = random_generic(&random, (enum direction)i, target, tensors);
        expect_generic_right(f, target, &p, config);
    }
}

static void expect_generic_right_everywhere(struct fixture *f)
{
    static const struct generic_target targets[] = {
        { "sm_90a", TYPE_FLOAT16 },  { "gfx90a", TYPE_FLOAT16 },  { "sm_80", TYPE_BFLOAT16 },
        { "sm_90", TYPE_FLOAT32 },   { "gfx908", TYPE_BFLOAT16 }, { "gfx1100", TYPE_BFLOAT16 },
        { "gfx1201", TYPE_FLOAT16 },
    };
    static const char *const configs[] = { "5,1", "4,2", "3,1", "5,8", "4,1", "3,4" };
    for (unsigned i = 0; i < 6; i++)
        for (unsigned j = 0; j < 7; j++)
            for (unsigned k = 0; k < GENERIC_TENSORS; k++)
                expect_generic_right_on(f, targets[j], (enum generic_tensors)k,
                                        configs[(i + j) % 6]);
}

/* Compiling takes most of the time. So without arguments, the test only has two trials, of what
 * differs most from the specialized kernels: residue classes, and pixels along a split sum. Both
 * trials pack tensors. */
TEST(device, generic_products_match_the_reference)
{
    static const struct generic_target mfma = { "gfx90a", TYPE_FLOAT16 };
    static const struct generic_target wgmma = { "sm_90a", TYPE_FLOAT16 };
    struct fixture *f = *state;
    uint64_t random = 1;
    if (f->runs_all) {
        expect_generic_right_everywhere(f);
        return;
    }
    struct problem p = random_generic(&random, DIRECTION_BACKWARD_DATA, mfma, CHANNELS_FIRST);
    struct problem q = random_generic(&random, DIRECTION_BACKWARD_WEIGHTS, wgmma, CHANNELS_FIRST);
    expect_generic_right(f, mfma, &p, "5,1");
    expect_generic_right(f, wgmma, &q, "5,8");
}

TEST(device, any_values_stay_within_their_rounding_bound)
{
    struct problem p = plain(DIRECTION_FORWARD);
    expect_right(*state, "sm_90", "64,32,32,2,1,2,1,1,0,0", &p, DATA_GENERAL);
    p.type = TYPE_BFLOAT16;
    expect_right(*state, "gfx1201", "64,32,32,2,1,2,1,1", &p, DATA_GENERAL);
}

int main(int argc, char **argv)
{
    char why[256] = "";
    device.device = opencl_open(why);
    if (!device.device) {
        fprintf(stderr, "skipped: %s\n", why);
        return 77;
    }
    device.runs_all = argc > 1;
    bool selects = argc != 2 || strcmp(argv[1], "all") != 0;
    int failed = selects ? test_main(argc, argv) : test_run(NULL);
    opencl_close(device.device);
    return failed;
}
