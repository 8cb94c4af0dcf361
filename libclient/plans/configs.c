/* SPDX-License-Identifier: MIT */
/* Requests perf configs to try: a range of a solver's candidates, in several messages. */
#include "common/base/array.h"
#include "common/miopen/tuning_text.h"
#include "libclient/plans/solutions.h"

#include <string.h>

/* Maximum bytes of all texts of a list: enough for the longest texts and more candidates than any
 * tuning space has. */
#define TEXTS_MAX (256u << 20)

void config_list_done(struct config_list *list)
{
    free(list->configs);
    buffer_done(&list->texts);
    *list = (struct config_list){ .count = 0 };
}

struct part {
    struct config_list *list;
    uint32_t first, end, next;
};

static enum kiln_code fail_damaged(struct failure *f)
{
    return kiln_fail(
        &f->err, KILN_CORRUPT,
        "kilnd's list of perf configs is damaged: use matching versions of libkiln and "
        "kilnd");
}

static enum kiln_code add_config(struct config_list *list, const struct message_candidate *m,
                                 struct failure *failure)
{
    size_t at = list->texts.size;
    buffer_put(&list->texts, m->config.data, m->config.size);
    buffer_put(&list->texts, "", 1);
    if (list->texts.failed || !ARRAY_RESERVE(list->configs, list->count, list->capacity, 256))
        return kiln_fail(&failure->err, KILN_NO_MEMORY, "no memory for a list of perf configs");
    list->configs[list->count++] = (struct config){ .candidate = m->index, .at = at };
    return KILN_OK;
}

static enum kiln_code read_configs(struct part *part, const struct message_candidates *m,
                                   struct failure *failure)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct reader r = reader_of(m->configs);
    enum kiln_code rc = KILN_OK;
    uint32_t min_index = part->first;
    for (uint32_t i = 0; i < m->count && !rc; i++) {
        const struct message_candidate one = message_candidate_read(&r);
        if (r.failed || one.index < min_index || one.index >= m->next ||
            tuning_word_check("config", one.config, /* commas= */ true, &ignored))
            return fail_damaged(failure);
        min_index = one.index + 1;
        rc = add_config(part->list, &one, failure);
    }
    if (!rc && r.at != r.end)
        return fail_damaged(failure);
    part->next = m->next;
    return rc;
}

static enum kiln_code accept_candidates(struct request *request, const struct reply *reply,
                                        struct failure *failure)
{
    struct part *part = request->context;
    struct reader r = reader_of(reply->body);
    const struct message_candidates m = message_candidates_read(&r);
    if (reply->header->type != MESSAGE_candidates || (reply->header->flags & FRAME_MORE) ||
        r.failed || r.at != r.end || m.next <= part->first || m.next > part->end)
        return fail_damaged(failure);
    return read_configs(part, &m, failure);
}

static enum kiln_code ask_part(struct kiln_client *client, const struct configs_question *question,
                               struct part *part, uint64_t deadline_ns, struct failure *failure)
{
    const struct message_configs m = { .problem = *question->problem,
                                       .target = question->target,
                                       .solver = question->solver,
                                       .first = part->first,
                                       .count = part->end - part->first };
    BUFFER_AUTO struct buffer frame;
    client_frame_init(&frame);
    message_configs_write(&frame, &m);
    WAITER_AUTO struct waiter waiter;
    waiter_init(&waiter);
    struct request rq = { .type = MESSAGE_configs,
                          .frame = &frame,
                          .waiter = &waiter,
                          .accept = accept_candidates,
                          .context = part };
    enum kiln_code rc = multiplexer_call(client->multiplexer, &rq, deadline_ns);
    failure_done(failure);
    *failure = rq.failure;
    return rc;
}

enum kiln_code configs_ask(struct kiln_client *client, const struct configs_question *question,
                           uint64_t deadline_ns, struct config_list *ret_list,
                           struct failure *failure)
{
    if (question->count == 0 || question->count > UINT32_MAX - question->first)
        return kiln_fail(&failure->err, KILN_INVALID,
                         "%u candidates from %u on are not a valid range",
                         (unsigned)question->count, (unsigned)question->first);
    struct part part = { .list = ret_list,
                         .first = question->first,
                         .end = question->first + question->count };
    buffer_init(&ret_list->texts, TEXTS_MAX);
    enum kiln_code rc = KILN_OK;
    for (; !rc && part.first < part.end; part.first = part.next)
        rc = ask_part(client, question, &part, deadline_ns, failure);
    return rc;
}
