/* SPDX-License-Identifier: MIT */
#include "cli/options.h"

#include "common/base/units.h"

#include <stdlib.h>
#include <string.h>

struct words_left {
    const char *const *argv;
    int argc;
    int at;
};

static int append_word(struct option_list *list, const char *word, struct kiln_error *err)
{
    const char **grown = realloc(list->words, (list->count + 1) * sizeof(*grown));
    if (!grown)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory after %zu words", list->count);
    grown[list->count++] = word;
    list->words = grown;
    return KILN_E_OK;
}

void option_list_done(struct option_list *list)
{
    free(list->words);
    *list = (struct option_list){ 0 };
}

static bool is_option(const char *word) { return word[0] == '-' && word[1] != '\0'; }

static bool matches_option(const struct option *option, const char *word)
{
    if (word[1] != '-')
        return option->letter && word[1] == option->letter &&
               (word[2] == '\0' || option->kind != OPTION_FLAG);
    size_t size = strcspn(word + 2, "=");
    return strlen(option->name) == size && strncmp(option->name, word + 2, size) == 0;
}

static const struct option *find_option(const struct option_parser *parser, const char *word,
                                        void **ret_values)
{
    for (size_t t = 0; t < parser->table_count; t++) {
        const struct option_table *table = &parser->tables[t];
        for (size_t i = 0; i < table->count; i++) {
            if (matches_option(&table->options[i], word)) {
                *ret_values = table->values;
                return &table->options[i];
            }
        }
    }
    return NULL;
}

static const char *find_attached_value(const char *word)
{
    if (word[1] != '-')
        return word[2] ? word + 2 : NULL;
    const char *equals = strchr(word, '=');
    return equals ? equals + 1 : NULL;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Computes the edit distance by dynamic programming: rows[i][j] is the distance between the first i
 * characters of |a| and the first j characters of |b|.  Only three rows are stored. */
size_t options_distance(const char *a, const char *b)
{
    enum { MAX = 24 };
    size_t size = strlen(b), length = strcspn(a, "=");
    size_t rows[3][MAX + 1];
    if (size > MAX || length > 2 * MAX)
        return MAX;
    for (size_t j = 0; j <= size; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= length; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= size; j++) {
            size_t change = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = smaller(change, smaller(row[j - 1], above[j]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smaller(row[j], before[j - 2] + 1);
        }
    }
    return rows[length % 3][size];
}

void suggestion_add(struct suggestion *s, const char *name, size_t edits)
{
    if (edits > s->edits)
        return;
    if (edits < s->edits)
        s->names[0] = '\0';
    s->edits = edits;
    size_t used = strlen(s->names);
    snprintf(s->names + used, sizeof(s->names) - used, "%s%s", used ? " or " : "", name);
}

static int fail_unknown(const struct option_parser *parser, const char *word,
                        struct kiln_error *err)
{
    struct suggestion near = { .edits = 2 };
    char name[64];
    for (size_t t = 0; word[1] == '-' && t < parser->table_count; t++) {
        for (size_t i = 0; i < parser->tables[t].count; i++) {
            snprintf(name, sizeof(name), "--%s", parser->tables[t].options[i].name);
            suggestion_add(&near, name, options_distance(word + 2, name + 2));
        }
    }
    if (near.names[0])
        return cli_fail(err, KILN_E_INVALID, "unknown option '%s'; did you mean %s?", word,
                        near.names);
    return cli_fail(err, KILN_E_INVALID, "unknown option '%s'", word);
}

static int set_number(const struct option *option, const char *text, struct option_number *number,
                      struct kiln_error *err)
{
    uint64_t most = option->most ? option->most : UINT64_MAX;
    if (!units_parse_number(text, most, &number->value) || number->value < option->least)
        return cli_fail(err, KILN_E_INVALID, "'%s' of --%s is not a number from %llu to %llu", text,
                        option->name, (unsigned long long)option->least, (unsigned long long)most);
    number->given = true;
    return KILN_E_OK;
}

static int set_size(const struct option *option, const char *text, struct option_number *number,
                    struct kiln_error *err)
{
    number->given = units_parse_size(text, &number->value);
    if (number->given)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID, "'%s' of --%s is not " UNITS_SIZE_FORM, text,
                    option->name);
}

static int set_time(const struct option *option, const char *text, struct option_number *number,
                    struct kiln_error *err)
{
    number->given = units_parse_time(text, &number->value);
    if (number->given)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID, "'%s' of --%s is not " UNITS_TIME_FORM, text,
                    option->name);
}

