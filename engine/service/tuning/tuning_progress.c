/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_progress.h"

#include "common/base/list.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Limits of a frame. A frame below both limits gets one more item; even then, it is within the
 * protocol's limit. */
#define ITEMS_A_FRAME 1000u
#define BYTES_A_FRAME (1u << 20)

struct progress_list {
    const char *name;
    struct progress_frame *open;
    uint64_t kept, kept_bytes, left_out;
};

struct progress_frame {
    struct list_link link;
    struct progress_list *list;
    struct json *items;
    unsigned count;
    size_t bytes; /* size of the items as JSON text */
};

struct tuning_progress {
    pthread_mutex_t lock;
    struct list frames;
    const char *stage; /* a string literal; NULL: unchanged since the last frame */
    uint64_t done, total;
    struct progress_list lists[PROGRESS_LISTS_MAX];
    unsigned list_count;
    atomic_bool is_stopped;
};

enum kiln_code tuning_progress_create(struct tuning_progress **ret_progress, struct kiln_err *err)
{
    struct tuning_progress *progress = calloc(1, sizeof(*progress));
    if (!progress)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
    pthread_mutex_init(&progress->lock, NULL);
    list_init(&progress->frames);
    *ret_progress = progress;
    return KILN_OK;
}

static struct progress_frame *pop_frame(struct tuning_progress *progress)
{
    struct progress_frame *frame = LIST_FIRST(&progress->frames, struct progress_frame, link);
    if (!frame)
        return NULL;
    list_remove(&frame->link);
    if (frame->list->open == frame)
        frame->list->open = NULL;
    return frame;
}

void tuning_progress_destroy(struct tuning_progress *progress)
{
    if (!progress)
        return;
    for (struct progress_frame *frame = pop_frame(progress); frame; frame = pop_frame(progress)) {
        json_destroy(frame->items);
        free(frame);
    }
    pthread_mutex_destroy(&progress->lock);
    free(progress);
}

static struct progress_frame *frame_for(struct tuning_progress *progress,
                                        struct progress_list *list)
{
    if (list->open && list->open->count < ITEMS_A_FRAME && list->open->bytes < BYTES_A_FRAME)
        return list->open;
    struct progress_frame *frame = calloc(1, sizeof(*frame));
    if (!frame)
        return NULL;
    frame->list = list;
    frame->items = json_array();
    list_append(&progress->frames, &frame->link);
    list->open = frame;
    return frame;
}

static size_t size_of(const struct json *item)
{
    KILN_AUTO(mem) char *text = json_print(item, /* indent= */ false);
    return text ? strlen(text) : 0;
}

static struct progress_list *list_of(struct tuning_progress *progress, const char *name)
{
    unsigned at = 0;
    while (at < progress->list_count && strcmp(progress->lists[at].name, name) != 0)
        at++;
    assert(at < PROGRESS_LISTS_MAX);
    if (at == progress->list_count)
        progress->lists[progress->list_count++] = (struct progress_list){ .name = name };
    return &progress->lists[at];
}

static bool has_space(const struct progress_list *list, size_t size)
{
    return list->kept < PROGRESS_ITEMS_MAX && size > 0 &&
           list->kept_bytes + size <= PROGRESS_BYTES_MAX;
}

bool tuning_progress_leave_out(struct tuning_progress *progress, const char *name)
{
    pthread_mutex_lock(&progress->lock);
    struct progress_list *list = list_of(progress, name);
    bool is_full = list->kept >= PROGRESS_ITEMS_MAX;
    list->left_out += is_full;
    pthread_mutex_unlock(&progress->lock);
    return is_full;
}

void tuning_progress_add(struct tuning_progress *progress, const char *name, struct json *item)
{
    size_t size = size_of(item);
    pthread_mutex_lock(&progress->lock);
    struct progress_list *list = list_of(progress, name);
    struct progress_frame *frame = has_space(list, size) ? frame_for(progress, list) : NULL;
    if (frame) {
        json_append(frame->items, item);
        frame->count++;
        frame->bytes += size;
        list->kept++;
        list->kept_bytes += size;
    } else {
        json_destroy(item);
        list->left_out++;
    }
    pthread_mutex_unlock(&progress->lock);
}

void tuning_progress_set_value(struct json *item, const char *name, struct bytes text)
{
    char shown[PROGRESS_VALUE_MAX + 40];
    size_t size = text.size > PROGRESS_VALUE_MAX ? PROGRESS_VALUE_MAX : text.size;
    int length = (int)size;
    const char *data = size > 0 ? (const char *)text.data : "";
    if (text.size > size)
        snprintf(shown, sizeof(shown), "%.*s... (%zu bytes)", length, data, text.size);
    else
        snprintf(shown, sizeof(shown), "%.*s", length, data);
    json_set_text(item, name, shown);
}

