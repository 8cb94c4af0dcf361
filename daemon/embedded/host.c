/* SPDX-License-Identifier: MIT */
#include "daemon/embedded/host.h"

#include "common/clock.h"
#include "common/log.h"
#include "daemon/config/engine_settings.h"
#include "daemon/describe.h"
#include "daemon/embedded/left_over.h"
#include "daemon/loop/orphan.h"
#include "daemon/loop/watch.h"
#include "daemon/serving.h"

#include <errno.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Threads that read the store: one job asks less than a host's. */
#define READERS 2
#define WORKERS_MOST 4
#define CONNECTIONS_MOST 1024
/* When the last connection of this process has gone: other processes' requests that run. */
#define DRAIN_MS 2000
/* Of a store whose last leader is just ending. */
#define LOCK_PAUSE_MS 10
#define LEADER_MS 5000
/* kiln-launch, when it is let go of and no process of its is left. */
#define KEEPER_ENDS_MS 1000
#define MS 1000000ull

#ifdef __SANITIZE_THREAD__
#define FILES_MAY_BE_SHARED true
#else
#define FILES_MAY_BE_SHARED false
#endif

struct host {
    const struct embedded_host_options *o;
    struct serving serving;
    struct listener listener;
    struct loop_watch watch; /* of the control socket */
    struct engine_host base;
    struct config config;
    struct keeper keeper; /* of compilers and transfers */
    char why[EMBEDDED_TEXT_MOST];
    bool own_files, memory;
};

static void tell(struct host *h, int what, const char *why, enum kiln_code code)
{
    struct embedded_news news = { .own_files = h->own_files, .why = why, .code = code };
    news.what = (__typeof__(news.what))what;
    h->o->tell(&news);
}

/* ---- files ---- */

bool embedded_is_still(int fd, ino_t inode)
{
    struct stat seen;
    return fd >= 0 && fstat(fd, &seen) == 0 && S_ISSOCK(seen.st_mode) && seen.st_ino == inode;
}

/* All but the control socket go.  What would come to be 0, 1 and 2 is no file that a stray write
 * could damage. */
static bool have_own_files(int control)
{
#ifdef __SANITIZE_THREAD__
    return control < 0; /* it would take a number of one table for the same one of the other */
#endif
    if (close_range(0, (unsigned)control - 1, CLOSE_RANGE_UNSHARE) != 0)
        return false;
    close_range((unsigned)control + 1, UINT_MAX, 0);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        (void)!eventfd(0, EFD_CLOEXEC);
    return true;
}

static unsigned files_most(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur > INT_MAX)
        return INT_MAX;
    return (unsigned)files.rlim_cur;
}

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

/* ---- what the engine asks of a host ---- */

static struct host *host_of(struct engine_host *base)
{
    return LOOP_OWNER_OF(struct host, base, base);
}

static struct json *answer_config(struct engine_host *base)
{
    (void)base;
    return NULL;
}

static void add_status(struct engine_host *base, struct json *status)
{
    const struct host *h = host_of(base);
    json_set_text(status, "version", KILN_VERSION);
    json_set_u64(status, "pid", (uint64_t)getpid());
    json_set_text(status, "socket", h->listener.path);
    json_set_text(status, "cache_dir", h->memory ? "" : h->o->places->cache);
    json_set_text(status, "state_dir", h->memory ? "" : h->o->places->state);
    describe_workers(h->serving.pool, status);
}

static void add_stats(struct engine_host *base, struct json *stats)
{
    const struct host *h = host_of(base);
    describe_counts(h->serving.server, h->serving.pool, stats);
}

static void report(struct engine_host *base, const struct engine_report *r)
{
    if (r->trouble)
        host_of(base)->o->trouble(r->text);
}

/* ---- opening ---- */

static unsigned workers(void)
{
    cpu_set_t allowed;
    int count = sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    return least((unsigned)count, WORKERS_MOST);
}

/* Its name would have to be looked up, with code that is not ours, in a process that is not. */
static struct worker_user this_user(void)
{
    struct worker_user user = { .uid = geteuid(), .gid = getegid() };
    snprintf(user.name, sizeof(user.name), "%u", (unsigned)user.uid);
    return user;
}

static struct pool_options pool_options_of(struct host *h)
{
    const struct config *c = &h->config;
    return (struct pool_options){
        .program = h->o->places->compiler,
        .keeper = &h->keeper,
        .service = "",
        .temp_base = h->o->places->temp,
        .user = this_user(),
        .workers = config_is_default(c, CONFIG_workers)
                       ? workers()
                       : (unsigned)config_number(c, CONFIG_workers),
        .require_sandbox = strcmp(config_text(c, CONFIG_sandbox), "require") == 0,
        .limits = { .cpu_s = (config_number(c, CONFIG_compile_cpu) + 999) / 1000,
                    .memory = config_number(c, CONFIG_compile_memory),
                    .output = config_number(c, CONFIG_compile_output),
                    .jobs = (unsigned)config_number(c, CONFIG_worker_jobs) },
        .timeout_ms = config_number(c, CONFIG_compile_timeout),
    };
}

