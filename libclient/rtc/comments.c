/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/comments.h"

#include <string.h>

struct scan {
    const uint8_t *at, *end;
};

static bool is_next(const struct scan *s, const char *text)
{
    size_t size = strlen(text);
    return (size_t)(s->end - s->at) >= size && memcmp(s->at, text, size) == 0;
}

static const uint8_t *line_end(const struct scan *s)
{
    const uint8_t *end = memchr(s->at, '\n', (size_t)(s->end - s->at));
    return end ? end : s->end;
}

static bool has(const uint8_t *from, const uint8_t *to, const char *text)
{
    return from < to && memmem(from, (size_t)(to - from), text, strlen(text));
}

/* Returns whether the file has a construct after which the rules below may be wrong: a raw string,
 * or a trigraph, which may stand for a backslash. */
static bool is_unusual(struct bytes text)
{
    return has(text.data, text.data + text.size, "R\"") ||
           has(text.data, text.data + text.size, "?\?/");
}

/* Returns whether |at| may be in the name of a file, as in #include <a//b.h>. */
static bool is_in_name(const uint8_t *line, const uint8_t *at)
{
    bool has_name = has(line, at, "include") || has(line, at, "import") || has(line, at, "embed");
    return has_name && has(line, at, "<") && !has(line, at, ">");
}

/* Skips a comment.  Returns false if its end is not certain, because of a backslash: in a comment
 * of one line, it may continue the comment, and after a "*", it may stand before the last "/" in
 * the next line. */
static bool skip_comment(struct scan *s)
{
    const bool is_line = s->at[1] == '/';
    const uint8_t *end = line_end(s);
    if (is_line) {
        bool is_certain = !memchr(s->at, '\\', (size_t)(end - s->at));
        s->at = end;
        return is_certain;
    }
    const uint8_t *begin = s->at + 2;
    end = memmem(begin, (size_t)(s->end - begin), "*/", 2);
    s->at = end ? end + 2 : s->end;
    return end && !has(begin, end, "*\\");
}

/* Skips a string or character.  Returns false if its end is not certain: it is not in the line, as
 * of the apostrophe in 1'000, and a comment may begin behind it. */
static bool skip_literal(struct scan *s)
{
    const uint8_t quote = *s->at, *end = line_end(s);
    for (const uint8_t *at = s->at + 1; at < end; at++) {
        if (*at == '\\')
            at++;
        else if (*at == quote) {
            s->at = at + 1;
            return true;
        }
    }
    bool is_certain = !has(s->at, end, "/*") && !has(s->at, end, "//") &&
                      !memchr(s->at, '\\', (size_t)(end - s->at));
    s->at = end;
    return is_certain;
}

bool comments_remove(struct bytes text, struct buffer *to)
{
    struct scan s = { text.data, text.data + text.size };
    const uint8_t *line = s.at;
    bool is_certain = !is_unusual(text);
    while (is_certain && s.at < s.end) {
        const uint8_t *begin = s.at;
        if (is_next(&s, "//") || is_next(&s, "/*")) {
            is_certain = !is_in_name(line, s.at) && skip_comment(&s);
            buffer_put_u8(to, ' ');
            continue;
        }
        if (*s.at == '"' || *s.at == '\'')
            is_certain = skip_literal(&s);
        else if (*s.at++ == '\n')
            line = s.at;
        buffer_put(to, begin, (size_t)(s.at - begin));
    }
    return is_certain && !to->failed;
}
