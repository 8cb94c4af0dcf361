/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning_news.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A frame of them is a tenth of a megabyte usually, and never so much that another item would be
 * too much for a frame of the protocol. */
#define ITEMS_A_FRAME 1000u
#define BYTES_A_FRAME (1u << 20)

struct news_frame {
    struct news_frame *next;
    const char *name;   /* literal */
    struct json *items; /* owned */
    unsigned count;
    size_t bytes; /* as they are sent */
};

struct tuning_news {
    pthread_mutex_t lock;
    struct news_frame *first, *last; /* owned list */
    const char *stage;               /* literal; NULL: nothing new of it */
    uint64_t done, total;
    uint64_t kept, kept_bytes, left_out;
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
static struct news_frame *frame_for(struct tuning_news *news, const char *name)
{
    struct news_frame *last = news->last;
    if (last && strcmp(last->name, name) == 0 && last->count < ITEMS_A_FRAME &&
        last->bytes < BYTES_A_FRAME)
        return last;
    struct news_frame *frame = calloc(1, sizeof(*frame));
    if (!frame)
        return NULL;
    frame->name = name;
    frame->items = json_array();
    *(last ? &last->next : &news->first) = frame;
    news->last = frame;
    return frame;
}

/* As it is sent; 0: out of memory. */
static size_t size_of(const struct json *item)
{
    KILN_AUTO(mem) char *text = json_print(item, /* indent= */ false);
    return text ? strlen(text) : 0;
}

static bool has_room(const struct tuning_news *news, size_t size)
{
    return news->kept < NEWS_MOST && size > 0 && news->kept_bytes + size <= NEWS_BYTES_MOST;
}

void tuning_news_add(struct tuning_news *news, const char *name, struct json *item)
{
    size_t size = size_of(item);
    pthread_mutex_lock(&news->lock);
    struct news_frame *frame = has_room(news, size) ? frame_for(news, name) : NULL;
    if (frame) {
        json_append(frame->items, item);
        frame->count++;
        frame->bytes += size;
        news->kept++;
        news->kept_bytes += size;
    } else {
        json_destroy(item);
        news->left_out++;
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
        json_set(taken, items->name, items->items);
        free(items);
    }
    return taken;
}

void tuning_news_stop(struct tuning_news *news) { atomic_store(&news->is_stopped, true); }

bool tuning_news_is_stopped(const struct tuning_news *news)
{
    return atomic_load(&news->is_stopped);
}

uint64_t tuning_news_left_out(struct tuning_news *news)
{
    pthread_mutex_lock(&news->lock);
    uint64_t count = news->left_out;
    pthread_mutex_unlock(&news->lock);
    return count;
}

/* ---- events of a job ---- */

static void on_bad(void *context, uint64_t line, const char *why)
{
    struct json *item = json_object();
    json_set_u64(item, "line", line);
    json_set_text(item, "why", why);
    tuning_news_add(context, "bad", item);
}

static void on_conflict(void *context, const struct tuning_place *place, const char *why)
{
    char key[TUNING_KEY_MOST + 1];
    struct json *item = json_object();
    snprintf(key, sizeof(key), "%.*s", (int)place->key.size, (const char *)place->key.data);
    json_set_text(item, "key", key);
    json_set_text(item, "why", why);
    tuning_news_add(context, "conflicts", item);
}

static void on_progress(void *context, const char *step, uint64_t done, uint64_t total)
{
    tuning_news_progress(context, step, done, total);
}

struct tuning_job_events tuning_news_events(struct tuning_news *news)
{
    return (struct tuning_job_events){
        .bad = on_bad, .conflict = on_conflict, .progress = on_progress, .context = news
    };
}
