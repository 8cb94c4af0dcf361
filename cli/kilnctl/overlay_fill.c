/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/overlay.h"

#include "cli/kilnctl/db_exported.h"
#include "cli/kilnctl/db_file.h"
#include "cli/kilnctl/db_words.h"
#include "cli/output.h"

#include <stdarg.h>
#include <string.h>

void overlay_remark(struct overlay *overlay, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    output_clean(line, false);
    fprintf(stderr, "kilnctl: %s\n", line);
    json_append(overlay->remarks, json_text(line));
}

/* Uses standard error, because standard output has the environment variables. */
static void report_written(const struct overlay *o, const char *name, uint64_t count,
                           const char *noun)
{
    char counted[DB_NAME_MAX], line[PATH_MAX + 256];
    if (o->invocation->common->json)
        return;
    snprintf(line, sizeof(line), "%s/%s: %s", o->directory, name, db_count(count, noun, counted));
    output_clean(line, false);
    fprintf(stderr, "%s\n", line);
}

/* Returns whether the manifest needs a digest of the file. 'miopen harvest' looks for changes in
 * user/ and cache/ only; for text files there, the manifest has a digest of each line instead. */
static bool wants_digest(const char *name)
{
    size_t size = strlen(name);
    bool is_text = size > 4 && strcmp(name + size - 4, ".txt") == 0;
    return !is_text && (strncmp(name, "user/", 5) == 0 || strncmp(name, "cache/", 6) == 0);
}

int overlay_wrote(struct overlay *overlay, const char *name, uint64_t count, const char *noun,
                  struct kiln_error *err)
{
    struct overlay_file *file = NULL;
    char path[PATH_MAX];
    struct json *json = json_object();
    json_set_text(json, "file", name);
    json_set_u64(json, strcmp(noun, "kernel") == 0 ? "kernels" : "records", count);
    json_append(overlay->files, json);
    report_written(overlay, name, count, noun);
    int rc = overlay_path(overlay->directory, name, path, sizeof(path), err);
    if (!rc)
        rc = overlay_manifest_get(&overlay->manifest, name, &file, err);
    if (!rc)
        rc = overlay_fingerprint_stat(path, &file->fingerprint, err);
    if (!rc && wants_digest(name))
        rc = overlay_fingerprint_read(path, UINT64_MAX, &file->fingerprint, err);
    if (rc)
        return rc;
    /* The fingerprint was taken just after the file was written. That is safe: the job starts
     * later, so its changes give the file another time. */
    file->fingerprint.is_fresh = false;
    return KILN_E_OK;
}

/* Puts the digests of the file's present lines into the manifest, so that 'miopen harvest' only
 * finds new lines. */
static int note_lines(struct overlay *o, const char *name, struct kiln_error *err)
{
    char path[PATH_MAX];
    BUFFER_AUTO struct buffer text = { .size = 0 };
    struct overlay_file *file = overlay_manifest_find(&o->manifest, name);
    int rc = overlay_path(o->directory, name, path, sizeof(path), err);
    if (!rc)
        rc = overlay_text_read(path, OVERLAY_TEXT_MAX, &text, err);
    return rc ? rc : overlay_lines_add_all(&file->lines, buffer_view(&text), err);
}

static bool is_for_miopen(const struct json *entry)
{
    const char *backend = json_get_text(entry, "backend", "");
    char base[16];
    snprintf(base, sizeof(base), "%.*s", (int)strcspn(backend, "."), backend);
    return !*base || db_word_is(base, DB_MIOPEN_BACKENDS);
}