static struct transfers_options transfers_options_of(struct host *h)
{
    struct transfers_options options = TRANSFERS_STANDARD;
    options.program = h->o->places->transfer;
    options.keeper = &h->keeper;
    options.user = this_user();
    return options;
}

static void settle_engine(struct host *h, struct engine_settings *settings)
{
    const struct embedded_places *places = h->o->places;
    struct config *c = &h->config;
    snprintf(c->entries[CONFIG_cache_dir].value.text, PATH_TEXT_MOST, "%s", places->cache);
    snprintf(c->entries[CONFIG_state_dir].value.text, PATH_TEXT_MOST, "%s", places->state);
    if (config_is_default(c, CONFIG_trusted_keys))
        snprintf(c->entries[CONFIG_trusted_keys].value.text, PATH_TEXT_MOST, "%s",
                 places->trusted_keys);
    unsigned hot = least((unsigned)config_number(c, CONFIG_hot_count), files_most() / 2);
    engine_settings_of(c, hot, settings);
    struct engine_options *e = &settings->options;
    e->host = &h->base;
    e->data = h->o->options->data;
    if (h->o->options->memory || h->o->is_orphan)
        e->more_package_folders = NULL;
    if (h->memory) {
        e->cache_directory = e->state_directory = e->package_folder = NULL;
        e->store_mode = KERNEL_STORE_OFF;
    } else if (config_is_default(c, CONFIG_cache_limit)) {
        e->store_limit_bytes = config_cache_limit(places->cache);
    }
}

static enum kiln_code open_with(struct host *h, const struct pool_options *pool,
                                const char *no_pool, struct kiln_err *err)
{
    struct engine_settings settings;
    struct server_limits limits = SERVER_LIMITS_DEFAULT;
    settle_engine(h, &settings);
    limits.connections = limits.connections_per_uid = least(CONNECTIONS_MOST, files_most() / 4);
    const struct transfers_options transfers = transfers_options_of(h);
    const struct serving_options options = { .readers = READERS,
                                             .pool = pool,
                                             .no_pool = no_pool,
                                             .transfers = h->memory ? NULL : &transfers,
                                             .engine = &settings.options,
                                             .limits = &limits,
                                             .listener = h->memory ? NULL : &h->listener,
                                             .own_user_only = true };
    enum kiln_code rc = serving_begin(&h->serving, err);
    return rc ? rc : serving_open(&h->serving, &options, err);
}

static void unopen(struct host *h)
{
    serving_close(&h->serving);
    if (h->serving.loop)
        loop_run(h->serving.loop);
    serving_end(&h->serving);
    h->serving = (struct serving){ 0 };
}

/* Where compilers cannot be had, what is there is served all the same. */
static enum kiln_code open_once(struct host *h, struct kiln_err *err)
{
    const struct embedded_places *places = h->o->places;
    const struct pool_options pool = pool_options_of(h);
    enum kiln_code rc = open_with(h, places->compiler[0] ? &pool : NULL, places->no_compiler, err);
    if (rc && rc != KILN_BUSY && places->compiler[0] && !h->serving.pool) {
        struct kiln_err why = *err;
        unopen(h);
        rc = open_with(h, NULL, why.text, err);
    }
    if (rc)
        unopen(h);
    return rc;
}

/* The last leader's process may be ending still, one file after the other.  Those who follow wait
 * for us meanwhile, and longer than this. */
static enum kiln_code open_patiently(struct host *h, struct kiln_err *err)
{
    unsigned ms = (h->o->options->leader_ms ? h->o->options->leader_ms : LEADER_MS) / 2;
    uint64_t end = clock_monotonic_ns() + ms * MS;
    enum kiln_code rc = open_once(h, err);
    while (rc == KILN_BUSY && !h->memory && clock_monotonic_ns() < end) {
        (void)poll(NULL, 0, LOCK_PAUSE_MS);
        rc = open_once(h, err);
    }
    return rc;
}

/* From here on this process serves itself alone. */
static void keep_in_memory(struct host *h, const struct kiln_err *why)
{
    listener_close(&h->listener);
    h->memory = true;
    snprintf(h->why, sizeof(h->why), "%s", why->text);
}

/* KILN_BUSY: somebody else leads.  KILN_UNAVAILABLE: nobody could reach this one. */
static enum kiln_code choose_role(struct host *h, struct kiln_err *err)
{
    const struct embedded_places *places = h->o->places;
    if (!embedded_is_still(h->o->control, h->o->control_inode))
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "the job closed the engine's descriptors while it began");
    h->memory = places->memory;
    snprintf(h->why, sizeof(h->why), "%s", places->why);
    if (h->memory)
        return KILN_OK;
    enum kiln_code rc =
        h->own_files || FILES_MAY_BE_SHARED
            ? listener_open(places->socket, "", &h->listener, err)
            : kiln_fail(err, KILN_UNSUPPORTED,
                        "this system gives threads no table of files of their own (close_range)");
    if (rc && rc != KILN_BUSY)
        keep_in_memory(h, err);
    return rc == KILN_BUSY ? rc : KILN_OK;
}

