/* SPDX-License-Identifier: MIT */
#include "common/miopen/driver_line.h"

#include "common/base/units.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct values {
    long long n, c, k, g, spatial, directions;
    long long in_d, in_h, in_w, fil_d, fil_h, fil_w;
    long long pad_d, pad_h, pad_w, stride_d, stride_h, stride_w;
    long long dil_d, dil_h, dil_w, trans_d, trans_h, trans_w, allow_tf32;
    long long iterations, verify, time, wall, search;
    char mode[16], pad_mode[16], solver[DRIVER_SOLVER_MAX];
    char in_layout[16], fil_layout[16], out_layout[16];
};

enum value { NUMBER, WORD, IGNORED, UNSUPPORTED };

static const struct flag {
    char letter;
    const char *name;
    enum value value;
    size_t slot;
    size_t size;
    long long default_number, min, max;
    const char *default_word;
    const char *help;
} flags[] = {
#define DRIVER_NUMBER(letter_, name_, field, default_, min_, max_, help_) \
    {                                                                     \
        .letter = letter_,                                                \
        .name = name_,                                                    \
        .value = NUMBER,                                                  \
        .slot = offsetof(struct values, field),                           \
        .default_number = default_,                                       \
        .min = min_,                                                      \
        .max = max_,                                                      \
        .help = help_ " (" #default_ ")",                                 \
    },
#define DRIVER_WORD(letter_, name_, field, default_, help_) \
    {                                                       \
        .letter = letter_,                                  \
        .name = name_,                                      \
        .value = WORD,                                      \
        .slot = offsetof(struct values, field),             \
        .size = sizeof(((struct values *)0)->field),        \
        .default_word = default_,                           \
        .help = help_,                                      \
    },
#define DRIVER_IGNORED(letter_, name_) \
    { .letter = letter_, .name = name_, .value = IGNORED, .help = "ignored" },
#define DRIVER_UNSUPPORTED(letter_, name_, accepted, what)             \
    {                                                                  \
        .letter = letter_,                                             \
        .name = name_,                                                 \
        .value = UNSUPPORTED,                                          \
        .default_word = accepted,                                      \
        .help = what ": not supported; only " accepted " is accepted", \
    },
#include "common/miopen/driver_flags.def"
#undef DRIVER_NUMBER
#undef DRIVER_WORD
#undef DRIVER_IGNORED
#undef DRIVER_UNSUPPORTED
};
#define FLAG_COUNT (sizeof(flags) / sizeof(flags[0]))

static long long *number_slot(struct values *g, const struct flag *f)
{
    return (long long *)(void *)((char *)g + f->slot);
}

static char *word_slot(struct values *g, const struct flag *f) { return (char *)g + f->slot; }

static struct values default_values(void)
{
    struct values g = { 0 };
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        if (flags[i].value == NUMBER)
            *number_slot(&g, &flags[i]) = flags[i].default_number;
        else if (flags[i].value == WORD)
            snprintf(word_slot(&g, &flags[i]), flags[i].size, "%s", flags[i].default_word);
    }
    return g;
}

static const struct flag *find_flag(const char *word, const char **ret_value)
{
    bool is_long = word[0] == '-' && word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    size_t size = is_long ? strcspn(name, "=") : 1;
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        const struct flag *f = &flags[i];
        bool same = is_long ? strlen(f->name) == size && strncmp(f->name, name, size) == 0
                            : f->letter && f->letter == name[0];
        if (!same)
            continue;
        *ret_value = name[size] == '=' ? name + size + 1 : name[size] ? name + size : NULL;
        return f;
    }
    return NULL;
}

/* The message names the flag as MIOpenDriver's users know it: "-b 1: bias is not supported". */
static enum kiln_code refuse_unsupported(const struct flag *f, const char *value,
                                         struct kiln_err *err)
{
    const char letter[] = { f->letter, '\0' };
    if (strcmp(value, f->default_word) == 0)
        return KILN_OK;
    return kiln_fail(err, KILN_UNSUPPORTED, "%s%s %.40s: %.*s is not supported",
                     f->letter ? "-" : "--", f->letter ? letter : f->name, value,
                     (int)strcspn(f->help, ":"), f->help);
}

