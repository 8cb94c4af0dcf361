/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/results.h"

#include "engine/store/held_objects.h"

/* Size of the two numbers with which a 'kernels' message begins: the number of records, and their
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
    buffer_put_u64(&e->records, 0);
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

/* Maximum number of evictions for one object, so that they take only milliseconds. */
#define EVICTED_AT_ONCE 256

/* Evicts hot objects that were sent to the same user as |object|, until |object| fits into this
 * user's limit. */
static void make_space(struct engine *e, const struct object *object)
{
    for (unsigned i = 0; i < EVICTED_AT_ONCE && held_objects_exceed(e->held, object); i++) {
        struct object *other = held_objects_next(e->held, object->receiver);
        if (!other)
            return;
        (void)hot_set_evict(e->hot, other);
    }
}

static enum kiln_code count_object(struct engine *e, struct object *object,
                                   struct object **ret_object, struct kiln_err *err)
{
    make_space(e, object);
    enum kiln_code rc = held_objects_count(e->held, object, err);
    if (!rc)
        *ret_object = object_ref(object);
    return rc;
}

/* Copies |object| for user |uid|. If |object| is hot, the copy becomes hot, too. Large objects are
 * not copied here (inflight_may_answer). */
static enum kiln_code count_copy(struct engine *e, const struct object *object, uid_t uid,
                                 struct object **ret_object, struct kiln_err *err)
{
    const struct digest *hot_key = hot_set_key_of(object);
    const struct digest key = hot_key ? *hot_key : object->digest;
    struct object *copy = NULL;
    enum kiln_code rc = object_copy(object, &copy, err);
    if (rc)
        return rc;
    (void)object_reserve(copy, uid);
    rc = count_object(e, copy, ret_object, err);
    if (!rc && hot_key)
        hot_set_insert_copy(e->hot, &key, copy); /* may evict |object| */
    object_unref(copy);
    return rc;
}

static struct object *find_copy(struct engine *e, const struct object *object, uid_t uid)
{
    const struct digest *key = hot_set_key_of(object);
    return key ? hot_set_find_copy(e->hot, key, (uint32_t)uid) : NULL;
}

/* Returns a reference to |object|, or to a copy that may be sent to the caller as a descriptor. */
static inline enum kiln_code object_for_caller(const struct result_list *list,
                                               struct object *object, struct object **ret_object,
                                               struct kiln_err *err)
{
    struct engine *e = list->engine;
    uid_t uid = list->caller->uid;
    struct object *own = object_reserve(object, uid) ? object : find_copy(e, object, uid);
    if (!own)
        return count_copy(e, object, uid, ret_object, err);
    if (!own->held)
        return count_object(e, own, ret_object, err);
    *ret_object = object_ref(own);
    return KILN_OK;
}

static enum kiln_code place_object(struct result_list *list, const struct result_options *options,
                                   struct object *object, struct message_result *m,
                                   struct kiln_err *err)
{
    m->object = object->digest;
    m->size = object->size;
    m->spent_ns = object->compile_ns;
    if (options->no_object)
        return KILN_OK;
    if (travels_inline(list, options, object)) {
        m->content = bytes_of(object->data, object->size);
        return KILN_OK;
    }
    enum kiln_code rc = object_for_caller(list, object, &list->objects[list->object_count], err);
    if (!rc)
        m->descriptor = (uint16_t)list->object_count++;
    return rc;
}

static void put_u32_at(struct buffer *b, size_t at, uint32_t v)
{
    size_t size = b->size;
    b->size = at;
    buffer_put_u32(b, v);
    b->size = size;
}

/* Adds the object's bytes without copying them. The record's last two fields, text and log, follow
 * these bytes; both fields are empty in a successful result. */
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
    struct kiln_err err;
    kiln_err_init(&err);
    if (result->object && place_object(list, options, result->object, &m, &err))
        m = (struct message_result){ .index = options->index,
                                     .code = (uint16_t)err.code,
                                     .descriptor = NO_DESCRIPTOR,
                                     .key = result->key,
                                     .text = bytes_of_text(err.text) };
    if (m.code)
        metrics_result_failed(&list->engine->metrics, (enum kiln_code)m.code);
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
