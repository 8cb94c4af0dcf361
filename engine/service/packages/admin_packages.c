/* SPDX-License-Identifier: MIT */
#include "common/base/hex.h"
#include "engine/service/packages/packages.h"
#include "engine/service/packages/uploads.h"
#include "engine/topology/kfd.h"

#include <stdio.h>
#include <string.h>

#define ROWS_PAGE 1000
#define ROWS_BYTES (1u << 20)

static const struct admin_member name_members[] = { { "name", MEMBER_TEXT }, { 0 } };

static void set_signer(struct json *j, const char *signer, const struct manifest_edition *edition)
{
    json_set_text(j, "signer", signer);
    if (edition->version)
        json_set_u64(j, "version", edition->version);
    if (edition->time)
        json_set_u64(j, "signed", edition->time);
}

static struct json *info_to_json(const struct package_info *info)
{
    char text[DIGEST_HEX_SIZE];
    static const struct digest none;
    struct json *j = json_object();
    json_set_text(j, "name", info->name);
    json_set_text(j, "path", info->path);
    json_set_text(j, "format", package_format_name(info->format));
    json_set_text(j, "source", info->source);
    json_set_text(j, "database_id", database_id_write(&info->database_id, text) ? text : "");
    json_set_u64(j, "kernels", info->rows);
    json_set_u64(j, "size", info->size);
    digest_to_hex(&info->sha256, text);
    json_set_text(j, "sha256", digest_equal(&info->sha256, &none) ? "" : text);
    json_set_u64(j, "installed", info->installed);
    return j;
}

static void set_signature(struct json *j, const struct package_signature *s)
{
    set_signer(j, s->signer, &s->edition);
    if (s->signer[0])
        json_set_bool(j, "signature_counts", s->counts);
    if (s->refused[0])
        json_set_text(j, "signature_refused", s->refused);
}

static const struct admin_member install_members[] = {
    { "url", MEMBER_TEXT },
    { "name", MEMBER_TEXT },
    { "sha256", MEMBER_TEXT },
    { "source", MEMBER_TEXT },
    { "replace_signed", MEMBER_FLAG },
    { "allow_downgrade", MEMBER_FLAG },
    { 0 },
};

/* Returns whether the SHA-256 that the client sent may be that of the compressed file, not of the
 * unpacked file: the file's name ends with ".bz2". */
static bool may_be_packed(const struct transfer_job *job)
{
    const char *text = job->url ? job->url : job->name ? job->name : "";
    size_t size = job->url ? strcspn(text, "?#") : strlen(text);
    return size > 4 && memcmp(text + size - 4, ".bz2", 4) == 0;
}

static enum kiln_code describe_upload(const struct upload *u, struct package_upload *ret_upload,
                                      struct kiln_err *err)
{
    const struct transfer_result *o = &u->transfer.result;
    const char *url = json_get_text(u->base.question, "url", NULL);
    *ret_upload = (struct package_upload){
        .path = o->path,
        .name = o->name,
        .manifest = bytes_of(o->manifest, o->manifest_size),
        .fetched = o->fetched,
        .wanted = u->transfer.job.sha256,
        .may_be_packed = may_be_packed(&u->transfer.job),
        .source = url ? o->source : json_get_text(u->base.question, "source", ""),
        .replace_signed = json_get_bool(u->base.question, "replace_signed", false),
        .allow_downgrade = json_get_bool(u->base.question, "allow_downgrade", false),
    };
    if (!digest_from_hex(o->sha256, &ret_upload->sha256))
        return kiln_fail(err, KILN_CORRUPT, "the transfer did not return a valid SHA-256");
    return KILN_OK;
}

/* Decodes %XX, as kiln-transfer does. */
static void name_of_url(const char *url, char ret_name[PACKAGE_NAME_MAX])
{
    size_t size = 0;
    for (const char *end = url + strcspn(url, "?#"); url < end; url++) {
        bool is_coded = *url == '%' && hex_digit(url[1]) >= 0 && hex_digit(url[2]) >= 0;
        char c = is_coded ? (char)(hex_digit(url[1]) << 4 | hex_digit(url[2])) : *url;
        url += is_coded ? 2 : 0;
        if (c == '/')
            size = 0;
        else if (size < PACKAGE_NAME_MAX - 1)
            ret_name[size++] = c;
    }
    ret_name[size] = '\0';
}

