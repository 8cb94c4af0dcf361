/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_table.h"

#include "common/base/list.h"
#include "engine/tuning/kin_order.h"
#include "engine/tuning/shared_texts.h"

#include <string.h>

#define TIERS (TUNING_TIER_USER + 1)

struct owner {
    struct hash_link link;
    uint32_t uid;
    uint64_t records;
};

struct tuning_table {
    struct hash_table by_place, owners;
    struct kin_order kin;
    struct shared_texts texts;
    struct hash_key key;
    uint64_t counts[TIERS];
    uint64_t bytes;
};

struct held_record { /* rows and texts are in the same allocation */
    struct hash_link by_place;
    struct kin_link relations[FAMILIES];
    struct tuning_held held;
    struct owner *owner; /* NULL outside the user tier */
    size_t size;
    struct tuning_row rows[];
};

enum kiln_code tuning_table_create(struct tuning_table **ret_table, struct kiln_err *err)
{
    KILN_AUTO(tuning_table) struct tuning_table *t = calloc(1, sizeof(*t));
    if (!t)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the table of tuning records");
    enum kiln_code rc = hash_key_draw(&t->key, err);
    if (rc)
        return rc;
    shared_texts_init(&t->texts, &t->key);
    *ret_table = KILN_TAKE(t);
    return KILN_OK;
}

static const char *text_of(const char *text) { return text ? text : ""; }

static struct tuning_place in_full(const struct tuning_place *place)
{
    struct tuning_place full = *place;
    full.database_id = text_of(place->database_id);
    full.backend = text_of(place->backend);
    if (place->tier != TUNING_TIER_USER)
        full.uid = TUNING_NOBODY;
    return full;
}

static bool is_same_group(const struct tuning_place *a, const struct tuning_place *b)
{
    return a->tier == b->tier && a->uid == b->uid && a->kind == b->kind &&
           strcmp(a->database_id, b->database_id) == 0 && strcmp(a->backend, b->backend) == 0;
}

static uint64_t hash_in_group(const struct tuning_table *t, const struct tuning_place *full,
                              struct bytes name)
{
    uint64_t parts[] = { full->tier,
                         full->uid,
                         full->kind,
                         keyed_hash(bytes_of_text(full->database_id), &t->key),
                         keyed_hash(bytes_of_text(full->backend), &t->key),
                         keyed_hash(name, &t->key) };
    return keyed_hash(bytes_of(parts, sizeof(parts)), &t->key);
}

static struct held_record *find_record(const struct tuning_table *t,
                                       const struct tuning_place *full)
{
    uint64_t hash = hash_in_group(t, full, full->key);
    HASH_EACH (&t->by_place, hash, struct held_record, by_place, r)
        if (bytes_equal(r->held.place.key, full->key) && is_same_group(&r->held.place, full))
            return r;
    return NULL;
}

static uint64_t hash_uid(const struct tuning_table *t, uint32_t uid)
{
    return keyed_hash(bytes_of(&uid, sizeof(uid)), &t->key);
}

static struct owner *find_owner(const struct tuning_table *t, uint32_t uid)
{
    HASH_EACH (&t->owners, hash_uid(t, uid), struct owner, link, owner)
        if (owner->uid == uid)
            return owner;
    return NULL;
}

static struct owner *take_owner(struct tuning_table *t, uint32_t uid)
{
    struct owner *owner = find_owner(t, uid);
    if (!owner) {
        owner = calloc(1, sizeof(*owner));
        if (!owner)
            return NULL;
        owner->uid = uid;
        hash_table_add(&t->owners, &owner->link, hash_uid(t, uid));
    }
    owner->records++;
    return owner;
}

static void give_back_owner(struct tuning_table *t, struct owner *owner)
{
    if (!owner || --owner->records > 0)
        return;
    hash_table_remove(&t->owners, &owner->link);
    free(owner);
}

static void give_back_origin(struct tuning_table *t, const struct tuning_origin *o)
{
    shared_texts_give_back(&t->texts, o->device_uuid);
    shared_texts_give_back(&t->texts, o->device);
    shared_texts_give_back(&t->texts, o->driver);
    shared_texts_give_back(&t->texts, o->toolchain);
    shared_texts_give_back(&t->texts, o->library);
}

