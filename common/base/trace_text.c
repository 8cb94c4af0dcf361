/* SPDX-License-Identifier: MIT */
#include "common/base/trace_text.h"

#include "common/base/digest.h"

#include <stdio.h>
#include <string.h>

enum form { FORM_NUMBER, FORM_WORD, FORM_KEY, FORM_TIER, FORM_REST };

struct field {
    enum form form;
    size_t offset;
};

#define FIELD(name, form) \
    static const struct field field_##name = { form, offsetof(struct trace_line, name) };
FIELD(start_us, FORM_NUMBER)
FIELD(wanted_us, FORM_NUMBER)
FIELD(waited_us, FORM_NUMBER)
FIELD(compile_us, FORM_NUMBER)
FIELD(pid, FORM_NUMBER)
FIELD(host, FORM_WORD)
FIELD(target, FORM_WORD)
FIELD(database_id, FORM_WORD)
FIELD(toolchain, FORM_WORD)
FIELD(solver, FORM_WORD)
FIELD(tier, FORM_TIER)
FIELD(key, FORM_KEY)
FIELD(rest, FORM_REST)
#undef FIELD

#define FIELDS_MAX 9
static const struct kind {
    const char *word;
    const struct field *fields[FIELDS_MAX]; /* in the order of the line; NULL ends them */
} kinds[] = {
    [TRACE_PROCESS] = { "process", { &field_start_us, &field_host, &field_pid, &field_rest } },
    [TRACE_PLAN] = { "plan",
                     { &field_wanted_us, &field_waited_us, &field_tier, &field_target,
                       &field_database_id, &field_toolchain, &field_solver, &field_rest } },
    [TRACE_OBJECT] = { "object", { &field_tier, &field_compile_us, &field_key } },
    [TRACE_KERNEL] = { "kernel",
                       { &field_wanted_us, &field_waited_us, &field_tier, &field_compile_us,
                         &field_target, &field_key } },
    [TRACE_COMPILE] = { "compile",
                        { &field_wanted_us, &field_waited_us, &field_tier, &field_compile_us,
                          &field_target, &field_key } },
    [TRACE_CUT] = { "cut", { &field_rest } },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const char *const tiers[TRACE_TIERS] = {
    [TRACE_HOT] = "hot",       [TRACE_DISK] = "disk",         [TRACE_PACKAGE] = "package",
    [TRACE_FLEET] = "fleet",   [TRACE_COMPILED] = "compiled", [TRACE_OWN] = "own",
    [TRACE_FAILED] = "failed",
};

const char *trace_tier_name(enum trace_tier tier) { return tiers[tier]; }

/* ---- reading ---- */

static struct bytes take_word(struct reader *r)
{
    size_t left = reader_left(r);
    const uint8_t *blank = left ? memchr(r->at, ' ', left) : NULL;
    struct bytes word = reader_take(r, blank ? (size_t)(blank - r->at) : left);
    if (blank && reader_left(r) == 1)
        r->failed = true;
    else if (blank)
        reader_u8(r);
    return word;
}

static bool is_printable(struct bytes text, uint8_t least)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < least || text.data[i] > '~')
            return false;
    return text.size > 0;
}

static bool is_word(struct bytes word)
{
    return is_printable(word, '!') && word.size <= TRACE_WORD_MAX;
}

static bool read_number(struct bytes word, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (size_t i = 0; i < word.size; i++) {
        if (word.data[i] < '0' || word.data[i] > '9')
            return false;
        number = 10 * number + (uint64_t)(word.data[i] - '0');
    }
    *ret_number = number;
    return word.size > 0 && word.size <= 16 && number <= TRACE_NUMBER_MAX;
}

static bool read_tier(struct bytes word, enum trace_tier *ret_tier)
{
    for (int tier = 0; tier < TRACE_TIERS; tier++) {
        *ret_tier = (enum trace_tier)tier;
        if (bytes_equal_text(word, tiers[tier]))
            return true;
    }
    return false;
}

