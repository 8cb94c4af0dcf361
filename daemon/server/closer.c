/* SPDX-License-Identifier: MIT */
#include "daemon/server/closer.h"

#include "common/clock.h"
#include "common/limits.h"

#include <assert.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* The kernel does the work; the rest is for sanitizers. */
#define STACK_SIZE (256u << 10)

/* Connections of one user that wait to be closed with something unread. */
#define SOCKETS_MOST_UID 64
/* The same, of all users, that no memory was to be had for. */
#define ORPHANS_MOST 256u

struct socket {
    int fd;
    struct socket *next;
};

struct user {
    uid_t uid;
    unsigned connections;    /* that joined and did not leave */
    unsigned held;           /* files that came and are not closed, wherever they are */
    unsigned first, waiting; /* of |files|: those that wait here */
    struct socket *sockets;  /* owned; these wait, too */
    unsigned socket_count;
    uint64_t full_since_ns; /* when he was first seen to be; 0: he was not when last looked at */
    bool busy;              /* a thread closes one of his */
    struct user *next;
    int files[]; /* a ring with room for all that may be held: adding to it cannot fail */
};

struct closer {
    pthread_mutex_t lock; /* over all below */
    struct closer_limits limits;
    struct user *users;        /* owned; in the order of turns */
    int orphans[ORPHANS_MOST]; /* owned; sockets that could not be noted with their users */
    unsigned orphan_count;
    bool orphans_busy; /* a thread closes one of them */
    unsigned threads;
    bool closing;
};

/* Their descriptors go with the process. */
static void user_destroy(struct user *user)
{
    for (struct socket *socket; (socket = user->sockets);) {
        user->sockets = socket->next;
        free(socket);
    }
    free(user);
}

static void closer_free(struct closer *closer)
{
    for (struct user *user; (user = closer->users);) {
        closer->users = user->next;
        user_destroy(user);
    }
    pthread_mutex_destroy(&closer->lock);
    free(closer);
}

/* ---- with the lock ---- */

static struct user *find_user(const struct closer *closer, uid_t uid)
{
    struct user *user = closer->users;
    while (user && user->uid != uid)
        user = user->next;
    return user;
}

static void add_last(struct closer *closer, struct user *user)
{
    struct user **at = &closer->users;
    while (*at)
        at = &(*at)->next;
    user->next = NULL;
    *at = user;
}

static void take_out(struct closer *closer, struct user *user)
{
    struct user **at = &closer->users;
    while (*at != user)
        at = &(*at)->next;
    *at = user->next;
}

static struct user *find_idle(const struct closer *closer)
{
    struct user *user = closer->users;
    while (user && (user->busy || (user->waiting == 0 && !user->sockets)))
        user = user->next;
    return user;
}

static bool has_orphans(const struct closer *closer)
{
    return closer->orphan_count > 0 && !closer->orphans_busy;
}

static struct user *find_or_add_user(struct closer *closer, uid_t uid)
{
    struct user *user = find_user(closer, uid);
    size_t files = closer->limits.held_most_uid * sizeof(int);
    if (user || !(user = calloc(1, sizeof(*user) + files)))
        return user;
    user->uid = uid;
    add_last(closer, user);
    return user;
}

/* Nothing of him is here, nor can anything come. */
static void forget_if_gone(struct closer *closer, struct user *user)
{
    if (user->connections > 0 || user->held > 0 || user->sockets || user->busy)
        return;
    take_out(closer, user);
    user_destroy(user);
}

static void add_file(struct closer *closer, struct user *user, int fd)
{
    unsigned room = closer->limits.held_most_uid;
    assert(user->waiting < user->held && user->held <= room);
    user->files[(user->first + user->waiting++) % room] = fd;
}

static int take_file(struct closer *closer, struct user *user)
{
    int fd = user->files[user->first];
    user->first = (user->first + 1) % closer->limits.held_most_uid;
    user->waiting--;
    return fd;
}

static bool add_orphan(struct closer *closer, int fd)
{
    if (closer->orphan_count == ORPHANS_MOST)
        return false;
    closer->orphans[closer->orphan_count++] = fd;
    return true;
}

static bool add_socket(struct closer *closer, uid_t uid, int fd)
{
    struct socket *socket = malloc(sizeof(*socket));
    struct user *user = socket ? find_or_add_user(closer, uid) : NULL;
    if (!user) {
        free(socket);
        return add_orphan(closer, fd);
    }
    *socket = (struct socket){ .fd = fd, .next = user->sockets };
    user->sockets = socket;
    user->socket_count++;
    return true;
}

