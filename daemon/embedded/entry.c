/* SPDX-License-Identifier: MIT */
#include "common/clock.h"
#include "daemon/embedded/host.h"
#include "daemon/embedded/leader.h"
#include "daemon/loop/quiet_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LEADER_MS 5000
/* Between two looks whether the new leader listens already. */
#define RETRY_MS 10
#define MS 1000000ull
/* The control socket lies above a job's standard files, which it may not have. */
#define CONTROL_LEAST 3

enum host_state {
    HOST_NONE,
    HOST_STARTING, /* has not told yet what it is */
    HOST_SERVES,
    HOST_ENDING, /* was told to stop; HOST_ENDED once nothing of it is left but a thread to join */
    HOST_ENDED,
};

static struct {
    pthread_mutex_t status_mutex; /* of |status|; may be taken with the other held */
    struct embedded_status status;
    pthread_mutex_t mutex; /* of all below; held while another process is asked */
    pthread_cond_t changed;
    bool begun; /* |options| and |places| are there, for good */
    struct embedded_options options;
    struct embedded_places places;
    unsigned users; /* connections of this process that are not let go of */
    enum host_state state;
    struct embedded_host_options host;
    pthread_t thread;
    int control;    /* owned: our end; -1 */
    bool own_files; /* it has its end in a table of its own, so ours of that is one too many */
    enum kiln_code failed; /* why the last host ended by itself; OK: it did not, or it was told */
    char failure[EMBEDDED_TEXT_MOST];
} here = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .control = -1 };

/* ---- the host's news ---- */

static void set_role(enum embedded_role role, const char *why)
{
    pthread_mutex_lock(&here.status_mutex);
    here.status.role = role;
    snprintf(here.status.why, sizeof(here.status.why), "%s", why);
    pthread_mutex_unlock(&here.status_mutex);
}

static void on_news(const struct embedded_news *news)
{
    pthread_mutex_lock(&here.mutex);
    here.own_files = news->own_files;
    switch (news->what) {
    case HOST_LEADS: set_role(EMBEDDED_LEADS, ""); break;
    case HOST_MEMORY: set_role(EMBEDDED_MEMORY, news->why); break;
    case HOST_IS_LED: here.failed = KILN_BUSY; break;
    case HOST_FAILED:
        here.failed = news->code;
        snprintf(here.failure, sizeof(here.failure), "%s", news->why);
        break;
    }
    if (here.state == HOST_STARTING)
        here.state = HOST_SERVES;
    pthread_cond_broadcast(&here.changed);
    pthread_mutex_unlock(&here.mutex);
}

static void on_trouble(const char *text)
{
    pthread_mutex_lock(&here.status_mutex);
    snprintf(here.status.trouble, sizeof(here.status.trouble), "%s", text);
    pthread_mutex_unlock(&here.status_mutex);
}

static void *run(void *unused)
{
    (void)unused;
    embedded_host_run(&here.host);
    pthread_mutex_lock(&here.mutex);
    here.state = HOST_ENDED;
    pthread_cond_broadcast(&here.changed);
    pthread_mutex_unlock(&here.mutex);
    return NULL;
}

/* ---- its beginning and end; the mutex is held ---- */

static void drop_control(void)
{
    if (here.control >= 0)
        close(here.control);
    here.control = -1;
}

/* Waits while one ends. */
static void reap(void)
{
    while (here.state == HOST_ENDING)
        pthread_cond_wait(&here.changed, &here.mutex);
    if (here.state != HOST_ENDED)
        return;
    pthread_join(here.thread, /* ret_value= */ NULL); /* it holds the mutex no more */
    drop_control();
    here.state = HOST_NONE;
    set_role(EMBEDDED_UNUSED, "");
}

/* In a child of the job: the thread is not there, nor anything that it had. */
static void in_child(void)
{
    static const pthread_mutex_t fresh_mutex = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t fresh_cond = PTHREAD_COND_INITIALIZER;
    here.mutex = here.status_mutex = fresh_mutex;
    here.changed = fresh_cond;
    drop_control();
    here.users = 0;
    here.state = HOST_NONE;
    here.status.role = EMBEDDED_UNUSED;
}

static void begin(const struct embedded_options *options)
{
    if (here.begun)
        return;
    here.begun = true;
    here.options = *options;
    if (!here.options.leader_ms)
        here.options.leader_ms = LEADER_MS;
    embedded_places_find(&here.options, &here.places);
    pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, in_child);
}

static enum kiln_code make_control(int ret_ends[2], struct kiln_err *err)
{
    int low[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, low) != 0)
        return kiln_fail_errno(err, errno, "cannot make a socket");
    for (int i = 0; i < 2; i++) {
        ret_ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, CONTROL_LEAST);
        close(low[i]);
    }
    if (ret_ends[0] >= 0 && ret_ends[1] >= 0)
        return KILN_OK;
    kiln_fail_errno(err, errno, "cannot make a socket");
    for (int i = 0; i < 2; i++) {
        if (ret_ends[i] >= 0)
            close(ret_ends[i]);
    }
    return err->code;
}

