/* SPDX-License-Identifier: MIT */
#include "cli/lines.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (64u << 20)

struct text {
    char *data;
    size_t size, capacity;
};

static int grow_text(struct text *text, const char *path, struct kiln_error *err)
{
    if (text->size + 1 < text->capacity)
        return KILN_E_OK;
    if (text->capacity > FILE_MAX)
        return cli_fail(err, KILN_E_INVALID, "'%s' is larger than %u MiB: split it", path,
                        FILE_MAX >> 20);
    size_t capacity = text->capacity ? 2 * text->capacity : 65536;
    char *data = realloc(text->data, capacity);
    if (!data)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory after %zu bytes of '%s'", text->size,
                        path);
    text->data = data;
    text->capacity = capacity;
    return KILN_E_OK;
}

static int read_text(FILE *in, const char *path, struct text *text, struct kiln_error *err)
{
    for (;;) {
        int rc = grow_text(text, path, err);
        if (rc)
            return rc;
        size_t got = fread(text->data + text->size, 1, text->capacity - text->size - 1, in);
        text->size += got;
        if (got == 0)
            break;
    }
    text->data[text->size] = '\0';
    if (ferror(in))
        return cli_fail_errno(err, errno, "cannot read '%s'", path);
    return KILN_E_OK;
}

static int read_path(const char *path, struct text *text, struct kiln_error *err)
{
    if (strcmp(path, "-") == 0)
        return read_text(stdin, "standard input", text, err);
    FILE *in = fopen(path, "re");
    if (!in)
        return cli_fail_errno(err, errno, "cannot open '%s'", path);
    int rc = read_text(in, path, text, err);
    fclose(in);
    return rc;
}

static char *trim_line(char *line, size_t size)
{
    while (size > 0 && isspace((unsigned char)line[size - 1]))
        size--;
    line[size] = '\0';
    while (isspace((unsigned char)*line))
        line++;
    return line;
}

static int split_lines(struct line_file *file, size_t size, const char *path,
                       struct kiln_error *err)
{
    unsigned number = 0;
    size_t most = 1;
    for (size_t i = 0; i < size; i++)
        most += file->text[i] == '\n';
    file->lines = calloc(most, sizeof(*file->lines));
    if (!file->lines)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for %zu lines of '%s'", most, path);
    for (size_t at = 0; at < size;) {
        char *start = file->text + at;
        char *end = memchr(start, '\n', size - at);
        size_t length = end ? (size_t)(end - start) : size - at;
        number++;
        at += length + 1;
        if (memchr(start, '\0', length))
            return cli_fail(err, KILN_E_INVALID,
                            "line %u of '%s' contains a NUL byte: it is not a text file", number,
                            path);
        char *line = trim_line(start, length);
        if (*line && *line != '#')
            file->lines[file->count++] = (struct line){ .text = line, .number = number };
    }
    return KILN_E_OK;
}

int line_file_read(const char *path, struct line_file *ret_file, struct kiln_error *err)
{
    struct text text = { 0 };
    struct line_file file = { 0 };
    int rc = read_path(path, &text, err);
    file.text = text.data;
    if (!rc)
        rc = split_lines(&file, text.size, path, err);
    if (rc) {
        line_file_done(&file);
        return rc;
    }
    *ret_file = file;
    return KILN_E_OK;
}

void line_file_done(struct line_file *file)
{
    free(file->lines);
    free(file->text);
    *file = (struct line_file){ 0 };
}
