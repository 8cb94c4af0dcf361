/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_watch.h"

#include "common/base/fs.h"
#include "common/base/subordinate_uids.h"
#include "engine/service/tuning/tuning_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/random.h>

/* kilnd keeps the mapping that it made before, and nobody can make another one to write to. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

struct tuning_watch {
    struct list_link link;
    uint32_t uid;
    unsigned callers;          /* how many connections asked for the file */
    _Atomic uint64_t *counter; /* owned mapping */
    struct object *file;       /* owned */
};

void tuning_watches_init(struct tuning_watches *watches)
{
    list_init(&watches->list);
    watches->count = 0;
}

static void destroy_watch(struct tuning_watches *watches, struct tuning_watch *w)
{
    list_remove(&w->link);
    watches->count--;
    (void)munmap((void *)w->counter, TUNING_WATCH_SIZE);
    object_unref(w->file);
    free(w);
}

void tuning_watches_done(struct tuning_watches *watches)
{
    LIST_EACH (&watches->list, struct tuning_watch, link, w)
        destroy_watch(watches, w);
}

void tuning_watches_note(struct tuning_watches *watches, enum tuning_tier tier, uint32_t owner)
{
    LIST_EACH (&watches->list, struct tuning_watch, link, w) {
        if (tier != TUNING_TIER_USER || w->uid == owner)
            atomic_fetch_add_explicit(w->counter, 1, memory_order_release);
    }
}

void tuning_watches_note_all(struct tuning_watches *watches)
{
    tuning_watches_note(watches, TUNING_TIER_SYSTEM, TUNING_NOBODY);
}

/* The first value is random. So the counter of a new file differs from what a client read in an
 * earlier file, and does not show how many changes other users made. */
static enum kiln_code open_counter(int fd, _Atomic uint64_t **ret_counter, struct kiln_err *err)
{
    uint64_t first;
    if (getrandom(&first, sizeof(first), 0) != sizeof(first))
        return kiln_fail_errno(err, errno, "cannot get a random number");
    if (ftruncate(fd, TUNING_WATCH_SIZE) != 0)
        return kiln_fail_errno(err, errno, "cannot size a memory file");
    void *mapping = mmap(NULL, TUNING_WATCH_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot map a memory file");
    *ret_counter = mapping;
    atomic_init(*ret_counter, first);
    if (fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        return KILN_OK;
    (void)munmap(mapping, TUNING_WATCH_SIZE);
    return kiln_fail(err, KILN_UNSUPPORTED,
                     "this kernel cannot seal a memory file against later "
                     "writes, which Linux 5.1 and later can");
}

static enum kiln_code make_file(struct tuning_watch *w, struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = -1;
    enum kiln_code rc = fs_memfd("kiln-tuning-watch", &fd, err);
    if (!rc)
        rc = open_counter(fd, &w->counter, err);
    if (rc)
        return rc;
    const struct digest unused = { { 0 } };
    int given = fd;
    fd = -1;
    rc = object_from_checked(given, TUNING_WATCH_SIZE, &unused, &w->file, err);
    if (rc) {
        (void)munmap((void *)w->counter, TUNING_WATCH_SIZE);
        return rc;
    }
    w->file->has_receiver = true;
    w->file->receiver = w->uid;
    return KILN_OK;
}

static enum kiln_code check_limits(const struct tuning_watches *watches, uint32_t uid,
                                   struct kiln_err *err)
{
    unsigned of_user = 0;
    LIST_EACH (&watches->list, struct tuning_watch, link, w)
        of_user += is_one_user(w->uid, uid);
    if (watches->count < TUNING_WATCHES_MAX && of_user < TUNING_WATCHES_MAX_USER)
        return KILN_OK;
    return kiln_fail(err, KILN_BUSY,
                     "too many users watch the tuning records (%u in all; at most %u uids of one "
                     "user)",
                     watches->count, TUNING_WATCHES_MAX_USER);
}

static enum kiln_code create_watch(struct tuning_watches *watches, uint32_t uid,
                                   struct tuning_watch **ret_watch, struct kiln_err *err)
{
    enum kiln_code rc = check_limits(watches, uid, err);
    if (rc)
        return rc;
    struct tuning_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot watch the tuning records: out of memory");
    w->uid = uid;
    rc = make_file(w, err);
    if (rc) {
        free(w);
        return rc;
    }
    list_append(&watches->list, &w->link);
    watches->count++;
    *ret_watch = w;
    return KILN_OK;
}

static struct tuning_watch *find_watch(const struct tuning_watches *watches, uint32_t uid)
{
    LIST_EACH (&watches->list, struct tuning_watch, link, w) {
        if (w->uid == uid)
            return w;
    }
    return NULL;
}

static enum kiln_code join_watch(struct tuning_watches *watches, struct caller *caller,
                                 struct kiln_err *err)
{
    struct tuning_watch *w = find_watch(watches, (uint32_t)caller->uid);
    enum kiln_code rc = w ? KILN_OK : create_watch(watches, (uint32_t)caller->uid, &w, err);
    if (rc)
        return rc;
    w->callers++;
    caller->watch = w;
    return KILN_OK;
}

void tuning_watches_leave(struct engine *e, struct caller *caller)
{
    struct tuning_watch *w = caller->watch;
    caller->watch = NULL;
    if (w && --w->callers == 0)
        destroy_watch(&e->tuning->watches, w);
}

static void send_watched(struct engine *e, struct caller *caller, uint64_t request_id)
{
    const struct message_watched m = { .size = TUNING_WATCH_SIZE };
    buffer_clear(&e->body);
    message_watched_write(&e->body, &m);
    const struct reply reply = { .type = MESSAGE_watched,
                                 .request_id = request_id,
                                 .body = buffer_view(&e->body),
                                 .objects = &caller->watch->file,
                                 .object_count = 1 };
    if (e->body.failed)
        service_refuse_unbuilt(e, caller, request_id);
    else
        caller->ops->reply(caller, &reply);
}

enum kiln_code handle_tuning_watch(struct engine *e, struct caller *caller,
                                   const struct frame_header *header, struct bytes body,
                                   struct kiln_err *err)
{
    struct reader r = reader_of(body);
    (void)message_tuning_watch_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_tuning_watch, err);
    if (!rc && !caller->watch)
        rc = join_watch(&e->tuning->watches, caller, err);
    if (!rc)
        send_watched(e, caller, header->request_id);
    return rc;
}
