/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/base/clock.h"
#include "common/protocol/limits.h"

#include <stdio.h>
#include <string.h>

/* The page caches of SQLite's connections. A reader's cache can hold the inner pages of all indices
 * of 10^6 kernels. */
#define WRITER_CACHE_KIB 2048u
#define READER_CACHE_KIB 512u

struct db_options store_db_options(struct kernel_store *store, enum store_access access)
{
    bool writes = access == STORE_WRITER;
    bool alone = access == STORE_LOG_ALONE || access == STORE_FILE_ALONE;
    return (struct db_options){
        .path = store->path,
        .schema = writes || alone ? &kernel_schema : NULL,
        .statements = kernel_statements,
        .statement_count = writes ? KERNEL_STATEMENT_COUNT : KERNEL_READING_COUNT,
        .value_max = LIMIT_CODE_OBJECT + (1u << 20),
        .cache_kib = writes ? WRITER_CACHE_KIB : READER_CACHE_KIB,
        .log_pages = store_log_pages(store->limit_bytes),
        .read_only = !writes,
        .leave_files = access == STORE_LOG_ALONE,
        .immutable = access == STORE_FILE_ALONE,
        .misreads = &store->misreads,
    };
}

void store_close_all(struct kernel_store *store)
{
    db_pool_close(&store->readers.pool);
    db_destroy(store->writer);
    store->writer = NULL;
    store->pinned.is_known = false;
}

enum kiln_code store_open_all(struct kernel_store *store, struct kiln_err *err)
{
    struct db_options options = store_db_options(store, STORE_WRITER);
    struct kernel_usage usage;
    enum kiln_code rc = store_file_make(store, err);
    if (!rc)
        rc = db_open(&options, &store->writer, err);
    if (!rc)
        rc = store_usage(store->writer, &usage, err);
    if (!rc)
        rc = store_readers_open(store, STORE_BESIDE_WRITER, err);
    if (rc) {
        db_destroy(store->writer);
        store->writer = NULL;
        return rc;
    }
    /* Free pages, and pieces of puts that did not end, may remain from an earlier process. */
    store->vacuum_due = true;
    store->orphans.is_scanning = false;
    atomic_store(&store->orphans.are_due, true);
    store->openings++;
    store_check_discard(store);
    return KILN_OK;
}

enum kiln_code store_open_reading(struct kernel_store *store, struct kiln_err *err)
{
    uint64_t log = 0, index = 0;
    enum kiln_code rc = store_file_check(store, err);
    bool has_log = store_file_size(store, STORE_LOG, &log) && log > 0;
    bool has_index = store_file_size(store, STORE_FILE "-shm", &index) && index > 0;
    if (!rc && has_log && has_index)
        rc = store_readers_open(store, STORE_LOG_ALONE, err);
    else if (!rc) /* without the index, read kernels.db alone: to read the log, SQLite would have to
                   * write the index */
        rc = store_readers_open(store, STORE_FILE_ALONE, err);
    if (rc)
        store_readers_close(store);
    return rc;
}

/* Opens the store read-only. |why| is the reason why opening for writing failed. Fails if kilnd has
 * no permission to write and the directory has no store: that is probably a configuration error. */
static enum kiln_code open_without_writing(struct kernel_store *store, struct kiln_err *why,
                                           char notice[512])
{
    store->opening = KERNEL_NOTICE_TROUBLE;
    struct kiln_err err = KILN_ERR_INIT;
    enum kernel_health_state state = store_health_of(store, why->code);
    if (state == KERNEL_HEALTH_OK ||
        db_directory_refresh(&store->home, /* writing= */ false, &err) != KILN_OK)
        return why->code;
    enum kiln_code rc = store_open_reading(store, &err);
    if (why->code == KILN_DENIED && (rc == KILN_NOT_FOUND || rc == KILN_DENIED))
        return why->code;
    snprintf(notice, 512, "the kernel cache cannot be written to, %s: %.400s",
             rc ? "and it has nothing to serve" : "stored kernels are served", why->text);
    (void)store_health_note(store, STORE_AWAITED, why->code, why); /* |notice| reports |why| */
    return KILN_OK;
}

static enum kiln_code open_to_write(struct kernel_store *store, char notice[512],
                                    struct kiln_err *err)
{
    enum kiln_code rc = db_directory_refresh(&store->home, /* writing= */ true, err);
    if (!rc)
        rc = store_open_or_rebuild(store, /* damage= */ NULL, notice, err);
    store->opening = notice[0] ? KERNEL_NOTICE_REPLACED : KERNEL_NOTICE_NONE;
    return rc ? open_without_writing(store, err, notice) : KILN_OK;
}

static enum kiln_code open_to_read(struct kernel_store *store, char notice[512],
                                   struct kiln_err *err)
{
    enum kiln_code rc = db_directory_refresh(&store->home, /* writing= */ false, err);
    if (rc)
        return rc;
    rc = store_open_reading(store, err);
    store->opening = rc ? KERNEL_NOTICE_TROUBLE : KERNEL_NOTICE_NONE;
    if (rc == KILN_NOT_FOUND)
        snprintf(notice, 512,
                 "there is no kernel cache '%.300s', and with cache = read-only none is created: "
                 "nothing is served from it",
                 store->path);
    else if (rc)
        snprintf(notice, 512,
                 "the kernel cache is configured as read-only, but cannot be read: %.400s",
                 err->text);
    return KILN_OK;
}

