/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/names.h"

#include "libclient/rtc/comments.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A text is a list of 32-bit hashes, one for each word.  Words with the same hash only make the
 * answer more cautious.  The following values have a meaning of their own. */
enum {
    WORD_FILE = 1,   /* __FILE__, __FILE_NAME__, or a part of these that ## may complete */
    WORD_MAIN,       /* __BASE_FILE__ and similar words, or a part of them */
    WORD_DEFINE,     /* a macro begins: the next word is its name, and its text follows */
    WORD_DEFINE_END, /* the macro ends */
    /* the next word is a part of the macro's name, with which ## may make the name */
    WORD_NAME_PART,
    WORD_FIRST = 16, /* all other words have at least this value */
};

#define PART_MIN 3
#define NAME_MAX_SIZE 256u /* longer names of macros have no parts, which would take long */
#define SEEN 1024u
#define TAINTED_MAX 2048u
#define TAINTED_BITS 524288u

struct names_text {
    struct buffer words;
    bool has_name; /* contains WORD_FILE or WORD_MAIN */
};

/* ---- words ---- */

static bool is_of_word(uint8_t c) { return isalnum(c) || c == '_' || c >= 0x80; }

static bool is_in(struct bytes word, const char *whole)
{
    return word.size && memmem(whole, strlen(whole), word.data, word.size);
}

static bool begins_with(struct bytes word, const char *beginning)
{
    size_t size = strlen(beginning);
    return word.size >= size && memcmp(word.data, beginning, size) == 0;
}

/* Returns whether ## may make one of the words from |word| and other parts.  The beginnings that
 * many other words have, too, are no parts. */
static bool is_part(struct bytes word, const char *whole)
{
    return word.size >= PART_MIN && memchr(word.data, '_', word.size) && is_in(word, whole) &&
           !is_in(word, "__BASE_") && !is_in(word, "__builtin_");
}

static uint32_t hash_of(struct bytes word)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < word.size; i++)
        hash = (hash ^ word.data[i]) * 16777619u;
    return hash < WORD_FIRST ? hash + WORD_FIRST : hash;
}

static uint32_t kind_of(struct bytes word)
{
    if (is_part(word, "__FILE__") || is_part(word, "__FILE_NAME__") ||
        (word.size == 4 && begins_with(word, "FILE")))
        return WORD_FILE;
    if (is_part(word, "__BASE_FILE__") || is_part(word, "__builtin_FILE") ||
        begins_with(word, "__builtin_FILE") || begins_with(word, "__builtin_source_location"))
        return WORD_MAIN;
    return hash_of(word);
}

/* ---- reading a text ---- */

struct scan {
    struct names_text *to;
    const uint8_t *begin, *at, *end;
    bool has_comments; /* else what looks like one is in a string */
    bool is_in_macro, is_in_comment;
    uint32_t seen[SEEN]; /* words that were put outside of macros; leaves out most repetitions */
};

static void put(struct scan *s, uint32_t word)
{
    s->to->has_name |= word == WORD_FILE || word == WORD_MAIN;
    buffer_put(&s->to->words, &word, sizeof(word));
}

static bool is_next(const struct scan *s, const char *text)
{
    size_t size = strlen(text);
    return (size_t)(s->end - s->at) >= size && memcmp(s->at, text, size) == 0;
}

static struct bytes take_word(struct scan *s)
{
    const uint8_t *begin = s->at;
    while (s->at < s->end && is_of_word(*s->at))
        s->at++;
    return bytes_of(begin, (size_t)(s->at - begin));
}

static void read_word(struct scan *s)
{
    uint32_t word = kind_of(take_word(s)), *seen = &s->seen[word % SEEN];
    if (!s->is_in_macro && *seen == word)
        return;
    if (!s->is_in_macro)
        *seen = word;
    put(s, word);
}

static void end_macro(struct scan *s)
{
    if (s->is_in_macro)
        put(s, WORD_DEFINE_END);
    s->is_in_macro = s->is_in_comment = false;
}

/* Skips to |end|, but notes the program's name: what is skipped may be in a string, and be code. */
static void skip_to(struct scan *s, const uint8_t *end)
{
    while (s->at < end)
        if (is_of_word(*s->at)) {
            uint32_t word = kind_of(take_word(s));
            s->to->has_name |= word == WORD_FILE || word == WORD_MAIN;
        } else {
            s->at++;
        }
}

