/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/new_file.h"
#include "cli/output.h"
#include "common/base/units.h"

struct backup_options {
    bool force;
};

#define AT(field) offsetof(struct backup_options, field)
static const struct option options[] = {
    { "force", 'f', OPTION_FLAG, AT(force), NULL, "replace FILE if it exists", 0, 0 },
};
#undef AT

static int check_free(const struct backup_options *o, const char *path, struct kiln_error *err)
{
    if (o->force || access(path, F_OK) != 0)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_IO,
                    "'%s' exists already: name another file, or give --force to replace it", path);
}

static const struct json *ask_left_out(const struct invocation *invocation, struct json **ret_stats)
{
    /* The reply to tuning_stats lists the system databases, which the copy leaves out. A failure of
     * this request is ignored, because only the printed list needs the reply. */
    struct kiln_error unknown = { .code = KILN_E_OK };
    if (admin_ask(invocation, "tuning_stats", admin_no_arguments, ret_stats, &unknown))
        return NULL;
    return json_get(*ret_stats, "system");
}

static void say_left_out(const struct json *systems)
{
    for (const struct json *j = json_first(systems); j; j = json_next(j))
        db_say("not in the copy: the %.8s database of %.64s, imported from '%.600s'",
               json_get_text(j, "kind", "?"), json_get_text(j, "database_id", "?"),
               json_get_text(j, "source", "?"));
    if (json_count(systems) > 0)
        db_say("'kilnctl db import' imports these files again");
    db_say("not in the copy: kernels, packages and settings");
}

static int report_copy(const struct invocation *invocation, const char *path, uint64_t bytes,
                       struct kiln_error *err)
{
    char size[UNITS_TEXT_MAX];
    KILN_AUTO(json) struct json *stats = NULL;
    const struct json *systems = ask_left_out(invocation, &stats);
    if (!invocation->common->json) {
        db_say("%.900s: %s", path, units_size(bytes, size));
        say_left_out(systems);
        return KILN_E_OK;
    }
    KILN_AUTO(json) struct json *json = json_object();
    json_set_text(json, "file", path);
    json_set_u64(json, "bytes", bytes);
    struct json *left_out = json_set_array(json, "left_out");
    for (const struct json *j = json_first(systems); j; j = json_next(j))
        json_append(left_out, json_text(json_get_text(j, "source", "")));
    return output_json(json, err);
}

static int run_db_backup(const struct invocation *invocation, struct kiln_error *err)
{
    const struct backup_options *o = invocation->options;
    const char *path = invocation->words[0];
    KILN_AUTO(json) struct json *reply = NULL;
    KILN_AUTO(fd) int fd = -1;
    size_t count = 0;
    const struct admin_call call = {
        ADMIN_CALL_INIT,  .request = "tuning_backup", .arguments = admin_no_arguments,
        .ret_files = &fd, .ret_files_max = 1,         .ret_file_count = &count
    };
    int rc = check_free(o, path, err);
    if (!rc)
        rc = admin_call(invocation, &call, &reply, err);
    if (!rc && count != 1)
        rc = cli_fail(err, KILN_E_CORRUPT, "kilnd's answer contains no copy of tuning.db");
    /* The copy contains users' private records, so only the caller may read it. */
    const struct new_file file = { .path = path, .replace = o->force, .mode = 0600, .from = fd };
    if (!rc)
        rc = new_file_write(&file, err);
    return rc ? rc : report_copy(invocation, path, json_get_u64(reply, "bytes", 0), err);
}

const struct command command_db_backup = {
    .name = "db backup",
    .words = "FILE",
    .summary = "copy tuning.db consistently while kilnd runs",
    .help =
        "Writes a complete, synced copy of all records of the users and the host to FILE, or\n"
        "nothing.  To restore it, stop kilnd, remove tuning.db-wal and tuning.db-shm from its\n"
        "state directory, and replace tuning.db there with FILE.  FILE does not contain imported\n"
        "system databases: the command lists their sources, and 'db import' imports them again.\n"
        "Nor does it contain kernels, packages or settings.  For administrators.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct backup_options),
    .run = run_db_backup,
};
