/* SPDX-License-Identifier: MIT */
#include "engine/jobs/failure_memory.h"

#include "common/base/hash_table.h"
#include "common/base/list.h"
#include "common/base/subordinate_uids.h"

#include <string.h>

#define LOG_KEPT 8192

struct entry {
    struct hash_link by_key;
    struct list_link by_age;
    struct digest key;
    uid_t uid;       /* the first user whose compile failed */
    bool is_for_all; /* true: any user gets this failure; false: only |uid| */
    struct kiln_err err;
    uint64_t noted_ns;
    char log[];
};

struct failure_memory {
    uint64_t ttl_ns;
    struct hash_table entries;
    struct list by_age; /* oldest first */
};

enum kiln_code failure_memory_create(unsigned ttl_s, struct failure_memory **ret_memory,
                                     struct kiln_err *err)
{
    struct failure_memory *m = calloc(1, sizeof(*m));
    if (!m)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot create the cache of failed compiles");
    m->ttl_ns = (uint64_t)ttl_s * 1000000000u;
    list_init(&m->by_age);
    *ret_memory = m;
    return KILN_OK;
}

static struct entry *find_entry(const struct failure_memory *m, const struct digest *key)
{
    HASH_EACH (&m->entries, digest_hash(key), struct entry, by_key, e)
        if (digest_equal(&e->key, key))
            return e;
    return NULL;
}

static void forget_entry(struct failure_memory *m, struct entry *e)
{
    hash_table_remove(&m->entries, &e->by_key);
    list_remove(&e->by_age);
    free(e);
}

void failure_memory_set_ttl(struct failure_memory *m, unsigned ttl_s)
{
    m->ttl_ns = (uint64_t)ttl_s * 1000000000u;
}

static void forget_expired(struct failure_memory *m, uint64_t now_ns)
{
    LIST_EACH (&m->by_age, struct entry, by_age, e) {
        if (e->noted_ns + m->ttl_ns > now_ns)
            return;
        forget_entry(m, e);
    }
}

void failure_memory_clear(struct failure_memory *m)
{
    LIST_EACH (&m->by_age, struct entry, by_age, e)
        forget_entry(m, e);
}

void failure_memory_destroy(struct failure_memory *m)
{
    if (!m)
        return;
    failure_memory_clear(m);
    hash_table_done(&m->entries);
    free(m);
}

static struct entry *make_entry(const struct failure_report *report, uint64_t now_ns)
{
    size_t size = report->log ? strnlen(report->log, LOG_KEPT) : 0;
    struct entry *e = malloc(sizeof(*e) + size + 1);
    if (!e)
        return NULL;
    *e = (struct entry){ .key = *report->key,
                         .uid = report->uid,
                         .is_for_all = report->is_for_all,
                         .err = report->err,
                         .noted_ns = now_ns };
    if (size)
        memcpy(e->log, report->log, size);
    e->log[size] = '\0';
    return e;
}

void failure_memory_add(struct failure_memory *m, const struct failure_report *report,
                        uint64_t now_ns)
{
    forget_expired(m, now_ns);
    if (m->ttl_ns == 0)
        return;
    struct entry *e = find_entry(m, report->key);
    if (e && report->is_for_all && !e->is_for_all) {
        forget_entry(m, e); /* replace the old failure: the new one is caused by the source itself,
                             * so it is for all users */
        e = NULL;
    }
    if (e) {
        e->is_for_all |= !is_one_user(report->uid, e->uid);
        return;
    }
    if (m->entries.count == FAILURES_MAX)
        forget_entry(m, LIST_FIRST(&m->by_age, struct entry, by_age));
    e = make_entry(report, now_ns);
    if (!e)
        return;
    hash_table_add(&m->entries, &e->by_key, digest_hash(&e->key));
    list_append(&m->by_age, &e->by_age);
}

bool failure_memory_find(struct failure_memory *m, const struct digest *key, uid_t uid,
                         uint64_t now_ns, struct failure *ret_failure)
{
    forget_expired(m, now_ns);
    struct entry *e = find_entry(m, key);
    if (!e || (!e->is_for_all && e->uid != uid))
        return false;
    *ret_failure = (struct failure){ .err = e->err, .log = e->log };
    return true;
}

unsigned failure_memory_count(const struct failure_memory *m) { return (unsigned)m->entries.count; }
