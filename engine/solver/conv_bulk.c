/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_bulk.h"

#include "engine/solver/geometry.h"

/* Bytes of a panel, which is a row in shared memory.  The swizzle permutes the bytes of a panel. */
#define PANEL_BYTES 128u
#define COLUMNS_MIN 32u /* wgmma is not used for products with at most this many columns */
/* The strides of a tensor map must be multiples of this number of bytes.  So a plane, and
 * the channels of a pixel, must have a multiple of this number of bytes, too. */
#define STRIDE_BYTES 16u
#define RESIDUES_MAX 8u /* enough for strides of two in 3-D */
#define RESIDUES_OF_PLANE 4u
#define RESULT_ROWS 64u /* rows in one box of the result */

/*
 * Limits of im2col tensor maps and of the copies that use them (CUDA driver API,
 * cuTensorMapEncodeIm2col; PTX, cp.async.bulk.tensor).
 *
 * A filter's tap "meets" a pixel if the tap multiplies the pixel.  An im2col map describes a
 * bounding box of the pixels that the filter's first tap meets.  A copy names a pixel of that box
 * and the offset of a tap, and the hardware computes the address.  Along one axis, for a 3-tap
 * filter with pad 1 over 5 pixels, stride 1 (forward):
 *
 *     x                    .  0  1  2  3  4  .       . is padding, read as zero
 *     first tap meets     -1  0  1  2  3             lower corner -1, upper corner -1 (3 - 4)
 *     last tap meets             1  2  3  4  .       reach 2
 *
 * The lower corner counts from the tensor's first pixel, the upper corner from its last pixel.
 * Corners must fit 8 signed bits, and tap offsets 8 unsigned bits.  Maps of volumes (3-D) have one
 * more dimension, and only 5 bits for each number.
 */
#define PLANE_BITS 8
#define VOLUME_BITS 5
#define STEP_MAX 8u /* maximum stride of the convolution */

/* One axis of a map of pixels, as drawn above. */
struct box {
    int lower, upper, reach;
    uint32_t step;
    bool is_met; /* false: no tap reaches the pixels of this box */
};

struct axis {
    uint32_t in, out, filter, pad, stride, dilation;
    uint32_t residue; /* residue modulo the stride; only for backward data */
};

/* Returns the box for forward and backward weights: for pixel p of y, a tap reads pixel p * stride
 * - pad + tap * dilation of x. */
static struct box forward_box(const struct axis *a)
{
    int lower = -(int)a->pad;
    int last = lower + (int)((a->out - 1) * a->stride);
    return (struct box){ .lower = lower,
                         .upper = last - ((int)a->in - 1),
                         .reach = (int)((a->filter - 1) * a->dilation),
                         .step = a->stride,
                         .is_met = true };
}

/*
 * Returns the box for backward data, for the pixels of x that have one residue modulo the stride.
 *
 * Tap t adds to pixel i of x its product with pixel (i + pad - t * dilation) / stride of y, if this
 * number is whole.  So all pixels with one residue of i + pad have the same taps: a first tap, and
 * from there every |tap_step|-th one, where |tap_step| is stride / gcd(stride, dilation).  If these
 * pixels and these taps are numbered consecutively, they form a convolution of stride 1, whose taps
 * are |hop| pixels of y apart.  The taps run backwards over y, so the last one is at the lower
 * corner.  data_axis in kernels/conv_view.h computes the same.
 */
static struct box data_box(const struct axis *a)
{
    uint32_t tap_step = geometry_tap_step(a->stride, a->dilation);
    uint32_t first = (a->residue + a->stride - a->pad % a->stride) % a->stride, tap = 0;
    while (tap < tap_step && tap * a->dilation % a->stride != a->residue)
        tap++;
    if (tap >= tap_step || tap >= a->filter || first >= a->in)
        return (struct box){ .step = 1 };
    int pixels = (int)((a->in - first + a->stride - 1) / a->stride);
    int taps = (int)((a->filter - tap + tap_step - 1) / tap_step);
    int hop = (int)(tap_step * a->dilation / a->stride);
    int origin = ((int)(first + a->pad) - (int)(tap * a->dilation)) / (int)a->stride;
    int lower = origin - (taps - 1) * hop;
    return (struct box){ .lower = lower,
                         .upper = lower + pixels - (int)a->out,
                         .reach = (taps - 1) * hop,
                         .step = 1,
                         .is_met = true };
}

