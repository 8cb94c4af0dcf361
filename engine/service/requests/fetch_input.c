/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/fetch_input.h"

#include "engine/compile/headers.h"
#include "engine/compile/options.h"
#include "engine/digest/program_key.h"
#include "engine/digest/sha256.h"
#include "engine/service/kernels/toolchain_waits.h"

#include <string.h>

static enum kiln_code canonical_options(struct bytes text, struct buffer *storage,
                                        struct bytes *ret_options, struct kiln_err *err)
{
    buffer_clear(storage);
    enum kiln_code rc = options_canonicalise(text, storage, err);
    *ret_options = buffer_view(storage);
    return rc;
}

static enum kiln_code check_source(struct engine *e, const struct message_fetch_source *m,
                                   struct buffer *storage, struct fetch_input *input)
{
    struct kiln_err *err = &input->err;
    enum kiln_code rc = program_name_check(m->program, err);
    if (!rc && m->source.size == 0)
        rc = kiln_fail(err, KILN_INVALID, "program '%.*s' has no source", (int)m->program.size,
                       (const char *)m->program.data);
    if (!rc)
        rc = headers_check(m->headers, m->header_count, err);
    if (!rc)
        rc = canonical_options(m->options, storage, &input->job.options, err);
    if (!rc)
        rc = target_parse(m->target, &input->target, err);
    return rc ? rc : toolchains_find(e, &input->target, m->toolchain, &input->fetch.tc, err);
}

enum kiln_code fetch_input_read_source(struct engine *e, struct bytes body, struct buffer *storage,
                                       struct fetch_input *ret_input)
{
    struct reader r = reader_of(body);
    struct message_fetch_source m = message_fetch_source_read(&r);
    ret_input->fetch.job = &ret_input->job;
    ret_input->fetch.no_cache = m.flags & FETCH_NO_CACHE;
    ret_input->priority = m.priority ? PRIORITY_PREFETCH : PRIORITY_INTERACTIVE;
    ret_input->result.inline_limit = m.inline_limit;
    ret_input->result.no_object = m.flags & FETCH_NO_OBJECT;
    enum kiln_code rc = message_body_check(&r, MESSAGE_fetch_source, &ret_input->err);
    if (!rc)
        rc = check_source(e, &m, storage, ret_input);
    if (rc)
        return rc;
    ret_input->job.kind = COMPILE_KERNEL;
    ret_input->job.origin = COMPILE_OF_CLIENT;
    ret_input->job.toolchain = bytes_of_text(ret_input->fetch.tc->name);
    ret_input->job.target = bytes_of_text(ret_input->target.text);
    ret_input->job.program = m.program;
    ret_input->job.source = m.source;
    ret_input->job.header_count = m.header_count;
    ret_input->job.headers = m.headers;
    return KILN_OK;
}

static struct program_inputs inputs_of(const struct message_compile_program *m)
{
    return (struct program_inputs){ .library = m->library,
                                    .options = m->options,
                                    .name = m->name,
                                    .source = m->source,
                                    .header_count = m->header_count,
                                    .headers = m->headers,
                                    .expressions = m->expressions };
}

/* Checks that the compile depends only on |inputs|, so that the result may be served to all
 * users. */
static enum kiln_code check_program(const struct program_inputs *inputs, struct target *ret_target,
                                    struct kiln_err *err)
{
    const char *obstacle = program_inputs_obstacle(inputs);
    if (obstacle)
        return kiln_fail(err, KILN_DENIED, "kilnd does not compile the program: %s", obstacle);
    if (inputs->options.size > LIMIT_OPTIONS_TEXT || !inputs->source.size)
        return kiln_fail(err, KILN_INVALID, "the program has no source, or too many options");
    enum kiln_code rc = program_name_check(inputs->name, err);
    if (!rc)
        rc = headers_check(inputs->headers, inputs->header_count, err);
    return rc ? rc : target_parse(program_inputs_target(inputs), ret_target, err);
}

