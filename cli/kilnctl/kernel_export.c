/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/db_exported.h"
#include "cli/kilnctl/miopen_version.h"
#include "cli/kilnctl/several.h"
#include "cli/output.h"
#include "common/base/units.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Maximum number of descriptors that a message can carry (SCM_MAX_FD). */
#define FILES_MAX 253

struct export_options {
    const char *format, *database_id, *miopen;
    bool force;
};

#define AT(field) offsetof(struct export_options, field)
static const struct option options[] = {
    { "format", 0, OPTION_TEXT, AT(format), "ukdb", "the format: MIOpen's (ukdb)", 0, 0 },
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID",
      "only the kernels for this device, such as gfx90a68", 0, 0 },
    { "miopen", 0, OPTION_TEXT, AT(miopen), "VERSION",
      "only the kernels imported with this version; none: those without one", 0, 0 },
    { "force", 'f', OPTION_FLAG, AT(force), NULL, "replace existing files", 0, 0 },
};
#undef AT

struct files {
    int fds[FILES_MAX];
    size_t count;
};

static void files_done(struct files *files)
{
    for (size_t i = 0; i < files->count; i++)
        close(files->fds[i]);
}

static int ask_daemon(const struct invocation *invocation, struct files *files,
                      struct json **ret_reply, struct kiln_error *err)
{
    const struct export_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    json_set_text(ask, "format", o->format ? o->format : "ukdb");
    if (o->database_id)
        json_set_text(ask, "database_id", o->database_id);
    if (o->miopen) {
        char version[MIOPEN_VERSION_MAX];
        miopen_version_take(o->miopen, version);
        json_set_text(ask, "version", version);
    }
    const struct admin_call call = {
        ADMIN_CALL_INIT,         .request = "kernel_export", .arguments = ask,
        .ret_files = files->fds, .ret_files_max = FILES_MAX, .ret_file_count = &files->count
    };
    return admin_call(invocation, &call, ret_reply, err);
}

/* Checks a name from kilnd's reply before it becomes part of a path. */
static bool is_file_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/') && strlen(name) < 128;
}

struct place {
    char path[PATH_MAX];
    char version[64];
};

static int choose_place(const char *directory, const struct json *entry, struct place *ret_place,
                        struct kiln_error *err)
{
    const char *name = json_get_text(entry, "name", "");
    const char *at = strchr(name, '@'), *ending = strrchr(name, '.');
    if (!is_file_name(name) || !ending || (at && at > ending))
        return cli_fail(err, KILN_E_CORRUPT, "kilnd's answer has no valid file name");
    *ret_place = (struct place){ .path = "" };
    if (at)
        snprintf(ret_place->version, sizeof(ret_place->version), "%.*s", (int)(ending - at - 1),
                 at + 1);
    const char *slash = directory[0] && directory[strlen(directory) - 1] == '/' ? "" : "/";
    if (snprintf(ret_place->path, PATH_MAX, "%s%s%.*s%s", directory, slash,
                 at ? (int)(at - name) : (int)strlen(name), name, at ? ending : "") >= PATH_MAX)
        return cli_fail(err, KILN_E_INVALID, "the path '%s' is too long", directory);
    return KILN_E_OK;
}

static int export_cache(const struct export_options *o, const struct json *entry,
                        const struct files *files, const char *path, struct kiln_error *err)
{
    uint64_t descriptor = json_get_u64(entry, "descriptor", UINT64_MAX);
    if (descriptor >= files->count)
        return cli_fail(err, KILN_E_CORRUPT,
                        "kilnd's answer refers to a file that it did not send");
    const struct new_file file = { .path = path,
                                   .replace = o->force,
                                   .from = files->fds[descriptor] };
    return db_write(&file, err);
}

/* Creates the link that MIOpen 3.5 needs (miopen_version_link). The version comes from kilnd's
 * reply or, if that has none, from --miopen. */
static int link_version(const struct invocation *invocation, const struct place *place,
                        struct kiln_error *err)
{
    const struct export_options *o = invocation->options;
    char version[MIOPEN_VERSION_MAX];
    miopen_version_take(place->version[0] || !o->miopen ? place->version : o->miopen, version);
    return miopen_version_link(invocation->words[0], version, err);
}

static void print_written(const struct json *entry, const struct place *place)
{
    char line[PATH_MAX + 256], count[UNITS_TEXT_MAX], damaged[64] = "", version[80] = "";
    uint64_t bad = json_get_u64(entry, "damaged", 0);
    if (bad)
        snprintf(damaged, sizeof(damaged), ", %llu damaged ones skipped", (unsigned long long)bad);
    if (place->version[0])
        snprintf(version, sizeof(version), " of MIOpen %s", place->version);
    snprintf(line, sizeof(line), "%s: %s%s%s", place->path,
             units_kernels(json_get_u64(entry, "kernels", 0), count), version, damaged);
    output_clean(line, false);
    puts(line);
}

static struct json *written_json(const struct json *entry, const struct place *place)
{
    struct json *json = json_object();
    json_set_text(json, "file", place->path);
    json_set_u64(json, "kernels", json_get_u64(entry, "kernels", 0));
    json_set_u64(json, "damaged", json_get_u64(entry, "damaged", 0));
    if (place->version[0])
        json_set_text(json, "version", place->version);
    return json;
}

static int write_caches(const struct invocation *invocation, const struct json *entries,
                        const struct files *files, struct kiln_error *err)
{
    SEVERAL_AUTO struct several several;
    KILN_AUTO(json) struct json *json = json_object();
    struct json *written = json_set_array(json, "files");
    several_init(&several, invocation, "file");
    for (const struct json *j = json_first(entries); j; j = json_next(j)) {
        struct place place = { .path = "" };
        struct kiln_error why = { 0 };
        int rc = choose_place(invocation->words[0], j, &place, &why);
        if (!rc)
            rc = export_cache(invocation->options, j, files, place.path, &why);
        if (!rc)
            rc = link_version(invocation, &place, &why);
        several_note(&several, place.path, rc, &why);
        if (rc)
            continue;
        json_append(written, written_json(j, &place));
        if (!invocation->common->json)
            print_written(j, &place);
    }
    return several_end(&several, json, err);
}

static int run_kernel_export(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    __attribute__((cleanup(files_done))) struct files files = { .count = 0 };
    int rc = ask_daemon(invocation, &files, &reply, err);
    const struct json *entries = json_get(reply, "files");
    if (!rc && json_count(entries) == 0)
        rc = cli_fail(err, KILN_E_NOT_FOUND,
                      "there are no imported kernels to export; 'kilnctl kernel import' imports "
                      "MIOpen's caches");
    if (!rc)
        rc = db_make_directory(invocation->words[0], 0777, err);
    return rc ? rc : write_caches(invocation, entries, &files, err);
}

const struct command command_kernel_export = {
    .name = "kernel export",
    .words = "DIR",
    .summary = "write kernels into caches that MIOpen reads",
    .help =
        "Writes the imported kernels that you may use into DIR, one file per device, such as\n"
        "gfx90a68.ukdb.  If they belong to several versions of MIOpen, --miopen must choose\n"
        "one.  An unmodified MIOpen that runs with MIOPEN_CUSTOM_CACHE_DIR=DIR starts with these\n"
        "kernels.  MIOpen 3.5 looks below DIR, in a directory named after its version: for it, a\n"
        "link of that name leads to DIR.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct export_options),
    .run = run_kernel_export,
};
