/* SPDX-License-Identifier: MIT */
#include "libclient/kernels/source.h"

#include "libclient/sized.h"

static struct bytes text_of(const char *text, size_t size)
{
    return size ? bytes_of(text, size) : bytes_of_text(text);
}

static enum kiln_code check_texts(const struct kiln_kernel_source *s, struct kiln_err *err)
{
    if (!s->target || !s->target[0])
        return kiln_fail(err, KILN_INVALID,
                         "kiln_kernel_source.target is not set: it says what to "
                         "compile for, for example gfx90a");
    if (!s->program || !s->program[0])
        return kiln_fail(err, KILN_INVALID,
                         "kiln_kernel_source.program is not set: name the unit, for example "
                         "MyConv.cpp");
    if (!s->source)
        return kiln_fail(err, KILN_INVALID, "kiln_kernel_source.source is not set");
    return KILN_OK;
}

enum kiln_code source_check(const struct kiln_kernel_source *source, struct kiln_err *err)
{
    if (!source || !sized_is_fine(source->size, SIZED_TO(struct kiln_kernel_source, timeout_ms)))
        return kiln_fail(err, KILN_INVALID,
                         "kiln_kernel_source.size is not set: give it sizeof the struct");
    enum kiln_code rc = check_texts(source, err);
    if (rc)
        return rc;
    if (source->header_count > LIMIT_HEADERS)
        return kiln_fail(err, KILN_INVALID, "%zu headers exceed the limit of %u",
                         source->header_count, LIMIT_HEADERS);
    for (size_t i = 0; i < source->header_count; i++)
        if (!source->headers || !source->headers[i].name || !source->headers[i].text)
            return kiln_fail(err, KILN_INVALID, "header %zu of '%s' lacks its name or text", i,
                             source->program);
    return KILN_OK;
}

void source_identify(const struct kiln_kernel_source *source, struct source_identity *ret_identity)
{
    struct source_identity *id = ret_identity;
    id->parts[0] = bytes_of_text(source->toolchain);
    id->parts[1] = bytes_of_text(source->target);
    id->parts[2] = bytes_of_text(source->program);
    id->parts[3] = bytes_of_text(source->options);
    id->parts[4] = text_of(source->source, source->source_size);
    id->count = 5;
    for (size_t i = 0; i < source->header_count; i++) {
        const struct kiln_header *h = &source->headers[i];
        id->parts[id->count++] = bytes_of_text(h->name);
        id->parts[id->count++] = text_of(h->text, h->text_size);
    }
}

struct answer_identity source_answer_identity(const struct source_identity *identity)
{
    return (struct answer_identity){ .kind = ANSWER_SOURCE,
                                     .parts = identity->parts,
                                     .count = identity->count };
}

void source_write(struct buffer *body, const struct kiln_kernel_source *source, uint8_t flags)
{
    BUFFER_AUTO struct buffer headers;
    buffer_init(&headers, LIMIT_FRAME_BODY);
    for (size_t i = 0; i < source->header_count; i++) {
        const struct kiln_header *h = &source->headers[i];
        struct message_header m = { .name = bytes_of_text(h->name),
                                    .text = text_of(h->text, h->text_size) };
        message_header_write(&headers, &m);
    }
    body->failed |= headers.failed;
    struct message_fetch_source m = {
        .priority = source->priority == KILN_PREFETCH ? PRIORITY_PREFETCH : PRIORITY_INTERACTIVE,
        .flags = flags,
        .inline_limit = LIMIT_INLINE_OBJECT,
        .toolchain = bytes_of_text(source->toolchain),
        .target = bytes_of_text(source->target),
        .program = bytes_of_text(source->program),
        .options = bytes_of_text(source->options),
        .source = text_of(source->source, source->source_size),
        .header_count = (uint32_t)source->header_count,
        .headers = buffer_view(&headers),
    };
    message_fetch_source_write(body, &m);
}
