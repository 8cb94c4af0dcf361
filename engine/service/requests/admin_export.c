/* SPDX-License-Identifier: MIT */
/* The request kernel_export: caches that an unmodified MIOpen starts warm with. */
#include "engine/miopen/kern_db.h"
#include "engine/service/kernels/store_tasks.h"
#include "engine/service/packages/packages.h"
#include "engine/service/requests/admin.h"
#include "engine/service/requests/exported_files.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Kernels that are read before the reader is released. */
#define KERNELS_A_STEP 256
/* Damaged kernels that one export quarantines; each is a task on WORK_QUEUE_WRITE. */
#define DAMAGED_MAX 256

static const struct admin_member export_members[] = {
    { "database_id", MEMBER_TEXT }, { "version", MEMBER_TEXT }, { "format", MEMBER_TEXT }, { 0 }
};

/* As a version: kernels that were imported without one. */
#define NO_VERSION "none"

struct ids { /* database ids of the caller's kernels */
    char list[ADMIN_FILES_MAX][VERSIONED_ID_MAX];
    size_t count;
    const char
        *version; /* borrowed; "": all versions; NO_VERSION: only kernels without a version */
    bool more;
    struct digest last; /* key of the last kernel that was listed */
    uint64_t seen;
};

static bool is_of_version(const char *database_id, const char *version)
{
    const char *at = strchr(database_id, '@');
    if (!version[0])
        return true;
    return at ? strcmp(at + 1, version) == 0 : strcmp(version, NO_VERSION) == 0;
}

static void note_id(void *context, const struct kernel_record *r)
{
    struct ids *ids = context;
    ids->last = r->key;
    ids->seen++;
    if (!r->database_id[0] || strlen(r->database_id) >= VERSIONED_ID_MAX ||
        !is_of_version(r->database_id, ids->version))
        return;
    for (size_t i = 0; i < ids->count; i++) {
        if (strcmp(ids->list[i], r->database_id) == 0)
            return;
    }
    if (ids->count < ADMIN_FILES_MAX)
        snprintf(ids->list[ids->count++], VERSIONED_ID_MAX, "%s", r->database_id);
    else
        ids->more = true;
}

#define LIST_STEP 1000

/* Adds the ids of |id| in all versions; "": of all devices. */
static enum kiln_code gather_ids(struct admin *a, uint64_t scope, const char *id, struct ids *ids)
{
    struct kernel_page page = { .filter = { .by_scope = true, .scope = scope, .database_id = id },
                                .max = LIST_STEP };
    enum kiln_code rc = KILN_OK;
    struct digest after;
    for (uint64_t got = LIST_STEP; !rc && got == LIST_STEP;) {
        ids->seen = 0;
        rc = kernel_store_list(a->base.engine->store, &page, note_id, ids, &a->base.err);
        got = ids->seen;
        after = ids->last;
        page.after = &after;
    }
    return rc;
}

static bool is_same_device(const char *a, const char *b)
{
    size_t size = strcspn(a, "@");
    return size == strcspn(b, "@") && memcmp(a, b, size) == 0;
}

static enum kiln_code refuse_several(const struct ids *ids, const char *device,
                                     struct kiln_err *err)
{
    char versions[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < ids->count && used < sizeof(versions); i++) {
        const char *at = strchr(ids->list[i], '@');
        if (is_same_device(ids->list[i], device))
            used += (size_t)snprintf(versions + used, sizeof(versions) - used, "%s%s",
                                     used ? ", " : "", at ? at + 1 : NO_VERSION);
    }
    return kiln_fail(err, KILN_INVALID,
                     "there are kernels of several versions of MIOpen for '%.*s', but MIOpen reads "
                     "one file: name one of the versions %s (kilnctl kernel export --miopen)",
                     (int)strcspn(device, "@"), device, versions);
}

/* MIOpen reads only one file name, so an export of two versions is refused. */
static enum kiln_code check_versions(const struct ids *ids, struct kiln_err *err)
{
    for (size_t i = 0; i < ids->count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (is_same_device(ids->list[i], ids->list[j]))
                return refuse_several(ids, ids->list[i], err);
        }
    }
    return KILN_OK;
}

struct export_file {
    struct admin *admin;           /* borrowed */
    struct kern_db_writer *writer; /* borrowed */
    uint64_t kernels, damaged;
    enum kiln_code rc;
    struct kiln_err *err;
};

struct damaged { /* keys of kernels that failed their check */
    size_t count;
    struct digest keys[DAMAGED_MAX];
};

/* Notes a damaged kernel; those beyond the limit are found by the next export. */
static void note_damaged(struct admin *a, const struct digest *key)
{
    struct damaged *damaged = a->own;
    if (damaged->count < DAMAGED_MAX)
        damaged->keys[damaged->count++] = *key;
}

static bool export_one(void *context, const struct kernel_record *r, struct bytes raw)
{
    struct export_file *x = context;
    if (raw.size == 0) {
        x->damaged++; /* MIOpen compiles it again: a cache need not be complete */
        note_damaged(x->admin, &r->key);
        return true;
    }
    x->rc = kern_db_writer_add(x->writer, bytes_of_text(r->program), bytes_of_text(r->options), raw,
                               x->err);
    x->kernels += !x->rc;
    return !x->rc;
}

/* Call it before the file is written and while it grows. */
static enum kiln_code check_space(struct admin *a, const char *path)
{
    const struct export_receiver to = { .uid = a->base.uid, .is_admin = a->base.is_admin };
    struct stat seen;
    uint64_t size = stat(path, &seen) == 0 ? (uint64_t)seen.st_size : 0;
    return exported_files_check(a->base.engine->exported, packages_staging(a->base.engine), &to,
                                size, &a->base.err);
}

