/* SPDX-License-Identifier: MIT */
#include "engine/miopen/problem_key_parts.h"

#include <stdio.h>
#include <string.h>

/* The state of parsing a key. After an error (|rc|), the functions take_... do nothing. */
struct scan {
    struct bytes text;
    size_t at;
    const char *kind;
    enum kiln_code rc;
    struct kiln_err *err;
};

static void describe_byte(const struct scan *s, char text[16])
{
    if (s->at >= s->text.size)
        snprintf(text, 16, "its end");
    else if (s->text.data[s->at] > ' ' && s->text.data[s->at] < 0x7f)
        snprintf(text, 16, "'%c'", s->text.data[s->at]);
    else
        snprintf(text, 16, "byte 0x%02x", s->text.data[s->at]);
}

/* Reports a syntax error. |where| is "as" or "after": "expected a number as in_w", "expected 'x'
 * after in_w". */
static void fail_expected(struct scan *s, const char *what, const char *where, const char *field)
{
    char found[16];
    if (s->rc)
        return;
    describe_byte(s, found);
    s->rc = kiln_fail(s->err, KILN_INVALID, "%s key, column %zu: expected %s %s %s, found %s",
                      s->kind, s->at + 1, what, where, field, found);
}

static bool is_digit(const struct scan *s)
{
    return s->at < s->text.size && s->text.data[s->at] >= '0' && s->text.data[s->at] <= '9';
}

static uint32_t take_number(struct scan *s, const char *field)
{
    if (s->rc || !is_digit(s)) {
        fail_expected(s, "a number", "as", field);
        return 0;
    }
    size_t start = s->at;
    uint64_t value = 0;
    for (; is_digit(s) && value <= UINT32_MAX; s->at++)
        value = value * 10 + (s->text.data[s->at] - '0');
    if (value > UINT32_MAX)
        s->rc = kiln_fail(s->err, KILN_INVALID, "%s key, column %zu: %s exceeds %lu", s->kind,
                          start + 1, field, (unsigned long)UINT32_MAX);
    else if (s->text.data[start] == '0' && s->at - start > 1)
        s->rc = kiln_fail(s->err, KILN_INVALID, "%s key, column %zu: %s begins with 0", s->kind,
                          start + 1, field);
    return (uint32_t)value;
}

static void take_separator(struct scan *s, char wanted, const char *field)
{
    if (s->rc)
        return;
    if (s->at < s->text.size && s->text.data[s->at] == (uint8_t)wanted) {
        s->at++;
        return;
    }
    const char what[] = { '\'', wanted, '\'', '\0' };
    fail_expected(s, what, "after", field);
}

static bool is_word_byte(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= 'a' && byte <= 'z');
}

/* Takes letters and digits up to the character |end|, which may itself be a letter or digit.  The
 * word must not be empty. */
static struct bytes take_word(struct scan *s, char end, const char *field)
{
    size_t start = s->at;
    while (!s->rc && s->at < s->text.size && is_word_byte(s->text.data[s->at]) &&
           s->text.data[s->at] != (uint8_t)end)
        s->at++;
    if (s->at == start)
        fail_expected(s, "a word", "as", field);
    return bytes_of(s->text.data + start, s->at - start);
}

static void check_direction(struct scan *s, const struct key_parts *parts)
{
    struct bytes d = parts->direction;
    bool known = d.size == 1 && (*d.data == 'F' || *d.data == 'B' || *d.data == 'W');
    if (!s->rc && !known)
        s->rc = kiln_fail(s->err, KILN_INVALID,
                          "%s key, column %zu: direction '%.*s' is not one of F, B, W", s->kind,
                          (size_t)(d.data - s->text.data) + 1, (int)(d.size < 20 ? d.size : 20),
                          (const char *)d.data);
}

static bool check_size(struct scan *s)
{
    if (s->text.size < PROBLEM_KEY_MAX)
        return true;
    s->rc = kiln_fail(s->err, KILN_INVALID, "the %s key has %zu bytes; the limit is %d", s->kind,
                      s->text.size, PROBLEM_KEY_MAX - 1);
    return false;
}

