/* SPDX-License-Identifier: MIT */
/* The request package_verify: as long as it takes, so not in turn with the others. */
#include "engine/service/requests/admin.h"

static const struct admin_member verify_members[] = { { "name", MEMBER_TEXT }, { 0 } };

struct verify {
    struct service_waiter waiter; /* first member */
    struct task task;
    struct engine *engine;
    struct json *question; /* owned */
    struct package_report report;
    struct json *quarantine; /* owned until it is in the answer */
    enum kiln_code rc;
    struct kiln_err err;
};

static enum kiln_code verify_package(void *context, struct package *package, struct kiln_err *err)
{
    struct verify *v = context;
    return package_check(package, /* progress= */ NULL, NULL, &v->report, err);
}

static void list_damage(void *context, const struct kernel_damage *damage)
{
    struct json *j = json_object();
    json_set_text(j, "kernel", damage->row);
    json_set_text(j, "text", damage->reason);
    json_set_u64(j, "found", damage->found);
    json_append(context, j);
}

static struct verify *verify_of_task(struct task *t)
{
    return (struct verify *)(void *)((char *)t - offsetof(struct verify, task));
}

static void verify_work(struct task *task)
{
    struct verify *v = verify_of_task(task);
    v->rc = package_set_use(v->engine->packages, json_get_text(v->question, "name", ""),
                            verify_package, v, &v->err);
    struct kiln_err ignored = KILN_ERR_INIT; /* the package is what was asked about */
    if (!v->rc &&
        kernel_store_quarantine_of(v->engine->store, json_get_text(v->question, "name", ""),
                                   list_damage, v->quarantine, &ignored))
        return;
}

static struct json *report_to_json(struct verify *v)
{
    struct json *j = json_object();
    json_set_text(j, "name", json_get_text(v->question, "name", ""));
    json_set_u64(j, "kernels", v->report.rows);
    json_set_u64(j, "good", v->report.good);
    json_set_u64(j, "damaged", v->report.damaged);
    json_set_text(j, "first", v->report.first);
    json_set_bool(j, "file_changed", v->report.file_changed);
    json_set(j, "quarantine", KILN_TAKE(v->quarantine));
    return j;
}

static void verify_done(struct task *task)
{
    struct verify *v = verify_of_task(task);
    struct engine *e = v->engine;
    engine_task_ended(e);
    e->verifying = false;
    struct caller *caller = v->waiter.caller;
    uint64_t id = v->waiter.request_id;
    service_waiter_remove(&v->waiter);
    KILN_AUTO(json) struct json *answer = report_to_json(v);
    if (caller && v->rc)
        service_refuse(e, caller, id, &v->err, NULL);
    else if (caller)
        admin_send(e, caller, id, answer, 0);
    json_destroy(v->question);
    free(v);
}

static void cancel_verify(struct service_waiter *w)
{
    service_waiter_remove(w);
} /* ends by itself */

enum kiln_code handle_package_verify(struct engine *e, struct caller *caller,
                                     const struct frame_header *header, struct bytes body,
                                     struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = admin_read(header, body, verify_members, &question, err);
    if (rc)
        return rc;
    if (e->verifying)
        return kiln_fail(err, KILN_BUSY, "a package is being verified already: ask again later");
    struct verify *v = calloc(1, sizeof(*v));
    if (!v)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request");
    v->engine = e;
    v->question = KILN_TAKE(question);
    v->quarantine = json_array();
    v->err = KILN_ERR_INIT;
    v->task = (struct task){ .work = verify_work, .done = verify_done };
    service_waiter_add(&v->waiter, e, caller, header->request_id, cancel_verify);
    e->verifying = true;
    engine_run(e, LANE_READ, &v->task);
    return KILN_OK;
}
