/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_parts.h"

#include "common/base/fs.h"
#include "engine/tuning/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WRITE_STEP (1u << 20)
/* The old dialect writes the names of algorithms and solvers twice. */
#define VALUE_MAX (4u * TUNING_VALUE_MAX)

struct out { /* the file being written */
    struct tuning *tuning;
    const struct tuning_export *what;
    int fd;                        /* for text formats */
    struct buffer text;            /* text that is not written yet */
    struct perf_db_writer *writer; /* owned; for SQLite */
    struct buffer value;           /* scratch: a joined or converted value */
    struct scratch scratch;
    struct tuning_counts counts;
    uint64_t bytes, reserved; /* bytes written so far; at |reserved|, free space is checked again */
    enum kiln_code rc;
    struct kiln_err *err;
};

static void flush_out(struct out *out)
{
    if (!out->rc && out->text.failed)
        out->rc = kiln_fail(out->err, KILN_NO_MEMORY, "cannot export records: out of memory");
    if (!out->rc)
        out->rc = fs_write_all(out->fd, buffer_view(&out->text), out->err);
    out->text.size = 0;
}

static void write_text(struct out *out, struct bytes key, struct bytes value)
{
    buffer_put(&out->text, key.data, key.size);
    buffer_put(&out->text, "=", 1);
    buffer_put(&out->text, value.data, value.size);
    buffer_put(&out->text, "\n", 1);
    if (out->text.size >= WRITE_STEP)
        flush_out(out);
}

/* The record that ends a megabyte may exceed it by its own size, so the next call makes up for
 * that. */
static enum kiln_code reserve_space(struct out *out)
{
    if (!out->what->reserve_space || out->bytes < out->reserved)
        return KILN_OK;
    out->reserved = out->bytes + WRITE_STEP;
    return out->what->reserve_space(out->what->context, out->reserved, out->err);
}

/* Writes a record.  A key that was kept verbatim may not fit a SQLite database; such records are
 * only counted.  Records with TF32 are left out, because MIOpen does not know this type. */
static void write_record(struct out *out, struct bytes key, struct bytes value,
                         const struct tuning_index_record *source)
{
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    if (!out->rc)
        out->rc = reserve_space(out);
    if (out->rc || (tuning_file_name_is_miopens(&out->what->name) && problem_key_has_tf32(key)))
        return;
    out->bytes += key.size + value.size;
    const struct tuning_record record = { .key = key,
                                          .value = value,
                                          .line = source ? source->number : 0,
                                          .ids = source ? source->ids : NULL };
    if (out->what->name.format == TUNING_SQLITE)
        rc = perf_db_writer_add(out->writer, &record, &why);
    else
        write_text(out, key, value);
    out->counts.records += rc == KILN_OK;
    out->counts.bad += rc == KILN_INVALID;
    if (rc && rc != KILN_INVALID) {
        *out->err = why;
        out->rc = rc;
    }
}

/* ---- dialects ---- */

static bool is_of_dialect(struct bytes value, enum find_dialect dialect)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct tuning_entry entry;
    while (tuning_entry_next(TUNING_FIND, &value, &entry, &ignored) == KILN_OK) {
        if (entry.dialect != dialect)
            return false;
    }
    return true;
}

/* Whether |value| has an entry of the same algorithm that is faster than |entry|, or equally fast
 * and before it.  The old dialect keeps only one solver of each algorithm. */
static bool is_beaten(struct bytes value, const struct tuning_entry *entry)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct tuning_entry other;
    while (tuning_entry_next(TUNING_FIND, &value, &other, &ignored) == KILN_OK) {
        if (other.values.data == entry->values.data ||
            !bytes_equal(other.algorithm, entry->algorithm))
            continue;
        if (other.time_ms < entry->time_ms ||
            (other.time_ms == entry->time_ms && other.values.data < entry->values.data))
            return true;
    }
    return false;
}

