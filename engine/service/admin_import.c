/* SPDX-License-Identifier: MIT */
/* The requests kernel_import and kernel_export: MIOpen's per-user caches in and out. */
#include "common/clock.h"
#include "engine/miopen/kern_db.h"
#include "engine/service/arrivals.h"
#include "engine/service/file_object.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Kernels of one task on a lane: others' work comes in between. */
#define KERNELS_A_STEP 256

/* ---- import ---- */

static const struct admin_member import_members[] = {
    { "name", MEMBER_TEXT },    { "database_id", MEMBER_TEXT }, { "version", MEMBER_TEXT },
    { "for_all", MEMBER_FLAG }, { "source", MEMBER_TEXT },      { 0 },
};

/* From step to step. */
struct import {
    struct kern_db *db;                 /* owned; used on the write lane */
    uint64_t after;                     /* row id: where it stands */
    struct digest keys[KERNELS_A_STEP]; /* imported in this step */
    size_t key_count;
};

struct import_step {
    struct arrival *arrival;
    struct import *import;
    const char *gpu, *database_id; /* the latter with the version, where one is given */
    uint64_t imported, damaged, evicted, replaced;
    char first[256]; /* damage, as a sentence */
    uint64_t rows;
    enum kiln_code rc; /* of the store: ends the import */
    struct kiln_err *err;
};

static void note_damage(struct import_step *s, const struct kiln_err *why)
{
    if (s->damaged++ == 0)
        snprintf(s->first, sizeof(s->first), "%.250s", why->text);
}

struct other {
    const struct digest *object;
    bool differs;
};

static void compare_object(void *context, const struct kernel_record *r)
{
    struct other *other = context;
    other->differs = !digest_equal(&r->object, other->object);
}

/* Whether other bytes are under this name already: another version of MIOpen may have made them. */
static bool would_replace(struct kernel_store *store, const struct digest *key,
                          const struct digest *object)
{
    struct other other = { .object = object };
    struct kiln_err ignored = KILN_ERR_INIT; /* storing will say it */
    return kernel_store_show(store, key, compare_object, &other, &ignored) == KILN_OK &&
           other.differs;
}

/* Texts that the store keeps end at a NUL. */
static enum kiln_code store_row(struct import_step *s, const struct kern_row *row, struct bytes raw,
                                struct kiln_err *err)
{
    const struct arrival *a = s->arrival;
    bool for_all = json_get_bool(a->question, "for_all", false);
    KILN_AUTO(mem) char *name = bytes_to_text(row->name), *args = bytes_to_text(row->args);
    struct object *object = NULL;
    if (!name || !args)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot import a kernel");
    enum kiln_code rc = object_from_bytes(raw, /* compile_ns= */ 0, &object, err);
    if (rc)
        return rc;
    const struct kernel_record record = {
        .key = kernel_name_key(for_all ? KERNEL_SCOPE_EVERYONE : (uint64_t)a->uid,
                               bytes_of_text(s->database_id), row->name, row->args),
        .object = object->digest,
        .target = s->gpu,
        .toolchain = "miopen",
        .program = name,
        .options = args,
        .database_id = s->database_id,
        .package = a->transfer.outcome.name,
        .version = KILN_VERSION,
        .raw_size = raw.size,
        .created = clock_wall_s(),
        .last_used = clock_wall_s(),
        .uid = (uint32_t)a->uid,
        .is_private = !for_all,
    };
    s->import->keys[s->import->key_count++] = record.key;
    bool replaces = would_replace(a->engine->store, &record.key, &record.object);
    rc = kernel_store_import(a->engine->store, &record, object, &s->evicted, err);
    s->replaced += !rc && replaces;
    object_unref(object);
    return rc;
}

static bool import_row(void *context, const struct kern_row *row)
{
    struct import_step *s = context;
    struct kiln_err why = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, LIMIT_CODE_OBJECT);
    s->rows++;
    s->import->after = row->id;
    if (kern_row_unpack(row, &raw, &why)) {
        note_damage(s, &why);
        return true;
    }
    s->rc = store_row(s, row, buffer_view(&raw), s->err);
    s->imported += !s->rc;
    return !s->rc;
}

