/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/hex.h"
#include "engine/compile/code_object.h"
#include "engine/fleet/fleet_index_format.h"
#include "engine/fleet/fleet_record.h"
#include "engine/service/fleet/fleet_parts.h"
#include "engine/service/kernels/store_tasks.h"

#include <stdio.h>
#include <string.h>

/* Size of the largest record that a brief task (task.is_brief) verifies: this takes less than a
 * millisecond. */
#define BRIEF_MAX (64u << 10)

struct fleet_query *query_of_access(struct fleet_access *get)
{
    return (struct fleet_query *)(void *)((char *)get - offsetof(struct fleet_query, get));
}

static struct fleet_query *query_of_task(struct task *task)
{
    return (struct fleet_query *)(void *)((char *)task - offsetof(struct fleet_query, task));
}

static void destroy_query(struct fleet_query *query)
{
    query->shard->queries--;
    if (query->fd >= 0)
        close(query->fd);
    trusted_unref(query->trusted);
    object_unref(query->object);
    buffer_done(&query->texts);
    free(query);
}

static void answer_query(struct fleet_query *query, struct object *object)
{
    void (*answered)(void *, struct object *) = query->answered;
    query->answered = NULL;
    if (answered)
        answered(query->context, object);
}

void query_give_up(struct fleet_query *query)
{
    answer_query(query, NULL);
    destroy_query(query);
}

void fleet_tier_forget(struct fleet_query *query) { query->answered = NULL; }

void query_note_late(const struct fleet_query *query)
{
    query->shard->engine->fleet->late += query->answered != NULL;
}

void query_note_slow(struct fleet_access *get)
{
    struct fleet_query *query = query_of_access(get);
    struct engine *e = query->shard->engine;
    fleet_note_silence(e, query->began_ns);
    query_note_late(query);
    answer_query(query, NULL);
}

static const char *put_text(struct buffer *texts, struct bytes text)
{
    size_t at = texts->size;
    buffer_put(texts, text.data, text.size);
    buffer_put(texts, "", 1);
    return texts->failed ? NULL : (const char *)(texts->data + at);
}

static const char *put_package(struct buffer *texts, const uint8_t builder[FLEET_KEY_ID_SIZE])
{
    char id[2 * FLEET_KEY_ID_SIZE + 1], name[64];
    hex_write(builder, FLEET_KEY_ID_SIZE, id);
    snprintf(name, sizeof(name), FLEET_PACKAGE_NAME ":%s", id);
    return put_text(texts, bytes_of_text(name));
}

/* Copies the claim into the query's record. Allocates |texts| at its full size first: the record
 * points into |texts|, so |texts| must not move in memory. */
static enum kiln_code copy_record(struct fleet_query *query, const struct fleet_claim *claim,
                                  struct kiln_err *err)
{
    struct buffer *texts = &query->texts;
    buffer_init(texts, FLEET_CLAIM_MAX);
    texts->data = malloc(FLEET_CLAIM_MAX);
    texts->capacity = texts->data ? FLEET_CLAIM_MAX : 0;
    query->record = (struct kernel_record){
        .key = claim->key,
        .object = claim->object,
        .toolchain_id = claim->shard.toolchain_id,
        .source_id = claim->source_id,
        .headers_id = claim->headers_id,
        .target = put_text(texts, claim->shard.target),
        .toolchain = put_text(texts, claim->shard.toolchain),
        .program = put_text(texts, claim->program),
        .options = put_text(texts, claim->options),
        .version = put_text(texts, claim->version),
        .package = put_package(texts, claim->builder),
        .raw_size = claim->raw_size,
        .compile_ns = claim->compile_ns,
        .created = clock_wall_s(),
        .last_used = clock_wall_s(),
        .uid = (uint32_t)query->uid,
        .kind = OBJECT_CODE,
    };
    return texts->failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for a kernel of the fleet")
                         : KILN_OK;
}

