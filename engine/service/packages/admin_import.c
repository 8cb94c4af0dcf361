/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "engine/service/packages/cache_rows.h"
#include "engine/service/packages/uploads.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DAMAGED_NAMED 200
#define PROGRESS_NS 200000000u

static const struct admin_member import_members[] = {
    { "name", MEMBER_TEXT },    { "database_id", MEMBER_TEXT }, { "version", MEMBER_TEXT },
    { "for_all", MEMBER_FLAG }, { "source", MEMBER_TEXT },      { 0 },
};

struct import {
    struct kernel_store *store;
    struct cache_rows *rows;
    struct cache_object object; /* owned: the object that is being stored; zeroed: none */
    struct kernel_putting putting;
    bool replaces;
    uint64_t begun;     /* seconds since the epoch; the time of all kernels of this import */
    struct buffer keys; /* of struct digest: keys of the kernels that this step has stored */
    uint64_t charged;
    uint64_t reported_ns;
    struct json *damaged_rows;
    uint64_t damaged;
    char first[256];
};

struct import_step {
    struct upload *upload;
    struct import *import;
    const char *gpu, *database_id;
    uint64_t imported, evicted, replaced;
    uint64_t bytes;
};

static void note_damage(void *context, uint64_t id, struct bytes row_name,
                        const struct kiln_err *why)
{
    struct import *import = context;
    char name[PACKAGE_ROW_TEXT];
    if (import->damaged++ == 0)
        snprintf(import->first, sizeof(import->first), "%.250s", why->text);
    if (!import->damaged_rows)
        import->damaged_rows = json_array();
    if (json_count(import->damaged_rows) >= DAMAGED_NAMED)
        return;
    size_t size = row_name.size < sizeof(name) ? row_name.size : sizeof(name) - 1;
    snprintf(name, sizeof(name), "%.*s", (int)size, (const char *)row_name.data);
    struct json *j = json_object();
    json_set_u64(j, "id", id);
    json_set_text(j, "name", name);
    json_set_text(j, "why", why->text);
    json_append(import->damaged_rows, j);
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

/* Returns whether the store has another object under |key|, such as one from another version of
 * MIOpen. */
static bool would_replace(struct kernel_store *store, const struct digest *key,
                          const struct digest *object)
{
    struct other other = { .object = object };
    struct kiln_err ignored = KILN_ERR_INIT;
    return kernel_store_show(store, key, compare_object, &other, &ignored) == KILN_OK &&
           other.differs;
}

static struct kernel_record record_of(const struct import_step *s)
{
    const struct upload *u = s->upload;
    const struct cache_object *o = &s->import->object;
    bool for_all = json_get_bool(u->base.question, "for_all", false);
    return (struct kernel_record){
        .key = kernel_name_key(for_all ? KERNEL_SCOPE_EVERYONE : (uint64_t)u->base.uid,
                               bytes_of_text(s->database_id), o->name, o->args),
        .object = o->object->digest,
        .target = s->gpu,
        .toolchain = "miopen",
        .program = (const char *)o->name.data,
        .options = (const char *)o->args.data,
        .database_id = s->database_id,
        .package = u->transfer.result.name,
        .version = KILN_VERSION,
        .raw_size = o->object->size,
        .created = s->import->begun,
        .last_used = s->import->begun,
        .uid = (uint32_t)u->base.uid,
        .is_private = !for_all,
    };
}

static void begin_object(struct import_step *s)
{
    struct import *import = s->import;
    const struct kernel_record record = record_of(s);
    import->putting = (struct kernel_putting){ .object = import->object.object, .is_import = true };
    import->replaces = would_replace(import->store, &record.key, &record.object);
}

static enum kiln_code store_object(struct import_step *s, struct kiln_err *err)
{
    struct import *import = s->import;
    const struct kernel_record record = record_of(s);
    const uint64_t evicted = import->putting.evicted;
    import->putting.record = &record;
    enum kiln_code rc = kernel_store_put_some(import->store, &import->putting, err);
    import->putting.record = NULL;
    s->bytes += record.raw_size < KERNEL_PIECE_MAX ? record.raw_size : KERNEL_PIECE_MAX;
    if (import->putting.is_over)
        buffer_put(&import->keys, &record.key, sizeof(record.key));
    const bool is_stored = !rc && import->putting.is_over;
    s->evicted += import->putting.evicted - evicted;
    s->imported += is_stored;
    s->replaced += is_stored && import->replaces;
    return rc;
}

/* Stores the object, or the next part of it. If its row is invalid, reports the row and returns
 * KILN_OK, so that the import continues. */
static enum kiln_code take_object(struct import_step *s, struct kiln_err *err)
{
    struct cache_object *o = &s->import->object;
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = store_object(s, &why);
    if (rc == KILN_INVALID) {
        kiln_while(&why, "row %llu", (unsigned long long)o->id);
        note_damage(s->import, o->id, o->name, &why);
    } else if (rc) {
        *err = why;
    }
    if (s->import->putting.is_over)
        cache_object_done(o);
    return rc == KILN_INVALID ? KILN_OK : rc;
}

static bool has_object(struct import_step *s)
{
    struct import *import = s->import;
    if (import->object.object)
        return true;
    if (!cache_rows_pop(import->rows, &import->object))
        return false;
    begin_object(s);
    return true;
}

static void add_count(struct json *answer, const char *name, uint64_t more)
{
    uint64_t so_far = json_get_u64(answer, name, 0);
    json_replace_u64(answer, name, so_far + more);
}

static void import_destroy(void *state)
{
    struct import *import = state;
    if (import->object.object)
        kernel_store_put_abandon(import->store, &import->putting);
    cache_object_done(&import->object);
    cache_rows_destroy(import->rows);
    json_destroy(import->damaged_rows);
    buffer_done(&import->keys);
    free(import);
}

static enum kiln_code open_cache(struct upload *u, struct kiln_err *err)
{
    struct import *import = calloc(1, sizeof(*import));
    if (!import)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot import a cache");
    import->store = u->base.engine->store;
    import->begun = clock_wall_s();
    import->reported_ns = clock_monotonic_ns();
    buffer_init(&import->keys, SIZE_MAX);
    u->state = import;
    return cache_rows_open(u->transfer.result.path, &import->rows, err);
}

static void answer_damage(struct json *answer, struct import *import)
{
    json_replace_u64(answer, "damaged", import->damaged);
    if (import->first[0])
        json_set_text(answer, "first", import->first);
    if (import->damaged_rows)
        json_set(answer, "damaged_rows", KILN_TAKE(import->damaged_rows));
}

static enum kiln_code stopped_short(const struct upload *u, struct kiln_err *err)
{
    uint64_t imported = json_get_u64(u->base.answer, "imported", 0);
    const struct import *import = u->state;
    uint64_t done = imported + import->damaged;
    uint64_t rows = u->transfer.result.rows;
    return kiln_while(err, "importing '%s': %llu kernels were imported and stay, %llu were not",
                      u->transfer.result.name, (unsigned long long)imported,
                      (unsigned long long)(rows > done ? rows - done : 1));
}

static enum kiln_code import_step(struct import_step *s, struct kiln_err *err)
{
    struct json *answer = s->upload->base.answer;
    uint64_t end_ns = clock_monotonic_ns() + CACHE_STEP_NS;
    enum kiln_code rc = KILN_OK;
    while (!rc && s->bytes < CACHE_STEP_BYTES && clock_monotonic_ns() < end_ns && has_object(s))
        rc = take_object(s, err);
    add_count(answer, "imported", s->imported);
    add_count(answer, "evicted", s->evicted);
    add_count(answer, "replaced", s->replaced);
    return rc ? stopped_short(s->upload, err) : KILN_OK;
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

static enum kiln_code unpack_cache(struct upload *u, struct kiln_err *err)
{
    char gpu[DATABASE_ID_MAX];
    enum kiln_code rc = find_gpu(u, gpu, err);
    if (!rc && !u->state)
        rc = open_cache(u, err);
    if (rc)
        return rc;
    struct import *import = u->state;
    const struct cache_listener listener = { note_damage, import };
    if (import->object.object)
        return KILN_OK;
    rc = cache_rows_unpack(import->rows, &listener, err);
    return rc ? stopped_short(u, err) : KILN_OK;
}

static enum kiln_code take_cache(struct upload *u, bool *ret_more, struct kiln_err *err)
{
    char gpu[DATABASE_ID_MAX], text[VERSIONED_ID_MAX];
    struct import *import = u->state;
    enum kiln_code rc = find_gpu(u, gpu, err);
    if (rc)
        return rc;
    database_id_join(gpu, json_get_text(u->base.question, "version", ""), text);
    if (!json_get(u->base.answer, "database_id")) {
        json_set_text(u->base.answer, "database_id", text);
        json_set_text(u->base.answer, "scope",
                      json_get_bool(u->base.question, "for_all", false) ? "everyone" : "own");
    }
    struct import_step step = { .upload = u, .import = import, .gpu = gpu, .database_id = text };
    rc = import_step(&step, err);
    *ret_more = !rc && (import->object.object || !cache_rows_is_over(import->rows));
    if (!*ret_more)
        answer_damage(u->base.answer, import);
    return rc;
}

/* Charges the object that is being unpacked, because it stays in memory for several steps. */
static enum kiln_code charge_object(struct upload *u, struct import *import, struct kiln_err *err)
{
    uint64_t bytes = cache_rows_bytes(import->rows);
    if (bytes <= import->charged)
        return KILN_OK;
    enum kiln_code rc = deferred_charge(&u->base, bytes - import->charged, err);
    import->charged += rc ? 0 : bytes - import->charged;
    return rc;
}

static void report_import(struct upload *u, struct import *import)
{
    uint64_t now = clock_monotonic_ns();
    if (now - import->reported_ns < PROGRESS_NS)
        return;
    import->reported_ns = now;
    const struct transfer_progress progress = {
        .stage = "importing",
        .done = json_get_u64(u->base.answer, "imported", 0) + import->damaged,
        .total = u->transfer.result.rows,
        .attempt = 1,
        .note = "",
    };
    upload_report(u, &progress);
}

/* Removes the imported names from the hot set, because they may now belong to other objects. */
static enum kiln_code after_step(struct upload *u, struct kiln_err *err)
{
    struct import *import = u->state;
    const struct digest *keys = (const void *)import->keys.data;
    for (size_t i = 0; i < import->keys.size / sizeof(*keys); i++)
        hot_set_remove(u->base.engine->hot, &keys[i]);
    import->keys.size = 0;
    report_import(u, import);
    return charge_object(u, import, err) ? stopped_short(u, err) : KILN_OK;
}

static void finish_import(struct upload *u)
{
    u->base.engine->stats.evictions += json_get_u64(u->base.answer, "evicted", 0);
    if (json_get_u64(u->base.answer, "imported", 0) == 0)
        return;
    /* An import for all users may replace objects that are hot under several keys, so the whole hot
     * set is emptied. After a private import, only the hot objects of this user are removed,
     * including public ones: if the user now has a kernel for two versions of MIOpen, requests
     * that name no version must find neither object. */
    if (json_get_bool(u->base.question, "for_all", false))
        engine_forget_answers(u->base.engine);
    else
        engine_forget_hot_of(u->base.engine, u->base.uid);
}

static const struct upload_kind import_kind = {
    .members = import_members,
    .tier = TRANSFER_DISK,
    .of_user = true,
    .prepare = unpack_cache,
    .in_turn = true,
    .take = take_cache,
    .taken = after_step,
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
                         "only an administrator may import for everyone: without --for-all, you "
                         "import the kernels for yourself");
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
