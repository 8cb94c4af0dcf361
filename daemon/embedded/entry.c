/* SPDX-License-Identifier: MIT */
#include "common/clock.h"
#include "daemon/embedded/host.h"
#include "daemon/embedded/leader.h"
#include "daemon/loop/orphan.h"
#include "daemon/loop/quiet_thread.h"
#include "engine/db/forks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEADER_MS 5000
/* How often that an engine may take to close what it keeps. */
#define SETTLE_TIMES 12
/* Of who may not lead: longer than another takes to follow a leader that has ended. */
#define ORPHAN_MS 500
/* Between two looks whether the new leader listens already. */
#define RETRY_MS 10
#define MS 1000000ull
#define SECOND (1000 * MS)
/* The control socket lies above a job's standard files, which it may not have. */
#define CONTROL_LEAST 3
#define CHANGING (-1) /* no process's number */

enum host_state {
    HOST_NONE,
    HOST_STARTING, /* has not told yet what it is */
    HOST_SERVES,
    HOST_ENDING, /* was told to stop, or cannot serve */
    HOST_ENDED,  /* nothing of it is left but a thread to join */
};

static struct {
    pthread_mutex_t status_mutex; /* of |status|; may be taken with the other held */
    struct embedded_status status;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    atomic_bool begun; /* |options| and |places| are there, for good */
    struct embedded_options options;
    struct embedded_places places;
    unsigned users;   /* connections of this process that are not let go of */
    unsigned waiting; /* calls that are to have one: what they wait for is not told to stop */
    enum host_state state;
    struct embedded_host_options host;
    pthread_t thread;
    int control;                    /* owned: our end; -1 */
    int far_end;                    /* the host's, until it has told what it is; -1 */
    ino_t control_inode, far_inode; /* by which they are known: the job may have closed either */
    bool is_orphan;        /* a child of fork of a process whose engine ran: it may follow */
    uint64_t asked_ns;     /* since when a leader is asked in vain; 0: it is not */
    uint64_t left_ns;      /* when it was asked last */
    bool own_files;        /* it has told that its table is its own, so |far_end| is one too many */
    enum kiln_code failed; /* why the last host ended by itself, or did not take a connection; OK:
                            * neither, or it was told */
    char failure[EMBEDDED_TEXT_MOST];
} here = { .mutex = PTHREAD_MUTEX_INITIALIZER, .control = -1, .far_end = -1 };

/* ---- the host's news ---- */

static void set_role(enum embedded_role role, const char *why)
{
    pthread_mutex_lock(&here.status_mutex);
    here.status.role = role;
    snprintf(here.status.why, sizeof(here.status.why), "%s", why);
    pthread_mutex_unlock(&here.status_mutex);
}

/* Nobody waits for one that was told to stop: who comes meanwhile has the next.  KILN_BUSY is for
 * another that leads alone. */
static void note_failure(const struct embedded_news *news)
{
    if (here.state == HOST_ENDING)
        return;
    here.failed = news->code == KILN_BUSY ? KILN_IO : news->code;
    snprintf(here.failure, sizeof(here.failure), "%s", news->why);
}