/* Compares the name that kiln-transfer returned with the requested one, because kiln-transfer is
 * not trusted. The name decides which package is replaced, and which requests the new package
 * answers. */
static enum kiln_code check_name(const struct upload *u, struct kiln_err *err)
{
    const struct transfer_job *job = &u->transfer.job;
    const char *name = u->transfer.result.name;
    char requested[PACKAGE_NAME_MAX];
    if (job->name)
        snprintf(requested, sizeof(requested), "%s", job->name);
    else
        name_of_url(job->url ? job->url : "", requested);
    size_t size = strlen(name);
    if (strncmp(requested, name, size) == 0 &&
        (requested[size] == '\0' || strcmp(requested + size, ".bz2") == 0))
        return KILN_OK;
    return kiln_fail(err, KILN_CORRUPT,
                     "the transfer returned '%.100s', but '%.100s' was requested", name, requested);
}

static enum kiln_code check_package(struct upload *u, struct kiln_err *err)
{
    struct package_upload package;
    struct package_checked *checked = calloc(1, sizeof(*checked));
    u->state = checked;
    if (!checked)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot install a package");
    enum kiln_code rc = check_name(u, err);
    if (!rc)
        rc = describe_upload(u, &package, err);
    return rc ? rc : package_set_check(u->base.engine->packages, &package, checked, err);
}

/* Forgets the damage recorded for a package. Ignores failures, because they must not prevent
 * installing or removing the package. */
static void forget_damage(struct engine *e, const char *name)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    if (kernel_store_quarantine_forget(e->store, name, &ignored))
        return;
}

static enum kiln_code take_package(struct upload *u, bool *ret_more, struct kiln_err *err)
{
    (void)ret_more;
    struct package_upload package;
    struct package_info info;
    const struct package_checked *checked = u->state;
    enum kiln_code rc = describe_upload(u, &package, err);
    if (!rc)
        rc = package_set_adopt(u->base.engine->packages, &package, checked, &info, err);
    if (rc)
        return rc;
    upload_taken(u);
    forget_damage(u->base.engine, info.name);
    json_destroy(u->base.answer);
    u->base.answer = info_to_json(&info);
    set_signer(u->base.answer, info.signer, &info.edition);
    if (checked->only_packed_signed)
        json_set_bool(u->base.answer, "only_packed_signed", true);
    return KILN_OK;
}

static void finish_package(struct upload *u)
{
    if (u->base.rc)
        return;
    engine_forget_answers(u->base.engine); /* the package may have replaced one of the same name */
    event_note(u->base.engine, "package_installed", json_get_text(u->base.answer, "name", ""));
}

static const struct upload_kind install_kind = {
    .members = install_members,
    .tier = TRANSFER_PACKAGE,
    .prepare = check_package,
    .take = take_package,
    .finish = finish_package,
    .state_destroy = free,
};

enum kiln_code handle_package_install(struct engine *e, struct caller *caller,
                                      const struct frame_header *header, struct bytes body,
                                      struct kiln_err *err)
{
    struct json *question = NULL;
    enum kiln_code rc = admin_read(header, body, install_members, &question, err);
    return rc ? rc
              : upload_begin(e, &(struct request){ caller, header, body }, &install_kind, question,
                             err);
}

static void list_one(void *context, const struct package_info *info,
                     const struct package_signature *signature)
{
    struct json *j = info_to_json(info);
    set_signature(j, signature);
    json_append(context, j);
}

static void list_refused(void *context, const char *directory, const char *name, const char *why)
{
    struct json *j = json_object();
    json_set_text(j, "name", name);
    json_set_text(j, "directory", directory);
    json_set_text(j, "why", why);
    json_append(context, j);
}

static enum kiln_code work_list(struct admin *a)
{
    struct json *list = json_array(), *refused = json_array();
    package_set_list(a->base.engine->packages, list_one, list);
    package_set_list_refused(a->base.engine->packages, list_refused, refused);
    json_set(a->base.answer, "packages", list);
    json_set(a->base.answer, "refused", refused);
    return KILN_OK;
}

static const struct admin_kind list_kind = {
    .work_queue = WORK_QUEUE_READ,
    .members = admin_no_members,
    .work = work_list,
};

