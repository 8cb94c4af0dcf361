/* SPDX-License-Identifier: MIT */
#include "common/base/pasted_words.h"

#include <ctype.h>
#include <string.h>

#define PART_MIN 4

static bool is_of_name(uint8_t c) { return isalnum(c) || c == '_'; }

static struct bytes name_around(struct bytes text, const uint8_t *at)
{
    const uint8_t *begin = at, *end = at, *last = text.data + text.size;
    while (begin > text.data && is_of_name(begin[-1]))
        begin--;
    while (end < last && is_of_name(*end))
        end++;
    return bytes_of(begin, (size_t)(end - begin));
}

static bool is_part(struct bytes name, const char *const *words)
{
    for (; *words; words++) {
        const size_t size = strlen(*words);
        if (name.size < size && memmem(*words, size, name.data, name.size))
            return true;
    }
    return false;
}

/* Rules out most identifiers quickly, because they contain a character that is in none of the
 * searched words. */
static bool has_only(struct bytes name, const bool characters[256])
{
    for (size_t i = 0; i < name.size; i++)
        if (!characters[name.data[i]])
            return false;
    return true;
}

static bool has_part(struct bytes text, const char *const *words)
{
    bool characters[256] = { false };
    const uint8_t *at = text.data, *end = text.data + text.size;
    for (const char *const *word = words; *word; word++)
        for (const char *c = *word; *c; c++)
            characters[(uint8_t)*c] = true;
    while (at < end && (at = memchr(at, '_', (size_t)(end - at)))) {
        const struct bytes name = name_around(text, at);
        if (name.size >= PART_MIN && has_only(name, characters) && is_part(name, words))
            return true;
        at = name.data + name.size;
    }
    return false;
}

/* Faster than memmem if the first character is rare. */
static bool has(struct bytes text, const char *word)
{
    const size_t size = strlen(word);
    const uint8_t *at = text.data, *end = text.data + text.size;
    while (at < end && (at = memchr(at, word[0], (size_t)(end - at)))) {
        if ((size_t)(end - at) >= size && memcmp(at, word, size) == 0)
            return true;
        at++;
    }
    return false;
}

static struct bytes inner_part(const char *word)
{
    size_t size = strlen(word), begin = strspn(word, "_");
    while (size > begin && word[size - 1] == '_')
        size--;
    return bytes_of(word + begin, size - begin);
}

static bool has_name(struct bytes text, struct bytes name)
{
    const uint8_t *at = text.data, *end = text.data + text.size;
    while (at < end && (at = memmem(at, (size_t)(end - at), name.data, name.size))) {
        const uint8_t *next = at + name.size;
        if ((at == text.data || !is_of_name(at[-1])) && (next == end || !is_of_name(*next)))
            return true;
        at = next;
    }
    return false;
}

bool pasted_words_possible(struct bytes text, const char *const *words)
{
    if (has_part(text, words))
        return true;
    bool is_pasted = has(text, "##") || has(text, "%:%:");
    for (; is_pasted && *words; words++)
        if (has_name(text, inner_part(*words)))
            return true;
    return false;
}
