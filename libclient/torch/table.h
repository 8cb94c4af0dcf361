/* SPDX-License-Identifier: MIT */
#ifndef KILN_TORCH_TABLE_H
#define KILN_TORCH_TABLE_H

/*
 * The table of choices between kiln and PyTorch, by the keys of calls.
 *
 * Ownership  the table owns its entries, which refer to choices.  Nothing is ever removed
 * Threading  any thread; table_find() takes no lock
 */
#include "libclient/torch/call.h"

#include <pthread.h>
#include <stdatomic.h>

#define SLOTS 16384u /* a power of two */
#define ENTRIES_MAX (SLOTS / 2)

enum action { ACTION_KILN, ACTION_ORIGINAL };

struct kiln_torch_choice {
    struct kiln_torch_choice *next; /* in the list of all choices */
    _Atomic int action;             /* enum action */
    _Atomic int64_t calls_left;     /* before Python decides again */
    bool is_limited;
    _Atomic uint64_t kiln_calls, original_calls;
    struct kiln_torch_work work;
};

struct entry {
    struct kiln_torch_choice *choices[2]; /* NULL: the result is not wanted */
    struct key key;                       /* without the words after the last one */
};

struct table {
    pthread_mutex_t lock;
    unsigned count;
    struct entry *_Atomic slots[SLOTS];
};

const struct entry *table_find(const struct table *table, const struct key *key);

/* Returns false if the table is full, or no memory is left. */
bool table_add(struct table *table, const struct key *key,
               struct kiln_torch_choice *const choices[2]);

#endif
