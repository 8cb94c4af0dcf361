/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/exported_files.h"

#include "common/base/clock.h"
#include "common/base/list.h"
#include "common/base/subordinate_uids.h"
#include "common/base/units.h"
#include "engine/service/internal.h"
#include "engine/service/kernels/file_object.h"
#include "engine/store/file_watches.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/statvfs.h>

/* Seconds for which a file that cannot be watched counts as open. */
#define UNKNOWN_S 600
#define FREE_PART 16

struct exported_file {
    struct list_link link;
    struct export_receiver to;
    int watch; /* -1: the file has not been watched since |since_s| */
    struct exported_files *exported;
    bool is_open;
    int fd; /* owned; a descriptor that is to be closed; -1: none */
    uint64_t size, since_s;
};

struct exported_files {
    bool is_closing;
    pthread_mutex_t mutex;
    struct list files;
    struct list spaces;
    struct file_watches watches;
};

#define EACH_FILE(list, file) LIST_EACH (list, struct exported_file, link, file)

enum kiln_code exported_files_create(struct exported_files **ret_files, struct kiln_err *err)
{
    struct exported_files *exported = calloc(1, sizeof(*exported));
    if (!exported)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the list of exported files");
    pthread_mutex_init(&exported->mutex, NULL);
    list_init(&exported->files);
    list_init(&exported->spaces);
    file_watches_init(&exported->watches);
    *ret_files = exported;
    return KILN_OK;
}

static void forget_file(struct exported_file *file)
{
    list_remove(&file->link);
    fd_auto(&file->fd);
    free(file);
}

void exported_files_destroy(struct exported_files *exported)
{
    if (!exported)
        return;
    EACH_FILE(&exported->files, file)
    forget_file(file);
    file_watches_done(&exported->watches);
    pthread_mutex_destroy(&exported->mutex);
    free(exported);
}

static uint64_t now_s(void) { return clock_monotonic_ns() / 1000000000u; }

static bool keeps_open(const struct exported_file *file) { return file->is_open || file->fd >= 0; }

static void forget_watched(struct exported_files *exported, int watch)
{
    EACH_FILE(&exported->files, file)
    if (file->watch == watch)
        forget_file(file);
}

static void forget_if_gone(struct exported_file *file, const struct file_watch_list *left)
{
    if (keeps_open(file) || file->watch < 0 || file_watch_list_has(left, file->watch))
        return;
    if (left->watches) {
        forget_file(file);
        return;
    }
    file->watch = -1;
    file->since_s = now_s();
}

/* Called if the operating system dropped events, because fs.inotify.max_queued_events was exceeded.
 * Forgets the files whose watch has ended. */
static void lose_events(struct exported_files *exported)
{
    struct file_watch_list left;
    file_watches_list(&exported->watches, &left);
    EACH_FILE(&exported->files, file)
    forget_if_gone(file, &left);
    file_watch_list_done(&left);
}

static void forget_unwatched(struct exported_files *exported)
{
    EACH_FILE(&exported->files, file)
    if (!keeps_open(file) && file->watch < 0 && now_s() >= file->since_s + UNKNOWN_S)
        forget_file(file);
}

/* Called when an object is dropped. Keeps the descriptor for exported_files_close, because closing
 * may take long. */
static void close_later(void *context, int fd)
{
    struct exported_file *file = context;
    struct exported_files *exported = file->exported;
    pthread_mutex_lock(&exported->mutex);
    file->is_open = false;
    file->fd = fd;
    file->since_s = now_s();
    pthread_mutex_unlock(&exported->mutex);
}

static int take_descriptor(struct exported_files *exported)
{
    int fd = -1;
    pthread_mutex_lock(&exported->mutex);
    EACH_FILE(&exported->files, file)
    {
        if (file->fd < 0)
            continue;
        fd = file->fd;
        file->fd = -1;
        break;
    }
    pthread_mutex_unlock(&exported->mutex);
    return fd;
}

void exported_files_close(struct exported_files *exported)
{
    for (int fd; (fd = take_descriptor(exported)) >= 0;)
        close(fd);
}

void exported_files_sweep(struct exported_files *exported)
{
    int watch;
    pthread_mutex_lock(&exported->mutex);
    while ((watch = file_watches_next(&exported->watches)) != FILE_WATCHES_END)
        if (watch == FILE_WATCHES_LOST)
            lose_events(exported);
        else
            forget_watched(exported, watch);
    forget_unwatched(exported);
    pthread_mutex_unlock(&exported->mutex);
}

unsigned exported_files_count(struct exported_files *exported)
{
    unsigned count = 0;
    pthread_mutex_lock(&exported->mutex);
    EACH_FILE(&exported->files, file)
    count++;
    pthread_mutex_unlock(&exported->mutex);
    return count;
}

static enum kiln_code check_disk(const char *directory, struct kiln_err *err)
{
    struct statvfs disk;
    if (statvfs(directory, &disk) != 0)
        return kiln_fail_errno(err, errno, "cannot see how much space is free in '%s'", directory);
    uint64_t left = (uint64_t)disk.f_bavail * disk.f_frsize;
    uint64_t least = (uint64_t)disk.f_blocks * disk.f_frsize / FREE_PART;
    if (least > EXPORTED_FREE_MIN)
        least = EXPORTED_FREE_MIN;
    if (left >= least)
        return KILN_OK;
    return kiln_fail(
        err, KILN_FULL,
        "the disk of '%s' has %llu MiB left, and %llu MiB stay free for the stores: free "
        "some space, or close files that were exported before",
        directory, (unsigned long long)(left >> 20), (unsigned long long)(least >> 20));
}