static enum kiln_code open_host(struct host *h, struct kiln_err *err)
{
    enum kiln_code rc = config_standards(h->o->options->settings, &h->config, err);
    if (rc)
        return rc;
    rc = open_patiently(h, err);
    if (rc && !h->memory) {
        keep_in_memory(h, err);
        tell(h, HOST_MEMORY, h->why, KILN_OK);
        rc = open_once(h, err);
    }
    return rc;
}

/* ---- serving ---- */

static void stop(struct host *h)
{
    loop_watch_want(&h->watch, 0);
    if (h->serving.phase != SERVING_RUNS)
        return;
    serving_drain(&h->serving, config_is_default(&h->config, CONFIG_drain_timeout)
                                   ? DRAIN_MS
                                   : config_number(&h->config, CONFIG_drain_timeout));
    /* The lock stays until the store is closed: until then others can neither connect nor lead. */
    if (h->listener.fd >= 0)
        shutdown(h->listener.fd, SHUT_RDWR);
}

/* The other side of the connection sees it end, and is told why when it asks for the next. */
static void tell_no_room(struct host *h)
{
    struct kiln_err err = KILN_ERR_INIT;
    kiln_fail_errno(&err, EMFILE, "it cannot take another connection (LimitNOFILE=, ulimit -n)");
    tell(h, HOST_HAS_NO_ROOM, err.text, err.code);
}

/* KILN_BUSY in words: nothing more waits. */
static bool read_word(struct host *h)
{
    char word = 0;
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } files;
    struct iovec iov = { &word, 1 };
    struct msghdr m = { .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = files.room,
                        .msg_controllen = sizeof(files.room) };
    ssize_t got = recvmsg(h->o->control, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        int fd;
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
        server_take(h->serving.server, fd);
    } else if (got > 0 && m.msg_flags & MSG_CTRUNC) {
        tell_no_room(h);
    } else if (got <= 0 || word == EMBEDDED_WORD_STOP) {
        stop(h);
        return false;
    }
    return true;
}

static void on_control(struct loop_watch *watch, unsigned events)
{
    struct host *h = LOOP_OWNER_OF(struct host, watch, watch);
    (void)events;
    while (h->serving.phase == SERVING_RUNS && read_word(h)) {
    }
}

/* A process without threads but ours is one that has ended.  A program with its data inside opens
 * no file, of /proc neither. */
static void on_tick(struct serving *serving)
{
    struct host *h = LOOP_OWNER_OF(struct host, serving, serving);
    if (h->o->options->data ? job_is_over_unopened() : job_is_over())
        stop(h);
}

static void on_closing(struct serving *serving)
{
    loop_watch_close(&LOOP_OWNER_OF(struct host, serving, serving)->watch);
}

static enum kiln_code serve(struct host *h, struct kiln_err *err)
{
    enum kiln_code rc = loop_watch_init(h->serving.loop, &h->watch, &h->serving.owner,
                                        h->o->control, on_control, err);
    if (rc) {
        unopen(h);
        return rc;
    }
    h->serving.closing = on_closing;
    h->serving.ticked = on_tick;
    loop_watch_want(&h->watch, WATCH_READ);
    serving_start(&h->serving);
    loop_run(h->serving.loop);
    serving_end(&h->serving);
    return KILN_OK;
}

static enum kiln_code open_and_serve(struct host *h, struct kiln_err *err)
{
    tell(h, h->memory ? HOST_MEMORY : HOST_LEADS, h->why, KILN_OK);
    enum kiln_code rc = open_host(h, err);
    return rc ? rc : serve(h, err);
}

static const struct embedded_host_options *who; /* for the log, which has no context */

static void on_log(enum log_level level, const char *message)
{
    if (level <= LOG_LEVEL_WARNING)
        who->trouble(message);
}

void embedded_host_run(const struct embedded_host_options *options)
{
    static struct host h; /* one at a time, and large */
    struct kiln_err err = KILN_ERR_INIT;
    h = (struct host){ .o = options,
                       .listener = LISTENER_CLOSED,
                       .keeper = KEEPER_OF(options->places->keeper),
                       .base = { .config = answer_config,
                                 .add_status = add_status,
                                 .add_stats = add_stats,
                                 .report = report } };
    who = options;
    log_set_sink(on_log);
    h.own_files = have_own_files(options->control);
    enum kiln_code rc = choose_role(&h, &err);
    if (rc == KILN_BUSY) {
        tell(&h, HOST_IS_LED, "", KILN_OK);
    } else {
        if (!rc)
            rc = open_and_serve(&h, &err);
        if (rc)
            tell(&h, HOST_FAILED, err.text, rc);
    }
    keeper_close(&h.keeper);
    loop_orphans_reap(KEEPER_ENDS_MS);
    listener_close(&h.listener);
    if (embedded_is_still(options->control, options->control_inode))
        close(options->control);
}
