/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_parts.h"

#include "common/base/array.h"
#include "engine/tuning/tuning_record.h"

#include <string.h>

/* Maximum number of records of the problem's family that a search examines. */
#define RELATIVES_MAX 20000u
/* A search of the user or host tier ends after this many records whose entries are all stale. */
#define STALE_RELATIVES_MAX 256u

static bool is_other(const char *theirs, const char *ours)
{
    return theirs && *theirs && ours && *ours && strcmp(theirs, ours) != 0;
}

bool tuning_is_stale(const struct tuning_origin *origin, const char *driver, const char *toolchain)
{
    return is_other(origin->driver, driver) || is_other(origin->toolchain, toolchain);
}

static bool is_stale(const struct tuning_row *row, const struct tuning_question *q)
{
    return tuning_is_stale(&row->measured.origin, q->driver, q->toolchain);
}

static void put_entry(struct buffer *to, struct bytes id, struct bytes values)
{
    if (to->size > 0)
        buffer_put(to, ";", 1);
    buffer_put(to, id.data, id.size);
    buffer_put(to, ":", 1);
    buffer_put(to, values.data, values.size);
}

/* Reduces the answer to the entries of |held| that are not stale. Returns false if all entries are
 * stale, or if memory runs out. */
static bool keep_fresh(struct scratch *s, const struct tuning_question *q,
                       const struct tuning_held *held, struct tuning_answer *answer)
{
    if (s->kept_max < held->row_count) {
        struct tuning_row *more = realloc(s->kept, held->row_count * sizeof(*more));
        if (!more)
            return false;
        s->kept = more;
        s->kept_max = held->row_count;
    }
    size_t kept = 0;
    buffer_clear(&s->fresh);
    for (size_t i = 0; i < held->row_count; i++) {
        if (is_stale(&held->rows[i], q))
            continue;
        s->kept[kept++] = held->rows[i];
        put_entry(&s->fresh, held->rows[i].id, held->rows[i].values);
    }
    s->left_some_out = true;
    answer->rows = s->kept;
    answer->row_count = kept;
    answer->value = buffer_view(&s->fresh);
    return kept > 0 && !s->fresh.failed;
}

static bool answer_held(struct scratch *s, const struct tuning_question *q,
                        const struct tuning_held *held, struct tuning_answer *answer)
{
    *answer = (struct tuning_answer){
        .tier = held->place.tier,
        .database_id = held->place.database_id,
        .key = held->place.key,
        .value = held->value,
        .rows = held->rows,
        .row_count = held->row_count,
        .batch_ratio = 1,
        .spatial_ratio = 1,
    };
    for (size_t i = 0; i < held->row_count && !answer->is_stale; i++)
        answer->is_stale = is_stale(&held->rows[i], q);
    if (!answer->is_stale || s->stale != TUNING_IGNORE)
        return true;
    answer->is_stale = false;
    return keep_fresh(s, q, held, answer);
}

static const char *backend_of(const struct tuning_question *q)
{
    return tuning_backend(q->kind, q->database_id, q->backend);
}

static struct tuning_place place_of(const struct tuning_question *q, enum tuning_tier tier,
                                    struct bytes key)
{
    return (struct tuning_place){ .tier = tier,
                                  .uid = tier == TUNING_TIER_USER ? q->uid : TUNING_NOBODY,
                                  .kind = q->kind,
                                  .database_id = q->database_id,
                                  .backend = backend_of(q),
                                  .key = key };
}

struct lookup {
    struct tuning *tuning;
    struct scratch *scratch;
    const struct tuning_question *question;
};

static bool find_in_system(const struct lookup *l, struct bytes key, struct tuning_answer *answer)
{
    const struct tuning_question *q = l->question;
    struct system_slot *slot = system_slot_for(l->tuning, q->kind, q->database_id, backend_of(q));
    struct bytes value;
    if (!slot || !tuning_index_find(slot->index, key, &value))
        return false;
    *answer = (struct tuning_answer){ .tier = TUNING_TIER_SYSTEM,
                                      .database_id = slot->file.database_id,
                                      .key = key,
                                      .value = value,
                                      .batch_ratio = 1,
                                      .spatial_ratio = 1 };
    return true;
}