static enum kiln_code set_flag(struct values *g, const struct flag *f, const char *value,
                               struct kiln_err *err)
{
    if (f->value == WORD && strlen(value) >= f->size)
        return kiln_fail(err, KILN_INVALID, "the value of --%s is longer than %zu characters",
                         f->name, f->size - 1);
    if (f->value == WORD)
        snprintf(word_slot(g, f), f->size, "%s", value);
    if (f->value == UNSUPPORTED)
        return refuse_unsupported(f, value, err);
    if (f->value != NUMBER)
        return KILN_OK;
    uint64_t number = 0;
    if (!units_parse_number(value, (uint64_t)f->max, &number) || (long long)number < f->min)
        return kiln_fail(err, KILN_INVALID,
                         "the value '%.40s' of --%s is not a number from %lld to %lld", value,
                         f->name, f->min, f->max);
    *number_slot(g, f) = (long long)number;
    return KILN_OK;
}

static enum kiln_code read_flags(const char *const *words, size_t count, struct values *g,
                                 struct kiln_err *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *value = NULL;
        const struct flag *f = NULL;
        if (words[i][0] == '-' && words[i][1])
            f = find_flag(words[i], &value);
        if (!f)
            return kiln_fail(err, KILN_INVALID, "'%.60s' is not a flag of MIOpenDriver's conv",
                             words[i]);
        if (!value && ++i < count)
            value = words[i];
        if (!value)
            return kiln_fail(err, KILN_INVALID, "--%s needs a value", f->name);
        enum kiln_code rc = set_flag(g, f, value, err);
        if (rc)
            return rc;
    }
    return KILN_OK;
}

static enum kiln_code read_layout(const char *text, uint32_t spatial, uint32_t *ret_layout,
                                  struct kiln_err *err)
{
    if (!text[0]) {
        *ret_layout = LAYOUT_CHANNELS_FIRST;
        return KILN_OK;
    }
    for (uint32_t layout = 0; layout <= LAYOUT_CHANNELS_LAST; layout++) {
        if (strcmp(text, layout_name((enum layout)layout, spatial)) == 0) {
            *ret_layout = layout;
            return KILN_OK;
        }
    }
    return kiln_fail(err, KILN_UNSUPPORTED, "layout '%s' is not one of %s, %s", text,
                     layout_name(LAYOUT_CHANNELS_FIRST, spatial),
                     layout_name(LAYOUT_CHANNELS_LAST, spatial));
}

static enum kiln_code read_layouts(const struct values *g, struct problem *p, struct kiln_err *err)
{
    enum kiln_code rc = read_layout(g->in_layout, p->spatial_dims, &p->x_layout, err);
    if (!rc)
        rc = read_layout(g->fil_layout, p->spatial_dims, &p->w_layout, err);
    if (!rc)
        rc = read_layout(g->out_layout, p->spatial_dims, &p->y_layout, err);
    return rc;
}

/* Returns the padding before the first element in TensorFlow's mode "same".  This mode makes an
 * output of ceil(in / stride) elements, and splits the padding between both ends. */
static uint32_t same_pad(uint32_t in, uint32_t filter, uint32_t stride)
{
    uint32_t rest = stride && in % stride ? in % stride : stride;
    return filter > rest ? (filter - rest) / 2 : 0;
}

static enum kiln_code apply_pad_mode(const struct values *g, struct problem *p,
                                     struct kiln_err *err)
{
    if (strcmp(g->pad_mode, "conv") == 0 || strcmp(g->pad_mode, "default") == 0)
        return KILN_OK;
    if (strcmp(g->pad_mode, "valid") == 0) {
        p->pad = (struct extent){ 0, 0, 0 };
        return KILN_OK;
    }
    if (strcmp(g->pad_mode, "same") != 0)
        return kiln_fail(err, KILN_INVALID, "pad_mode '%s' is not one of conv, same, valid",
                         g->pad_mode);
    p->pad.h = same_pad(p->in.h, p->filter.h, p->stride.h);
    p->pad.w = same_pad(p->in.w, p->filter.w, p->stride.w);
    p->pad.d = p->spatial_dims == 3 ? same_pad(p->in.d, p->filter.d, p->stride.d) : 0;
    return KILN_OK;
}

