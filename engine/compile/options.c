/* SPDX-License-Identifier: MIT */
#include "engine/compile/options.h"
#include "common/protocol/limits.h"

#include <ctype.h>
#include <string.h>

static const struct allowed {
    const char *text;
    bool has_value;
} allowed[] = {
#define ALLOWED_SWITCH(text_) { .text = text_, .has_value = false },
#define ALLOWED_VALUE(prefix) { .text = prefix, .has_value = true },
#include "engine/compile/options_allowed.def"
#undef ALLOWED_SWITCH
#undef ALLOWED_VALUE
};

struct option {
    struct bytes text;
    struct bytes macro; /* empty unless the option is -D or -U */
    size_t place;
};

static bool is_macro(struct bytes option)
{
    return option.size >= 2 && option.data[0] == '-' &&
           (option.data[1] == 'D' || option.data[1] == 'U');
}

static struct bytes macro_name(struct bytes option)
{
    size_t end = 2;
    while (end < option.size && option.data[end] != '=')
        end++;
    return bytes_of(option.data + 2, end - 2);
}

static bool is_identifier(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        if (!isalnum(name.data[i]) && name.data[i] != '_')
            return false;
    }
    return name.size && !isdigit(name.data[0]);
}

/* Rejects quotes, backslashes and '#', because compilers interpret them differently, and no number
 * or type name needs them. */
static bool value_is_fine(struct bytes value)
{
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] >= 127 || strchr("\"'`\\#", value.data[i]))
            return false;
    }
    return true;
}

static bool macro_is_fine(struct bytes option)
{
    struct bytes name = macro_name(option);
    size_t used = 2 + name.size;
    bool undefines = option.data[1] == 'U';
    return is_identifier(name) && (!undefines || used == option.size) &&
           value_is_fine(bytes_of(option.data + used, option.size - used));
}

static bool plain_word(const uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (at[i] >= 127 || (!isalnum(at[i]) && !strchr("_.+", at[i])))
            return false;
    }
    return size > 0;
}

static bool switch_is_fine(struct bytes option)
{
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        size_t length = strlen(allowed[i].text);
        if (option.size < length || memcmp(option.data, allowed[i].text, length) != 0)
            continue;
        if (allowed[i].has_value ? plain_word(option.data + length, option.size - length)
                                 : option.size == length)
            return true;
    }
    return false;
}

static enum kiln_code check_letters(struct bytes text, struct kiln_err *err)
{
    if (text.size > LIMIT_OPTIONS_TEXT)
        return kiln_fail(err, KILN_INVALID,
                         "the compile options have %zu bytes, but at most %u are allowed",
                         text.size, LIMIT_OPTIONS_TEXT);
    for (size_t i = 0; i < text.size; i++) {
        if (iscntrl(text.data[i]))
            return kiln_fail(err, KILN_INVALID,
                             "the compile options contain the control character %u at byte %zu",
                             text.data[i], i);
    }
    return KILN_OK;
}

static enum kiln_code refuse_option(struct bytes option, struct kiln_err *err)
{
    char shown[81];
    size_t size = option.size < sizeof(shown) - 1 ? option.size : sizeof(shown) - 1;
    for (size_t i = 0; i < size; i++)
        shown[i] = option.data[i] < 127 ? (char)option.data[i] : '?';
    shown[size] = '\0';
    return kiln_fail(err, KILN_DENIED,
                     "compile option '%s' is not allowed (allowed: -DNAME=VALUE, -UNAME, -O0 to "
                     "-O3, -Os, -std=, floating-point and target switches; headers come with the "
                     "request, never by -I)",
                     shown);
}

static enum kiln_code split_options(struct bytes text, struct option *options, size_t *ret_count,
                                    struct kiln_err *err)
{
    size_t count = 0;
    for (size_t at = 0; at < text.size;) {
        size_t end = at;
        while (end < text.size && text.data[end] != ' ')
            end++;
        struct bytes option = bytes_of(text.data + at, end - at);
        at = end + 1;
        if (option.size == 0)
            continue;
        if (!(is_macro(option) ? macro_is_fine(option) : switch_is_fine(option)))
            return refuse_option(option, err);
        options[count] = (struct option){ .text = option, .place = count };
        if (is_macro(option))
            options[count].macro = macro_name(option);
        count++;
    }
    *ret_count = count;
    return KILN_OK;
}

/* Returns what the option sets: for -D and -U, the name of the macro; otherwise, the whole option.
 * A later option replaces an earlier one with the same subject. */
static struct bytes option_subject(const struct option *o)
{
    return o->macro.size ? o->macro : o->text;
}

static int compare_subjects(const void *left, const void *right)
{
    const struct option *a = left, *b = right;
    if (!a->macro.size != !b->macro.size)
        return a->macro.size ? -1 : 1;
    int order = bytes_compare(option_subject(a), option_subject(b));
    return order ? order : (a->place > b->place) - (a->place < b->place);
}

static int by_place(const void *left, const void *right)
{
    const struct option *a = left, *b = right;
    if (!a->macro.size != !b->macro.size)
        return a->macro.size ? -1 : 1;
    if (a->macro.size)
        return bytes_compare(a->macro, b->macro);
    return (a->place > b->place) - (a->place < b->place);
}

static size_t drop_replaced(struct option *options, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool replaced = i + 1 < count && !options[i].macro.size == !options[i + 1].macro.size &&
                        bytes_equal(option_subject(&options[i]), option_subject(&options[i + 1]));
        if (!replaced)
            options[kept++] = options[i];
    }
    return kept;
}

enum kiln_code options_canonicalise(struct bytes text, struct buffer *ret_canonical,
                                    struct kiln_err *err)
{
    enum kiln_code rc = check_letters(text, err);
    if (rc)
        return rc;
    KILN_AUTO(mem) struct option *options = calloc(text.size / 2 + 1, sizeof(*options));
    if (!options)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu bytes of compile options",
                         text.size);
    size_t count = 0;
    rc = split_options(text, options, &count, err);
    if (rc)
        return rc;
    qsort(options, count, sizeof(*options), compare_subjects);
    count = drop_replaced(options, count);
    qsort(options, count, sizeof(*options), by_place);
    for (size_t i = 0; i < count; i++) {
        if (i)
            buffer_put_u8(ret_canonical, ' ');
        buffer_put(ret_canonical, options[i].text.data, options[i].text.size);
    }
    if (ret_canonical->failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the canonical compile options");
    return KILN_OK;
}
