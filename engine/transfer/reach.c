/* SPDX-License-Identifier: MIT */
#include "engine/transfer/reach.h"

#include "common/base/fs.h"
#include "engine/db/working_directory.h"
#include "engine/manifest/manifest_keys.h"
#include "engine/transfer/url.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HELD_MAX 32
/* The errno by which this code reports a file that is not regular; open(2) never returns it. */
#define NOT_REGULAR ENOTUNIQ
/* These limits are higher than those of manifest_keys.c. So manifest_keys.c, which reads the
 * copies, still detects keys that are too large, and reports them. */
#define KEYS_MAX 1024
#define KEY_COPY_MAX (4 * KEY_FILE_MAX)

/* Opens |path|. Sets |name| to a path of the descriptor, which works even after this process has
 * lost access to |path|. */
static bool hold_path(const char *path, char name[HELD_MAX])
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd >= 0)
        snprintf(name, HELD_MAX, "/proc/self/fd/%d", fd);
    return fd >= 0;
}

static void hold_variable(const char *variable)
{
    char name[HELD_MAX];
    const char *value = getenv(variable);
    if (value && *value && hold_path(value, name))
        setenv(variable, name, 1);
}

/* Opens a file for reading, after a check that it is regular. Opening a device or a pipe may have
 * effects, or block. */
static int open_regular(const char *path)
{
    char name[HELD_MAX];
    struct stat seen;
    KILN_AUTO(fd) int held = open(path, O_PATH | O_CLOEXEC);
    if (held < 0 || fstat(held, &seen) != 0)
        return -1;
    snprintf(name, sizeof(name), "/proc/self/fd/%d", held);
    if (S_ISREG(seen.st_mode))
        return open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    errno = NOT_REGULAR;
    return -1;
}

static enum kiln_code open_source(struct received_job *received, struct kiln_err *err)
{
    KILN_AUTO(url) struct url url = { 0 };
    struct kiln_err ignored = KILN_ERR_INIT; /* a URL that is not valid is reported later, by the
                                              * transfer */
    char manifest[URL_MAX + 64];
    struct transfer_job *job = &received->job;
    if (!job->url || url_parse(job->url, &url, &ignored) || url.scheme != URL_FILE)
        return KILN_OK;
    received->fds[0] = open_regular(url.path);
    if (received->fds[0] < 0 && errno == NOT_REGULAR)
        return kiln_fail(err, KILN_INVALID,
                         "'%s' is not a regular file: a package cannot come from a pipe, a "
                         "directory or a device",
                         url.shown);
    if (received->fds[0] < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", url.shown);
    snprintf(manifest, sizeof(manifest), "%s.manifest", url.path);
    received->fds[1] = open_regular(manifest);
    job->content_fd = received->fds[0];
    job->manifest_fd = received->fds[1];
    return KILN_OK;
}

static enum kiln_code copy_key(const char *directory, const char *name, struct kiln_err *err)
{
    char from[PATH_MAX], to[NAME_MAX + sizeof(REACH_KEYS) + 2];
    BUFFER_AUTO struct buffer text;
    struct kiln_err ignored = KILN_ERR_INIT;
    buffer_init(&text, KEY_COPY_MAX);
    if ((size_t)snprintf(from, sizeof(from), "%s/%s", directory, name) >= sizeof(from))
        return kiln_fail(err, KILN_INVALID, "the path of the key '%s' is too long", name);
    KILN_AUTO(fd) int source = open(from, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (source >= 0 && fs_read_fd(source, KEY_COPY_MAX, &text, &ignored))
        text.size = 0;
    snprintf(to, sizeof(to), REACH_KEYS "/%s", name);
    KILN_AUTO(fd) int copy = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (copy < 0)
        return kiln_fail_errno(err, errno, "cannot copy the trusted key '%s'", name);
    return fs_write_all(copy, buffer_view(&text), err);
}

static enum kiln_code copy_keys(struct transfer_job *job, struct kiln_err *err)
{
    struct dirent **entries = NULL;
    int count = scandir(job->trusted_keys, &entries, key_file_is_public, alphasort);
    if (count < 0) /* there are no keys; any other error is reported when the keys are read */
        return KILN_OK;
    enum kiln_code rc = KILN_OK;
    if (mkdir(REACH_KEYS, 0755) != 0)
        rc = kiln_fail_errno(err, errno, "cannot copy the trusted keys");
    for (int i = 0; i < count; i++) {
        if (!rc && i < KEYS_MAX)
            rc = copy_key(job->trusted_keys, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    job->keys_shown = job->trusted_keys;
    job->trusted_keys = REACH_KEYS;
    return rc;
}

enum kiln_code transfer_reach(struct received_job *received, bool leaves, struct kiln_err *err)
{
    struct transfer_job *job = &received->job;
    enum kiln_code rc = open_source(received, err);
    if (rc)
        return rc;
    if (chdir(job->staging) != 0)
        return kiln_fail_errno(err, errno, "cannot enter the directory '%s'", job->staging);
    job->staging = "."; /* so that messages do not contain the path, which kilnd removes */
    db_stay_in_working_directory();
    hold_variable("SSL_CERT_FILE");
    hold_variable("SSL_CERT_DIR");
    return leaves ? copy_keys(job, err) : KILN_OK;
}
