/* SPDX-License-Identifier: MIT */
#include "engine/tuning/shared_texts.h"

#include <stdlib.h>
#include <string.h>

struct shared_text {
    struct hash_link link;
    uint64_t takers;
    char text[];
};

void shared_texts_init(struct shared_texts *t, const struct hash_key *key)
{
    *t = (struct shared_texts){ .key = *key };
}

static void forget_text(struct shared_texts *t, struct shared_text *shared)
{
    hash_table_remove(&t->table, &shared->link);
    t->bytes -= sizeof(*shared) + strlen(shared->text) + 1;
    free(shared);
}

void shared_texts_done(struct shared_texts *t)
{
    HASH_ALL (&t->table, struct shared_text, link, shared)
        forget_text(t, shared);
    hash_table_done(&t->table);
}

static struct shared_text *find_text(const struct shared_texts *t, struct bytes text, uint64_t hash)
{
    HASH_EACH (&t->table, hash, struct shared_text, link, shared)
        if (bytes_equal_text(text, shared->text))
            return shared;
    return NULL;
}

static struct shared_text *add_text(struct shared_texts *t, struct bytes text, uint64_t hash)
{
    struct shared_text *shared = calloc(1, sizeof(*shared) + text.size + 1);
    if (!shared)
        return NULL;
    memcpy(shared->text, text.data, text.size);
    hash_table_add(&t->table, &shared->link, hash);
    t->bytes += sizeof(*shared) + text.size + 1;
    return shared;
}

const char *shared_texts_take(struct shared_texts *t, const char *text)
{
    struct bytes wanted = bytes_of_text(text ? text : "");
    uint64_t hash = keyed_hash(wanted, &t->key);
    struct shared_text *shared = find_text(t, wanted, hash);
    if (!shared)
        shared = add_text(t, wanted, hash);
    if (!shared)
        return NULL;
    shared->takers++;
    return shared->text;
}

void shared_texts_give_back(struct shared_texts *t, const char *text)
{
    if (!text)
        return;
    struct shared_text *shared = (struct shared_text *)(void *)((char *)(uintptr_t)text -
                                                                offsetof(struct shared_text, text));
    if (--shared->takers == 0)
        forget_text(t, shared);
}
