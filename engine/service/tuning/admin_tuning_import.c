/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/uploads.h"
#include "engine/service/tuning/tuning_query.h"

#include "common/base/fs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static const struct admin_member import_members[] = {
    { "name", MEMBER_TEXT },    { "database_id", MEMBER_TEXT }, { "kind", MEMBER_TEXT },
    { "backend", MEMBER_TEXT }, { "tier", MEMBER_TEXT },        { "strict", MEMBER_FLAG },
    { "url", MEMBER_TEXT },     { "sha256", MEMBER_TEXT },      { 0 },
};

struct import {
    struct tuning_change change;
    struct upload *upload;
    struct tuning_progress *progress;
    struct tuning_file_name name;
    enum tuning_tier tier;
    bool merges;
    bool knows_format;
};

static struct import *import_of(struct tuning_change *change)
{
    return LIST_ENTRY(change, struct import, change);
}

static void import_destroy(void *state)
{
    struct import *import = state;
    tuning_progress_destroy(import->progress);
    free(import);
}

/* Parses the name, but with |id| in place of the device, because kiln may not know the device. */
static bool parse_for(const char *id, const char *name, struct tuning_file_name *ret_name)
{
    char other[300];
    struct kiln_err ignored = KILN_ERR_INIT;
    const char *rest = strchr(name, '.');
    snprintf(other, sizeof(other), "%s%s", id, rest ? rest : "");
    return tuning_file_name_parse(other, ret_name, &ignored) == KILN_OK;
}

/* Takes the kind, database id and backend from the question. If the question lacks one of them,
 * takes this one from the file's name. */
static enum kiln_code read_name(const struct upload *u, struct tuning_file_name *ret_name,
                                struct kiln_err *err)
{
    const struct json *q = u->base.question;
    const char *backend = json_get_text(q, "backend", NULL);
    bool has_kind = false;
    enum tuning_kind kind = TUNING_FIND;
    char id[DATABASE_ID_MAX];
    enum kiln_code rc = tuning_kind_of_question(q, &kind, &has_kind, err);
    if (!rc)
        rc = tuning_database_id_of_question(q, id, err);
    if (rc)
        return rc;
    rc = tuning_file_name_parse(u->transfer.result.name, ret_name, err);
    if (rc && id[0] && parse_for(id, u->transfer.result.name, ret_name))
        rc = KILN_OK;
    if (rc && !(has_kind && id[0]))
        return kiln_while(err,
                          "cannot tell what '%.100s' contains (give its kind and its database id; "
                          "to kilnctl: --kind and --db-id)",
                          u->transfer.result.name);
    if (rc || (has_kind && kind != ret_name->kind)) {
        *ret_name = (struct tuning_file_name){ .kind = kind };
        *err = KILN_ERR_INIT;
    }
    if (id[0])
        memcpy(ret_name->database_id, id, sizeof(id));
    if (ret_name->database_id[0] == '\0')
        return kiln_fail(err, KILN_INVALID,
                         "cannot tell which device '%.100s' is for: give its database id",
                         u->transfer.result.name);
    if (!backend && ret_name->backend[0])
        backend = ret_name->backend;
    return tuning_backend_take(ret_name->kind, ret_name->database_id,
                               bytes_of_text(backend ? backend : ""), ret_name->backend, err);
}

static enum kiln_code read_format(const char *path, enum tuning_format *ret_format,
                                  struct kiln_err *err)
{
    static const char magic[16] = "SQLite format 3";
    char head[sizeof(magic)];
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t size = fd < 0 ? -1 : fs_read_at(fd, head, sizeof(head), 0);
    if (size < 0)
        return kiln_fail(err, KILN_IO, "cannot read the file that arrived");
    bool is_sqlite = size == (ssize_t)sizeof(head) && memcmp(head, magic, sizeof(magic)) == 0;
    *ret_format = is_sqlite ? TUNING_SQLITE : TUNING_TEXT;
    return KILN_OK;
}

