/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/db_words.h"
#include "cli/output.h"

struct promote_options {
    const char *target, *program, *toolchain;
    struct option_number uid;
    bool dry_run, undo;
};

#define AT(field) offsetof(struct promote_options, field)
static const struct option options[] = {
    { "uid", 0, OPTION_NUMBER, AT(uid), "UID",
      "only compiles of this user, even if no other user got the same result", 0, UINT32_MAX - 1 },
    { "target", 0, OPTION_TEXT, AT(target), "TARGET", "only compiles for this target", 0, 0 },
    { "program", 0, OPTION_TEXT, AT(program), "NAME",
      "only compiles of this program, as 'kernel ls' shows it", 0, 0 },
    { "toolchain", 0, OPTION_TEXT, AT(toolchain), "NAME",
      "only compiles by this compiler, such as 'nvrtc 13.0'", 0, 0 },
    { "dry-run", 'n', OPTION_FLAG, AT(dry_run), NULL, "only show what would change", 0, 0 },
    { "undo", 0, OPTION_FLAG, AT(undo), NULL, "take promotions back: all, or the selected ones", 0,
      0 },
};
#undef AT

static void fill_request(const struct promote_options *o, struct json *ask)
{
    admin_set_text(ask, "target", o->target);
    admin_set_text(ask, "program", o->program);
    admin_set_text(ask, "toolchain", o->toolchain);
    if (o->uid.given)
        json_set_u64(ask, "uid", o->uid.value);
    if (o->dry_run)
        json_set_bool(ask, "dry_run", true);
    if (o->undo)
        json_set_bool(ask, "undo", true);
}

static void print_user(const struct json *user, const struct promote_options *o)
{
    char name[DB_NAME_MAX], compiles[DB_NAME_MAX];
    db_count(json_get_u64(user, "compiles", 0), "compile", compiles);
    if (o->undo)
        db_say("%s: %s %s", db_user_name(user, name), compiles,
               o->dry_run ? "to take back" : "taken back");
    else
        db_say("%s: %s, %llu %s, %llu held", db_user_name(user, name), compiles,
               (unsigned long long)json_get_u64(user, "promoted", 0),
               o->dry_run ? "to promote" : "promoted",
               (unsigned long long)json_get_u64(user, "held", 0));
}

static void print_undone(const struct json *reply, const struct promote_options *o)
{
    char compiles[DB_NAME_MAX];
    db_say("%s %s", db_count(json_get_u64(reply, "compiles", 0), "compile", compiles),
           o->dry_run ? "to take back" : "taken back: they no longer answer other users");
}

static void print_promoted(const struct json *reply, const struct promote_options *o)
{
    char held[DB_NAME_MAX], compiles[DB_NAME_MAX], replaced[DB_NAME_MAX];
    if (json_get_u64(reply, "held", 0) > 0)
        db_say("%s held, because no other user got the same result: if you trust a user, give "
               "--uid",
               db_count(json_get_u64(reply, "held", 0), "compile", held));
    db_say("%s %s, of which %s %s an earlier promotion",
           db_count(json_get_u64(reply, "promoted", 0), "compile", compiles),
           o->dry_run ? "to promote" : "now answered for all users",
           db_count(json_get_u64(reply, "replaced", 0), "result", replaced),
           o->dry_run ? "would replace" : "replaced");
}

static void print_total(const struct json *reply, const struct promote_options *o)
{
    if (o->undo)
        print_undone(reply, o);
    else
        print_promoted(reply, o);
    if (o->dry_run)
        db_say("dry run: nothing was changed");
}

static int run_promote(const struct invocation *invocation, struct kiln_error *err)
{
    const struct promote_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object(), *reply = NULL;
    fill_request(o, ask);
    int rc = admin_ask(invocation, "kernel_promote", ask, &reply, err);
    if (rc)
        return rc;
    if (invocation->common->json)
        return output_json(reply, err);
    for (const struct json *j = json_first(json_get(reply, "users")); j; j = json_next(j))
        print_user(j, o);
    print_total(reply, o);
    return KILN_E_OK;
}

const struct command command_kernel_promote = {
    .name = "kernel promote",
    .words = "",
    .summary = "let results of users' own compiles answer everyone on this host",
    .help =
        "A program that runs by 'kilnctl run' stores what its NVRTC, hiprtc or comgr returned.\n"
        "Such a result answers only the user who stored it, because kilnd cannot check it.  This\n"
        "command lets it answer all users.  Only compiles that match all given options are\n"
        "promoted; without options, all are.  For administrators.\n"
        "\n"
        "A result is code that then runs in other users' jobs.  So it is held unless a second "
        "user\n"
        "got the same bytes for the same compile, it is your own, or you name its user with "
        "--uid.\n"
        "Name only users whom you would let run code in every job.\n"
        "\n"
        "Users keep their own results, and --undo removes only the promoted ones.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct promote_options),
    .run = run_promote,
};