static int set_list(const char *text, struct words_left *left, struct option_list *list,
                    struct kiln_error *err)
{
    int rc = append_word(list, text, err);
    while (!rc && left->at < left->argc && left->argv[left->at][0] != '-')
        rc = append_word(list, left->argv[left->at++], err);
    return rc;
}

static int set_value(const struct option *option, const char *text, struct words_left *left,
                     void *slot, struct kiln_error *err)
{
    switch (option->kind) {
    case OPTION_FLAG: *(bool *)slot = true; return KILN_E_OK;
    case OPTION_TEXT:
    case OPTION_VERBATIM: *(const char **)slot = text; return KILN_E_OK;
    case OPTION_NUMBER: return set_number(option, text, slot, err);
    case OPTION_SIZE: return set_size(option, text, slot, err);
    case OPTION_TIME: return set_time(option, text, slot, err);
    case OPTION_LIST: return set_list(text, left, slot, err);
    }
    return cli_fail(err, KILN_E_INVALID, "option --%s has no meaning", option->name);
}

static int take_option(const struct option *option, struct words_left *left, void *values,
                       struct kiln_error *err)
{
    const char *word = left->argv[left->at++];
    const char *text = find_attached_value(word);
    if (option->kind == OPTION_FLAG && text)
        return cli_fail(err, KILN_E_INVALID, "--%s takes no value", option->name);
    if (option->kind != OPTION_FLAG && !text && left->at < left->argc)
        text = left->argv[left->at++];
    bool is_next =
        option->kind == OPTION_LIST && text && is_option(text) && !find_attached_value(word);
    bool is_empty = !text || (!*text && option->kind != OPTION_VERBATIM);
    if (option->kind != OPTION_FLAG && (is_empty || is_next))
        return cli_fail(err, KILN_E_INVALID, "--%s needs a value: %s", option->name, option->value);
    return set_value(option, text, left, (char *)values + option->offset, err);
}

static int take_other_words(struct words_left *left, struct option_list *words,
                            struct kiln_error *err)
{
    int rc = KILN_E_OK;
    while (!rc && left->at < left->argc)
        rc = append_word(words, left->argv[left->at++], err);
    return rc;
}

int options_parse(const struct option_parser *parser, int argc, const char *const *argv,
                  struct option_list *words, struct kiln_error *err)
{
    struct words_left left = { .argv = argv, .argc = argc };
    int rc = KILN_E_OK;
    while (!rc && left.at < argc) {
        const char *word = argv[left.at];
        void *values = NULL;
        const struct option *option = is_option(word) ? find_option(parser, word, &values) : NULL;
        if (strcmp(word, "--") == 0) {
            left.at++;
            return take_other_words(&left, words, err);
        }
        if (!is_option(word) && parser->stop_at_word)
            return take_other_words(&left, words, err);
        if (option)
            rc = take_option(option, &left, values, err);
        else if (is_option(word) && !parser->pass_unknown)
            rc = fail_unknown(parser, word, err);
        else
            rc = append_word(words, argv[left.at++], err);
    }
    return rc;
}

void options_done(const struct option_table *tables, size_t table_count)
{
    for (size_t t = 0; t < table_count; t++)
        for (size_t i = 0; tables[t].values && i < tables[t].count; i++)
            if (tables[t].options[i].kind == OPTION_LIST)
                option_list_done((void *)((char *)tables[t].values + tables[t].options[i].offset));
}

#define HELP_COLUMN 26

void options_print_help(const struct option_table *table, FILE *out)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct option *o = &table->options[i];
        char letter[5] = "    ";
        if (o->letter)
            snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        int used = fprintf(out, "  %s--%s%s%s", letter, o->name, o->value ? " " : "",
                           o->value ? o->value : "");
        if (used >= HELP_COLUMN) {
            fputc('\n', out);
            used = 0;
        }
        fprintf(out, "%*s%s\n", HELP_COLUMN - used, "", o->help);
    }
}