static enum kiln_code choose_tier(struct import *import, struct kiln_err *err)
{
    const struct json *question = import->upload->base.question;
    enum tuning_tier otherwise =
        import->merges || import->name.is_user ? TUNING_TIER_USER : TUNING_TIER_SYSTEM;
    enum kiln_code rc = tuning_tier_of_question(question, "tier", otherwise, &import->tier, err);
    return rc ? rc : tuning_publisher_check(import->upload->base.role, import->tier, err);
}

static const char *source_of(const struct upload *u)
{
    const struct transfer_result *o = &u->transfer.result;
    return json_get_text(u->base.question, "name", o->source[0] ? o->source : o->name);
}

static enum kiln_code begin_import(struct tuning_change *change, struct tuning *tuning,
                                   struct kiln_err *err)
{
    struct import *import = import_of(change);
    const struct upload *u = import->upload;
    if (!u->base.caller)
        return err->code = KILN_CANCELLED;
    change->more = !import->knows_format; /* the first step reads the format, on the work queue */
    if (change->more)
        return KILN_OK;
    char library[64];
    const struct tuning_import what = {
        .path = u->transfer.result.path,
        .source_name = source_of(u),
        .name = import->name,
        .tier = import->tier,
        .uid = (uint32_t)u->base.uid,
        .strict = json_get_bool(u->base.question, "strict", false),
        .library = library,
    };
    snprintf(library, sizeof(library), "MIOpen%s%s", import->name.version[0] ? " " : "",
             import->name.version);
    return import->merges ? tuning_job_merge(tuning, &what, &change->job, err)
                          : tuning_job_import(tuning, &what, &change->job, err);
}

static enum kiln_code look_into(struct tuning_change *change, struct tuning *tuning,
                                struct kiln_err *err)
{
    struct import *import = import_of(change);
    (void)tuning;
    if (import->knows_format)
        return KILN_OK;
    import->knows_format = true;
    return read_format(import->upload->transfer.result.path, &import->name.format, err);
}

static bool send_import_progress(struct tuning_change *change)
{
    struct import *import = import_of(change);
    return tuning_send_progress(&import->upload->base, import->progress);
}

static void answer_import(const struct import *import, struct json *answer)
{
    const struct tuning_counts *c = &import->change.counts;
    json_set_text(answer, "kind", tuning_kind_name(import->name.kind));
    json_set_text(answer, "database_id", import->name.database_id);
    json_set_text(answer, "backend", import->name.backend);
    json_set_text(answer, "tier", tuning_tier_name(import->tier));
    json_set_text(answer, "source", source_of(import->upload));
    json_set_u64(answer, "records", c->records);
    json_set_u64(answer, "entries", c->entries);
    json_set_u64(answer, "added", c->added);
    json_set_u64(answer, "replaced", c->replaced);
    json_set_u64(answer, "bad", c->bad);
    json_set_u64(answer, "verbatim", c->verbatim);
    json_set_u64(answer, "bytes", c->bytes);
    tuning_set_count(answer, "records_before", c->before);
    if (c->before > 0 && 2 * c->records < c->before)
        json_set_bool(answer, "shrunk", true);
    if (import->merges) {
        json_set_u64(answer, "conflicts", c->conflicts);
        json_set_u64(answer, "kept",
                     c->records > c->added + c->replaced ? c->records - c->added - c->replaced : 0);
    }
    tuning_set_count(answer, "left_out",
                     tuning_progress_left_out(import->progress) -
                         tuning_progress_left_out_of(import->progress, "verbatim"));
    tuning_set_count(answer, "verbatim_left_out",
                     tuning_progress_left_out_of(import->progress, "verbatim"));
}

static void import_ended(struct tuning_change *change)
{
    struct import *import = import_of(change);
    struct upload *u = import->upload;
    if (!u->base.rc) {
        u->base.engine->stats.tuning_imports++;
        answer_import(import, u->base.answer);
    }
    upload_end(u);
}

static const struct tuning_change_kind change_kind = { .begin = begin_import,
                                                       .work = look_into,
                                                       .send_progress = send_import_progress,
                                                       .ended = import_ended };

static const struct upload_kind merge_kind;

