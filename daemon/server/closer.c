/* SPDX-License-Identifier: MIT */
#include "daemon/server/closer.h"

#include "common/base/clock.h"
#include "common/base/subordinate_uids.h"
#include "common/protocol/limits.h"
#include "engine/jobs/fair_queue.h"

#include <assert.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define STACK_SIZE (256u << 10)

#define SOCKETS_MAX_UID 64
#define SPARES_MAX 256u
/* A uid that no user has, for the queue of preallocated entries, which are used when memory runs
 * out. */
#define SPARES_UID ((uid_t)-1)

enum closing_kind { A_FILE, A_SOCKET, A_SPARE }; /* A_SPARE: a socket in a preallocated entry */

struct closing {
    struct fair_item item;
    struct user *user; /* borrowed; only set while the entry is in the queue */
    int fd;
    enum closing_kind kind;
};

struct user {
    struct list_link link;
    uid_t uid;
    unsigned connections;
    unsigned held; /* received files that are not closed yet */
    unsigned sockets;
    unsigned waiting;
    uint64_t full_since_ns; /* when a check first found is_full() to be true; 0: not full */
    bool busy;
    struct list unused;
    /* One entry for each file that the user may hold, so that adding a file cannot fail. */
    struct closing files[];
};

struct closer {
    pthread_mutex_t lock; /* protects all members below */
    struct closer_limits limits;
    struct list users; /* of struct user; owned */
    struct fair_queue queue;
    struct user *spare_user; /* in |users|; owns the preallocated entries */
    unsigned threads;
    bool closing;
};

static struct closing *closing_of(const struct fair_item *item)
{
    return LIST_ENTRY(item, struct closing, item);
}

/* ---- call with the lock held ---- */

static struct user *find_user(const struct closer *closer, uid_t uid)
{
    LIST_EACH (&closer->users, struct user, link, user) {
        if (is_one_user(user->uid, uid))
            return user;
    }
    return NULL;
}

static struct user *add_user(struct closer *closer, uid_t uid, unsigned files,
                             enum closing_kind kind)
{
    struct user *user = calloc(1, sizeof(*user) + files * sizeof(user->files[0]));
    if (!user || !fair_queue_reserve(&closer->queue, uid)) {
        free(user);
        return NULL;
    }
    user->uid = uid;
    list_init(&user->unused);
    for (unsigned i = 0; i < files; i++) {
        user->files[i].kind = kind;
        list_append(&user->unused, &user->files[i].item.link);
    }
    list_append(&closer->users, &user->link);
    return user;
}

static struct user *find_or_add_user(struct closer *closer, uid_t uid)
{
    struct user *user = find_user(closer, uid);
    return user ? user : add_user(closer, uid, closer->limits.held_max_uid, A_FILE);
}

static void remove_user(struct closer *closer, struct user *user)
{
    fair_queue_release(&closer->queue, user->uid);
    list_remove(&user->link);
    free(user);
}

static void remove_if_gone(struct closer *closer, struct user *user)
{
    if (user->connections == 0 && user->held == 0 && user->waiting == 0 && !user->busy &&
        user != closer->spare_user)
        remove_user(closer, user);
}

static void push_closing(struct closer *closer, struct user *user, struct closing *c, int fd)
{
    c->user = user;
    c->fd = fd;
    user->waiting++;
    user->sockets += c->kind != A_FILE;
    fair_queue_push_unlimited(&closer->queue, user->uid, SPARES_UID, &c->item);
}

static struct closing *take_unused(struct user *user)
{
    struct closing *c = LIST_POP(&user->unused, struct closing, item.link);
    return c;
}

static void release_closing(struct closing *c)
{
    if (c->kind == A_SOCKET)
        free(c);
    else
        list_append(&c->user->unused, &c->item.link);
}

static bool add_spare(struct closer *closer, int fd)
{
    struct closing *c = take_unused(closer->spare_user);
    if (c)
        push_closing(closer, closer->spare_user, c, fd);
    return c != NULL;
}

static bool add_socket(struct closer *closer, uid_t uid, int fd)
{
    struct closing *c = calloc(1, sizeof(*c));
    struct user *user = c ? find_or_add_user(closer, uid) : NULL;
    if (!user) {
        free(c);
        return add_spare(closer, fd);
    }
    c->kind = A_SOCKET;
    push_closing(closer, user, c, fd);
    return true;
}

static bool is_full(const struct closer *closer, const struct user *user)
{
    return user && (user->held + LIMIT_FRAME_DESCRIPTORS > closer->limits.held_max_uid ||
                    user->sockets >= SOCKETS_MAX_UID);
}

static void free_closer(struct closer *closer)
{
    for (struct fair_item *item; (item = fair_queue_pop(&closer->queue));)
        release_closing(closing_of(item));
    LIST_EACH (&closer->users, struct user, link, user)
        remove_user(closer, user);
    fair_queue_done(&closer->queue);
    pthread_mutex_destroy(&closer->lock);
    free(closer);
}

/* Allows one close at a time for each user, so that a close that hangs delays no other user. */
static bool may_close(void *context, const struct fair_item *item)
{
    (void)context;
    return !closing_of(item)->user->busy;
}

static bool close_next(struct closer *closer)
{
    struct fair_item *item = fair_queue_pop_if(&closer->queue, may_close, /* context= */ NULL);
    if (!item)
        return false;
    struct closing *c = closing_of(item);
    struct user *user = c->user;
    user->busy = true;
    user->waiting--;
    user->sockets -= c->kind != A_FILE;
    bool is_file = c->kind == A_FILE;
    int fd = c->fd;
    release_closing(c);
    pthread_mutex_unlock(&closer->lock);
    close(fd);
    pthread_mutex_lock(&closer->lock);
    user->busy = false;
    user->held -= is_file;
    if (!is_full(closer, user))
        user->full_since_ns = 0;
    remove_if_gone(closer, user);
    return true;
}

