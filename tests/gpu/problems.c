/* SPDX-License-Identifier: MIT */
#include "tests/gpu/problems.h"

#include "common/miopen/driver_line.h"

#include <string.h>

#define TYPE_TF32 3

const char *const problem_types[PROBLEM_TYPES] = { "fp32", "fp16", "bf16", [TYPE_TF32] = "tf32" };

static const char *type_name(const struct problem *p)
{
    return p->allow_tf32 ? problem_types[TYPE_TF32] : data_type_name((enum data_type)p->type);
}

void problem_change(struct problem *p, const struct problem_change *change)
{
    if (change->batch)
        p->n = change->batch;
    if (change->type >= 0) {
        p->allow_tf32 = change->type == TYPE_TF32;
        p->type = p->allow_tf32 ? TYPE_FLOAT32 : (uint32_t)change->type;
    }
    if (change->layout >= 0)
        p->x_layout = p->w_layout = p->y_layout = (uint32_t)change->layout;
}

enum kiln_code problems_take(const char *text, const struct problem_change *change,
                             problem_found *found, void *context, struct kiln_err *err)
{
    struct driver_line line;
    struct problem problem;
    enum kiln_code rc = driver_line_parse(bytes_of_text(text), &line, err);
    if (rc == KILN_NOT_FOUND)
        return KILN_OK;
    for (unsigned i = 0; !rc && driver_line_problem(&line, i, &problem); i++) {
        problem_change(&problem, change);
        if (change->direction < 0 || problem.direction == (uint32_t)change->direction)
            rc = found(context, &problem, err);
    }
    return rc;
}

enum kiln_code problems_read(const char *path, const struct problem_change *change,
                             problem_found *found, void *context, struct kiln_err *err)
{
    char text[2048];
    enum kiln_code rc = KILN_OK;
    FILE *file = fopen(path, "re");
    if (!file)
        return kiln_fail(err, KILN_NOT_FOUND, "cannot open '%s'", path);
    while (!rc && fgets(text, sizeof(text), file)) {
        text[strcspn(text, "\n")] = '\0';
        rc = problems_take(text, change, found, context, err);
    }
    fclose(file);
    return rc ? kiln_while(err, "reading '%s'", path) : KILN_OK;
}

struct axis {
    uint32_t in, out, filter, pad, stride, dilation;
};

/* Returns how many positions of x along an axis are read. If the stride is larger than the filter,
 * some positions are not read. */
static double read_positions(struct axis a)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < a.in; i++) {
        bool is_read = false;
        for (uint32_t tap = 0; tap < a.filter && !is_read; tap++) {
            uint64_t at = (uint64_t)i + a.pad, first = (uint64_t)tap * a.dilation;
            is_read =
                at >= first && (at - first) % a.stride == 0 && (at - first) / a.stride < a.out;
        }
        count += is_read;
    }
    return count;
}

double problem_bytes(const struct problem *p)
{
    const struct extent y = problem_output(p);
    double x = (double)problem_x_elements(p);
    if (p->direction != DIRECTION_BACKWARD_DATA)
        x = (double)p->n * p->c *
            read_positions(
                (struct axis){ p->in.d, y.d, p->filter.d, p->pad.d, p->stride.d, p->dilation.d }) *
            read_positions(
                (struct axis){ p->in.h, y.h, p->filter.h, p->pad.h, p->stride.h, p->dilation.h }) *
            read_positions(
                (struct axis){ p->in.w, y.w, p->filter.w, p->pad.w, p->stride.w, p->dilation.w });
    double elements = x + (double)problem_w_elements(p) + (double)problem_y_elements(p);
    return elements * (double)data_type_size((enum data_type)p->type);
}

/* Writes the extent as "3" if all axes are equal and not |in_full|, otherwise as "1x3x3". */
static void write_extent(const struct problem *p, const struct extent *e, bool in_full, char *text,
                         size_t size)
{
    bool deep = p->spatial_dims == 3, same = e->h == e->w && (!deep || e->d == e->h);
    if (same && !in_full)
        snprintf(text, size, "%u", (unsigned)e->h);
    else if (deep)
        snprintf(text, size, "%ux%ux%u", (unsigned)e->d, (unsigned)e->h, (unsigned)e->w);
    else
        snprintf(text, size, "%ux%u", (unsigned)e->h, (unsigned)e->w);
}

void problem_label(const struct problem *p, char *text, size_t size)
{
    enum { IN, FILTER, STRIDE, PAD, DILATION, EXTENTS };
    const struct extent extents[EXTENTS] = { p->in, p->filter, p->stride, p->pad, p->dilation };
    char part[EXTENTS][36], groups[24] = "", layout[24];
    for (int i = 0; i < EXTENTS; i++)
        write_extent(p, &extents[i], i <= FILTER, part[i], sizeof(part[i]));
    if (p->groups > 1)
        snprintf(groups, sizeof(groups), " g%u", (unsigned)p->groups);
    snprintf(layout, sizeof(layout), "%s", layout_name((enum layout)p->x_layout, p->spatial_dims));
    if (p->y_layout != p->x_layout || p->w_layout != p->x_layout)
        snprintf(layout + strlen(layout), sizeof(layout) - strlen(layout), ",%s,%s",
                 layout_name((enum layout)p->w_layout, p->spatial_dims),
                 layout_name((enum layout)p->y_layout, p->spatial_dims));
    bool dilated = strcmp(part[DILATION], "1") != 0;
    snprintf(text, size, "%s %s %s %ux%ux%s k%u %s s%s p%s%s%s%s",
             direction_name((enum direction)p->direction), type_name(p), layout, (unsigned)p->n,
             (unsigned)p->c, part[IN], (unsigned)p->k, part[FILTER], part[STRIDE], part[PAD],
             dilated ? " d" : "", dilated ? part[DILATION] : "", groups);
}

void json_write_text(FILE *json, const char *name, const char *text)
{
    fprintf(json, "\"%s\": \"", name);
    for (; *text; text++) {
        if ((unsigned char)*text < ' ')
            fputc(' ', json);
        else if (*text == '"' || *text == '\\')
            fprintf(json, "\\%c", *text);
        else
            fputc(*text, json);
    }
    fprintf(json, "\", ");
}

void problem_write_json(FILE *json, const struct problem *p)
{
    char text[512];
    problem_to_driver(p, text, sizeof(text));
    json_write_text(json, "problem", text);
    problem_label(p, text, sizeof(text));
    json_write_text(json, "label", text);
    json_write_text(json, "direction", direction_name((enum direction)p->direction));
    json_write_text(json, "type", type_name(p));
    json_write_text(json, "layout", layout_name((enum layout)p->x_layout, p->spatial_dims));
    fprintf(json, "\"flops\": %.0f, \"bytes\": %.0f, ", problem_flops(p), problem_bytes(p));
}