static enum kiln_code import_create(struct upload *u, struct kiln_err *err)
{
    struct import *import = calloc(1, sizeof(*import));
    if (!import)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
    u->state = import;
    import->upload = u;
    import->merges = u->kind == &merge_kind;
    import->change.kind = &change_kind;
    import->change.request = &u->base;
    enum kiln_code rc = tuning_progress_create(&import->progress, err);
    if (!rc)
        import->change.events = tuning_progress_events(import->progress);
    return rc;
}

static void pass_import(struct upload *u)
{
    u->base.rc = import_create(u, &u->base.err);
    struct import *import = u->state;
    if (!u->base.rc)
        u->base.rc = read_name(u, &import->name, &u->base.err);
    if (!u->base.rc)
        u->base.rc = choose_tier(import, &u->base.err);
    /* Charges the minimum of memory that the records take. Later steps charge the rest. */
    if (!u->base.rc)
        u->base.rc = deferred_charge(&u->base, u->transfer.result.size, &u->base.err);
    enum kiln_code rc = u->base.rc;
    /* If tuning_queue_add succeeds, the change may already have ended and freed |u|. */
    if (!rc) {
        struct kiln_err why = KILN_ERR_INIT;
        import->change.charged = u->transfer.result.size;
        rc = tuning_queue_add(&import->change, &why);
        if (rc)
            u->base.err = why;
    }
    if (rc) {
        u->base.rc = rc;
        upload_end(u);
    }
}

static const struct upload_kind import_kind = {
    .members = import_members,
    .tier = TRANSFER_TUNING,
    .of_user = true,
    .unchecked = true,
    .size_limit = TUNING_FILE_MAX,
    .pass = pass_import,
    .state_destroy = import_destroy,
};

static const struct upload_kind merge_kind = {
    .members = import_members,
    .tier = TRANSFER_TUNING,
    .of_user = true,
    .unchecked = true,
    .size_limit = TUNING_FILE_MAX,
    .pass = pass_import,
    .state_destroy = import_destroy,
};

static enum kiln_code check_question(struct engine *e, const struct caller *caller,
                                     const struct json *q, bool merges, struct kiln_err *err)
{
    enum tuning_tier tier;
    enum tuning_kind kind;
    bool has_kind;
    char id[DATABASE_ID_MAX];
    enum kiln_code rc = tuning_ready(e, err);
    if (!rc)
        rc = tuning_tier_of_question(q, "tier", TUNING_TIER_USER, &tier, err);
    if (!rc)
        rc = tuning_kind_of_question(q, &kind, &has_kind, err);
    if (!rc)
        rc = tuning_database_id_of_question(q, id, err);
    if (!rc)
        rc = tuning_publisher_check(caller->role, tier, err);
    if (!rc && merges && tier == TUNING_TIER_SYSTEM)
        rc = kiln_fail(err, KILN_INVALID,
                       "a system database is replaced, never merged: import the file, or merge it "
                       "into the host's or the user's records");
    if (!rc && json_get(q, "url") && caller->role != ROLE_ADMIN)
        rc = kiln_fail(err, KILN_DENIED,
                       "only an administrator may have kilnd fetch a URL: fetch it, then give the "
                       "file");
    if (!rc && caller->file_count > 1)
        rc = kiln_fail(err, KILN_INVALID, "%u files arrived: send one at a time",
                       caller->file_count);
    return rc;
}

static enum kiln_code begin_upload(struct engine *e, const struct request *request,
                                   const struct upload_kind *kind, struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = admin_read(request->header, request->body, import_members, &question, err);
    if (!rc)
        rc = check_question(e, request->caller, question, kind == &merge_kind, err);
    return rc ? rc : upload_begin(e, request, kind, KILN_TAKE(question), err);
}

enum kiln_code handle_tuning_import(struct engine *e, struct caller *caller,
                                    const struct frame_header *header, struct bytes body,
                                    struct kiln_err *err)
{
    return begin_upload(e, &(struct request){ caller, header, body }, &import_kind, err);
}

enum kiln_code handle_tuning_merge(struct engine *e, struct caller *caller,
                                   const struct frame_header *header, struct bytes body,
                                   struct kiln_err *err)
{
    return begin_upload(e, &(struct request){ caller, header, body }, &merge_kind, err);
}
