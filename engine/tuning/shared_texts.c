/* SPDX-License-Identifier: MIT */
#include "engine/tuning/shared_texts.h"

#include <stdlib.h>
#include <string.h>

struct shared_text {
    struct chained link; /* first: a link is its text */
    uint64_t takers;
    char text[];
};

bool shared_texts_init(struct shared_texts *t, const struct hash_key *key)
{
    *t = (struct shared_texts){ .key = *key };
    return chains_init(&t->chains);
}

static void forget(struct shared_texts *t, struct shared_text *shared)
{
    chains_remove(&t->chains, &shared->link);
    t->bytes -= sizeof(*shared) + strlen(shared->text) + 1;
    free(shared);
}

void shared_texts_done(struct shared_texts *t)
{
    for (size_t i = 0; i < t->chains.head_count; i++)
        while (t->chains.heads[i])
            forget(t, (struct shared_text *)t->chains.heads[i]);
    chains_done(&t->chains);
}

static struct shared_text *add(struct shared_texts *t, struct bytes text, uint64_t hash)
{
    struct shared_text *shared = calloc(1, sizeof(*shared) + text.size + 1);
    if (!shared)
        return NULL;
    memcpy(shared->text, text.data, text.size);
    chains_add(&t->chains, &shared->link, hash);
    t->bytes += sizeof(*shared) + text.size + 1;
    return shared;
}

const char *shared_texts_take(struct shared_texts *t, const char *text)
{
    struct bytes wanted = bytes_of_text(text ? text : "");
    uint64_t hash = keyed_hash(wanted, &t->key);
    struct chained *item = chains_first(&t->chains, hash);
    while (item && !bytes_equal_text(wanted, ((struct shared_text *)item)->text))
        item = chains_next(item);
    struct shared_text *shared = item ? (struct shared_text *)item : add(t, wanted, hash);
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
        forget(t, shared);
}
