/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/overlay.h"

#include "cli/kilnctl/db_exported.h"
#include "cli/kilnctl/db_file.h"
#include "cli/kilnctl/miopen_version.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define FILES_MAX 64

struct caches {
    struct json *answer;
    int fds[FILES_MAX];
    size_t count;
};

static void caches_done(struct caches *c)
{
    for (size_t i = 0; i < c->count; i++)
        close(c->fds[i]);
    json_destroy(c->answer);
    *c = (struct caches){ .count = 0 };
}

static int ask_caches(struct overlay *o, const char *id, const char *version,
                      struct caches *ret_caches, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    json_set_text(ask, "format", "ukdb");
    json_set_text(ask, "database_id", id);
    if (version)
        json_set_text(ask, "version", version);
    const struct admin_call call = { ADMIN_CALL_INIT,
                                     .request = "kernel_export",
                                     .arguments = ask,
                                     .ret_files = ret_caches->fds,
                                     .ret_files_max = FILES_MAX,
                                     .ret_file_count = &ret_caches->count };
    return admin_call(o->invocation, &call, &ret_caches->answer, err);
}

/* Gets the kernels that were stored for the given MIOpen version or, if there are none, those
 * stored without a version. If no version is given and only one version has kernels, gets
 * these kernels. If several versions have kernels, gets those stored without a version. */
static int choose_caches(struct overlay *o, const char *id, struct caches *ret_caches,
                         struct kiln_error *err)
{
    int rc = ask_caches(o, id, o->version, ret_caches, err);
    if (rc == KILN_E_NOT_FOUND && o->version)
        return ask_caches(o, id, "none", ret_caches, err);
    if (rc != KILN_E_INVALID || o->version)
        return rc;
    rc = ask_caches(o, id, "none", ret_caches, err);
    overlay_remark(o,
                   "there are kernels of several versions of MIOpen for %s: choose one with "
                   "--miopen; %s",
                   id, rc ? "no kernels were written" : "those without a version were written");
    return rc;
}

static int write_cache(struct overlay *o, const char *id, const struct caches *caches,
                       const struct json *entry, struct kiln_error *err)
{
    char name[160], path[PATH_MAX];
    uint64_t descriptor = json_get_u64(entry, "descriptor", UINT64_MAX);
    if (descriptor >= caches->count)
        return cli_fail(err, KILN_E_CORRUPT,
                        "kilnd's answer refers to a file that it did not send");
    snprintf(name, sizeof(name), "cache/%.64s.ukdb", id);
    int rc = overlay_path(o->directory, name, path, sizeof(path), err);
    const struct new_file file = { .path = path,
                                   .replace = o->replace,
                                   .mode = overlay_file_mode(o->manifest.is_shared),
                                   .from = caches->fds[descriptor] };
    if (!rc)
        rc = db_write(&file, err);
    return rc ? rc : overlay_wrote(o, name, json_get_u64(entry, "kernels", 0), "kernel", err);
}

static bool version_of(const struct json *entry, char ret_version[MIOPEN_VERSION_MAX])
{
    const char *at = strchr(json_get_text(entry, "name", ""), '@');
    const char *ending = at ? strrchr(at, '.') : NULL;
    size_t size = ending ? (size_t)(ending - at - 1) : 0;
    if (size == 0 || size >= MIOPEN_VERSION_MAX || memchr(at, '/', size))
        return false;
    snprintf(ret_version, MIOPEN_VERSION_MAX, "%.*s", (int)size, at + 1);
    return true;
}

static int link_version(struct overlay *o, const char *id, const struct json *entry,
                        struct kiln_error *err)
{
    char cache[PATH_MAX], version[MIOPEN_VERSION_MAX];
    bool is_known = o->version || version_of(entry, version);
    if (!is_known && entry)
        overlay_remark(o,
                       "the kernels for %s have no version: MIOpen 3.5 and later find them only "
                       "if --miopen names its version",
                       id);
    int rc = is_known ? overlay_path(o->directory, "cache", cache, sizeof(cache), err) : KILN_E_OK;
    return rc || !is_known ? rc
                           : miopen_version_link(cache, o->version ? o->version : version, err);
}

static int fill_cache(struct overlay *o, const char *id, struct kiln_error *err)
{
    __attribute__((cleanup(caches_done))) struct caches caches = { .count = 0 };
    int rc = choose_caches(o, id, &caches, err);
    if (rc)
        return rc == KILN_E_NOT_FOUND ? link_version(o, id, NULL, err) : rc;
    const struct json *entry = json_first(json_get(caches.answer, "files"));
    if (entry)
        rc = write_cache(o, id, &caches, entry, err);
    return rc ? rc : link_version(o, id, entry, err);
}

/* Returns whether MIOpen can read the package without write permission, which SQLite needs if the
 * database is in WAL mode. Bytes 18 and 19 of an SQLite file are 1 unless the file is in WAL
 * mode. */
static bool is_readable_package(const char *path)
{
    unsigned char head[20];
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) && head[18] == 1 &&
           head[19] == 1;
}

static int link_package(struct overlay *o, const char *id, const char *package, uint64_t kernels,
                        struct kiln_error *err)
{
    char name[160], path[PATH_MAX];
    snprintf(name, sizeof(name), "system/%.64s.kdb", id);
    int rc = overlay_path(o->directory, name, path, sizeof(path), err);
    if (rc)
        return rc;
    /* EEXIST: another device of the same arch has linked the package already. */
    if (symlink(package, path) != 0 && errno != EEXIST)
        return cli_fail_errno(err, errno, "cannot create the link '%s'", path);
    return overlay_wrote(o, name, kernels, "kernel", err);
}

/* Links to the packages, because copies would take hundreds of MiB. MIOpen uses the package with
 * the exact id or, if there is none, that of the arch. */
static int fill_package(struct overlay *o, const struct json *packages, const char *id,
                        struct kiln_error *err)
{
    for (const struct json *j = json_first(packages); j; j = json_next(j)) {
        const char *path = json_get_text(j, "path", "");
        if (strcmp(json_get_text(j, "format", ""), "kdb") != 0 || path[0] != '/' ||
            strcmp(json_get_text(j, "database_id", ""), id) != 0)
            continue;
        if (is_readable_package(path))
            return link_package(o, id, path, json_get_u64(j, "kernels", 0), err);
        overlay_remark(o, "the package '%.300s' is not used: you or MIOpen cannot read it", path);
    }
    return KILN_E_OK;
}

static int fill_packages(struct overlay *o, const char *id, struct kiln_error *err)
{
    char device[64];
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(o->invocation, "package_list", admin_no_arguments, &reply, err);
    const struct json *packages = json_get(reply, "packages");
    if (!rc)
        rc = fill_package(o, packages, id, err);
    if (!rc && db_file_device(id, device) && strcmp(device, id) != 0)
        rc = fill_package(o, packages, device, err);
    return rc;
}

int overlay_fill_kernels(struct overlay *overlay, const char *id, struct kiln_error *err)
{
    int rc = fill_cache(overlay, id, err);
    /* If system/ has no database, MIOpen uses its own directory, which has its own packages. */
    return rc || !overlay->has_system ? rc : fill_packages(overlay, id, err);
}
