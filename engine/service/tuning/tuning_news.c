/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_news.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A frame of them is a tenth of a megabyte usually, and never so much that another item would be
 * too much for a frame of the protocol. */
#define ITEMS_A_FRAME 1000u
#define BYTES_A_FRAME (1u << 20)

struct news_list {
    const char *name;        /* literal */
    struct news_frame *open; /* borrowed: the latest of its frames, while it was not taken */
    uint64_t kept, kept_bytes, left_out;
};

struct news_frame {
    struct news_frame *next;
    struct news_list *list; /* borrowed */
    struct json *items;     /* owned */
    unsigned count;
    size_t bytes; /* as they are sent */
};

struct tuning_news {
    pthread_mutex_t lock;
    struct news_frame *first, *last; /* owned list */
    const char *stage;               /* literal; NULL: nothing new of it */
    uint64_t done, total;
    struct news_list lists[NEWS_LISTS_MOST];
    unsigned list_count;
    atomic_bool is_stopped;
};

enum kiln_code tuning_news_create(struct tuning_news **ret_news, struct kiln_err *err)
{
    struct tuning_news *news = calloc(1, sizeof(*news));
    if (!news)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
    pthread_mutex_init(&news->lock, NULL);
    *ret_news = news;
    return KILN_OK;
}

static struct news_frame *pop(struct tuning_news *news)
{
    struct news_frame *frame = news->first;
    if (!frame)
        return NULL;
    news->first = frame->next;
    if (!news->first)
        news->last = NULL;
    if (frame->list->open == frame)
        frame->list->open = NULL;
    return frame;
}

void tuning_news_destroy(struct tuning_news *news)
{
    if (!news)
        return;
    for (struct news_frame *frame = pop(news); frame; frame = pop(news)) {
        json_destroy(frame->items);
        free(frame);
    }
    pthread_mutex_destroy(&news->lock);
    free(news);
}

/* NULL: out of memory. */
static struct news_frame *frame_for(struct tuning_news *news, struct news_list *list)
{
    if (list->open && list->open->count < ITEMS_A_FRAME && list->open->bytes < BYTES_A_FRAME)
        return list->open;
    struct news_frame *frame = calloc(1, sizeof(*frame));
    if (!frame)
        return NULL;
    frame->list = list;
    frame->items = json_array();
    *(news->last ? &news->last->next : &news->first) = frame;
    news->last = list->open = frame;
    return frame;
}

/* As it is sent; 0: out of memory. */
static size_t size_of(const struct json *item)
{
    KILN_AUTO(mem) char *text = json_print(item, /* indent= */ false);
    return text ? strlen(text) : 0;
}

static struct news_list *list_of(struct tuning_news *news, const char *name)
{
    unsigned at = 0;
    while (at < news->list_count && strcmp(news->lists[at].name, name) != 0)
        at++;
    assert(at < NEWS_LISTS_MOST);
    if (at == news->list_count)
        news->lists[news->list_count++] = (struct news_list){ .name = name };
    return &news->lists[at];
}

static bool has_room(const struct news_list *list, size_t size)
{
    return list->kept < NEWS_MOST && size > 0 && list->kept_bytes + size <= NEWS_BYTES_MOST;
}

void tuning_news_add(struct tuning_news *news, const char *name, struct json *item)
{
    size_t size = size_of(item);
    pthread_mutex_lock(&news->lock);
    struct news_list *list = list_of(news, name);
    struct news_frame *frame = has_room(list, size) ? frame_for(news, list) : NULL;
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
    pthread_mutex_unlock(&news->lock);
}

void tuning_news_set_value(struct json *item, const char *name, struct bytes text)
{
    char shown[NEWS_VALUE_MOST + 40];
    size_t size = text.size > NEWS_VALUE_MOST ? NEWS_VALUE_MOST : text.size;
    int length = (int)size;
    const char *data = size > 0 ? (const char *)text.data : "";
    if (text.size > size)
        snprintf(shown, sizeof(shown), "%.*s... (%zu bytes)", length, data, text.size);
    else
        snprintf(shown, sizeof(shown), "%.*s", length, data);
    json_set_text(item, name, shown);
}

void tuning_news_progress(struct tuning_news *news, const char *stage, uint64_t done,
                          uint64_t total)
{
    pthread_mutex_lock(&news->lock);
    news->stage = stage;
    news->done = done;
    news->total = total;
    pthread_mutex_unlock(&news->lock);
}

static struct json *progress_frame(const struct tuning_news *news)
{
    struct json *progress = json_object(), *frame = json_object();
    json_set_text(progress, "stage", news->stage);
    json_set_u64(progress, "done", news->done);
    json_set_u64(progress, "total", news->total);
    json_set(frame, "progress", progress);
    return frame;
}

struct json *tuning_news_take(struct tuning_news *news)
{
    struct json *taken = NULL;
    pthread_mutex_lock(&news->lock);
    struct news_frame *items = news->stage ? NULL : pop(news);
    if (news->stage)
        taken = progress_frame(news);
    news->stage = NULL;
    pthread_mutex_unlock(&news->lock);
    if (items) {
        taken = json_object();
        json_set(taken, items->list->name, items->items);
        free(items);
    }
    return taken;
}

void tuning_news_stop(struct tuning_news *news) { atomic_store(&news->is_stopped, true); }

bool tuning_news_is_stopped(const struct tuning_news *news)
{
    return atomic_load(&news->is_stopped);
}

/* NULL: of all. */
static uint64_t count_left_out(struct tuning_news *news, const char *name)
{
    uint64_t count = 0;
    pthread_mutex_lock(&news->lock);
    for (unsigned i = 0; i < news->list_count; i++) {
        if (!name || strcmp(news->lists[i].name, name) == 0)
            count += news->lists[i].left_out;
    }
    pthread_mutex_unlock(&news->lock);
    return count;
}

uint64_t tuning_news_left_out(struct tuning_news *news) { return count_left_out(news, NULL); }

uint64_t tuning_news_left_out_of(struct tuning_news *news, const char *name)
{
    return count_left_out(news, name);
}

/* ---- events of a job ---- */

static void on_bad(void *context, uint64_t line, const char *why)
{
    struct json *item = json_object();
    json_set_u64(item, "line", line);
    json_set_text(item, "why", why);
    tuning_news_add(context, "bad", item);
}

static void on_verbatim(void *context, uint64_t line, struct bytes key, const char *why)
{
    struct json *item = json_object();
    json_set_u64(item, "line", line);
    json_set_bytes(item, "key", key);
    json_set_text(item, "why", why);
    tuning_news_add(context, "verbatim", item);
}

static void on_conflict(void *context, const struct tuning_place *place, const char *why)
{
    struct json *item = json_object();
    json_set_bytes(item, "key", place->key);
    json_set_text(item, "why", why);
    tuning_news_add(context, "conflicts", item);
}

static void on_progress(void *context, const char *step, uint64_t done, uint64_t total)
{
    tuning_news_progress(context, step, done, total);
}

struct tuning_job_events tuning_news_events(struct tuning_news *news)
{
    return (struct tuning_job_events){ .bad = on_bad,
                                       .verbatim = on_verbatim,
                                       .conflict = on_conflict,
                                       .progress = on_progress,
                                       .context = news };
}
