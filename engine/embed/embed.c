/* SPDX-License-Identifier: MIT */
#include "engine/embed/embed.h"

#include "common/base/clock.h"
#include "common/log/log.h"
#include "engine/embed/defaults.h"
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
#define IDLE_STEP_NS 10000000ull
#define SECOND 1000000000ull

/* The hot set may use 1 / HOT_PART_OF_FILES of the descriptors that this process may have. Each
 * object uses one descriptor. */
#define HOT_PART_OF_FILES 4

struct embed_transport {
    struct transport base;
    struct caller caller;
    pid_t pid;               /* the process that opened this transport */
    struct list ready;       /* of struct embed_frame, owned: replies that the client has not
                              * received yet */
    struct embed_frame *out; /* owned; the frame that was received last */
    /* Why a reply could not be stored. From then on, the client receives no further replies. */
    enum kiln_code failed;
    bool is_stopped;
};

static struct {
    /* The process to which the variables below belong; 0: none. Negative (-pid) while a thread of
     * that process initialises the variables or, after a fork, resets them. */
    _Atomic pid_t pid;
    /* A thread is inside the engine. If the process forks now, the child cannot open an engine. */
    atomic_bool is_inside;
    bool is_lost;          /* this process was forked while a thread of its parent was inside the
                            * engine */
    pthread_mutex_t mutex; /* protects the members below */
    pthread_cond_t changed;
    unsigned transports;
    struct engine *engine;
    struct direct_executor executor;
    bool is_waiting;
    uint64_t tick_ns, idle_step_ns;
} here = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void init_changed(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&here.changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Forgets the parent's engine without freeing it, because its state may be inconsistent. */
static void reset_in_child(void)
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

/* Detects that this process was forked, at the first call in the child. While a thread is in this
 * function, |here.pid| names the process of that thread. The child sees the number of its parent
 * there, so it does not wait: the thread does not exist in the child. */
static void detect_fork(void)
{
    pid_t own = getpid(), had = atomic_load(&here.pid);
    while (had != own) {
        if (had != -own && atomic_compare_exchange_strong(&here.pid, &had, -own)) {
            init_changed();
            if (had)
                reset_in_child();
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

static void release_mutex(void)
{
    atomic_store(&here.is_inside, false);
    pthread_mutex_unlock(&here.mutex);
}

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

static void drop_log(enum log_level level, const char *message)
{
    (void)level;
    (void)message;
}

static unsigned hot_count(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 ||
        files.rlim_cur / HOT_PART_OF_FILES > DEFAULT_HOT_COUNT)
        return DEFAULT_HOT_COUNT;
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
        .tuning_records_per_uid = DEFAULT_TUNING_RECORDS,
        .tuning_bytes_per_uid = DEFAULT_TUNING_BYTES,
        .tuning_stale = TUNING_WARN,
        .package_limit = DEFAULT_PACKAGE_LIMIT,
        .hot_limit_bytes = DEFAULT_HOT_BYTES,
        .hot_limit_count = hot_count(),
        .failure_ttl_s = DEFAULT_FAILURE_TTL_S,
        .queue_limit = DEFAULT_QUEUE,
        .queue_limit_uid = DEFAULT_QUEUE_UID,
        .queue_bytes = DEFAULT_QUEUE_BYTES,
        .queue_bytes_uid = DEFAULT_QUEUE_BYTES_UID,
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

static void run_due_tick(void)
{
    uint64_t now = clock_monotonic_ns();
    if (now < here.tick_ns)
        return;
    here.tick_ns = now + TICK_NS;
    engine_tick(here.engine);
}

static void run_idle_step(void)
{
    uint64_t now = clock_monotonic_ns();
    if (now < here.idle_step_ns)
        return;
    here.idle_step_ns = now + IDLE_STEP_NS;
    run_due_tick();
    (void)direct_executor_step(&here.executor);
}

static uint64_t min_of(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void wait_for_change(uint64_t deadline_ns)
{
    const struct timespec at = { .tv_sec = (time_t)(deadline_ns / SECOND),
                                 .tv_nsec = (long)(deadline_ns % SECOND) };
    atomic_store(&here.is_inside, false);
    pthread_cond_timedwait(&here.changed, &here.mutex, &at);
    atomic_store(&here.is_inside, true);
}

static void wait_for_compiler(uint64_t deadline_ns)
{
    struct embed_compiler *compiler = here.executor.compiler;
    here.is_waiting = true;
    release_mutex();
    bool has_ended = compiler->ops->wait(compiler, deadline_ns);
    take_mutex();
    here.is_waiting = false;
    if (has_ended)
        direct_executor_end_compile(&here.executor);
    pthread_cond_broadcast(&here.changed);
}

static void wait_for_work(uint64_t deadline_ns)
{
    deadline_ns = min_of(deadline_ns, here.tick_ns);
    if (direct_executor_compiles(&here.executor) && !here.is_waiting)
        wait_for_compiler(deadline_ns);
    else
        wait_for_change(deadline_ns);
    run_due_tick();
}

static void wake_waiting(void)
{
    pthread_cond_broadcast(&here.changed);
    if (here.is_waiting)
        here.executor.compiler->ops->wake(here.executor.compiler);
}

static struct embed_transport *transport_of(struct transport *base)
{
    return (struct embed_transport *)base;
}

static void store_reply(struct caller *caller, const struct reply *reply)
{
    struct embed_transport *t =
        (struct embed_transport *)((char *)caller - offsetof(struct embed_transport, caller));
    struct embed_frame *frame = NULL;
    if (!t->failed)
        t->failed = embed_frame_create(reply, caller->version, &frame);
    if (frame)
        list_append(&t->ready, &frame->link);
    wake_waiting();
}

static struct embed_frame *take_frame(struct embed_transport *t)
{
    struct embed_frame *frame = LIST_POP(&t->ready, struct embed_frame, link);
    return frame;
}

static const struct caller_ops caller_ops = { .reply = store_reply };

/* On KILN_OK, the caller holds the mutex and must call release_mutex. */
static enum kiln_code enter_engine(const struct embed_transport *t, struct kiln_err *err)
{
    detect_fork();
    if (t->pid != atomic_load(&here.pid))
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "this connection was opened before fork: open a client in the child");
    take_mutex();
    if (!t->is_stopped)
        return KILN_OK;
    release_mutex();
    return kiln_fail(err, KILN_UNAVAILABLE, "the connection to the engine was stopped");
}

static enum kiln_code pass_frame(struct embed_transport *t, struct bytes frame,
                                 struct kiln_err *err)
{
    struct frame_header header;
    enum kiln_code rc =
        frame.size < FRAME_HEADER_SIZE
            ? kiln_fail(err, KILN_INVALID, "%zu bytes are too few for a frame", frame.size)
            : frame_header_read(frame.data, &header, err);
    if (rc)
        return rc;
    struct bytes body = bytes_of(frame.data + FRAME_HEADER_SIZE, frame.size - FRAME_HEADER_SIZE);
    if (body.size != header.body_size || t->caller.file_count != header.descriptors)
        return kiln_fail(err, KILN_INVALID, "the frame does not match its header");
    rc = service_handle(here.engine, &t->caller, &header, body, err);
    if (rc && !t->failed)
        t->failed = KILN_UNAVAILABLE;
    wake_waiting();
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
        return kiln_fail(err, KILN_INVALID, "a request may have at most %d files, not %zu",
                         LIMIT_REQUEST_FILES, count);
    for (size_t i = 0; i < count; i++) {
        int fd = fcntl(files[i], F_DUPFD_CLOEXEC, EMBED_FD_MIN);
        if (fd < 0)
            return kiln_fail_errno(err, errno, "cannot duplicate the descriptor of a file");
        caller->files[caller->file_count++] = fd;
    }
    return KILN_OK;
}

static enum kiln_code embed_send_files(struct transport *base, struct bytes frame, const int *files,
                                       size_t count, struct kiln_err *err)
{
    struct embed_transport *t = transport_of(base);
    enum kiln_code rc = enter_engine(t, err);
    if (rc)
        return rc;
    rc = copy_files(&t->caller, files, count, err);
    if (!rc)
        rc = pass_frame(t, frame, err);
    close_files(&t->caller);
    release_mutex();
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

static enum kiln_code report_failure(const struct embed_transport *t, struct kiln_err *err)
{
    if (t->failed == KILN_UNAVAILABLE)
        return kiln_fail(err, KILN_UNAVAILABLE, "the engine refused this connection");
    if (t->failed == KILN_NO_MEMORY)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a reply of the engine");
    return kiln_fail(err, t->failed,
                     "no descriptors left for a reply of the engine: raise the limit of open files "
                     "(LimitNOFILE=, ulimit -n)");
}

/* Waits for a reply until the deadline, and runs tasks meanwhile. Runs at least one step even if
 * the deadline has passed, so that a caller that polls with short deadlines makes progress. The
 * caller holds the mutex. */
static enum kiln_code await_frame(struct embed_transport *t, uint64_t deadline_ns,
                                  struct kiln_err *err)
{
    run_due_tick();
    while (list_is_empty(&t->ready)) {
        if (t->failed)
            return report_failure(t, err);
        if (t->is_stopped)
            return kiln_fail(err, KILN_UNAVAILABLE, "the connection to the engine was stopped");
        bool has_worked = direct_executor_step(&here.executor);
        if (!list_is_empty(&t->ready))
            break;
        if (clock_monotonic_ns() >= deadline_ns)
            return KILN_TIMED_OUT;
        if (!has_worked)
            wait_for_work(deadline_ns);
    }
    return KILN_OK;
}

static enum kiln_code embed_receive(struct transport *base, uint64_t deadline_ns,
                                    struct transport_frame *ret_frame, struct kiln_err *err)
{
    struct embed_transport *t = transport_of(base);
    embed_frame_destroy(KILN_TAKE(t->out));
    enum kiln_code rc = enter_engine(t, err);
    if (rc)
        return rc;
    rc = await_frame(t, deadline_ns, err);
    if (!rc)
        t->out = take_frame(t);
    run_idle_step();
    release_mutex();
    if (!rc)
        embed_frame_release(t->out, ret_frame);
    return rc;
}

static void embed_stop(struct transport *base)
{
    struct embed_transport *t = transport_of(base);
    struct kiln_err ignored = KILN_ERR_INIT;
    if (enter_engine(t, &ignored))
        return;
    t->is_stopped = true;
    wake_waiting();
    release_mutex();
}

static void leave_engine(struct embed_transport *t)
{
    take_mutex();
    service_leave(here.engine, &t->caller);
    if (--here.transports == 0)
        close_engine();
    release_mutex();
}

static void embed_destroy(struct transport *base)
{
    struct embed_transport *t = transport_of(base);
    detect_fork();
    if (t->pid == atomic_load(&here.pid))
        leave_engine(t);
    embed_frame_destroy(t->out);
    LIST_EACH (&t->ready, struct embed_frame, link, frame)
        embed_frame_destroy(frame);
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

static enum kiln_code join_engine(const struct embed_setup *setup, struct embed_transport *t,
                                  struct kiln_err *err)
{
    if (here.is_lost)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "this process was forked while another thread was inside kiln: fork while "
                         "no thread is, or call exec in the child");
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
    detect_fork();
    struct embed_transport *t = calloc(1, sizeof(*t));
    if (!t)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a connection to the engine");
    t->base.ops = &embed_ops;
    t->pid = getpid();
    t->caller = (struct caller){
        .ops = &caller_ops, .uid = geteuid(), .gid = getegid(), .pid = t->pid, .role = ROLE_ADMIN
    };
    list_init(&t->ready);
    take_mutex();
    enum kiln_code rc = join_engine(setup, t, err);
    release_mutex();
    if (rc)
        free(t);
    else
        *ret_transport = &t->base;
    return rc;
}
