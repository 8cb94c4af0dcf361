/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/miopen_version.h"
#include "cli/kilnctl/new_file.h"
#include "cli/kilnctl/several.h"
#include "cli/kilnctl/upload_size.h"
#include "cli/output.h"
#include "common/base/units.h"

#include <stdlib.h>
#include <string.h>

struct import_options {
    const char *database_id, *miopen;
    bool for_all;
};

#define AT(field) offsetof(struct import_options, field)
static const struct option options[] = {
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID",
      "the kernels' device, such as gfx90a68 (from the file's name)", 0, 0 },
    { "miopen", 0, OPTION_TEXT, AT(miopen), "VERSION",
      "the MIOpen that wrote them, such as 2.17.0.a82233c22, or none (what the cache's directory "
      "is "
      "called)",
      0, 0 },
    { "for-all", 0, OPTION_FLAG, AT(for_all), NULL,
      "share them with every user of this host (for administrators)", 0, 0 },
};
#undef AT

static void set_version(struct json *ask, const struct import_options *o, const char *full)
{
    char found[MIOPEN_VERSION_MAX];
    bool is_known =
        o->miopen ? strcmp(o->miopen, "none") != 0 : miopen_version_of_path(full, found);
    if (o->miopen)
        miopen_version_take(o->miopen, found);
    if (is_known)
        json_set_text(ask, "version", found);
}

static struct json *create_request(const struct import_options *o, const char *path)
{
    struct json *ask = json_object();
    KILN_AUTO(mem) char *full = realpath(path, NULL);
    json_set_text(ask, "name", new_file_name(path));
    json_set_text(ask, "source", full ? full : path);
    if (o->database_id)
        json_set_text(ask, "database_id", o->database_id);
    set_version(ask, o, full ? full : path);
    if (o->for_all)
        json_set_bool(ask, "for_all", true);
    return ask;
}

static int send_file(const struct invocation *invocation, const char *path, struct json **ret_reply,
                     struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = create_request(invocation->options, path);
    struct snapshot snapshot;
    struct call_progress progress;
    int rc = upload_size_check(invocation, path, SNAPSHOT_CACHE, err);
    if (!rc)
        rc = snapshot_open(path, SNAPSHOT_CACHE, session_deadline_ns(invocation->common), &snapshot,
                           err);
    if (rc)
        return rc;
    call_progress_init(&progress, new_file_name(path));
    const struct admin_call call = { .request = "kernel_import",
                                     .arguments = ask,
                                     .file = snapshot.fd,
                                     .second_file = -1,
                                     .progress = &progress };
    rc = admin_call(invocation, &call, ret_reply, err);
    close(snapshot.fd);
    if (!rc && json_get(ask, "version"))
        json_set_text(*ret_reply, "version", json_get_text(ask, "version", ""));
    return rc;
}

/* Fails if kilnd found damaged rows, although it imported the other rows. */
static int judge_reply(const struct json *reply, const char *path, struct kiln_error *err)
{
    uint64_t damaged = json_get_u64(reply, "damaged", 0);
    const char *first = json_get_text(reply, "first", "");
    if (damaged == 0)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_CORRUPT, "'%.100s': %llu imported, %llu damaged%s%.140s", path,
                    (unsigned long long)json_get_u64(reply, "imported", 0),
                    (unsigned long long)damaged, *first ? "; " : "", first);
}

static void print_count(const struct json *reply, const char *member, const char *what)
{
    uint64_t count = json_get_u64(reply, member, 0);
    if (count > 0)
        printf("  %llu %s\n", (unsigned long long)count, what);
}

/* Maximum number of damaged rows to print. --json prints all that kilnd reported. */
#define ROWS_SHOWN 10u

static void print_damaged(const struct json *reply)
{
    const struct json *rows = json_get(reply, "damaged_rows");
    uint64_t damaged = json_get_u64(reply, "damaged", 0);
    uint64_t shown = 0;
    for (const struct json *j = json_first(rows); j && shown < ROWS_SHOWN; j = json_next(j)) {
        char line[768];
        const char *why = json_get_text(j, "why", "?");
        if (strncmp(why, "row ", 4) == 0)
            snprintf(line, sizeof(line), "%.700s", why);
        else
            snprintf(line, sizeof(line), "row %llu, '%.255s': %.400s",
                     (unsigned long long)json_get_u64(j, "id", 0), json_get_text(j, "name", "?"),
                     why);
        output_clean(line, false);
        output_lines(stdout, "  damaged: ", line);
        shown++;
    }
    if (shown > 0 && damaged > shown)
        printf("  and %llu more%s\n", (unsigned long long)(damaged - shown),
               json_count(rows) > shown ? "; --json names more of them" : "");
}

