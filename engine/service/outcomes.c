/* SPDX-License-Identifier: MIT */
#include "engine/service/outcomes.h"

void outcome_list_begin(struct outcome_list *list, struct engine *e, const struct caller *caller)
{
    list->engine = e;
    list->caller = caller;
    list->count = 0;
    list->object_count = 0;
    e->records.size = 0;
    e->records.failed = false;
}

bool outcome_list_is_full(const struct outcome_list *list)
{
    return list->object_count == OUTCOME_LIST_OBJECTS ||
           list->engine->records.size >= OUTCOME_LIST_BYTES;
}

static bool travels_inline(const struct outcome_list *list, const struct outcome_wish *wish,
                           const struct object *object)
{
    return object->data && object->size <= wish->inline_limit &&
           (list->caller->capabilities & CAPABILITY_INLINE);
}

static void place_object(struct outcome_list *list, const struct outcome_wish *wish,
                         struct object *object, struct message_outcome *m)
{
    m->object = object->digest;
    m->size = object->size;
    m->spent_ns = object->compile_ns;
    if (wish->no_object)
        return;
    if (travels_inline(list, wish, object)) {
        m->content = bytes_of(object->data, object->size);
        return;
    }
    m->descriptor = (uint16_t)list->object_count;
    list->objects[list->object_count++] = object;
}

void outcome_list_add(struct outcome_list *list, const struct outcome_wish *wish,
                      const struct fetch_result *result)
{
    struct message_outcome m = {
        .index = wish->index,
        .code = (uint16_t)result->err.code,
        .tier = (uint8_t)result->tier,
        .descriptor = NO_DESCRIPTOR,
        .key = result->key,
        .text = bytes_of_text(result->err.text),
        .log = bytes_of_text(result->log),
    };
    if (result->object)
        place_object(list, wish, result->object, &m);
    message_outcome_write(&list->engine->records, &m);
    list->count++;
}

void outcome_list_send(struct outcome_list *list, struct caller *caller, uint64_t request_id,
                       uint16_t flags)
{
    struct engine *e = list->engine;
    struct message_kernels m = { .count = list->count, .outcomes = buffer_view(&e->records) };
    e->body.size = 0;
    e->body.failed = e->records.failed;
    message_kernels_write(&e->body, &m);
    if (e->body.failed) {
        struct kiln_err why = { .code = KILN_NO_MEMORY, .text = "cannot build the answer" };
        service_refuse(e, caller, request_id, &why, NULL);
        return;
    }
    struct reply reply = {
        .type = MESSAGE_kernels,
        .request_id = request_id,
        .flags = flags,
        .body = buffer_view(&e->body),
        .objects = list->objects,
        .object_count = list->object_count,
    };
    caller->ops->reply(caller, &reply);
}
