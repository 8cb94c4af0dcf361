/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_select.h"

#include "common/base/clock.h"

static void add_key(struct tuning_selected *s, enum tuning_kind kind, struct bytes key)
{
    struct tuning_selection *all = &s->selection;
    if (all->by_kind && all->kind != kind)
        return;
    s->selected_keys[all->key_count++] = (struct tuning_key){ kind, key };
}

/* Adds one key for each kind of database, or the only key of a record that was stored verbatim. */
static enum kiln_code add_problems(struct tuning_selected *s, const char *problem,
                                   struct kiln_err *err)
{
    enum kiln_code rc = tuning_keys_of(problem, &s->keys, err);
    if (rc)
        return rc;
    for (unsigned i = 0; i < tuning_keys_count(&s->keys); i++) {
        add_key(s, TUNING_FIND, tuning_keys_at(&s->keys, TUNING_FIND, i));
        add_key(s, TUNING_PERF, tuning_keys_at(&s->keys, TUNING_PERF, i));
    }
    return KILN_OK;
}

enum kiln_code tuning_select(const struct json *question, enum tuning_tier tier,
                             struct tuning_selected *ret_selected, struct kiln_err *err)
{
    struct tuning_selected *s = ret_selected;
    *s = (struct tuning_selected){ .selects_some = false };
    struct tuning_selection *all = &s->selection;
    *all = (struct tuning_selection){ .tier = tier,
                                      .database_id = s->database_id,
                                      .backend = s->backend,
                                      .solver = json_get_text(question, "solver", ""),
                                      .origin = json_get_text(question, "origin", ""),
                                      .keys = s->selected_keys };
    const char *problem = json_get_text(question, "problem", NULL);
    uint64_t age = json_get_u64(question, "older_than", 0), now = clock_wall_s();
    enum kiln_code rc = tuning_kind_of_question(question, &all->kind, &all->by_kind, err);
    if (!rc)
        rc = tuning_database_id_of_question(question, s->database_id, err);
    if (!rc)
        rc = tuning_backend_of_question(question, s->backend, err);
    if (rc)
        return rc;
    if (age > 0)
        all->older_than = age < now ? now - age : 1;
    s->selects_some = all->by_kind || s->database_id[0] || s->backend[0] || *all->solver ||
                      *all->origin || problem || age > 0;
    return problem ? add_problems(s, problem, err) : KILN_OK;
}

void tuning_select_uid(struct tuning_selected *selected, uint32_t uid)
{
    selected->selection.by_uid = true;
    selected->selection.uid = uid;
}
