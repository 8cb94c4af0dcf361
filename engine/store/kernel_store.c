/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/clock.h"
#include "common/limits.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ASIDE_PREFIX STORE_FILE ".damaged-"
#define READERS_MOST 64u
/* Page caches; the interior pages of the indices of 10^6 kernels fit the readers'. */
#define WRITER_CACHE_KIB 2048u
#define READER_CACHE_KIB 512u

/* What SQLite keeps beside a database; the file itself comes first. */
static const char *const suffixes[] = { "", "-wal", "-shm" };

struct db_options store_db_options(const struct kernel_store *store, bool writer)
{
    return (struct db_options){
        .path = store->path,
        .schema = writer ? &kernel_schema : NULL,
        .statements = kernel_statements,
        .statement_count = writer ? KERNEL_STATEMENT_COUNT : KERNEL_READING_COUNT,
        .value_most = LIMIT_CODE_OBJECT + (1u << 20),
        .cache_kib = writer ? WRITER_CACHE_KIB : READER_CACHE_KIB,
        .read_only = !writer,
    };
}

/* ---- a damaged file ---- */

/* A copy each time would fill the disk that the limit is there to protect. */
static void forget_older_copies(const struct kernel_store *store)
{
    DIR *dir = opendir(store->directory);
    if (!dir)
        return;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (strncmp(e->d_name, ASIDE_PREFIX, sizeof(ASIDE_PREFIX) - 1) == 0)
            unlinkat(store->folder, e->d_name, 0);
    }
    closedir(dir);
}

static enum kiln_code move_aside(struct kernel_store *store, const char *why, char notice[512],
                                 struct kiln_err *err)
{
    forget_older_copies(store);
    char aside[64];
    snprintf(aside, sizeof(aside), ASIDE_PREFIX "%llu", (unsigned long long)clock_wall_s());
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char from[32], to[80];
        snprintf(from, sizeof(from), STORE_FILE "%s", suffixes[i]);
        snprintf(to, sizeof(to), "%s%s", aside, suffixes[i]);
        if (renameat(store->folder, from, store->folder, to) != 0 && errno != ENOENT)
            return kiln_fail_errno(err, errno, "cannot move the damaged '%s/%s' aside",
                                   store->directory, from);
    }
    snprintf(notice, 512,
             "the kernel cache was damaged (%.200s): moved to '%.180s/%s', started an empty one",
             why, store->directory, aside);
    return KILN_OK;
}

/* ---- opening ---- */

static void close_all(struct kernel_store *store)
{
    store_readers_close(store);
    db_destroy(store->writer);
    store->writer = NULL;
}

static enum kiln_code open_all(struct kernel_store *store, struct kiln_err *err)
{
    struct db_options options = store_db_options(store, /* writer= */ true);
    struct kernel_usage usage;
    enum kiln_code rc = store_file_make(store, err);
    if (!rc)
        rc = db_open(&options, &store->writer, err);
    if (!rc)
        rc = store_usage(store->writer, &usage, err);
    if (!rc)
        rc = store_readers_open(store, err);
    if (rc)
        close_all(store);
    return rc;
}

/* Opens; what is damaged, or was found so by |damage|, is moved aside first. */
static enum kiln_code open_store(struct kernel_store *store, const char *damage, char notice[512],
                                 struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    if (!damage) {
        enum kiln_code rc = open_all(store, &why);
        if (rc != KILN_CORRUPT) {
            *err = why;
            return rc;
        }
        damage = why.text;
    }
    enum kiln_code rc = move_aside(store, damage, notice, err);
    return rc ? rc : open_all(store, err);
}

static void say_removed(const struct kernel_store *store, char notice[512])
{
    if (store->made_file)
        snprintf(notice, 512,
                 "the kernel cache '%.300s' was removed while kilnd ran: a new one was made",
                 store->path);
    else
        snprintf(
            notice, 512,
            "the kernel cache '%.300s' was replaced while kilnd ran: what is there now is used",
            store->path);
}