static enum kiln_code write_cache(struct admin *a, const char *id, const char *path,
                                  struct export_file *x)
{
    KILN_AUTO(kern_db_writer) struct kern_db_writer *writer = NULL;
    enum kiln_code rc = kern_db_create(path, &writer, &a->base.err);
    struct kernel_position position = { 0 };
    const struct kernel_export kernels = { .uid = (uint32_t)a->base.uid,
                                           .database_id = id,
                                           .max = KERNELS_A_STEP,
                                           .each = export_one,
                                           .context = x };
    x->admin = a;
    x->writer = writer;
    x->err = &a->base.err;
    for (bool end = false; !rc && !end;) {
        rc = check_space(a, path);
        if (rc)
            break;
        rc =
            kernel_store_each_named(a->base.engine->store, &kernels, &position, &end, &a->base.err);
        if (!rc)
            rc = x->rc;
    }
    return rc ? rc : kern_db_writer_finish(writer, &a->base.err);
}

static enum kiln_code export_id(struct admin *a, const char *id, struct json *files)
{
    char path[PATH_MAX], name[VERSIONED_ID_MAX + 8];
    const char *version = json_get_text(a->base.question, "version", "");
    /* With a version, the file gets the name that MIOpen looks for. */
    int shown = version[0] ? (int)strcspn(id, "@") : (int)strlen(id);
    struct export_file x = { 0 };
    const struct export_receiver to = { .uid = a->base.uid, .is_admin = a->base.is_admin };
    snprintf(path, sizeof(path), "%s/export-%p-%zu", packages_staging(a->base.engine), (void *)a,
             a->file_count);
    enum kiln_code rc = write_cache(a, id, path, &x);
    if (!rc && x.kernels > 0)
        rc = exported_files_open(a->base.engine->exported, path, &to, &a->files[a->file_count],
                                 &a->base.err);
    unlink(path);
    if (rc || x.kernels == 0)
        return rc;
    struct json *file = json_object();
    snprintf(name, sizeof(name), "%.*s.ukdb", shown, id);
    json_set_text(file, "name", name);
    json_set_u64(file, "kernels", x.kernels);
    json_set_u64(file, "damaged", x.damaged);
    json_set_u64(file, "descriptor", a->file_count++);
    json_append(files, file);
    return KILN_OK;
}

/* Checks an id, which may contain a version. "" means all ids. */
static enum kiln_code check_id(const char *id, const char *version, struct kiln_err *err)
{
    struct bytes plain, own_version;
    struct database_id parsed;
    if (!id[0])
        return KILN_OK;
    enum kiln_code rc = database_id_split(bytes_of_text(id), &plain, &own_version, err);
    if (!rc)
        rc = database_id_parse(plain, &parsed, err);
    if (!rc && own_version.size && version[0])
        rc = kiln_fail(err, KILN_INVALID, "'%.80s' has a version already", id);
    if (!rc && plain.size >= DATABASE_ID_MAX)
        rc = kiln_fail(err, KILN_INVALID, "the database id '%.80s' is too long", id);
    return rc;
}

static enum kiln_code work_export(struct admin *a)
{
    const char *id = json_get_text(a->base.question, "database_id", "");
    const char *format = json_get_text(a->base.question, "format", "ukdb");
    if (strcmp(format, "ukdb") != 0)
        return kiln_fail(&a->base.err, KILN_INVALID, "'%.40s' is not an export format: give ukdb",
                         format);
    KILN_AUTO(mem) struct ids *ids = calloc(1, sizeof(*ids));
    if (!ids)
        return kiln_fail(&a->base.err, KILN_NO_MEMORY, "cannot export");
    const char *version = json_get_text(a->base.question, "version", "");
    enum kiln_code rc = database_version_check(
        bytes_of_text(json_get_text(a->base.question, "version", "any")), &a->base.err);
    if (rc)
        return rc;
    ids->version = version;
    rc = check_id(id, version, &a->base.err);
    if (rc)
        return rc;
    rc = gather_ids(a, a->base.uid, id, ids);
    if (!rc)
        rc = gather_ids(a, KERNEL_SCOPE_EVERYONE, id, ids);
    if (!rc)
        rc = check_versions(ids, &a->base.err);
    if (!rc && ids->more)
        rc = kiln_fail(&a->base.err, KILN_FULL, "more than %d database ids: name one of them",
                       ADMIN_FILES_MAX);
    struct json *files = json_set_array(a->base.answer, "files");
    for (size_t i = 0; !rc && i < ids->count; i++)
        rc = export_id(a, ids->list[i], files);
    if (!rc && a->file_count == 0)
        rc = kiln_fail(&a->base.err, KILN_NOT_FOUND, "there are no imported kernels%s%s to export",
                       id[0] ? " of " : "", id);
    return rc;
}

static void ended_export(struct admin *a)
{
    const struct damaged *damaged = a->own;
    for (size_t i = 0; i < damaged->count; i++)
        quarantine_later(a->base.engine, &damaged->keys[i]);
}

static const struct admin_kind export_kind = {
    .work_queue = WORK_QUEUE_READ,
    .scans = true,
    .own_size = sizeof(struct damaged),
    .members = export_members,
    .work = work_export,
    .ended = ended_export,
};

enum kiln_code handle_kernel_export(struct engine *e, struct caller *caller,
                                    const struct frame_header *header, struct bytes body,
                                    struct kiln_err *err)
{
    return admin_run(e, &(struct request){ caller, header, body }, &export_kind, err);
}