static bool find_in_tier(const struct lookup *l, enum tuning_tier tier, struct bytes key,
                         struct tuning_answer *answer)
{
    const struct tuning *t = l->tuning;
    if ((tier == TUNING_TIER_SYSTEM && t->without_system) ||
        (tier == TUNING_TIER_USER && t->without_user))
        return false;
    if (tier == TUNING_TIER_SYSTEM)
        return find_in_system(l, key, answer);
    if (tuning_table_count(t->table, tier) == 0)
        return false;
    struct tuning_place place = place_of(l->question, tier, key);
    const struct tuning_held *held = tuning_table_find(t->table, &place);
    return held && answer_held(l->scratch, l->question, held, answer);
}

/* Adds the row of the entry that was joined last. Entries of the system tier come last and have no
 * rows. */
static bool join_row(struct scratch *s, const struct tuning_row *row)
{
    if (!ARRAY_RESERVE(s->joined_rows, s->joined_count, s->joined_max, TUNING_ENTRIES_MAX))
        return false;
    s->joined_rows[s->joined_count++] = *row;
    return true;
}

static bool is_among(const struct tuning_row *rows, size_t count, struct bytes id)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes_equal(rows[i].id, id))
            return true;
    }
    return false;
}

/* Appends entries of the system tier that the joined value does not have yet. */
static void add_missing_entries(struct scratch *s, struct bytes lower)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct tuning_entry entry;
    while (tuning_entry_next(TUNING_PERF, &lower, &entry, &ignored) == KILN_OK) {
        if (!is_among(s->joined_rows, s->joined_count, entry.id))
            put_entry(&s->joined, entry.id, entry.values);
    }
}

/* Appends measured entries that the joined value does not have yet, with their measurements. */
static bool add_missing_rows(struct scratch *s, const struct tuning_question *q,
                             const struct tuning_answer *lower, struct tuning_answer *top)
{
    size_t before = s->joined_count;
    for (size_t i = 0; i < lower->row_count; i++) {
        const struct tuning_row *row = &lower->rows[i];
        if (is_among(s->joined_rows, before, row->id))
            continue;
        put_entry(&s->joined, row->id, row->values);
        top->is_stale |= is_stale(row, q);
        if (!join_row(s, row))
            return false;
    }
    return true;
}

/* Copies |top|'s value and rows, because the next tier may overwrite their scratch memory. */
static bool join_begin(struct scratch *s, const struct tuning_answer *top)
{
    buffer_clear(&s->joined);
    s->joined_count = 0;
    buffer_put(&s->joined, top->value.data, top->value.size);
    for (size_t i = 0; i < top->row_count; i++) {
        if (!join_row(s, &top->rows[i]))
            return false;
    }
    return !s->joined.failed;
}

/* Adds the entries of lower tiers to |top|. If memory runs out, |top| stays as it is. */
static void join_lower(const struct lookup *l, struct bytes key, struct tuning_answer *top)
{
    struct scratch *s = l->scratch;
    struct tuning_answer lower;
    bool may_be_lost = top->rows == s->kept; /* looking in a lower tier may overwrite these rows */
    if (!join_begin(s, top))
        return;
    bool has_all = true;
    for (enum tuning_tier tier = top->tier - 1; has_all && tier >= TUNING_TIER_SYSTEM; tier--) {
        if (!find_in_tier(l, tier, key, &lower))
            continue;
        if (tier == TUNING_TIER_SYSTEM)
            add_missing_entries(s, lower.value);
        else
            has_all = add_missing_rows(s, l->question, &lower, top);
    }
    bool is_joined = s->joined.size > top->value.size;
    if ((!is_joined && !may_be_lost) || s->joined.failed)
        return;
    top->value = buffer_view(&s->joined);
    top->rows = s->joined_rows;
    top->row_count = s->joined_count;
}

