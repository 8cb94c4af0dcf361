/* SPDX-License-Identifier: MIT */
/* The request kernel_export writes kernel caches for an unmodified MIOpen, so that MIOpen need not
 * compile these kernels. */
#include "common/base/clock.h"
#include "engine/service/kernels/store_tasks.h"
#include "engine/service/packages/packages.h"
#include "engine/service/requests/admin.h"
#include "engine/service/requests/cache_writer.h"
#include "engine/service/requests/exported_files.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maximum number of kernels that one export quarantines, because each needs a task. */
#define DAMAGED_MAX 256

static const struct admin_member export_members[] = {
    { "database_id", MEMBER_TEXT }, { "version", MEMBER_TEXT }, { "format", MEMBER_TEXT }, { 0 }
};

/* Version by which a request selects kernels that were imported without a version. */
#define NO_VERSION "none"

#define LIST_PAGE 1000

enum listing { LISTING_PRIVATE, LISTING_PUBLIC, LISTED };

struct ids {
    char list[ADMIN_FILES_MAX][VERSIONED_ID_MAX];
    size_t count;
    const char *version;
    bool more;
    enum listing listing;
    struct digest last;
    bool follows;
    uint64_t seen;
};

struct export
{
    struct ids ids;
    size_t next;
    struct cache_writer *writer;
    char path[PATH_MAX];
    struct export_space space;
    struct json *files;
    uint64_t damaged;
    uint64_t charged;
    struct digest keys[DAMAGED_MAX];
    size_t key_count, reported;
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

static enum kiln_code list_ids(struct admin *a, struct ids *ids)
{
    const struct digest after = ids->last;
    const struct kernel_page page = {
        .filter = { .by_scope = true,
                    .scope = ids->listing == LISTING_PRIVATE ? (uint64_t)a->base.uid
                                                             : KERNEL_SCOPE_EVERYONE,
                    .database_id = json_get_text(a->base.question, "database_id", "") },
        .after = ids->follows ? &after : NULL,
        .max = LIST_PAGE,
    };
    ids->seen = 0;
    enum kiln_code rc = kernel_store_list(a->base.engine->store, &page, note_id, ids, &a->base.err);
    ids->follows = ids->seen == LIST_PAGE;
    if (!ids->follows)
        ids->listing++;
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

/* Notes a damaged kernel, so that it is quarantined. Kernels beyond DAMAGED_MAX are only counted,
 * and are quarantined by the next export. */
static void note_damaged(void *context, const struct digest *key)
{
    struct export *x = context;
    x->damaged++;
    if (x->key_count < DAMAGED_MAX)
        x->keys[x->key_count++] = *key;
}

/* Reserves space for what the next step may add: CACHE_WRITER_STEP_BYTES, one further object, and
 * the large object that the step completes. The space is also for data of the previous step,
 * because SQLite may write some of it only in the next step. */
static enum kiln_code reserve_space(struct admin *a, struct export *x)
{
    struct stat seen;
    uint64_t size = stat(x->path, &seen) == 0 ? (uint64_t)seen.st_size : 0;
    x->space.to = (struct export_receiver){ .uid = a->base.uid, .is_admin = a->base.is_admin };
    return exported_files_reserve(a->base.engine->exported, packages_staging(a->base.engine),
                                  size + 2 * CACHE_WRITER_STEP_BYTES +
                                      cache_writer_bytes(x->writer),
                                  &x->space, &a->base.err);
}

static enum kiln_code begin_file(struct admin *a, struct export *x)
{
    snprintf(x->path, sizeof(x->path), "%s/export-%p-%zu", packages_staging(a->base.engine),
             (void *)a, a->file_count);
    const struct cache_writer_options options = { .store = a->base.engine->store,
                                                  .path = x->path,
                                                  .uid = (uint32_t)a->base.uid,
                                                  .database_id = x->ids.list[x->next],
                                                  .damaged = note_damaged,
                                                  .context = x };
    x->damaged = 0;
    return cache_writer_open(&options, &x->writer, &a->base.err);
}

static void answer_file(struct admin *a, const struct export *x)
{
    char name[VERSIONED_ID_MAX + 8];
    const char *id = x->ids.list[x->next];
    /* If the request names a version, the file's name has none, as that version of MIOpen
     * expects. */
    int shown = x->ids.version[0] ? (int)strcspn(id, "@") : (int)strlen(id);
    struct json *file = json_object();
    snprintf(name, sizeof(name), "%.*s.ukdb", shown, id);
    json_set_text(file, "name", name);
    json_set_u64(file, "kernels", cache_writer_kernels(x->writer));
    json_set_u64(file, "damaged", x->damaged);
    json_set_u64(file, "descriptor", a->file_count++);
    json_append(x->files, file);
}

static enum kiln_code end_file(struct admin *a, struct export *x)
{
    bool is_empty = cache_writer_kernels(x->writer) == 0;
    enum kiln_code rc = is_empty ? KILN_OK : cache_writer_finish(x->writer, &a->base.err);
    if (!rc && !is_empty) {
        rc = exported_files_open(a->base.engine->exported, x->path, &x->space,
                                 &a->files[a->file_count], &a->base.err);
        unlink(x->path);
        if (!rc)
            answer_file(a, x);
    }
    cache_writer_destroy(x->writer);
    x->writer = NULL;
    x->next++;
    return rc;
}

static enum kiln_code write_file(struct admin *a, struct export *x)
{
    enum kiln_code rc = reserve_space(a, x);
    return rc ? rc : cache_writer_write(x->writer, &a->base.err);
}

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

static enum kiln_code check_export(struct admin *a, struct export *x)
{
    const char *id = json_get_text(a->base.question, "database_id", "");
    const char *format = json_get_text(a->base.question, "format", "ukdb");
    x->ids.version = json_get_text(a->base.question, "version", "");
    if (strcmp(format, "ukdb") != 0)
        return kiln_fail(&a->base.err, KILN_INVALID, "'%.40s' is not an export format: give ukdb",
                         format);
    enum kiln_code rc = database_version_check(
        bytes_of_text(json_get_text(a->base.question, "version", "any")), &a->base.err);
    x->files = json_set_array(a->base.answer, "files");
    return rc ? rc : check_id(id, x->ids.version, &a->base.err);
}

static enum kiln_code check_ids(struct admin *a, const struct ids *ids)
{
    enum kiln_code rc = check_versions(ids, &a->base.err);
    if (!rc && ids->more)
        rc = kiln_fail(&a->base.err, KILN_FULL, "more than %d database ids: name one of them",
                       ADMIN_FILES_MAX);
    return rc;
}

static enum kiln_code continue_export(struct admin *a, struct export *x)
{
    enum kiln_code rc = x->files ? KILN_OK : check_export(a, x);
    if (rc)
        return rc;
    if (x->ids.listing != LISTED) {
        rc = list_ids(a, &x->ids);
        return !rc && x->ids.listing == LISTED ? check_ids(a, &x->ids) : rc;
    }
    if (!x->writer && begin_file(a, x))
        return a->base.err.code;
    return cache_writer_is_over(x->writer) ? end_file(a, x) : write_file(a, x);
}

static bool is_export_over(const struct export *x)
{
    return x->ids.listing == LISTED && x->next == x->ids.count;
}

static enum kiln_code export_step(struct admin *a, struct export *x)
{
    uint64_t end_ns = clock_monotonic_ns() + CACHE_WRITER_STEP_NS;
    enum kiln_code rc = a->base.rc;
    bool is_used_up = false;
    while (!rc && !is_export_over(x) && !is_used_up) {
        rc = continue_export(a, x);
        is_used_up =
            clock_monotonic_ns() >= end_ns || (x->writer && !cache_writer_is_over(x->writer));
    }
    return rc;
}

static enum kiln_code work_export(struct admin *a)
{
    struct export *x = a->own;
    enum kiln_code rc = export_step(a, x);
    a->more = !rc && !is_export_over(x);
    if (a->more)
        return KILN_OK;
    cache_writer_destroy(x->writer);
    x->writer = NULL;
    const char *id = json_get_text(a->base.question, "database_id", "");
    if (!rc && a->file_count == 0)
        rc = kiln_fail(&a->base.err, KILN_NOT_FOUND, "there are no imported kernels%s%s to export",
                       id[0] ? " of " : "", id);
    return rc;
}

static void begin_export(struct admin *a)
{
    struct export *x = a->own;
    struct deferred *d = &a->base;
    uint64_t bytes = x->writer ? cache_writer_bytes(x->writer) : 0;
    if (!d->caller)
        d->rc = d->err.code = KILN_CANCELLED;
    else if (d->engine->draining)
        d->rc = kiln_fail(&d->err, KILN_UNAVAILABLE, "kilnd is stopping: try again");
    else if (bytes > x->charged)
        d->rc = deferred_charge(d, bytes - x->charged, &d->err);
    if (!d->rc && bytes > x->charged)
        x->charged = bytes;
    if (x->writer)
        cache_writer_grant(x->writer, x->charged);
}

static void export_step_ended(struct admin *a)
{
    struct export *x = a->own;
    for (; x->reported < x->key_count; x->reported++)
        quarantine_later(a->base.engine, &x->keys[x->reported]);
}

static void release_export(void *own)
{
    struct export *x = own;
    cache_writer_destroy(x->writer);
    export_space_release(&x->space);
}

static const struct admin_kind export_kind = {
    .work_queue = WORK_QUEUE_READ,
    .scans = true,
    .removes = true,
    .own_size = sizeof(struct export),
    .members = export_members,
    .begin = begin_export,
    .work = work_export,
    .ended = export_step_ended,
    .release = release_export,
};

ADMIN_HANDLER(kernel_export, export_kind)