/* Converts entries to the dialect of the file, because MIOpen reads a file in one dialect only. */
static struct bytes in_dialect(struct out *out, struct bytes value)
{
    enum find_dialect dialect = out->what->dialect;
    struct kiln_err ignored = KILN_ERR_INIT;
    struct tuning_entry entry;
    if (out->what->name.kind != TUNING_FIND || !out->what->converts ||
        is_of_dialect(value, dialect))
        return value;
    out->value.size = 0;
    struct bytes left = value;
    while (tuning_entry_next(TUNING_FIND, &left, &entry, &ignored) == KILN_OK) {
        if (dialect == FIND_NEW || !is_beaten(value, &entry))
            tuning_entry_write_find(&out->value, dialect, &entry);
    }
    if (out->value.failed)
        out->rc = kiln_fail(out->err, KILN_NO_MEMORY, "cannot export records: out of memory");
    return buffer_view(&out->value);
}

/* ---- tiers ---- */

static const char *backend_of(const struct tuning_file_name *name)
{
    return tuning_backend(name->kind, name->database_id, name->backend);
}

static struct tuning_question question_of(const struct out *out, struct bytes key)
{
    const struct tuning_export *what = out->what;
    return (struct tuning_question){ .kind = what->name.kind,
                                     .database_id = what->name.database_id,
                                     .backend = backend_of(&what->name),
                                     .uid =
                                         what->tier == TUNING_TIER_USER ? what->uid : TUNING_NOBODY,
                                     .key = key };
}

/* Joins the tier's record with those below, as a look-up does. */
static struct bytes merged_value(struct out *out, struct bytes key, struct bytes value)
{
    struct tuning_question question = question_of(out, key);
    struct tuning_answer answer;
    struct kiln_err ignored = KILN_ERR_INIT;
    if (find_with(out->tuning, &out->scratch, &question, &answer, &ignored) != KILN_OK)
        return value;
    return answer.value;
}

static void write_system(struct out *out, struct tuning_index *index)
{
    struct tuning_index_record record;
    for (uint64_t i = 0; !out->rc && i < tuning_index_count(index); i++) {
        if (!tuning_index_at(index, i, &record)) { /* fails, because the file would be incomplete */
            out->rc =
                kiln_fail(out->err, KILN_CORRUPT,
                          "record %llu of the imported %s database of '%s' is damaged: import "
                          "it again",
                          (unsigned long long)i + 1, tuning_kind_name(out->what->name.kind),
                          out->what->name.database_id);
            return;
        }
        bool merges = out->what->merged && out->what->tier != TUNING_TIER_SYSTEM;
        struct bytes value = merges ? merged_value(out, record.key, record.value) : record.value;
        /* Without the ids of the source, if records are merged, because these ids could collide
         * with new ones. */
        write_record(out, record.key, in_dialect(out, value), merges ? NULL : &record);
    }
}

struct tier_walk { /* a walk over the records of one tier */
    struct out *out;
    enum tuning_tier tier;
    struct tuning_index *index; /* records of this index were written already; NULL: none */
};

static struct tuning_place place_of(const struct out *out, enum tuning_tier tier, struct bytes key)
{
    const struct tuning_export *what = out->what;
    return (struct tuning_place){ .tier = tier,
                                  .uid = tier == TUNING_TIER_USER ? what->uid : TUNING_NOBODY,
                                  .kind = what->name.kind,
                                  .database_id = what->name.database_id,
                                  .backend = backend_of(&what->name),
                                  .key = key };
}

static bool is_of_walk(const struct tier_walk *walk, const struct tuning_place *place)
{
    struct tuning_place wanted = place_of(walk->out, walk->tier, place->key);
    return place->tier == wanted.tier && place->uid == wanted.uid && place->kind == wanted.kind &&
           strcmp(place->database_id, wanted.database_id) == 0 &&
           strcmp(place->backend, wanted.backend) == 0;
}

/* Whether a record with this key was written already, with the records of a lower tier. */
static bool is_written(const struct tier_walk *walk, struct bytes key)
{
    struct bytes value;
    if (walk->index && tuning_index_find(walk->index, key, &value))
        return true;
    struct tuning_place host = place_of(walk->out, TUNING_TIER_HOST, key);
    return walk->out->what->merged && walk->tier == TUNING_TIER_USER &&
           tuning_table_find(walk->out->tuning->table, &host);
}

