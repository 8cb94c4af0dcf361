/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_parts.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/tuning/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WRITE_STEP (1u << 20)
/* Maximum size of a value in the export's dialect. Conversion can make a value longer, because the
 * old dialect writes the names of algorithms and solvers twice. */
#define VALUE_MAX (4u * TUNING_VALUE_MAX)

enum part { PART_SYSTEM, PART_HOST, PART_TIER, PARTS };

struct tuning_exporter {
    struct tuning *tuning;
    struct tuning_export what;
    char *path;
    enum part part;
    struct tuning_index *index;
    uint64_t next;
    struct buffer last; /* key of the last record that was read from the tier; empty: none */
    uint64_t end_ns;
    bool is_late;
    int fd;
    struct buffer text;
    struct perf_db_writer *writer;
    struct buffer value;
    struct scratch scratch;
    struct tuning_counts counts;
    uint64_t bytes, reserved; /* when |bytes| reaches |reserved|, free space is checked again */
    enum kiln_code rc;
    struct kiln_err *err;
};

static void flush_out(struct tuning_exporter *out)
{
    if (!out->rc && out->text.failed)
        out->rc = kiln_fail(out->err, KILN_NO_MEMORY, "cannot export records: out of memory");
    if (!out->rc)
        out->rc = fs_write_all(out->fd, buffer_view(&out->text), out->err);
    out->text.size = 0;
}

static void write_text(struct tuning_exporter *out, struct bytes key, struct bytes value)
{
    buffer_put(&out->text, key.data, key.size);
    buffer_put(&out->text, "=", 1);
    buffer_put(&out->text, value.data, value.size);
    buffer_put(&out->text, "\n", 1);
    if (out->text.size >= WRITE_STEP)
        flush_out(out);
}

/* Reserves about a megabyte at a time. If a record is larger, the next call reserves the rest. */
static enum kiln_code reserve_space(struct tuning_exporter *out)
{
    if (!out->what.reserve_space || out->bytes < out->reserved)
        return KILN_OK;
    out->reserved = out->bytes + WRITE_STEP;
    return out->what.reserve_space(out->what.context, out->reserved, out->err);
}

/* Leaves out records with TF32 if the file is for MIOpen, which does not know this type. A record
 * whose verbatim key cannot be written to a SQLite file is only counted as bad. */
