/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What kilnd says while it works on tuning databases: how far it is, and lists of what it met
 * (bad lines, conflicts, differences), many to a message.
 *
 * Role       shows the bar; an item of a list is printed at once, or kept for --json
 * Ownership  owns the items it keeps
 * Threading  one thread
 */
#include "cli/kilnctl/call_progress.h"
#include "common/json.h"

#include <stdbool.h>
#include <stddef.h>

/* Items that --json lists of one list; more are counted. */
#define DB_KEPT_MAX 100000u

struct db_list {
    const char *name; /* of the member: "bad" */
    void (*print)(void *context, const struct json *item);
    bool even_with_json; /* printed as well as kept: it goes to standard error */
};

struct db_progress {
    struct call_progress bar;
    const struct db_list *lists; /* borrowed */
    size_t list_count;           /* at most DB_LISTS_MAX */
    void *context;               /* borrowed; for print */
    bool json;
#define DB_LISTS_MAX 3
    struct json *kept[DB_LISTS_MAX]; /* owned */
    size_t counts[DB_LISTS_MAX];
};

void db_progress_init(struct db_progress *progress, const char *what, const struct db_list *lists,
                      size_t list_count, void *context, bool json);
void db_progress_done(struct db_progress *progress);
#define DB_PROGRESS_AUTO __attribute__((cleanup(db_progress_done)))
/* For kiln_admin_call.progress, with a struct db_progress as its context.  Returns 0. */
int db_progress_on(void *context, const char *json);
/* Gives the items kept of list |index| to |object| as |name|, and how many did not fit as
 * |name|_left_out. */
void db_progress_give(struct db_progress *progress, size_t index, struct json *object,
                      const char *name);
