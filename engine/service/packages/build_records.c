/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/build.h"

#include "engine/service/tuning/tuning_service.h"

#include <stdio.h>
#include <string.h>

/* Memory for the records of one problem.  MIOpen's largest find records have about 2 KiB. */
#define RECORD_BYTES 4096u

enum kiln_code build_want_records(struct build *b, struct kiln_err *err)
{
    uint64_t bytes = (uint64_t)b->problem_count * RECORD_BYTES + TUNING_VALUE_MAX;
    if (!b->ids.device[0] || b->format != PACKAGE_KILN)
        return kiln_fail(err, KILN_INVALID,
                         "records are for packages of kiln's format, and for one device: give its "
                         "database id");
    for (size_t kind = 0; kind < 2; kind++)
        buffer_init(&b->records.text[kind], bytes);
    b->records.wanted = true;
    return deferred_charge(&b->base, 2 * bytes, err);
}

static bool has_kilns_solver(struct bytes value)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct tuning_entry entry;
    while (tuning_entry_next(TUNING_FIND, &value, &entry, &ignored) == KILN_OK)
        if (solver_find(entry.solver))
            return true;
    return false;
}

/* Returns the find record that decides the plan. Of the records with a time for one of kiln's own
 * solvers, this is the one of the most private tier. If there is no such record, returns the one
 * that MIOpen would use. */
static const struct tuning_answer *choose_find(const struct tuning_answer *answers, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (has_kilns_solver(answers[i].value))
            return &answers[i];
    return count ? answers : NULL;
}

static void add_record(struct build *b, enum tuning_kind kind, const struct tuning_answer *record)
{
    struct buffer *text = &b->records.text[kind == TUNING_PERF];
    buffer_put(text, record->key.data, record->key.size);
    buffer_put_u8(text, '=');
    buffer_put(text, record->value.data, record->value.size);
    buffer_put_u8(text, '\n');
    b->records.count++;
}

void build_note_records(struct build *b, const struct problem *problem)
{
    struct tuning *tuning = tuning_databases(b->base.engine);
    struct tuning_question question = { .kind = TUNING_FIND,
                                        .database_id = b->ids.device,
                                        .backend = "",
                                        .uid = (uint32_t)b->base.uid,
                                        .problem = problem,
                                        .driver = "",
                                        .toolchain = "" };
    struct tuning_answer answers[3], perf;
    struct kiln_err ignored = KILN_ERR_INIT;
    if (!b->records.wanted)
        return;
    const struct tuning_answer *find =
        choose_find(answers, tuning_find_all(tuning, &question, answers));
    if (find)
        add_record(b, TUNING_FIND, find);
    question.kind = TUNING_PERF;
    if (tuning_find(tuning, &question, &perf, &ignored) == KILN_OK)
        add_record(b, TUNING_PERF, &perf);
}

static enum kiln_code write_file(struct build *b, enum tuning_kind kind, struct kiln_err *err)
{
    const struct buffer *text = &b->records.text[kind == TUNING_PERF];
    struct tuning_file_name file = { .kind = kind, .format = TUNING_TEXT };
    char name[sizeof(PACKAGE_RECORDS) + 128] = PACKAGE_RECORDS;
    snprintf(file.database_id, sizeof(file.database_id), "%s", b->ids.device);
    if (kind == TUNING_FIND)
        snprintf(file.backend, sizeof(file.backend), "%s",
                 database_id_backend(bytes_of_text(b->ids.device)));
    tuning_file_name_write(&file, name + strlen(name));
    const struct package_entry entry = { .name = bytes_of_text(name),
                                         .raw = buffer_view(text),
                                         .target = bytes_of_text(b->target.text) };
    return text->size ? package_writer_add(b->package.writer, &entry, err) : KILN_OK;
}

enum kiln_code build_write_records(struct build *b, struct kiln_err *err)
{
    if (b->records.text[0].failed || b->records.text[1].failed)
        return kiln_fail(err, KILN_FULL, "the records of %zu problems are too long",
                         b->problem_count);
    enum kiln_code rc = write_file(b, TUNING_FIND, err);
    return rc ? rc : write_file(b, TUNING_PERF, err);
}