ADMIN_HANDLER(package_list, list_kind)

static const struct admin_member show_members[] = {
    { "name", MEMBER_TEXT },
    { "after", MEMBER_COUNT },
    { "count", MEMBER_COUNT },
    { "records", MEMBER_FLAG },
    { 0 },
};

struct page {
    struct json *kernels;
    size_t bytes;
    uint64_t last;
    bool full;
};

static void set_digest(struct json *j, const char *name, const struct digest *d)
{
    static const struct digest none;
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(d, hex);
    if (!digest_equal(d, &none))
        json_set_text(j, name, hex);
}

static bool show_row(void *context, const struct package_row *row)
{
    struct page *page = context;
    struct json *j = json_object();
    json_set_u64(j, "id", row->id);
    json_set_bytes(j, "name", row->name);
    json_set_bytes(j, "args", row->args);
    json_set_u64(j, "size", row->raw_size);
    json_set_u64(j, "stored", row->stored_size);
    if (row->md5.size)
        json_set_bytes(j, "md5", row->md5);
    set_digest(j, "key", &row->key);
    set_digest(j, "object", &row->object);
    set_digest(j, "toolchain_id", &row->toolchain_id);
    if (row->toolchain && row->toolchain[0]) {
        json_set_text(j, "target", row->target);
        json_set_text(j, "toolchain", row->toolchain);
        json_set_text(j, "program", row->program);
    }
    json_append(page->kernels, j);
    page->last = row->id;
    page->bytes += row->name.size + row->args.size;
    page->full = page->bytes >= ROWS_BYTES;
    return !page->full;
}

#define RECORD_FILES_MAX 8

struct record_names {
    char names[RECORD_FILES_MAX][256];
    size_t count;
};

/* Notes the name of a tuning file. Returns false at the first row of a kernel, because the rows of
 * tuning files come first. */
static bool note_records(void *context, const struct package_row *row)
{
    static const size_t prefix = sizeof(PACKAGE_RECORDS) - 1;
    struct record_names *found = context;
    if (row->name.size <= prefix || row->name.size >= sizeof(found->names[0]) ||
        memcmp(row->name.data, PACKAGE_RECORDS, prefix) != 0)
        return false;
    memcpy(found->names[found->count], row->name.data, row->name.size);
    found->names[found->count++][row->name.size] = '\0';
    return found->count < RECORD_FILES_MAX;
}

/* Adds one of the package's tuning files to the answer, as a descriptor. */
static enum kiln_code send_records(struct admin *a, struct package *package, const char *name,
                                   struct kiln_err *err)
{
    bool is_damaged = false;
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, LIMIT_CODE_OBJECT);
    const struct kern_name row = { .name = bytes_of_text(name) };
    enum kiln_code rc = package_find_named(package, &row, &raw, &is_damaged, err);
    if (rc == KILN_NOT_FOUND)
        return kiln_fail(err, KILN_CORRUPT, "the package's file '%.200s' is damaged", name);
    if (!rc)
        rc = object_from_bytes(buffer_view(&raw), 0, &a->files[a->file_count], err);
    a->file_count += !rc;
    return rc;
}

static enum kiln_code show_records(struct admin *a, struct package *package, struct kiln_err *err)
{
    struct record_names found = { .count = 0 };
    const struct package_listing listing = { .count = RECORD_FILES_MAX,
                                             .each = note_records,
                                             .context = &found };
    struct json *names = json_set_array(a->base.answer, "records");
    enum kiln_code rc = package_each(package, &listing, err);
    for (size_t i = 0; i < found.count && !rc; i++) {
        rc = send_records(a, package, found.names[i], err);
        json_append(names, json_text(found.names[i] + sizeof(PACKAGE_RECORDS) - 1));
    }
    return rc;
}