static void on_news(const struct embedded_news *news)
{
    pthread_mutex_lock(&here.mutex);
    here.own_files = news->own_files;
    bool ends = news->what == HOST_IS_LED || news->what == HOST_FAILED;
    switch (news->what) {
    case HOST_LEADS: set_role(EMBEDDED_LEADS, ""); break;
    case HOST_MEMORY: set_role(EMBEDDED_MEMORY, news->why); break;
    case HOST_IS_LED: here.failed = KILN_BUSY; break;
    case HOST_FAILED:
    case HOST_HAS_NO_ROOM: note_failure(news); break;
    }
    if (ends)
        here.state = HOST_ENDING;
    else if (here.state == HOST_STARTING)
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

static void *run_host(void *unused)
{
    (void)unused;
    embedded_host_run(&here.host);
    return NULL;
}

/* The host has a table of descriptors of its own.  This thread has the job's: where it is the last
 * of the process it runs what runs at exit, which may write to the job's files. */
static void *run(void *unused)
{
    pthread_t host;
    (void)unused;
    if (quiet_thread_start(&host, run_host, NULL) == 0)
        pthread_join(host, /* ret_value= */ NULL);
    else
        run_host(NULL);
    pthread_mutex_lock(&here.mutex);
    here.state = HOST_ENDED;
    pthread_cond_broadcast(&here.changed);
    pthread_mutex_unlock(&here.mutex);
    return NULL;
}

/* ---- its beginning and end; the mutex is held ---- */

static void drop_control(void)
{
    if (embedded_is_still(here.control, here.control_inode))
        close(here.control);
    here.control = -1;
}

static void drop_far_end(void)
{
    if (embedded_is_still(here.far_end, here.far_inode))
        close(here.far_end);
    here.far_end = -1;
}

/* What |changed| is told of by the monotonic clock. */
static void make_changed(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&here.changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static bool is_changing(void) { return here.state == HOST_STARTING || here.state == HOST_ENDING; }

/* While this waits, others may join the one that it saw and start the next. */
static bool rests_by(uint64_t deadline_ns)
{
    const struct timespec at = { .tv_sec = (time_t)(deadline_ns / SECOND),
                                 .tv_nsec = (long)(deadline_ns % SECOND) };
    int errnum = 0;
    while (is_changing() && errnum != ETIMEDOUT)
        errnum = deadline_ns == UINT64_MAX
                     ? pthread_cond_wait(&here.changed, &here.mutex)
                     : pthread_cond_timedwait(&here.changed, &here.mutex, &at);
    return !is_changing();
}

static enum kiln_code not_ready(struct kiln_err *err)
{
    return kiln_fail(err, KILN_TIMED_OUT, "the engine in this process is not ready yet");
}

/* Waits while one begins or ends.  On success there is one that serves, which has told what it is,
 * or none. */
static enum kiln_code come_to_rest(uint64_t deadline_ns, struct kiln_err *err)
{
    if (!rests_by(deadline_ns))
        return not_ready(err);
    if (here.own_files)
        drop_far_end();
    here.far_end = -1;
    if (here.state != HOST_ENDED)
        return KILN_OK;
    pthread_join(here.thread, /* ret_value= */ NULL); /* it holds the mutex no more */
    drop_control();
    here.state = HOST_NONE;
    set_role(EMBEDDED_UNUSED, "");
    return KILN_OK;
}

/* In a child of the job: the thread is not there, nor anything that it had. */
static void in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    here.mutex = here.status_mutex = fresh;
    make_changed();
    quiet_threads_forget();
    loop_orphans_disown();
    drop_control();
    drop_far_end();
    here.is_orphan |= here.state != HOST_NONE && here.state != HOST_ENDED;
    here.users = here.waiting = 0;
    here.asked_ns = 0;
    here.failed = KILN_OK;
    here.state = HOST_NONE;
    here.status.role = EMBEDDED_UNUSED;
}

static void make_ready(void)
{
    make_changed();
    pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, in_child);
}

/* A fork that began before in_child was there to be run may end after that. */
static void be_of_this_process(void)
{
    static atomic_int process; /* whose state this is; 0: nobody's yet */
    int own = (int)getpid(), had = 0;
    if (atomic_compare_exchange_strong(&process, &had, own))
        return;
    while (had != own) {
        if (had != CHANGING && atomic_compare_exchange_strong(&process, &had, CHANGING)) {
            in_child();
            atomic_store(&process, own);
        }
        had = atomic_load(&process);
    }
}

/* Before the mutex is taken: a child of fork is to find it free, whatever another thread was at,
 * and folders may take their time. */
static void begin(const struct embedded_options *options)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_ready);
    be_of_this_process();
    if (options->data)
        db_watch_forks(); /* what is built in is read in a child, too */
    if (atomic_load(&here.begun))
        return;
    struct embedded_options own = *options;
    struct embedded_places places;
    if (!own.leader_ms)
        own.leader_ms = LEADER_MS;
    embedded_places_find(&own, &places);
    pthread_mutex_lock(&here.mutex);
    if (!atomic_load(&here.begun)) {
        here.options = own;
        here.places = places;
        atomic_store(&here.begun, true);
    }
    pthread_mutex_unlock(&here.mutex);
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
    struct stat ours, hosts;
    if (ret_ends[0] >= 0 && ret_ends[1] >= 0 && fstat(ret_ends[0], &ours) == 0 &&
        fstat(ret_ends[1], &hosts) == 0) {
        here.control_inode = ours.st_ino;
        here.far_inode = hosts.st_ino;
        return KILN_OK;
    }
    kiln_fail_errno(err, errno, "cannot make a socket");
    for (int i = 0; i < 2; i++) {
        if (ret_ends[i] >= 0)
            close(ret_ends[i]);
    }
    return err->code;
}

