/* SPDX-License-Identifier: MIT */
#include "libclient/tuning/tuned.h"

#include "libclient/failure.h"
#include "libclient/real.h"
#include "libclient/sized.h"

#include <string.h>

/* Maximum number of entries of an answer, which may combine the records of three tiers. */
#define ENTRIES_MAX (3 * TUNING_ENTRIES_MAX)

struct entry {
    struct kiln_tuned_entry reported;
    /* Name of the solver or algorithm, by which measurements refer to this entry. */
    const char *id;
};

struct kiln_tuned {
    int tier;
    bool is_stale, is_near;
    double batch_ratio, spatial_ratio;
    const char *key, *text;
    char *free; /* where the next text goes, while the record is built */
    unsigned count;
    struct entry entries[];
};

/* Copies |text|.  It is printable: common/miopen/tuning_text.h accepts no other texts. */
static char *copy_text(struct kiln_tuned *t, struct bytes text)
{
    char *copy = t->free;
    if (text.size)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    t->free += text.size + 1;
    return copy;
}

/* Copies |text|, which comes from a user, and replaces control characters by blanks. */
static const char *copy_printable(struct kiln_tuned *t, struct bytes text)
{
    char *copy = copy_text(t, text);
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)copy[i];
        copy[i] = (char)(c < ' ' || c == 127 ? ' ' : c);
    }
    return copy;
}

static unsigned count_entries(struct bytes value)
{
    unsigned count = value.size > 0;
    const uint8_t *at = value.data, *end = at + value.size;
    while (at < end && (at = memchr(at, ';', (size_t)(end - at)))) {
        count++;
        at++;
    }
    return count;
}

/* A copy of the record's value.  The parts of the copy become texts in place: each separator is
 * overwritten with a terminator. */
struct split {
    char *copy;
    struct bytes value;
};

static const char *split_off(const struct split *split, struct bytes part)
{
    char *text = split->copy + (part.data - split->value.data);
    text[part.size] = '\0';
    return text;
}

static void read_entry(enum tuning_kind kind, const struct split *split,
                       const struct tuning_entry *from, struct entry *entry)
{
    bool is_find = kind == TUNING_FIND;
    struct kiln_tuned_entry *reported = &entry->reported;
    entry->id = split_off(split, from->id);
    reported->size = sizeof(*reported);
    reported->solver = split_off(split, from->solver);
    reported->algorithm = is_find ? split_off(split, from->algorithm) : "";
    reported->params = is_find ? "" : split_off(split, from->params);
    reported->time_ms = from->time_ms;
    reported->workspace = from->workspace;
    reported->device_uuid = reported->device = reported->driver = reported->toolchain =
        reported->library = "";
}

static enum kiln_code read_entries(enum tuning_kind kind, struct bytes value, struct kiln_tuned *t,
                                   struct kiln_err *err)
{
    struct split split = { .copy = copy_text(t, value), .value = value };
    struct tuning_entry entry;
    enum kiln_code rc;
    t->count = 0; /* counted again, because count_entries() gave only an upper limit */
    while ((rc = tuning_entry_next(kind, &value, &entry, err)) == KILN_OK)
        read_entry(kind, &split, &entry, &t->entries[t->count++]);
    if (rc == KILN_NOT_FOUND)
        return KILN_OK;
    err->code = KILN_CORRUPT;
    return kiln_while(err, "kilnd's record is damaged");
}

static struct entry *find_entry(struct kiln_tuned *t, struct bytes id, unsigned guess)
{
    for (unsigned i = 0; i < t->count; i++) {
        struct entry *e = &t->entries[(guess + i) % t->count];
        if (bytes_equal_text(id, e->id))
            return e;
    }
    return NULL;
}

static void take_measurement(enum tuning_kind kind, struct kiln_tuned *t,
                             const struct message_tuning_measurement *m, struct kiln_tuned_entry *e)
{
    e->samples = m->samples;
    e->median_ms = real_of_bits(m->median_ms);
    e->spread_ms = real_of_bits(m->spread_ms);
    e->measured_at = m->measured_at;
    e->uid = m->uid;
    e->device_uuid = copy_printable(t, m->device_uuid);
    e->device = copy_printable(t, m->device);
    e->driver = copy_printable(t, m->driver);
    e->toolchain = copy_printable(t, m->toolchain);
    e->library = copy_printable(t, m->library);
    e->clock_mhz = m->clock_mhz;
    if (kind == TUNING_PERF)
        e->time_ms = e->median_ms;
}

static enum kiln_code read_measurements(enum tuning_kind kind,
                                        const struct message_tuning_answer *answer,
                                        struct kiln_tuned *t, struct kiln_err *err)
{
    struct reader r = reader_of(answer->measurements);
    for (uint32_t i = 0; i < answer->measurement_count; i++) {
        struct message_tuning_measurement m = message_tuning_measurement_read(&r);
        struct entry *e = r.failed ? NULL : find_entry(t, m.id, i);
        if (!e)
            return kiln_fail(err, KILN_CORRUPT,
                             "kilnd sent a measurement of a solver that is not in the record");
        if (!real_is_fine(real_of_bits(m.median_ms), 0) ||
            !real_is_fine(real_of_bits(m.spread_ms), 0))
            return kiln_fail(err, KILN_CORRUPT, "kilnd's time for '%s' is not a finite number",
                             e->id);
        take_measurement(kind, t, &m, &e->reported);
    }
    if (r.at != r.end)
        return kiln_fail(err, KILN_CORRUPT, "kilnd's measurements do not match their count");
    return KILN_OK;
}