struct transposed_axis {
    uint32_t in, filter, pad, stride, dilation;
    long long output_pad;
};

/*
 * Returns the size of a transposed convolution's output:
 *
 *   (in - 1) * stride + dilation * (filter - 1) + 1 - 2 * pad + output_pad
 *
 * Returns 0 if the size is not positive or is too large.
 */
static uint32_t transposed_size(struct transposed_axis a)
{
    long long size = (long long)(a.in - 1) * a.stride + (long long)a.dilation * (a.filter - 1) + 1 -
                     2LL * a.pad + a.output_pad;
    return size > 0 && size <= UINT32_MAX ? (uint32_t)size : 0;
}

static void exchange_x_and_y(const struct values *g, struct problem *p)
{
    struct problem t = *p;
    t.c = p->k;
    t.k = p->c;
    t.x_layout = p->y_layout;
    t.y_layout = p->x_layout;
    t.in.d = transposed_size((struct transposed_axis){ p->in.d, p->filter.d, p->pad.d, p->stride.d,
                                                       p->dilation.d, g->trans_d });
    t.in.h = transposed_size((struct transposed_axis){ p->in.h, p->filter.h, p->pad.h, p->stride.h,
                                                       p->dilation.h, g->trans_h });
    t.in.w = transposed_size((struct transposed_axis){ p->in.w, p->filter.w, p->pad.w, p->stride.w,
                                                       p->dilation.w, g->trans_w });
    *p = t;
}

static enum kiln_code read_mode(const struct values *g, struct driver_line *line,
                                struct kiln_err *err)
{
    line->transposed = strcmp(g->mode, "trans") == 0;
    if (!line->transposed && strcmp(g->mode, "conv") != 0)
        return kiln_fail(err, KILN_INVALID, "mode '%s' is not one of conv, trans", g->mode);
    if (line->transposed)
        exchange_x_and_y(g, &line->problem);
    return KILN_OK;
}

static struct problem problem_of(const struct values *g, enum data_type type)
{
    bool deep = g->spatial == 3;
    return (struct problem){
        .direction = DIRECTION_FORWARD,
        .spatial_dims = (uint32_t)g->spatial,
        .type = type,
        .n = (uint32_t)g->n,
        .c = (uint32_t)g->c,
        .k = (uint32_t)g->k,
        .groups = (uint32_t)g->g,
        .in = { deep ? (uint32_t)g->in_d : 1, (uint32_t)g->in_h, (uint32_t)g->in_w },
        .filter = { deep ? (uint32_t)g->fil_d : 1, (uint32_t)g->fil_h, (uint32_t)g->fil_w },
        .pad = { deep ? (uint32_t)g->pad_d : 0, (uint32_t)g->pad_h, (uint32_t)g->pad_w },
        .stride = { deep ? (uint32_t)g->stride_d : 1, (uint32_t)g->stride_h,
                    (uint32_t)g->stride_w },
        .dilation = { deep ? (uint32_t)g->dil_d : 1, (uint32_t)g->dil_h, (uint32_t)g->dil_w },
        .allow_tf32 = g->allow_tf32 && type == TYPE_FLOAT32,
    };
}

static enum kiln_code build_line(const struct values *g, enum data_type type,
                                 struct driver_line *ret_line, struct kiln_err *err)
{
    struct driver_line line = {
        .problem = problem_of(g, type),
        .directions = g->directions ? (unsigned)g->directions : 7,
        .iterations = g->iterations ? (unsigned)g->iterations : 1,
        .verify = g->verify != 0,
        .time = g->time != 0,
        .wall = g->wall != 0,
        .search = g->search != 0,
    };
    if (strcmp(g->solver, "-1") != 0 && strcmp(g->solver, "0") != 0)
        snprintf(line.solver, sizeof(line.solver), "%s", g->solver);
    enum kiln_code rc = read_layouts(g, &line.problem, err);
    if (!rc)
        rc = apply_pad_mode(g, &line.problem, err);
    if (!rc)
        rc = read_mode(g, &line, err);
    if (!rc)
        rc = problem_check(&line.problem, err);
    if (rc)
        return rc;
    *ret_line = line;
    return KILN_OK;
}