enum { AXIS_W, AXIS_H, AXIS_D, BOXES };

/* Sets |ret| to the box of each axis for one residue class.  All directions except backward data
 * have only class 0.  Returns whether any tap reaches the class. */
static bool boxes_of(const struct packing *packing, uint32_t residue, struct box ret[BOXES])
{
    const struct problem *q = &packing->problem;
    struct extent in = q->in, out = packing->out, filter = q->filter, pad = q->pad;
    struct extent stride = q->stride, dilation = q->dilation;
    const struct axis all[BOXES] = {
        { in.w, out.w, filter.w, pad.w, stride.w, dilation.w, residue % stride.w },
        { in.h, out.h, filter.h, pad.h, stride.h, dilation.h, residue / stride.w % stride.h },
        { in.d, out.d, filter.d, pad.d, stride.d, dilation.d, residue / stride.w / stride.h },
    };
    bool is_met = true;
    for (int i = 0; i < BOXES; i++) {
        ret[i] = q->direction == DIRECTION_BACKWARD_DATA ? data_box(&all[i]) : forward_box(&all[i]);
        is_met = is_met && ret[i].is_met;
    }
    return is_met;
}

static uint32_t element_of(const struct packing *packing)
{
    return (uint32_t)data_type_size((enum data_type)packing->problem.type);
}

static uint32_t panel_of(const struct packing *packing)
{
    return PANEL_BYTES / element_of(packing);
}

static uint32_t residues_of(const struct packing *packing)
{
    const struct problem *q = &packing->problem;
    struct extent s = q->stride;
    if (q->direction != DIRECTION_BACKWARD_DATA)
        return 1;
    if (s.d > RESIDUES_MAX || s.h > RESIDUES_MAX || s.w > RESIDUES_MAX)
        return RESIDUES_MAX + 1; /* the product below might overflow */
    return s.d * s.h * s.w;
}

bool bulk_is_flat(const struct packing *packing)
{
    const struct problem *q = &packing->problem;
    return q->filter.d == 1 && q->filter.h == 1 && q->filter.w == 1 && q->stride.d == 1 &&
           q->stride.h == 1 && q->stride.w == 1 && q->pad.d == 0 && q->pad.h == 0 && q->pad.w == 0;
}

/* Returns whether tiles should be loaded directly from a tensor with channels first.  Each image's
 * pixels are then padded to whole runs of RUN_BYTES.  At most a third of the runs may be padding.
 * */
static bool planes_suit(struct extent image, uint32_t element)
{
    uint64_t bytes = (uint64_t)image.d * image.h * image.w * element;
    uint64_t in_runs = (bytes + RUN_BYTES - 1) / RUN_BYTES * RUN_BYTES;
    return bytes % STRIDE_BYTES == 0 && in_runs * 2 <= bytes * 3;
}

bool bulk_reads_planes(const struct problem *p)
{
    struct packing packing;
    uint32_t columns = p->direction == DIRECTION_FORWARD ? p->k : p->c;
    uint32_t element = (uint32_t)data_type_size((enum data_type)p->type);
    return p->type != TYPE_INT8 && p->groups == 1 && p->x_layout == LAYOUT_CHANNELS_FIRST &&
           p->y_layout == LAYOUT_CHANNELS_FIRST && p->c * element % STRIDE_BYTES == 0 &&
           p->k * element % STRIDE_BYTES == 0 && planes_suit(p->in, element) &&
           columns > COLUMNS_MIN && packing_of(p, &packing) && bulk_is_flat(&packing) &&
           !packing.has_steps;
}

