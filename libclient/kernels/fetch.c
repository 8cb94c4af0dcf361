/* SPDX-License-Identifier: MIT */
#include "libclient/kernels/fetch.h"

#include "libclient/sized.h"

#include <string.h>

static struct kiln_kernel *get_cached(struct kiln_client *client, struct answer_identity identity)
{
    return answer_cache_get(client->cache, &identity);
}

struct kiln_kernel *fetch_known_key(struct kiln_client *client, const struct digest *key)
{
    struct bytes part = bytes_of(key->bytes, DIGEST_SIZE);
    return get_cached(client,
                      (struct answer_identity){ .kind = ANSWER_KEY, .parts = &part, .count = 1 });
}

struct kiln_kernel *fetch_known_source(struct kiln_client *client,
                                       const struct kiln_kernel_source *source)
{
    struct source_identity identity;
    source_identify(source, &identity);
    return get_cached(client, source_answer_identity(&identity));
}

void fetch_remember(struct kiln_client *client, const struct kiln_kernel_source *source,
                    struct kiln_kernel *kernel)
{
    struct answer answer = { .value = kernel_again(kernel),
                             .ops = &kernel_value_ops,
                             .bytes = kernel->content->size };
    struct bytes key = bytes_of(kernel->content->key.bytes, DIGEST_SIZE);
    struct answer_identity by_key = { .kind = ANSWER_KEY, .parts = &key, .count = 1 };
    answer_cache_put(client->cache, &by_key, &answer);
    if (!source)
        return;
    struct source_identity identity;
    source_identify(source, &identity);
    struct answer_identity by_source = source_answer_identity(&identity);
    answer.bytes = 0; /* the entry by key already counts the kernel's bytes */
    answer_cache_put(client->cache, &by_source, &answer);
}

enum kiln_code fetch_key(const char *hex, struct digest *ret_key, struct kiln_err *err)
{
    if (!hex || !digest_from_hex(hex, ret_key))
        return kiln_fail(err, KILN_INVALID, "'%s' is not a kernel's key: 64 hexadecimal digits",
                         hex ? hex : "(null)");
    return KILN_OK;
}

enum kiln_code fetch_result(const struct message_result *result, const struct reply *reply,
                            struct kiln_kernel **ret_kernel, bool *ret_damaged,
                            struct failure *failure)
{
    *ret_damaged = false;
    if (result->code != KILN_OK)
        return failure_said(failure, result->code, result->text, result->log);
    enum kiln_code rc = kernel_create(result, reply, ret_kernel, &failure->err);
    *ret_damaged = rc == KILN_CORRUPT;
    return rc;
}

struct fetch {
    uint16_t type;
    struct buffer *frame;
    const struct digest *key; /* NULL if only the daemon knows the key */
    struct bytes target;      /* empty if only the daemon knows the target */
    struct kiln_kernel *kernel;
    /* the code in kilnd's answer; if it is not KILN_OK, |failure| has the details */
    enum kiln_code code;
    struct failure failure;
};

static enum kiln_code accept_kernel(struct request *request, const struct reply *reply,
                                    struct failure *failure)
{
    struct fetch *fetch = request->context;
    struct reader r = reader_of(reply->body);
    struct message_kernels m = message_kernels_read(&r);
    struct reader results = reader_of(m.results);
    struct message_result o = message_result_read(&results);
    if (reply->header->type != MESSAGE_kernels || r.failed || r.at != r.end || m.count != 1 ||
        results.failed || results.at != results.end || o.index != 0 ||
        (reply->header->flags & FRAME_MORE))
        return kiln_fail(&failure->err, KILN_CORRUPT,
                         "kilnd's answer to a request for one kernel is not one result");
    if (!o.code && fetch->key && !digest_equal(&o.key, fetch->key))
        return kiln_fail(&failure->err, KILN_CORRUPT, "kilnd answers with another kernel's key");
    bool damaged;
    fetch->code = fetch_result(&o, reply, &fetch->kernel, &damaged, &fetch->failure);
    if (!damaged && !reply_puts_off(reply, fetch->code))
        return KILN_OK;
    *failure = fetch->failure;
    fetch->failure.log = NULL;
    return fetch->code;
}