static struct extent take_extent(struct scan *s, uint32_t dims, char between, char after,
                                 const char *const names[3])
{
    struct extent e = { 0 };
    if (dims == 3) {
        e.d = take_number(s, names[0]);
        take_separator(s, between, names[0]);
    }
    e.h = take_number(s, names[1]);
    take_separator(s, between, names[1]);
    e.w = take_number(s, names[2]);
    take_separator(s, after, names[2]);
    return e;
}

/* Takes the sizes of the input and of the filter. In 2-D, the third number is the filter's height,
 * and an 'x' follows it. In 3-D, the third number is in_w, and a '-' follows it. */
static void take_in_and_filter(struct scan *s, struct key_parts *parts)
{
    uint32_t first = take_number(s, "in_h or in_d");
    take_separator(s, '-', "in_h or in_d");
    uint32_t second = take_number(s, "in_w or in_h");
    take_separator(s, '-', "in_w or in_h");
    uint32_t third = take_number(s, "fil_h or in_w");
    bool flat = s->at < s->text.size && s->text.data[s->at] == 'x';
    parts->spatial_dims = flat ? 2 : 3;
    if (flat) {
        parts->in = (struct extent){ 0, first, second };
        take_separator(s, 'x', "fil_h");
        parts->filter = (struct extent){ 0, third, take_number(s, "fil_w") };
        take_separator(s, '-', "fil_w");
        return;
    }
    static const char *const filter[] = { "fil_d", "fil_h", "fil_w" };
    parts->in = (struct extent){ first, second, third };
    take_separator(s, '-', "in_w");
    parts->filter = take_extent(s, 3, 'x', '-', filter);
}

static void take_find_numbers(struct scan *s, struct key_parts *parts)
{
    static const char *const out[] = { "out_d", "out_h", "out_w" };
    static const char *const pad[] = { "pad_d", "pad_h", "pad_w" };
    static const char *const stride[] = { "conv_stride_d", "conv_stride_h", "conv_stride_w" };
    static const char *const dilation[] = { "dilation_d", "dilation_h", "dilation_w" };
    parts->in_channels = take_number(s, "in_channels");
    take_separator(s, '-', "in_channels");
    take_in_and_filter(s, parts);
    parts->out_channels = take_number(s, "out_channels");
    take_separator(s, '-', "out_channels");
    parts->out = take_extent(s, parts->spatial_dims, '-', '-', out);
    parts->n = take_number(s, "batchsize");
    take_separator(s, '-', "batchsize");
    parts->pad = take_extent(s, parts->spatial_dims, 'x', '-', pad);
    parts->stride = take_extent(s, parts->spatial_dims, 'x', '-', stride);
    parts->dilation = take_extent(s, parts->spatial_dims, 'x', '-', dilation);
    parts->bias = take_number(s, "bias");
    take_separator(s, '-', "bias");
}

static void take_find_words(struct scan *s, struct key_parts *parts)
{
    struct bytes words[LAYOUT_ORDERS + 2];
    unsigned count = 0;
    words[count++] = take_word(s, '\0', "layout");
    while (!s->rc && count < LAYOUT_ORDERS + 2 && s->at < s->text.size &&
           s->text.data[s->at] == '-') {
        s->at++;
        words[count++] = take_word(s, '\0', "layout, type or direction");
    }
    if (count != 3 && count != LAYOUT_ORDERS + 2)
        fail_expected(s, "one layout or three, type and direction", "after", "bias");
    if (s->rc)
        return;
    parts->layout_count = count - 2;
    memcpy(parts->layouts, words, parts->layout_count * sizeof(words[0]));
    parts->type = words[count - 2];
    parts->direction = words[count - 1];
    check_direction(s, parts);
}

/* Takes what may follow the direction: "_g" with the groups, and parts that later versions of
 * MIOpen add, such as "_ciFP16". */
