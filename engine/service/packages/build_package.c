/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/build.h"

#include "common/base/clock.h"
#include "engine/service/kernels/program_job.h"
#include "engine/service/packages/packages.h"
#include "engine/service/requests/admin.h"
#include "engine/service/requests/exported_files.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a row in addition to its object: source, names and options. */
#define ROW_BYTES (64u << 10)

static enum kiln_code add_item(struct build *b, const struct build_item *item,
                               struct package_writer *writer, struct kiln_err *err)
{
    PROGRAM_JOB_AUTO struct program_job p = { 0 };
    OBJECT_VIEW_AUTO struct object_view view = { 0 };
    enum kiln_code rc = program_job_make(item->program, &b->target, &b->toolchain, &p, err);
    if (!rc)
        rc = object_view_open(item->object, &view, err);
    if (rc)
        return rc;
    const struct package_entry entry = {
        .name = buffer_view(&item->name),
        .args = buffer_view(&item->args),
        .raw = view.bytes,
        .key = item->key,
        .toolchain_id = b->toolchain.identity,
        .target = p.job.target,
        .toolchain = p.job.toolchain,
        .program = p.job.program,
        .options = p.job.options,
        .source = p.job.source,
        .header_count = p.job.header_count,
        .headers = p.job.headers,
    };
    return package_writer_add(writer, &entry, err);
}

static uint64_t growth(const struct build *b)
{
    uint64_t bytes = 0;
    for (size_t i = b->package.written; i < b->package.step_end; i++)
        bytes += b->order[i]->object ? b->order[i]->object->size + ROW_BYTES : 0;
    return bytes;
}

static enum kiln_code reserve_space(struct build *b)
{
    struct stat seen = { 0 };
    b->package.space.to =
        (struct export_receiver){ .uid = b->base.uid, .is_admin = b->base.is_admin };
    if (b->package.writer && stat(b->package.path, &seen) != 0)
        return kiln_fail_errno(&b->base.err, errno, "cannot get the size of '%s'", b->package.path);
    return exported_files_reserve(b->base.engine->exported, packages_staging(b->base.engine),
                                  (uint64_t)seen.st_size + growth(b), &b->package.space,
                                  &b->base.err);
}

static enum kiln_code open_package(struct build *b)
{
    snprintf(b->package.path, sizeof(b->package.path), "%s/build-%llx-%p",
             packages_staging(b->base.engine), (unsigned long long)clock_monotonic_ns(), (void *)b);
    enum kiln_code rc =
        package_writer_create(b->package.path, b->format, &b->package.writer, &b->base.err);
    return rc ? rc : build_write_records(b, &b->base.err);
}

static enum kiln_code finish_package(struct build *b)
{
    if (b->package.rows == 0)
        return kiln_fail(&b->base.err, KILN_UNSUPPORTED, "none of the problems could be built: %s",
                         json_get_text(json_first(b->failures), "text", "there was none"));
    enum kiln_code rc = package_writer_finish(b->package.writer, &b->base.err);
    if (rc)
        return rc;
    package_writer_destroy(b->package.writer);
    b->package.writer = NULL;
    rc = exported_files_open(b->base.engine->exported, b->package.path, &b->package.space,
                             &b->package.file, &b->base.err);
    unlink(b->package.path);
    return rc;
}

static void plan_rows(struct deferred *d)
{
    struct build *b = build_of(d);
    size_t ready = b->fetches.ready - b->package.written;
    b->package.step_end =
        b->package.written + (ready > BUILD_ROWS_A_STEP ? BUILD_ROWS_A_STEP : ready);
}

static void write_rows(struct deferred *d)
{
    struct build *b = build_of(d);
    b->base.rc = reserve_space(b);
    if (!b->base.rc && !b->package.writer)
        b->base.rc = open_package(b);
    for (size_t i = b->package.written; !b->base.rc && i < b->package.step_end; i++) {
        if (!b->order[i]->object)
            continue;
        b->base.rc = add_item(b, b->order[i], b->package.writer, &b->base.err);
        b->package.rows++;
    }
    if (!b->base.rc && b->package.step_end == b->count)
        b->base.rc = finish_package(b);
}

static void note_totals(struct build *b)
{
    struct json *answer = b->base.answer;
    json_set_u64(answer, "kernels", b->package.rows);
    if (b->records.wanted)
        json_set_u64(answer, "records", b->records.count);
    json_set_u64(answer, "size", b->package.file->size);
    json_set(answer, "failed", KILN_TAKE(b->failures));
    json_set_u64(answer, "failures", b->fetches.failed);
}

static void end_rows(struct deferred *d)
{
    struct build *b = build_of(d);
    if (!build_step_ended(b))
        return;
    for (; b->package.written < b->package.step_end; b->package.written++)
        build_drop_item(b->order[b->package.written]);
    if (!b->package.file) {
        build_go_on(b);
        return;
    }
    note_totals(b);
    deferred_end(d);
}

const struct deferred_step build_write_step = {
    .work_queue = WORK_QUEUE_READ, .begin = plan_rows, .work = write_rows, .done = end_rows
};
