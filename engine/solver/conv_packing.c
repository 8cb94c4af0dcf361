/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_packing.h"

#include "engine/solver/options.h"
#include "engine/solver/sources.h"

#include <string.h>

#define COPY_BYTES 16u
#define NARROW_MAX 4u
/* Maximum number of channels for patches.  With 8 channels, pixels can be copied without padding,
 * so patches gain nothing. */
#define PATCH_CHANNELS_MAX 7u
#define GROUP_SIZE 256u
#define WORKSPACE_ALIGNMENT 256u
/* Number of 16-byte chunks in a square (struct square).  In images, each of a work group's 256
 * items copies two chunks.  Weights and slices have fewer squares, so items copy only one, to fill
 * the GPU. */
#define SQUARE_CHUNKS 256u
#define IMAGE_SQUARE_CHUNKS 512u
#define SQUARE_PIXELS_MAX 256u
#define SQUARE_TOGETHER_MAX 8u
#define WORD_BYTES 4u

enum { X, W, Y };

static const char *const header_names[] = { "kiln/prelude.h" };

static uint32_t round_up(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }

static uint32_t element_size(const struct problem *p)
{
    return (uint32_t)data_type_size((enum data_type)p->type);
}

static uint32_t chunk_of(const struct problem *p) { return COPY_BYTES / element_size(p); }

static uint64_t pixels(struct extent e) { return (uint64_t)e.d * e.h * e.w; }

/* Returns the padded number of channels of a pixel before folding: the smallest power of two for
 * which each window of the filter begins at a multiple of 16 bytes.  Returns 0 if x is not folded,
 * because it has too many channels or the filter has no rows to fold. */
static uint32_t narrow_channels(const struct problem *p)
{
    if (p->groups != 1 || p->direction == DIRECTION_BACKWARD_DATA || p->dilation.w != 1 ||
        p->filter.w == 1)
        return 0;
    for (uint32_t c = 1; c <= NARROW_MAX; c *= 2)
        if (c >= p->c && c * p->stride.w % chunk_of(p) == 0)
            return c;
    return 0;
}

static void fold_rows(struct packing *packing, uint32_t narrow)
{
    struct problem *q = &packing->problem;
    uint32_t chunk = chunk_of(q), window = round_up(q->filter.w * narrow, chunk);
    uint32_t row = (packing->out.w - 1) * q->stride.w * narrow + window;
    packing->narrow_c = packing->x_pixel = narrow;
    q->in.w = round_up(row, chunk) / narrow;
    q->c = window;
    q->filter.w = 1;
    q->pad.w = 0;
}

static bool is_cut(uint32_t filter, uint32_t pad, uint32_t stride, uint32_t dilation)
{
    return filter == stride && pad == 0 && (filter == 1 || dilation == 1);
}

static bool is_in_patches(const struct problem *p)
{
    return p->groups == 1 && p->c <= PATCH_CHANNELS_MAX && pixels(p->filter) > 1 &&
           pixels(p->filter) * p->c <= INT32_MAX &&
           is_cut(p->filter.d, p->pad.d, p->stride.d, p->dilation.d) &&
           is_cut(p->filter.h, p->pad.h, p->stride.h, p->dilation.h) &&
           is_cut(p->filter.w, p->pad.w, p->stride.w, p->dilation.w);
}

static void cut_patches(struct packing *packing, uint32_t channels)
{
    static const struct extent one = { 1, 1, 1 };
    struct problem *q = &packing->problem;
    packing->has_patches = true;
    q->c = packing->x_pixel = round_up((uint32_t)pixels(q->filter) * channels, chunk_of(q));
    q->in = packing->out;
    q->filter = q->stride = q->dilation = one;
}

static bool has_steps(const struct problem *p)
{
    bool has_pad = p->pad.d > 0 || p->pad.h > 0 || p->pad.w > 0;
    return p->x_layout == LAYOUT_CHANNELS_FIRST && pixels(p->filter) == 1 && !has_pad &&
           pixels(p->stride) > 1 && pixels(p->in) > 1;
}

static void drop_pixels(struct packing *packing)
{
    static const struct extent one = { 1, 1, 1 };
    packing->has_steps = true;
    packing->problem.in = packing->out;
    packing->problem.stride = one;
}

