/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/results.h"

/* Bytes before the records in the body of a 'kernels' message: the number of records and their
 * length. */
#define HEAD_SIZE 8

void result_list_begin(struct result_list *list, struct engine *e, const struct caller *caller)
{
    list->engine = e;
    list->caller = caller;
    list->count = 0;
    list->is_frame = false;
    list->object_count = 0;
    list->segment_count = 0;
    list->segment_bytes = 0;
    buffer_clear(&e->records);
    buffer_put_u64(&e->records, 0); /* HEAD_SIZE bytes; the values are set when the list is sent */
}

void result_list_begin_frame(struct result_list *list, struct engine *e,
                             const struct caller *caller)
{
    result_list_begin(list, e, caller);
    list->is_frame = true;
}

bool result_list_is_full(const struct result_list *list)
{
    return list->object_count == RESULT_LIST_OBJECTS ||
           list->segment_count == RESULT_LIST_OBJECTS ||
           list->engine->records.size + list->segment_bytes >= RESULT_LIST_BYTES;
}

static bool travels_inline(const struct result_list *list, const struct result_options *options,
                           struct object *object)
{
    return object->size <= options->inline_limit &&
           (list->caller->capabilities & CAPABILITY_INLINE) && object->data;
}

static void place_object(struct result_list *list, const struct result_options *options,
                         struct object *object, struct message_result *m)
{
    m->object = object->digest;
    m->size = object->size;
    m->spent_ns = object->compile_ns;
    if (options->no_object)
        return;
    if (travels_inline(list, options, object)) {
        m->content = bytes_of(object->data, object->size);
        return;
    }
    m->descriptor = (uint16_t)list->object_count;
    list->objects[list->object_count++] = object_ref(object);
}

static void put_u32_at(struct buffer *b, size_t at, uint32_t v)
{
    size_t size = b->size;
    b->size = at;
    buffer_put_u32(b, v);
    b->size = size;
}

/* Adds the object's bytes as a segment, without copying them. They belong before the last two
 * fields of the record, text and log, which are empty in a success. */
static void add_segment(struct result_list *list, struct object *object)
{
    struct buffer *records = &list->engine->records;
    if (records->failed)
        return;
    size_t at = records->size - 2 * sizeof(uint32_t);
    put_u32_at(records, at - sizeof(uint32_t), (uint32_t)object->size);
    list->segments[list->segment_count++] = (struct segment){ at, object_ref(object) };
    list->segment_bytes += object->size;
}

void result_list_add(struct result_list *list, const struct result_options *options,
                     const struct fetch_result *result)
{
    struct message_result m = {
        .index = options->index,
        .code = (uint16_t)result->err.code,
        .tier = (uint8_t)result->tier,
        .descriptor = NO_DESCRIPTOR,
        .key = result->key,
        .text = bytes_of_text(result->err.text),
        .log = bytes_of_text(result->log),
    };
    if (result->object)
        place_object(list, options, result->object, &m);
    else
        metrics_result_failed(&list->engine->metrics, result->err.code);
    bool apart = list->is_frame && m.content.size >= RESULT_LIST_SEGMENT_MIN;
    if (apart)
        m.content.size = 0;
    message_result_write(&list->engine->records, &m);
    if (apart)
        add_segment(list, result->object);
    list->count++;
}

struct bytes result_list_records(const struct result_list *list)
{
    const struct buffer *records = &list->engine->records;
    if (records->failed)
        return (struct bytes){ 0 };
    return bytes_of(records->data + HEAD_SIZE, records->size - HEAD_SIZE);
}

void result_list_done(struct result_list *list)
{
    while (list->object_count > 0)
        object_unref(list->objects[--list->object_count]);
    while (list->segment_count > 0)
        object_unref(list->segments[--list->segment_count].object);
}

void result_list_send(struct result_list *list, struct caller *caller, uint64_t request_id,
                      uint16_t flags)
{
    struct engine *e = list->engine;
    if (e->records.failed) {
        service_refuse_unbuilt(e, caller, request_id);
        result_list_done(list);
        return;
    }
    size_t records_size = e->records.size - HEAD_SIZE + list->segment_bytes;
    put_u32_at(&e->records, 0, list->count);
    put_u32_at(&e->records, sizeof(uint32_t), (uint32_t)records_size);
    struct reply reply = {
        .type = MESSAGE_kernels,
        .request_id = request_id,
        .flags = flags,
        .body = buffer_view(&e->records),
        .segments = list->segments,
        .segment_count = list->segment_count,
        .objects = list->objects,
        .object_count = list->object_count,
    };
    caller->ops->reply(caller, &reply);
    result_list_done(list);
}