void tuning_progress_set_stage(struct tuning_progress *progress, const char *stage, uint64_t done,
                               uint64_t total)
{
    pthread_mutex_lock(&progress->lock);
    progress->stage = stage;
    progress->done = done;
    progress->total = total;
    pthread_mutex_unlock(&progress->lock);
}

static struct json *make_stage_frame(const struct tuning_progress *progress)
{
    struct json *stage = json_object(), *frame = json_object();
    json_set_text(stage, "stage", progress->stage);
    json_set_u64(stage, "done", progress->done);
    json_set_u64(stage, "total", progress->total);
    json_set(frame, "progress", stage);
    return frame;
}

bool tuning_progress_take(struct tuning_progress *progress, struct json **ret_frame)
{
    pthread_mutex_lock(&progress->lock);
    bool has_stage = progress->stage != NULL;
    struct progress_frame *items = has_stage ? NULL : pop_frame(progress);
    if (has_stage)
        *ret_frame = make_stage_frame(progress);
    progress->stage = NULL;
    pthread_mutex_unlock(&progress->lock);
    if (items) {
        *ret_frame = json_object();
        json_set(*ret_frame, items->list->name, items->items);
        free(items);
    }
    return has_stage || items;
}

void tuning_progress_stop(struct tuning_progress *progress)
{
    atomic_store(&progress->is_stopped, true);
}

bool tuning_progress_is_stopped(const struct tuning_progress *progress)
{
    return atomic_load(&progress->is_stopped);
}

/* NULL as |name| means all lists. */
static uint64_t count_left_out(struct tuning_progress *progress, const char *name)
{
    uint64_t count = 0;
    pthread_mutex_lock(&progress->lock);
    for (unsigned i = 0; i < progress->list_count; i++) {
        if (!name || strcmp(progress->lists[i].name, name) == 0)
            count += progress->lists[i].left_out;
    }
    pthread_mutex_unlock(&progress->lock);
    return count;
}

uint64_t tuning_progress_left_out(struct tuning_progress *progress)
{
    return count_left_out(progress, NULL);
}

uint64_t tuning_progress_left_out_of(struct tuning_progress *progress, const char *name)
{
    return count_left_out(progress, name);
}

static void on_bad(void *context, uint64_t line, const char *why)
{
    struct json *item = json_object();
    json_set_u64(item, "line", line);
    json_set_text(item, "why", why);
    tuning_progress_add(context, "bad", item);
}

static void on_verbatim(void *context, uint64_t line, struct bytes key, const char *why)
{
    struct json *item = json_object();
    json_set_u64(item, "line", line);
    json_set_bytes(item, "key", key);
    json_set_text(item, "why", why);
    tuning_progress_add(context, "verbatim", item);
}

static void on_conflict(void *context, const struct tuning_place *place, const char *why)
{
    struct json *item = json_object();
    json_set_bytes(item, "key", place->key);
    json_set_text(item, "why", why);
    tuning_progress_add(context, "conflicts", item);
}

static void on_plan_change(void *context, const struct tuning_plan_change *change)
{
    struct json *item = json_object();
    json_set_u64(item, "uid", change->uid);
    json_set_text(item, "kind", tuning_kind_name(change->place->kind));
    json_set_text(item, "database_id", change->place->database_id);
    json_set_bytes(item, "key", change->place->key);
    json_set_bytes(item, "solver", change->solver);
    tuning_progress_set_value(item, "from", change->from);
    tuning_progress_set_value(item, "to", change->to);
    json_set_bool(item, "held", change->is_held);
    tuning_progress_add(context, "changes", item);
}

static void on_promoter(void *context, const struct tuning_promoter *user)
{
    struct json *item = json_object();
    json_set_u64(item, "uid", user->uid);
    json_set_u64(item, "entries", user->entries);
    json_set_u64(item, "promoted", user->promoted);
    json_set_u64(item, "changes", user->changes);
    tuning_progress_add(context, "users", item);
}

static void on_progress(void *context, const char *step, uint64_t done, uint64_t total)
{
    tuning_progress_set_stage(context, step, done, total);
}

struct tuning_job_events tuning_progress_events(struct tuning_progress *progress)
{
    return (struct tuning_job_events){ .bad = on_bad,
                                       .verbatim = on_verbatim,
                                       .conflict = on_conflict,
                                       .plan_change = on_plan_change,
                                       .promoter = on_promoter,
                                       .progress = on_progress,
                                       .context = progress };
}