static void write_record(struct tuning_exporter *out, struct bytes key, struct bytes value,
                         const struct tuning_index_record *source)
{
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    if (!out->rc)
        out->rc = reserve_space(out);
    if (out->rc || (tuning_file_name_is_miopens(&out->what.name) && problem_key_has_tf32(key)))
        return;
    out->bytes += key.size + value.size;
    const struct tuning_record record = { .key = key,
                                          .value = value,
                                          .line = source ? source->number : 0,
                                          .ids = source ? source->ids : NULL };
    if (out->what.name.format == TUNING_SQLITE)
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

/* The old dialect keeps only one entry for each algorithm: the fastest or, of equally fast entries,
 * the first. Returns whether it keeps another entry instead of |entry|. */
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

/* Converts the entries to the export's dialect, because MIOpen reads a file in one dialect only. */
static struct bytes in_dialect(struct tuning_exporter *out, struct bytes value)
{
    enum find_dialect dialect = out->what.dialect;
    struct kiln_err ignored = KILN_ERR_INIT;
    struct tuning_entry entry;
    if (out->what.name.kind != TUNING_FIND || !out->what.converts || is_of_dialect(value, dialect))
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

static const char *backend_of(const struct tuning_file_name *name)
{
    return tuning_backend(name->kind, name->database_id, name->backend);
}

static struct tuning_question question_of(const struct tuning_exporter *out, struct bytes key)
{
    const struct tuning_export *what = &out->what;
    return (struct tuning_question){ .kind = what->name.kind,
                                     .database_id = what->name.database_id,
                                     .backend = backend_of(&what->name),
                                     .uid =
                                         what->tier == TUNING_TIER_USER ? what->uid : TUNING_NOBODY,
                                     .key = key };
}

static struct bytes merged_value(struct tuning_exporter *out, struct bytes key, struct bytes value)
{
    struct tuning_question question = question_of(out, key);
    struct tuning_answer answer;
    struct kiln_err ignored = KILN_ERR_INIT;
    if (find_with(out->tuning, &out->scratch, &question, &answer, &ignored) != KILN_OK)
        return value;
    return answer.value;
}

static void write_system_record(struct tuning_exporter *out)
{
    struct tuning_index_record record;
    if (!tuning_index_at(out->index, out->next++,
                         &record)) { /* the export fails, because the file would be incomplete */
        out->rc = kiln_fail(out->err, KILN_CORRUPT,
                            "record %llu of the imported %s database of '%s' is damaged: import "
                            "it again",
                            (unsigned long long)out->next, tuning_kind_name(out->what.name.kind),
                            out->what.name.database_id);
        return;
    }
    bool merges = out->what.merged && out->what.tier != TUNING_TIER_SYSTEM;
    struct bytes value = merges ? merged_value(out, record.key, record.value) : record.value;
    /* Leaves the source's row ids out of merged records, because these ids could collide with those
     * of added entries. */
    write_record(out, record.key, in_dialect(out, value), merges ? NULL : &record);
}

static bool is_late(struct tuning_exporter *out)
{
    out->is_late = clock_monotonic_ns() >= out->end_ns;
    return out->is_late;
}

static void write_system(struct tuning_exporter *out)
{
    while (!out->rc && out->next < tuning_index_count(out->index)) {
        write_system_record(out);
        if (is_late(out))
            return;
    }
}

struct tier_walk {
    struct tuning_exporter *out;
    enum tuning_tier tier;
};

static struct tuning_place place_of(const struct tuning_exporter *out, enum tuning_tier tier,
                                    struct bytes key)
{
    const struct tuning_export *what = &out->what;
    return (struct tuning_place){ .tier = tier,
                                  .uid = tier == TUNING_TIER_USER ? what->uid : TUNING_NOBODY,
                                  .kind = what->name.kind,
                                  .database_id = what->name.database_id,
                                  .backend = backend_of(&what->name),
                                  .key = key };
}

static bool is_written(const struct tier_walk *walk, struct bytes key)
{
    struct bytes value;
    if (walk->out->index && tuning_index_find(walk->out->index, key, &value))
        return true;
    struct tuning_place host = place_of(walk->out, TUNING_TIER_HOST, key);
    return walk->out->what.merged && walk->tier == TUNING_TIER_USER &&
           tuning_table_find(walk->out->tuning->table, &host);
}

static bool write_tier_record(void *context, const struct tuning_place *place,
                              const struct tuning_row *rows, size_t count)
{
    struct tier_walk *walk = context;
    struct tuning_exporter *out = walk->out;
    (void)rows;
    (void)count;
    buffer_clear(&out->last);
    buffer_put(&out->last, place->key.data, place->key.size);
    if (is_written(walk, place->key))
        return !is_late(out);
    const struct tuning_held *held = tuning_table_find(out->tuning->table, place);
    if (!held) { /* the record did not fit into memory */
        out->counts.bad++;
        return !is_late(out);
    }
    struct bytes value = held->value;
    if (out->what.merged)
        value = merged_value(out, held->place.key, value);
    write_record(out, held->place.key, in_dialect(out, value), NULL);
    return out->rc == KILN_OK && !is_late(out);
}

static void write_tier(struct tuning_exporter *out, enum tuning_tier tier)
{
    struct tier_walk walk = { .out = out, .tier = tier };
    /* A copy, because write_tier_record changes out->last. */
    KILN_AUTO(mem) uint8_t *last = malloc(out->last.size + 1);
    if (!last) {
        out->rc = kiln_fail(out->err, KILN_NO_MEMORY, "cannot export records: out of memory");
        return;
    }
    if (out->last.size > 0)
        memcpy(last, out->last.data, out->last.size);
    const struct tuning_place after = place_of(out, tier, bytes_of(last, out->last.size));
    if (!out->tuning->db) {
        out->rc = kiln_fail(out->err, KILN_UNSUPPORTED, "this program stores no records on disk");
        return;
    }
    enum kiln_code rc =
        tuning_db_each_after(out->tuning->db, &after, write_tier_record, &walk, out->err);
    out->rc = out->rc ? out->rc : rc;
}

/* Returns the system database to export. If there is none for the device, a merged export uses the
 * one with the nearest number of compute units, as a look-up does. The export must contain these
 * records: once MIOpen finds the exported file under the device's exact name, MIOpen ignores files
 * of similar devices. */
static struct system_slot *slot_of(const struct tuning_exporter *out)
{
    const struct tuning_file_name *name = &out->what.name;
    const char *backend = backend_of(name);
    struct system_slot *slot =
        system_slot_find(out->tuning, name->kind, name->database_id, backend);
    if (!slot && out->what.merged)
        slot = system_slot_for(out->tuning, name->kind, name->database_id, backend);
    return slot;
}

static void begin_system(struct tuning_exporter *out)
{
    struct system_slot *slot = slot_of(out);
    if (slot && !slot->index)
        out->rc = kiln_fail(out->err, KILN_CORRUPT, "%s", slot->why);
    else if (slot)
        out->index = tuning_index_ref(slot->index);
}

static void write_part(struct tuning_exporter *out)
{
    enum tuning_tier tier = out->what.tier;
    switch (out->part) {
    case PART_SYSTEM:
        if (!out->index && (tier == TUNING_TIER_SYSTEM || out->what.merged))
            begin_system(out);
        if (out->index)
            write_system(out);
        break;
    case PART_HOST:
        if (out->what.merged && tier == TUNING_TIER_USER)
            write_tier(out, TUNING_TIER_HOST);
        break;
    case PART_TIER:
        if (tier != TUNING_TIER_SYSTEM)
            write_tier(out, tier);
        break;
    case PARTS: break;
    }
}

static void write_parts(struct tuning_exporter *out)
{
    out->is_late = false;
    while (!out->rc && out->part < PARTS) {
        write_part(out);
        if (out->is_late)
            return;
        out->part++;
        buffer_clear(&out->last);
    }
}

static enum kiln_code open_out(struct tuning_exporter *out, const char *path, struct kiln_err *err)
{
    if (out->what.name.format == TUNING_SQLITE)
        return perf_db_create(path, &out->writer, err);
    out->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return out->fd < 0 ? kiln_fail_errno(err, errno, "cannot create '%s'", path) : KILN_OK;
}

static enum kiln_code close_out(struct tuning_exporter *out, struct kiln_err *err)
{
    KILN_AUTO(perf_db_writer) struct perf_db_writer *writer = KILN_TAKE(out->writer);
    if (writer)
        return out->rc ? out->rc : perf_db_writer_finish(writer, err);
    flush_out(out);
    return out->rc;
}

void tuning_exporter_destroy(struct tuning_exporter *exporter)
{
    if (!exporter)
        return;
    perf_db_writer_destroy(exporter->writer);
    if (exporter->fd >= 0)
        close(exporter->fd);
    if (exporter->path)
        unlink(exporter->path);
    free(exporter->path);
    tuning_index_destroy(exporter->index);
    buffer_done(&exporter->last);
    buffer_done(&exporter->text);
    buffer_done(&exporter->value);
    scratch_done(&exporter->scratch);
    free(exporter);
}

enum kiln_code tuning_exporter_create(struct tuning *t, const struct tuning_export *what,
                                      const char *path, struct tuning_exporter **ret_exporter,
                                      struct kiln_err *err)
{
    if (what->name.kind == TUNING_FIND && what->name.format == TUNING_SQLITE)
        return kiln_fail(err, KILN_INVALID, "MIOpen has no FindDb in SQLite: export it as text");
    KILN_AUTO(tuning_exporter) struct tuning_exporter *out = calloc(1, sizeof(*out));
    KILN_AUTO(mem) char *copy = strdup(path);
    if (!out || !copy) {
        free(KILN_TAKE(out));
        return kiln_fail(err, KILN_NO_MEMORY, "cannot export records: out of memory");
    }
    out->tuning = t;
    out->what = *what;
    out->fd = -1;
    buffer_init(&out->last, TUNING_KEY_MAX);
    buffer_init(&out->text, WRITE_STEP + 2 * VALUE_MAX);
    buffer_init(&out->value, VALUE_MAX);
    scratch_init(&out->scratch, t->stale);
    enum kiln_code rc = open_out(out, path, err);
    if (rc) /* |path| may be another caller's file, which must not be removed */
        return rc;
    out->path = KILN_TAKE(copy);
    *ret_exporter = KILN_TAKE(out);
    return KILN_OK;
}

enum kiln_code tuning_exporter_step(struct tuning_exporter *out, uint64_t end_ns, bool *ret_more,
                                    struct kiln_err *err)
{
    out->err = err;
    out->end_ns = end_ns;
    write_parts(out);
    *ret_more = !out->rc && out->part < PARTS;
    return out->rc;
}

enum kiln_code tuning_exporter_finish(struct tuning_exporter *out, struct tuning_counts *ret_counts,
                                      struct kiln_err *err)
{
    out->err = err;
    enum kiln_code rc = close_out(out, err);
    if (!rc && out->counts.records == 0)
        rc = KILN_NOT_FOUND;
    if (rc)
        return rc;
    *ret_counts = out->counts;
    free(out->path);
    out->path = NULL;
    return KILN_OK;
}