static enum kiln_code find_library(struct engine *e, const struct digest *library,
                                   const struct toolchain **ret_tc, struct kiln_err *err)
{
    const char *ignored;
    *ret_tc = toolchain_table_find_library(e->toolchains, library);
    if (*ret_tc)
        return KILN_OK;
    if (!toolchains_described(e, &ignored))
        return KILN_BUSY;
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "kilnd does not have the program's version of the library");
}

enum kiln_code fetch_input_read_program(struct engine *e, struct bytes body,
                                        struct fetch_input *ret_input)
{
    struct reader r = reader_of(body);
    const struct message_compile_program m = message_compile_program_read(&r);
    const struct program_inputs inputs = inputs_of(&m);
    const struct toolchain *tc = NULL;
    struct kiln_err *err = &ret_input->err;
    struct compile_job *job = &ret_input->job;
    enum kiln_code rc = message_body_check(&r, MESSAGE_compile_program, err);
    if (!rc)
        rc = check_program(&inputs, &ret_input->target, err);
    if (!rc)
        rc = find_library(e, &m.library, &tc, err);
    if (!rc)
        rc = toolchains_find(e, &ret_input->target, bytes_of_text(tc->name), &ret_input->fetch.tc,
                             err);
    if (rc)
        return rc;
    const struct digest source = sha256_of(inputs.source), key = program_key(&inputs, &source);
    ret_input->result.inline_limit = m.inline_limit;
    ret_input->is_rtc = true;
    ret_input->fetch.job = job;
    ret_input->fetch.key = kernel_client_key(KERNEL_SCOPE_PROGRAMS, &key);
    *job = (struct compile_job){ .kind = COMPILE_KERNEL,
                                 .origin = COMPILE_OF_CLIENT,
                                 .toolchain = bytes_of_text(tc->name),
                                 .target = bytes_of_text(ret_input->target.text),
                                 .program = m.name,
                                 .options = m.options,
                                 .source = m.source,
                                 .header_count = m.header_count,
                                 .headers = m.headers,
                                 .is_program = true,
                                 .expressions = m.expressions };
    return KILN_OK;
}

enum kiln_code fetch_input_read_key(struct bytes body, struct fetch_input *ret_input)
{
    struct reader r = reader_of(body);
    struct message_fetch m = message_fetch_read(&r);
    ret_input->fetch.key = m.key;
    ret_input->result.inline_limit = m.inline_limit;
    return message_body_check(&r, MESSAGE_fetch, &ret_input->err);
}

enum kiln_code fetch_input_read_name(uid_t uid, struct bytes body, struct fetch_input *ret_input)
{
    struct reader r = reader_of(body);
    struct message_fetch_name m = message_fetch_name_read(&r);
    ret_input->result.inline_limit = m.inline_limit;
    enum kiln_code rc = message_body_check(&r, MESSAGE_fetch_name, &ret_input->err);
    if (!rc)
        rc = kernel_name_take(m.database_id, m.name, m.args, &ret_input->name, &ret_input->err);
    if (rc)
        return rc;
    ret_input->fetch.key = kernel_name_key(uid, m.database_id, m.name, m.args);
    ret_input->shared_key = kernel_name_key(KERNEL_SCOPE_EVERYONE, m.database_id, m.name, m.args);
    ret_input->fetch.name = &ret_input->name;
    ret_input->fetch.shared_key = &ret_input->shared_key;
    return KILN_OK;
}

enum kiln_code fetch_input_read_next(struct engine *e, uid_t uid, struct reader *items,
                                     struct buffer *storage, struct fetch_input *ret_input)
{
    struct message_batch_item m = message_batch_item_read(items);
    if (items->failed)
        return kiln_fail(&ret_input->err, KILN_INVALID, "the batch ends too early");
    if (m.kind == 0)
        return fetch_input_read_key(m.request, ret_input);
    if (m.kind == 1)
        return fetch_input_read_source(e, m.request, storage, ret_input);
    if (m.kind == 2)
        return fetch_input_read_name(uid, m.request, ret_input);
    return kiln_fail(&ret_input->err, KILN_INVALID, "batch item of unknown kind %u",
                     (unsigned)m.kind);
}

