/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/confirm.h"
#include "cli/output.h"
#include "common/base/units.h"

struct clear_options {
    const char *target, *name, *toolchain, *package, *database_id;
    struct option_number older_than, uid;
    bool own, all, dry_run, yes;
};

#define AT(field) offsetof(struct clear_options, field)
static const struct option options[] = {
    { "target", 0, OPTION_TEXT, AT(target), "TARGET", "kernels for this target", 0, 0 },
    { "older-than", 0, OPTION_TIME, AT(older_than), "TIME",
      "kernels unused for this long, such as 30d or 12h", 0, 0 },
    { "name", 0, OPTION_TEXT, AT(name), "NAME", "kernels of this program, such as conv3x3.s.o", 0,
      0 },
    { "uid", 0, OPTION_NUMBER, AT(uid), "UID", "kernels that this user caused to be stored", 0,
      UINT32_MAX - 1 },
    { "toolchain", 0, OPTION_TEXT, AT(toolchain), "NAME",
      "kernels built by this compiler; 'miopen': imported ones", 0, 0 },
    { "package", 0, OPTION_TEXT, AT(package), "NAME", "kernels from this package or imported file",
      0, 0 },
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID",
      "imported kernels for this device: gfx90a68, or of one MIOpen gfx90a68@2.17.0", 0, 0 },
    { "own", 0, OPTION_FLAG, AT(own), NULL,
      "kernels that you imported for yourself; works without being an administrator", 0, 0 },
    { "all", 0, OPTION_FLAG, AT(all), NULL, "every kernel", 0, 0 },
    { "dry-run", 'n', OPTION_FLAG, AT(dry_run), NULL, "only print what would be dropped", 0, 0 },
    { "yes", 'y', OPTION_FLAG, AT(yes), NULL, "do not ask for confirmation", 0, 0 },
};
#undef AT

static int ask_daemon(const struct invocation *invocation, bool dry_run, struct json **ret_reply,
                      struct kiln_error *err)
{
    const struct clear_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    admin_set_text(ask, "target", o->target);
    admin_set_text(ask, "name", o->name);
    admin_set_text(ask, "toolchain", o->toolchain);
    admin_set_text(ask, "package", o->package);
    admin_set_text(ask, "database_id", o->database_id);
    if (o->own)
        json_set_bool(ask, "own", true);
    if (o->uid.given)
        json_set_u64(ask, "uid", o->uid.value);
    if (o->older_than.given)
        json_set_u64(ask, "older_than_s", units_whole_seconds(o->older_than.value));
    if (o->all)
        json_set_bool(ask, "all", true);
    json_set_bool(ask, "dry_run", dry_run);
    return admin_ask(invocation, "clear", ask, ret_reply, err);
}

static int confirm_clear(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = ask_daemon(invocation, true, &reply, err);
    return rc ? rc : confirm_drop(reply, err);
}

static const char *first_selector(const struct clear_options *o)
{
    return o->target             ? "--target"
           : o->older_than.given ? "--older-than"
           : o->name             ? "--name"
           : o->uid.given        ? "--uid"
           : o->toolchain        ? "--toolchain"
           : o->package          ? "--package"
           : o->database_id      ? "--db-id"
           : o->own              ? "--own"
                                 : NULL;
}

static int check_choice(const struct clear_options *o, struct kiln_error *err)
{
    const char *chosen = first_selector(o);
    if (!o->all && !chosen)
        return cli_fail(err, KILN_E_INVALID,
                        "nothing is selected: give --target, --older-than, --name, --uid, "
                        "--toolchain, --package, --db-id, --own or --all");
    if (o->all && chosen)
        return cli_fail(err, KILN_E_INVALID, "--all cannot be combined with %s", chosen);
    return confirm_possible(o->yes, o->dry_run, err);
}

static int run_clear(const struct invocation *invocation, struct kiln_error *err)
{
    const struct clear_options *o = invocation->options;
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = check_choice(o, err);
    if (!rc && !o->dry_run && !o->yes)
        rc = confirm_clear(invocation, err);
    if (!rc)
        rc = ask_daemon(invocation, o->dry_run, &reply, err);
    if (rc)
        return rc;
    if (invocation->common->json)
        return output_json(reply, err);
    confirm_say(stdout, o->dry_run ? "would drop " : "dropped ", reply, "\n");
    return KILN_E_OK;
}

const struct command command_clear = {
    .name = "clear",
    .words = "",
    .summary = "drop stored kernels by target, name, user, age, toolchain, device or package",
    .help =
        "Drops the stored kernels that match all given options.  On a terminal, kilnctl asks\n"
        "first; elsewhere, --yes is required.  A dropped kernel is compiled again when it is next\n"
        "requested.  Installed packages are not affected.  To free space without choosing\n"
        "kernels, use 'kilnctl gc'.\n"
        "\n"
        "Administrators can drop any kernels.  With --own, every user can drop the kernels that\n"
        "they imported for themselves.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct clear_options),
    .run = run_clear,
};