static int write_database(struct overlay *o, const struct db_exported *exported, size_t index,
                          bool to_user, struct kiln_error *err)
{
    const struct json *entry = db_exported_entry(exported, index);
    const char *given = json_get_text(entry, "name", "");
    char name[160], as_system[128], path[PATH_MAX], directory[PATH_MAX];
    struct db_file_name parsed;
    if (!db_file_name(given, &parsed) || !parsed.is_miopens ||
        !db_file_system_name(given, as_system))
        return cli_fail(err, KILN_E_CORRUPT, "kilnd's answer has no valid tuning file name");
    snprintf(name, sizeof(name), "%s/%.127s", to_user ? "user" : "system",
             to_user ? given : as_system);
    /* An earlier call, for the other format, has already written a file of this name. */
    if (overlay_manifest_find(&o->manifest, name))
        return KILN_E_OK;
    int rc =
        overlay_path(o->directory, to_user ? "user" : "system", directory, sizeof(directory), err);
    if (!rc)
        rc = db_exported_path(directory, to_user ? given : as_system, path, err);
    const struct new_file file = { .path = path,
                                   .replace = o->replace,
                                   .mode = overlay_file_mode(o->manifest.is_shared) };
    if (!rc)
        rc = db_exported_write(exported, index, &file, err);
    if (!rc)
        rc = overlay_wrote(o, name, json_get_u64(entry, "records", 0), "record", err);
    if (!rc && to_user && !parsed.is_sqlite)
        rc = note_lines(o, name, err);
    return rc;
}

struct selection {
    const char *id, *kind, *tier;
    const char *format;
    /* If true, only the records of |tier| are written, into user/. If false, the merged records of
     * |tier| and of the tiers below it are written, into system/. */
    bool to_user;
};

static int fill_tier(struct overlay *o, const struct selection *s, bool *ret_any,
                     struct kiln_error *err)
{
    DB_EXPORTED_AUTO struct db_exported exported = { .count = 0 };
    KILN_AUTO(json) struct json *ask = json_object();
    bool is_find = strcmp(s->kind, "find") == 0;
    json_set_text(ask, "kind", s->kind);
    json_set_text(ask, "database_id", s->id);
    json_set_text(ask, "tier", s->tier);
    if (!s->to_user)
        json_set_bool(ask, "merged", true);
    admin_set_text(ask, is_find ? "dialect" : "format", is_find ? o->dialect : s->format);
    if (s->to_user)
        admin_set_text(ask, "version", o->version);
    int rc = db_exported_get(o->invocation, ask, &exported, err);
    if (rc == KILN_E_NOT_FOUND)
        return KILN_E_OK;
    for (size_t i = 0; i < exported.count && !rc; i++) {
        if (!is_for_miopen(db_exported_entry(&exported, i)))
            continue;
        rc = write_database(o, &exported, i, s->to_user, err);
        if (ret_any)
            *ret_any |= !rc;
    }
    return rc;
}

static void remark_missing(struct overlay *o, const char *id)
{
    if (!o->has_find && !o->has_perf)
        overlay_remark(o, "no tuning database is imported for %s: MIOpen uses its own", id);
    else if ((!o->has_find || !o->has_perf) && !o->is_installed && !o->needs_installed)
        overlay_remark(o,
                       "kiln has no %s for %s, and in the overlay MIOpen does not see its own: "
                       "'kilnctl db import' imports it",
                       o->has_find ? "PerfDb" : "FindDb", id);
}

/* Writes PerfDb. If MIOpen's version is not known, writes both formats; MIOpen then reads the one
 * that it knows. */
static int fill_perf(struct overlay *o, struct selection s, bool *ret_any, struct kiln_error *err)
{
    static const char *const formats[] = { "sqlite", "text" };
    int rc = KILN_E_OK;
    s.kind = "perf";
    for (size_t i = 0; i < 2 && !rc; i++) {
        s.format = formats[i];
        if (!o->format || strcmp(o->format, s.format) == 0)
            rc = fill_tier(o, &s, ret_any, err);
    }
    return rc;
}

int overlay_fill(struct overlay *overlay, const char *id, struct kiln_error *err)
{
    /* MIOpen's version is part of the name of a user's file. If the version is not known, the
     * user's records go into system/, where every version finds them. */
    const char *tier = overlay->version ? "host" : "user";
    struct selection system = { .id = id, .kind = "find", .tier = tier },
                     user = { .id = id, .kind = "find", .tier = "user", .to_user = true };
    overlay->has_find = overlay->has_perf = false;
    int rc = fill_tier(overlay, &system, &overlay->has_find, err);
    if (!rc)
        rc = fill_perf(overlay, system, &overlay->has_perf, err);
    if (!rc && overlay->version)
        rc = fill_tier(overlay, &user, NULL, err);
    if (!rc && overlay->version)
        rc = fill_perf(overlay, user, NULL, err);
    if (rc)
        return rc;
    overlay->has_system |= overlay->has_find || overlay->has_perf;
    remark_missing(overlay, id);
    return KILN_E_OK;
}