/* Answers count over all steps. */
static void add_count(struct json *answer, const char *name, uint64_t more)
{
    uint64_t so_far = json_get_u64(answer, name, 0);
    json_replace_u64(answer, name, so_far + more);
}

static void import_destroy(void *state)
{
    struct import *import = state;
    kern_db_destroy(import->db);
    free(import);
}

/* Open from the first step to the last: what was found damaged is not looked for again. */
static enum kiln_code open_cache(struct arrival *a, struct import **ret_import,
                                 struct kiln_err *err)
{
    struct import *import = a->state;
    if (!import)
        import = calloc(1, sizeof(*import));
    if (!import)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot import a cache");
    a->state = import;
    *ret_import = import;
    return import->db ? KILN_OK
                      : kern_db_open(a->transfer.outcome.path, KERN_DB_SALVAGE, &import->db, err);
}

static void answer_counts(struct json *answer, const struct import_step *s, uint64_t lost)
{
    add_count(answer, "imported", s->imported);
    add_count(answer, "damaged", s->damaged);
    add_count(answer, "lost", lost);
    add_count(answer, "evicted", s->evicted);
    add_count(answer, "replaced", s->replaced);
    if (s->first[0] && !json_get(answer, "first"))
        json_set_text(answer, "first", s->first);
}

/* Where nothing names the lost rows any more, none is counted. */
static void answer_damage(struct json *answer, bool is_last)
{
    if (!json_get(answer, "file_damaged"))
        json_set_bool(answer, "file_damaged", true);
    if (is_last && json_get_u64(answer, "lost", 0) == 0)
        json_set_bool(answer, "lost_unknown", true);
}

static enum kiln_code import_step(struct arrival *a, struct import_step *s, bool *ret_more,
                                  struct kiln_err *err)
{
    uint64_t lost = 0;
    struct import *import = s->import;
    enum kiln_code rc =
        kern_db_each(import->db, import->after, KERNELS_A_STEP, import_row, s, &lost, err);
    *ret_more = s->rows == KERNELS_A_STEP;
    answer_counts(a->answer, s, lost);
    if (kern_db_is_damaged(import->db))
        answer_damage(a->answer, !*ret_more);
    if (!*ret_more || rc) {
        kern_db_destroy(import->db);
        import->db = NULL;
    }
    if (s->rc)
        return kiln_while(err, "importing '%s', after %llu kernels", a->transfer.outcome.name,
                          (unsigned long long)json_get_u64(a->answer, "imported", 0));
    return rc;
}

static enum kiln_code find_gpu(const struct arrival *a, char gpu[DATABASE_ID_MOST],
                               struct kiln_err *err)
{
    struct database_id id;
    const char *given = json_get_text(a->question, "database_id", "");
    enum kiln_code rc = given[0] ? database_id_parse(bytes_of_text(given), &id, err)
                                 : database_id_of_file(a->transfer.outcome.name, &id, err);
    if (!rc && !database_id_write(&id, gpu))
        rc = kiln_fail(err, KILN_INVALID, "the database id is too long");
    return rc ? kiln_while(err, "which GPU '%s' is for (give its database id)",
                           a->transfer.outcome.name)
              : KILN_OK;
}

/* Cut where a version is too long: check_version has refused that. */
static void add_version(const struct json *question, const char *gpu, char text[VERSIONED_ID_MOST])
{
    const char *version = json_get_text(question, "version", "");
    snprintf(text, VERSIONED_ID_MOST, "%s%s%s", gpu, version[0] ? "@" : "", version);
}

/* Before anything is fetched or read for it. */
static enum kiln_code check_version(const struct json *question, struct kiln_err *err)
{
    char text[2 * VERSIONED_ID_MOST];
    struct bytes id, version;
    snprintf(text, sizeof(text), "@%s", json_get_text(question, "version", "x"));
    return database_id_split(bytes_of_text(text), &id, &version, err);
}