/* SQLite would play the log of the file that is gone into the one that took its place. */
static void drop_old_log(const struct kernel_store *store)
{
    for (size_t i = 1; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), STORE_FILE "%s", suffixes[i]);
        unlinkat(store->folder, name, 0);
    }
}

static enum kiln_code start_anew(struct kernel_store *store, const char *damage,
                                 struct kiln_err *err)
{
    char notice[512] = "";
    if (!store_file_is_in_place(store))
        store->removed = true; /* until it is told */
    close_all(store);
    enum kiln_code rc = store_folder_open(store, err);
    if (!rc && store->removed)
        drop_old_log(store);
    if (!rc) /* the damage was in a file that is gone */
        rc = open_store(store, store->removed ? NULL : damage, notice, err);
    if (rc)
        return rc;
    if (store->removed && !*notice)
        say_removed(store, notice);
    store->removed = false;
    atomic_store(&store->file_damaged, false);
    pthread_mutex_lock(&store->mutex);
    snprintf(store->notice, sizeof(store->notice), "%s", notice);
    pthread_mutex_unlock(&store->mutex);
    return KILN_OK;
}

enum kiln_code store_write(struct kernel_store *store, store_work work, void *context,
                           struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    /* Looking costs 2 us, a put 200. */
    if (!store->writer || !store_file_is_in_place(store))
        rc = start_anew(store, /* damage= */ NULL, err);
    else if (atomic_load(&store->file_damaged))
        rc = start_anew(store, "a look-up met a damaged page", err);
    if (rc)
        return rc;
    rc = work(store, context, err);
    if (rc != KILN_CORRUPT)
        return rc;
    struct kiln_err why = *err;
    rc = start_anew(store, why.text, err);
    return rc ? rc : work(store, context, err);
}

static struct kernel_store *create(const struct kernel_store_options *options)
{
    KILN_AUTO(kernel_store) struct kernel_store *store = calloc(1, sizeof(*store));
    if (!store)
        return NULL;
    store->folder = store->lock = -1;
    store->allow_network_fs = options->allow_network_fs;
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->returned, NULL);
    store->limit_bytes = options->limit_bytes;
    store->reader_count = options->readers < READERS_MOST ? options->readers : READERS_MOST;
    store->reader_count += store->reader_count == 0;
    store->directory = strdup(options->directory);
    if (!store->directory || asprintf(&store->path, "%s/" STORE_FILE, options->directory) < 0) {
        store->path = NULL; /* asprintf leaves it undefined */
        return NULL;
    }
    return KILN_TAKE(store);
}

enum kiln_code kernel_store_open(const struct kernel_store_options *options,
                                 struct kernel_store **ret_store, char ret_notice[512],
                                 struct kiln_err *err)
{
    char notice[512] = "";
    KILN_AUTO(kernel_store) struct kernel_store *store = create(options);
    if (!store)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the kernel cache: out of memory");
    enum kiln_code rc = codec_create(&store->codec, err);
    if (!rc)
        rc = store_folder_open(store, err);
    if (!rc)
        rc = open_store(store, /* damage= */ NULL, notice, err);
    if (rc)
        return kiln_while(err, "opening the kernel cache");
    memcpy(ret_notice, notice, sizeof(notice));
    *ret_store = KILN_TAKE(store);
    return KILN_OK;
}

void kernel_store_destroy(struct kernel_store *store)
{
    if (!store)
        return;
    close_all(store);
    codec_destroy(store->codec);
    store_folder_close(store);
    pthread_cond_destroy(&store->returned);
    pthread_mutex_destroy(&store->mutex);
    free(store->path);
    free(store->directory);
    free(store);
}

bool kernel_store_take_notice(struct kernel_store *store, char ret_notice[512])
{
    pthread_mutex_lock(&store->mutex);
    bool any = store->notice[0] != '\0';
    if (any)
        memcpy(ret_notice, store->notice, sizeof(store->notice));
    store->notice[0] = '\0';
    pthread_mutex_unlock(&store->mutex);
    return any;
}
