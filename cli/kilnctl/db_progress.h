/* SPDX-License-Identifier: MIT */
#pragma once

/* Shows the messages that kilnd sends while it works on tuning databases: progress, and items of
 * several lists (bad lines, conflicts, differences).  A message may have many items.
 *
 * Role       shows a progress bar; prints items as they arrive or, with --json, keeps them until
 *            the end
 * Ownership  owns the items it keeps
 * Threading  one thread */
#include "cli/kilnctl/call_progress.h"
#include "common/base/json.h"

#include <stdbool.h>
#include <stddef.h>

/* Maximum number of items of each list that are kept with --json. Further items are only
 * counted. */
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

/* Initialises |progress|. |lists| ends with an entry whose name is NULL, and has at most
 * DB_LISTS_MAX other entries. */
void db_progress_init(struct db_progress *progress, const char *what, const struct db_list *lists,
                      void *context, bool json);
void db_progress_done(struct db_progress *progress);
#define DB_PROGRESS_AUTO __attribute__((cleanup(db_progress_done)))
int db_progress_on(void *context, const char *json);
/* Moves the items kept for list |index| into |object| as the member |name|. If more items arrived,
 * sets the member |name|_left_out to the number of those that were not kept. */
void db_progress_move(struct db_progress *progress, size_t index, struct json *object,
                      const char *name);