static bool is_comment(const struct scan *s) { return s->has_comments && is_next(s, "/*"); }

static void skip_blanks(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || is_comment(s))) {
        const uint8_t *end =
            *s->at == '/' ? memmem(s->at, (size_t)(s->end - s->at), "*/", 2) : s->at;
        skip_to(s, !end ? s->end : *s->at == '/' ? end + 2 : s->at + 1);
    }
}

static bool is_first_in_line(const struct scan *s)
{
    const uint8_t *at = s->at;
    while (at > s->begin && (at[-1] == ' ' || at[-1] == '\t'))
        at--;
    return at == s->begin || at[-1] == '\n';
}

static void put_part(struct scan *s, const uint8_t *begin, const uint8_t *end)
{
    if (end - begin < PART_MIN)
        return;
    put(s, WORD_NAME_PART);
    put(s, hash_of(bytes_of(begin, (size_t)(end - begin))));
}

/* Puts the name of a macro, and the parts that "LOG_##level" or "kind##_LOG" may leave of it. */
static void put_name(struct scan *s, struct bytes name)
{
    const uint8_t *end = name.data + name.size;
    put(s, kind_of(name));
    if (name.size > NAME_MAX_SIZE)
        return;
    for (const uint8_t *at = name.data; at < end; at++)
        if (*at == '_') {
            put_part(s, name.data, at + 1);
            put_part(s, at, end);
        }
}

/* Returns whether a line ends in a string or a comment that may have begun before the line.  Then
 * the line is perhaps no directive. */
static bool may_end_text(const uint8_t *begin, const uint8_t *end)
{
    const size_t size = (size_t)(end - begin);
    return size && (memchr(begin, '"', size) || memmem(begin, size, "*/", 2));
}

/* Reads from a "#".  If a definition follows, begins a macro.  Skips the line of a condition, which
 * cannot depend on the text of a name. */
static void read_directive(struct scan *s)
{
    const bool is_certain = is_first_in_line(s) && !s->is_in_macro;
    s->at += *s->at == '#' ? 1 : 2;
    skip_blanks(s);
    if (is_certain && (is_next(s, "if") || is_next(s, "el") || is_next(s, "endif"))) {
        const uint8_t *end = memchr(s->at, '\n', (size_t)(s->end - s->at));
        end = end ? end : s->end;
        if (!may_end_text(s->at, end))
            skip_to(s, end);
        return;
    }
    if (!is_next(s, "define"))
        return;
    s->at += strlen("define");
    skip_blanks(s);
    end_macro(s);
    put(s, WORD_DEFINE);
    put_name(s, take_word(s));
    s->is_in_macro = true;
}

/* A macro ends with its line, or with the line in which a comment ends that began in the macro. */
static void read_other(struct scan *s)
{
    if (*s->at == '\n' && !s->is_in_comment)
        end_macro(s);
    else if (s->is_in_macro && is_comment(s))
        s->is_in_comment = true;
    else if (is_next(s, "*/"))
        s->is_in_comment = false;
    s->at++;
}

static void read_text(struct scan *s)
{
    while (s->at < s->end)
        if (is_of_word(*s->at))
            read_word(s);
        else if (*s->at == '#' || is_next(s, "%:"))
            read_directive(s);
        else
            read_other(s);
    end_macro(s);
}

static struct names_text *read_joined(struct bytes joined, bool has_comments)
{
    struct names_text *to = calloc(1, sizeof(*to));
    if (!to)
        return NULL;
    buffer_init(&to->words, SIZE_MAX);
    struct scan s = { .to = to,
                      .begin = joined.data,
                      .at = joined.data,
                      .end = joined.data + joined.size,
                      .has_comments = has_comments };
    read_text(&s);
    if (!to->words.failed)
        return to;
    names_free(to);
    return NULL;
}

/* Reads a text with a name again without its comments, which may be what has the name. */
static struct names_text *read_without_comments(struct names_text *whole, struct bytes text)
{
    BUFFER_AUTO struct buffer code;
    buffer_init(&code, text.size);
    if (!whole || !whole->has_name || !comments_remove(text, &code))
        return whole;
    names_free(whole);
    return read_joined(buffer_view(&code), false);
}