static void print_reply(const struct json *reply, const char *path)
{
    char line[600], count[UNITS_TEXT_MAX], kept[80] = "";
    const char *version = json_get_text(reply, "version", "");
    const char *id = json_get_text(reply, "database_id", "?");
    bool all = strcmp(json_get_text(reply, "scope", ""), "everyone") == 0;
    if (*version)
        snprintf(kept, sizeof(kept), ", stored for MIOpen %.48s", version);
    snprintf(line, sizeof(line), "%.255s: %s for %.*s imported, for %s%s", path,
             units_kernels(json_get_u64(reply, "imported", 0), count), (int)strcspn(id, "@"), id,
             all ? "every user" : "you alone", kept);
    output_clean(line, false);
    puts(line);
    print_count(reply, "replaced", "replaced kernels of the same name");
    print_count(reply, "evicted", "other kernels were evicted to free space");
    print_damaged(reply);
}

struct sums {
    uint64_t imported, damaged;
};

static void add_counts(struct sums *sums, const struct json *reply)
{
    sums->imported += json_get_u64(reply, "imported", 0);
    sums->damaged += json_get_u64(reply, "damaged", 0);
}

static int import_cache(const struct invocation *invocation, const char *path,
                        struct json **ret_reply, struct kiln_error *err)
{
    int rc = send_file(invocation, path, ret_reply, err);
    if (rc)
        return cli_while(err, "%.200s", path);
    json_set_text(*ret_reply, "file", path);
    if (!invocation->common->json)
        print_reply(*ret_reply, path);
    return judge_reply(*ret_reply, path, err);
}

static int run_kernel_import(const struct invocation *invocation, struct kiln_error *err)
{
    SEVERAL_AUTO struct several files;
    KILN_AUTO(json) struct json *json = json_object();
    struct json *replies = json_set_array(json, "files");
    struct sums sums = { 0 };
    several_init(&files, invocation, "file");
    for (size_t i = 0; i < invocation->word_count && !files.over; i++) {
        struct json *reply = NULL;
        struct kiln_error why = { 0 };
        int rc = import_cache(invocation, invocation->words[i], &reply, &why);
        several_note(&files, invocation->words[i], rc, &why);
        if (!reply)
            continue;
        add_counts(&sums, reply);
        json_append(replies, reply);
    }
    json_set_u64(json, "imported", sums.imported);
    json_set_u64(json, "damaged", sums.damaged);
    return several_end(&files, json, err);
}

const struct command command_kernel_import = {
    .name = "kernel import",
    .words = "FILE...",
    .summary = "import the kernels of MIOpen's caches",
    .help =
        "Reads MIOpen's per-user caches, such as ~/.cache/miopen/*/*.ukdb, even while MIOpen has\n"
        "them open.  Stores their kernels for you alone, or with --for-all for everyone.  The\n"
        "files are not changed.\n"
        "\n"
        "If the cache's directory is named after a MIOpen version, such as 2.17.0.a82233c22, its\n"
        "kernels are kept separate from those of other versions.  Their device is\n"
        "gfx90a68@2.17.0.a82233c22; as long as there is no other version, plain gfx90a68 finds\n"
        "them as well.  --miopen names another version; --miopen none stores them under the plain\n"
        "device.\n"
        "\n"
        "Damaged kernels in a file are skipped and listed, and the exit status is 1.  If the file\n"
        "itself is damaged, nothing is imported.  You can delete it: jobs compile its kernels\n"
        "again.  To save the readable rows first, run\n"
        "\n"
        "    sqlite3 OLD 'pragma writable_schema = on' .dump |\n"
        "        sed 's/^ROLLBACK;.*/COMMIT;/' | sqlite3 NEW\n"
        "\n"
        "and import NEW.  No checksum covers the names of kernels and their arguments.",
    .least_words = 1,
    .most_words = SIZE_MAX,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct import_options),
    .run = run_kernel_import,
};
