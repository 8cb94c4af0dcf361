/* SPDX-License-Identifier: MIT */
/* The request toolchains. */
#include "engine/service/requests/admin.h"

#include <string.h>

/* Each new target costs a compile for every toolchain of its family. */
#define TARGETS_ASKED_MAX 16

/* Starts the missing probes of |target| for every toolchain of its family. Sets |asked| if some of
 * these probes are under way. */
static enum kiln_code probe_all(struct engine *e, uid_t uid, const char *text, bool *asked,
                                struct kiln_err *err)
{
    struct target target;
    enum kiln_code rc = target_parse(bytes_of_text(text), &target, err);
    for (size_t i = 0; !rc && i < toolchain_table_count(e->toolchains); i++) {
        const struct toolchain *tc = toolchain_table_at(e->toolchains, i);
        if (tc->family != target.family ||
            toolchain_probe_state(e->toolchains, tc, &target) != PROBE_UNKNOWN)
            continue;
        rc = toolchains_probe(e, uid, tc, &target, err);
        *asked |= !rc;
    }
    return rc;
}

/* Starts the probes that the question wants. KILN_BUSY while some of them are under way. */
static enum kiln_code probe_wanted(struct engine *e, uid_t uid, const struct json *question,
                                   struct kiln_err *err)
{
    const struct json *list = json_get(question, "probe");
    if (json_count(list) > TARGETS_ASKED_MAX)
        return kiln_fail(err, KILN_INVALID, "the request has %zu targets; the maximum is %d",
                         json_count(list), TARGETS_ASKED_MAX);
    bool asked = false;
    enum kiln_code rc = KILN_OK;
    for (const struct json *j = json_first(list); j && !rc; j = json_next(j))
        rc = probe_all(e, uid, json_as_text(j, ""), &asked, err);
    bool all = json_get_bool(question, "all", false);
    for (size_t i = 0; all && toolchain_known_targets[i] && !rc; i++)
        rc = probe_all(e, uid, toolchain_known_targets[i], &asked, err);
    if (rc == KILN_UNAVAILABLE && asked) {
        *err = KILN_ERR_INIT; /* the other probes follow when these have ended */
        rc = KILN_OK;
    }
    return !rc && asked ? KILN_BUSY : rc;
}

struct lists { /* borrowed */
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

enum kiln_code handle_toolchains(struct engine *e, struct caller *caller,
                                 const struct frame_header *header, struct bytes body,
                                 struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    const char *unknown;
    enum kiln_code rc = admin_read(header, body, members, &question, err);
    if (!rc && !toolchains_described(e, &unknown)) {
        const struct toolchain *ignored = NULL;
        struct target any;
        rc = target_parse(bytes_of_text("gfx906"), &any, err);
        if (!rc)
            rc = toolchains_resolve(
                e, &(struct toolchain_question){ .uid = caller->uid, .target = &any }, &ignored,
                err);
    } else if (!rc) {
        toolchains_forget_failures(e);
        rc = probe_wanted(e, caller->uid, question, err);
    }
    if (rc == KILN_BUSY)
        return toolchains_wait(e, caller, header, body, err);
    if (rc)
        return rc;
    KILN_AUTO(json) struct json *answer = json_object();
    struct json *rows = json_array();
    for (size_t i = 0; i < toolchain_table_count(e->toolchains); i++)
        json_append(rows,
                    toolchain_with_targets(e, toolchain_table_at(e->toolchains, i), question));
    json_set(answer, "toolchains", rows);
    admin_send(e, caller, header->request_id, answer, 0);
    return KILN_OK;
}
