/* SPDX-License-Identifier: MIT */
#include "libclient/kernels/compile.h"

#include "libclient/kernels/fetch.h"

struct begin {
    struct compile_found found;
    enum kiln_code code;
    struct failure failure;
};

static enum kiln_code accept_begin(struct request *request, const struct reply *reply,
                                   struct failure *failure)
{
    struct begin *begin = request->context;
    struct reader r = reader_of(reply->body);
    struct message_kernels m = message_kernels_read(&r);
    struct reader results = reader_of(m.results);
    struct message_result o = message_result_read(&results);
    if (reply->header->type != MESSAGE_kernels || r.failed || r.at != r.end || m.count != 1 ||
        results.failed || results.at != results.end || (reply->header->flags & FRAME_MORE))
        return kiln_fail(&failure->err, KILN_CORRUPT,
                         "kilnd's answer to a compile request is not one result");
    bool is_damaged;
    begin->found.is_program = o.index == COMPILE_ANSWER_PROGRAM;
    begin->code = fetch_result(&o, reply, &begin->found.result, &is_damaged, &begin->failure);
    if (!is_damaged && !reply_puts_off(reply, begin->code))
        return KILN_OK;
    *failure = begin->failure;
    begin->failure.log = NULL;
    return begin->code;
}

static enum kiln_code ask(struct kiln_client *client, const struct request *request,
                          uint64_t deadline_ns, struct compile_found *ret_found,
                          struct failure *failure)
{
    struct begin begin = { .failure = FAILURE_INIT };
    WAITER_AUTO struct waiter waiter;
    waiter_init(&waiter);
    struct request rq = *request;
    rq.waiter = &waiter;
    rq.accept = accept_begin;
    rq.context = &begin;
    enum kiln_code rc = multiplexer_call(client->multiplexer, &rq, deadline_ns);
    *failure = rc ? rq.failure : begin.failure;
    if (rc) {
        failure_done(&begin.failure);
        if (begin.found.result)
            kernel_destroy(begin.found.result);
        return rc;
    }
    *ret_found = begin.found;
    return begin.code;
}

enum kiln_code compile_begin(struct kiln_client *client, const struct compile_question *question,
                             struct compile_found *ret_found, struct failure *failure)
{
    uint8_t storage[FRAME_HEADER_SIZE + 2 * DIGEST_SIZE + 9];
    struct buffer frame;
    client_frame_init_in(&frame, storage, sizeof(storage));
    struct message_compile_begin m = { .key = *question->key,
                                       .wait_ms = question->wait_ms,
                                       .inline_limit = LIMIT_INLINE_OBJECT };
    if (question->program) {
        m.flags = COMPILE_OR_PROGRAM;
        m.program = *question->program;
    }
    message_compile_begin_write(&frame, &m);
    enum kiln_code rc =
        ask(client, &(struct request){ .type = MESSAGE_compile_begin, .frame = &frame },
            question->deadline_ns, ret_found, failure);
    ret_found->is_program = !rc && ret_found->is_program && question->program;
    return rc;
}

enum kiln_code compile_program(struct kiln_client *client, const struct program_inputs *inputs,
                               uint64_t deadline_ns, struct kiln_kernel **ret_result,
                               struct failure *failure)
{
    BUFFER_AUTO struct buffer frame;
    client_frame_init(&frame);
    const struct message_compile_program m = { .library = inputs->library,
                                               .inline_limit = LIMIT_INLINE_OBJECT,
                                               .options = inputs->options,
                                               .name = inputs->name,
                                               .source = inputs->source,
                                               .header_count = inputs->header_count,
                                               .headers = inputs->headers,
                                               .expressions = inputs->expressions };
    message_compile_program_write(&frame, &m);
    struct compile_found found = { .result = NULL };
    enum kiln_code rc =
        ask(client, &(struct request){ .type = MESSAGE_compile_program, .frame = &frame },
            deadline_ns, &found, failure);
    *ret_result = found.result;
    return rc;
}

static enum kiln_code accept_recorded(struct request *request, const struct reply *reply,
                                      struct failure *failure)
{
    (void)request;
    if (reply->header->type != MESSAGE_recorded || (reply->header->flags & FRAME_MORE))
        return kiln_fail(&failure->err, KILN_CORRUPT, "kilnd's answer to compile_end is another's");
    return KILN_OK;
}

/* If the connection is lost, the result is not sent again, because the right to compile ended with
 * the connection. */
enum kiln_code compile_end(struct kiln_client *client, const struct compile_result *result,
                           uint64_t deadline_ns, struct failure *failure)
{
    BUFFER_AUTO struct buffer frame;
    client_frame_init(&frame);
    const struct message_compile_end m = { .key = *result->key,
                                           .part = (uint8_t)result->part,
                                           .compile_ns = result->compile_ns,
                                           .target = bytes_of_text(result->target),
                                           .toolchain = bytes_of_text(result->toolchain),
                                           .program = bytes_of_text(result->program),
                                           .options = bytes_of_text(result->options) };
    message_compile_end_write(&frame, &m);
    WAITER_AUTO struct waiter waiter;
    waiter_init(&waiter);
    struct request rq = { .type = MESSAGE_compile_end,
                          .frame = &frame,
                          .waiter = &waiter,
                          .files = &result->file,
                          .file_count = result->file >= 0,
                          .once = true,
                          .accept = accept_recorded };
    enum kiln_code rc = multiplexer_call(client->multiplexer, &rq, deadline_ns);
    *failure = rq.failure;
    return rc;
}
