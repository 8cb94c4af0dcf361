/* SPDX-License-Identifier: MIT */
#include "tests/bench/subject.h"

#include <kiln/kernel.h>

#include <string.h>

#define TABLE_KEYS 64 /* number of keys that subject_kiln_table fetches again and again */

struct kiln_subject {
    struct subject base;
    const struct subject_place *place;
    struct kiln_client *client;
    char (*keys)[DIGEST_HEX_SIZE];
    uint64_t fetches;
    bool from_table;
};

static enum kiln_code fail_client(const struct kiln_error *error, struct kiln_err *err)
{
    return kiln_fail(err, (enum kiln_code)error->code, "kiln: %s", error->text);
}

/* Replaces the client before each round, because a new client's in-process cache is empty. */
static enum kiln_code new_client(struct kiln_subject *s, struct kiln_err *err)
{
    struct kiln_client_options options = {
        .size = sizeof(options),
        .socket_path = s->place->kiln_socket,
        .timeout_ms = 30000,
        .name = "bench",
    };
    struct kiln_error error = { 0 };
    if (kiln_client_open(&options, &s->client, &error) ||
        kiln_client_ping(s->client, 0, NULL, &error))
        return fail_client(&error, err);
    return KILN_OK;
}

static enum kiln_code fetch_key(struct kiln_subject *s, size_t index, struct kiln_err *err)
{
    struct kiln_kernel *kernel;
    struct kiln_error error = { 0 };
    if (kiln_kernel_fetch(s->client, s->keys[index], 0, &kernel, &error))
        return fail_client(&error, err);
    size_t size = kiln_kernel_size(kernel);
    bool whole = size == s->place->content->size;
    if (whole)
        (void)content_touch(s->place->content, kiln_kernel_data(kernel));
    kiln_kernel_unref(kernel);
    if (!whole)
        return kiln_fail(err, KILN_CORRUPT, "kernel %zu has %zu bytes", index, size);
    return KILN_OK;
}

static enum kiln_code kiln_begin(struct subject *base, struct kiln_err *err)
{
    struct kiln_subject *s = (struct kiln_subject *)base;
    s->fetches = 0;
    return new_client(s, err);
}

static enum kiln_code kiln_fetch(struct subject *base, size_t index, struct kiln_err *err)
{
    struct kiln_subject *s = (struct kiln_subject *)base;
    s->fetches++;
    return fetch_key(s, index % s->place->content->count, err);
}

/* Checks the number of cache hits. The in-process cache must have answered all fetches of
 * subject_kiln_table, and no fetch of subject_kiln. */
static enum kiln_code check_cache_hits(struct kiln_subject *s, struct kiln_err *err)
{
    struct kiln_status status = { .size = sizeof(status) };
    struct kiln_error error = { 0 };
    if (kiln_client_status(s->client, &status, &error))
        return fail_client(&error, err);
    uint64_t expected = s->from_table ? s->fetches : 0;
    if (status.cache_hits != expected)
        return kiln_fail(err, KILN_INVALID,
                         "the in-process cache answered %llu of %llu fetches, not %llu",
                         (unsigned long long)status.cache_hits, (unsigned long long)s->fetches,
                         (unsigned long long)expected);
    return KILN_OK;
}

static enum kiln_code kiln_end(struct subject *base, struct kiln_err *err)
{
    struct kiln_subject *s = (struct kiln_subject *)base;
    enum kiln_code rc = check_cache_hits(s, err);
    kiln_client_close(KILN_TAKE(s->client));
    return rc;
}

static enum kiln_code table_begin(struct subject *base, struct kiln_err *err)
{
    struct kiln_subject *s = (struct kiln_subject *)base;
    s->fetches = 0;
    enum kiln_code rc = new_client(s, err);
    for (size_t i = 0; i < TABLE_KEYS && i < s->place->content->count && !rc; i++)
        rc = fetch_key(s, i, err);
    return rc;
}

static enum kiln_code table_fetch(struct subject *base, size_t index, struct kiln_err *err)
{
    struct kiln_subject *s = (struct kiln_subject *)base;
    s->fetches++;
    return fetch_key(s, index % TABLE_KEYS % s->place->content->count, err);
}

static void kiln_close(struct subject *base)
{
    struct kiln_subject *s = (struct kiln_subject *)base;
    kiln_client_close(s->client);
    free(s->keys);
    free(s);
}

static enum kiln_code open_way(const struct subject_ops *ops, const struct subject_place *place,
                               struct subject **ret_subject, struct kiln_err *err)
{
    KILN_AUTO(mem) struct kiln_subject *s = calloc(1, sizeof(*s));
    KILN_AUTO(mem) char(*keys)[DIGEST_HEX_SIZE] = calloc(place->content->count, sizeof(*keys));
    if (!s || !keys)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open a kiln client");
    for (size_t i = 0; i < place->content->count; i++) {
        struct digest key = content_key(place->content, i);
        digest_to_hex(&key, keys[i]);
    }
    s->base.ops = ops;
    s->place = place;
    s->keys = KILN_TAKE(keys);
    s->from_table = ops == &subject_kiln_table;
    *ret_subject = &s->base;
    (void)KILN_TAKE(s);
    return KILN_OK;
}

static enum kiln_code open_fetch(const struct subject_place *place, struct subject **ret_subject,
                                 struct kiln_err *err)
{
    return open_way(&subject_kiln, place, ret_subject, err);
}

static enum kiln_code open_table(const struct subject_place *place, struct subject **ret_subject,
                                 struct kiln_err *err)
{
    return open_way(&subject_kiln_table, place, ret_subject, err);
}

const struct subject_ops subject_kiln = {
    .name = "kiln",
    .open = open_fetch,
    .begin = kiln_begin,
    .fetch = kiln_fetch,
    .end = kiln_end,
    .close = kiln_close,
};

const struct subject_ops subject_kiln_table = {
    .name = "kiln-table",
    .open = open_table,
    .begin = table_begin,
    .fetch = table_fetch,
    .end = kiln_end,
    .close = kiln_close,
};
