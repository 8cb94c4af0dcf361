/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/db_progress.h"
#include "cli/kilnctl/db_words.h"
#include "cli/output.h"

struct promote_options {
    const char *database_id, *kind, *backend, *problem, *solver;
    struct option_number uid;
    bool dry_run, undo;
};

#define AT(field) offsetof(struct promote_options, field)
static const struct option options[] = {
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID",
      "only records of this device, such as gfx90a68", 0, 0 },
    { "kind", 0, OPTION_TEXT, AT(kind), "find|perf", "only FindDb, or only PerfDb", 0, 0 },
    { "backend", 0, OPTION_TEXT, AT(backend), "HIP|CUDA|OpenCL", "only FindDb of this backend", 0,
      0 },
    { "problem", 0, OPTION_TEXT, AT(problem), "PROBLEM",
      "only this problem: a MIOpenDriver line or a key", 0, 0 },
    { "solver", 0, OPTION_TEXT, AT(solver), "NAME", "only entries of this solver", 0, 0 },
    { "uid", 0, OPTION_NUMBER, AT(uid), "UID",
      "only records of this user, even if no other user measured the same", 0, UINT32_MAX - 1 },
    { "dry-run", 0, OPTION_FLAG, AT(dry_run), NULL, "only show which plans would change", 0, 0 },
    { "undo", 0, OPTION_FLAG, AT(undo), NULL,
      "restore the host's records that the last promotion changed", 0, 0 },
};
#undef AT

static const char *decider(const struct json *item, const char *name)
{
    const char *text = json_get_text(item, name, "");
    return *text ? text : "the heuristic";
}

/* Only a dry run lists the changes, because a promotion may change thousands of plans. */
static void print_change(void *context, const struct json *item)
{
    const struct promote_options *o = context;
    char user[DB_NAME_MAX];
    if (!o->dry_run)
        return;
    db_say("%s: %s of %.32s, %.400s: %.64s: %.200s -> %.200s%s", db_user_name(item, user),
           json_get_text(item, "kind", "?"), json_get_text(item, "database_id", "?"),
           json_get_text(item, "key", "?"), json_get_text(item, "solver", "?"),
           decider(item, "from"), decider(item, "to"),
           json_get_bool(item, "held", false) ? " (held)" : "");
}

static void print_user(void *context, const struct json *item)
{
    const struct promote_options *o = context;
    char user[DB_NAME_MAX], entries[DB_NAME_MAX], plans[DB_NAME_MAX];
    uint64_t all = json_get_u64(item, "entries", 0), promoted = json_get_u64(item, "promoted", 0);
    db_say("%s: %s, %llu %s, %llu held; would decide %s of others", db_user_name(item, user),
           db_count(all, "entry", entries), (unsigned long long)promoted,
           o->dry_run ? "to promote" : "promoted", (unsigned long long)(all - promoted),
           db_count(json_get_u64(item, "changes", 0), "plan", plans));
}

static void fill_request(const struct promote_options *o, struct json *ask)
{
    admin_set_text(ask, "database_id", o->database_id);
    admin_set_text(ask, "kind", o->kind);
    admin_set_text(ask, "backend", o->backend);
    admin_set_text(ask, "problem", o->problem);
    admin_set_text(ask, "solver", o->solver);
    if (o->uid.given)
        json_set_u64(ask, "uid", o->uid.value);
    if (o->dry_run)
        json_set_bool(ask, "dry_run", true);
    if (o->undo)
        json_set_bool(ask, "undo", true);
}

static void print_undone(const struct json *reply)
{
    char records[DB_NAME_MAX];
    uint64_t left = json_get_u64(reply, "left", 0);
    db_say("%s of the host restored, %llu of them removed",
           db_count(json_get_u64(reply, "records", 0), "record", records),
           (unsigned long long)json_get_u64(reply, "removed", 0));
    if (left > 0)
        db_say("%s left: changed again since the promotion", db_count(left, "record", records));
}

static void print_counts(const struct json *reply)
{
    char records[DB_NAME_MAX], conflicts[DB_NAME_MAX];
    uint64_t held = json_get_u64(reply, "held", 0);
    if (held > 0)
        db_say("%s held, because no other user measured the same: if you trust a user, give --uid",
               db_count(held, "entry", records));
    if (json_get_bool(reply, "dry_run", false))
        db_say("dry run: nothing was changed");
    db_say("%s checked: %llu added to the host's, %llu replaced, %s",
           db_count(json_get_u64(reply, "records", 0), "record", records),
           (unsigned long long)json_get_u64(reply, "added", 0),
           (unsigned long long)json_get_u64(reply, "replaced", 0),
           db_count(json_get_u64(reply, "conflicts", 0), "conflict", conflicts));
}

static int print_json(struct db_progress *progress, bool undo, struct json *reply,
                      struct kiln_error *err)
{
    static const char *const names[] = { "conflicting", "changes", "users" };
    for (size_t i = 0; i < (undo ? 1 : sizeof(names) / sizeof(names[0])); i++)
        db_progress_move(progress, i, reply, names[i]);
    return output_json(reply, err);
}

static int run_db_promote(const struct invocation *invocation, struct kiln_error *err)
{
    static const struct db_list lists[] = {
        { "conflicts", db_print_conflict, .even_with_json = false },
        { "changes", print_change, .even_with_json = false },
        { "users", print_user, .even_with_json = false },
        { NULL, NULL, false },
    };
    struct promote_options o = *(const struct promote_options *)invocation->options;
    KILN_AUTO(json) struct json *ask = json_object(), *reply = NULL;
    DB_PROGRESS_AUTO struct db_progress progress;
    db_progress_init(&progress, "promote", lists, &o, invocation->common->json);
    fill_request(&o, ask);
    const struct admin_call call = { ADMIN_CALL_INIT, .request = "tuning_promote", .arguments = ask,
                                     .db_progress = &progress };
    int rc = db_check_word("kind", o.kind, DB_KINDS, err);
    if (!rc)
        rc = admin_call(invocation, &call, &reply, err);
    if (rc)
        return rc;
    if (invocation->common->json)
        return print_json(&progress, o.undo, reply, err);
    if (o.undo)
        print_undone(reply);
    else
        print_counts(reply);
    return KILN_E_OK;
}

const struct command command_db_promote = {
    .name = "db promote",
    .words = "",
    .summary = "share what users measured with everyone on this host",
    .help =
        "Merges users' records into the host's by statistics, as 'db merge' does; the users keep\n"
        "their own.  Only records that match all given options are merged; without options, all\n"
        "are.  For administrators.\n"
        "\n"
        "A measurement is a claim, and the host's records decide plans of all users.  So an entry\n"
        "is held unless a second user measured about the same, it is your own, or you name its\n"
        "user with --uid.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct promote_options),
    .run = run_db_promote,
};
