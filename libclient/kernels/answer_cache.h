/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The in-process cache of the answers that this process has received, by the identity of their
 * requests.
 *
 * An identity is a kind and a list of byte strings.  A look-up compares the whole identity; the
 * hash only finds candidates.  The cache is limited in entries and in bytes, and evicts the least
 * recently used entries.
 *
 * Role       answers repeated look-ups of a kernel or plan without a request to kilnd
 * Ownership  the cache holds a reference to each value, and each look-up returns another reference;
 *            identities are copied
 * Threading  any number of threads
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

enum answer_kind { ANSWER_KEY, ANSWER_SOURCE, ANSWER_PLAN, ANSWER_NAME };

struct answer_identity {
    enum answer_kind kind;
    const struct bytes *parts;
    size_t count;
};

/* functions that count the references to a value */
struct answer_ops {
    void (*ref)(void *value);
    void (*unref)(void *value);
};

struct answer {
    void *value;
    const struct answer_ops *ops;
    size_t bytes;
};

struct answer_cache;

struct answer_cache_options {
    size_t limit_entries; /* 0: the cache is disabled */
    size_t limit_bytes;
};

KILN_MUST_CHECK enum kiln_code answer_cache_create(const struct answer_cache_options *options,
                                                   struct answer_cache **ret_cache,
                                                   struct kiln_err *err);
void answer_cache_destroy(struct answer_cache *cache);
KILN_DEFINE_AUTO(answer_cache)

/* Returns a new reference, or NULL. */
void *answer_cache_get(struct answer_cache *cache, const struct answer_identity *identity);
/* Takes a new reference to the value.  Replaces an older answer with the same identity.  If memory
 * runs out, the answer is not cached. */
void answer_cache_put(struct answer_cache *cache, const struct answer_identity *identity,
                      const struct answer *answer);

/* The caller reads the epoch before it sends a request whose answer may be outdated on arrival.
 * answer_cache_put_of_epoch then adds the answer only if answer_cache_forget was not called in
 * between. */
uint64_t answer_cache_epoch(struct answer_cache *cache);
void answer_cache_put_of_epoch(struct answer_cache *cache, uint64_t epoch,
                               const struct answer_identity *identity, const struct answer *answer);
/* Drops every value of |kind| whose identity has |first| as its first part, or every value of
 * |kind| if |first| is empty.  Begins a new epoch.  Scans the whole cache. */
void answer_cache_forget(struct answer_cache *cache, enum answer_kind kind, struct bytes first);

uint64_t answer_cache_hits(struct answer_cache *cache);
size_t answer_cache_count(struct answer_cache *cache);