static enum kiln_code show_package(void *context, struct package *package, struct kiln_err *err)
{
    struct admin *a = context;
    struct package_info info = *package_info(package);
    enum kiln_code rc = package_rows(package, &info.rows, err);
    if (rc)
        return rc;
    struct package_signature signature;
    package_set_signature(a->base.engine->packages, package, &signature);
    json_destroy(a->base.answer);
    a->base.answer = info_to_json(&info);
    set_signature(a->base.answer, &signature);
    if (json_get_bool(a->base.question, "records", false)) {
        rc = show_records(a, package, err);
        if (rc)
            return rc;
    }
    uint64_t count = json_get_u64(a->base.question, "count", ROWS_PAGE);
    if (count > ROWS_PAGE)
        count = ROWS_PAGE;
    if (count == 0)
        return KILN_OK;
    struct page page = { .kernels = json_array() };
    const struct package_listing listing = {
        .after = json_get_u64(a->base.question, "after", 0),
        .count = count,
        .each = show_row,
        .context = &page,
    };
    rc = package_each(package, &listing, err);
    if (page.full || json_count(page.kernels) == count)
        json_set_u64(a->base.answer, "next", page.last);
    json_set(a->base.answer, "rows", page.kernels);
    return rc;
}

static enum kiln_code work_show(struct admin *a)
{
    return package_set_use(a->base.engine->packages, json_get_text(a->base.question, "name", ""),
                           show_package, a, &a->base.err);
}

static const struct admin_kind show_kind = {
    .work_queue = WORK_QUEUE_READ,
    .members = show_members,
    .work = work_show,
};

ADMIN_HANDLER(package_show, show_kind)

static enum kiln_code work_remove(struct admin *a)
{
    struct package_info info;
    enum kiln_code rc = package_set_remove(
        a->base.engine->packages, json_get_text(a->base.question, "name", ""), &info, &a->base.err);
    if (rc)
        return rc;
    forget_damage(a->base.engine, info.name);
    json_destroy(a->base.answer);
    a->base.answer = info_to_json(&info);
    set_signer(a->base.answer, info.signer, &info.edition);
    return KILN_OK;
}

static void finish_remove(struct admin *a)
{
    /* The hot set does not record which package an object is from, so all answers are forgotten. */
    engine_forget_answers(a->base.engine);
    event_note(a->base.engine, "package_removed", json_get_text(a->base.answer, "name", ""));
}

static const struct admin_kind remove_kind = {
    .work_queue = WORK_QUEUE_WRITE,
    .members = name_members,
    .work = work_remove,
    .finish = finish_remove,
};

ADMIN_HANDLER(package_remove, remove_kind)

static struct json *gpu_to_json(const struct gpu *gpu)
{
    struct json *j = json_object();
    json_set_u64(j, "node", gpu->node);
    json_set_text(j, "arch", gpu->arch);
    json_set_u64(j, "compute_units", gpu->compute_units);
    json_set_text(j, "uuid", gpu->uuid);
    json_set_text(j, "database_id", gpu->database_id);
    return j;
}

static void cover_one(void *context, enum package_fit fit, const struct package_info *info)
{
    struct json *j = json_object();
    json_set_text(j, "name", info->name);
    json_set_text(j, "fit", package_fit_name(fit));
    json_append(context, j);
}

static struct json *cover_gpu(struct package_set *set, const struct gpu *gpu)
{
    char line[PACKAGE_MISSING_TEXT];
    struct json *j = gpu_to_json(gpu), *packages = json_array();
    enum package_fit best = package_set_coverage(set, gpu->database_id, cover_one, packages);
    json_set_text(j, "coverage", package_fit_name(best));
    json_set(j, "packages", packages);
    json_set_text(j, "message", package_set_missing(set, gpu->database_id, line) ? line : "");
    return j;
}

static enum kiln_code work_coverage(struct admin *a)
{
    struct engine *e = a->base.engine;
    KILN_AUTO(mem) struct gpu *gpus = calloc(GPUS_MAX, sizeof(*gpus));
    if (!gpus)
        return kiln_fail(&a->base.err, KILN_NO_MEMORY, "cannot list the GPUs");
    size_t count = 0;
    char skipped[256] = "";
    enum kiln_code rc = kfd_gpus(packages_kfd_directory(e), gpus, &count, skipped, &a->base.err);
    if (rc)
        return rc;
    struct json *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_append(list, cover_gpu(e->packages, &gpus[i]));
    json_set(a->base.answer, "gpus", list);
    json_set_text(a->base.answer, "skipped", skipped);
    return KILN_OK;
}

static const struct admin_kind coverage_kind = {
    .work_queue = WORK_QUEUE_READ,
    .members = admin_no_members,
    .work = work_coverage,
};

ADMIN_HANDLER(package_coverage, coverage_kind)
