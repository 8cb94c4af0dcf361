/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Shows the messages that kilnd sends while it works on tuning databases: progress, and lists of
 * items (bad lines, conflicts, differences).  One message may have many items.
 *
 * Role       shows the bar; prints each list item at once, or keeps it for --json
 * Ownership  owns the items it keeps
 * Threading  one thread
 */
#include "cli/kilnctl/call_progress.h"
#include "common/base/json.h"

#include <stdbool.h>
#include <stddef.h>

/* Maximum number of items of one list that --json prints.  Further items are only counted. */
#define DB_KEPT_MAX 100000u

struct db_list {
    const char *name;
    void (*print)(void *context, const struct json *item);
    bool even_with_json;
};

struct db_progress {
    struct call_progress bar;
    const struct db_list *lists;
    size_t list_count;
    void *context;
    bool json;
#define DB_LISTS_MAX 3
    struct json *kept[DB_LISTS_MAX];
    size_t counts[DB_LISTS_MAX];
};

/* |lists| has at most DB_LISTS_MAX entries, and then an entry whose name is NULL. */
void db_progress_init(struct db_progress *progress, const char *what, const struct db_list *lists,
                      void *context, bool json);
void db_progress_done(struct db_progress *progress);
#define DB_PROGRESS_AUTO __attribute__((cleanup(db_progress_done)))
int db_progress_on(void *context, const char *json);
/* Moves the kept items of list |index| into |object| as |name|.  The number of items that did not
 * fit becomes |name|_left_out. */
void db_progress_move(struct db_progress *progress, size_t index, struct json *object,
                      const char *name);
