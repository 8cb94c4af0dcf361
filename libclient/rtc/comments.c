/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/comments.h"

#include <ctype.h>
#include <string.h>

/* ---- lines ---- */

static const uint8_t *find(const uint8_t *from, const uint8_t *to, const char *text)
{
    return from < to ? memmem(from, (size_t)(to - from), text, strlen(text)) : NULL;
}

/* Returns the begin of the next line if |at|, a backslash, continues a line, or else NULL.  As
 * clang does, ignores blanks between the backslash and the end of the line. */
static const uint8_t *continued_line(const uint8_t *at, const uint8_t *end)
{
    do
        at++;
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\v' || *at == '\f' || *at == '\r'));
    return at < end && *at == '\n' ? at + 1 : NULL;
}

void comments_join_lines(struct bytes text, struct buffer *to)
{
    const uint8_t *begin = text.data, *end = text.data + text.size, *at = begin;
    while (at < end && (at = memchr(at, '\\', (size_t)(end - at)))) {
        const uint8_t *next = continued_line(at, end);
        if (next) {
            buffer_put(to, begin, (size_t)(at - begin));
            begin = next;
        }
        at = next ? next : at + 1;
    }
    buffer_put(to, begin, (size_t)(end - begin));
}

/* ---- comments ---- */

struct scan {
    const uint8_t *line, *at, *end; /* |line| is not behind the begin of the line of |at| */
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

/* Returns whether compilers may disagree about the lines of |text|: because of blanks behind a
 * backslash, a trigraph, which may be a backslash, or a character that may end a line. */
static bool has_unusual_lines(struct bytes text)
{
    static const char *const unusual[] = { "\\ ", "\\\t", "\\\v", "\\\f", "?\?", "\r", NULL };
    for (const char *const *one = unusual; *one; one++)
        if (find(text.data, text.data + text.size, *one))
            return true;
    return text.size && memchr(text.data, '\0', text.size);
}

/* Returns whether a comment that seems to begin here may be part of a file's name, as in
 * "#include <a//b.h>", or of a message: clang takes the whole line after #error and #warning as a
 * message. */
static bool may_be_text(const struct scan *s)
{
    const size_t size = (size_t)(s->at - s->line);
    const uint8_t *name = memrchr(s->line, '<', size);
    if (!find(s->line, s->at, "#") && !find(s->line, s->at, "%:") &&
        !find(s->line, s->at, "import"))
        return false;
    return (name && !find(name, s->at, ">")) ||
           (s->at[1] == '*' && (find(s->line, s->at, "error") || find(s->line, s->at, "warning")));
}

/* Skips a comment.  Returns false if it is not certain where the comment ends, or that it is one.
 * In C89, a comment begins at the second character of "//" followed by "*". */
static bool skip_comment(struct scan *s)
{
    bool is_certain = !may_be_text(s) && !is_next(s, "//*");
    if (s->at[1] == '/') {
        s->at = line_end(s);
        return is_certain;
    }
    const uint8_t *end = find(s->at + 2, s->end, "*/");
    s->at = end ? end + 2 : s->end;
    return is_certain && end;
}

/* Returns the end of a string or character, or NULL if its line does not contain the end. */
static const uint8_t *literal_end(const struct scan *s, const uint8_t *end)
{
    for (const uint8_t *at = s->at + 1; at < end; at++)
        if (*at == '\\')
            at++;
        else if (*at == *s->at)
            return at + 1;
    return NULL;
}

/* Returns whether an apostrophe may be part of a number or word, as in 1'000 or in "#error don't".
 */
static bool is_in_word(const struct scan *s)
{
    return *s->at == '\'' && s->at > s->line && (isalnum(s->at[-1]) || s->at[-1] == '_');
}

/* Skips a string or character, or the rest of the line if it is not certain where the literal ends.
 * Returns false if a comment may begin in that rest. */
static bool skip_literal(struct scan *s)
{
    const uint8_t *begin = s->at, *line = line_end(s), *end = literal_end(s, line);
    bool is_certain = end && !is_in_word(s);
    s->at = is_certain ? end : line;
    return is_certain || (!find(begin, line, "/*") && !find(begin, line, "//"));
}

static bool remove_comments(struct scan s, struct buffer *to)
{
    bool is_certain = !find(s.at, s.end, "R\"");
    while (is_certain && s.at < s.end) {
        const uint8_t *begin = s.at;
        if (is_next(&s, "//") || is_next(&s, "/*")) {
            is_certain = skip_comment(&s);
            buffer_put_u8(to, ' ');
            continue;
        }
        if (*s.at == '"' || *s.at == '\'')
            is_certain = skip_literal(&s);
        else if (*s.at++ == '\n')
            s.line = s.at;
        buffer_put(to, begin, (size_t)(s.at - begin));
    }
    return is_certain;
}

bool comments_remove(struct bytes text, struct buffer *to)
{
    BUFFER_AUTO struct buffer joined;
    buffer_init(&joined, text.size);
    comments_join_lines(text, &joined);
    const struct scan s = { joined.data, joined.data, joined.data + joined.size };
    return !has_unusual_lines(text) && !joined.failed && remove_comments(s, to) && !to->failed;
}