static bool program_type(const char *word, enum data_type *ret_type)
{
    static const struct {
        const char *word;
        enum data_type type;
    } programs[] = {
        { "conv", TYPE_FLOAT32 },
        { "convfp16", TYPE_FLOAT16 },
        { "convbfp16", TYPE_BFLOAT16 },
        { "convint8", TYPE_INT8 },
    };
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        if (strcmp(word, programs[i].word) == 0) {
            *ret_type = programs[i].type;
            return true;
        }
    }
    return false;
}

enum kiln_code driver_words_parse(const char *const *words, size_t count,
                                  struct driver_line *ret_line, struct kiln_err *err)
{
    for (size_t i = 0; i < count; i++) {
        enum data_type type = TYPE_FLOAT32;
        if (!program_type(words[i], &type))
            continue;
        struct values g = default_values();
        enum kiln_code rc = read_flags(words + i + 1, count - i - 1, &g, err);
        return rc ? rc : build_line(&g, type, ret_line, err);
    }
    return kiln_fail(err, KILN_INVALID,
                     "'%.60s%s' has no conv, convfp16 or convbfp16: kiln handles convolutions only",
                     count ? words[0] : "", count > 1 ? " ..." : "");
}

static enum kiln_code split_words(char *text, const char *words[DRIVER_WORDS_MAX],
                                  size_t *ret_count, struct kiln_err *err)
{
    *ret_count = 0;
    for (char *at = text; *at;) {
        while (isspace((unsigned char)*at))
            at++;
        if (!*at)
            break;
        if (*ret_count == DRIVER_WORDS_MAX)
            return kiln_fail(err, KILN_INVALID, "a command line has more than %d words",
                             DRIVER_WORDS_MAX);
        char quote = *at == '"' || *at == '\'' ? *at++ : '\0';
        words[(*ret_count)++] = at;
        while (*at && (quote ? *at != quote : !isspace((unsigned char)*at)))
            at++;
        if (*at)
            *at++ = '\0';
        else if (quote)
            return kiln_fail(err, KILN_INVALID, "the quote %c before '%.40s' is not closed", quote,
                             words[*ret_count - 1]);
    }
    return KILN_OK;
}

static bool is_blank_or_comment(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return !*text || *text == '#';
}

#define LINE_MAX 4096

enum kiln_code driver_line_parse(struct bytes text, struct driver_line *ret_line,
                                 struct kiln_err *err)
{
    char copy[LINE_MAX];
    if (text.size >= sizeof(copy))
        return kiln_fail(err, KILN_INVALID, "a line of %zu bytes exceeds the limit of %d",
                         text.size, LINE_MAX - 1);
    for (size_t i = 0; i < text.size; i++) {
        if (!text.data[i])
            return kiln_fail(err, KILN_INVALID, "byte %zu of the line is NUL", i);
        copy[i] = (char)text.data[i];
    }
    copy[text.size] = '\0';
    const char *words[DRIVER_WORDS_MAX];
    size_t count = 0;
    if (is_blank_or_comment(copy))
        return KILN_NOT_FOUND;
    enum kiln_code rc = split_words(copy, words, &count, err);
    return rc ? rc : driver_words_parse(words, count, ret_line, err);
}

bool driver_line_problem(const struct driver_line *line, unsigned index,
                         struct problem *ret_problem)
{
    for (unsigned bit = 0; bit < 3; bit++) {
        if (!(line->directions & (1u << bit)))
            continue;
        if (index-- > 0)
            continue;
        *ret_problem = line->problem;
        ret_problem->direction = line->transposed && bit < 2 ? 1 - bit : bit;
        return true;
    }
    return false;
}

const char *driver_flag(size_t index, char *ret_letter, const char **ret_name)
{
    if (index >= FLAG_COUNT)
        return NULL;
    *ret_letter = flags[index].letter;
    *ret_name = flags[index].name;
    return flags[index].help;
}
