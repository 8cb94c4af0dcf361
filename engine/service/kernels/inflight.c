/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/inflight.h"

#include "engine/digest/sha256.h"
#include "engine/service/budget.h"
#include "engine/service/kernels/source.h"

#include <assert.h>

/* Bytes charged for a look-up: for its memory, and for the time that the loop needs to begin and
 * end it. */
#define LOOKUP_COST 4096u

_Static_assert(sizeof(struct inflight) <= LOOKUP_COST, "a look-up is charged for its memory");

struct inflights {
    struct hash_table by_place;
    unsigned count;
};

enum kiln_code inflights_create(struct inflights **ret_inflights, struct kiln_err *err)
{
    struct inflights *inflights = calloc(1, sizeof(*inflights));
    if (!inflights)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the table of in-flight requests");
    *ret_inflights = inflights;
    return KILN_OK;
}

void inflights_destroy(struct inflights *inflights)
{
    if (inflights)
        hash_table_done(&inflights->by_place);
    free(inflights);
}

unsigned inflights_count(const struct inflights *inflights) { return inflights->count; }

struct inflight *inflight_of_task(struct task *t)
{
    return (struct inflight *)(void *)((char *)t - offsetof(struct inflight, task));
}

struct inflight *inflight_find(struct engine *e, const struct digest *place)
{
    HASH_EACH (&e->inflights->by_place, digest_hash(place), struct inflight, by_place, f)
        if (digest_equal(&f->place, place))
            return f;
    return NULL;
}

void inflight_leave_table(struct inflight *f)
{
    hash_table_remove(&f->engine->inflights->by_place, &f->by_place);
}

void inflight_enter_table(struct inflight *f, const struct digest *place)
{
    inflight_leave_table(f);
    assert(!inflight_find(f->engine, place));
    f->place = *place;
    hash_table_add(&f->engine->inflights->by_place, &f->by_place, digest_hash(place));
}

void inflight_destroy(struct inflight *f)
{
    inflight_leave_table(f);
    f->engine->inflights->count--;
    budget_return(f->engine->budget, f->uid, LOOKUP_COST + f->copy_charged);
    compile_result_done(&f->order.task.result);
    object_unref(f->object);
    object_copying_done(&f->copying);
    object_unref(f->original);
    source_destroy(f->source);
    name_key_destroy(f->name_key);
    free(f->result);
    free(f->report);
    free(f);
}

enum kiln_code inflight_create(struct engine *e, const struct digest *asked,
                               const struct fetch_ticket *asker, struct inflight **ret_inflight,
                               struct kiln_err *err)
{
    enum kiln_code rc = budget_take(e->budget, asker->uid, LOOKUP_COST, err);
    if (rc)
        return rc;
    struct inflight *f = calloc(1, sizeof(*f));
    if (!f) {
        budget_return(e->budget, asker->uid, LOOKUP_COST);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot look up a kernel");
    }
    f->engine = e;
    f->asked = *asked;
    list_init(&f->tickets);
    f->uid = asker->uid;
    f->lookup.reader.uid = (uint32_t)asker->uid;
    f->order.task.result = COMPILE_RESULT_INIT;
    e->inflights->count++;
    *ret_inflight = f;
    return KILN_OK;
}

struct digest inflight_place(const struct digest *key, const struct fetch_options *options)
{
    struct sha256 s;
    if (!options->name && !options->only_stored)
        return *key;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of(key->bytes, DIGEST_SIZE));
    sha256_put_sized(&s, bytes_of(options->only_stored ? "1" : "0", 1));
    if (!options->name)
        return sha256_end(&s);
    sha256_put_sized(&s, options->name->database_id);
    sha256_put_sized(&s, options->name->name);
    sha256_put_sized(&s, options->name->args);
    sha256_put_sized(&s, options->name->target);
    return sha256_end(&s);
}

void inflight_attach(struct inflight *f, struct fetch_ticket *t)
{
    t->inflight = f;
    list_prepend(&f->tickets, &t->waiting);
}

void inflight_detach(struct fetch_ticket *t)
{
    list_remove(&t->waiting);
    t->inflight = NULL;
}