/* Frees a record. In a partly built one, the missing parts must be NULL. */
static void record_free(struct tuning_table *t, struct held_record *r)
{
    for (size_t i = 0; i < r->held.row_count; i++)
        give_back_origin(t, &r->rows[i].measured.origin);
    shared_texts_give_back(&t->texts, r->held.place.database_id);
    shared_texts_give_back(&t->texts, r->held.place.backend);
    give_back_owner(t, r->owner);
    free(r);
}

static bool take_origin(struct tuning_table *t, const struct tuning_origin *from,
                        struct tuning_origin *to)
{
    to->device_uuid = shared_texts_take(&t->texts, from->device_uuid);
    to->device = shared_texts_take(&t->texts, from->device);
    to->driver = shared_texts_take(&t->texts, from->driver);
    to->toolchain = shared_texts_take(&t->texts, from->toolchain);
    to->library = shared_texts_take(&t->texts, from->library);
    to->clock_mhz = from->clock_mhz;
    return to->device_uuid && to->device && to->driver && to->toolchain && to->library;
}

static struct bytes append_bytes(uint8_t **at, struct bytes part)
{
    struct bytes copy = bytes_of(*at, part.size);
    if (part.size)
        memcpy(*at, part.data, part.size);
    *at += part.size;
    return copy;
}

static size_t value_size(const struct tuning_row *rows, size_t count)
{
    size_t size = count - 1; /* a ';' between any two entries */
    for (size_t i = 0; i < count; i++)
        size += rows[i].id.size + 1 + rows[i].values.size;
    return size;
}

static void append_value(struct held_record *r, const struct tuning_row *rows, uint8_t **at)
{
    const uint8_t *begin = *at;
    for (size_t i = 0; i < r->held.row_count; i++) {
        if (i > 0)
            append_bytes(at, bytes_of(";", 1));
        r->rows[i].id = append_bytes(at, rows[i].id);
        append_bytes(at, bytes_of(":", 1));
        r->rows[i].values = append_bytes(at, rows[i].values);
    }
    r->held.value = bytes_of(begin, (size_t)(*at - begin));
}

static struct held_record *record_alloc(const struct tuning_place *full,
                                        const struct tuning_row *rows, size_t count)
{
    struct family_names names;
    struct kinship kin = kinship_of_key(full->kind, full->key, &names);
    size_t size = sizeof(struct held_record) + count * sizeof(*rows) + full->key.size +
                  value_size(rows, count);
    for (int f = 0; f < FAMILIES; f++)
        size += kin.families[f].size;
    struct held_record *r = calloc(1, size);
    if (!r)
        return NULL;
    r->size = size;
    r->held =
        (struct tuning_held){ .place = *full, .rows = r->rows, .row_count = count, .kin = kin };
    r->held.place.database_id = r->held.place.backend = NULL;
    uint8_t *at = (uint8_t *)(r->rows + count);
    r->held.place.key = append_bytes(&at, full->key);
    append_value(r, rows, &at);
    for (int f = 0; f < FAMILIES; f++)
        r->held.kin.families[f] = append_bytes(&at, kin.families[f]);
    return r;
}

static struct held_record *record_make(struct tuning_table *t, const struct tuning_place *full,
                                       const struct tuning_row *rows, size_t count)
{
    struct held_record *r = record_alloc(full, rows, count);
    if (!r)
        return NULL;
    r->held.place.database_id = shared_texts_take(&t->texts, full->database_id);
    r->held.place.backend = shared_texts_take(&t->texts, full->backend);
    bool is_owned = full->tier == TUNING_TIER_USER;
    r->owner = is_owned ? take_owner(t, full->uid) : NULL;
    bool ok = r->held.place.database_id && r->held.place.backend && (r->owner || !is_owned);
    for (size_t i = 0; i < count && ok; i++) {
        r->rows[i].place = r->held.place;
        struct tuning_origin origin = { 0 };
        ok = take_origin(t, &rows[i].measured.origin, &origin);
        r->rows[i].measured = rows[i].measured;
        r->rows[i].measured.origin = origin;
    }
    if (ok)
        return r;
    record_free(t, r);
    return NULL;
}

static void leave_families(struct tuning_table *t, struct held_record *r)
{
    for (int f = 0; f < FAMILIES; f++) {
        if (r->held.kin.families[f].size)
            kin_order_remove(&t->kin, &r->relations[f]);
    }
}