static void take_suffix(struct scan *s, struct key_parts *parts)
{
    size_t start = s->at;
    parts->groups = 1;
    if (s->rc || s->at == s->text.size)
        return;
    take_separator(s, '_', "direction");
    if (!s->rc && s->at < s->text.size && s->text.data[s->at] == 'g') {
        s->at++;
        parts->groups = take_number(s, "group_count");
        parts->one_group_stated = parts->groups == 1;
        if (s->rc || s->at == s->text.size)
            return;
        take_separator(s, '_', "group_count");
    }
    (void)take_word(s, '\0', "optional part");
    while (!s->rc && s->at < s->text.size) {
        take_separator(s, '_', "optional part");
        (void)take_word(s, '\0', "optional part");
    }
    parts->suffix = bytes_of(s->text.data + start, s->at - start);
}

enum kiln_code find_key_split(struct bytes text, struct key_parts *ret_parts, struct kiln_err *err)
{
    struct scan s = { .text = text, .kind = "FindDb", .err = err };
    struct key_parts parts = { 0 };
    if (check_size(&s)) {
        take_find_numbers(&s, &parts);
        take_find_words(&s, &parts);
        take_suffix(&s, &parts);
    }
    if (!s.rc)
        *ret_parts = parts;
    return s.rc;
}

static uint32_t take_column(struct scan *s, const char *field)
{
    uint32_t value = take_number(s, field);
    take_separator(s, 'x', field);
    return value;
}

static struct extent take_columns(struct scan *s, const char *const names[3])
{
    struct extent e;
    e.h = take_column(s, names[1]);
    e.w = take_column(s, names[2]);
    e.d = take_column(s, names[0]);
    return e;
}

static void take_perf_numbers(struct scan *s, struct key_parts *parts)
{
    static const char *const in[] = { "in_d", "in_h", "in_w" };
    static const char *const filter[] = { "fil_d", "fil_h", "fil_w" };
    static const char *const pad[] = { "pad_d", "pad_h", "pad_w" };
    static const char *const stride[] = { "conv_stride_d", "conv_stride_h", "conv_stride_w" };
    static const char *const dilation[] = { "dilation_d", "dilation_h", "dilation_w" };
    parts->spatial_dims = take_column(s, "spatial_dim");
    parts->in_channels = take_column(s, "in_channels");
    parts->in = take_columns(s, in);
    parts->filter = take_columns(s, filter);
    parts->out_channels = take_column(s, "out_channels");
    parts->n = take_column(s, "batchsize");
    parts->pad = take_columns(s, pad);
    parts->stride = take_columns(s, stride);
    parts->dilation = take_columns(s, dilation);
    parts->bias = take_column(s, "bias");
    parts->groups = take_column(s, "group_count");
}

/* Takes LAYOUTxTYPExDIRECTION. A type may itself contain an 'x', such as INT8x4. */
static void take_perf_words(struct scan *s, struct key_parts *parts)
{
    parts->layouts[0] = take_word(s, 'x', "layout");
    parts->layout_count = 1;
    take_separator(s, 'x', "the layout");
    struct bytes rest = take_word(s, '\0', "data_type");
    if (s->rc)
        return;
    const uint8_t *last = memrchr(rest.data, 'x', rest.size);
    if (s->at < s->text.size || !last || last == rest.data) {
        fail_expected(s, "'x' and the direction", "after", "data_type");
        return;
    }
    parts->type = bytes_of(rest.data, (size_t)(last - rest.data));
    parts->direction = bytes_of(last + 1, rest.size - parts->type.size - 1);
    check_direction(s, parts);
}

enum kiln_code perf_key_split(struct bytes text, struct key_parts *ret_parts, struct kiln_err *err)
{
    struct scan s = { .text = text, .kind = "PerfDb", .err = err };
    struct key_parts parts = { 0 };
    if (check_size(&s)) {
        take_perf_numbers(&s, &parts);
        take_perf_words(&s, &parts);
    }
    if (!s.rc)
        *ret_parts = parts;
    return s.rc;
}
