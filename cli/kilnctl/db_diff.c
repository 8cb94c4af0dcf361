/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/db_file.h"
#include "cli/kilnctl/db_progress.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/new_file.h"
#include "cli/output.h"

#include <string.h>

struct diff_options {
    const char *database_id, *kind, *backend;
    struct option_number uid;
};

#define AT(field) offsetof(struct diff_options, field)
static const struct option options[] = {
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID", "the device (from a file's name)", 0, 0 },
    { "kind", 0, OPTION_TEXT, AT(kind), "find|perf", "FindDb or PerfDb (from a file's name)", 0,
      0 },
    { "backend", 0, OPTION_TEXT, AT(backend), "HIP|CUDA|OpenCL",
      "FindDb's backend (from a file's name, else the device's own)", 0, 0 },
    { "uid", 0, OPTION_NUMBER, AT(uid), "UID",
      "the user whose tier is compared (you; others: for administrators)", 0, UINT32_MAX - 1 },
};
#undef AT

struct comparison {
    int fds[2]; /* owned; the |count| files to compare; unused entries are -1 */
    size_t count;
    struct db_file_name records;
    char key[1100];
};

static void comparison_done(struct comparison *c)
{
    fd_auto(&c->fds[0]);
    fd_auto(&c->fds[1]);
}

static void complete_from_name(const char *path, struct db_file_name *records)
{
    struct db_file_name name;
    if (!db_file_name(path, &name))
        return;
    if (!*records->database_id)
        memcpy(records->database_id, name.database_id, sizeof(records->database_id));
    if (!*records->kind)
        memcpy(records->kind, name.kind, sizeof(records->kind));
    if (!*records->backend)
        memcpy(records->backend, name.backend, sizeof(records->backend));
}

static int add_side(const struct invocation *invocation, size_t side, struct comparison *c,
                    struct json *ask, struct kiln_error *err)
{
    const char *word = invocation->words[side];
    bool is_a = side == 0;
    char note[DB_NOTE_MAX] = "";
    if (db_word_is(word, DB_TIERS)) {
        json_set_text(ask, is_a ? "a_tier" : "b_tier", word);
        return KILN_E_OK;
    }
    int rc = db_file_open(invocation, word, &c->fds[c->count], note, err);
    if (rc == KILN_E_NOT_FOUND)
        return cli_fail(err, rc, "'%.200s' is neither a file nor a tier (%s)", word, DB_TIERS);
    if (rc)
        return rc;
    c->count++;
    if (*note)
        fprintf(stderr, "kilnctl: %s\n", note);
    json_set_text(ask, is_a ? "a_name" : "b_name", new_file_name(word));
    complete_from_name(word, &c->records);
    return KILN_E_OK;
}

static int fill_request(const struct invocation *invocation, struct json *ask, struct comparison *c,
                        struct kiln_error *err)
{
    const struct diff_options *o = invocation->options;
    struct db_file_name *records = &c->records;
    snprintf(records->database_id, sizeof(records->database_id), "%s",
             o->database_id ? o->database_id : "");
    snprintf(records->kind, sizeof(records->kind), "%s", o->kind ? o->kind : "");
    snprintf(records->backend, sizeof(records->backend), "%s", o->backend ? o->backend : "");
    int rc = db_check_word("kind", o->kind, DB_KINDS, err);
    for (size_t i = 0; i < 2 && !rc; i++)
        rc = add_side(invocation, i, c, ask, err);
    if (!rc && (!*records->database_id || !*records->kind))
        rc = cli_fail(err, KILN_E_INVALID,
                      "db diff needs --db-id and --kind if no file's name gives them: for example, "
                      "--db-id gfx90a68 --kind find");
    if (rc)
        return rc;
    json_set_text(ask, "kind", records->kind);
    json_set_text(ask, "database_id", records->database_id);
    if (*records->backend)
        json_set_text(ask, "backend", records->backend);
    if (o->uid.given)
        json_set_u64(ask, "uid", o->uid.value);
    return KILN_E_OK;
}

static const char *side_text(const struct json *item, const char *name, char text[64])
{
    const struct json *value = json_get(item, name);
    if (json_is_number(value))
        snprintf(text, 64, "%.6g", json_as_number(value, 0));
    return json_is_number(value) ? text : json_as_text(value, "-");
}

static void print_difference(void *context, const struct json *item)
{
    struct comparison *c = context;
    char a[64], b[64];
    const char *key = json_get_text(item, "key", "?");
    const char *what = json_get_text(item, "what", "?");
    if (strncmp(key, c->key, sizeof(c->key) - 1) != 0) {
        snprintf(c->key, sizeof(c->key), "%s", key);
        db_say("%s", key);
    }
    if (json_get(item, "a") || json_get(item, "b"))
        db_say("  %-32.200s %-10.32s %.600s | %.600s", json_get_text(item, "solver", "-"), what,
               side_text(item, "a", a), side_text(item, "b", b));
    else
        db_say("  %-32.200s %.32s", json_get_text(item, "solver", "-"), what);
}

static void print_sums(const struct json *reply)
{
    char a[DB_NAME_MAX], b[DB_NAME_MAX];
    uint64_t unlisted = json_get_u64(reply, "left_out", 0);
    if (unlisted > 0)
        db_say("%llu more differences are not listed", (unsigned long long)unlisted);
    db_say("a: %s, b: %s: %llu the same, %llu different, %llu only in a, %llu only in b",
           db_count(json_get_u64(reply, "a_records", 0), "record", a),
           db_count(json_get_u64(reply, "b_records", 0), "record", b),
           (unsigned long long)json_get_u64(reply, "same", 0),
           (unsigned long long)json_get_u64(reply, "different", 0),
           (unsigned long long)json_get_u64(reply, "only_a", 0),
           (unsigned long long)json_get_u64(reply, "only_b", 0));
}

static int run_db_diff(const struct invocation *invocation, struct kiln_error *err)
{
    static const struct db_list lists[] = {
        { "differences", print_difference, .even_with_json = false },
        { NULL, NULL, false },
    };
    __attribute__((cleanup(comparison_done))) struct comparison c = { .fds = { -1, -1 } };
    KILN_AUTO(json) struct json *ask = json_object(), *reply = NULL;
    DB_PROGRESS_AUTO struct db_progress progress;
    db_progress_init(&progress, "diff", lists, &c, invocation->common->json);
    int rc = fill_request(invocation, ask, &c, err);
    const struct admin_call call = { .request = "tuning_diff",
                                     .arguments = ask,
                                     .file = c.fds[0],
                                     .second_file = c.fds[1],
                                     .db_progress = &progress };
    if (!rc)
        rc = admin_call(invocation, &call, &reply, err);
    if (rc)
        return rc;
    if (!invocation->common->json) {
        print_sums(reply);
        return KILN_E_OK;
    }
    db_progress_move(&progress, 0, reply, "differences");
    return output_json(reply, err);
}

const struct command command_db_diff = {
    .name = "db diff",
    .words = "A B",
    .summary = "compare two tiers, a tier and a file, or two files",
    .help =
        "A and B are each a tier (system, host, user) or a tuning file.  To name a file that is\n"
        "called like a tier, write ./user.  Prints the keys that differ, and for each key the\n"
        "solvers: only in A, only in B, or the two recorded values, A | B.  The last line and\n"
        "--json give the counts.  The exit status is 0 even if A and B differ.",
    .least_words = 2,
    .most_words = 2,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct diff_options),
    .run = run_db_diff,
};