/* If memory runs out, returns false and leaves the record in no family. */
static bool join_families(struct tuning_table *t, struct held_record *r)
{
    bool ok = true;
    for (int f = 0; f < FAMILIES; f++) {
        struct bytes name = r->held.kin.families[f];
        r->relations[f] = (struct kin_link){ .family = hash_in_group(t, &r->held.place, name),
                                             .volume = r->held.kin.volume,
                                             .batch = r->held.kin.batch };
        ok = ok && (!name.size || kin_order_add(&t->kin, &r->relations[f]));
    }
    if (!ok)
        leave_families(t, r);
    return ok;
}

static void record_add(struct tuning_table *t, struct held_record *r)
{
    const struct tuning_place *place = &r->held.place;
    hash_table_add(&t->by_place, &r->by_place, hash_in_group(t, place, place->key));
    t->counts[place->tier]++;
    t->bytes += r->size;
}

static void record_remove(struct tuning_table *t, struct held_record *r)
{
    hash_table_remove(&t->by_place, &r->by_place);
    leave_families(t, r);
    t->counts[r->held.place.tier]--;
    t->bytes -= r->size;
    record_free(t, r);
}

void tuning_table_destroy(struct tuning_table *t)
{
    if (!t)
        return;
    HASH_ALL (&t->by_place, struct held_record, by_place, r)
        record_remove(t, r);
    hash_table_done(&t->by_place);
    hash_table_done(&t->owners);
    shared_texts_done(&t->texts);
    free(t);
}

enum kiln_code tuning_table_put(struct tuning_table *t, const struct tuning_place *place,
                                const struct tuning_row *rows, size_t count, struct kiln_err *err)
{
    struct tuning_place full = in_full(place);
    if (full.tier != TUNING_TIER_HOST && full.tier != TUNING_TIER_USER)
        return kiln_fail(err, KILN_INVALID, "only the host and user tiers hold measured records");
    struct held_record *fresh = count ? record_make(t, &full, rows, count) : NULL;
    if (fresh && !join_families(t, fresh)) {
        record_free(t, fresh);
        fresh = NULL;
    }
    if (count && !fresh)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a tuning record of %zu entries",
                         count);
    struct held_record *old = find_record(t, &full);
    if (old)
        record_remove(t, old);
    if (fresh)
        record_add(t, fresh);
    return KILN_OK;
}

const struct tuning_held *tuning_table_find(const struct tuning_table *t,
                                            const struct tuning_place *place)
{
    struct tuning_place full = in_full(place);
    const struct held_record *r = find_record(t, &full);
    return r ? &r->held : NULL;
}

bool tuning_table_visit(const struct tuning_table *t, size_t *cursor,
                        bool (*each)(void *context, const struct tuning_held *held), void *context)
{
    struct hash_link *link = hash_table_visit(&t->by_place, cursor);
    for (; link; link = link->next) {
        if (!each(context, &LIST_ENTRY(link, struct held_record, by_place)->held))
            return false;
    }
    return true;
}

void tuning_table_near(const struct tuning_table *t, const struct tuning_place *place,
                       struct tuning_relatives relatives,
                       bool (*each)(void *context, const struct tuning_held *held), void *context)
{
    const struct kinship *kin = relatives.of;
    const enum family family = relatives.family;
    struct bytes name = kin->families[family];
    if (name.size == 0)
        return;
    struct tuning_place full = in_full(place);
    const struct kin_link wanted = { hash_in_group(t, &full, name), kin->volume, kin->batch };
    struct kin_walk walk;
    kin_walk_begin(&walk, &t->kin, &wanted);
    for (const struct kin_link *link; (link = kin_walk_next(&walk));) {
        const struct held_record *r = LIST_ENTRY(link, struct held_record, relations[family]);
        if (bytes_equal(r->held.kin.families[family], name) &&
            is_same_group(&r->held.place, &full) && !each(context, &r->held))
            return;
    }
}

uint64_t tuning_table_count(const struct tuning_table *t, enum tuning_tier tier)
{
    return tier < TIERS ? t->counts[tier] : 0;
}

uint64_t tuning_table_count_of(const struct tuning_table *t, uint32_t uid)
{
    const struct owner *owner = find_owner(t, uid);
    return owner ? owner->records : 0;
}

uint64_t tuning_table_bytes(const struct tuning_table *t)
{
    return sizeof(*t) + t->bytes + t->texts.bytes + t->owners.count * sizeof(struct owner) +
           hash_table_bytes(&t->by_place) + t->kin.count * KIN_NODE_BYTES +
           hash_table_bytes(&t->owners) + hash_table_bytes(&t->texts.table);
}