static bool is_in_place(enum layout layout, struct extent e, bool same_channels)
{
    return same_channels && (layout == LAYOUT_CHANNELS_LAST || pixels(e) == 1);
}

/* Returns whether the channels of all pixels of x can be indexed in 31 bits.  Backward data numbers
 * the pixels of x residue by residue, as if the length of each axis were a multiple of its
 * stride. */
static bool strides_are_countable(const struct problem *p, uint64_t channels)
{
    uint64_t places = (uint64_t)round_up(p->in.d, p->stride.d) * round_up(p->in.h, p->stride.h) *
                      round_up(p->in.w, p->stride.w);
    return p->direction != DIRECTION_BACKWARD_DATA || places <= INT32_MAX / (p->n * channels);
}

bool packing_of(const struct problem *p, struct packing *ret)
{
    struct problem *q = &ret->problem;
    uint32_t chunk = chunk_of(p);
    uint32_t c = round_up(p->c / p->groups, chunk), k = round_up(p->k / p->groups, chunk);
    *ret = (struct packing){ .problem = *p, .out = problem_output(p) };
    q->x_layout = q->w_layout = q->y_layout = LAYOUT_CHANNELS_LAST;
    q->c = c * p->groups;
    q->k = k * p->groups;
    ret->x_pixel = q->c;
    if (!is_in_patches(p) && narrow_channels(p))
        fold_rows(ret, narrow_channels(p));
    bool same_c = q->c == p->c, same_k = q->k == p->k;
    ret->moves[X] = !is_in_place(p->x_layout, p->in, same_c);
    ret->moves[W] = !is_in_place(p->w_layout, p->filter, same_c && same_k);
    if (has_steps(p)) {
        drop_pixels(ret);
        ret->moves[X] = true;
    }
    if (is_in_patches(p)) {
        cut_patches(ret, p->c);
        ret->moves[X] = true;
        ret->moves[W] = q->c != pixels(p->filter) * p->c || !same_k;
    }
    ret->moves[Y] = !is_in_place(p->y_layout, ret->out, same_k);
    ret->elements[X] = p->n * pixels(q->in) * ret->x_pixel;
    ret->elements[W] = q->k * pixels(q->filter) * (q->c / q->groups);
    ret->elements[Y] = p->n * pixels(ret->out) * q->k;
    return ret->elements[X] < 1u << 31 && ret->elements[W] < 1u << 31 &&
           ret->elements[Y] < 1u << 31 && strides_are_countable(q, q->c);
}

void packing_keep_planes(struct packing *packing)
{
    packing->has_planes = true;
    packing->moves[X] = packing->moves[Y] = false;
}

static int result_of(const struct problem *p)
{
    static const int results[] = { Y, X, W };
    return results[p->direction];
}

void packing_keep_result(const struct problem *p, struct packing *packing)
{
    int result = result_of(p);
    bool is_x = result == X, is_moved = packing->moves[result];
    bool is_first = (is_x ? p->x_layout : p->y_layout) == LAYOUT_CHANNELS_FIRST;
    bool is_whole = is_x ? packing->problem.c == p->c : packing->problem.k == p->k;
    if (is_x && (packing->has_patches || packing->has_steps))
        return;
    if (result == W || !is_moved || !is_first || !is_whole || p->groups > 1)
        return;
    packing->has_result_planes = true;
    packing->moves[result] = false;
}

void packing_turn_weights(struct packing *packing) { packing->turns_w = packing->moves[W] = true; }