void bulk_adapt(const struct problem *p, struct packing *packing)
{
    if (bulk_reads_planes(p))
        packing_keep_planes(packing);
    /* wgmma reads TF32 operands only if the elements of each sum are contiguous. */
    if (p->type == TYPE_FLOAT32 && p->direction == DIRECTION_BACKWARD_DATA)
        packing_turn_weights(packing);
}

static bool is_volume(const struct packing *packing)
{
    const struct problem *q = &packing->problem;
    return q->in.d > 1 || q->filter.d > 1 || q->pad.d > 0 || q->stride.d > 1;
}

static bool box_fits(const struct box *b, int bits)
{
    int end = 1 << (bits - 1);
    return b->lower >= -end && b->lower < end && b->upper >= -end && b->upper < end &&
           b->reach < 1 << bits && b->step <= STEP_MAX;
}

static bool boxes_fit(const struct packing *packing)
{
    bool has_depth = is_volume(packing);
    int bits = has_depth ? VOLUME_BITS : PLANE_BITS;
    if (bulk_is_flat(packing))
        return true;
    for (uint32_t residue = 0; residue < residues_of(packing); residue++) {
        struct box boxes[BOXES];
        if (!boxes_of(packing, residue, boxes))
            continue; /* no tap reads pixels for this residue, so nothing is copied */
        for (int i = 0; i < BOXES - !has_depth; i++)
            if (!box_fits(&boxes[i], bits))
                return false;
    }
    return true;
}

/* A copy of a whole tile may read beyond the end of a group of channels.  The hardware supplies
 * zeros there only if the tensor ends there, too.  So there must be one group, or groups must end
 * with a whole tile. */
static bool channels_fit(const struct packing *packing, const struct product_tiling *t)
{
    const struct problem *q = &packing->problem;
    uint32_t c = q->c / q->groups, k = q->k / q->groups;
    switch (q->direction) {
    case DIRECTION_FORWARD: return q->groups == 1 || c % t->tile_k == 0;
    case DIRECTION_BACKWARD_DATA: return q->groups == 1 || k % t->tile_k == 0;
    default: return bulk_is_flat(packing) || c % panel_of(packing) == 0;
    }
}

bool bulk_fits(const struct packing *packing, const struct product_tiling *t)
{
    return t->tile_k == panel_of(packing) && packing->narrow_c == 0 &&
           residues_of(packing) <= RESIDUES_MAX && boxes_fit(packing) && channels_fit(packing, t);
}

bool bulk_result_fits(const struct packing *packing, const struct product_tiling *t)
{
    const struct problem *q = &packing->problem;
    uint32_t columns = t->tile_n / t->warps_n;
    bool is_in_panels = columns % panel_of(packing) == 0 || packing->has_result_planes;
    return q->direction != DIRECTION_BACKWARD_WEIGHTS && q->groups == 1 &&
           residues_of(packing) == 1 && t->slices == 1 &&
           (packing->has_planes ? t->element < sizeof(float) : is_in_panels);
}

bool bulk_stores_result(const struct packing *packing, const struct product_tiling *t)
{
    if (packing->has_result_planes)
        return false;
    return t->is_persistent || (packing->has_planes && bulk_result_fits(packing, t));
}

void bulk_keep_result(const struct problem *p, const struct product_tiling *t,
                      struct packing *packing)
{
    if (t->slices == 1 && residues_of(packing) == 1 && !packing->has_planes)
        packing_keep_result(p, packing);
}

static struct tensor_map map_of(const struct packing_plan *plan, int tensor)
{
    return (struct tensor_map){ .operand = (uint8_t)plan->tensors[tensor].kind,
                                .offset = plan->tensors[tensor].value,
                                .type = (uint8_t)plan->problem->type,
                                .mode = TENSOR_MAP_TILED,
                                .swizzle = TENSOR_MAP_SWIZZLE_128 };
}

