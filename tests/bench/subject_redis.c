/* SPDX-License-Identifier: MIT */
#include "tests/bench/subject.h"

#include <hiredis/hiredis.h>

struct redis_subject {
    struct subject base;
    const struct content *content;
    redisContext *connection;
};

static void redis_close(struct subject *base)
{
    struct redis_subject *s = (struct redis_subject *)base;
    if (s->connection)
        redisFree(s->connection);
    free(s);
}

static enum kiln_code connect_to(const char *socket, redisContext **ret_connection,
                                 struct kiln_err *err)
{
    redisContext *c = redisConnectUnix(socket);
    if (c && !c->err) {
        *ret_connection = c;
        return KILN_OK;
    }
    (void)kiln_fail(err, KILN_UNAVAILABLE, "cannot connect to redis: %s",
                    c ? c->errstr : "out of memory");
    if (c)
        redisFree(c);
    return KILN_UNAVAILABLE;
}

static enum kiln_code redis_open(const struct subject_place *place, struct subject **ret_subject,
                                 struct kiln_err *err)
{
    KILN_AUTO(mem) struct redis_subject *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open redis");
    s->base.ops = &subject_redis;
    s->content = place->content;
    enum kiln_code rc = connect_to(place->redis_socket, &s->connection, err);
    if (rc)
        return rc;
    *ret_subject = &s->base;
    (void)KILN_TAKE(s);
    return KILN_OK;
}

static enum kiln_code redis_fetch(struct subject *base, size_t index, struct kiln_err *err)
{
    struct redis_subject *s = (struct redis_subject *)base;
    struct digest key = content_key(s->content, index);
    redisReply *reply = redisCommand(s->connection, "GET %b", key.bytes, sizeof(key.bytes));
    bool whole =
        reply && reply->type == REDIS_REPLY_STRING && (size_t)reply->len == s->content->size;
    if (whole)
        (void)content_touch(s->content, reply->str);
    if (reply)
        freeReplyObject(reply);
    return whole ? KILN_OK : kiln_fail(err, KILN_IO, "redis did not return object %zu", index);
}

static enum kiln_code fill_all(const struct content *content, redisContext *c, uint8_t *bytes,
                               struct kiln_err *err)
{
    for (size_t i = 0; i < content->count; i++) {
        struct digest key = content_key(content, i);
        content_make(content, i, bytes);
        redisReply *reply =
            redisCommand(c, "SET %b %b", key.bytes, sizeof(key.bytes), bytes, content->size);
        bool done = reply && reply->type == REDIS_REPLY_STATUS;
        if (reply)
            freeReplyObject(reply);
        if (!done)
            return kiln_fail(err, KILN_IO, "redis did not take object %zu", i);
    }
    return KILN_OK;
}

enum kiln_code redis_fill(const struct content *content, const char *socket, struct kiln_err *err)
{
    KILN_AUTO(mem) uint8_t *bytes = malloc(content->size);
    if (!bytes)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot fill redis");
    redisContext *c;
    enum kiln_code rc = connect_to(socket, &c, err);
    if (rc)
        return rc;
    rc = fill_all(content, c, bytes, err);
    redisFree(c);
    return rc;
}

const struct subject_ops subject_redis = {
    .name = "redis",
    .open = redis_open,
    .fetch = redis_fetch,
    .close = redis_close,
};