static enum kiln_code ask_for_toolchain(struct deferred *d, const struct message_fetch_source *m,
                                        struct target *target, struct kiln_err *err)
{
    const struct toolchain *ignored;
    enum kiln_code rc = target_parse(m->target, target, err);
    return rc ? rc : toolchains_resolve(d, target, m->toolchain, &ignored, err);
}

enum kiln_code fetch_input_ask_for_source(struct deferred *d)
{
    struct reader r = reader_of(d->body);
    const struct message_fetch_source m = message_fetch_source_read(&r);
    struct target target;
    enum kiln_code rc = ask_for_toolchain(d, &m, &target, &d->err);
    return rc == KILN_BUSY ? rc : KILN_OK;
}

enum kiln_code fetch_input_ask_for_program(struct deferred *d)
{
    struct reader r = reader_of(d->body);
    const struct message_compile_program m = message_compile_program_read(&r);
    const struct program_inputs inputs = inputs_of(&m);
    const struct toolchain *tc = NULL;
    struct target target;
    enum kiln_code rc = target_parse(program_inputs_target(&inputs), &target, &d->err);
    if (!rc)
        rc = toolchains_wait_for_description(d, &d->err);
    if (!rc)
        rc = find_library(d->engine, &m.library, &tc, &d->err);
    if (!rc)
        rc = toolchains_resolve(d, &target, bytes_of_text(tc->name), &tc, &d->err);
    return rc == KILN_BUSY ? rc : KILN_OK;
}

/* Maximum number of targets in one batch that need probes. A probe finds out whether a toolchain
 * supports a target. */
#define NEW_TARGETS_MAX 16

struct new_targets {
    struct target list[NEW_TARGETS_MAX];
    size_t count;
};

static enum kiln_code note_target(struct new_targets *seen, const struct target *target,
                                  struct kiln_err *err)
{
    for (size_t i = 0; i < seen->count; i++) {
        if (strcmp(seen->list[i].text, target->text) == 0)
            return KILN_OK;
    }
    if (seen->count == NEW_TARGETS_MAX)
        return kiln_fail(err, KILN_INVALID, "a batch may name at most %d new targets",
                         NEW_TARGETS_MAX);
    seen->list[seen->count++] = *target;
    return KILN_OK;
}

/* Skips items with the target and toolchain of the last item whose toolchain is known, because most
 * batches are for one target. The loop is not divided into slices, because a batch has at most
 * LIMIT_BATCH_ITEMS items. */
enum kiln_code fetch_input_ask_for_batch(struct deferred *d)
{
    struct reader r = reader_of(d->body);
    const struct message_batch m = message_batch_read(&r);
    struct reader items = reader_of(m.items);
    struct new_targets seen = { .count = 0 };
    struct message_fetch_source fine = { .target.size = 0 };
    for (uint32_t i = 0; i < m.count; i++) {
        struct message_batch_item item = message_batch_item_read(&items);
        if (item.kind != 1)
            continue;
        struct reader of_item = reader_of(item.request);
        struct message_fetch_source source = message_fetch_source_read(&of_item);
        if (bytes_equal(source.target, fine.target) &&
            bytes_equal(source.toolchain, fine.toolchain))
            continue;
        struct target target;
        /* not used: the same error is reported when the item begins */
        struct kiln_err of_item_only = KILN_ERR_INIT;
        enum kiln_code rc = ask_for_toolchain(d, &source, &target, &of_item_only);
        if (!rc)
            fine = source;
        if (rc != KILN_BUSY)
            continue; /* even after an error, the probes for the other items must start */
        rc = note_target(&seen, &target, &d->err);
        if (rc)
            return rc;
    }
    if (items.failed || reader_left(&items))
        return kiln_fail(&d->err, KILN_INVALID,
                         "the batch's items do not add up to its count of %u", (unsigned)m.count);
    return seen.count ? KILN_BUSY : KILN_OK;
}