static bool write_tier_record(void *context, const struct tuning_place *place,
                              const struct tuning_row *rows, size_t count)
{
    struct tier_walk *walk = context;
    struct out *out = walk->out;
    (void)rows;
    (void)count;
    if (!is_of_walk(walk, place) || is_written(walk, place->key))
        return true;
    const struct tuning_held *held = tuning_table_find(out->tuning->table, place);
    if (!held) { /* missing in memory, because memory ran out */
        out->counts.bad++;
        return true;
    }
    struct bytes value = held->value;
    if (out->what->merged)
        value = merged_value(out, held->place.key, value);
    write_record(out, held->place.key, in_dialect(out, value), NULL);
    return out->rc == KILN_OK;
}

static void write_tier(struct out *out, enum tuning_tier tier, struct tuning_index *index)
{
    struct tier_walk walk = { .out = out, .tier = tier, .index = index };
    if (out->rc)
        return;
    if (!out->tuning->db) {
        out->rc = kiln_fail(out->err, KILN_UNSUPPORTED, "this program stores no records on disk");
        return;
    }
    enum kiln_code rc = tuning_db_each(out->tuning->db, write_tier_record, &walk, out->err);
    out->rc = out->rc ? out->rc : rc;
}

/* The system database to export.  A merged export uses the database with the nearest number of
 * compute units if there is no other, as a look-up does.  MIOpen could not use that database itself
 * once the exported file with the exact name exists. */
static struct system_slot *slot_of(const struct out *out)
{
    const struct tuning_file_name *name = &out->what->name;
    const char *backend = backend_of(name);
    struct system_slot *slot =
        system_slot_find(out->tuning, name->kind, name->database_id, backend);
    if (!slot && out->what->merged)
        slot = system_slot_for(out->tuning, name->kind, name->database_id, backend);
    return slot;
}

static void write_all(struct out *out)
{
    const struct tuning_export *what = out->what;
    bool has_system = what->tier == TUNING_TIER_SYSTEM || what->merged;
    struct system_slot *slot = has_system ? slot_of(out) : NULL;
    struct tuning_index *index = slot ? slot->index : NULL;
    if (slot && !index)
        out->rc = kiln_fail(out->err, KILN_CORRUPT, "%s", slot->why);
    if (index)
        write_system(out, index);
    if (what->merged && what->tier == TUNING_TIER_USER)
        write_tier(out, TUNING_TIER_HOST, index);
    if (what->tier != TUNING_TIER_SYSTEM)
        write_tier(out, what->tier, index);
}

/* ---- the file ---- */

static enum kiln_code open_out(struct out *out, const char *path, struct kiln_err *err)
{
    if (out->what->name.format == TUNING_SQLITE)
        return perf_db_create(path, &out->writer, err);
    out->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return out->fd < 0 ? kiln_fail_errno(err, errno, "cannot create '%s'", path) : KILN_OK;
}

static enum kiln_code close_out(struct out *out, struct kiln_err *err)
{
    KILN_AUTO(perf_db_writer) struct perf_db_writer *writer = KILN_TAKE(out->writer);
    if (writer)
        return out->rc ? out->rc : perf_db_writer_finish(writer, err);
    flush_out(out);
    return out->rc;
}

static void out_init(struct out *out)
{
    buffer_init(&out->text, WRITE_STEP + 2 * VALUE_MAX);
    buffer_init(&out->value, VALUE_MAX);
    scratch_init(&out->scratch, out->tuning->stale);
}

static void out_done(struct out *out)
{
    if (out->fd >= 0)
        close(out->fd);
    buffer_done(&out->text);
    buffer_done(&out->value);
    scratch_done(&out->scratch);
}

enum kiln_code tuning_export_file(struct tuning *t, const struct tuning_export *what,
                                  const char *path, struct tuning_counts *ret_counts,
                                  struct kiln_err *err)
{
    struct out out = { .tuning = t, .what = what, .fd = -1, .err = err };
    if (what->name.kind == TUNING_FIND && what->name.format == TUNING_SQLITE)
        return kiln_fail(err, KILN_INVALID, "MIOpen has no FindDb in SQLite: export it as text");
    enum kiln_code rc = open_out(&out, path, err);
    if (rc) /* this call did not create the file, so it must not remove it */
        return rc;
    out_init(&out);
    write_all(&out);
    rc = close_out(&out, err);
    if (!rc && out.counts.records == 0)
        rc = KILN_NOT_FOUND;
    out_done(&out);
    if (rc)
        unlink(path);
    else
        *ret_counts = out.counts;
    return rc;
}
