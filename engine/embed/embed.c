/* SPDX-License-Identifier: MIT */
#include "engine/embed/embed.h"

#include "common/clock.h"
#include "common/log.h"
#include "engine/embed/direct_executor.h"
#include "engine/embed/embed_frame.h"
#include "engine/engine.h"
#include "engine/service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define TICK_NS 1000000000ull
/* Time between two steps of background work; each step takes a fraction of a millisecond. */
#define IDLE_STEP_NS 10000000ull
#define SECOND 1000000000ull

/* The defaults of kilnd's settings of these names (daemon/config/config.def). */
#define TUNING_RECORDS 100000
#define TUNING_BYTES ((uint64_t)64 << 20)
#define PACKAGE_LIMIT ((uint64_t)8 << 30)
#define HOT_BYTES ((uint64_t)512 << 20)
#define HOT_COUNT 8192
#define FAILURE_TTL_S 600
#define QUEUE 100000
#define QUEUE_UID 20000
#define QUEUE_BYTES ((uint64_t)1 << 30)
#define QUEUE_BYTES_UID ((uint64_t)256 << 20)
/* Each object in memory holds a descriptor, and the descriptor table is shared with the program. */
#define HOT_PART_OF_FILES 4

struct embed_transport {
    struct transport base; /* first member */
    struct caller caller;
    pid_t pid;                     /* the process that opened it */
    struct embed_frame_list ready; /* what receive has not handed out yet */
    struct embed_frame *out;       /* owned: handed out last */
    enum kiln_code failed;         /* an answer could not be kept: no more answers follow */
    bool is_stopped;
};

static struct {
    _Atomic pid_t pid; /* the process that owns this state; 0: none yet; CHANGING: a child is about
                          to take over */
    atomic_bool
        is_inside; /* a thread is inside the engine: a child forked at this moment has no engine */
    bool is_lost;  /* this process was forked while a thread was inside */
    pthread_mutex_t mutex; /* protects all fields below */
    pthread_cond_t changed;
    unsigned transports;
    struct engine *engine; /* NULL: not open */
    struct direct_executor executor;
    bool is_waiting;                /* a thread waits for the compiler, without the mutex */
    uint64_t tick_ns, idle_step_ns; /* when the next of either is due */
} here = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* ---- whose process it is ---- */

#define CHANGING (-1)

/* By the monotonic clock. */
static void make_changed(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&here.changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* The parent's engine is not freed: nothing in the child uses it. */
static void be_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    here.mutex = fresh;
    here.is_lost |= atomic_exchange(&here.is_inside, false);
    if (here.executor.compiler)
        here.executor.compiler->ops->forget(here.executor.compiler);
    here.transports = 0;
    here.engine = NULL;
    here.is_waiting = false;
}

/* Detects a fork at the child's first call. */
static void be_of_this_process(void)
{
    pid_t own = getpid(), had = atomic_load(&here.pid);
    while (had != own) {
        if (had != CHANGING && atomic_compare_exchange_strong(&here.pid, &had, CHANGING)) {
            make_changed();
            if (had)
                be_child();
            atomic_store(&here.pid, own);
        }
        had = atomic_load(&here.pid);
    }
}

static void take_mutex(void)
{
    pthread_mutex_lock(&here.mutex);
    atomic_store(&here.is_inside, true);
}

static void give_mutex(void)
{
    atomic_store(&here.is_inside, false);
    pthread_mutex_unlock(&here.mutex);
}

/* ---- the engine ---- */

static struct json *answer_config(struct engine_host *host)
{
    (void)host;
    return NULL;
}

static void add_status(struct engine_host *host, struct json *status)
{
    (void)host;
    json_set_text(status, "version", KILN_VERSION);
    json_set_u64(status, "pid", (uint64_t)getpid());
    json_set_text(status, "socket", "");
    json_set_text(status, "cache_dir", "");
    json_set_text(status, "state_dir", "");
}

static void add_stats(struct engine_host *host, struct json *stats)
{
    (void)host;
    json_set_u64(stats, "clients", here.transports);
}