/* Until it has told what it is. */
static enum kiln_code start(struct kiln_err *err)
{
    int ends[2] = { -1, -1 };
    enum kiln_code rc = make_control(ends, err);
    if (rc)
        return rc;
    here.control = ends[0];
    here.failed = KILN_OK;
    here.host = (struct embedded_host_options){ .options = &here.options,
                                                .places = &here.places,
                                                .control = ends[1],
                                                .tell = on_news,
                                                .trouble = on_trouble };
    here.state = HOST_STARTING;
    int errnum = quiet_thread_start(&here.thread, run, NULL);
    if (errnum) {
        here.state = HOST_NONE;
        drop_control();
        close(ends[1]);
        return kiln_fail_errno(err, errnum, "cannot start a thread");
    }
    while (here.state == HOST_STARTING)
        pthread_cond_wait(&here.changed, &here.mutex);
    if (here.own_files)
        close(ends[1]);
    return KILN_OK;
}

static bool say(char word, int fd)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } files = { 0 };
    struct iovec iov = { &word, 1 };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
    if (fd >= 0) {
        m.msg_control = files.room;
        m.msg_controllen = sizeof(files.room);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
                               .cmsg_level = SOL_SOCKET,
                               .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    }
    ssize_t sent;
    do {
        sent = sendmsg(here.control, &m, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == 1;
}

static enum kiln_code give_connection(int *ret_fd, struct kiln_err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return kiln_fail_errno(err, errno, "cannot make a socket");
    bool is_given = say(EMBEDDED_WORD_CONNECTION, ends[1]);
    close(ends[1]);
    if (is_given) {
        *ret_fd = ends[0];
        return KILN_OK;
    }
    close(ends[0]);
    return kiln_fail(err, KILN_UNAVAILABLE, "the engine in this process is ending");
}

/* ---- the way in ---- */

static void serve_self(const struct kiln_err *why)
{
    here.places.memory = true;
    snprintf(here.places.why, sizeof(here.places.why), "%s", why->text);
}

/* KILN_BUSY: neither is there a leader who answers, nor may we be one yet. */
static enum kiln_code connect_once(int *ret_fd, struct kiln_err *err)
{
    reap();
    if (here.state == HOST_NONE && !here.places.memory) {
        enum kiln_code rc = leader_connect(here.places.socket, here.options.leader_ms, ret_fd, err);
        if (!rc) {
            set_role(EMBEDDED_FOLLOWS, "");
            return rc;
        }
        if (rc != KILN_UNAVAILABLE)
            serve_self(err);
    }
    enum kiln_code failed = here.failed;
    here.failed = KILN_OK;
    if (failed && failed != KILN_BUSY) /* who asks again has it tried again */
        return kiln_fail(err, failed, "%s", here.failure);
    if (here.state == HOST_NONE) {
        enum kiln_code rc = start(err);
        if (rc)
            return rc;
    }
    if (here.failed == KILN_BUSY)
        return KILN_BUSY;
    return give_connection(ret_fd, err);
}

static enum kiln_code embedded_connect(const struct embedded_options *options, int *ret_fd,
                                       struct kiln_err *err)
{
    pthread_mutex_lock(&here.mutex);
    begin(options);
    uint64_t end = clock_monotonic_ns() + here.options.leader_ms * MS;
    enum kiln_code rc = connect_once(ret_fd, err);
    while (rc == KILN_BUSY) {
        if (clock_monotonic_ns() < end) {
            pthread_mutex_unlock(&here.mutex);
            (void)poll(NULL, 0, RETRY_MS);
            pthread_mutex_lock(&here.mutex);
        } else {
            kiln_fail(err, rc, "another process holds '%s.lock' and does not listen",
                      here.places.socket);
            serve_self(err);
        }
        rc = connect_once(ret_fd, err);
    }
    here.users += rc == KILN_OK;
    pthread_mutex_unlock(&here.mutex);
    return rc;
}

static void embedded_let_go(void)
{
    pthread_mutex_lock(&here.mutex);
    if (here.users > 0 && --here.users == 0 && here.state == HOST_SERVES) {
        say(EMBEDDED_WORD_STOP, -1);
        here.state = HOST_ENDING;
    }
    pthread_mutex_unlock(&here.mutex);
}

static void embedded_settle(void)
{
    pthread_mutex_lock(&here.mutex);
    reap();
    pthread_mutex_unlock(&here.mutex);
}

static void embedded_status(struct embedded_status *ret_status)
{
    pthread_mutex_lock(&here.status_mutex);
    *ret_status = here.status;
    pthread_mutex_unlock(&here.status_mutex);
    if (ret_status->role == EMBEDDED_LEADS || ret_status->role == EMBEDDED_FOLLOWS)
        snprintf(ret_status->folder, sizeof(ret_status->folder), "%s", here.places.cache);
}

const struct embedded_entry kiln_embedded_entry = {
    .version = EMBEDDED_ENTRY_VERSION,
    .release = KILN_VERSION,
    .connect = embedded_connect,
    .let_go = embedded_let_go,
    .settle = embedded_settle,
    .status = embedded_status,
};