static enum kiln_code check_object(struct fleet_query *query, struct bytes raw,
                                   struct kiln_err *err)
{
    struct target target;
    enum kiln_code rc = target_parse(bytes_of_text(query->shard->target), &target, err);
    if (!rc)
        rc = code_object_check(raw, &target, err);
    if (rc && rc != KILN_NO_MEMORY)
        query->fault = FLEET_FAULT_WRONG_BYTES;
    return rc;
}

/* Sets the query's whole key, of which only the first bytes were known. Returns false if |key| has
 * other first bytes. */
static bool take_key(struct fleet_query *query, const struct digest *key)
{
    bool is_same = memcmp(key->bytes, query->key.bytes, FLEET_PREFIX_SIZE) == 0;
    if (is_same)
        query->key = *key;
    return is_same;
}

static enum kiln_code open_record(struct fleet_query *query, struct bytes content,
                                  struct kiln_err *err)
{
    struct fleet_record record;
    struct bytes raw;
    KILN_AUTO(codec) struct codec *codec = NULL;
    if (!fleet_record_read(content, &record) || record.size != content.size) {
        query->fault = FLEET_FAULT_MALFORMED;
        return kiln_fail(err, KILN_CORRUPT, "a record of the fleet is malformed");
    }
    enum kiln_code rc = codec_create(&codec, err);
    if (rc)
        return rc;
    if (query->has_prefix_only && !take_key(query, &record.claim.key)) {
        query->fault = FLEET_FAULT_OTHER_THING;
        return kiln_fail(err, KILN_CORRUPT, "a record of the fleet has another key");
    }
    struct fleet_reader reader = { .trust = query->trusted->keys,
                                   .codec = codec,
                                   .shard = shard_view(query->shard) };
    rc = fleet_record_open(&reader, &record, &query->key, &raw, err);
    query->fault = reader.fault;
    if (!rc)
        rc = check_object(query, raw, err);
    if (!rc)
        rc = copy_record(query, &record.claim, err);
    memcpy(query->builder, record.claim.builder, sizeof(query->builder));
    return rc ? rc : object_from_bytes(raw, record.claim.compile_ns, &query->object, err);
}

/* Returns an upper bound of the record's size: the size of a loose record is not known before the
 * record is read. */
static uint64_t record_size_max(const struct fleet_access *get)
{
    return get->size ? get->size : get->size_max;
}

static void verify_record(struct task *task)
{
    struct fleet_query *query = query_of_task(task);
    struct kiln_err why = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, (size_t)record_size_max(&query->get));
    query->rc = fs_read_fd(query->fd, content.limit, &content, &why);
    if (query->rc)
        query->fault = FLEET_FAULT_MALFORMED;
    else
        query->rc = open_record(query, buffer_view(&content), &why);
}

/* Drops the object if its builder's key is no longer trusted. The keys may have changed since the
 * task began. */
static void check_builder(struct fleet_query *query)
{
    const struct fleet_tier *tier = query->shard->engine->fleet;
    if (query->trusted == tier->trusted ||
        fleet_trust_may_claim(tier->trusted->keys, query->builder,
                              bytes_of_text(query->shard->target)))
        return;
    query->fault = FLEET_FAULT_UNTRUSTED;
    object_unref(query->object);
    query->object = NULL;
}

static void on_verified(struct task *task)
{
    struct fleet_query *query = query_of_task(task);
    struct engine *e = query->shard->engine;
    engine_task_ended(e);
    e->fleet->running--;
    if (query->object)
        check_builder(query);
    if (query->fault) {
        fleet_note_fault(e, query->fault, "a record");
        shard_refuse(query->shard, &query->key);
    }
    if (query->object) {
        struct buffer texts = query->texts;
        query->texts = (struct buffer){ 0 };
        store_record_later(e, &query->record, texts.data, query->object);
    }
    if (query->object && query->answered && query->wait_began_ns)
        fleet_leases_note_shared(&e->fleet->leases);
    answer_query(query, query->object);
    destroy_query(query);
}