struct names_text *names_read(struct bytes text)
{
    BUFFER_AUTO struct buffer joined;
    buffer_init(&joined, text.size);
    comments_join_lines(text, &joined);
    return joined.failed ? NULL
                         : read_without_comments(read_joined(buffer_view(&joined), true), text);
}

void names_free(struct names_text *text)
{
    if (text)
        buffer_done(&text->words);
    free(text);
}

/* ---- following macros ---- */

/* Words that lead to the program's name. */
struct tainted {
    uint32_t words[TAINTED_MAX];
    unsigned count;
    bool is_full;
    uint8_t bits[TAINTED_BITS / 8]; /* makes most searches short */
};

static bool is_tainted(const struct tainted *t, uint32_t word)
{
    if (!(t->bits[word % TAINTED_BITS / 8] & 1u << word % 8))
        return false;
    for (unsigned i = 0; i < t->count; i++)
        if (t->words[i] == word)
            return true;
    return false;
}

static void taint(struct tainted *t, uint32_t word)
{
    t->is_full |= t->count == TAINTED_MAX;
    if (t->is_full)
        return;
    t->words[t->count++] = word;
    t->bits[word % TAINTED_BITS / 8] |= (uint8_t)(1u << word % 8);
}

static size_t word_count(const struct names_text *text)
{
    return text->words.size / sizeof(uint32_t);
}

static uint32_t word_at(const struct names_text *text, size_t at)
{
    uint32_t word;
    memcpy(&word, text->words.data + at * sizeof(word), sizeof(word));
    return word;
}

/* Taints the macro whose name is at |at|, and the parts of its name, which follow. */
static void taint_macro(struct tainted *t, const struct names_text *text, size_t at)
{
    taint(t, word_at(text, at));
    for (size_t i = at + 1; i + 1 < word_count(text) && word_at(text, i) == WORD_NAME_PART; i += 2)
        if (!is_tainted(t, word_at(text, i + 1)))
            taint(t, word_at(text, i + 1));
}

/* Taints the macros of |text| that use a tainted word.  Returns whether there was one. */
static bool taint_macros(struct tainted *t, const struct names_text *text)
{
    unsigned before = t->count;
    size_t macro = 0; /* the place of its name */
    for (size_t i = 0; i < word_count(text); i++) {
        uint32_t word = word_at(text, i);
        if (word == WORD_DEFINE)
            macro = i + 1;
        else if (word == WORD_DEFINE_END)
            macro = 0;
        if (word == WORD_DEFINE || word == WORD_NAME_PART)
            i++;
        else if (macro && is_tainted(t, word) && !is_tainted(t, word_at(text, macro)))
            taint_macro(t, text, macro);
    }
    return t->count > before;
}

static void follow_macros(struct tainted *t, const struct names_text *const *texts, size_t count)
{
    bool has_more = true;
    while (has_more) {
        has_more = false;
        for (size_t i = 0; i < count; i++)
            has_more |= taint_macros(t, texts[i]);
    }
}

/* Returns whether |text| contains a tainted word, outside of macros or anywhere. */
static bool has_tainted(const struct tainted *t, const struct names_text *text, bool anywhere)
{
    bool is_in_macro = false;
    for (size_t i = 0; i < word_count(text); i++) {
        uint32_t word = word_at(text, i);
        is_in_macro = (is_in_macro || word == WORD_DEFINE) && word != WORD_DEFINE_END;
        if (word == WORD_NAME_PART)
            i++;
        else if ((anywhere || !is_in_macro) && is_tainted(t, word))
            return true;
    }
    return false;
}

static bool may_be_named(const struct names_text *program, const struct names_text *const *headers,
                         size_t count)
{
    bool may = program->has_name;
    for (size_t i = 0; i < count; i++)
        may |= headers[i]->has_name;
    return may;
}

bool names_are_expanded(const struct names_text *program, const struct names_text *const *headers,
                        size_t header_count)
{
    if (!may_be_named(program, headers, header_count))
        return false;
    struct tainted *t = calloc(1, sizeof(*t));
    if (!t)
        return true;
    taint(t, WORD_MAIN);
    follow_macros(t, headers, header_count);
    bool is_expanded = false;
    for (size_t i = 0; i < header_count; i++)
        is_expanded |= has_tainted(t, headers[i], false);
    taint(t, WORD_FILE);
    follow_macros(t, headers, header_count);
    is_expanded |= has_tainted(t, program, true) || t->is_full;
    free(t);
    return is_expanded;
}