struct search {
    const struct lookup *lookup;
    struct system_slot *slot;
    struct kinship wanted;
    enum family family;
    unsigned seen, stale;
    bool found;
    double batch_ratio, spatial_ratio;
    struct tuning_answer best;
};

static double size_ratio(uint64_t a, uint64_t b)
{
    if (a == 0 || b == 0)
        return 0;
    return a > b ? (double)a / (double)b : (double)b / (double)a;
}

static bool is_nearer(const struct search *s, double batch, double spatial)
{
    if (!s->found || spatial != s->spatial_ratio)
        return !s->found || spatial < s->spatial_ratio;
    return batch < s->batch_ratio;
}

static bool consider_kin(struct search *s, const struct kinship *kin, double *ret_batch,
                         double *ret_spatial)
{
    *ret_batch = size_ratio(kin->batch, s->wanted.batch);
    *ret_spatial = size_ratio(kin->volume, s->wanted.volume);
    return ++s->seen <= RELATIVES_MAX && *ret_batch > 0 && *ret_spatial > 0 &&
           is_nearer(s, *ret_batch, *ret_spatial);
}

static bool consider_record(void *context, const struct tuning_index_record *record)
{
    struct search *s = context;
    double batch, spatial;
    if (!consider_kin(s, &record->kin, &batch, &spatial))
        return s->seen <= RELATIVES_MAX;
    s->found = true;
    s->batch_ratio = batch;
    s->spatial_ratio = spatial;
    s->best = (struct tuning_answer){ .tier = TUNING_TIER_SYSTEM,
                                      .database_id = s->slot->file.database_id,
                                      .key = record->key,
                                      .value = record->value };
    return true;
}

/* Returns false to end the walk: if |held| can be used, if |held| is not nearer than |best| from an
 * earlier tier, or if a limit is reached. */
static bool consider_held(void *context, const struct tuning_held *held)
{
    struct search *s = context;
    double batch, spatial;
    struct tuning_answer answer;
    if (!consider_kin(s, &held->kin, &batch, &spatial))
        return false;
    if (!answer_held(s->lookup->scratch, s->lookup->question, held, &answer))
        return ++s->stale < STALE_RELATIVES_MAX;
    /* The scratch memory may be overwritten, so find_near looks up the best record again. */
    s->found = true;
    s->batch_ratio = batch;
    s->spatial_ratio = spatial;
    s->best = answer;
    return false;
}

/* Searches one family in the user, host and system tiers, in this order. Of two equally near
 * records, the first one wins. */
static void search_family(struct search *s)
{
    struct tuning *t = s->lookup->tuning;
    const struct tuning_question *q = s->lookup->question;
    const struct tuning_relatives relatives = { &s->wanted, s->family };
    struct bytes name = s->wanted.families[s->family];
    for (enum tuning_tier tier = TUNING_TIER_USER; tier > TUNING_TIER_SYSTEM; tier--) {
        struct tuning_place place = place_of(q, tier, (struct bytes){ 0 });
        if (tier != TUNING_TIER_USER || !t->without_user)
            tuning_table_near(t->table, &place, relatives, consider_held, s);
    }
    s->slot = t->without_system ? NULL : system_slot_for(t, q->kind, q->database_id, backend_of(q));
    if (s->slot)
        tuning_index_family(s->slot->index, name, consider_record, s);
}

/* Finds the nearest record of the problem's families. Derives the families from |key| and not from
 * the problem, because different problems may have the same PerfDb key. */
