/* SPDX-License-Identifier: MIT */
#include "engine/miopen/names/miopen_files.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The first row that matches a name counts.  So a special form of a name comes before its general
 * form, and a newer name for the same content before an older one. */
const struct miopen_file miopen_files[] = {
    { MIOPEN_SYSTEM, MIOPEN_FIND, "", "ID.BACKEND.fdb.txt", 0, 0 },
    { MIOPEN_SYSTEM, MIOPEN_FIND, "fusion", "ID.BACKEND.fusion.fdb.txt", 3001, 0 },
    { MIOPEN_SYSTEM, MIOPEN_PERF_TEXT, "batchnorm", "batchnorm_ID.db.txt", 3002, 0 },
    { MIOPEN_SYSTEM, MIOPEN_PERF_TEXT, "", "ID.db.txt", 3002, 0 },
    { MIOPEN_SYSTEM, MIOPEN_PERF_TEXT, "", "ID.cd.pdb.txt", 0, 3001 },
    { MIOPEN_SYSTEM, MIOPEN_PERF_SQLITE, "", "ID.db", 0, 3001 },
    { MIOPEN_SYSTEM, MIOPEN_KERNELS, "", "ID.kdb", 0, 0 },
    { MIOPEN_SYSTEM, MIOPEN_MODEL, "", "*.model", 2020, 0 },
    { MIOPEN_SYSTEM, MIOPEN_MODEL, "", "*_kernel_config_embeddings.bin", 3005, 0 },
    { MIOPEN_SYSTEM, MIOPEN_MODEL, "", "lgbm_*", 3005, 0 },
    { MIOPEN_USER, MIOPEN_FIND, "fusion", "ID.BACKEND.VERSION.fusion.ufdb.txt", 3001, 0 },
    { MIOPEN_USER, MIOPEN_FIND, "", "ID.BACKEND.VERSION.ufdb.txt", 0, 0 },
    { MIOPEN_USER, MIOPEN_PERF_TEXT, "batchnorm", "batchnorm_ID.BACKEND.VERSION.udb.txt", 3002, 0 },
    { MIOPEN_USER, MIOPEN_PERF_TEXT, "", "ID.BACKEND.VERSION.udb.txt", 3002, 0 },
    { MIOPEN_USER, MIOPEN_PERF_TEXT, "", "ID.BACKEND.VERSION.cd.updb.txt", 0, 3001 },
    { MIOPEN_USER, MIOPEN_PERF_SQLITE, "", "ID.udb", 0, MIOPEN_NEVER },
    { MIOPEN_USER, MIOPEN_PERF_SQLITE, "", "ID_SCHEMA.udb", 0, 3001 },
    { MIOPEN_USER, MIOPEN_FIND, "", "ID.BACKEND.ufdb.txt", 0, MIOPEN_NEVER },
    { MIOPEN_USER, MIOPEN_PERF_TEXT, "", "ID.udb.txt", 0, MIOPEN_NEVER },
    { MIOPEN_USER, MIOPEN_PERF_TEXT, "", "ID.cd.updb.txt", 0, MIOPEN_NEVER },
    { MIOPEN_USER, MIOPEN_PERF_TEXT, "", "ID_SCHEMA.udb.txt", 0, MIOPEN_NEVER },
    { MIOPEN_USER, MIOPEN_TRANSIENT, "", "*.time", 0, 0 },
    { MIOPEN_USER, MIOPEN_TRANSIENT, "", "*.temp", 0, 0 },
    { MIOPEN_USER, MIOPEN_TRANSIENT, "", "*-wal", 0, 3001 },
    { MIOPEN_USER, MIOPEN_TRANSIENT, "", "*-shm", 0, 3001 },
    { MIOPEN_USER, MIOPEN_TRANSIENT, "", "*-journal", 0, 3001 },
    { MIOPEN_USER, MIOPEN_TRANSIENT, "", "miopen-lockfiles", 3005, 0 },
    { MIOPEN_CACHE, MIOPEN_KERNELS, "", "ID.ukdb", 0, 0 },
    { MIOPEN_CACHE, MIOPEN_TRANSIENT, "", "*-wal", 0, 0 },
    { MIOPEN_CACHE, MIOPEN_TRANSIENT, "", "*-shm", 0, 0 },
    { MIOPEN_CACHE, MIOPEN_TRANSIENT, "", "*-journal", 0, 0 },
};
const size_t miopen_file_count = sizeof(miopen_files) / sizeof(miopen_files[0]);

enum word { WORD_ID, WORD_BACKEND, WORD_VERSION, WORD_SCHEMA, WORD_ANY, WORDS };
static const char *const words_of_patterns[WORDS] = { "ID", "BACKEND", "VERSION", "SCHEMA", "*" };

static size_t word_at(const char *pattern, enum word *ret_word)
{
    for (enum word word = 0; word < WORDS; word++) {
        size_t size = strlen(words_of_patterns[word]);
        if (strncmp(pattern, words_of_patterns[word], size) == 0) {
            *ret_word = word;
            return size;
        }
    }
    return 0;
}

