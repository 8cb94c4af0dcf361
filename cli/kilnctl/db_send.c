/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/db_send.h"

#include "cli/kilnctl/db_progress.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/url.h"
#include "cli/output.h"

#include <string.h>

static void print_bad(void *context, const struct json *item)
{
    const struct db_sending *sending = context;
    char line[1024];
    snprintf(line, sizeof(line), "%.400s:%llu: %.500s", sending->path,
             (unsigned long long)json_get_u64(item, "line", 0), json_get_text(item, "why", "?"));
    output_clean(line, false);
    fprintf(stderr, "%s\n", line);
}

#define KEYS_SHOWN 10u

static void print_verbatim(void *context, const struct json *item)
{
    struct db_sending *sending = context;
    if (!sending->verbose && sending->listed_keys == KEYS_SHOWN)
        return;
    db_say("%.400s:%llu: kept unchanged: %.1024s: %.300s", sending->path,
           (unsigned long long)json_get_u64(item, "line", 0), json_get_text(item, "key", "?"),
           json_get_text(item, "why", "?"));
    sending->listed_keys++;
}

enum { BAD, CONFLICTS, VERBATIM, LISTS };
static const struct db_list lists[LISTS + 1] = {
    [BAD] = { "bad", print_bad, .even_with_json = true },
    [CONFLICTS] = { "conflicts", db_print_conflict, .even_with_json = false },
    [VERBATIM] = { "verbatim", print_verbatim, .even_with_json = false },
    [LISTS] = { NULL, NULL, false },
};

static int fill_request(const struct db_sending *s, struct json *ask, struct kiln_error *err)
{
    admin_set_text(ask, "name", s->name);
    admin_set_text(ask, "url", s->url);
    admin_set_text(ask, "database_id", s->database_id);
    admin_set_text(ask, "kind", s->kind);
    admin_set_text(ask, "backend", s->backend);
    admin_set_text(ask, "tier", s->tier);
    if (s->strict)
        json_set_bool(ask, "strict", true);
    return s->sha256 ? url_set_sha256(s->sha256, ask, err) : KILN_E_OK;
}

static void move_lists(struct db_progress *progress, struct json *answer)
{
    static const char *const names[LISTS] = {
        [BAD] = "bad_lines", [CONFLICTS] = "conflicting", [VERBATIM] = "verbatim_keys"
    };
    for (size_t i = 0; i < LISTS; i++)
        if (progress->counts[i] > 0)
            db_progress_move(progress, i, answer, names[i]);
}

int db_send(const struct invocation *invocation, struct db_sending *sending,
            struct json **ret_answer, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    DB_PROGRESS_AUTO struct db_progress progress;
    char label[URL_LABEL_MAX];
    db_progress_init(&progress, url_label(sending->path, label), lists, sending,
                     invocation->common->json);
    const struct admin_call call = { .request = sending->merges ? "tuning_merge" : "tuning_import",
                                     .arguments = ask,
                                     .file = sending->url ? -1 : sending->fd,
                                     .second_file = -1,
                                     .db_progress = &progress };
    int rc = fill_request(sending, ask, err);
    if (!rc)
        rc = admin_call(invocation, &call, ret_answer, err);
    if (rc == KILN_E_INVALID && progress.counts[BAD] > 0)
        /* KILN_E_INVALID would mean that the command line is wrong */
        rc = err->code = KILN_E_CORRUPT;
    if (!rc && invocation->common->json)
        move_lists(&progress, *ret_answer);
    return rc;
}

static void print_nonzero_count(const struct json *answer, const char *member, const char *what)
{
    char count[DB_NAME_MAX];
    uint64_t number = json_get_u64(answer, member, 0);
    if (number > 0)
        db_say("  %s %s", db_count(number, "record", count), what);
}

/* Warns if the import left far fewer records than before: the file may be for another device or
 * another release of MIOpen. */
static void warn_shrunk(const struct db_sending *sending, const struct json *answer)
{
    char before[DB_NAME_MAX], now[DB_NAME_MAX], line[1024];
    if (!json_get_bool(answer, "shrunk", false))
        return;
    snprintf(line, sizeof(line),
             "kilnctl: warning: %.400s: the %.8s database of %.64s has shrunk by more than half: "
             "from %s to %s; if that was not intended, import the previous file again",
             sending->path, json_get_text(answer, "kind", "?"),
             json_get_text(answer, "database_id", "?"),
             db_count(json_get_u64(answer, "records_before", 0), "record", before),
             db_count(json_get_u64(answer, "records", 0), "record", now));
    output_clean(line, false);
    fprintf(stderr, "%s\n", line);
}

void db_send_print(const struct db_sending *sending, const struct json *answer)
{
    char records[DB_NAME_MAX], entries[DB_NAME_MAX];
    const char *backend = json_get_text(answer, "backend", "");
    db_say("%.255s: %s, %s, %.8s%s%.16s for %.64s, %s tier %.8s", sending->path,
           db_count(json_get_u64(answer, "records", 0), "record", records),
           db_count(json_get_u64(answer, "entries", 0), "entry", entries),
           json_get_text(answer, "kind", "?"), *backend ? " " : "", backend,
           json_get_text(answer, "database_id", "?"),
           sending->merges ? "merged into" : "imported into", json_get_text(answer, "tier", "?"));
    warn_shrunk(sending, answer);
    print_nonzero_count(answer, "added", "added");
    print_nonzero_count(answer, "replaced", "replaced");
    print_nonzero_count(answer, "kept", "not changed");
    uint64_t unlisted = json_get_u64(answer, "left_out", 0);
    if (unlisted > 0)
        db_say("  %llu more bad lines or conflicts are not listed", (unsigned long long)unlisted);
    print_nonzero_count(answer, "verbatim",
                        "kept unchanged: kiln knows no problem with such a key");
    uint64_t verbatim = json_get_u64(answer, "verbatim", 0);
    if (verbatim > sending->listed_keys)
        db_say("  %llu more of these are not listed%s%s%s",
               (unsigned long long)(verbatim - sending->listed_keys), sending->verbose ? "" : "; ",
               sending->verbose ? "" : sending->verbose_name, sending->verbose ? "" : " lists all");
}

int db_send_judge(const struct db_sending *sending, const struct json *answer,
                  struct kiln_error *err)
{
    uint64_t bad = json_get_u64(answer, "bad", 0);
    if (bad == 0)
        return KILN_E_OK;
    return cli_fail(
        err, KILN_E_CORRUPT,
        "%llu %s of '%.200s' %s invalid in whole or in part and skipped; everything else "
        "was imported",
        (unsigned long long)bad, bad == 1 ? "line" : "lines", sending->path,
        bad == 1 ? "was" : "were");
}