static int take_socket(struct user *user)
{
    struct socket *socket = user->sockets;
    int fd = socket->fd;
    user->sockets = socket->next;
    user->socket_count--;
    free(socket);
    return fd;
}

static bool is_full(const struct closer *closer, const struct user *user)
{
    return user && (user->held + LIMIT_FRAME_DESCRIPTORS > closer->limits.held_most_uid ||
                    user->socket_count >= SOCKETS_MOST_UID);
}

/* ---- threads ---- */

static void close_one(struct closer *closer, struct user *user)
{
    bool is_file = user->waiting > 0;
    int fd = is_file ? take_file(closer, user) : take_socket(user);
    user->busy = true;
    pthread_mutex_unlock(&closer->lock);
    close(fd);
    pthread_mutex_lock(&closer->lock);
    user->busy = false;
    user->held -= is_file;
    if (!is_full(closer, user)) /* also where nobody asked meanwhile */
        user->full_since_ns = 0;
    take_out(closer, user);
    add_last(closer, user); /* his turn is over */
    forget_if_gone(closer, user);
}

static void close_orphan(struct closer *closer)
{
    int fd = closer->orphans[--closer->orphan_count];
    closer->orphans_busy = true;
    pthread_mutex_unlock(&closer->lock);
    close(fd);
    pthread_mutex_lock(&closer->lock);
    closer->orphans_busy = false;
}

/* One of what waits; false: nothing does. */
static bool close_next(struct closer *closer)
{
    struct user *user = find_idle(closer);
    if (user)
        close_one(closer, user);
    else if (has_orphans(closer))
        close_orphan(closer);
    else
        return false;
    return true;
}

static void *work(void *context)
{
    struct closer *closer = context;
    pthread_mutex_lock(&closer->lock);
    while (!closer->closing && close_next(closer)) {
    }
    bool last = --closer->threads == 0 && closer->closing;
    pthread_mutex_unlock(&closer->lock);
    if (last)
        closer_free(closer);
    return NULL;
}

/* With the lock.  Where no thread can be had, one that runs comes to it, or the next call does. */
static void start_thread(struct closer *closer)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    bool waits = find_idle(closer) || has_orphans(closer);
    if (!waits || closer->threads >= closer->limits.threads || pthread_attr_init(&attributes) != 0)
        return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the loop's */
    closer->threads += pthread_create(&thread, &attributes, work, closer) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

/* ---- for everybody ---- */

enum kiln_code closer_create(const struct closer_limits *limits, struct closer **ret_closer,
                             struct kiln_err *err)
{
    struct closer *closer = calloc(1, sizeof(*closer));
    if (!closer || pthread_mutex_init(&closer->lock, NULL) != 0) {
        free(closer);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make what closes the files of clients");
    }
    closer->limits = *limits;
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
        closer_free(closer);
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
    forget_if_gone(closer, user);
    start_thread(closer); /* for what waits since there was no memory for one */
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
    add_file(closer, find_user(closer, uid), fd);
    start_thread(closer);
    pthread_mutex_unlock(&closer->lock);
}

/* Beyond ORPHANS_MOST that no memory was for, one stays as it is, shut down: the loop is not to
 * wait for its close. */
void closer_take_socket(struct closer *closer, uid_t uid, int fd)
{
    int unread = 0;
    shutdown(fd, SHUT_RDWR); /* the peer sees its end now, and nothing more comes in */
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

static enum closer_room look(struct closer *closer, struct user *user, uint64_t patience_ms)
{
    if (!is_full(closer, user)) {
        if (user)
            user->full_since_ns = 0;
        return CLOSER_HAS_ROOM;
    }
    uint64_t now = clock_monotonic_ns();
    if (!user->full_since_ns)
        user->full_since_ns = now;
    bool stuck = now - user->full_since_ns >= patience_ms * 1000000;
    return stuck ? CLOSER_IS_STUCK : CLOSER_IS_FULL;
}

enum closer_room closer_room(struct closer *closer, uid_t uid, uint64_t patience_ms)
{
    pthread_mutex_lock(&closer->lock);
    enum closer_room room = look(closer, find_user(closer, uid), patience_ms);
    pthread_mutex_unlock(&closer->lock);
    return room;
}

enum kiln_code closer_refuse(uid_t uid, struct kiln_err *err)
{
    return kiln_fail(
        err, KILN_BUSY,
        "kilnd holds as many files of user %u as it may, sent with requests that are not "
        "finished, or on a filesystem that does not answer when they are closed: "
        "finish those requests, or connect again when it answers",
        (unsigned)uid);
}