/* fp32 operands are rounded while they are copied, because wgmma would ignore the bits that TF32
 * does not have. */
static struct tensor_map map_of_operand(const struct packing_plan *plan, int tensor)
{
    struct tensor_map map = map_of(plan, tensor);
    if (map.type == TYPE_FLOAT32)
        map.type = TENSOR_MAP_TF32;
    return map;
}

static void add_dim(struct tensor_map *map, uint32_t elements, uint64_t stride, uint32_t box)
{
    map->dims[map->rank] = elements;
    map->strides[map->rank] = stride;
    map->steps[map->rank] = 1;
    map->box[map->rank++] = box;
}

static void add_map(const struct packing_plan *plan, struct solution_kernel *kernel,
                    const struct tensor_map *map)
{
    struct solution *s = plan->solution;
    s->maps[s->map_count] = *map;
    kernel->arguments[kernel->argument_count++] =
        (struct solution_argument){ ARGUMENT_TENSOR_MAP, s->map_count++ };
}

/* Adds the map of a tensor with channels last.  For a flat convolution, the map numbers the pixels
 * of all images consecutively; otherwise it is an im2col map. */
static void add_pixels(const struct packing_plan *plan, struct solution_kernel *kernel, int tensor,
                       uint32_t residue, uint32_t pixels)
{
    const struct packing *packing = plan->packing;
    const struct problem *q = &packing->problem;
    struct extent in = tensor == ARGUMENT_X ? q->in : packing->out;
    uint32_t channels = tensor == ARGUMENT_X ? q->c : q->k;
    uint64_t row = (uint64_t)channels * element_of(packing);
    struct tensor_map map = map_of_operand(plan, tensor);
    add_dim(&map, channels, element_of(packing), panel_of(packing));
    if (bulk_is_flat(packing)) {
        add_dim(&map, q->n * in.d * in.h * in.w, row, pixels);
        add_map(plan, kernel, &map);
        return;
    }
    add_dim(&map, in.w, row, 0);
    add_dim(&map, in.h, row * in.w, 0);
    if (is_volume(packing))
        add_dim(&map, in.d, row * in.w * in.h, 0);
    add_dim(&map, q->n, row * in.w * in.h * in.d, 0);
    map.mode = TENSOR_MAP_IM2COL;
    map.box[0] = 0;
    map.channels = panel_of(packing);
    map.pixels = pixels;
    struct box boxes[BOXES];
    bool is_met = boxes_of(packing, residue, boxes); /* if false, the kernel never reads this map */
    for (uint32_t axis = 0; axis < map.rank - 2; axis++) {
        map.lower[axis] = is_met ? boxes[axis].lower : 0;
        map.upper[axis] = is_met ? boxes[axis].upper : 0;
        map.steps[1 + axis] = boxes[axis].step;
    }
    add_map(plan, kernel, &map);
}

/* Adds the map of the weights.  Its dimensions are: channels of a group, taps, rows.  The rows are
 * k, or c if the weights are turned. */
static void add_weights(const struct packing_plan *plan, struct solution_kernel *kernel,
                        uint32_t rows)
{
    const struct packing *packing = plan->packing;
    const struct problem *q = &packing->problem;
    uint64_t element = element_of(packing);
    uint32_t channels = (packing->turns_w ? q->k : q->c) / q->groups;
    uint32_t taps = q->filter.d * q->filter.h * q->filter.w;
    struct tensor_map map = map_of_operand(plan, ARGUMENT_W);
    add_dim(&map, channels, element, panel_of(packing));
    add_dim(&map, taps, channels * element, 1);
    add_dim(&map, packing->turns_w ? q->c : q->k, channels * taps * element, rows);
    add_map(plan, kernel, &map);
}

/* Adds the map of a tensor with channels first.  A box is one panel of pixels in |rows| planes of
 * an image. */