static struct engine_host host = {
    .config = answer_config,
    .add_status = add_status,
    .add_stats = add_stats,
};

/* The engine logs nothing: standard error belongs to the program. */
static void drop_log(enum log_level level, const char *message)
{
    (void)level;
    (void)message;
}

static unsigned hot_count(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur / HOT_PART_OF_FILES > HOT_COUNT)
        return HOT_COUNT;
    return (unsigned)(files.rlim_cur / HOT_PART_OF_FILES);
}

static enum kiln_code open_engine(const struct embed_setup *setup, struct kiln_err *err)
{
    direct_executor_init(&here.executor, setup->compiler);
    const struct engine_options options = {
        .executor = &here.executor.base,
        .host = &host,
        .readers = 1,
        .data = setup->data,
        .store_mode = KERNEL_STORE_OFF,
        .tuning_records_per_uid = TUNING_RECORDS,
        .tuning_bytes_per_uid = TUNING_BYTES,
        .tuning_stale = TUNING_WARN,
        .package_limit = PACKAGE_LIMIT,
        .hot_limit_bytes = HOT_BYTES,
        .hot_limit_count = hot_count(),
        .failure_ttl_s = FAILURE_TTL_S,
        .queue_limit = QUEUE,
        .queue_limit_uid = QUEUE_UID,
        .queue_bytes = QUEUE_BYTES,
        .queue_bytes_uid = QUEUE_BYTES_UID,
    };
    log_set_sink(drop_log);
    enum kiln_code rc = engine_open(&options, &here.engine, err);
    if (rc)
        return rc;
    here.tick_ns = clock_monotonic_ns() + TICK_NS;
    here.idle_step_ns = 0;
    engine_start(here.engine);
    return KILN_OK;
}

static void close_engine(void)
{
    struct direct_executor *x = &here.executor;
    engine_drain(here.engine);
    do {
        if (direct_executor_compiles(x)) {
            x->compiler->ops->stop(x->compiler);
            direct_executor_end_compile(x);
        }
    } while (direct_executor_step(x) || direct_executor_compiles(x));
    if (x->compiler)
        x->compiler->ops->stop(x->compiler);
    engine_close(here.engine);
    here.engine = NULL;
}

/* ---- work ---- */

static void tick(void)
{
    uint64_t now = clock_monotonic_ns();
    if (now < here.tick_ns)
        return;
    here.tick_ns = now + TICK_NS;
    engine_tick(here.engine);
}

/* Runs one step of background work along with each request. */
static void step_aside(void)
{
    uint64_t now = clock_monotonic_ns();
    if (now < here.idle_step_ns)
        return;
    here.idle_step_ns = now + IDLE_STEP_NS;
    tick();
    (void)direct_executor_step(&here.executor);
}

