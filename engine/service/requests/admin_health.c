/* SPDX-License-Identifier: MIT */
/* kilnd checks what the caller cannot see: kilnd's directories, and their file systems as kilnd's
 * systemd unit mounts them. */
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/service/requests/admin.h"
#include "engine/service/tuning/tuning_service.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

/* Maximum size of a database file that is checked without the member "deep". */
#define CHECKED_MAX (1ull << 30)
/* How long the result of a check is reused, so that not every request reads a gigabyte. */
#define CHECKED_AGE_MAX_S 60

static const struct admin_member health_members[] = { { "deep", MEMBER_FLAG }, { 0 } };

static struct json *directory_to_json(const char *what, const char *path)
{
    struct statvfs seen;
    struct fs_place place;
    struct json *j = json_object();
    json_set_text(j, "what", what);
    json_set_text(j, "path", path);
    if (statvfs(path, &seen) != 0 || fs_look(path, &place) != 0) {
        json_set_text(j, "trouble", strerror(errno));
        return j;
    }
    if (place.network)
        json_set_text(j, "network", place.type);
    if (place.unknown_fuse)
        json_set_text(j, "fuse", place.type);
    json_set_bool(j, "read_only", seen.f_flag & ST_RDONLY);
    json_set_u64(j, "bytes", (uint64_t)seen.f_blocks * seen.f_frsize);
    json_set_u64(j, "free_bytes", (uint64_t)seen.f_bavail * seen.f_frsize);
    json_set_u64(j, "inodes", seen.f_files);
    json_set_u64(j, "free_inodes", seen.f_favail);
    return j;
}

static struct json *cache_to_json(const struct kernel_check *check, bool deep)
{
    struct json *j = json_object();
    json_set_u64(j, "bytes", check->bytes);
    json_set_bool(j, "checked", check->checked);
    if (check->checked)
        json_set_u64(j, "checked_age_s", check->age_s);
    if (!check->checked && !deep)
        json_set_u64(j, "checked_max", CHECKED_MAX);
    if (check->damage[0])
        json_set_text(j, "damage", check->damage);
    json_set_u64(j, "newest", check->newest);
    return j;
}

/* Tries to make a sealed memfd. All requests need memfds, but a seccomp filter may refuse them. */
static void try_memfd(struct json *limits)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(fd) int fd = -1;
    enum kiln_code rc = fs_memfd("kiln-health", &fd, &err);
    if (!rc)
        rc = fs_write_all(fd, bytes_of_text("seals"), &err);
    if (!rc)
        rc = fs_seal(fd, &err);
    if (rc)
        json_set_text(limits, "memfd_trouble", err.text);
    json_set_bool(limits, "memfd_sealed", !rc && fs_is_sealed(fd));
}

static struct json *limits_to_json(void)
{
    struct rlimit files;
    struct json *j = json_object();
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        json_set_u64(j, "open_files", files.rlim_cur);
    try_memfd(j);
    return j;
}

static enum kiln_code work_health(struct admin *a)
{
    struct kernel_check check;
    bool deep = json_get_bool(a->base.question, "deep", false);
    if (deep && !a->base.is_admin)
        return kiln_fail(&a->base.err, KILN_DENIED,
                         "a deep check reads the whole database and needs an administrator (%s): "
                         "ask without 'deep'",
                         ADMINISTRATORS);
    const struct kernel_check_options full = { .bytes_max = UINT64_MAX },
                                      quick = { .bytes_max = CHECKED_MAX,
                                                .age_max_s = CHECKED_AGE_MAX_S };
    enum kiln_code rc =
        kernel_store_check(a->base.engine->store, deep ? &full : &quick, &check, &a->base.err);
    if (rc)
        return rc;
    const char *state = tuning_directory(a->base.engine);
    struct json *directories = json_array();
    json_append(directories, directory_to_json("cache", check.directory));
    if (state)
        json_append(directories, directory_to_json("state", state));
    json_set(a->base.answer, "directories", directories);
    json_set(a->base.answer, "cache", cache_to_json(&check, deep));
    json_set(a->base.answer, "limits", limits_to_json());
    json_set_u64(a->base.answer, "now", clock_wall_s());
    json_set_u64(a->base.answer, "uid", geteuid());
    return KILN_OK;
}

static const struct admin_kind health_kind = {
    .work_queue = WORK_QUEUE_READ,
    .scans = true,
    .members = health_members,
    .work = work_health,
};

ADMIN_HANDLER(health, health_kind)