static void add_planes(const struct packing_plan *plan, struct solution_kernel *kernel, int tensor,
                       uint32_t rows)
{
    const struct packing *packing = plan->packing;
    const struct problem *q = &packing->problem;
    uint32_t channels = tensor == ARGUMENT_X ? q->c : q->k, pixels = q->in.d * q->in.h * q->in.w;
    uint64_t plane = (uint64_t)pixels * element_of(packing);
    struct tensor_map map = map_of_operand(plan, tensor);
    add_dim(&map, pixels, element_of(packing), panel_of(packing));
    add_dim(&map, channels, plane, rows);
    add_dim(&map, q->n, plane * channels, 1);
    add_map(plan, kernel, &map);
}

static void add_source(const struct packing_plan *plan, struct solution_kernel *kernel, int tensor,
                       uint32_t residue, const struct product_tiling *t)
{
    if (plan->packing->has_planes)
        add_planes(plan, kernel, tensor, t->tile_k);
    else
        add_pixels(plan, kernel, tensor, residue, t->tile_m);
}

/* Adds the map of y for backward weights.  It numbers the pixels of all images consecutively. */
static void add_gradient(const struct packing_plan *plan, struct solution_kernel *kernel,
                         uint32_t pixels)
{
    const struct packing *packing = plan->packing;
    const struct problem *q = &packing->problem;
    struct tensor_map map = map_of_operand(plan, ARGUMENT_Y);
    add_dim(&map, q->k, element_of(packing), panel_of(packing));
    struct extent out = packing->out;
    add_dim(&map, q->n * out.d * out.h * out.w, (uint64_t)q->k * element_of(packing), pixels);
    add_map(plan, kernel, &map);
}

static uint32_t left_maps(uint32_t residues)
{
    return residues == 1 ? 1 : residues <= RESIDUES_OF_PLANE ? RESIDUES_OF_PLANE : RESIDUES_MAX;
}

void bulk_arguments(const struct packing_plan *plan, const struct product_tiling *t,
                    struct solution_kernel *kernel)
{
    uint32_t residues = residues_of(plan->packing);
    switch (plan->packing->problem.direction) {
    case DIRECTION_FORWARD:
        add_source(plan, kernel, ARGUMENT_X, 0, t);
        add_weights(plan, kernel, t->tile_n);
        break;
    case DIRECTION_BACKWARD_DATA: /* the kernel has one, four or eight maps of the left operand */
        for (uint32_t i = 0; i < left_maps(residues); i++)
            add_source(plan, kernel, ARGUMENT_Y, i < residues ? i : 0, t);
        add_weights(plan, kernel, plan->packing->turns_w ? t->tile_n : t->tile_k);
        break;
    default:
        if (plan->packing->has_planes) {
            add_planes(plan, kernel, ARGUMENT_Y, t->tile_m);
            add_planes(plan, kernel, ARGUMENT_X, t->tile_n);
            return;
        }
        add_gradient(plan, kernel, t->tile_k);
        add_pixels(plan, kernel, ARGUMENT_X, 0, t->tile_k);
    }
}

void bulk_result(const struct packing_plan *plan, int tensor, const struct product_tiling *t,
                 struct solution_kernel *kernel)
{
    const struct packing *packing = plan->packing;
    const struct problem *q = &packing->problem;
    if (packing->has_planes) {
        add_planes(plan, kernel, tensor, t->tile_n / t->warps_n);
        return;
    }
    struct extent pixels = tensor == ARGUMENT_X ? q->in : packing->out;
    uint32_t channels = tensor == ARGUMENT_X ? q->c : q->k;
    struct tensor_map map = map_of(plan, tensor);
    add_dim(&map, channels, element_of(packing), panel_of(packing));
    add_dim(&map, q->n * pixels.d * pixels.h * pixels.w, (uint64_t)channels * element_of(packing),
            RESULT_ROWS);
    add_map(plan, kernel, &map);
}