static bool has_work(const struct closer *closer)
{
    return fair_queue_peek_if(&closer->queue, may_close, /* context= */ NULL) != NULL;
}

static void *run_thread(void *context)
{
    struct closer *closer = context;
    pthread_mutex_lock(&closer->lock);
    while (!closer->closing && close_next(closer)) {
    }
    bool last = --closer->threads == 0 && closer->closing;
    pthread_mutex_unlock(&closer->lock);
    if (last)
        free_closer(closer);
    return NULL;
}

/* The caller holds the lock.  If no thread can be started, a running thread closes the files, or
 * the next call of this function starts one. */
static void start_thread(struct closer *closer)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (!has_work(closer) || closer->threads >= closer->limits.threads ||
        pthread_attr_init(&attributes) != 0)
        return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    closer->threads += pthread_create(&thread, &attributes, run_thread, closer) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

enum kiln_code closer_create(const struct closer_limits *limits, struct closer **ret_closer,
                             struct kiln_err *err)
{
    static const struct fair_queue_options queue = { .noun = "descriptors" };
    struct closer *closer = calloc(1, sizeof(*closer));
    if (!closer || pthread_mutex_init(&closer->lock, NULL) != 0) {
        free(closer);
        return kiln_fail(err, KILN_NO_MEMORY,
                         "cannot create the queue that closes the files of clients");
    }
    closer->limits = *limits;
    list_init(&closer->users);
    fair_queue_init(&closer->queue, &queue);
    closer->spare_user = add_user(closer, SPARES_UID, SPARES_MAX, A_SPARE);
    if (!closer->spare_user) {
        free_closer(closer);
        return kiln_fail(err, KILN_NO_MEMORY,
                         "cannot create the queue that closes the files of clients");
    }
    *ret_closer = closer;
    return KILN_OK;
}

void closer_destroy(struct closer *closer)
{
    if (!closer)
        return;
    pthread_mutex_lock(&closer->lock);
    closer->closing = true;
    bool idle = closer->threads == 0;
    pthread_mutex_unlock(&closer->lock);
    if (idle)
        free_closer(closer);
}

enum kiln_code closer_join(struct closer *closer, uid_t uid, struct kiln_err *err)
{
    pthread_mutex_lock(&closer->lock);
    struct user *user = find_or_add_user(closer, uid);
    if (user)
        user->connections++;
    pthread_mutex_unlock(&closer->lock);
    return user ? KILN_OK : kiln_fail(err, KILN_NO_MEMORY, "no memory for another connection");
}

void closer_leave(struct closer *closer, uid_t uid)
{
    pthread_mutex_lock(&closer->lock);
    struct user *user = find_user(closer, uid);
    user->connections--;
    remove_if_gone(closer, user);
    /* Descriptors may still wait because no thread could be started earlier. */
    start_thread(closer);
    pthread_mutex_unlock(&closer->lock);
}

void closer_charge(struct closer *closer, uid_t uid, unsigned count)
{
    pthread_mutex_lock(&closer->lock);
    find_user(closer, uid)->held += count;
    pthread_mutex_unlock(&closer->lock);
}

void closer_take(struct closer *closer, uid_t uid, int fd)
{
    pthread_mutex_lock(&closer->lock);
    struct user *user = find_user(closer, uid);
    struct closing *c = take_unused(user);
    assert(c && user->held <= closer->limits.held_max_uid);
    push_closing(closer, user, c, fd);
    start_thread(closer);
    pthread_mutex_unlock(&closer->lock);
}

/* Closes a socket without unread data at once, and queues any other for a closing thread.  If there
 * is neither memory nor a preallocated entry for the queue, leaves the socket open, because the
 * loop must not wait for its close. */
void closer_take_socket(struct closer *closer, uid_t uid, int fd)
{
    int unread = 0;
    shutdown(fd, SHUT_RDWR); /* the peer sees the end at once, and no more data arrives */
    if (ioctl(fd, SIOCINQ, &unread) == 0 && unread == 0) {
        close(fd);
        return;
    }
    pthread_mutex_lock(&closer->lock);
    if (add_socket(closer, uid, fd))
        start_thread(closer);
    pthread_mutex_unlock(&closer->lock);
}

bool closer_is_full(struct closer *closer, uid_t uid)
{
    pthread_mutex_lock(&closer->lock);
    bool full = is_full(closer, find_user(closer, uid));
    pthread_mutex_unlock(&closer->lock);
    return full;
}

static enum closer_state check_user(struct closer *closer, struct user *user, uint64_t grace_ms)
{
    if (!is_full(closer, user)) {
        if (user)
            user->full_since_ns = 0;
        return CLOSER_HAS_SPACE;
    }
    uint64_t now = clock_monotonic_ns();
    if (!user->full_since_ns)
        user->full_since_ns = now;
    bool stuck = now - user->full_since_ns >= grace_ms * 1000000;
    return stuck ? CLOSER_IS_STUCK : CLOSER_IS_FULL;
}

enum closer_state closer_check(struct closer *closer, uid_t uid, uint64_t grace_ms)
{
    pthread_mutex_lock(&closer->lock);
    enum closer_state state = check_user(closer, find_user(closer, uid), grace_ms);
    pthread_mutex_unlock(&closer->lock);
    return state;
}

enum kiln_code closer_refuse(uid_t uid, struct kiln_err *err)
{
    return kiln_fail(err, KILN_BUSY,
                     "kilnd holds the maximum number of open files of user %u: finish the requests "
                     "that use them, or connect again when the filesystem of these files responds",
                     (unsigned)uid);
}
