/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/confirm.h"
#include "cli/output.h"
#include "common/units.h"

struct gc_options {
    struct option_number to;
    bool stale, dry_run, yes;
};

#define AT(field) offsetof(struct gc_options, field)
static const struct option options[] = {
    { "stale", 0, OPTION_FLAG, AT(stale), NULL, "drop kernels of compilers that are no longer here",
      0, 0 },
    { "to", 0, OPTION_SIZE, AT(to), "SIZE", "drop what is worth least until this much is left", 0,
      0 },
    { "dry-run", 'n', OPTION_FLAG, AT(dry_run), NULL, "only say what would be dropped", 0, 0 },
    { "yes", 'y', OPTION_FLAG, AT(yes), NULL, "do not ask", 0, 0 },
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

/* Nothing to lose is nothing to ask about. */
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
                 ", more than --to %s: what is pinned stays, "
                 "and the empty file",
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
    .summary = "make room in the kernel store",
    .help =
        "Gives the store's free space back to the filesystem.  With --stale, first drops what "
        "compilers\n"
        "made that are no longer here; with --to, what is worth least (cheap to make again, "
        "long not\n"
        "used, large) until the store takes no more than SIZE, beside the few megabytes that it "
        "keeps free\n"
        "for this on a full disk.  Pinned kernels stay.  Asks first on a terminal; elsewhere "
        "--yes is needed.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct gc_options),
    .run = run_gc,
};