static struct solution_argument reserve_workspace(struct solution *s, uint64_t size)
{
    uint64_t at = s->workspace_size;
    s->workspace_size +=
        (size + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
    return (struct solution_argument){ ARGUMENT_WORKSPACE, at };
}

/* The part of a tensor that a work group of kernels/conv_reorder.cl transposes in shared memory:
 * |together| 16-byte chunks of channels, for each of |pixels| pixels. */
struct square {
    uint32_t together;       /* 0: no shared memory is used */
    uint32_t pixels, vector; /* |vector|: neighbouring pixels that an item copies at once */
};

/* A conversion between a plain tensor (the caller's) and its packed form.  A tensor consists of
 * entries, which are images or rows k of the weights.  An entry consists of pixels (or taps), and
 * each pixel has channels. */
struct reorder {
    enum layout layout;           /* layout of the plain tensor; a packed one has channels last */
    uint32_t groups, c, c_packed; /* |c| is the number of channels of a group */
    struct extent pixels;         /* pixels of the plain tensor */
    /* Number of patches along each axis; 0: no patches.  A patch becomes one packed pixel. */
    struct extent patches;
    bool has_fours;
    /* Only plain pixels at multiples of |step| are packed; 0: all are packed. */
    struct extent step;
    /* |w_packed| is the number of pixels of a packed row, |w_first| the index in it of the first
     * pixel that comes from the plain row. */
    uint32_t w_packed, w_first;
    uint32_t outer, outer_packed; /* number of entries of a group (for weights); otherwise 1 */
    uint32_t outers, outers_packed;
    struct square square;
};

static struct reorder row_reorder(const struct packing_plan *plan)
{
    const struct problem *p = plan->problem, *q = &plan->packing->problem;
    return (struct reorder){ .layout = LAYOUT_CHANNELS_LAST,
                             .groups = 1,
                             .c = (uint32_t)pixels(p->filter) * p->c,
                             .c_packed = q->c,
                             .pixels = { 1, 1, 1 },
                             .w_packed = 1,
                             .outer = p->k,
                             .outer_packed = q->k,
                             .outers = p->k,
                             .outers_packed = q->k };
}

static struct reorder turned(struct reorder r)
{
    struct reorder ret = r;
    uint32_t groups = r.outers / r.outer;
    ret.c = r.outer;
    ret.c_packed = r.outer_packed;
    ret.outer = r.c;
    ret.outer_packed = r.c_packed;
    ret.outers = r.c * groups;
    ret.outers_packed = r.c_packed * groups;
    return ret;
}

static struct reorder reorder_of(const struct packing_plan *plan, int tensor)
{
    const struct problem *p = plan->problem, *q = &plan->packing->problem;
    uint32_t groups = p->groups, narrow = plan->packing->narrow_c;
    struct reorder r = { .groups = groups, .outer = 1, .outer_packed = 1 };
    if (tensor == W && plan->packing->has_patches)
        return row_reorder(plan);
    switch (tensor) {
    case X:
        r.layout = p->x_layout;
        r.c = p->c / groups;
        r.c_packed = narrow ? narrow : q->c / groups;
        r.pixels = p->in;
        r.w_packed = q->in.w;
        r.w_first = p->pad.w - q->pad.w;
        if (plan->packing->has_patches) {
            r.patches = q->in;
            r.has_fours = p->w_layout == LAYOUT_CHANNELS_LAST && r.layout == LAYOUT_CHANNELS_LAST &&
                          p->in.w * r.c % 4 == 0 && p->filter.w * r.c % 4 == 0;
        }
        if (plan->packing->has_steps)
            r.step = p->stride;
        r.outers = r.outers_packed = p->n;
        break;
    case W:
        r.layout = p->w_layout;
        r.groups = 1;
        r.c = p->c / groups;
        r.c_packed = narrow ? narrow : q->c / groups;
        r.pixels = p->filter;
        r.w_packed = narrow ? q->c / narrow : q->filter.w;
        r.outer = p->k / groups;
        r.outer_packed = q->k / groups;
        r.outers = p->k;
        r.outers_packed = q->k;
        break;
    default:
        r.layout = p->y_layout;
        r.c = p->k / groups;
        r.c_packed = q->k / groups;
        r.pixels = plan->packing->out;
        r.w_packed = r.pixels.w;
        r.outers = r.outers_packed = p->n;
    }
    return r;
}

static struct reorder flat_reorder(uint64_t elements)
{
    return (struct reorder){ .layout = LAYOUT_CHANNELS_LAST,
                             .groups = 1,
                             .c = 1,
                             .c_packed = 1,
                             .pixels = { 1, 1, 1 },
                             .w_packed = 1,
                             .outer = 1,
                             .outer_packed = 1,
                             .outers = (uint32_t)elements,
                             .outers_packed = (uint32_t)elements };
}

static uint32_t chunks_of(const struct reorder *r, uint32_t element)
{
    return r->c_packed * r->groups * element / COPY_BYTES;
}

/* Returns how many chunks of a pixel belong to one square: the largest power of two for which at
 * most a quarter of the squares' chunks are empty. */
static uint32_t together_of(uint32_t chunks)
{
    uint32_t together = SQUARE_TOGETHER_MAX;
    while (round_up(chunks, together) * 3 > chunks * 4)
        together /= 2;
    return together;
}

/* Returns how many neighbouring pixels an item copies at once.  They have 16 bytes if a plane's
 * size is a multiple of 16 bytes, else 4 bytes if its size is a multiple of 4.  Only pixels of a
 * plane with channels first and without steps are neighbours in memory. */
static uint32_t vector_of(const struct reorder *r, uint32_t element)
{
    uint64_t plane = pixels(r->pixels);
    if (r->layout != LAYOUT_CHANNELS_FIRST || r->step.w)
        return 1;
    if (plane * element % COPY_BYTES == 0)
        return COPY_BYTES / element;
    return plane % 2 == 0 ? WORD_BYTES / element : 1;
}

/* Returns whether the conversion uses squares.  They help if neighbouring elements of the plain
 * tensor are not neighbours in the packed one.  Squares require that all elements of a chunk belong
 * to the same pixel. */
static bool has_squares(const struct packing_plan *plan, const struct reorder *r)
{
    return r->layout != LAYOUT_CHANNELS_LAST && r->patches.w == 0 &&
           r->c_packed % chunk_of(plan->problem) == 0;
}

/* Slices and weights have smaller squares than images, because they have fewer elements, but should
 * still fill the GPU. */
static struct square square_of(const struct reorder *r, uint32_t element, bool has_slices)
{
    bool is_image = r->outer_packed == 1 && !has_slices;
    uint32_t together = together_of(chunks_of(r, element));
    uint32_t all = (is_image ? IMAGE_SQUARE_CHUNKS : SQUARE_CHUNKS) / together;
    return (struct square){ .together = together,
                            .pixels = all < SQUARE_PIXELS_MAX ? all : SQUARE_PIXELS_MAX,
                            .vector = is_image ? vector_of(r, element) : 1 };
}

static uint64_t items_of_squares(const struct square *s, uint64_t pixels, uint32_t chunks)
{
    return (pixels + s->pixels - 1) / s->pixels * ((chunks + s->together - 1) / s->together) *
           GROUP_SIZE;
}

static struct solution_kernel *add_kernel(struct packing_plan *plan, const struct reorder *r,
                                          const char *name, uint64_t items)
{
    struct solution *s = plan->solution;
    struct solution_program *program = &s->programs[s->program_count];
    struct solution_kernel *kernel = &s->kernels[s->kernel_count++];
    *program = (struct solution_program){
        .name = "conv_reorder.cl",
        .source = bytes_of(kernels_conv_reorder, kernels_conv_reorder_size),
        .header_names = header_names,
        .header_texts = { bytes_of(kernels_prelude, kernels_prelude_size) },
        .header_count = 1,
    };
    struct option_text text = { program->options, sizeof(program->options), 0 };
    option_define(&text, "TYPE", plan->problem->type);
    option_define(&text, "PLAIN_LAST", r->layout == LAYOUT_CHANNELS_LAST);
    option_define(&text, "GROUPS", r->groups);
    option_define(&text, "C", r->c);
    option_define(&text, "C_PACKED", r->c_packed);
    option_define(&text, "D", r->pixels.d);
    option_define(&text, "H", r->pixels.h);
    option_define(&text, "W", r->pixels.w);
    option_define(&text, "W_PACKED", r->w_packed);
    option_define(&text, "W_FIRST", r->w_first);
    option_define(&text, "OUTER", r->outer);
    option_define(&text, "OUTER_PACKED", r->outer_packed);
    option_define(&text, "GROUP_SIZE", GROUP_SIZE);
    if (r->square.together) {
        option_define(&text, "TOGETHER", r->square.together);
        option_define(&text, "PIXELS", r->square.pixels);
        option_define(&text, "VECTOR", r->square.vector);
    }
    if (r->step.w)
        option_define_extent(&text, "STEP", r->step);
    if (r->patches.w) {
        uint32_t taps = (uint32_t)pixels(plan->problem->filter);
        bool is_last = plan->problem->w_layout == LAYOUT_CHANNELS_LAST;
        option_define_extent(&text, "PATCH", plan->problem->filter);
        option_define_extent(&text, "PATCHES", r->patches);
        option_define(&text, "PATCH_TAP", is_last ? r->c : 1);
        option_define(&text, "PATCH_C", is_last ? 1 : taps);
        option_define(&text, "FOURS", r->has_fours);
    }
    *kernel = (struct solution_kernel){
        .name = name,
        .program = s->program_count++,
        .grid = { (uint32_t)((items + GROUP_SIZE - 1) / GROUP_SIZE), 1, 1 },
        .group = { GROUP_SIZE, 1, 1 },
    };
    return kernel;
}

static void add_pack(struct packing_plan *plan, int tensor)
{
    bool is_turned = tensor == W && plan->packing->turns_w;
    struct reorder r = reorder_of(plan, tensor);
    if (is_turned)
        r = turned(r);
    uint64_t items = plan->packing->elements[tensor] / chunk_of(plan->problem);
    if (is_turned || has_squares(plan, &r)) {
        uint32_t chunks = chunks_of(&r, element_size(plan->problem));
        r.square = square_of(&r, element_size(plan->problem), false);
        items = items_of_squares(&r.square, items / chunks, chunks);
    }
    struct solution_kernel *kernel = add_kernel(plan, &r, "conv_reorder_pack", items);
    if (is_turned) {
        struct solution_program *program = &plan->solution->programs[kernel->program];
        struct option_text text = { program->options, sizeof(program->options),
                                    strlen(program->options) };
        option_define(&text, "TURNED", 1);
    }
    kernel->argument_count = 3;
    kernel->arguments[0] = (struct solution_argument){ ARGUMENT_X + tensor, 0 };
    kernel->arguments[1] = plan->tensors[tensor];
    kernel->arguments[2] = (struct solution_argument){ ARGUMENT_U32, r.outers_packed };
}

void packing_begin(struct packing_plan *plan)
{
    for (int i = 0; i < PACKING_TENSORS; i++) {
        plan->tensors[i] = (struct solution_argument){ ARGUMENT_X + i, 0 };
        if (plan->packing->moves[i])
            plan->tensors[i] = reserve_workspace(plan->solution, plan->packing->elements[i] *
                                                                     element_size(plan->problem));
        if (plan->packing->moves[i] && i != result_of(plan->problem))
            add_pack(plan, i);
    }
}

void packing_slice_result(struct packing_plan *plan, uint32_t slices)
{
    int result = result_of(plan->problem);
    plan->tensors[result] =
        reserve_workspace(plan->solution, plan->packing->elements[result] * sizeof(float) * slices);
}

void packing_end(struct packing_plan *plan, uint32_t slices)
{
    int result = result_of(plan->problem);
    const struct packing *packing = plan->packing;
    if (slices == 1 && !packing->moves[result])
        return;
    struct reorder r =
        packing->moves[result] ? reorder_of(plan, result) : flat_reorder(packing->elements[result]);
    uint64_t items = r.outers * pixels(r.pixels) * r.c * r.groups / (r.has_fours ? 4 : 1);
    if (has_squares(plan, &r)) {
        uint32_t element = slices > 1 ? (uint32_t)sizeof(float) : element_size(plan->problem);
        r.square = square_of(&r, element, slices > 1);
        items = items_of_squares(&r.square, r.outers * pixels(r.pixels), chunks_of(&r, element));
    }
    struct solution_kernel *kernel = add_kernel(plan, &r, "conv_reorder_unpack", items);
    struct solution_program *program = &plan->solution->programs[kernel->program];
    struct option_text text = { program->options, sizeof(program->options),
                                strlen(program->options) };
    option_define(&text, "PARTIAL", slices > 1);
    kernel->argument_count = 5;
    kernel->arguments[0] = plan->tensors[result];
    kernel->arguments[1] = (struct solution_argument){ ARGUMENT_X + result, 0 };
    kernel->arguments[2] = (struct solution_argument){ ARGUMENT_U32, r.outers };
    kernel->arguments[3] = (struct solution_argument){ ARGUMENT_U32, slices };
    kernel->arguments[4] =
        (struct solution_argument){ ARGUMENT_U32, (uint32_t)packing->elements[result] };
}
