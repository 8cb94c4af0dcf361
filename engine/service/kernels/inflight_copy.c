/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/inflight_copy.h"

#include "engine/digest/sha256.h"
#include "engine/service/budget.h"
#include "engine/service/kernels/inflight_compile.h"
#include "engine/service/kernels/inflight_deliver.h"
#include "engine/store/held_objects.h"

/* Size of the largest object that a brief task (task.is_brief) copies: this takes less than a
 * millisecond. */
#define BRIEF_MAX (1u << 20)
#define STEP_BYTES (4u << 20)

static struct digest place_of(const struct digest *key, uid_t uid)
{
    struct sha256 s;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of_text("copy"));
    sha256_put_sized(&s, bytes_of(key->bytes, DIGEST_SIZE));
    sha256_put_sized(&s, bytes_of(&uid, sizeof(uid)));
    return sha256_end(&s);
}

static void copy_work(struct task *task)
{
    struct inflight *f = inflight_of_task(task);
    f->found = object_copy_some(&f->copying, STEP_BYTES, &f->object, &f->order.task.result.err);
}

static void deliver_copy(struct inflight *f)
{
    (void)object_reserve(f->object, f->uid); /* cannot fail: no other user has the new object */
    inflight_deliver_object(f, TIER_HOT);
}

static void run_step(struct inflight *f);

static void copy_done(struct task *task)
{
    struct inflight *f = inflight_of_task(task);
    engine_task_ended(f->engine);
    if (list_is_empty(&f->tickets))
        inflight_destroy(f);
    else if (f->found)
        inflight_deliver_failure(f, &f->order.task.result.err, NULL);
    else if (f->object)
        deliver_copy(f);
    else
        run_step(f);
}

static void run_step(struct inflight *f)
{
    f->task = (struct task){ .work = copy_work,
                             .done = copy_done,
                             .is_brief = f->original->size <= BRIEF_MAX };
    engine_run(f->engine, f->uid, WORK_QUEUE_READ, &f->task);
}

/* Charges the user for a copy that takes several steps, because many such copies may be in progress
 * at the same time. */
static enum kiln_code charge_copy(struct inflight *f, struct kiln_err *err)
{
    const uint64_t bytes = f->original->size > STEP_BYTES ? f->original->size : 0;
    enum kiln_code rc = budget_take(f->engine->budget, f->uid, bytes, err);
    f->copy_charged = rc ? 0 : bytes;
    return rc;
}

enum kiln_code inflight_copy(struct engine *e, const struct digest *key, struct object *object,
                             struct fetch_ticket *ticket, struct kiln_err *err)
{
    struct digest place = place_of(key, ticket->uid);
    struct inflight *f = inflight_find(e, &place);
    if (f) {
        inflight_join_queue(f, ticket);
        return KILN_OK;
    }
    enum kiln_code rc = inflight_create(e, key, ticket, &f, err);
    if (rc)
        return rc;
    f->original = object_ref(object);
    f->copying.original = object;
    rc = charge_copy(f, err);
    if (rc) {
        inflight_destroy(f);
        return rc;
    }
    inflight_attach(f, ticket);
    inflight_enter_table(f, &place);
    f->stage = LOOKING;
    f->generation = hot_set_generation(e->hot);
    f->no_cache = !object->hot_entry; /* |object| is too large for the hot set, or was removed */
    run_step(f);
    return KILN_OK;
}
