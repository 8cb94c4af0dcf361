/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/nap.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "common/base/clock.h"
#include "common/base/units.h"

#include <string.h>

#define SIZE_DEFAULT (1ull << 30)
#define NAP_MS 200

struct pull_options {
    const char *target;
    struct option_number size;
    bool stop;
};

#define AT(field) offsetof(struct pull_options, field)
static const struct option options[] = {
    { "target", 't', OPTION_TEXT, AT(target), "TARGET",
      "only kernels for this target (those of this host's GPUs, and that jobs used)", 0, 0 },
    { "size", 0, OPTION_SIZE, AT(size), "SIZE", "copy at most this much (1GiB)", 0, 0 },
    { "stop", 0, OPTION_FLAG, AT(stop), NULL, "end a pull that runs", 0, 0 },
};
#undef AT

static int add_devices(const struct invocation *invocation, struct json *targets,
                       struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "devices", admin_no_arguments, &reply, err);
    for (const struct json *j = json_first(json_get(reply, "devices")); j && !rc; j = json_next(j))
        json_append(targets, json_text(json_get_text(j, "target", "")));
    return rc;
}

static int start_pull(const struct invocation *invocation, struct kiln_error *err)
{
    const struct pull_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = KILN_E_OK;
    if (o->stop) {
        json_set_bool(ask, "stop", true);
    } else {
        struct json *targets = json_set_array(ask, "targets");
        if (o->target)
            json_append(targets, json_text(o->target));
        else
            rc = add_devices(invocation, targets, err);
        json_set_bool(ask, "used", !o->target);
        json_set_u64(ask, "bytes_max", o->size.given ? o->size.value : SIZE_DEFAULT);
    }
    return rc ? rc : admin_ask(invocation, "fleet_pull", ask, &reply, err);
}

static void show_progress(struct progress *progress, const struct json *pull)
{
    uint64_t failed = json_get_u64(pull, "failed", 0);
    progress->total = json_get_u64(pull, "total", 0);
    progress_update(progress,
                    json_get_u64(pull, "present", 0) + json_get_u64(pull, "fetched", 0) + failed,
                    failed, clock_monotonic_ns());
}

/* Requests kilnd's status until the pull has ended, and returns the last status. */
static int wait_for_pull(const struct invocation *invocation, struct json **ret_status,
                         struct kiln_error *err)
{
    struct progress progress;
    KILN_AUTO(json) struct json *status = NULL;
    int rc = admin_ask(invocation, "status", admin_no_arguments, &status, err);
    progress_init(&progress, stderr, "pulled", 0, clock_monotonic_ns());
    while (!rc) {
        const struct json *pull = json_get(json_get(status, "fleet"), "pull");
        if (strcmp(json_get_text(pull, "state", ""), "runs") != 0)
            break;
        show_progress(&progress, pull);
        nap_ms(NAP_MS);
        json_destroy(status);
        status = NULL;
        rc = admin_ask(invocation, "status", admin_no_arguments, &status, err);
    }
    progress_clear(&progress);
    *ret_status = KILN_TAKE(status);
    return rc;
}

static void print_result(const struct json *pull)
{
    char fetched[UNITS_TEXT_MAX], size[UNITS_TEXT_MAX];
    printf("%s copied (%s), %llu were in the store already, %llu failed\n",
           units_kernels(json_get_u64(pull, "fetched", 0), fetched),
           units_size(json_get_u64(pull, "bytes", 0), size),
           (unsigned long long)json_get_u64(pull, "present", 0),
           (unsigned long long)json_get_u64(pull, "failed", 0));
}

static int judge(const struct json *pull, struct kiln_error *err)
{
    const char *state = json_get_text(pull, "state", "?");
    if (strcmp(state, "done") == 0)
        return KILN_E_OK;
    if (strcmp(state, "limit") == 0)
        return cli_fail(err, KILN_E_FULL, "the limit of --size was reached: more kernels are left");
    if (strcmp(state, "stopped") == 0)
        return cli_fail(err, KILN_E_CANCELLED, "the pull was stopped");
    return cli_fail(err, KILN_E_UNAVAILABLE,
                    "the pull failed: 'kilnctl fleet status' shows the last error");
}

static int run_fleet_pull(const struct invocation *invocation, struct kiln_error *err)
{
    const struct pull_options *o = invocation->options;
    KILN_AUTO(json) struct json *status = NULL;
    int rc = start_pull(invocation, err);
    if (rc || o->stop)
        return rc;
    rc = wait_for_pull(invocation, &status, err);
    if (rc)
        return rc;
    const struct json *pull = json_get(json_get(status, "fleet"), "pull");
    if (invocation->common->json)
        rc = output_json(pull, err);
    else
        print_result(pull);
    return rc ? rc : judge(pull, err);
}

const struct command command_fleet_pull = {
    .name = "fleet pull",
    .words = "",
    .summary = "copy the fleet's kernels into this host's store",
    .help =
        "Copies the kernels that the fleet has for this host's GPUs, and for targets that jobs\n"
        "used, into kilnd's store, so that no job has to wait for them.  Kernels that are in the\n"
        "store are left out.  kilnd goes on if this command is interrupted; --stop ends the pull.\n"
        "For the kernels of certain problems only, use 'kilnctl prefetch', which takes them from\n"
        "the fleet, too.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct pull_options),
    .run = run_fleet_pull,
};