static bool find_near(const struct lookup *l, struct bytes key, struct tuning_answer *ret_answer)
{
    struct family_names names;
    const enum tuning_kind kind = l->question->kind;
    struct search s = { .lookup = l, .wanted = kinship_of_key(kind, key, &names) };
    for (s.family = FAMILY_BATCH; s.family < FAMILIES && !s.found; s.family++) {
        if (s.wanted.families[s.family].size > 0)
            search_family(&s);
    }
    if (!s.found)
        return false;
    struct bytes near = s.best.key;
    if (s.best.tier != TUNING_TIER_SYSTEM && !find_in_tier(l, s.best.tier, near, &s.best))
        return false;
    if (kind == TUNING_PERF && s.best.tier != TUNING_TIER_SYSTEM)
        join_lower(l, near, &s.best);
    s.best.is_near = true;
    s.best.batch_ratio = s.batch_ratio;
    s.best.spatial_ratio = s.spatial_ratio;
    l->scratch->near++;
    *ret_answer = s.best;
    return true;
}

static void count_hit(struct scratch *s, const struct tuning_answer *answer)
{
    s->hits[answer->tier - TUNING_TIER_SYSTEM]++;
    s->stale_hits += answer->is_stale && s->stale != TUNING_TRUST;
}

/* Returns an empty key if a key of this kind cannot express the problem. */
static struct bytes key_of(struct scratch *s, const struct tuning_question *q)
{
    if (!q->problem)
        return q->key;
    size_t size = q->kind == TUNING_FIND ? find_key_write(q->problem, s->key)
                                         : perf_key_write(q->problem, s->key);
    return bytes_of(s->key, size);
}

enum kiln_code find_with(struct tuning *t, struct scratch *s, const struct tuning_question *q,
                         struct tuning_answer *ret_answer, struct kiln_err *err)
{
    if (q->problem && problem_check(q->problem, err) != KILN_OK)
        return err->code;
    const struct lookup l = { .tuning = t, .scratch = s, .question = q };
    struct bytes key = key_of(s, q);
    bool found = false;
    s->left_some_out = false;
    for (enum tuning_tier tier = TUNING_TIER_USER;
         key.size > 0 && tier >= TUNING_TIER_SYSTEM && !found; tier--)
        found = find_in_tier(&l, tier, key, ret_answer);
    if (found && q->kind == TUNING_PERF && ret_answer->tier > TUNING_TIER_SYSTEM)
        join_lower(&l, key, ret_answer);
    if (!found && q->nearest && key.size > 0)
        found = find_near(&l, key, ret_answer);
    s->ignored += s->left_some_out;
    if (!found) {
        s->misses++;
        return KILN_NOT_FOUND;
    }
    count_hit(s, ret_answer);
    return KILN_OK;
}

enum kiln_code tuning_find(struct tuning *t, const struct tuning_question *q,
                           struct tuning_answer *ret_answer, struct kiln_err *err)
{
    return find_with(t, &t->scratch, q, ret_answer, err);
}

bool tuning_find_tier(struct tuning *t, const struct tuning_question *q, enum tuning_tier tier,
                      struct tuning_answer *ret_answer)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    if (q->problem && problem_check(q->problem, &ignored) != KILN_OK)
        return false;
    const struct lookup l = { .tuning = t, .scratch = &t->scratch, .question = q };
    struct bytes key = key_of(&t->scratch, q);
    return key.size > 0 && find_in_tier(&l, tier, key, ret_answer);
}

unsigned tuning_find_all(struct tuning *t, const struct tuning_question *q,
                         struct tuning_answer ret_answers[3])
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct scratch *s = &t->scratch;
    if (q->problem && problem_check(q->problem, &ignored) != KILN_OK)
        return 0;
    const struct lookup l = { .tuning = t, .scratch = s, .question = q };
    struct bytes key = key_of(s, q);
    unsigned count = 0;
    enum tuning_stale stale = s->stale;
    /* With TUNING_TRUST, look-ups return stale entries, too. So no answer is in scratch memory,
     * where the look-up in the next tier would overwrite it. */
    s->stale = TUNING_TRUST;
    for (enum tuning_tier tier = TUNING_TIER_USER; key.size > 0 && tier >= TUNING_TIER_SYSTEM;
         tier--) {
        if (find_in_tier(&l, tier, key, &ret_answers[count]))
            count++;
    }
    s->stale = stale;
    return count;
}