void query_verify(struct fleet_query *query)
{
    struct engine *e = query->shard->engine;
    query->fd = query->get.fd;
    query->trusted = trusted_ref(e->fleet->trusted);
    query->task = (struct task){ .work = verify_record,
                                 .done = on_verified,
                                 .is_brief = record_size_max(&query->get) <= BRIEF_MAX };
    e->fleet->running++;
    engine_run(e, query->uid, WORK_QUEUE_READ, &query->task);
}

static void on_record(struct fleet_access *get)
{
    struct fleet_query *query = query_of_access(get);
    if (fleet_access_ended(query->shard->engine, get))
        query_verify(query);
    else
        query_give_up(query);
}

static bool find_place(const struct fleet_query *query, struct fleet_place *ret_place)
{
    const struct shard *shard = query->shard;
    return shard->index && !shard_is_refused(shard, &query->key) &&
           fleet_index_find(shard->index, &query->key, ret_place) &&
           ret_place->size <= FLEET_RECORD_MAX;
}

static void get_record(struct fleet_query *query, const struct fleet_place *place)
{
    const struct fleet_pack pack = fleet_index_pack(query->shard->index, place->pack);
    query->get = (struct fleet_access){ .offset = place->offset,
                                        .size = place->size,
                                        .budget_ms = fleet_wait_left_ms(query->shard->engine->fleet,
                                                                        query->began_ns),
                                        .slow = query->answered ? query_note_slow : NULL,
                                        .done = on_record };
    if (query->has_prefix_only) /* no job waits */
        query->get.slow = NULL;
    fleet_name_pack(&pack.sha256, query->get.name);
    fleet_access_start(query->shard->engine, &query->get);
}

void query_continue(struct fleet_query *query)
{
    struct fleet_place place;
    if (query->answered && find_place(query, &place))
        get_record(query, &place);
    else if (!query->answered || !lease_request(query))
        query_give_up(query);
}

static struct fleet_query *create_query(struct shard *shard, const struct fleet_asked *asked)
{
    struct fleet_query *query = calloc(1, sizeof(*query));
    if (!query)
        return NULL;
    query->shard = shard;
    query->key = asked->key;
    query->uid = query->turn_uid = asked->uid;
    query->priority = asked->priority;
    query->answered = asked->answered;
    query->context = asked->context;
    query->expected_ns = asked->expected_ns;
    query->began_ns = clock_monotonic_ns();
    query->fd = -1;
    shard->queries++;
    return query;
}

bool query_pull(struct shard *shard, const struct fleet_asked *asked,
                const struct fleet_place *place)
{
    struct fleet_query *query = create_query(shard, asked);
    if (!query)
        return false;
    query->has_prefix_only = true;
    get_record(query, place);
    return true;
}

static bool ask_index(struct fleet_query *query)
{
    struct fleet_place place;
    if (!find_place(query, &place))
        return lease_request(query);
    get_record(query, &place);
    return true;
}

static bool await_index(struct shard *shard, struct fleet_query *query)
{
    if (shard->is_slow)
        return false;
    list_append(&shard->waiting, &query->link);
    if (!shard->is_loading)
        shard_load(shard);
    return true;
}

bool fleet_tier_ask(struct engine *e, const struct fleet_asked *asked,
                    struct fleet_query **ret_query)
{
    struct fleet_tier *tier = e->fleet;
    if (!tier->is_on || tier->is_broken || e->draining)
        return false;
    struct shard *shard = shard_of(e, &asked->shard);
    struct fleet_query *query = shard ? create_query(shard, asked) : NULL;
    if (!query)
        return false;
    if (query->began_ns - shard->asked_ns >= FLEET_IDLE_NS &&
        query->began_ns - shard->refreshed_ns >= FLEET_REFRESH_NS)
        shard->is_known = false; /* the index may be old */
    shard->asked_ns = query->began_ns;
    bool asks = shard->is_known ? ask_index(query) : await_index(shard, query);
    if (asks)
        *ret_query = query;
    else
        destroy_query(query);
    return asks;
}
