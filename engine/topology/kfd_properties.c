/* SPDX-License-Identifier: MIT */
#include "engine/topology/kfd_properties.h"

#include "common/base/bytes.h"
#include "common/base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define PROPERTIES_MAX (64u << 10)

bool kfd_parse_number(const char *text, size_t size, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (digit > 9 || value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret_value = value;
    return size > 0;
}

/* If the line has the name of a row, stores its number. Returns the name if its number is malformed
 * or the name is repeated, else NULL. */
static const char *read_line(struct kfd_properties *p, const char *line, size_t size)
{
    const char *blank = memchr(line, ' ', size);
    for (size_t i = 0; blank && i < p->count; i++) {
        const char *name = p->rows[i].name;
        if (strlen(name) != (size_t)(blank - line) || memcmp(line, name, strlen(name)) != 0)
            continue;
        uint64_t *value = (uint64_t *)((char *)p->numbers + p->rows[i].offset);
        size_t digits = size - (size_t)(blank + 1 - line);
        if ((p->seen & (1u << i)) || !kfd_parse_number(blank + 1, digits, UINT64_MAX, value))
            return name;
        p->seen |= 1u << i;
        return NULL;
    }
    return NULL;
}

static const char *read_lines(struct kfd_properties *p, struct bytes text)
{
    const char *at = (const char *)text.data;
    for (size_t left = text.size; left > 0;) {
        const char *newline = memchr(at, '\n', left);
        size_t size = newline ? (size_t)(newline - at) : left;
        const char *bad = read_line(p, at, size);
        if (bad)
            return bad;
        size_t step = size + (newline ? 1 : 0);
        at += step;
        left -= step;
    }
    return NULL;
}

static enum kiln_code read_text(const char *path, struct buffer *ret_text, int *ret_errno,
                                struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat seen;
    if (fd < 0 || fstat(fd, &seen) != 0) {
        *ret_errno = errno;
        return kiln_fail_errno(err, errno, "cannot open its properties");
    }
    if (!S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_INVALID, "its properties are not a regular file");
    errno = 0;
    enum kiln_code rc = fs_read_fd(fd, PROPERTIES_MAX, ret_text, err);
    if (rc)
        *ret_errno = errno;
    return rc;
}

enum kiln_code kfd_properties_read(const char *path, struct kfd_properties *properties,
                                   int *ret_errno, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, PROPERTIES_MAX + 1);
    *ret_errno = 0;
    enum kiln_code rc = read_text(path, &text, ret_errno, err);
    if (rc)
        return rc;
    properties->seen = 0;
    const char *bad = read_lines(properties, buffer_view(&text));
    return bad ? kiln_fail(err, KILN_INVALID, "its %s is not a valid number", bad) : KILN_OK;
}
