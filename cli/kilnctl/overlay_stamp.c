/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/overlay_stamp.h"

#include "common/json.h"
#include "engine/digest/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Filesystems keep times in steps: 10 ms here, up to two seconds elsewhere (FAT). */
#define FRESH_S 2
#define READ_STEP (256u << 10)

_Static_assert(sizeof(((struct overlay_stamp *)0)->digest) == DIGEST_HEX_SIZE, "it is a digest's");

static const char *const suffixes[OVERLAY_PARTS] = { "", "-wal", "-journal" };
static const char *const members[OVERLAY_PARTS] = { "file", "wal", "journal" };

static int path_of(const char *path, int part, char ret_path[PATH_MAX], struct kiln_error *err)
{
    int size = snprintf(ret_path, PATH_MAX, "%s%s", path, suffixes[part]);
    if (size < 0 || size >= PATH_MAX)
        return cli_fail(err, KILN_E_INVALID, "'%.200s...' is too long a path", path);
    return KILN_E_OK;
}

static void note_part(struct overlay_stamp *stamp, int part, const struct stat *seen, time_t now)
{
    stamp->parts[part].size = (uint64_t)seen->st_size;
    stamp->parts[part].s = (uint64_t)seen->st_mtim.tv_sec;
    stamp->parts[part].ns = (uint64_t)seen->st_mtim.tv_nsec;
    stamp->parts[part].inode = (uint64_t)seen->st_ino;
    stamp->is_fresh |= seen->st_mtim.tv_sec > now - FRESH_S;
}

int overlay_stamp_look(const char *path, struct overlay_stamp *ret_stamp, struct kiln_error *err)
{
    struct overlay_stamp stamp = { .is_fresh = false };
    char part_path[PATH_MAX];
    struct stat seen;
    time_t now = time(NULL);
    for (int part = 0; part < OVERLAY_PARTS; part++) {
        int rc = path_of(path, part, part_path, err);
        if (rc)
            return rc;
        if (stat(part_path, &seen) == 0) {
            if (part == 0 || seen.st_size > 0) /* an empty log says nothing */
                note_part(&stamp, part, &seen, now);
        } else if (part == 0 || errno != ENOENT) {
            int errnum = errno;
            rc = cli_fail_errno(err, errnum, "cannot look at '%s'", part_path);
            return errnum == ENOENT ? (err->code = KILN_E_NOT_FOUND) : rc;
        }
    }
    *ret_stamp = stamp;
    return KILN_E_OK;
}

/* ---- content ---- */

static int put_file(struct sha256 *sum, const char *path, struct kiln_error *err)
{
    KILN_AUTO(mem) uint8_t *step = malloc(READ_STEP);
    struct stat seen;
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (!step)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory while reading '%s'", path);
    if (fd < 0 || fstat(fd, &seen) != 0)
        return cli_fail_errno(err, errno, "cannot read '%s'", path);
    if (!S_ISREG(seen.st_mode))
        return cli_fail(err, KILN_E_INVALID, "'%s' is not a regular file", path);
    for (;;) {
        ssize_t got = read(fd, step, READ_STEP);
        if (got < 0 && errno != EINTR)
            return cli_fail_errno(err, errno, "cannot read '%s'", path);
        if (got == 0)
            return KILN_E_OK;
        if (got > 0)
            sha256_put(sum, bytes_of(step, (size_t)got));
    }
}

int overlay_stamp_read(const char *path, struct overlay_stamp *stamp, struct kiln_error *err)
{
    struct sha256 sum;
    char part_path[PATH_MAX];
    int rc = KILN_E_OK;
    sha256_init(&sum);
    for (int part = 0; part < OVERLAY_PARTS && !rc; part++) {
        uint64_t size = stamp->parts[part].size;
        sha256_put(&sum, bytes_of(&size, sizeof(size))); /* so that no part flows into the next */
        if (part > 0 && size == 0)
            continue;
        rc = path_of(path, part, part_path, err);
        if (!rc)
            rc = put_file(&sum, part_path, err);
    }
    if (rc)
        return rc;
    struct digest digest = sha256_end(&sum);
    digest_to_hex(&digest, stamp->digest);
    return KILN_E_OK;
}

/* ---- comparing ---- */

bool overlay_stamp_same(const struct overlay_stamp *noted, const struct overlay_stamp *now)
{
    bool same = !noted->is_fresh;
    for (int i = 0; i < OVERLAY_PARTS && same; i++)
        same = noted->parts[i].size == now->parts[i].size && noted->parts[i].s == now->parts[i].s &&
               noted->parts[i].ns == now->parts[i].ns &&
               noted->parts[i].inode == now->parts[i].inode;
    return same;
}

bool overlay_stamp_same_content(const struct overlay_stamp *noted, const struct overlay_stamp *now)
{
    return *now->digest && strcmp(noted->digest, now->digest) == 0;
}

/* ---- kept ---- */

/* As text where a number may be larger than JSON holds exactly. */
static void set_number(struct json *object, const char *name, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    json_set_text(object, name, text);
}

static uint64_t number_of(const struct json *object, const char *name)
{
    const char *text = json_get_text(object, name, "");
    char *end = NULL;
    errno = 0;
    uint64_t number = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    return end && *end == '\0' && errno == 0 ? number : 0;
}

void overlay_stamp_set(struct json *object, const struct overlay_stamp *stamp)
{
    for (int i = 0; i < OVERLAY_PARTS; i++) {
        if (stamp->parts[i].inode == 0 && stamp->parts[i].size == 0)
            continue;
        struct json *part = json_object();
        set_number(part, "size", stamp->parts[i].size);
        set_number(part, "s", stamp->parts[i].s);
        set_number(part, "ns", stamp->parts[i].ns);
        set_number(part, "inode", stamp->parts[i].inode);
        json_set(object, members[i], part);
    }
    if (stamp->is_fresh)
        json_set_bool(object, "fresh", true);
    if (*stamp->digest)
        json_set_text(object, "digest", stamp->digest);
}

struct overlay_stamp overlay_stamp_get(const struct json *object)
{
    struct overlay_stamp stamp = { .is_fresh = json_get_bool(object, "fresh", false) };
    for (int i = 0; i < OVERLAY_PARTS; i++) {
        const struct json *part = json_get(object, members[i]);
        stamp.parts[i].size = number_of(part, "size");
        stamp.parts[i].s = number_of(part, "s");
        stamp.parts[i].ns = number_of(part, "ns");
        stamp.parts[i].inode = number_of(part, "inode");
    }
    /* Of a file that nothing is known of, all is new. */
    stamp.is_fresh |= !json_get(object, members[0]);
    snprintf(stamp.digest, sizeof(stamp.digest), "%s", json_get_text(object, "digest", ""));
    return stamp;
}
