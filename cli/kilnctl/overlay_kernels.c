/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/overlay.h"

#include "cli/kilnctl/db_exported.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define FILES_MAX 64

/* ---- imported kernels ---- */

struct caches {          /* the answer to kernel_export */
    struct json *answer; /* owned */
    int fds[FILES_MAX];  /* owned */
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

/* Gets the kernels of one MIOpen version: of the given one or the only one, else those that are
 * stored without a version. */
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

static int fill_cache(struct overlay *o, const char *id, struct kiln_error *err)
{
    __attribute__((cleanup(caches_done))) struct caches caches = { .count = 0 };
    int rc = choose_caches(o, id, &caches, err);
    if (rc)
        return rc == KILN_E_NOT_FOUND ? KILN_E_OK : rc;
    const struct json *entry = json_first(json_get(caches.answer, "files"));
    return entry ? write_cache(o, id, &caches, entry, err) : KILN_E_OK;
}

/* ---- a package ---- */

/* MIOpen cannot read a database in WAL mode without write access.  Bytes 18 and 19 of SQLite's
 * header are 1 if the database is not in WAL mode. */
static bool is_readable_package(const char *path)
{
    unsigned char head[20];
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) && head[18] == 1 &&
           head[19] == 1;
}

static const struct json *find_package(const struct json *packages, const char *id)
{
    for (const struct json *j = json_first(packages); j; j = json_next(j))
        if (strcmp(json_get_text(j, "format", ""), "kdb") == 0 &&
            strcmp(json_get_text(j, "database_id", ""), id) == 0 &&
            json_get_text(j, "path", "")[0] == '/')
            return j;
    return NULL;
}

static int link_package(struct overlay *o, const char *id, const char *package, uint64_t kernels,
                        struct kiln_error *err)
{
    char name[160], path[PATH_MAX];
    snprintf(name, sizeof(name), "system/%.64s.kdb", id);
    int rc = overlay_path(o->directory, name, path, sizeof(path), err);
    if (rc)
        return rc;
    if (o->replace)
        unlink(path);
    if (symlink(package, path) != 0)
        return cli_fail_errno(err, errno, "cannot create the link '%s'", path);
    return overlay_wrote(o, name, kernels, "kernel", err);
}

/* Links the package instead of copying hundreds of MiB. */
static int fill_package(struct overlay *o, const char *id, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(o->invocation, "package_list", admin_no_arguments, &reply, err);
    if (rc)
        return rc;
    const struct json *package = find_package(json_get(reply, "packages"), id);
    const char *path = json_get_text(package, "path", "");
    if (!package)
        return KILN_E_OK;
    if (!is_readable_package(path)) {
        overlay_remark(o, "the package '%.300s' is not used: you or MIOpen cannot read it", path);
        return KILN_E_OK;
    }
    return link_package(o, id, path, json_get_u64(package, "kernels", 0), err);
}

int overlay_fill_kernels(struct overlay *overlay, const char *id, struct kiln_error *err)
{
    int rc = fill_cache(overlay, id, err);
    /* Without a system database, MIOpen uses its own directory and the packages in it. */
    return rc || !overlay->has_system ? rc : fill_package(overlay, id, err);
}
