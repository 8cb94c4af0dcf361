/* SPDX-License-Identifier: MIT */
#include "engine/compile/scratch.h"
#include "common/base/fs.h"
#include "common/protocol/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_LENGTH_MAX 512

static enum kiln_code put_file(const char *directory, struct bytes name, struct bytes content,
                               struct kiln_err *err)
{
    char path[PATH_LENGTH_MAX];
    snprintf(path, sizeof(path), "%s/%.*s", directory, (int)name.size, (const char *)name.data);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    enum kiln_code rc = fs_make_directories(path, err);
    *slash = '/';
    if (rc)
        return rc;
    KILN_AUTO(fd) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot make the file '%s'", path);
    rc = fs_write_all(fd, content, err);
    return rc ? kiln_while(err, "writing '%s'", path) : KILN_OK;
}

enum kiln_code scratch_unnamed(int *ret_fd, struct kiln_err *err)
{
    char name[] = "unnamed-XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot make a file in the compiler's directory");
    unlinkat(AT_FDCWD, name, 0);
    *ret_fd = fd;
    return KILN_OK;
}

enum kiln_code scratch_put(const char *directory, const char *name, struct bytes content,
                           struct kiln_err *err)
{
    return put_file(directory, bytes_of_text(name), content, err);
}

enum kiln_code scratch_fill(const char *directory, const struct compile_job *job,
                            struct kiln_err *err)
{
    char headers[PATH_LENGTH_MAX];
    snprintf(headers, sizeof(headers), "%s/" SCRATCH_HEADERS, directory);
    struct reader r = reader_of(job->headers);
    enum kiln_code rc = put_file(directory, job->program, job->source, err);
    for (uint32_t i = 0; !rc && i < job->header_count; i++) {
        struct message_header header = message_header_read(&r);
        rc = put_file(headers, header.name, header.text, err);
    }
    return rc;
}