static uint64_t sooner(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void wait_for_change(uint64_t deadline_ns)
{
    const struct timespec at = { .tv_sec = (time_t)(deadline_ns / SECOND),
                                 .tv_nsec = (long)(deadline_ns % SECOND) };
    atomic_store(&here.is_inside, false);
    pthread_cond_timedwait(&here.changed, &here.mutex, &at);
    atomic_store(&here.is_inside, true);
}

/* One thread waits for the compiler; the others sleep until that thread reports a change. */
static void wait_for_compiler(uint64_t deadline_ns)
{
    struct embed_compiler *compiler = here.executor.compiler;
    here.is_waiting = true;
    give_mutex();
    bool has_ended = compiler->ops->wait(compiler, deadline_ns);
    take_mutex();
    here.is_waiting = false;
    if (has_ended)
        direct_executor_end_compile(&here.executor);
    pthread_cond_broadcast(&here.changed);
}

/* Waits until something may have changed for a waiting thread. */
static void wait_for_something(uint64_t deadline_ns)
{
    deadline_ns = sooner(deadline_ns, here.tick_ns);
    if (direct_executor_compiles(&here.executor) && !here.is_waiting)
        wait_for_compiler(deadline_ns);
    else
        wait_for_change(deadline_ns);
    tick();
}

/* Wakes the waiting threads because there is something new. */
static void report_others(void)
{
    pthread_cond_broadcast(&here.changed);
    if (here.is_waiting)
        here.executor.compiler->ops->wake(here.executor.compiler);
}

/* ---- a transport ---- */

static struct embed_transport *transport_of(struct transport *base)
{
    return (struct embed_transport *)base;
}

static void keep_reply(struct caller *caller, const struct reply *reply)
{
    struct embed_transport *t =
        (struct embed_transport *)((char *)caller - offsetof(struct embed_transport, caller));
    struct embed_frame *frame = NULL;
    if (!t->failed)
        t->failed = embed_frame_create(reply, caller->version, &frame);
    if (frame)
        embed_frame_append(&t->ready, frame);
    report_others();
}

static const struct caller_ops caller_ops = { .reply = keep_reply };

/* On success the mutex is held. */
static enum kiln_code enter(const struct embed_transport *t, struct kiln_err *err)
{
    be_of_this_process();
    if (t->pid != atomic_load(&here.pid))
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "this connection was opened before fork: open a client in the child");
    take_mutex();
    if (!t->is_stopped)
        return KILN_OK;
    give_mutex();
    return kiln_fail(err, KILN_UNAVAILABLE, "the connection to the engine was ended");
}

static enum kiln_code hand_over(struct embed_transport *t, struct bytes frame, struct kiln_err *err)
{
    struct frame_header header;
    enum kiln_code rc = frame.size < FRAME_HEADER_SIZE
                            ? kiln_fail(err, KILN_INVALID, "%zu bytes are no frame", frame.size)
                            : frame_header_read(frame.data, &header, err);
    if (rc)
        return rc;
    struct bytes body = bytes_of(frame.data + FRAME_HEADER_SIZE, frame.size - FRAME_HEADER_SIZE);
    if (body.size != header.body_size || t->caller.file_count != header.descriptors)
        return kiln_fail(err, KILN_INVALID, "the frame is not as its header says");
    rc = service_handle(here.engine, &t->caller, &header, body, err);
    if (rc && !t->failed)
        t->failed = KILN_UNAVAILABLE; /* reported once the answer, which says why, has been read */
    report_others();
    return KILN_OK;
}

static void close_files(struct caller *caller)
{
    for (unsigned i = 0; i < caller->file_count; i++) {
        if (caller->files[i] >= 0)
            close(caller->files[i]);
    }
    caller->file_count = 0;
}

static enum kiln_code copy_files(struct caller *caller, const int *files, size_t count,
                                 struct kiln_err *err)
{
    if (count > LIMIT_REQUEST_FILES)
        return kiln_fail(err, KILN_INVALID, "%zu files are more than a request may bring", count);
    for (size_t i = 0; i < count; i++) {
        int fd = fcntl(files[i], F_DUPFD_CLOEXEC, EMBED_FD_MIN);
        if (fd < 0)
            return kiln_fail_errno(err, errno, "cannot hand over a file");
        caller->files[caller->file_count++] = fd;
    }
    return KILN_OK;
}

static enum kiln_code embed_send_files(struct transport *base, struct bytes frame, const int *files,
                                       size_t count, struct kiln_err *err)
{
    struct embed_transport *t = transport_of(base);
    enum kiln_code rc = enter(t, err);
    if (rc)
        return rc;
    rc = copy_files(&t->caller, files, count, err);
    if (!rc)
        rc = hand_over(t, frame, err);
    close_files(&t->caller);
    give_mutex();
    return rc;
}

static enum kiln_code embed_send(struct transport *base, struct bytes frame, struct kiln_err *err)
{
    return embed_send_files(base, frame, /* files= */ NULL, 0, err);
}

static bool embed_is_sending(struct transport *base)
{
    (void)base;
    return false;
}