static enum kiln_code check_answer(const struct message_tuning_answer *a, struct kiln_err *err)
{
    if (a->tier < KILN_TUNING_SYSTEM || a->tier > KILN_TUNING_USER)
        return kiln_fail(err, KILN_CORRUPT, "kilnd's record has tier %u, which does not exist",
                         a->tier);
    if (a->key.size == 0 || a->key.size > TUNING_KEY_MAX || !tuning_is_printable(a->key))
        return kiln_fail(err, KILN_CORRUPT, "kilnd's record has an invalid key");
    if ((a->flags & TUNING_NEAR) && (!real_is_fine(real_of_bits(a->batch_ratio), 1) ||
                                     !real_is_fine(real_of_bits(a->spatial_ratio), 1)))
        return kiln_fail(err, KILN_CORRUPT, "kilnd's neighbour is at an impossible distance");
    return KILN_OK;
}

static struct kiln_tuned *make_record(const struct message_tuning_answer *a, unsigned count)
{
    /* Enough for all texts: in the message, each text has a length of four bytes before it; here,
     * each text has a terminator of one byte after it. */
    size_t texts = a->key.size + 1 + 2 * (a->value.size + 1) + a->measurements.size;
    struct kiln_tuned *t = malloc(sizeof(*t) + count * sizeof(t->entries[0]) + texts);
    if (!t)
        return NULL;
    bool is_near = (a->flags & TUNING_NEAR) != 0;
    *t = (struct kiln_tuned){
        .tier = a->tier,
        .is_stale = (a->flags & TUNING_STALE) != 0,
        .is_near = is_near,
        .batch_ratio = is_near ? real_of_bits(a->batch_ratio) : 1,
        .spatial_ratio = is_near ? real_of_bits(a->spatial_ratio) : 1,
        .free = (char *)&t->entries[count],
        .count = count,
    };
    memset(t->entries, 0, count * sizeof(t->entries[0]));
    t->key = copy_text(t, a->key);
    t->text = copy_text(t, a->value);
    return t;
}

enum kiln_code tuned_create(enum tuning_kind kind, const struct message_tuning_answer *answer,
                            struct kiln_tuned **ret_tuned, struct kiln_err *err)
{
    enum kiln_code rc = check_answer(answer, err);
    unsigned count = count_entries(answer->value);
    if (!rc && count > ENTRIES_MAX)
        rc = kiln_fail(err, KILN_CORRUPT, "kilnd's record has more than %u entries", ENTRIES_MAX);
    if (rc)
        return rc;
    struct kiln_tuned *t = make_record(answer, count);
    if (!t)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a record of %zu bytes",
                         answer->value.size);
    rc = read_entries(kind, answer->value, t, err);
    if (!rc)
        rc = read_measurements(kind, answer, t, err);
    if (rc)
        kiln_tuned_free(t);
    else
        *ret_tuned = t;
    return rc;
}

void kiln_tuned_free(struct kiln_tuned *tuned) { free(tuned); }

int kiln_tuned_tier(const struct kiln_tuned *tuned) { return tuned->tier; }

const char *kiln_tuned_key(const struct kiln_tuned *tuned) { return tuned->key; }

const char *kiln_tuned_text(const struct kiln_tuned *tuned) { return tuned->text; }

int kiln_tuned_is_stale(const struct kiln_tuned *tuned) { return tuned->is_stale; }

int kiln_tuned_is_near(const struct kiln_tuned *tuned) { return tuned->is_near; }

void kiln_tuned_distance(const struct kiln_tuned *tuned, double *ret_batch, double *ret_spatial)
{
    *ret_batch = tuned->batch_ratio;
    *ret_spatial = tuned->spatial_ratio;
}

unsigned kiln_tuned_count(const struct kiln_tuned *tuned) { return tuned->count; }

int kiln_tuned_entry(const struct kiln_tuned *tuned, unsigned index,
                     struct kiln_tuned_entry *ret_entry, struct kiln_error *err)
{
    if (!tuned || !ret_entry ||
        !sized_is_fine(ret_entry->size, SIZED_TO(struct kiln_tuned_entry, clock_mhz)))
        return error_argument(err, "kiln_tuned_entry needs a record and a pointer for the entry, "
                                   "with size set to sizeof the struct");
    if (index >= tuned->count)
        return error_argument(err, "there is no entry %u: the record has %u", index, tuned->count);
    const struct kiln_tuned_entry *e = &tuned->entries[index].reported;
    size_t size = ret_entry->size;
    memcpy(ret_entry, e, size < sizeof(*e) ? size : sizeof(*e));
    ret_entry->size = size;
    return KILN_E_OK;
}
