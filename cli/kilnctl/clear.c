/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/output.h"
#include "cli/units.h"

#include <unistd.h>

struct clear_options {
    const char *target;
    struct option_number older_than;
    bool all, dry_run, yes;
};

#define AT(field) offsetof(struct clear_options, field)
static const struct option options[] = {
    { "target", 0, OPTION_TEXT, AT(target), "TARGET", "kernels for this target", 0, 0 },
    { "older-than", 0, OPTION_TIME, AT(older_than), "TIME",
      "kernels that nobody used for this long, such as 30d or 12h", 0, 0 },
    { "all", 0, OPTION_FLAG, AT(all), NULL, "every kernel", 0, 0 },
    { "dry-run", 'n', OPTION_FLAG, AT(dry_run), NULL, "only say what would be dropped", 0, 0 },
    { "yes", 'y', OPTION_FLAG, AT(yes), NULL, "do not ask", 0, 0 },
};
#undef AT

static int ask_daemon(const struct invocation *invocation, bool dry_run, struct json **ret_reply,
                      struct kiln_error *err)
{
    const struct clear_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    if (o->target)
        json_set_text(ask, "target", o->target);
    if (o->older_than.given)
        json_set_u64(ask, "older_than_s", units_whole_seconds(o->older_than.value));
    if (o->all)
        json_set_bool(ask, "all", true);
    json_set_bool(ask, "dry_run", dry_run);
    return admin_ask(invocation, "clear", ask, ret_reply, err);
}

static void say(FILE *out, const char *before, const struct json *reply, const char *after)
{
    char count[UNITS_TEXT_MOST], size[UNITS_TEXT_MOST];
    fprintf(out, "%s%s kernels, %s%s", before,
            units_count(json_get_u64(reply, "kernels", 0), count),
            units_size(json_get_u64(reply, "bytes", 0), size), after);
    fflush(out);
}

/* Says what is at stake and waits for the word. */
static int confirm(const struct invocation *invocation, struct kiln_error *err)
{
    char answer[16] = "";
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = ask_daemon(invocation, true, &reply, err);
    if (rc)
        return rc;
    say(stderr, "drop ", reply, "? [y/N] ");
    if (!fgets(answer, sizeof(answer), stdin) || (answer[0] != 'y' && answer[0] != 'Y'))
        return cli_fail(err, KILN_E_CANCELLED, "nothing was dropped");
    return KILN_E_OK;
}

static int check(const struct clear_options *o, struct kiln_error *err)
{
    if (!o->all && !o->target && !o->older_than.given)
        return cli_fail(err, KILN_E_INVALID,
                        "nothing chosen to drop: give --target, --older-than or --all");
    if (o->all && (o->target || o->older_than.given))
        return cli_fail(err, KILN_E_INVALID, "--all leaves nothing for %s to choose",
                        o->target ? "--target" : "--older-than");
    if (!o->dry_run && !o->yes && !(isatty(STDIN_FILENO) && isatty(STDERR_FILENO)))
        return cli_fail(err, KILN_E_INVALID,
                        "there is no terminal to ask on: add --yes to drop without being asked, or "
                        "--dry-run to see what would go");
    return KILN_E_OK;
}

static int run(const struct invocation *invocation, struct kiln_error *err)
{
    const struct clear_options *o = invocation->options;
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = check(o, err);
    if (!rc && !o->dry_run && !o->yes)
        rc = confirm(invocation, err);
    if (!rc)
        rc = ask_daemon(invocation, o->dry_run, &reply, err);
    if (rc)
        return rc;
    if (invocation->common->json)
        return output_json(reply, err);
    say(stdout, o->dry_run ? "would drop " : "dropped ", reply, "\n");
    return KILN_E_OK;
}

const struct command command_clear = {
    .name = "clear",
    .words = "",
    .summary = "drop stored kernels by target or age",
    .help = "Drops the stored kernels that match everything given.  Asks first on a terminal; "
            "elsewhere\n"
            "--yes is needed.  Dropped kernels are compiled again when somebody asks for them.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct clear_options),
    .run = run,
};