static bool may_contain(enum word word, uint8_t c, bool is_first)
{
    switch (word) {
    case WORD_ID: return c != '.';
    case WORD_BACKEND: return isalpha(c);
    case WORD_VERSION: return isdigit(c) || (!is_first && (isalpha(c) || c == '_' || c == '-'));
    case WORD_SCHEMA: return isdigit(c) || (!is_first && c == '.');
    default: return true;
    }
}

static void set_word(struct miopen_words *words, enum word word, struct bytes text)
{
    if (word == WORD_ID)
        words->id = text;
    else if (word == WORD_BACKEND)
        words->backend = text;
    else if (word == WORD_VERSION || word == WORD_SCHEMA)
        words->version = text;
}

static bool matches(const char *pattern, struct bytes text, struct miopen_words *words)
{
    enum word word = WORD_ANY;
    size_t size = word_at(pattern, &word), run = 0;
    if (*pattern == '\0')
        return text.size == 0;
    if (size == 0)
        return text.size > 0 && text.data[0] == (uint8_t)*pattern &&
               matches(pattern + 1, bytes_of(text.data + 1, text.size - 1), words);
    while (run < text.size && may_contain(word, text.data[run], run == 0))
        run++;
    for (; run > 0; run--) {
        if (matches(pattern + size, bytes_of(text.data + run, text.size - run), words)) {
            set_word(words, word, bytes_of(text.data, run));
            return true;
        }
    }
    return false;
}

bool miopen_file_matches(const struct miopen_file *file, struct bytes name,
                         struct miopen_words *ret_words)
{
    struct miopen_words words = { .id = { 0 } };
    if (name.size > 255 || !matches(file->name, name, &words))
        return false;
    *ret_words = words;
    return true;
}

const struct miopen_file *miopen_file_find(enum miopen_place place, const char *name)
{
    struct miopen_words ignored;
    for (size_t i = 0; i < miopen_file_count; i++)
        if (miopen_files[i].place == place &&
            miopen_file_matches(&miopen_files[i], bytes_of_text(name), &ignored))
            return &miopen_files[i];
    return NULL;
}

bool miopen_file_has_ending(const struct miopen_file *file, struct bytes name)
{
    const char *end = file->name;
    enum word ignored;
    for (const char *at = file->name; *at; at++) {
        size_t size = word_at(at, &ignored);
        if (size > 0)
            end = at + size;
    }
    size_t size = strlen(end);
    return size > 0 && name.size > size && memcmp(name.data + name.size - size, end, size) == 0;
}

bool miopen_file_is_of(const struct miopen_file *file, unsigned release)
{
    return release >= file->since && (file->until == 0 || release <= file->until);
}

void miopen_file_write(const struct miopen_file *file, const struct miopen_words *words,
                       char text[128])
{
    const struct bytes texts[WORDS] = { [WORD_ID] = words->id,
                                        [WORD_BACKEND] = words->backend,
                                        [WORD_VERSION] = words->version,
                                        [WORD_SCHEMA] = words->version,
                                        [WORD_ANY] = words->id };
    size_t used = 0;
    for (const char *at = file->name; *at && used < 127;) {
        enum word word;
        size_t size = word_at(at, &word);
        struct bytes part = size > 0 ? texts[word] : bytes_of(at, 1);
        size_t taken = part.size < 127 - used ? part.size : 127 - used;
        if (taken > 0)
            memcpy(text + used, part.data, taken);
        used += taken;
        at += size > 0 ? size : 1;
    }
    text[used] = '\0';
}

bool miopen_file_is_likely(const char *name)
{
    static const char *const endings[] = { "db", "db.txt", ".o" };
    size_t size = strlen(name);
    if (strncmp(name, "gfx", 3) == 0 || strstr(name, "_gfx"))
        return true;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t ending = strlen(endings[i]);
        if (size > ending && strcmp(name + size - ending, endings[i]) == 0)
            return true;
    }
    return false;
}

static bool is_separator(char c) { return c == '.' || c == '_'; }

static size_t number_at(const char *at, unsigned *ret_number)
{
    size_t size = strspn(at, "0123456789");
    *ret_number = 0;
    for (size_t i = 0; i < size && i < 4; i++)
        *ret_number = *ret_number * 10 + (unsigned)(at[i] - '0');
    return size <= 4 ? size : 0;
}

unsigned miopen_release(const char *version)
{
    unsigned major = 0, minor = 0;
    size_t size = number_at(version, &major);
    if (size == 0 || !is_separator(version[size]) || number_at(version + size + 1, &minor) == 0)
        return 0;
    return major * 1000 + minor;
}

static bool has_three_numbers(const char *version)
{
    unsigned ignored;
    for (int part = 0; part < 3; part++) {
        size_t size = number_at(version, &ignored);
        version += size;
        if (size == 0 || (part < 2 && !is_separator(*version++)))
            return false;
    }
    return *version == '\0';
}

void miopen_version_write(const char *version, char separator, char text[MIOPEN_VERSION_TEXT])
{
    size_t size = strnlen(version, MIOPEN_VERSION_TEXT - 2);
    for (size_t i = 0; i < size; i++)
        text[i] =
            version[i] == '.' || (separator == '_' && version[i] == '-') ? separator : version[i];
    if (has_three_numbers(version))
        text[size++] = separator;
    text[size] = '\0';
}
