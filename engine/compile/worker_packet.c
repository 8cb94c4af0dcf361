/* SPDX-License-Identifier: MIT */
#include "engine/compile/worker_packet.h"

#include <string.h>

void worker_job_write(struct buffer *b, const struct compile_job *job)
{
    buffer_put_u8(b, (uint8_t)job->kind);
    buffer_put_sized(b, job->toolchain);
    buffer_put_sized(b, job->target);
    buffer_put_sized(b, job->program);
    buffer_put_sized(b, job->options);
    buffer_put_sized(b, job->source);
    buffer_put_u32(b, job->header_count);
    buffer_put_sized(b, job->headers);
    buffer_put_u8(b, job->is_program);
    buffer_put_sized(b, job->expressions);
    buffer_put(b, job->toolchain_id.bytes, DIGEST_SIZE);
}

enum kiln_code worker_job_read(struct bytes content, struct compile_job *ret_job,
                               struct kiln_err *err)
{
    struct reader r = reader_of(content);
    unsigned kind = reader_u8(&r);
    struct compile_job job = { .kind = (enum compile_kind)kind };
    job.toolchain = reader_sized(&r);
    job.target = reader_sized(&r);
    job.program = reader_sized(&r);
    job.options = reader_sized(&r);
    job.source = reader_sized(&r);
    job.header_count = reader_u32(&r);
    job.headers = reader_sized(&r);
    job.is_program = reader_u8(&r) != 0;
    job.expressions = reader_sized(&r);
    struct bytes id = reader_take(&r, DIGEST_SIZE);
    if (id.size)
        memcpy(job.toolchain_id.bytes, id.data, id.size);
    if (r.failed || reader_left(&r) || kind > COMPILE_DESCRIBE)
        return kiln_fail(err, KILN_INVALID, "the job file of %zu bytes is not a job", content.size);
    *ret_job = job;
    return KILN_OK;
}

void worker_ready_write(struct buffer *b, const struct sandbox_report *sandbox)
{
    buffer_put_u8(b, WORKER_READY);
    buffer_put_u32(b, sandbox->has);
    buffer_put_u32(b, sandbox->landlock);
    buffer_put_sized(b, bytes_of_text(sandbox->why));
    buffer_put_sized(b, bytes_of_text(KILN_VERSION));
}

static bool take_text(struct bytes text, char *copy, size_t size)
{
    if (text.size >= size)
        return false;
    for (size_t i = 0; i < text.size; i++)
        copy[i] = text.data[i] < ' ' ? ' ' : (char)text.data[i];
    copy[text.size] = '\0';
    return true;
}

static bool is_consistent(const struct sandbox_report *sandbox)
{
    bool all = sandbox->has == LAYERS_ALL;
    return (sandbox->has & ~LAYERS_ALL) == 0 && all == (sandbox->why[0] == '\0') &&
           report_has(sandbox, LAYER_landlock) <= (sandbox->landlock > 0);
}

enum kiln_code worker_ready_read(struct reader *r, struct worker_result *ret_result,
                                 struct kiln_err *err)
{
    struct worker_result result = { .end = COMPILE_DONE };
    struct sandbox_report *sandbox = &result.sandbox;
    sandbox->has = reader_u32(r);
    sandbox->landlock = reader_u32(r);
    struct bytes why = reader_sized(r), release = reader_sized(r);
    if (r->failed || reader_left(r) || !take_text(why, sandbox->why, sizeof(sandbox->why)) ||
        !is_consistent(sandbox))
        return kiln_fail(err, KILN_INVALID, "a compiler process sent a damaged handshake");
    if (!bytes_equal_text(release, KILN_VERSION))
        return kiln_fail(err, KILN_INVALID,
                         "a compiler process belongs to another release than " KILN_VERSION);
    *ret_result = result;
    return KILN_OK;
}

void worker_result_write(struct buffer *b, const struct worker_result *result)
{
    buffer_put_u8(b, WORKER_RESULT);
    buffer_put_u8(b, (uint8_t)result->end);
    buffer_put_u64(b, result->cpu_ns);
    buffer_put_u64(b, result->peak_rss);
    buffer_put_sized(b, bytes_of_text(result->text));
}

enum kiln_code worker_result_read(struct reader *r, struct worker_result *ret_result,
                                  struct kiln_err *err)
{
    unsigned end = reader_u8(r);
    struct worker_result result = { .end = (enum compile_end)end };
    result.cpu_ns = reader_u64(r);
    result.peak_rss = reader_u64(r);
    struct bytes text = reader_sized(r);
    if (r->failed || reader_left(r) || end > COMPILE_OUTDATED ||
        !take_text(text, result.text, sizeof(result.text)))
        return kiln_fail(err, KILN_INVALID, "a compiler process sent a damaged result");
    *ret_result = result;
    return KILN_OK;
}
