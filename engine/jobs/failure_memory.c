/* SPDX-License-Identifier: MIT */
#include "engine/jobs/failure_memory.h"

#include <string.h>

#define BUCKETS 1024 /* four entries each when full */
#define LOG_KEPT 8192

struct entry {
    struct entry *next_in_bucket;
    struct entry *younger; /* by age, for forgetting */
    struct digest key;
    struct kiln_err err;
    uint64_t noted_ns;
    char log[];
};

struct failure_memory {
    uint64_t ttl_ns;
    unsigned count;
    struct entry *buckets[BUCKETS];  /* owned entries */
    struct entry *oldest, *youngest; /* the same entries by age */
};

enum kiln_code failure_memory_create(unsigned ttl_s, struct failure_memory **ret_memory,
                                     struct kiln_err *err)
{
    struct failure_memory *m = calloc(1, sizeof(*m));
    if (!m)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the memory of failures");
    m->ttl_ns = (uint64_t)ttl_s * 1000000000u;
    *ret_memory = m;
    return KILN_OK;
}

static struct entry **find(struct failure_memory *m, const struct digest *key)
{
    struct entry **at = &m->buckets[digest_hash(key) % BUCKETS];
    while (*at && !digest_equal(&(*at)->key, key))
        at = &(*at)->next_in_bucket;
    return at;
}

static void forget_oldest(struct failure_memory *m)
{
    struct entry *e = m->oldest;
    *find(m, &e->key) = e->next_in_bucket;
    m->oldest = e->younger;
    if (!m->oldest)
        m->youngest = NULL;
    m->count--;
    free(e);
}

void failure_memory_set_ttl(struct failure_memory *m, unsigned ttl_s)
{
    m->ttl_ns = (uint64_t)ttl_s * 1000000000u;
}

/* Every entry lives equally long, so the expired ones are the oldest. */
static void forget_expired(struct failure_memory *m, uint64_t now_ns)
{
    while (m->oldest && m->oldest->noted_ns + m->ttl_ns <= now_ns)
        forget_oldest(m);
}

void failure_memory_clear(struct failure_memory *m)
{
    while (m->oldest)
        forget_oldest(m);
}

void failure_memory_destroy(struct failure_memory *m)
{
    if (!m)
        return;
    failure_memory_clear(m);
    free(m);
}

void failure_memory_add(struct failure_memory *m, const struct digest *key,
                        const struct kiln_err *failure, const char *log, uint64_t now_ns)
{
    forget_expired(m, now_ns);
    if (m->ttl_ns == 0 || *find(m, key))
        return;
    if (m->count == FAILURES_MOST)
        forget_oldest(m);
    size_t size = log ? strnlen(log, LOG_KEPT) : 0;
    struct entry *e = malloc(sizeof(*e) + size + 1);
    if (!e)
        return;
    *e = (struct entry){ .key = *key, .err = *failure, .noted_ns = now_ns };
    if (size)
        memcpy(e->log, log, size);
    e->log[size] = '\0';
    *find(m, key) = e;
    *(m->youngest ? &m->youngest->younger : &m->oldest) = e;
    m->youngest = e;
    m->count++;
}

bool failure_memory_find(struct failure_memory *m, const struct digest *key, uint64_t now_ns,
                         struct failure *ret_failure)
{
    forget_expired(m, now_ns);
    struct entry *e = *find(m, key);
    if (!e)
        return false;
    *ret_failure = (struct failure){ .err = e->err, .log = e->log };
    return true;
}

unsigned failure_memory_count(const struct failure_memory *m) { return m->count; }
