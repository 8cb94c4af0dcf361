/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/new_file.h"
#include "cli/kilnctl/several.h"
#include "cli/kilnctl/snapshot.h"
#include "cli/output.h"
#include "cli/units.h"

#include <stdlib.h>
#include <string.h>

struct import_options {
    const char *database_id, *miopen;
    bool for_all;
};

#define AT(field) offsetof(struct import_options, field)
static const struct option options[] = {
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID",
      "the device they are for, such as gfx90a68 (as the file is called)", 0, 0 },
    { "miopen", 0, OPTION_TEXT, AT(miopen), "VERSION",
      "the MIOpen that wrote them, such as 2.17.0: kept apart from other versions'", 0, 0 },
    { "for-all", 0, OPTION_FLAG, AT(for_all), NULL,
      "let every user of this host have them (administrators)", 0, 0 },
};
#undef AT

static struct json *question(const struct import_options *o, const char *path)
{
    struct json *ask = json_object();
    char *full = realpath(path, NULL);
    json_set_text(ask, "name", new_file_name(path));
    json_set_text(ask, "source", full ? full : path);
    if (o->database_id)
        json_set_text(ask, "database_id", o->database_id);
    if (o->miopen)
        json_set_text(ask, "version", o->miopen);
    if (o->for_all)
        json_set_bool(ask, "for_all", true);
    free(full);
    return ask;
}

/* |ret_note|: what was lost before kilnd saw the file. */
static int send(const struct invocation *invocation, const char *path, char ret_note[512],
                struct json **ret_reply, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = question(invocation->options, path);
    struct snapshot snapshot;
    struct call_progress progress;
    int rc = snapshot_open(path, &snapshot, err);
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
    if (!rc)
        snprintf(ret_note, 512, "%s", snapshot.note);
    return rc;
}

/* What could not be had is a failure of that file, though the rest of it is in. */
static int judge(const struct json *reply, const char *path, const char *note,
                 struct kiln_error *err)
{
    uint64_t damaged = json_get_u64(reply, "damaged", 0), lost = json_get_u64(reply, "lost", 0);
    const char *first = json_get_text(reply, "first", "");
    bool unknown = json_get_bool(reply, "lost_unknown", false);
    if (damaged + lost == 0 && !unknown && !*note)
        return KILN_E_OK;
    if (damaged + lost == 0 && unknown)
        return cli_fail(err, KILN_E_CORRUPT,
                        "'%.100s' is damaged: %llu imported, others may be lost, how many is not "
                        "known%s%.160s",
                        path, (unsigned long long)json_get_u64(reply, "imported", 0),
                        *note ? "; " : "", note);
    return cli_fail(
        err, KILN_E_CORRUPT, "'%.100s': %llu imported, %llu damaged, %llu lost%s%.160s%s%.160s",
        path, (unsigned long long)json_get_u64(reply, "imported", 0), (unsigned long long)damaged,
        (unsigned long long)lost, *first ? "; " : "", first, *note ? "; " : "", note);
}

static void print_count(const struct json *reply, const char *member, const char *what)
{
    uint64_t count = json_get_u64(reply, member, 0);
    if (count > 0)
        printf("  %llu %s\n", (unsigned long long)count, what);
}

static void print(const struct json *reply, const char *path)
{
    char line[512], count[UNITS_TEXT_MOST];
    bool all = strcmp(json_get_text(reply, "scope", ""), "everyone") == 0;
    snprintf(line, sizeof(line), "%.255s: %s for %.64s imported, for %s", path,
             units_kernels(json_get_u64(reply, "imported", 0), count),
             json_get_text(reply, "database_id", "?"), all ? "every user" : "you alone");
    output_clean(line, false);
    puts(line);
    print_count(reply, "replaced", "replaced others of the same name");
    print_count(reply, "evicted", "others had to go to make room");
}

struct sums {
    uint64_t imported, damaged, lost;
};

static void add(struct sums *sums, const struct json *reply)
{
    sums->imported += json_get_u64(reply, "imported", 0);
    sums->damaged += json_get_u64(reply, "damaged", 0);
    sums->lost += json_get_u64(reply, "lost", 0);
}

/* |ret_reply| is there even where some of the file was lost. */
static int import_one(const struct invocation *invocation, const char *path,
                      struct json **ret_reply, struct kiln_error *err)
{
    char note[512] = "";
    int rc = send(invocation, path, note, ret_reply, err);
    if (rc)
        return cli_while(err, "%.200s", path);
    json_set_text(*ret_reply, "file", path);
    if (*note)
        json_set_text(*ret_reply, "note", note);
    if (!invocation->common->json)
        print(*ret_reply, path);
    return judge(*ret_reply, path, note, err);
}

static int run(const struct invocation *invocation, struct kiln_error *err)
{
    SEVERAL_AUTO struct several files;
    KILN_AUTO(json) struct json *json = json_object();
    struct json *replies = json_array();
    struct sums sums = { 0 };
    json_set(json, "files", replies);
    several_init(&files, invocation, "file");
    for (size_t i = 0; i < invocation->word_count && !files.over; i++) {
        struct json *reply = NULL;
        struct kiln_error why = { 0 };
        int rc = import_one(invocation, invocation->words[i], &reply, &why);
        several_note(&files, invocation->words[i], rc, &why);
        if (!reply)
            continue;
        add(&sums, reply);
        json_append(replies, reply);
    }
    json_set_u64(json, "imported", sums.imported);
    json_set_u64(json, "damaged", sums.damaged);
    json_set_u64(json, "lost", sums.lost);
    return several_end(&files, json, err);
}

const struct command command_kernel_import = {
    .name = "kernel import",
    .words = "FILE...",
    .summary = "take over the kernels of MIOpen's caches",
    .help = "Reads MIOpen's per-user caches, such as ~/.cache/miopen/*/*.ukdb, also while MIOpen "
            "has them\n"
            "open, and puts their kernels into the store: for you alone, or with --for-all for "
            "everyone.\n"
            "The files stay as they are.  Of a damaged one all is taken that can be read; what was "
            "lost\n"
            "is told, and the exit status is 1.",
    .least_words = 1,
    .most_words = SIZE_MAX,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct import_options),
    .run = run,
};
