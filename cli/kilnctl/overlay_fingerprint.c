/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/overlay_fingerprint.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/json.h"
#include "common/base/units.h"
#include "engine/digest/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Seconds for which a file counts as fresh after a change. A further change in these seconds may
 * get the same time, because filesystems round times: FAT to two seconds, most others to 10 ms or
 * less. */
#define FRESH_S 2
#define CHUNK (256u << 10)

_Static_assert(sizeof(((struct overlay_fingerprint *)0)->digest) == DIGEST_HEX_SIZE,
               "it is a digest's");

static const char *const suffixes[OVERLAY_PARTS] = { "", "-wal", "-journal" };
static const char *const members[OVERLAY_PARTS] = { "file", "wal", "journal" };

static int path_of(const char *path, int part, char ret_path[PATH_MAX], struct kiln_error *err)
{
    int size = snprintf(ret_path, PATH_MAX, "%s%s", path, suffixes[part]);
    if (size < 0 || size >= PATH_MAX)
        return cli_fail(err, KILN_E_INVALID, "the path '%.200s...' is too long", path);
    return KILN_E_OK;
}

static void note_part(struct overlay_fingerprint *fingerprint, int part, const struct stat *seen,
                      time_t now)
{
    fingerprint->parts[part].size = (uint64_t)seen->st_size;
    fingerprint->parts[part].s = (uint64_t)seen->st_mtim.tv_sec;
    fingerprint->parts[part].ns = (uint64_t)seen->st_mtim.tv_nsec;
    fingerprint->parts[part].inode = (uint64_t)seen->st_ino;
    fingerprint->is_fresh |= seen->st_mtim.tv_sec > now - FRESH_S;
}

int overlay_fingerprint_stat(const char *path, struct overlay_fingerprint *ret_fingerprint,
                             struct kiln_error *err)
{
    struct overlay_fingerprint fingerprint = { .is_fresh = false };
    char part_path[PATH_MAX];
    struct stat seen;
    time_t now = time(NULL);
    for (int part = 0; part < OVERLAY_PARTS; part++) {
        int rc = path_of(path, part, part_path, err);
        if (rc)
            return rc;
        if (stat(part_path, &seen) == 0) {
            if (part == 0 || seen.st_size > 0) /* an empty log is the same as none */
                note_part(&fingerprint, part, &seen, now);
        } else if (part == 0 || errno != ENOENT) {
            int errnum = errno;
            rc = cli_fail_errno(err, errnum, "cannot examine '%s'", part_path);
            return errnum == ENOENT ? (err->code = KILN_E_NOT_FOUND) : rc;
        }
    }
    *ret_fingerprint = fingerprint;
    return KILN_E_OK;
}

static int put_content(struct sha256 *sum, const char *path, int fd, uint64_t deadline_ns,
                       struct kiln_error *err)
{
    KILN_AUTO(mem) uint8_t *chunk = malloc(CHUNK);
    if (!chunk)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for reading '%s'", path);
    for (off_t at = 0;;) {
        ssize_t got = fs_read_at(fd, chunk, CHUNK, at);
        if (got < 0)
            return cli_fail_errno(err, errno, "cannot read '%s'", path);
        if (got == 0)
            return KILN_E_OK;
        if (clock_monotonic_ns() > deadline_ns)
            return cli_fail(err, KILN_E_TIMED_OUT, "reading '%s' took longer than --timeout", path);
        sha256_put(sum, bytes_of(chunk, (size_t)got));
        at += got;
    }
}

static int put_file(struct sha256 *sum, const char *path, uint64_t deadline_ns,
                    struct kiln_error *err)
{
    struct stat seen;
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &seen) != 0)
        return cli_fail_errno(err, errno, "cannot read '%s'", path);
    if (!S_ISREG(seen.st_mode))
        return cli_fail(err, KILN_E_INVALID, "'%s' is not a regular file", path);
    return put_content(sum, path, fd, deadline_ns, err);
}

int overlay_fingerprint_read(const char *path, uint64_t deadline_ns,
                             struct overlay_fingerprint *fingerprint, struct kiln_error *err)
{
    struct sha256 sum;
    char part_path[PATH_MAX];
    int rc = KILN_E_OK;
    sha256_init(&sum);
    for (int part = 0; part < OVERLAY_PARTS && !rc; part++) {
        uint64_t size = fingerprint->parts[part].size;
        /* Separates the parts by their sizes. Otherwise, the same bytes divided differently would
         * have the same digest. */
        sha256_put(&sum, bytes_of(&size, sizeof(size)));
        if (part > 0 && size == 0)
            continue;
        rc = path_of(path, part, part_path, err);
        if (!rc)
            rc = put_file(&sum, part_path, deadline_ns, err);
    }
    if (rc)
        return rc;
    struct digest digest = sha256_end(&sum);
    digest_to_hex(&digest, fingerprint->digest);
    return KILN_E_OK;
}

bool overlay_fingerprint_same(const struct overlay_fingerprint *noted,
                              const struct overlay_fingerprint *now)
{
    bool same = !noted->is_fresh;
    for (int i = 0; i < OVERLAY_PARTS && same; i++)
        same = noted->parts[i].size == now->parts[i].size && noted->parts[i].s == now->parts[i].s &&
               noted->parts[i].ns == now->parts[i].ns &&
               noted->parts[i].inode == now->parts[i].inode;
    return same;
}

bool overlay_fingerprint_same_content(const struct overlay_fingerprint *noted,
                                      const struct overlay_fingerprint *now)
{
    return *now->digest && strcmp(noted->digest, now->digest) == 0;
}

/* Stores |number| as a string, because a JSON number may lose digits. */
static void set_number(struct json *object, const char *name, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    json_set_text(object, name, text);
}

static uint64_t number_of(const struct json *object, const char *name)
{
    uint64_t number = 0;
    (void)units_parse_number(json_get_text(object, name, NULL), UINT64_MAX, &number);
    return number;
}

void overlay_fingerprint_set(struct json *object, const struct overlay_fingerprint *fingerprint)
{
    for (int i = 0; i < OVERLAY_PARTS; i++) {
        if (fingerprint->parts[i].inode == 0 && fingerprint->parts[i].size == 0)
            continue;
        struct json *part = json_object();
        set_number(part, "size", fingerprint->parts[i].size);
        set_number(part, "s", fingerprint->parts[i].s);
        set_number(part, "ns", fingerprint->parts[i].ns);
        set_number(part, "inode", fingerprint->parts[i].inode);
        json_set(object, members[i], part);
    }
    if (fingerprint->is_fresh)
        json_set_bool(object, "fresh", true);
    if (*fingerprint->digest)
        json_set_text(object, "digest", fingerprint->digest);
}

struct overlay_fingerprint overlay_fingerprint_get(const struct json *object)
{
    struct overlay_fingerprint fingerprint = { .is_fresh = json_get_bool(object, "fresh", false) };
    for (int i = 0; i < OVERLAY_PARTS; i++) {
        const struct json *part = json_get(object, members[i]);
        fingerprint.parts[i].size = number_of(part, "size");
        fingerprint.parts[i].s = number_of(part, "s");
        fingerprint.parts[i].ns = number_of(part, "ns");
        fingerprint.parts[i].inode = number_of(part, "inode");
    }
    /* If the manifest has no fingerprint of the file, the file counts as changed. */
    fingerprint.is_fresh |= !json_get(object, members[0]);
    snprintf(fingerprint.digest, sizeof(fingerprint.digest), "%s",
             json_get_text(object, "digest", ""));
    return fingerprint;
}
