/* SPDX-License-Identifier: MIT */
/* The request fleet_pull starts or stops a pull, which copies kernels of the fleet into the store.
 * The answer comes when the pull has started; the pull runs in the background. */
#include "engine/service/fleet/fleet_tier.h"
#include "engine/service/kernels/toolchain_waits.h"
#include "engine/service/requests/admin.h"

#define TARGETS_MAX 64u

static const struct admin_member pull_members[] = {
    { "targets", MEMBER_TEXTS },
    { "used", MEMBER_FLAG },
    { "bytes_max", MEMBER_COUNT },
    { "stop", MEMBER_FLAG },
    { 0 },
};

static enum kiln_code wait_for_toolchains(struct deferred *d)
{
    return toolchains_wait_for_description(d, &d->err);
}

static enum kiln_code answer_pull(struct deferred *d)
{
    bool stops = json_get_bool(d->question, "stop", false);
    const struct fleet_pull_options options = {
        .targets = json_get(d->question, "targets"),
        .pulls_used = json_get_bool(d->question, "used", false),
        .bytes_max = json_get_u64(d->question, "bytes_max", UINT64_MAX),
    };
    if (stops)
        fleet_pull_stop(d->engine);
    else
        d->rc = fleet_pull_start(d->engine, &options, &d->err);
    if (d->rc)
        return d->rc;
    d->answer = json_object();
    json_set_bool(d->answer, "started", !stops);
    deferred_end(d);
    return KILN_OK;
}

static const struct deferred_kind pull_kind = { .size = sizeof(struct deferred) };
static const struct toolchain_need pull_need = { .ask = wait_for_toolchains,
                                                 .answer = answer_pull };

enum kiln_code handle_fleet_pull(struct engine *e, struct caller *caller,
                                 const struct frame_header *header, struct bytes body,
                                 struct kiln_err *err)
{
    struct deferred *d = deferred_create(&pull_kind, e, caller, header->request_id, err);
    if (!d)
        return err->code;
    enum kiln_code rc = admin_read(header, body, pull_members, &d->question, err);
    if (!rc && json_count(json_get(d->question, "targets")) > TARGETS_MAX)
        rc = kiln_fail(err, KILN_INVALID, "the request has more than %u targets", TARGETS_MAX);
    rc = deferred_wait_or_destroy(d, rc);
    if (!rc)
        toolchains_need(d, &pull_need, (struct bytes){ 0 });
    return rc;
}