static void note_fetch(struct kiln_client *client, const struct fetch *fetch, uint64_t wanted_ns)
{
    char hex[DIGEST_HEX_SIZE];
    if (client->trace && fetch->key)
        digest_to_hex(fetch->key, hex);
    trace_answer(client->trace, wanted_ns, fetch->target, fetch->key ? hex : NULL, fetch->kernel);
}

static enum kiln_code run_fetch(struct kiln_client *client, struct fetch *fetch,
                                uint64_t deadline_ns, struct failure *failure)
{
    const uint64_t wanted_ns = trace_now(client->trace);
    WAITER_AUTO struct waiter waiter;
    waiter_init(&waiter);
    struct request rq = { .type = fetch->type,
                          .frame = fetch->frame,
                          .waiter = &waiter,
                          .accept = accept_kernel,
                          .context = fetch };
    enum kiln_code rc = multiplexer_call(client->multiplexer, &rq, deadline_ns);
    *failure = rc ? rq.failure : fetch->failure;
    if (rc)
        failure_done(&fetch->failure);
    note_fetch(client, fetch, wanted_ns);
    return rc ? rc : fetch->code;
}

static enum kiln_code fetch_by_key(struct kiln_client *client, const char *hex,
                                   uint64_t deadline_ns, struct kiln_kernel **ret_kernel,
                                   struct failure *failure)
{
    struct digest key;
    enum kiln_code rc = fetch_key(hex, &key, &failure->err);
    if (!rc)
        rc = client_check_cache(client, &failure->err);
    if (rc)
        return rc;
    *ret_kernel = fetch_known_key(client, &key);
    if (*ret_kernel)
        return KILN_OK;
    uint8_t storage[FRAME_HEADER_SIZE + DIGEST_SIZE + 4];
    struct buffer frame;
    client_frame_init_in(&frame, storage, sizeof(storage));
    message_fetch_write(&frame,
                        &(struct message_fetch){ .key = key, .inline_limit = LIMIT_INLINE_OBJECT });
    struct fetch fetch = {
        .type = MESSAGE_fetch, .frame = &frame, .key = &key, .failure = FAILURE_INIT
    };
    rc = run_fetch(client, &fetch, deadline_ns, failure);
    if (rc == KILN_NOT_FOUND)
        return kiln_fail(&failure->err, rc, "there is no kernel with key %s", hex);
    if (rc)
        return rc;
    fetch_remember(client, NULL, fetch.kernel);
    *ret_kernel = fetch.kernel;
    return KILN_OK;
}

static enum kiln_code fetch_by_source(struct kiln_client *client,
                                      const struct kiln_kernel_source *source, uint64_t deadline_ns,
                                      struct kiln_kernel **ret_kernel, struct failure *failure)
{
    *ret_kernel = fetch_known_source(client, source);
    if (*ret_kernel)
        return KILN_OK;
    BUFFER_AUTO struct buffer frame;
    client_frame_init(&frame);
    source_write(&frame, source, client->no_cache ? FETCH_NO_CACHE : 0);
    struct fetch fetch = { .type = MESSAGE_fetch_source,
                           .frame = &frame,
                           .target = bytes_of_text(source->target),
                           .failure = FAILURE_INIT };
    enum kiln_code rc = run_fetch(client, &fetch, deadline_ns, failure);
    if (rc)
        return rc;
    fetch_remember(client, source, fetch.kernel);
    *ret_kernel = fetch.kernel;
    return KILN_OK;
}

static struct answer_identity name_identity(const struct message_fetch_name *m,
                                            struct bytes parts[3])
{
    parts[0] = m->database_id;
    parts[1] = m->name;
    parts[2] = m->args;
    return (struct answer_identity){ .kind = ANSWER_NAME, .parts = parts, .count = 3 };
}

