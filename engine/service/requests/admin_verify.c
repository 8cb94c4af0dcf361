/* SPDX-License-Identifier: MIT */
/* Verifications have a group of their own. In the group of administrative requests, they would
 * delay the other requests, because a verification may take long. */
#include "engine/service/requests/admin.h"

static const struct admin_member verify_members[] = { { "name", MEMBER_TEXT }, { 0 } };

struct verify {
    struct deferred base;
    struct package_report report;
    struct json *quarantine;
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

static void verify_work(struct deferred *d)
{
    struct verify *v = (struct verify *)d;
    const char *name = json_get_text(d->question, "name", "");
    d->rc = package_set_use(d->engine->packages, name, verify_package, v, &d->err);
    /* A failure is ignored: the answer is useful even if it does not list earlier damage. */
    struct kiln_err ignored = KILN_ERR_INIT;
    if (!d->rc &&
        kernel_store_quarantine_of(d->engine->store, name, list_damage, v->quarantine, &ignored))
        return;
}

static void verify_done(struct deferred *d)
{
    struct verify *v = (struct verify *)d;
    struct json *j = d->answer;
    json_set_text(j, "name", json_get_text(d->question, "name", ""));
    json_set_u64(j, "kernels", v->report.rows);
    json_set_u64(j, "good", v->report.good);
    json_set_u64(j, "damaged", v->report.damaged);
    json_set_text(j, "first", v->report.first);
    json_set_bool(j, "file_changed", v->report.file_changed);
    json_set(j, "quarantine", KILN_TAKE(v->quarantine));
    deferred_end(d);
}

static void release_verify(struct deferred *d) { json_destroy(((struct verify *)d)->quarantine); }

static const struct deferred_kind verify_kind = { .size = sizeof(struct verify),
                                                  .release = release_verify };
static const struct deferred_step verify_step = { .work_queue = WORK_QUEUE_READ,
                                                  .work = verify_work,
                                                  .done = verify_done };

enum kiln_code handle_package_verify(struct engine *e, struct caller *caller,
                                     const struct frame_header *header, struct bytes body,
                                     struct kiln_err *err)
{
    struct verify *v = deferred_create(&verify_kind, e, caller, header->request_id, err);
    if (!v)
        return err->code;
    v->base.answer = json_object();
    v->quarantine = json_array();
    enum kiln_code rc = admin_read(header, body, verify_members, &v->base.question, err);
    if (!rc)
        rc = deferred_join(&v->base, requests_group(e->requests, GROUP_VERIFICATIONS), err);
    if (!rc)
        deferred_run(&v->base, &verify_step);
    return deferred_wait_or_destroy(&v->base, rc);
}
