/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/confirm.h"
#include "cli/output.h"
#include "common/base/units.h"

struct gc_options {
    struct option_number to;
    bool stale, dry_run, yes;
};

#define AT(field) offsetof(struct gc_options, field)
static const struct option options[] = {
    { "stale", 0, OPTION_FLAG, AT(stale), NULL,
      "drop kernels built by compilers that are no longer installed", 0, 0 },
    { "to", 0, OPTION_SIZE, AT(to), "SIZE",
      "drop the least valuable kernels until the store takes at most SIZE", 0, 0 },
    { "dry-run", 'n', OPTION_FLAG, AT(dry_run), NULL, "only print what would be dropped", 0, 0 },
    { "yes", 'y', OPTION_FLAG, AT(yes), NULL, "do not ask for confirmation", 0, 0 },
};
#undef AT

static int ask_daemon(const struct invocation *invocation, bool dry_run, struct json **ret_reply,
                      struct kiln_error *err)
{
    const struct gc_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    if (o->stale)
        json_set_bool(ask, "stale", true);
    if (o->to.given)
        json_set_u64(ask, "to_bytes", o->to.value);
    json_set_bool(ask, "dry_run", dry_run);
    const struct admin_call call = { ADMIN_CALL_INIT, .request = "gc", .arguments = ask };
    return admin_call(invocation, &call, ret_reply, err);
}

static int confirm_gc(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = ask_daemon(invocation, true, &reply, err);
    if (rc || json_get_u64(reply, "kernels", 0) == 0)
        return rc;
    return confirm_drop(reply, err);
}

static void print_dropped(const struct gc_options *o, const struct json *reply)
{
    char after[256], size[UNITS_TEXT_MAX], wanted[UNITS_TEXT_MAX], missed[128] = "";
    uint64_t taken = json_get_u64(reply, "store_bytes", 0);
    if (o->to.given && !o->dry_run && taken > o->to.value)
        snprintf(missed, sizeof(missed),
                 ", more than --to %s: pinned kernels and the empty file stay",
                 units_size(o->to.value, wanted));
    snprintf(after, sizeof(after), "; the store takes %s%s\n", units_size(taken, size), missed);
    confirm_say(stdout, o->dry_run ? "would drop " : "dropped ", reply, after);
}

static int run_gc(const struct invocation *invocation, struct kiln_error *err)
{
    const struct gc_options *o = invocation->options;
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = confirm_possible(o->yes, o->dry_run, err);
    if (!rc && !o->dry_run && !o->yes)
        rc = confirm_gc(invocation, err);
    if (!rc)
        rc = ask_daemon(invocation, o->dry_run, &reply, err);
    if (rc)
        return rc;
    if (invocation->common->json)
        return output_json(reply, err);
    print_dropped(o, reply);
    return KILN_E_OK;
}

const struct command command_gc = {
    .name = "gc",
    .words = "",
    .summary = "free space in the kernel store",
    .help =
        "Returns the store's unused space to the filesystem.  With --stale, first drops kernels\n"
        "built by compilers that are no longer installed.  With --to, first drops the least\n"
        "valuable kernels (quick to compile, long unused, large) until the store takes at most\n"
        "SIZE.  Pinned kernels stay.  On a terminal, kilnctl asks first; elsewhere, --yes is\n"
        "required.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct gc_options),
    .run = run_gc,
};
