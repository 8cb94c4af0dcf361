/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/source.h"

#include "engine/service/budget.h"
#include "engine/service/kernels/fetch.h"

#include <string.h>

static struct bytes copy_text(char **at, struct bytes text)
{
    char *start = *at;
    if (text.size)
        memcpy(start, text.data, text.size);
    start[text.size] = '\0';
    *at += text.size + 1;
    return bytes_of(start, text.size);
}

enum kiln_code source_copy(struct engine *e, uid_t uid, const struct fetch_options *options,
                           struct source **ret_source, struct kiln_err *err)
{
    const struct compile_job *job = options->job;
    const struct toolchain *tc = options->tc;
    size_t size = job->toolchain.size + job->target.size + job->program.size + job->options.size +
                  job->source.size + job->headers.size + job->expressions.size + 7;
    enum kiln_code rc = budget_take(e->budget, uid, size, err);
    if (rc)
        return rc;
    struct source *s = malloc(sizeof(*s) + size);
    if (!s) {
        budget_return(e->budget, uid, size);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep a source of %zu bytes", size);
    }
    char *at = s->storage;
    bool works = toolchains_tried(e, tc, job->target);
    s->engine = e;
    s->uid = uid;
    s->size = size;
    s->job = (struct compile_job){
        .kind = COMPILE_KERNEL,
        .origin =
            works
                ? job->origin
                : COMPILE_OF_CLIENT, /* not trusted, because a client may have chosen the target */
        .target_works = works,
        .toolchain = copy_text(&at, job->toolchain),
        .target = copy_text(&at, job->target),
        .program = copy_text(&at, job->program),
        .options = copy_text(&at, job->options),
        .source = copy_text(&at, job->source),
        .header_count = job->header_count,
        .headers = copy_text(&at, job->headers),
        .is_program = job->is_program,
        .expressions = copy_text(&at, job->expressions),
        .toolchain_id = tc->identity,
    };
    *ret_source = s;
    return KILN_OK;
}

void source_destroy(struct source *s)
{
    if (!s)
        return;
    budget_return(s->engine->budget, s->uid, s->size);
    free(s);
}
