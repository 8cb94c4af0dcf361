/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/db_exported.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/several.h"
#include "common/base/units.h"

struct export_options {
    const char *database_id, *kind, *backend, *tier, *dialect, *format, *miopen;
    bool merged, force;
};

#define AT(field) offsetof(struct export_options, field)
static const struct option options[] = {
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID",
      "only records of this device, such as gfx90a68", 0, 0 },
    { "kind", 0, OPTION_TEXT, AT(kind), "find|perf", "only FindDb, or only PerfDb", 0, 0 },
    { "backend", 0, OPTION_TEXT, AT(backend), "HIP|CUDA|OpenCL", "only FindDb of this backend", 0,
      0 },
    { "tier", 0, OPTION_TEXT, AT(tier), "system|host|user",
      "the tier; user: your own records (system)", 0, 0 },
    { "merged", 0, OPTION_FLAG, AT(merged), NULL,
      "merge the tier with those below it, as look-ups do", 0, 0 },
    { "dialect", 0, OPTION_TEXT, AT(dialect), "old|new",
      "the dialect of FindDb (that of each record)", 0, 0 },
    { "format", 0, OPTION_TEXT, AT(format), "sqlite|text",
      "the format of PerfDb (that of the version of --miopen, else sqlite)", 0, 0 },
    { "miopen", 0, OPTION_TEXT, AT(miopen), "VERSION",
      "the MIOpen that will read user files, which is part of their names, such as "
      "2.17.0.a82233c22",
      0, 0 },
    { "force", 'f', OPTION_FLAG, AT(force), NULL, "replace existing files", 0, 0 },
};
#undef AT

static int check_options(const struct export_options *o, struct kiln_error *err)
{
    int rc = db_check_word("tier", o->tier, DB_TIERS, err);
    if (!rc)
        rc = db_check_word("kind", o->kind, DB_KINDS, err);
    if (!rc)
        rc = db_check_word("dialect", o->dialect, DB_DIALECTS, err);
    return rc ? rc : db_check_word("format", o->format, DB_FORMATS, err);
}

static int ask_daemon(const struct invocation *invocation, struct db_exported *ret_exported,
                      struct kiln_error *err)
{
    const struct export_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    admin_set_text(ask, "kind", o->kind);
    admin_set_text(ask, "database_id", o->database_id);
    admin_set_text(ask, "backend", o->backend);
    json_set_text(ask, "tier", o->tier ? o->tier : "system");
    if (o->merged)
        json_set_bool(ask, "merged", true);
    admin_set_text(ask, "dialect", o->dialect);
    admin_set_text(ask, "format", o->format ? o->format : db_format_of(o->miopen));
    admin_set_text(ask, "version", o->miopen);
    int rc = db_exported_get(invocation, ask, ret_exported, err);
    if (rc == KILN_E_NOT_FOUND)
        return cli_fail(
            err, rc, "the %s tier has no such records; 'kilnctl db stats' lists what is recorded",
            o->tier ? o->tier : "system");
    return rc;
}

static struct json *written_json(const struct json *entry, const char *path)
{
    struct json *json = json_object();
    json_set_text(json, "file", path);
    json_set_text(json, "kind", json_get_text(entry, "kind", ""));
    json_set_text(json, "database_id", json_get_text(entry, "database_id", ""));
    json_set_text(json, "backend", json_get_text(entry, "backend", ""));
    json_set_u64(json, "records", json_get_u64(entry, "records", 0));
    json_set_u64(json, "bytes", json_get_u64(entry, "bytes", 0));
    return json;
}

static void print_written(const struct json *entry, const char *path)
{
    char count[DB_NAME_MAX], size[UNITS_TEXT_MAX];
    db_say("%.900s: %s, %s", path, db_count(json_get_u64(entry, "records", 0), "record", count),
           units_size(json_get_u64(entry, "bytes", 0), size));
}

static int write_databases(const struct invocation *invocation, const struct db_exported *exported,
                           struct kiln_error *err)
{
    const struct export_options *o = invocation->options;
    SEVERAL_AUTO struct several several;
    KILN_AUTO(json) struct json *json = json_object();
    struct json *written = json_set_array(json, "files");
    several_init(&several, invocation, "file");
    for (size_t i = 0; i < exported->count; i++) {
        const struct json *entry = db_exported_entry(exported, i);
        char path[PATH_MAX] = "";
        struct kiln_error why = { 0 };
        int rc =
            db_exported_path(invocation->words[0], json_get_text(entry, "name", ""), path, &why);
        if (!rc)
            rc = db_exported_write(exported, i,
                                   &(struct new_file){ .path = path, .replace = o->force }, &why);
        several_note(&several, path, rc, &why);
        if (rc)
            continue;
        json_append(written, written_json(entry, path));
        if (!invocation->common->json)
            print_written(entry, path);
    }
    return several_end(&several, json, err);
}

static int run_db_export(const struct invocation *invocation, struct kiln_error *err)
{
    DB_EXPORTED_AUTO struct db_exported exported = { .count = 0 };
    int rc = check_options(invocation->options, err);
    if (!rc)
        rc = ask_daemon(invocation, &exported, err);
    if (!rc)
        rc = db_make_directory(invocation->words[0], 0777, err);
    return rc ? rc : write_databases(invocation, &exported, err);
}

const struct command command_db_export = {
    .name = "db export",
    .words = "DIR",
    .summary = "write records as files that MIOpen reads",
    .help =
        "Writes FindDb and PerfDb files into DIR, with the names that MIOpen looks for.  An\n"
        "imported system database that was not changed is written as it was imported, byte for\n"
        "byte if MIOpen itself would have written the same bytes.\n"
        "\n"
        "Files for devices that MIOpen does not know (sm_90_132, opencl_1a2b3c4d) are named the\n"
        "same way, for 'db import' on another host.\n"
        "\n"
        "--dialect old is for MIOpen before ROCm 5.6, which stores one solver per\n"
        "algorithm.  --format text is for MIOpen of ROCm 6.2 (3.2) and later.  PerfDb files of\n"
        "batch normalisation are always text.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct export_options),
    .run = run_db_export,
};
