/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The in-process table: what this process was answered before, by what it asked.
 *
 * Role       the second look-up of a kernel or plan never leaves the process
 * Ownership  the table holds a reference to each value and hands out further ones; identities
 *            are copied
 * Threading  any number of threads
 *
 * A question's identity is a kind and a list of byte strings.  It is compared whole: a hash only
 * says where to look.  Bounded in entries and in bytes, least recently used first to go.
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
    size_t limit_entries; /* 0: nothing is kept */
    size_t limit_bytes;   /* of identities and of the values' stated sizes */
};

KILN_MUST_CHECK enum kiln_code table_create(const struct table_options *options,
                                            struct table **ret_table, struct kiln_err *err);
void table_destroy(struct table *table);
KILN_DEFINE_AUTO(table)

/* A new reference, or NULL. */
void *table_get(struct table *table, const struct table_identity *identity);
/* Adds a reference of its own; |bytes| is the value's size.  Replaces an older answer.  Running
 * out of memory only means that it is not kept. */
void table_put(struct table *table, const struct table_identity *identity, void *value,
               const struct table_value_ops *ops, size_t bytes);

/* What was true when a question was asked may not be when its answer comes: note the epoch before
 * asking, and the answer is only kept if nothing was forgotten since. */
uint64_t table_epoch(struct table *table);
void table_put_of_epoch(struct table *table, uint64_t epoch, const struct table_identity *identity,
                        void *value, const struct table_value_ops *ops, size_t bytes);
/* Drops every value of |kind| whose identity's first part is |first| (empty: any), and begins a new
 * epoch.  Looks at the whole table. */
void table_forget(struct table *table, enum table_kind kind, struct bytes first);

uint64_t table_hits(struct table *table);
size_t table_count(struct table *table);