static enum kiln_code start(struct kiln_err *err)
{
    int ends[2] = { -1, -1 };
    enum kiln_code rc = make_control(ends, err);
    if (rc)
        return rc;
    here.control = ends[0];
    here.far_end = ends[1];
    here.own_files = false;
    here.failed = KILN_OK;
    here.host = (struct embedded_host_options){ .options = &here.options,
                                                .places = &here.places,
                                                .control = ends[1],
                                                .control_inode = here.far_inode,
                                                .is_orphan = here.is_orphan,
                                                .tell = on_news,
                                                .trouble = on_trouble };
    here.state = HOST_STARTING;
    int errnum = quiet_thread_start(&here.thread, run, NULL);
    if (errnum) {
        here.state = HOST_NONE;
        drop_control();
        drop_far_end();
        return kiln_fail(err, KILN_IO, "cannot start a thread: %s", strerror(errnum));
    }
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
    ssize_t sent = -1;
    if (!embedded_is_still(here.control, here.control_inode))
        return false;
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

/* ---- who leads; the mutex is held, but not while another process is asked ---- */

static void serve_self(const struct kiln_err *why)
{
    here.places.memory = true;
    snprintf(here.places.why, sizeof(here.places.why), "%s", why->text);
}

/* SQLite, which its parent's threads were in, has locks and files in a child of fork that nobody
 * will ever let go of: the store is for others. */
static void say_nobody_leads(struct kiln_err *err)
{
    if (here.is_orphan)
        kiln_fail(err, KILN_TIMED_OUT,
                  "this process was forked from one that served itself, which has ended");
    else
        kiln_fail(err, KILN_TIMED_OUT, "another process holds '%s.lock' and does not listen",
                  here.places.socket);
}

/* Of one who is asked again and again, each time for a little, all of it counts. */
static uint64_t begin_to_ask(unsigned patience_ms)
{
    uint64_t now = clock_monotonic_ns(), patience = patience_ms * MS;
    if (!here.asked_ns || now - here.left_ns > patience)
        here.asked_ns = now;
    return here.asked_ns + patience;
}

/* A connection to who leads.  KILN_UNAVAILABLE: nobody does, or he has been given up; his store
 * stays locked then, and we have none.  KILN_TIMED_OUT: he may still answer. */
static enum kiln_code ask_leader(unsigned patience_ms, uint64_t deadline_ns, int *ret_fd,
                                 struct kiln_err *err)
{
    uint64_t end = begin_to_ask(patience_ms);
    pthread_mutex_unlock(&here.mutex);
    enum kiln_code rc =
        leader_connect(here.places.socket, end < deadline_ns ? end : deadline_ns, ret_fd, err);
    pthread_mutex_lock(&here.mutex);
    here.left_ns = clock_monotonic_ns();
    if (rc == KILN_TIMED_OUT && here.left_ns < end)
        return rc;
    here.asked_ns = 0;
    if (rc != KILN_TIMED_OUT && rc != KILN_DENIED)
        return rc; /* with no descriptor left, say, who asks again has it tried again */
    if (here.state == HOST_NONE)
        serve_self(err);
    return KILN_UNAVAILABLE;
}

static enum kiln_code take_failure(struct kiln_err *err)
{
    enum kiln_code failed = here.failed;
    here.failed = KILN_OK;
    return failed && failed != KILN_BUSY ? kiln_fail(err, failed, "%s", here.failure) : failed;
}

/* What is begun may have ended by the time that this wakes, and who joined it had its failure. */
static enum kiln_code start_and_rest(uint64_t deadline_ns, struct kiln_err *err)
{
    while (here.state == HOST_NONE) {
        enum kiln_code rc = start(err);
        if (!rc)
            rc = come_to_rest(deadline_ns, err);
        if (!rc)
            rc = take_failure(err);
        if (!rc && here.state == HOST_NONE && clock_monotonic_ns() >= deadline_ns)
            rc = not_ready(err);
        if (rc)
            return rc;
    }
    return KILN_OK;
}

/* KILN_BUSY: neither is there a leader who answers, nor may we be one yet. */
static enum kiln_code connect_once(uint64_t deadline_ns, int *ret_fd, struct kiln_err *err)
{
    enum kiln_code rc = come_to_rest(deadline_ns, err);
    if (!rc && here.state == HOST_NONE && !here.places.memory) {
        rc = ask_leader(here.options.leader_ms, deadline_ns, ret_fd, err);
        if (!rc && here.state == HOST_NONE) /* else it is we, by now */
            set_role(EMBEDDED_FOLLOWS, "");
        if (rc != KILN_UNAVAILABLE)
            return rc;
        rc = come_to_rest(deadline_ns, err); /* others of this process were not idle */
    }
    if (!rc)
        rc = take_failure(err);
    if (rc && rc != KILN_BUSY)
        return rc; /* who asks again has it tried again */
    if (here.state == HOST_NONE && here.is_orphan && !here.places.memory)
        return KILN_BUSY;
    rc = start_and_rest(deadline_ns, err);
    return rc ? rc : give_connection(ret_fd, err);
}

/* ---- the way in ---- */

static void stop_unused(void)
{
    if (here.users > 0 || here.waiting > 0 || here.state != HOST_SERVES)
        return;
    if (!say(EMBEDDED_WORD_STOP, -1))
        drop_control(); /* which says the same */
    here.state = HOST_ENDING;
}

static enum kiln_code embedded_connect(const struct embedded_options *options, int *ret_fd,
                                       struct kiln_err *err)
{
    uint64_t deadline_ns = options->deadline_ns ? options->deadline_ns : UINT64_MAX;
    begin(options);
    pthread_mutex_lock(&here.mutex);
    here.waiting++;
    uint64_t end =
        clock_monotonic_ns() + (here.is_orphan ? ORPHAN_MS : here.options.leader_ms) * MS;
    enum kiln_code rc = connect_once(deadline_ns, ret_fd, err);
    while (rc == KILN_BUSY) {
        uint64_t now = clock_monotonic_ns();
        say_nobody_leads(err);
        if (now >= deadline_ns) {
            rc = err->code;
            break;
        }
        pthread_mutex_unlock(&here.mutex);
        (void)poll(NULL, 0, RETRY_MS);
        pthread_mutex_lock(&here.mutex);
        if (now >= end && here.state == HOST_NONE)
            serve_self(err);
        rc = connect_once(deadline_ns, ret_fd, err);
    }
    here.waiting--;
    here.users += rc == KILN_OK;
    stop_unused(); /* who has gone meanwhile left it to this call */
    pthread_mutex_unlock(&here.mutex);
    return rc;
}

static void embedded_let_go(void)
{
    pthread_mutex_lock(&here.mutex);
    here.users -= here.users > 0;
    stop_unused();
    pthread_mutex_unlock(&here.mutex);
}

static void embedded_settle(void)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    pthread_mutex_lock(&here.mutex);
    uint64_t deadline_ns = clock_monotonic_ns() + SETTLE_TIMES * here.options.leader_ms * MS;
    (void)rests_by(deadline_ns);
    stop_unused();
    (void)!come_to_rest(deadline_ns, &ignored); /* it goes on ending */
    pthread_mutex_unlock(&here.mutex);
}

static bool embedded_answers(unsigned ms, uint64_t deadline_ns)
{
    struct kiln_err err = KILN_ERR_INIT;
    int fd = -1;
    pthread_mutex_lock(&here.mutex);
    bool follows = here.begun && here.state == HOST_NONE && !here.places.memory;
    enum kiln_code rc = follows ? ask_leader(ms, deadline_ns, &fd, &err) : KILN_UNAVAILABLE;
    pthread_mutex_unlock(&here.mutex);
    if (fd >= 0)
        close(fd);
    return rc != KILN_UNAVAILABLE;
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
    .answers = embedded_answers,
};