static enum kiln_code take_cache(struct arrival *a, bool *ret_more, struct kiln_err *err)
{
    char gpu[DATABASE_ID_MOST], text[VERSIONED_ID_MOST];
    enum kiln_code rc = find_gpu(a, gpu, err);
    if (rc)
        return rc;
    add_version(a->question, gpu, text);
    if (!json_get(a->answer, "database_id")) {
        json_set_text(a->answer, "database_id", text);
        json_set_text(a->answer, "scope",
                      json_get_bool(a->question, "for_all", false) ? "everyone" : "own");
    }
    struct import_step step = { .arrival = a, .gpu = gpu, .database_id = text, .err = err };
    rc = open_cache(a, &step.import, err);
    return rc ? rc : import_step(a, &step, ret_more, err);
}

/* What these names answered before may be another object now. */
static void forget_replaced(struct arrival *a)
{
    struct engine *e = a->engine;
    struct import *import = a->state;
    if (!import || import->key_count == 0)
        return;
    for (size_t i = 0; i < import->key_count; i++)
        hot_set_remove(e->hot, &import->keys[i]);
    import->key_count = 0;
    e->hot_generation++;
}

static void finish_import(struct arrival *a)
{
    a->engine->stats.evictions += json_get_u64(a->answer, "evicted", 0);
    /* Everyone's may be hot under the key of each user who asked for it. */
    if (json_get_bool(a->question, "for_all", false) && json_get_u64(a->answer, "imported", 0) > 0)
        engine_forget_hot(a->engine);
}

static const struct arrival_kind import_kind = {
    .members = import_members,
    .salvage = true,
    .take = take_cache,
    .taken = forget_replaced,
    .finish = finish_import,
    .state_destroy = import_destroy,
};

enum kiln_code handle_kernel_import(struct engine *e, struct caller *caller,
                                    const struct frame_header *header, struct bytes body,
                                    struct kiln_err *err)
{
    struct json *question = NULL;
    enum kiln_code rc = admin_read(header, body, import_members, &question, err);
    if (!rc && json_get_bool(question, "for_all", false) && caller->role != ROLE_ADMIN) {
        json_destroy(question);
        return kiln_fail(err, KILN_DENIED,
                         "only an administrator may import for everyone; without that the kernels "
                         "are yours alone");
    }
    if (!rc && check_version(question, err)) {
        json_destroy(question);
        return err->code;
    }
    return rc ? rc : arrival_begin(e, caller, header, &import_kind, question, err);
}

/* ---- export ---- */

static const struct admin_member export_members[] = {
    { "database_id", MEMBER_TEXT }, { "version", MEMBER_TEXT }, { "format", MEMBER_TEXT }, { 0 }
};

struct ids { /* database ids that the caller has kernels of */
    char list[ADMIN_FILES_MOST][VERSIONED_ID_MOST];
    size_t count;
    const char *version; /* borrowed: of this one only; "": all */
    bool more;
    struct digest last; /* where the listing stands */
    uint64_t seen;
};

static bool is_of_version(const char *database_id, const char *version)
{
    const char *at = strchr(database_id, '@');
    return !version[0] || (at && strcmp(at + 1, version) == 0);
}

static void note_id(void *context, const struct kernel_record *r)
{
    struct ids *ids = context;
    ids->last = r->key;
    ids->seen++;
    if (!r->database_id[0] || strlen(r->database_id) >= VERSIONED_ID_MOST ||
        !is_of_version(r->database_id, ids->version))
        return;
    for (size_t i = 0; i < ids->count; i++) {
        if (strcmp(ids->list[i], r->database_id) == 0)
            return;
    }
    if (ids->count < ADMIN_FILES_MOST)
        snprintf(ids->list[ids->count++], VERSIONED_ID_MOST, "%s", r->database_id);
    else
        ids->more = true;
}

#define LIST_STEP 1000

static enum kiln_code gather_ids(struct admin *a, uint64_t scope, struct ids *ids)
{
    const struct kernel_filter filter = { .by_scope = true, .scope = scope };
    enum kiln_code rc = KILN_OK;
    bool first = true;
    for (uint64_t got = LIST_STEP; !rc && got == LIST_STEP; first = false) {
        struct digest after = ids->last;
        ids->seen = 0;
        rc = kernel_store_list(a->engine->store, &filter, first ? NULL : &after, LIST_STEP, note_id,
                               ids, &a->err);
        got = ids->seen;
    }
    return rc;
}

