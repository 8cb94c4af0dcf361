/* SPDX-License-Identifier: MIT */
/* The request toolchains. */
#include "engine/service/admin.h"

#include <string.h>

/* Starts what is not known yet of |target|; every toolchain of its family is asked. */
static void probe_all(struct engine *e, const struct target *target)
{
    for (size_t i = 0; i < toolchain_table_count(e->toolchains); i++) {
        const struct toolchain *tc = toolchain_table_at(e->toolchains, i);
        if (tc->family == target->family &&
            toolchain_probe_state(e->toolchains, tc, target) == PROBE_UNKNOWN)
            toolchains_probe(e, tc, target);
    }
}

static enum kiln_code probe_wanted(struct engine *e, const struct json *question,
                                   struct kiln_err *err)
{
    struct target target;
    const struct json *list = json_get(question, "probe");
    for (const struct json *j = json_first(list); j; j = json_next(j)) {
        enum kiln_code rc = target_parse(bytes_of_text(json_as_text(j, "")), &target, err);
        if (rc)
            return rc;
        probe_all(e, &target);
    }
    bool all = json_get_bool(question, "all", false);
    for (size_t i = 0; all && toolchain_known_targets[i]; i++) {
        enum kiln_code rc = target_parse(bytes_of_text(toolchain_known_targets[i]), &target, err);
        if (rc)
            return rc;
        probe_all(e, &target);
    }
    return KILN_OK;
}

static void add_target(struct engine *e, const struct toolchain *tc, const char *text,
                       struct json *targets)
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
    json_set_bool(j, "works", state == PROBE_WORKS);
    if (state == PROBE_FAILS)
        json_set_text(j, "detail", toolchain_probe_detail(e->toolchains, tc, &target));
    json_append(targets, j);
}

static struct json *toolchain_with_targets(struct engine *e, const struct toolchain *tc,
                                           const struct json *question)
{
    struct json *targets = json_array();
    if (tc->only_target[0])
        add_target(e, tc, tc->only_target, targets);
    for (size_t i = 0; toolchain_known_targets[i]; i++)
        add_target(e, tc, toolchain_known_targets[i], targets);
    const struct json *asked = json_get(question, "probe");
    for (const struct json *j = json_first(asked); j; j = json_next(j)) {
        bool known = strcmp(json_as_text(j, ""), tc->only_target) == 0;
        for (size_t i = 0; toolchain_known_targets[i]; i++)
            known |= strcmp(json_as_text(j, ""), toolchain_known_targets[i]) == 0;
        if (!known)
            add_target(e, tc, json_as_text(j, ""), targets);
    }
    struct json *row = toolchain_to_json(tc);
    json_set(row, "targets", targets);
    return row;
}

static const struct admin_member members[] = {
    { "probe", MEMBER_TEXTS },
    { "all", MEMBER_FLAG },
    { 0 },
};

enum kiln_code handle_toolchains(struct engine *e, struct caller *caller,
                                 const struct frame_header *header, struct bytes body,
                                 struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = admin_read(header, body, members, &question, err);
    if (!rc && !e->described) {
        const struct toolchain *ignored = NULL;
        struct target any;
        rc = target_parse(bytes_of_text("gfx906"), &any, err);
        if (!rc)
            rc = toolchains_resolve(e, &any, (struct bytes){ 0 }, &ignored, err);
        return rc == KILN_BUSY ? toolchains_park(e, caller, header, body, err) : rc;
    }
    if (!rc)
        rc = probe_wanted(e, question, err);
    if (rc)
        return rc;
    if (!toolchains_settled(e))
        return toolchains_park(e, caller, header, body, err);
    KILN_AUTO(json) struct json *answer = json_object();
    struct json *rows = json_array();
    for (size_t i = 0; i < toolchain_table_count(e->toolchains); i++)
        json_append(rows,
                    toolchain_with_targets(e, toolchain_table_at(e->toolchains, i), question));
    json_set(answer, "toolchains", rows);
    admin_send(e, caller, header->request_id, answer, 0);
    return KILN_OK;
}
