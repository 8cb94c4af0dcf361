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

uint64_t table_hits(struct table *table);
size_t table_count(struct table *table);
