/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The in-process cache: answers that this process has received, by the identity of the request.
 *
 * Role       a second look-up of a kernel or plan never leaves the process
 * Ownership  the cache holds a reference to each value and returns further ones; it copies
 *            identities
 * Threading  any number of threads
 *
 * An identity is a kind and a list of byte strings.  Look-ups compare all of it; the hash only
 * finds candidates.  The cache is limited in entries and in bytes, and evicts the least recently
 * used.
 */
#include "common/bytes.h"
#include "common/err.h"

enum table_kind { TABLE_KEY, TABLE_SOURCE, TABLE_PLAN, TABLE_NAME };

struct table_identity {
    enum table_kind kind;
    const struct bytes *parts; /* borrowed */
    size_t count;
};

/* How to count references to a value. */
struct table_value_ops {
    void (*ref)(void *value);
    void (*unref)(void *value);
};

struct table;

struct table_options {
    size_t limit_entries; /* 0: the cache is disabled */
    size_t limit_bytes;   /* sum of the identities and of the values' stated sizes */
};

KILN_MUST_CHECK enum kiln_code table_create(const struct table_options *options,
                                            struct table **ret_table, struct kiln_err *err);
void table_destroy(struct table *table);
KILN_DEFINE_AUTO(table)

/* Returns a new reference, or NULL. */
void *table_get(struct table *table, const struct table_identity *identity);
/* Adds a value, with a new reference to it; |bytes| is its size.  Replaces an older answer.  If
 * memory runs out, the value is not cached. */
void table_put(struct table *table, const struct table_identity *identity, void *value,
               const struct table_value_ops *ops, size_t bytes);

/* A request's answer may be outdated when it arrives.  Read the epoch before the request:
 * table_put_of_epoch only adds the answer if nothing was forgotten since. */
uint64_t table_epoch(struct table *table);
void table_put_of_epoch(struct table *table, uint64_t epoch, const struct table_identity *identity,
                        void *value, const struct table_value_ops *ops, size_t bytes);
/* Drops every value of |kind| whose identity begins with the part |first| (empty: any), and begins
 * a new epoch.  Scans the whole cache. */
void table_forget(struct table *table, enum table_kind kind, struct bytes first);

uint64_t table_hits(struct table *table);
size_t table_count(struct table *table);
