/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/build.h"

#include "common/clock.h"
#include "engine/service/kernels/program_job.h"
#include "engine/service/requests/admin.h"
#include "engine/service/requests/handed_files.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

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

static struct handed_to handed_to_of(const struct build *b)
{
    return (struct handed_to){ .uid = b->uid, .is_admin = b->is_admin };
}

/* Before and while it grows. */
static enum kiln_code check_room(struct build *b)
{
    const struct handed_to to = handed_to_of(b);
    struct stat seen = { 0 };
    if (b->writer && stat(b->path, &seen) != 0)
        return kiln_fail_errno(&b->err, errno, "cannot look at '%s'", b->path);
    return handed_files_check(b->engine->handed, b->engine->staging, &to, (uint64_t)seen.st_size,
                              &b->err);
}

static enum kiln_code open_package(struct build *b)
{
    snprintf(b->path, sizeof(b->path), "%s/build-%llx-%p", b->engine->staging,
             (unsigned long long)clock_monotonic_ns(), (void *)b);
    return package_writer_create(b->path, b->format, &b->writer, &b->err);
}

static enum kiln_code finish_package(struct build *b)
{
    if (b->rows == 0)
        return kiln_fail(&b->err, KILN_UNSUPPORTED, "none of the problems could be built: %s",
                         json_get_text(json_first(b->failures), "text", "there was none"));
    enum kiln_code rc = package_writer_finish(b->writer, &b->err);
    if (rc)
        return rc;
    package_writer_destroy(b->writer);
    b->writer = NULL;
    const struct handed_to to = handed_to_of(b);
    rc = handed_files_give(b->engine->handed, b->path, &to, &b->file, &b->err);
    unlink(b->path);
    return rc;
}

void build_write_rows(struct task *task)
{
    struct build *b = build_of_task(task);
    b->rc = check_room(b);
    if (!b->rc && !b->writer)
        b->rc = open_package(b);
    for (size_t i = b->written; !b->rc && i < b->step_end; i++) {
        if (!b->order[i]->object)
            continue;
        b->rc = add_item(b, b->order[i], b->writer, &b->err);
        b->rows++;
    }
    if (!b->rc && b->step_end == b->count)
        b->rc = finish_package(b);
}

static void send_package(struct build *b)
{
    json_set_u64(b->answer, "kernels", b->rows);
    json_set_u64(b->answer, "size", b->file->size);
    json_set(b->answer, "failed", KILN_TAKE(b->failures));
    json_set_u64(b->answer, "failures", b->failed);
    admin_send_files(b->engine, b->waiter.caller, b->waiter.request_id, b->answer, &b->file, 1);
    build_destroy(b);
}

void build_rows_written(struct task *task)
{
    struct build *b = build_of_task(task);
    if (!build_end_step(b))
        return;
    for (; b->written < b->step_end; b->written++)
        build_drop_item(b->order[b->written]);
    if (b->file)
        send_package(b);
    else
        build_go_on(b);
}
