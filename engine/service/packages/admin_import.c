/* SPDX-License-Identifier: MIT */
/* The request kernel_import: MIOpen's per-user caches. */
#include "common/clock.h"
#include "engine/miopen/kern_db.h"
#include "engine/service/packages/uploads.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Kernels that one task imports, so that other users' tasks run in between. */
#define KERNELS_A_STEP 256
/* Damaged kernels that the answer names. */
#define DAMAGED_NAMED 200

static const struct admin_member import_members[] = {
    { "name", MEMBER_TEXT },    { "database_id", MEMBER_TEXT }, { "version", MEMBER_TEXT },
    { "for_all", MEMBER_FLAG }, { "source", MEMBER_TEXT },      { 0 },
};

/* State of an import that lasts from step to step. */
struct import {
    struct kern_db *db;                 /* owned; used on WORK_QUEUE_WRITE */
    uint64_t after;                     /* id of the last row that was read */
    uint64_t begun;                     /* seconds since the epoch; all its kernels are as old */
    struct digest keys[KERNELS_A_STEP]; /* imported in this step */
    size_t key_count;
    struct json *damaged_rows; /* owned until it is in the answer */
};

struct import_step {
    struct upload *upload;
    struct import *import;
    const char *gpu, *database_id; /* database_id includes the version, if one was given */
    uint64_t imported, damaged, evicted, replaced;
    char first[256]; /* message of the first damage */
    uint64_t rows;
    enum kiln_code rc; /* failure of the store, which ends the import */
    struct kiln_err *err;
};

static void name_damaged(struct json *rows, const struct kern_row *row, const struct kiln_err *why)
{
    char name[PACKAGE_ROW_TEXT];
    if (json_count(rows) >= DAMAGED_NAMED)
        return;
    size_t size = row->name.size < sizeof(name) ? row->name.size : sizeof(name) - 1;
    snprintf(name, sizeof(name), "%.*s", (int)size, (const char *)row->name.data);
    struct json *j = json_object();
    json_set_u64(j, "id", row->id);
    json_set_text(j, "name", name);
    json_set_text(j, "why", why->text);
    json_append(rows, j);
}

static void note_damage(struct import_step *s, const struct kern_row *row,
                        const struct kiln_err *why)
{
    if (s->damaged++ == 0)
        snprintf(s->first, sizeof(s->first), "%.250s", why->text);
    if (!s->import->damaged_rows)
        s->import->damaged_rows = json_array();
    name_damaged(s->import->damaged_rows, row, why);
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

/* True if another object already has this name, for example from another version of MIOpen. */
static bool would_replace(struct kernel_store *store, const struct digest *key,
                          const struct digest *object)
{
    struct other other = { .object = object };
    struct kiln_err ignored = KILN_ERR_INIT; /* storing the kernel reports the same error */
    return kernel_store_show(store, key, compare_object, &other, &ignored) == KILN_OK &&
           other.differs;
}

/* Texts that the store keeps end at a NUL. */
static enum kiln_code store_row(struct import_step *s, const struct kern_row *row, struct bytes raw,
                                struct kiln_err *err)
{
    const struct upload *u = s->upload;
    bool for_all = json_get_bool(u->base.question, "for_all", false);
    KILN_AUTO(mem) char *name = bytes_to_text(row->name), *args = bytes_to_text(row->args);
    struct object *object = NULL;
    if (!name || !args)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot import a kernel");
    enum kiln_code rc = object_from_bytes(raw, /* compile_ns= */ 0, &object, err);
    if (rc)
        return rc;
    const struct kernel_record record = {
        .key = kernel_name_key(for_all ? KERNEL_SCOPE_EVERYONE : (uint64_t)u->base.uid,
                               bytes_of_text(s->database_id), row->name, row->args),
        .object = object->digest,
        .target = s->gpu,
        .toolchain = "miopen",
        .program = name,
        .options = args,
        .database_id = s->database_id,
        .package = u->transfer.result.name,
        .version = KILN_VERSION,
        .raw_size = raw.size,
        .created = s->import->begun,
        .last_used = s->import->begun,
        .uid = (uint32_t)u->base.uid,
        .is_private = !for_all,
    };
    s->import->keys[s->import->key_count++] = record.key;
    bool replaces = would_replace(u->base.engine->store, &record.key, &record.object);
    rc = kernel_store_import(u->base.engine->store, &record, object, &s->evicted, err);
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
        note_damage(s, row, &why);
        return true;
    }
    enum kiln_code rc = store_row(s, row, buffer_view(&raw), &why);
    if (rc == KILN_INVALID) { /* the row is invalid; the other rows are imported all the same */
        kiln_while(&why, "row %llu", (unsigned long long)row->id);
        note_damage(s, row, &why);
        return true;
    }
    if (rc)
        *s->err = why;
    s->rc = rc;
    s->imported += !rc;
    return !rc;
}

/* Adds to a member of the answer, which counts over all steps. */
static void add_count(struct json *answer, const char *name, uint64_t more)
{
    uint64_t so_far = json_get_u64(answer, name, 0);
    json_replace_u64(answer, name, so_far + more);
}

static void import_destroy(void *state)
{
    struct import *import = state;
    kern_db_destroy(import->db);
    json_destroy(import->damaged_rows);
    free(import);
}

/* The cache stays open from the first step to the last, so that damage found once is not searched
 * again. */
