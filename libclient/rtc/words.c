/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/words.h"

#include "common/base/pasted_words.h"
#include "libclient/rtc/comments.h"

#include <ctype.h>
#include <string.h>

#define WORD_MAX 128u

static const char *const times[] = { "__DATE__", "__TIME__", "__TIMESTAMP__", NULL };

static bool contains(struct bytes text, const char *word)
{
    return text.size && memmem(text.data, text.size, word, strlen(word));
}

/* Parts of a name in a comment cannot be put together.  For example, a comment in glibc's
 * <bits/types.h>, which most programs include, has the word __TIME. */
static bool have_parts(struct bytes text)
{
    BUFFER_AUTO struct buffer code;
    buffer_init(&code, text.size);
    return !comments_remove(text, &code) || pasted_words_possible(buffer_view(&code), times);
}

bool words_have_time(struct bytes text)
{
    BUFFER_AUTO struct buffer joined; /* because the end of a line may be in a name, or in "##" */
    buffer_init(&joined, text.size);
    comments_join_lines(text, &joined);
    if (joined.failed)
        return true;
    for (const char *const *time = times; *time; time++)
        if (contains(buffer_view(&joined), *time))
            return true;
    return pasted_words_possible(buffer_view(&joined), times) && have_parts(text);
}

bool words_have_name(struct bytes header)
{
    return contains(header, "__FILE__") || contains(header, "__BASE_FILE__") ||
           contains(header, "__builtin_FILE") || contains(header, "source_location");
}

static bool is_of_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static struct bytes skip(struct bytes text, size_t size)
{
    return bytes_of(text.data + size, text.size - size);
}

static bool is_directive(struct bytes text, const uint8_t *at)
{
    while (at > text.data && (at[-1] == ' ' || at[-1] == '\t'))
        at--;
    return at > text.data && at[-1] == '#';
}

/* Finds the next macro that |rest| defines, and sets |rest| to the text after its name.  Returns
 * false if there is no further macro.  The name is empty if the word "define" has another meaning,
 * as in "defined(NAME)" or in a comment. */
static bool next_macro(struct bytes *rest, char ret_name[WORD_MAX])
{
    const uint8_t *found;
    size_t size = 0;
    ret_name[0] = '\0';
    if (!rest->size || !(found = memmem(rest->data, rest->size, "define", 6)))
        return false;
    bool is_macro = is_directive(*rest, found);
    *rest = skip(*rest, (size_t)(found - rest->data) + 6);
    if (!is_macro)
        return true;
    while (rest->size && (rest->data[0] == ' ' || rest->data[0] == '\t'))
        *rest = skip(*rest, 1);
    for (; size < rest->size && size < WORD_MAX - 1 && is_of_word((char)rest->data[size]); size++)
        ret_name[size] = (char)rest->data[size];
    ret_name[size] = '\0';
    return true;
}

static bool has_word(const char *text, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + size, word))
        if ((at == text || !is_of_word(at[-1])) && !is_of_word(at[size]))
            return true;
    return false;
}

/* Looks for every macro of |header| in |source|, because any macro may use another macro that has
 * __FILE__. */
bool words_expand_name(struct bytes header, const char *source)
{
    char name[WORD_MAX];
    while (next_macro(&header, name))
        if (name[0] && has_word(source, name))
            return true;
    return false;
}
