/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/program_job.h"

#include "engine/compile/kernel_key.h"
#include "engine/compile/options.h"

static void write_headers(struct buffer *out, const struct solution_program *program)
{
    for (uint32_t i = 0; i < program->header_count; i++) {
        struct message_header h = { .name = bytes_of_text(program->header_names[i]),
                                    .text = program->header_texts[i] };
        message_header_write(out, &h);
    }
}

enum kiln_code program_job_make(const struct solution_program *program, const struct target *target,
                                const struct toolchain *tc, struct program_job *ret_job,
                                struct kiln_err *err)
{
    struct program_job *p = ret_job;
    buffer_init(&p->options, 2 * LIMIT_OPTIONS_TEXT);
    buffer_init(&p->headers, LIMIT_FRAME_BODY);
    enum kiln_code rc = options_canonicalise(bytes_of_text(program->options), &p->options, err);
    write_headers(&p->headers, program);
    if (!rc && p->headers.failed)
        rc = kiln_fail(err, KILN_NO_MEMORY, "cannot gather the headers of '%s'", program->name);
    if (rc) {
        program_job_done(p);
        return rc;
    }
    p->job = (struct compile_job){
        .kind = COMPILE_KERNEL,
        .origin = COMPILE_OF_KILN,
        .toolchain = bytes_of_text(tc->name),
        .target = bytes_of_text(target->text),
        .program = bytes_of_text(program->name),
        .options = buffer_view(&p->options),
        .source = program->source,
        .header_count = program->header_count,
        .headers = buffer_view(&p->headers),
    };
    return KILN_OK;
}

void program_job_done(struct program_job *p)
{
    buffer_done(&p->options);
    buffer_done(&p->headers);
}

struct package_source program_job_source(const struct compile_job *job)
{
    return (struct package_source){
        .program = job->program,
        .options = job->options,
        .source = job->source,
        .header_count = job->header_count,
        .headers = job->headers,
        .abi = COMPILE_ABI,
    };
}