static bool is_key(struct bytes word)
{
    char hex[DIGEST_HEX_SIZE] = "";
    struct digest ignored;
    if (word.size != sizeof(hex) - 1)
        return false;
    memcpy(hex, word.data, word.size);
    return digest_from_hex(hex, &ignored);
}

static bool read_text(struct bytes word, struct bytes *ret_text)
{
    *ret_text = bytes_equal_text(word, "-") ? bytes_of(NULL, 0) : word;
    return is_word(word);
}

static bool read_rest(struct reader *r, struct bytes *ret_rest)
{
    *ret_rest = reader_take(r, reader_left(r));
    return is_printable(*ret_rest, ' ') && ret_rest->data[0] != ' ' &&
           ret_rest->data[ret_rest->size - 1] != ' ';
}

static bool read_field(struct reader *r, const struct field *field, struct trace_line *line)
{
    void *to = (char *)line + field->offset;
    if (field->form == FORM_REST)
        return read_rest(r, to);
    struct bytes word = take_word(r);
    switch (field->form) {
    case FORM_NUMBER: return read_number(word, to);
    case FORM_TIER: return read_tier(word, to);
    case FORM_KEY: *(struct bytes *)to = word; return is_key(word);
    default: return read_text(word, to);
    }
}

static bool is_kind(struct bytes word)
{
    bool is_fine = word.size > 0 && word.size <= 32;
    for (size_t i = 0; is_fine && i < word.size; i++)
        is_fine = (word.data[i] >= 'a' && word.data[i] <= 'z') || word.data[i] == '-';
    return is_fine;
}

enum trace_verdict trace_line_parse(struct bytes text, struct trace_line *ret_line)
{
    struct reader r = reader_of(text);
    struct trace_line line = { 0 };
    size_t kind = 0;
    if (text.size >= TRACE_LINE_MAX || !is_printable(text, ' '))
        return TRACE_DAMAGED;
    struct bytes word = take_word(&r);
    while (kind < KINDS && !bytes_equal_text(word, kinds[kind].word))
        kind++;
    if (kind == KINDS)
        return is_kind(word) ? TRACE_UNKNOWN : TRACE_DAMAGED;
    line.kind = (enum trace_kind)kind;
    for (const struct field *const *field = kinds[kind].fields; *field; field++)
        if (!read_field(&r, *field, &line))
            return TRACE_DAMAGED;
    if (r.failed || reader_left(&r))
        return TRACE_DAMAGED;
    *ret_line = line;
    return TRACE_VALID;
}

/* ---- writing ---- */

static void put_number(struct buffer *to, uint64_t number)
{
    char text[24];
    if (number > TRACE_NUMBER_MAX)
        number = TRACE_NUMBER_MAX;
    buffer_put(to, text, (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)number));
}

static void put_word(struct buffer *to, struct bytes word)
{
    if (word.size == 0)
        buffer_put_u8(to, '-');
    else if (is_word(word))
        buffer_put(to, word.data, word.size);
    else
        to->failed = true;
}

static void put_field(struct buffer *to, const struct field *field, const struct trace_line *line)
{
    const void *from = (const char *)line + field->offset;
    buffer_put_u8(to, ' ');
    if (field->form == FORM_NUMBER)
        put_number(to, *(const uint64_t *)from);
    else if (field->form == FORM_TIER)
        put_word(to, bytes_of_text(tiers[*(const enum trace_tier *)from]));
    else if (field->form == FORM_REST)
        buffer_put(to, ((const struct bytes *)from)->data, ((const struct bytes *)from)->size);
    else
        put_word(to, *(const struct bytes *)from);
}

bool trace_line_write(const struct trace_line *line, struct buffer *to)
{
    const size_t before = to->size;
    const struct kind *kind = &kinds[line->kind];
    struct trace_line again;
    buffer_put(to, kind->word, strlen(kind->word));
    for (const struct field *const *field = kind->fields; *field; field++)
        put_field(to, *field, line);
    bool is_fine = !to->failed && trace_line_parse(bytes_of(to->data + before, to->size - before),
                                                   &again) == TRACE_VALID;
    buffer_put_u8(to, '\n');
    if (is_fine && !to->failed)
        return true;
    to->size = before;
    to->failed = false;
    return false;
}
