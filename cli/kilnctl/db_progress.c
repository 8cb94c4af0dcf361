/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/db_progress.h"

#include <stdio.h>

void db_progress_init(struct db_progress *progress, const char *what, const struct db_list *lists,
                      void *context, bool json)
{
    *progress = (struct db_progress){ .lists = lists, .context = context, .json = json };
    call_progress_init(&progress->bar, what);
    for (size_t i = 0; i < DB_LISTS_MAX && lists[i].name; i++)
        progress->kept[progress->list_count++] = json_array();
}

void db_progress_done(struct db_progress *progress)
{
    for (size_t i = 0; i < progress->list_count; i++)
        json_destroy(progress->kept[i]);
}

static struct json *copy_item(const struct json *item)
{
    struct json *object = json_object();
    for (const struct json *j = json_first(item); j; j = json_next(j)) {
        if (json_is_text(j))
            json_set_text(object, json_name(j), json_as_text(j, ""));
        else if (json_is_number(j))
            json_set_number(object, json_name(j), json_as_number(j, 0));
        else if (json_is_bool(j))
            json_set_bool(object, json_name(j), json_as_bool(j, false));
    }
    return object;
}

static void take_items(struct db_progress *p, size_t index, const struct json *items)
{
    const struct db_list *list = &p->lists[index];
    bool prints = !p->json || list->even_with_json;
    if (prints && json_count(items) > 0)
        call_progress_end(&p->bar);
    for (const struct json *j = json_first(items); j; j = json_next(j)) {
        if (!json_is_object(j))
            continue;
        if (prints)
            list->print(p->context, j);
        if (p->json && p->counts[index] < DB_KEPT_MAX)
            json_append(p->kept[index], copy_item(j));
        p->counts[index]++;
    }
}

int db_progress_on(void *context, const char *json)
{
    struct db_progress *p = context;
    KILN_AUTO(json) struct json *tree = NULL;
    struct kiln_err why = KILN_ERR_INIT;
    if (json_parse(bytes_of_text(json), "kilnd's progress", &tree, &why))
        return 0; /* an invalid progress message must not end the request */
    if (json_get(tree, "progress"))
        call_progress_on(&p->bar, json);
    for (size_t i = 0; i < p->list_count; i++)
        take_items(p, i, json_get(tree, p->lists[i].name));
    return 0;
}

void db_progress_move(struct db_progress *progress, size_t index, struct json *object,
                      const char *name)
{
    char left_out[64];
    size_t kept = json_count(progress->kept[index]);
    json_set(object, name, KILN_TAKE(progress->kept[index]));
    if (progress->counts[index] == kept)
        return;
    snprintf(left_out, sizeof(left_out), "%.48s_left_out", name);
    json_set_u64(object, left_out, progress->counts[index] - kept);
}