static enum kiln_code fetch_by_name(struct kiln_client *client, const struct message_fetch_name *m,
                                    uint64_t deadline_ns, struct kiln_kernel **ret_kernel,
                                    struct failure *failure)
{
    struct bytes parts[3];
    struct answer_identity identity = name_identity(m, parts);
    enum kiln_code rc = client_check_cache(client, &failure->err);
    if (rc)
        return rc;
    *ret_kernel = get_cached(client, identity);
    if (*ret_kernel)
        return KILN_OK;
    BUFFER_AUTO struct buffer frame;
    client_frame_init(&frame);
    message_fetch_name_write(&frame, m);
    struct fetch fetch = { .type = MESSAGE_fetch_name, .frame = &frame, .failure = FAILURE_INIT };
    rc = run_fetch(client, &fetch, deadline_ns, failure);
    if (rc == KILN_NOT_FOUND)
        return kiln_fail(&failure->err, rc, "there is no kernel '%.*s' for %.*s", (int)m->name.size,
                         (const char *)m->name.data, (int)m->database_id.size,
                         (const char *)m->database_id.data);
    if (rc)
        return rc;
    const struct answer answer = { .value = kernel_again(fetch.kernel),
                                   .ops = &kernel_value_ops,
                                   .bytes = fetch.kernel->content->size };
    answer_cache_put(client->cache, &identity, &answer);
    *ret_kernel = fetch.kernel;
    return KILN_OK;
}

int kiln_kernel_fetch_named(struct kiln_client *client, const struct kiln_kernel_name *name,
                            struct kiln_kernel **ret_kernel, struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    uint64_t deadline_ns;
    struct kiln_kernel *kernel = NULL;
    if (!name || !sized_is_fine(name->size, SIZED_TO(struct kiln_kernel_name, timeout_ms)))
        return error_argument(err, "kiln_kernel_name.size is not set: give it sizeof the struct");
    enum kiln_code rc = client_enter(client, name->timeout_ms, &deadline_ns, &f.err);
    if (!rc && (!ret_kernel || !name->database_id || !name->name))
        return error_argument(
            err,
            "kiln_kernel_fetch_named needs a database id, a name and a pointer for the kernel");
    const struct message_fetch_name m = { .inline_limit = LIMIT_INLINE_OBJECT,
                                          .database_id = bytes_of_text(name->database_id),
                                          .name = bytes_of_text(name->name),
                                          .args = bytes_of_text(name->args) };
    if (!rc)
        rc = fetch_by_name(client, &m, deadline_ns, &kernel, &f);
    if (!rc)
        *ret_kernel = kernel;
    return failure_return(&f, rc, err);
}

int kiln_kernel_fetch(struct kiln_client *client, const char *key, int timeout_ms,
                      struct kiln_kernel **ret_kernel, struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    uint64_t deadline_ns;
    struct kiln_kernel *kernel = NULL;
    enum kiln_code rc = client_enter(client, timeout_ms, &deadline_ns, &f.err);
    if (!rc && !ret_kernel)
        return error_argument(err, "kiln_kernel_fetch needs a pointer for the kernel");
    if (!rc)
        rc = fetch_by_key(client, key, deadline_ns, &kernel, &f);
    if (!rc)
        *ret_kernel = kernel;
    return failure_return(&f, rc, err);
}

int kiln_kernel_fetch_source(struct kiln_client *client, const struct kiln_kernel_source *source,
                             struct kiln_kernel **ret_kernel, struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    uint64_t deadline_ns;
    struct kiln_kernel *kernel = NULL;
    enum kiln_code rc = source_check(source, &f.err);
    if (!rc)
        rc = client_enter(client, source->timeout_ms, &deadline_ns, &f.err);
    if (!rc && !ret_kernel)
        return error_argument(err, "kiln_kernel_fetch_source needs a pointer for the kernel");
    if (!rc)
        rc = fetch_by_source(client, source, deadline_ns, &kernel, &f);
    if (!rc)
        *ret_kernel = kernel;
    return failure_return(&f, rc, err);
}
