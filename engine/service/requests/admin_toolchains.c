/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/toolchain_waits.h"
#include "engine/service/requests/admin.h"

#include <string.h>

/* Maximum number of targets in a request. Each new target costs a compile with every toolchain of
 * its family. */
#define TARGETS_ASKED_MAX 16

static enum kiln_code probe_all(struct deferred *d, const char *text, bool *waits,
                                struct kiln_err *err)
{
    const struct toolchain_table *table = d->engine->toolchains;
    struct target target;
    enum kiln_code rc = target_parse(bytes_of_text(text), &target, err);
    for (size_t i = 0; !rc && i < toolchain_table_count(table); i++) {
        const struct toolchain *tc = toolchain_table_at(table, i);
        if (tc->family != target.family ||
            toolchain_probe_state(table, tc, &target) != PROBE_UNKNOWN)
            continue;
        rc = toolchains_probe(d, tc, &target, err);
        *waits |= rc == KILN_BUSY;
        rc = rc == KILN_BUSY ? KILN_OK : rc;
    }
    return rc;
}

static enum kiln_code ask_for_probes(struct deferred *d)
{
    const struct json *list = json_get(d->question, "probe");
    bool all = json_get_bool(d->question, "all", false), waits = false;
    enum kiln_code rc = toolchains_wait_for_description(d, &d->err);
    for (const struct json *j = json_first(list); j && !rc; j = json_next(j))
        rc = probe_all(d, json_as_text(j, ""), &waits, &d->err);
    for (size_t i = 0; all && toolchain_known_targets[i] && !rc; i++)
        rc = probe_all(d, toolchain_known_targets[i], &waits, &d->err);
    if (rc == KILN_UNAVAILABLE && waits) {
        d->err = KILN_ERR_INIT; /* the other probes start when these have ended */
        rc = KILN_OK;
    }
    return !rc && waits ? KILN_BUSY : rc;
}

struct lists {
    struct json *targets, *untried;
};

static void add_target(struct engine *e, const struct toolchain *tc, const char *text,
                       const struct lists *lists)
{
    struct target target;
    struct kiln_err ignored = KILN_ERR_INIT;
    if (target_parse(bytes_of_text(text), &target, &ignored))
        return;
    enum probe_state state = toolchain_probe_state(e->toolchains, tc, &target);
    if (target.family != tc->family || state == PROBE_UNKNOWN)
        return;
    struct json *j = json_object();
    json_set_text(j, "target", target.text);
    if (state != PROBE_NOT_NOW)
        json_set_bool(j, "works", state == PROBE_WORKS);
    if (state != PROBE_WORKS)
        json_set_text(j, "detail", toolchain_probe_detail(e->toolchains, tc, &target));
    json_append(state == PROBE_NOT_NOW ? lists->untried : lists->targets, j);
}

static struct json *toolchain_with_targets(struct engine *e, const struct toolchain *tc,
                                           const struct json *question)
{
    const struct lists lists = { .targets = json_array(), .untried = json_array() };
    if (tc->only_target[0])
        add_target(e, tc, tc->only_target, &lists);
    for (size_t i = 0; toolchain_known_targets[i]; i++)
        add_target(e, tc, toolchain_known_targets[i], &lists);
    const struct json *asked = json_get(question, "probe");
    for (const struct json *j = json_first(asked); j; j = json_next(j)) {
        bool known = strcmp(json_as_text(j, ""), tc->only_target) == 0;
        for (size_t i = 0; toolchain_known_targets[i]; i++)
            known |= strcmp(json_as_text(j, ""), toolchain_known_targets[i]) == 0;
        if (!known)
            add_target(e, tc, json_as_text(j, ""), &lists);
    }
    struct json *row = toolchain_to_json(tc);
    json_set(row, "targets", lists.targets);
    json_set(row, "untried", lists.untried);
    return row;
}

static const struct admin_member members[] = {
    { "probe", MEMBER_TEXTS },
    { "all", MEMBER_FLAG },
    { 0 },
};

static enum kiln_code answer_toolchains(struct deferred *d)
{
    const struct toolchain_table *table = d->engine->toolchains;
    struct json *rows = json_array();
    for (size_t i = 0; i < toolchain_table_count(table); i++)
        json_append(rows,
                    toolchain_with_targets(d->engine, toolchain_table_at(table, i), d->question));
    d->answer = json_object();
    json_set(d->answer, "toolchains", rows);
    deferred_end(d);
    return KILN_OK;
}

static const struct deferred_kind toolchains_kind = { .size = sizeof(struct deferred) };
static const struct toolchain_need probes_need = { .ask = ask_for_probes,
                                                   .answer = answer_toolchains };

enum kiln_code handle_toolchains(struct engine *e, struct caller *caller,
                                 const struct frame_header *header, struct bytes body,
                                 struct kiln_err *err)
{
    struct deferred *d = deferred_create(&toolchains_kind, e, caller, header->request_id, err);
    if (!d)
        return err->code;
    enum kiln_code rc = admin_read(header, body, members, &d->question, err);
    size_t count = json_count(json_get(d->question, "probe"));
    if (!rc && count > TARGETS_ASKED_MAX)
        rc = kiln_fail(err, KILN_INVALID, "the request has %zu targets; the maximum is %d", count,
                       TARGETS_ASKED_MAX);
    if (!rc)
        rc = deferred_charge(d, body.size, err);
    rc = deferred_wait_or_destroy(d, rc);
    if (!rc)
        toolchains_need(d, &probes_need, (struct bytes){ 0 });
    return rc;
}
