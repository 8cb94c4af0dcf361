/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/overlay_lines.h"

#include "common/base/array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void overlay_lines_done(struct overlay_lines *lines)
{
    free(lines->digests);
    *lines = (struct overlay_lines){ .count = 0 };
}

int overlay_lines_add(struct overlay_lines *lines, uint64_t digest, struct kiln_error *err)
{
    if (!ARRAY_RESERVE(lines->digests, lines->count, lines->capacity, 256))
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the lines of an overlay");
    lines->digests[lines->count++] = digest;
    return KILN_E_OK;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void overlay_lines_sort(struct overlay_lines *lines)
{
    if (lines->count > 0)
        qsort(lines->digests, lines->count, sizeof(*lines->digests), by_value);
}

static bool has_digest(const struct overlay_lines *lines, uint64_t digest)
{
    return lines->count > 0 &&
           bsearch(&digest, lines->digests, lines->count, sizeof(digest), by_value) != NULL;
}

static bool next_line(struct bytes *text, struct bytes *ret_line)
{
    const uint8_t *end = text->size > 0 ? memchr(text->data, '\n', text->size) : NULL;
    if (!end)
        return false;
    *ret_line = bytes_of(text->data, (size_t)(end - text->data));
    *text = bytes_of(end + 1, text->size - ret_line->size - 1);
    return true;
}

int overlay_lines_add_all(struct overlay_lines *lines, struct bytes text, struct kiln_error *err)
{
    struct bytes line;
    int rc = KILN_E_OK;
    while (!rc && next_line(&text, &line))
        rc = overlay_lines_add(lines, bytes_hash(line, 0), err);
    overlay_lines_sort(lines);
    return rc;
}

size_t overlay_lines_new(const struct overlay_lines *lines, struct bytes text,
                         struct buffer *ret_new)
{
    struct bytes line;
    size_t count = 0;
    while (next_line(&text, &line)) {
        bool is_new = line.size > 0 && !has_digest(lines, bytes_hash(line, 0));
        if (is_new)
            buffer_put(ret_new, line.data, line.size);
        buffer_put_u8(ret_new, '\n');
        count += is_new;
    }
    return count;
}

static int fail_size(const char *path, size_t most, struct kiln_error *err)
{
    return cli_fail(err, KILN_E_FULL, "'%s' is larger than %zu MiB, or there is not enough memory",
                    path, most >> 20);
}

/* Opens a regular file. The job may have replaced the file with a pipe or a link, so this function
 * neither blocks on a pipe nor follows a link. */
static int open_regular(const char *path, size_t most, FILE **ret_in, struct kiln_error *err)
{
    struct stat seen;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return cli_fail(err, KILN_E_NOT_FOUND, "there is no '%s'", path);
    if (fd < 0)
        return cli_fail_errno(err, errno, "cannot open '%s'", path);
    if (fstat(fd, &seen) != 0 || !S_ISREG(seen.st_mode)) {
        close(fd);
        return cli_fail(err, KILN_E_INVALID, "'%s' is not a regular file", path);
    }
    if ((uint64_t)seen.st_size > most) {
        close(fd);
        return fail_size(path, most, err);
    }
    *ret_in = fdopen(fd, "r");
    if (*ret_in)
        return KILN_E_OK;
    close(fd);
    return cli_fail(err, KILN_E_NO_MEMORY, "cannot read '%s'", path);
}

int overlay_text_read(const char *path, size_t most, struct buffer *ret_text,
                      struct kiln_error *err)
{
    char part[16384];
    size_t got = 0;
    FILE *in = NULL;
    int rc = open_regular(path, most, &in, err);
    if (rc)
        return rc;
    buffer_init(ret_text, most);
    while (!ret_text->failed && (got = fread(part, 1, sizeof(part), in)) > 0)
        buffer_put(ret_text, part, got);
    bool unread = ferror(in) != 0;
    fclose(in);
    if (unread)
        return cli_fail(err, KILN_E_IO, "cannot read '%s'", path);
    return ret_text->failed ? fail_size(path, most, err) : KILN_E_OK;
}