static struct kernel_store *create_store(const struct kernel_store_options *options)
{
    KILN_AUTO(kernel_store) struct kernel_store *store = calloc(1, sizeof(*store));
    if (!store)
        return NULL;
    pthread_mutex_init(&store->mutex, NULL);
    list_init(&store->puttings);
    store_readers_init(store, options->readers);
    store->limit_bytes = options->limit_bytes;
    store->quota_bytes_uid = options->quota_bytes_uid;
    store->mode = options->mode;
    store->directory = strdup(options->directory);
    store_directory_init(store, options->allow_network_fs);
    if (asprintf(&store->path, "%s/" STORE_FILE, options->directory) < 0)
        store->path = NULL;
    if (asprintf(&store->log_path, "%s/" STORE_LOG, options->directory) < 0)
        store->log_path = NULL;
    bool whole = store->directory && store->path && store->log_path;
    return whole ? KILN_TAKE(store) : NULL;
}

void kernel_store_set_limits(struct kernel_store *store, uint64_t limit_bytes,
                             uint64_t quota_bytes_uid)
{
    store->limit_bytes = limit_bytes;
    store->quota_bytes_uid = quota_bytes_uid;
}

enum kiln_code kernel_store_open(const struct kernel_store_options *options,
                                 struct kernel_store **ret_store, char ret_notice[512],
                                 struct kiln_err *err)
{
    char notice[512] = "";
    KILN_AUTO(kernel_store) struct kernel_store *store = create_store(options);
    if (!store)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the kernel cache: out of memory");
    enum kiln_code rc = codec_create(&store->codec, err);
    if (!rc && store->mode == KERNEL_STORE_ON)
        rc = open_to_write(store, notice, err);
    else if (!rc && store->mode == KERNEL_STORE_READ_ONLY)
        rc = open_to_read(store, notice, err);
    if (rc)
        return kiln_while(err, "opening the kernel cache");
    memcpy(ret_notice, notice, sizeof(notice));
    *ret_store = KILN_TAKE(store);
    return KILN_OK;
}

uint64_t kernel_store_misreads(const struct kernel_store *store) { return store->misreads; }

void kernel_store_destroy(struct kernel_store *store)
{
    if (!store)
        return;
    store_close_all(store);
    codec_destroy(store->codec);
    db_directory_close(&store->home);
    db_pool_done(&store->readers.pool);
    pthread_mutex_destroy(&store->mutex);
    free(store->log_path);
    free(store->path);
    free(store->directory);
    free(store);
}

static enum kiln_code refuse_by_mode(const struct kernel_store *store, struct kiln_err *err)
{
    if (store->mode == KERNEL_STORE_OFF && !store->directory[0])
        return kiln_fail(
            err, KILN_UNAVAILABLE,
            "there is no kernel cache: the engine in this process has no cache directory");
    if (store->mode == KERNEL_STORE_OFF)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "the kernel cache is off: start kilnd with cache = on");
    return kiln_fail(
        err, KILN_DENIED,
        "the kernel cache '%s' is configured as read-only: start kilnd with cache = on",
        store->path);
}

static void vacuum_after_write(struct kernel_store *store)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    if (store_vacuum(store, &ignored) != KILN_OK)
        store->vacuum_due = true;
}

static enum kiln_code run_work(struct kernel_store *store, store_work work, void *context,
                               struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    /* Checking for a removed file takes only 2 us, whereas a put takes 200 us. */
    if (!store->writer || !store_file_is_in_place(store))
        rc = store_reopen(store, /* damage= */ NULL, err);
    else if (atomic_load(&store->file_damaged))
        rc = store_reopen(store, "a look-up found a damaged page", err);
    if (rc)
        return rc;
    rc = work(store, context, err);
    /* Repeats the work with pages from the disk, because the damage may exist only in memory. */
    if (rc == KILN_CORRUPT && store->writer) {
        db_forget_pages(store->writer);
        rc = work(store, context, err);
        store->misreads += rc == KILN_OK;
    }
    if (rc == KILN_CORRUPT) {
        struct kiln_err why = *err;
        rc = store_reopen(store, why.text, err);
        if (!rc)
            rc = work(store, context, err);
    }
    if (!rc)
        vacuum_after_write(store);
    return rc;
}

enum kiln_code store_write(struct kernel_store *store, enum store_write_kind kind, store_work work,
                           void *context, struct kiln_err *err)
{
    if (store->mode != KERNEL_STORE_ON)
        return kind == STORE_BACKGROUND ? KILN_OK : refuse_by_mode(store, err);
    if (kind == STORE_BACKGROUND && store_health_drops(store))
        return KILN_OK;
    enum kiln_code rc = run_work(store, work, context, err);
    return store_health_note(store, kind, rc, err);
}

enum kernel_notice kernel_store_opening_notice(const struct kernel_store *store)
{
    return store->opening;
}

void store_set_notice(struct kernel_store *store, enum kernel_notice kind, const char *text)
{
    pthread_mutex_lock(&store->mutex);
    store->notice.kind = kind;
    snprintf(store->notice.text, sizeof(store->notice.text), "%s", text);
    pthread_mutex_unlock(&store->mutex);
}

enum kernel_notice kernel_store_take_notice(struct kernel_store *store, char ret_notice[512])
{
    pthread_mutex_lock(&store->mutex);
    enum kernel_notice kind = store->notice.kind;
    if (kind)
        memcpy(ret_notice, store->notice.text, sizeof(store->notice.text));
    store->notice.kind = KERNEL_NOTICE_NONE;
    pthread_mutex_unlock(&store->mutex);
    return kind;
}