static enum kiln_code say_failed(const struct embed_transport *t, struct kiln_err *err)
{
    if (t->failed == KILN_UNAVAILABLE)
        return kiln_fail(err, KILN_UNAVAILABLE, "the engine refused this connection");
    if (t->failed == KILN_NO_MEMORY)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an answer of the engine");
    return kiln_fail(err, t->failed,
                     "no descriptors for an answer of the engine (LimitNOFILE=, ulimit -n)");
}

/* The mutex is held. Runs at least one waiting step, whatever the deadline, so that a caller that
 * polls with short deadlines makes progress, too. */
static enum kiln_code await_frame(struct embed_transport *t, uint64_t deadline_ns,
                                  struct kiln_err *err)
{
    tick();
    while (!t->ready.first) {
        if (t->failed)
            return say_failed(t, err);
        if (t->is_stopped)
            return kiln_fail(err, KILN_UNAVAILABLE, "the connection to the engine was ended");
        bool has_worked = direct_executor_step(&here.executor);
        if (t->ready.first)
            break;
        if (clock_monotonic_ns() >= deadline_ns)
            return KILN_TIMED_OUT;
        if (!has_worked)
            wait_for_something(deadline_ns);
    }
    return KILN_OK;
}

static enum kiln_code embed_receive(struct transport *base, uint64_t deadline_ns,
                                    struct transport_frame *ret_frame, struct kiln_err *err)
{
    struct embed_transport *t = transport_of(base);
    embed_frame_destroy(KILN_TAKE(t->out));
    enum kiln_code rc = enter(t, err);
    if (rc)
        return rc;
    rc = await_frame(t, deadline_ns, err);
    if (!rc)
        t->out = embed_frame_take(&t->ready);
    step_aside();
    give_mutex();
    if (!rc)
        embed_frame_hand_out(t->out, ret_frame);
    return rc;
}

static void embed_stop(struct transport *base)
{
    struct embed_transport *t = transport_of(base);
    struct kiln_err ignored = KILN_ERR_INIT;
    if (enter(t, &ignored))
        return;
    t->is_stopped = true;
    report_others();
    give_mutex();
}

static void leave(struct embed_transport *t)
{
    take_mutex();
    service_leave(here.engine, &t->caller);
    if (--here.transports == 0)
        close_engine();
    give_mutex();
}

static void embed_destroy(struct transport *base)
{
    struct embed_transport *t = transport_of(base);
    be_of_this_process();
    if (t->pid == atomic_load(&here.pid))
        leave(t);
    embed_frame_destroy(t->out);
    while (t->ready.first)
        embed_frame_destroy(embed_frame_take(&t->ready));
    free(t);
}

static const struct transport_ops embed_ops = {
    .name = "embed",
    .send = embed_send,
    .send_files = embed_send_files,
    .is_sending = embed_is_sending,
    .receive = embed_receive,
    .stop = embed_stop,
    .destroy = embed_destroy,
};

/* ---- connecting ---- */

/* The mutex is held. */
static enum kiln_code join(const struct embed_setup *setup, struct embed_transport *t,
                           struct kiln_err *err)
{
    if (here.is_lost)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "this process was forked while another thread was inside kiln: fork while "
                         "none is, or call exec in the child");
    enum kiln_code rc = here.engine ? KILN_OK : open_engine(setup, err);
    if (rc)
        return rc;
    here.transports++;
    service_join(here.engine, &t->caller);
    return KILN_OK;
}

enum kiln_code embed_connect(const struct embed_setup *setup, struct transport **ret_transport,
                             struct kiln_err *err)
{
    be_of_this_process();
    struct embed_transport *t = calloc(1, sizeof(*t));
    if (!t)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a connection to the engine");
    t->base.ops = &embed_ops;
    t->pid = getpid();
    t->caller = (struct caller){
        .ops = &caller_ops, .uid = geteuid(), .gid = getegid(), .pid = t->pid, .role = ROLE_ADMIN
    };
    embed_frame_list_init(&t->ready);
    take_mutex();
    enum kiln_code rc = join(setup, t, err);
    give_mutex();
    if (rc)
        free(t);
    else
        *ret_transport = &t->base;
    return rc;
}