struct export_file {
    struct kern_db_writer *writer; /* borrowed */
    uint64_t kernels, damaged;
    enum kiln_code rc;
    struct kiln_err *err;
};

static bool export_one(void *context, const struct kernel_record *r, struct bytes raw)
{
    struct export_file *x = context;
    if (raw.size == 0) {
        x->damaged++; /* compiled again by MIOpen: a cache need not be whole */
        return true;
    }
    x->rc = kern_db_writer_add(x->writer, bytes_of_text(r->program), bytes_of_text(r->options), raw,
                               x->err);
    x->kernels += !x->rc;
    return !x->rc;
}

static enum kiln_code write_cache(struct admin *a, const char *id, const char *path,
                                  struct export_file *x)
{
    KILN_AUTO(kern_db_writer) struct kern_db_writer *writer = NULL;
    enum kiln_code rc = kern_db_create(path, &writer, &a->err);
    struct kernel_place place = { 0 };
    x->writer = writer;
    x->err = &a->err;
    for (bool end = false; !rc && !end;) {
        rc = kernel_store_each_named(a->engine->store, (uint32_t)a->uid, id, &place, KERNELS_A_STEP,
                                     export_one, x, &end, &a->err);
        if (!rc)
            rc = x->rc;
    }
    return rc ? rc : kern_db_writer_finish(writer, &a->err);
}

static enum kiln_code export_id(struct admin *a, const char *id, struct json *files)
{
    char path[PATH_MAX], name[VERSIONED_ID_MOST + 8];
    const char *version = json_get_text(a->question, "version", "");
    /* Who names a version wants the file that MIOpen looks for. */
    int shown = version[0] ? (int)strcspn(id, "@") : (int)strlen(id);
    struct export_file x = { 0 };
    snprintf(path, sizeof(path), "%s/export-%p-%zu", a->engine->staging, (void *)a, a->file_count);
    enum kiln_code rc = write_cache(a, id, path, &x);
    if (!rc && x.kernels > 0)
        rc = object_of_file(path, &a->files[a->file_count], &a->err);
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

static enum kiln_code work_export(struct admin *a)
{
    const char *id = json_get_text(a->question, "database_id", "");
    const char *format = json_get_text(a->question, "format", "ukdb");
    if (strcmp(format, "ukdb") != 0)
        return kiln_fail(&a->err, KILN_INVALID, "there is no format '%.40s' to export: ukdb",
                         format);
    KILN_AUTO(mem) struct ids *ids = calloc(1, sizeof(*ids));
    if (!ids)
        return kiln_fail(&a->err, KILN_NO_MEMORY, "cannot export");
    enum kiln_code rc = check_version(a->question, &a->err);
    if (rc)
        return rc;
    ids->version = json_get_text(a->question, "version", "");
    if (id[0] && strlen(id) < DATABASE_ID_MOST)
        add_version(a->question, id, ids->list[ids->count++]);
    else
        rc = gather_ids(a, a->uid, ids);
    if (!rc && !id[0])
        rc = gather_ids(a, KERNEL_SCOPE_EVERYONE, ids);
    if (!rc && ids->more)
        rc = kiln_fail(&a->err, KILN_FULL, "more than %d database ids: name one of them",
                       ADMIN_FILES_MOST);
    struct json *files = json_array();
    json_set(a->answer, "files", files);
    for (size_t i = 0; !rc && i < ids->count; i++)
        rc = export_id(a, ids->list[i], files);
    if (!rc && a->file_count == 0)
        rc = kiln_fail(&a->err, KILN_NOT_FOUND, "there are no imported kernels%s%s to export",
                       id[0] ? " of " : "", id);
    return rc;
}

static const struct admin_kind export_kind = {
    .lane = LANE_READ,
    .scans = true,
    .members = export_members,
    .work = work_export,
};

enum kiln_code handle_kernel_export(struct engine *e, struct caller *caller,
                                    const struct frame_header *header, struct bytes body,
                                    struct kiln_err *err)
{
    return admin_run(e, caller, header, body, &export_kind, err);
}
