/* SPDX-License-Identifier: MIT */
#include "daemon/manager/inherited.h"

#include "common/base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST 3

static enum kiln_code name_all(struct inherited *in, const char *names, struct kiln_err *err)
{
    size_t count = 0;
    for (const char *at = names;; at++) {
        size_t size = strcspn(at, ":");
        if (size >= INHERITED_NAME_MAX)
            return kiln_fail(err, KILN_INVALID, "LISTEN_FDNAMES: a name of %zu bytes is too long",
                             size);
        if (count < in->count)
            snprintf(in->items[count].name, INHERITED_NAME_MAX, "%.*s", (int)size, at);
        count++;
        at += size;
        if (*at == '\0')
            break;
    }
    if (count == in->count)
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID,
                     "LISTEN_FDNAMES='%.200s' has %zu names for LISTEN_FDS=%zu descriptors", names,
                     count, in->count);
}

static enum kiln_code take_descriptors(struct inherited *in, struct kiln_err *err)
{
    for (size_t i = 0; i < in->count; i++) {
        struct inherited_fd *item = &in->items[i];
        item->fd = FIRST + (int)i;
        snprintf(item->name, sizeof(item->name), "unknown");
        if (fcntl(item->fd, F_SETFD, FD_CLOEXEC) < 0)
            return kiln_fail_errno(err, errno, "LISTEN_FDS=%zu: cannot use descriptor %d",
                                   in->count, item->fd);
    }
    const char *names = getenv("LISTEN_FDNAMES");
    return names ? name_all(in, names, err) : KILN_OK;
}

enum kiln_code inherited_take(struct inherited *ret_inherited, struct kiln_err *err)
{
    uint64_t pid = 0, count = 0;
    struct inherited in = { 0 };
    bool is_ours = units_parse_number(getenv("LISTEN_PID"), INT_MAX, &pid) &&
                   pid == (uint64_t)getpid() &&
                   units_parse_number(getenv("LISTEN_FDS"), UINT64_MAX, &count) && count > 0;
    enum kiln_code rc = KILN_OK;
    if (is_ours && count > INHERITED_MAX)
        rc = kiln_fail(err, KILN_INVALID, "LISTEN_FDS=%llu exceeds the limit of %d descriptors",
                       (unsigned long long)count, INHERITED_MAX);
    else if (is_ours) {
        in.count = (size_t)count;
        rc = take_descriptors(&in, err);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (!rc)
        *ret_inherited = in;
    return rc;
}

struct inherited_fd *inherited_find(struct inherited *in, const char *prefix, size_t from)
{
    for (size_t i = from; i < in->count; i++) {
        if (in->items[i].fd >= 0 && strncmp(in->items[i].name, prefix, strlen(prefix)) == 0)
            return &in->items[i];
    }
    return NULL;
}

void inherited_done(struct inherited *in)
{
    for (size_t i = 0; i < in->count; i++) {
        if (in->items[i].fd >= 0)
            close(in->items[i].fd);
        in->items[i].fd = -1;
    }
    in->count = 0;
}