static enum kiln_code open_cache(struct upload *u, struct import **ret_import, struct kiln_err *err)
{
    struct import *import = u->state;
    if (!import)
        import = calloc(1, sizeof(*import));
    if (!import)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot import a cache");
    if (!import->begun)
        import->begun = clock_wall_s();
    u->state = import;
    *ret_import = import;
    return import->db ? KILN_OK
                      : kern_db_open(u->transfer.result.path, KERN_DB_SALVAGE, &import->db, err);
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

/* Counts the lost rows that something in the file still names: there may have been more. */
static void answer_damage(struct json *answer, bool is_last)
{
    if (!json_get(answer, "file_damaged"))
        json_set_bool(answer, "file_damaged", true);
    if (!is_last)
        return;
    json_set_bool(answer, "lost_at_least", true);
    if (json_get_u64(answer, "lost", 0) == 0)
        json_set_bool(answer, "lost_unknown", true);
}

static enum kiln_code stopped_short(const struct upload *u, struct kiln_err *err)
{
    uint64_t imported = json_get_u64(u->base.answer, "imported", 0);
    uint64_t done = imported + json_get_u64(u->base.answer, "damaged", 0);
    uint64_t rows = u->transfer.result.rows;
    return kiln_while(err, "importing '%s': %llu kernels were imported and stay, %llu were not",
                      u->transfer.result.name, (unsigned long long)imported,
                      (unsigned long long)(rows > done ? rows - done : 1));
}

static enum kiln_code import_step(struct upload *u, struct import_step *s, bool *ret_more,
                                  struct kiln_err *err)
{
    uint64_t lost = 0;
    struct import *import = s->import;
    const struct kern_listing listing = { import->after, KERNELS_A_STEP, import_row, s };
    enum kiln_code rc = kern_db_each(import->db, &listing, &lost, err);
    *ret_more = s->rows == KERNELS_A_STEP;
    answer_counts(u->base.answer, s, lost);
    if (kern_db_is_damaged(import->db))
        answer_damage(u->base.answer, !*ret_more);
    if (!*ret_more || rc) {
        kern_db_destroy(import->db);
        import->db = NULL;
        if (import->damaged_rows)
            json_set(u->base.answer, "damaged_rows", KILN_TAKE(import->damaged_rows));
    }
    return s->rc ? stopped_short(u, err) : rc;
}

static enum kiln_code find_gpu(const struct upload *u, char gpu[DATABASE_ID_MAX],
                               struct kiln_err *err)
{
    struct database_id id;
    const char *given = json_get_text(u->base.question, "database_id", "");
    enum kiln_code rc = given[0] ? database_id_parse(bytes_of_text(given), &id, err)
                                 : database_id_of_file(u->transfer.result.name, &id, err);
    if (!rc && !database_id_is_miopens(&id))
        rc = kiln_fail(err, KILN_INVALID, "MIOpen has no caches for '%.40s'", id.device);
    if (!rc && !database_id_write(&id, gpu))
        rc = kiln_fail(err, KILN_INVALID, "the database id is too long");
    return rc ? kiln_while(err, "cannot tell which GPU '%s' is for (give its database id)",
                           u->transfer.result.name)
              : KILN_OK;
}

/* Runs the slow check on WORK_QUEUE_READ, so that it does not block other users' writes. */
static enum kiln_code check_cache(struct upload *u, struct kiln_err *err)
{
    char gpu[DATABASE_ID_MAX];
    struct import *import = NULL;
    enum kiln_code rc = find_gpu(u, gpu, err);
    if (!rc)
        rc = open_cache(u, &import, err);
    return rc ? rc : kern_db_examine(import->db, err);
}

static enum kiln_code take_cache(struct upload *u, bool *ret_more, struct kiln_err *err)
{
    char gpu[DATABASE_ID_MAX], text[VERSIONED_ID_MAX];
    enum kiln_code rc = find_gpu(u, gpu, err);
    if (rc)
        return rc;
    database_id_join(gpu, json_get_text(u->base.question, "version", ""), text);
    if (!json_get(u->base.answer, "database_id")) {
        json_set_text(u->base.answer, "database_id", text);
        json_set_text(u->base.answer, "scope",
                      json_get_bool(u->base.question, "for_all", false) ? "everyone" : "own");
    }
    struct import_step step = { .upload = u, .gpu = gpu, .database_id = text, .err = err };
    rc = open_cache(u, &step.import, err);
    return rc ? rc : import_step(u, &step, ret_more, err);
}

/* The imported names may lead to other objects now. */
static void forget_replaced(struct upload *u)
{
    struct engine *e = u->base.engine;
    struct import *import = u->state;
    if (!import || import->key_count == 0)
        return;
    for (size_t i = 0; i < import->key_count; i++)
        hot_set_remove(e->hot, &import->keys[i]);
    import->key_count = 0;
}

static void finish_import(struct upload *u)
{
    u->base.engine->stats.evictions += json_get_u64(u->base.answer, "evicted", 0);
    if (json_get_u64(u->base.answer, "imported", 0) == 0)
        return;
    /* An object imported for all users may be hot under a key of each user who requested it. A
     * private import changes only what that user's names lead to: a plain id finds the only
     * version, and none if there are several. */
    if (json_get_bool(u->base.question, "for_all", false))
        engine_forget_answers(u->base.engine);
    else
        engine_forget_hot_of(u->base.engine, u->base.uid);
}

static const struct upload_kind import_kind = {
    .members = import_members,
    .tier = TRANSFER_DISK,
    .salvage = true,
    .check = check_cache,
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
                         "only an administrator may import for everyone; import without that, and "
                         "only you use the kernels");
    }
    if (!rc &&
        database_version_check(bytes_of_text(json_get_text(question, "version", "any")), err)) {
        json_destroy(question);
        return err->code;
    }
    return rc ? rc
              : upload_begin(e, &(struct request){ caller, header, body }, &import_kind, question,
                             err);
}
