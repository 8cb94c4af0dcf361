/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/inflight_copy.h"

#include "engine/digest/sha256.h"
#include "engine/service/kernels/inflight_compile.h"
#include "engine/service/kernels/inflight_deliver.h"
#include "engine/store/held_objects.h"

/* Copying this many bytes takes less than a millisecond. */
#define BRIEF_MAX (1u << 20)

/* The place in the table: no look-up has it, because it is computed differently. */
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
    f->found = object_copy(f->original, &f->object, &f->order.task.result.err);
}

static void deliver_copy(struct inflight *f)
{
    (void)object_reserve(f->object, f->uid); /* new, so that nobody else has it */
    inflight_deliver_object(f, TIER_HOT);
}

static void copy_done(struct task *task)
{
    struct inflight *f = inflight_of_task(task);
    engine_task_ended(f->engine);
    if (list_is_empty(&f->tickets))
        inflight_destroy(f); /* all callers left meanwhile */
    else if (f->found)
        inflight_deliver_failure(f, &f->order.task.result.err, NULL);
    else
        deliver_copy(f);
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
    inflight_attach(f, ticket);
    inflight_enter_table(f, &place);
    f->stage = LOOKING;
    f->generation = hot_set_generation(e->hot);
    f->original = object_ref(object);
    f->no_cache = !object->hot_entry; /* too large, or removed while it was looked up */
    f->task = (struct task){ .work = copy_work,
                             .done = copy_done,
                             .is_brief = object->size <= BRIEF_MAX };
    engine_run(e, f->uid, WORK_QUEUE_READ, &f->task);
    return KILN_OK;
}