struct held {
    unsigned files, files_of_all;
    uint64_t bytes;
};

static void add_held(struct held *held, const struct export_receiver *to, uint64_t size, uid_t uid)
{
    held->files_of_all += !to->is_admin;
    const bool is_own = is_one_user(to->uid, uid);
    held->files += is_own;
    held->bytes += is_own ? size : 0;
}

/* Returns the files and bytes that the user of |space| holds, without the reservation |space|. */
static struct held held_besides(const struct exported_files *exported,
                                const struct export_space *space)
{
    struct held held = { 0 };
    EACH_FILE(&exported->files, file)
    add_held(&held, &file->to, file->size, space->to.uid);
    LIST_EACH (&exported->spaces, struct export_space, link, other) {
        if (other != space)
            add_held(&held, &other->to, other->bytes, space->to.uid);
    }
    return held;
}

static enum kiln_code check_user(const struct exported_files *exported,
                                 const struct export_space *space, uint64_t size,
                                 struct kiln_err *err)
{
    struct held held = held_besides(exported, space);
    const struct export_receiver *to = &space->to;
    if (to->is_admin)
        return KILN_OK;
    char text[2][UNITS_TEXT_MAX];
    if (held.files >= EXPORTED_FILES_MAX_UID)
        return kiln_fail(err, KILN_BUSY,
                         "user %u still has %u exported files open, and the maximum is %u: copy "
                         "and close them, then try again",
                         (unsigned)to->uid, held.files, EXPORTED_FILES_MAX_UID);
    if (held.bytes + size > EXPORTED_BYTES_MAX_UID)
        return kiln_fail(err, KILN_BUSY,
                         "user %u still has %s of exported files open, and with this one there "
                         "would be more than %s: copy and close them, then try again",
                         (unsigned)to->uid, units_size(held.bytes, text[0]),
                         units_size(EXPORTED_BYTES_MAX_UID, text[1]));
    if (held.files_of_all >= EXPORTED_FILES_MAX)
        return kiln_fail(err, KILN_BUSY,
                         "users still have %u exported files open, which is the maximum: try "
                         "again when some are closed",
                         held.files_of_all);
    return KILN_OK;
}

static void set_space(struct exported_files *exported, struct export_space *space, uint64_t bytes)
{
    if (!space->exported)
        list_append(&exported->spaces, &space->link);
    space->exported = exported;
    space->bytes = bytes;
}

enum kiln_code exported_files_reserve(struct exported_files *exported, const char *directory,
                                      uint64_t size, struct export_space *space,
                                      struct kiln_err *err)
{
    exported_files_close(exported);
    exported_files_sweep(exported);
    pthread_mutex_lock(&exported->mutex);
    enum kiln_code rc = check_user(exported, space, size, err);
    if (!rc)
        set_space(exported, space, size);
    pthread_mutex_unlock(&exported->mutex);
    return rc ? rc : check_disk(directory, err);
}

static void remove_space(struct export_space *space)
{
    if (space->exported)
        list_remove(&space->link);
    space->exported = NULL;
}

void export_space_release(struct export_space *space)
{
    struct exported_files *exported = space->exported;
    if (!exported)
        return;
    pthread_mutex_lock(&exported->mutex);
    remove_space(space);
    pthread_mutex_unlock(&exported->mutex);
}

static enum kiln_code note_file(struct exported_files *exported, struct object *object,
                                struct export_space *space, struct kiln_err *err)
{
    struct exported_file *file = calloc(1, sizeof(*file));
    if (!file)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to count an exported file");
    *file = (struct exported_file){
        .to = space->to, .exported = exported, .is_open = true, .fd = -1, .size = object->size
    };
    object->close = close_later;
    object->close_context = file;
    pthread_mutex_lock(&exported->mutex);
    file->watch = file_watches_add(&exported->watches, object->fd);
    list_prepend(&exported->files, &file->link);
    remove_space(space);
    pthread_mutex_unlock(&exported->mutex);
    return KILN_OK;
}

enum kiln_code exported_files_open(struct exported_files *exported, const char *path,
                                   struct export_space *space, struct object **ret_object,
                                   struct kiln_err *err)
{
    struct object *object = NULL;
    enum kiln_code rc = object_of_file(path, &object, err);
    if (!rc)
        rc = note_file(exported, object, space, err);
    if (!rc)
        *ret_object = object;
    else
        object_unref(object);
    return rc;
}

struct close_task {
    struct task task;
    struct engine *engine;
};

static void close_work(struct task *task)
{
    exported_files_close(((struct close_task *)task)->engine->exported);
}

static void close_done(struct task *task)
{
    struct engine *e = ((struct close_task *)task)->engine;
    engine_task_ended(e);
    e->exported->is_closing = false;
    exported_files_sweep(e->exported);
    free(task);
}

static bool has_descriptors(struct exported_files *exported)
{
    bool has = false;
    pthread_mutex_lock(&exported->mutex);
    EACH_FILE(&exported->files, file)
    has |= file->fd >= 0;
    pthread_mutex_unlock(&exported->mutex);
    return has;
}

void exported_files_tick(struct engine *e)
{
    exported_files_sweep(e->exported);
    if (e->exported->is_closing || e->draining || !has_descriptors(e->exported))
        return;
    struct close_task *t = calloc(1, sizeof(*t));
    if (!t)
        return;
    t->task = (struct task){ .work = close_work, .done = close_done };
    t->engine = e;
    e->exported->is_closing = true;
    engine_run(e, e->own_uid, WORK_QUEUE_READ, &t->task);
}
