/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/clock.h"
#include "common/fs.h"
#include "common/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define FILE_NAME "kernels.db"
#define ASIDE_PREFIX FILE_NAME ".damaged-"
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

/* ---- the folder ---- */

/* Tells backup programs that nothing here is worth keeping (bford.info/cachedir). */
static void tag_as_cache(int folder)
{
    static const char tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                              "# This folder is a cache of kiln; it may be deleted at any time.\n";
    KILN_AUTO(fd)
    int fd = openat(folder, "CACHEDIR.TAG", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    struct kiln_err ignored = KILN_ERR_INIT;
    if (fd >= 0 && fs_write_all(fd, bytes_of_text(tag), &ignored) != KILN_OK)
        unlinkat(folder, "CACHEDIR.TAG", 0);
}

static enum kiln_code open_folder(struct kernel_store *store, const struct kernel_store_options *o,
                                  struct kiln_err *err)
{
    enum kiln_code rc = fs_make_folders(o->directory, err);
    if (!rc && !o->allow_network_fs)
        rc = fs_refuse_network(o->directory, "the cache folder (--cache-dir)", err);
    if (rc)
        return rc;
    store->folder = open(o->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat seen;
    if (store->folder < 0 || fstat(store->folder, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot open the cache folder '%s'", o->directory);
    /* Whoever may swap the file decides what runs on everybody's GPU. */
    if ((seen.st_mode & S_IWOTH) && !(seen.st_mode & S_ISVTX))
        return kiln_fail(
            err, KILN_DENIED,
            "everybody may write to the cache folder '%s': make it private (chmod o-w) "
            "or set another",
            o->directory);
    tag_as_cache(store->folder);
    return KILN_OK;
}

/* One process at a time opens, makes or replaces the file. */
static enum kiln_code lock_folder(const struct kernel_store *store, struct kiln_err *err)
{
    while (flock(store->folder, LOCK_EX) != 0) {
        if (errno != EINTR)
            return kiln_fail_errno(err, errno, "cannot lock the cache folder '%s'",
                                   store->directory);
    }
    return KILN_OK;
}

static void unlock_folder(const struct kernel_store *store) { flock(store->folder, LOCK_UN); }

/* SQLite would make the file readable for all.  Only a file that is not there is opened here:
 * closing a descriptor drops this process's SQLite locks on it. */
static enum kiln_code make_file(struct kernel_store *store, struct kiln_err *err)
{
    KILN_AUTO(fd)
    int fd = openat(store->folder, FILE_NAME, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct stat seen;
    if (fd < 0 && errno != EEXIST)
        return kiln_fail_errno(err, errno, "cannot make '%s'", store->path);
    if (fstatat(store->folder, FILE_NAME, &seen, 0) != 0)
        return kiln_fail_errno(err, errno, "cannot look at '%s'", store->path);
    if (!S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_INVALID, "'%s' is not a file: remove it or set another folder",
                         store->path);
    if (seen.st_uid != geteuid())
        return kiln_fail(err, KILN_DENIED,
                         "'%s' belongs to user %u, not to us: remove it or set another folder",
                         store->path, (unsigned)seen.st_uid);
    store->device = seen.st_dev;
    store->inode = seen.st_ino;
    return KILN_OK;
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

/* True when the path no longer names the file that was open: another process replaced it. */
static bool replaced_meanwhile(const struct kernel_store *store)
{
    struct stat seen;
    return fstatat(store->folder, FILE_NAME, &seen, 0) != 0 || seen.st_dev != store->device ||
           seen.st_ino != store->inode;
}

static enum kiln_code move_aside(struct kernel_store *store, const char *why, char notice[512],
                                 struct kiln_err *err)
{
    forget_older_copies(store);
    char aside[64];
    snprintf(aside, sizeof(aside), ASIDE_PREFIX "%llu", (unsigned long long)clock_wall_s());
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char from[32], to[80];
        snprintf(from, sizeof(from), FILE_NAME "%s", suffixes[i]);
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
    enum kiln_code rc = make_file(store, err);
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
static enum kiln_code open_locked(struct kernel_store *store, const char *damage, char notice[512],
                                  struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    if (!damage || replaced_meanwhile(store)) {
        rc = open_all(store, &why);
        if (rc != KILN_CORRUPT) {
            *err = why;
            return rc;
        }
        damage = why.text;
    }
    rc = move_aside(store, damage, notice, err);
    return rc ? rc : open_all(store, err);
}

static enum kiln_code open_store(struct kernel_store *store, const char *damage, char notice[512],
                                 struct kiln_err *err)
{
    enum kiln_code rc = lock_folder(store, err);
    if (rc)
        return rc;
    rc = open_locked(store, damage, notice, err);
    unlock_folder(store);
    return rc;
}

static enum kiln_code start_anew(struct kernel_store *store, const char *damage,
                                 struct kiln_err *err)
{
    char notice[512] = "";
    close_all(store);
    enum kiln_code rc = open_store(store, damage, notice, err);
    if (rc)
        return rc;
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
    if (!store->writer)
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
    store->folder = -1;
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->returned, NULL);
    store->limit_bytes = options->limit_bytes;
    store->reader_count = options->readers < READERS_MOST ? options->readers : READERS_MOST;
    store->reader_count += store->reader_count == 0;
    store->directory = strdup(options->directory);
    if (!store->directory || asprintf(&store->path, "%s/" FILE_NAME, options->directory) < 0) {
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
        rc = open_folder(store, options, err);
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
    if (store->folder >= 0)
        close(store->folder);
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
