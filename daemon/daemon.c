/* SPDX-License-Identifier: MIT */
#include "daemon/daemon.h"

#include "common/base/fs.h"
#include "common/base/subordinate_uids.h"
#include "common/log/log.h"
#include "daemon/config/config_check.h"
#include "daemon/config/directories.h"
#include "daemon/config/engine_settings.h"
#include "daemon/config/reload.h"
#include "daemon/free_memory.h"
#include "daemon/host.h"
#include "daemon/loop/signals.h"
#include "daemon/manager/listening_socket.h"
#include "daemon/manager/manager.h"
#include "daemon/manager/notify.h"
#include "daemon/server/descriptors.h"
#include "daemon/serving.h"
#include "daemon/start_wait.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>

#define READERS 4
/* Time after which kilnd exits if it has no client and no free descriptor to accept one. */
#define STARVED_MAX_MS 10000

struct daemon {
    struct config *config;
    struct serving serving;
    struct listener listener;
    struct config_users users;
    struct host host;
    struct loop_signal term, interrupt, hang_up;
    struct inherited inherited;
    struct manager manager;
    struct reload reload;
    struct free_memory free_memory;
    bool failed;
    uint64_t busy_ms; /* when kilnd last had clients or work */
};

static struct daemon *daemon_of(struct serving *serving)
{
    return LOOP_OWNER_OF(struct daemon, serving, serving);
}

static void on_closing(struct serving *serving)
{
    struct daemon *d = daemon_of(serving);
    manager_close(&d->manager);
    d->manager.engine = NULL;
    d->host.server = NULL;
    d->host.pool = NULL;
    loop_signal_close(&d->term);
    loop_signal_close(&d->interrupt);
    loop_signal_close(&d->hang_up);
}

static bool is_reloading(struct serving *serving)
{
    return reload_is_under_way(&daemon_of(serving)->reload);
}

static struct descriptor_shares share_descriptors(const struct config *c)
{
    return descriptors_share(
        (struct descriptor_shares){ .connections = (unsigned)config_number(c, CONFIG_connections),
                                    .hot_count = (unsigned)config_number(c, CONFIG_hot_count),
                                    .workers = (unsigned)config_number(c, CONFIG_workers) });
}

static void start_drain(struct daemon *d, const char *why)
{
    uint64_t timeout_ms = config_number(d->config, CONFIG_drain_timeout);
    log_event(LOG_EVENT_stopping, NULL, "stopping%s: running work may take %.0f s more", why,
              (double)timeout_ms / 1e3);
    manager_stopping(&d->manager, timeout_ms);
    reload_cancel(&d->reload);
    serving_drain(&d->serving, timeout_ms);
    listener_close(&d->listener);
}

static void on_stop_signal(struct loop_signal *signal, int number)
{
    struct daemon *d = number == SIGTERM ? LOOP_OWNER_OF(struct daemon, term, signal)
                                         : LOOP_OWNER_OF(struct daemon, interrupt, signal);
    if (d->serving.phase == SERVING_RUNS)
        start_drain(d, "");
    else
        serving_hurry(&d->serving);
}

static struct daemon *reloaded(struct reload *reload)
{
    return LOOP_OWNER_OF(struct daemon, reload, reload);
}

/* Applies all settings that config.def marks NOW, except drain_timeout, which kilnd reads when it
 * stops. */
static enum kiln_code apply_config(struct reload *reload, const struct config *c,
                                   const struct peer_groups *groups, struct kiln_err *err)
{
    struct daemon *d = reloaded(reload);
    struct engine_settings settings;
    enum kiln_code rc = log_set_format((enum log_format)config_number(c, CONFIG_log_format), err);
    if (rc)
        return rc;
    struct descriptor_shares shares = share_descriptors(c);
    engine_settings_of(c, shares.hot_count, &settings);
    engine_set_limits(d->serving.engine, &settings.options);
    server_set_limits(d->serving.server, shares.connections,
                      (unsigned)config_number(c, CONFIG_connections_per_uid));
    server_set_groups(d->serving.server, groups);
    pool_set_timeout(d->serving.pool, config_number(c, CONFIG_compile_timeout));
    log_set_level((enum log_level)config_number(c, CONFIG_log_level));
    return KILN_OK;
}

static void on_reload_begins(struct reload *reload)
{
    manager_reloading(&reloaded(reload)->manager);
}

static void on_reload_ended(struct reload *reload, const char *note)
{
    struct daemon *d = reloaded(reload);
    if (d->serving.phase == SERVING_RUNS)
        manager_reloaded(&d->manager, note);
}

static void on_hang_up(struct loop_signal *signal, int number)
{
    (void)number;
    struct daemon *d = LOOP_OWNER_OF(struct daemon, hang_up, signal);
    if (d->serving.phase == SERVING_RUNS)
        reload_begin(&d->reload);
}

static void stop_when_idle(struct daemon *d)
{
    uint64_t limit_ms = config_number(d->config, CONFIG_idle_exit);
    uint64_t now_ms = loop_now_ms(d->serving.loop);
    if (!limit_ms || d->serving.phase != SERVING_RUNS)
        return;
    const struct serving *s = &d->serving;
    if (!server_is_empty(s->server) || pool_out(s->pool) > 0 || transfers_out(s->transfers) > 0)
        d->busy_ms = now_ms;
    else if (now_ms - d->busy_ms >= limit_ms)
        start_drain(d, ", as it has no clients");
}

/* Stops a private kilnd whose socket file is gone, for example because the user deleted the cache
 * directory.  Clients start a new kilnd once this one has ended. */
static void stop_when_unreachable(struct daemon *d)
{
    if (d->config->is_private && d->serving.phase == SERVING_RUNS &&
        !listener_is_reachable(&d->listener))
        start_drain(d, ", as its socket was deleted");
}

/* Stops kilnd if it has no client and no free descriptor for one, so that the service manager
 * starts a new process.  The new process may have more descriptors, for example because an
 * administrator has raised the limit. */
static void stop_without_descriptors(struct daemon *d)
{
    const struct serving *s = &d->serving;
    if (s->phase != SERVING_RUNS ||
        server_starved_ms(s->server, loop_now_ms(s->loop)) < STARVED_MAX_MS)
        return;
    log_event(LOG_EVENT_descriptors_gone, NULL,
              "kilnd has had no client and no free descriptor for a connection for %u s: it exits "
              "with status 1; raise its limit of open files (LimitNOFILE=)",
              STARVED_MAX_MS / 1000);
    d->failed = true;
    start_drain(d, ", as it cannot accept connections");
}

static void return_free_memory(struct daemon *d)
{
    const struct serving *s = &d->serving;
    const struct engine_waiting waiting = engine_waiting(s->engine);
    const uint64_t unread = s->server ? server_bytes(s->server) : 0;
    free_memory_tick(&d->free_memory, waiting.peak + unread, waiting.now + unread);
}

static void on_tick(struct serving *serving)
{
    struct daemon *d = daemon_of(serving);
    return_free_memory(d);
    manager_tick(&d->manager);
    log_report_withheld();
    stop_without_descriptors(d);
    stop_when_unreachable(d);
    stop_when_idle(d);
}

static enum kiln_code open_socket(void *context, struct kiln_err *err)
{
    struct daemon *d = context;
    const struct config *c = d->config;
    enum kiln_code rc =
        c->is_private
            ? listening_socket_open_private(config_text(c, CONFIG_socket), &d->listener, err)
            : listening_socket_open(&d->inherited, config_text(c, CONFIG_socket),
                                    config_text(c, CONFIG_socket_group), &d->listener, err);
    bool is_managers = d->listener.inherited && !c->is_private;
    return rc ? rc : config_use_socket(d->config, d->listener.path, is_managers, err);
}

static enum kiln_code make_state_directory(const struct daemon *d, struct kiln_err *err)
{
    const char *path = config_text(d->config, CONFIG_state_dir);
    const char *setting = geteuid() == 0 ? "--state-dir" : "--state-dir or XDG_STATE_HOME";
    enum kiln_code rc = directory_make(path, 0700, "the state directory", setting, err);
    char what[64];
    snprintf(what, sizeof(what), "the state directory (%s)", setting);
    return rc ? rc : fs_refuse_network(path, what, err);
}

static enum kiln_code find_users(struct daemon *d, struct kiln_err *err)
{
    const struct config *c = d->config;
    enum kiln_code rc = c->is_private ? KILN_OK : subordinate_uids_read("/etc/subuid", err);
    return rc ? rc : config_find_users(c, &d->users, err);
}

static enum kiln_code make_directories(const struct daemon *d, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (!*config_text(d->config, CONFIG_compiler_service))
        rc = directory_make(config_text(d->config, CONFIG_temp_dir),
                            temp_base_mode(&d->users.compilers),
                            "the directory for temporary files", "--temp-dir", err);
    return rc ? rc : make_state_directory(d, err);
}

static struct pool_options pool_options_of(const struct daemon *d)
{
    const struct config *c = d->config;
    return (struct pool_options){
        .program = config_text(c, CONFIG_compiler),
        .service = config_text(c, CONFIG_compiler_service),
        .temp_base = config_text(c, CONFIG_temp_dir),
        .user = d->users.compilers,
        .workers = (unsigned)config_number(c, CONFIG_workers),
        .require_sandbox = strcmp(config_text(c, CONFIG_sandbox), "require") == 0,
        .limits = { .cpu_s = (config_number(c, CONFIG_compile_cpu) + 999) / 1000,
                    .memory = config_number(c, CONFIG_compile_memory),
                    .output = config_number(c, CONFIG_compile_output),
                    .jobs = (unsigned)config_number(c, CONFIG_worker_jobs) },
        .timeout_ms = config_number(c, CONFIG_compile_timeout),
    };
}

static struct transfers_options transfers_options_of(const struct daemon *d)
{
    struct transfers_options options = TRANSFERS_STANDARD;
    options.user = d->users.transfers;
    options.program = config_text(d->config, CONFIG_transfer);
    options.service = config_text(d->config, CONFIG_transfer_service);
    return options;
}

static struct fleet_process_options fleet_options_of(const struct daemon *d)
{
    const struct config *c = d->config;
    return (struct fleet_process_options){ .program = config_text(c, CONFIG_transfer),
                                           .service = config_text(c, CONFIG_transfer_service),
                                           .url = config_text(c, CONFIG_fleet),
                                           .writes = *config_text(c, CONFIG_fleet_builder) != 0,
                                           .user = d->users.transfers };
}

static enum kiln_code open_serving(struct daemon *d, struct kiln_err *err)
{
    const struct config *c = d->config;
    struct descriptor_shares shares = share_descriptors(c);
    struct engine_settings settings;
    engine_settings_of(c, shares.hot_count, &settings);
    settings.options.host = &d->host.base;
    struct server_limits limits = SERVER_LIMITS_DEFAULT;
    limits.connections = shares.connections;
    limits.connections_per_uid = (unsigned)config_number(c, CONFIG_connections_per_uid);
    const struct pool_options pool = pool_options_of(d);
    const struct transfers_options transfers = transfers_options_of(d);
    const struct fleet_process_options fleet = fleet_options_of(d);
    const struct serving_options options = { .readers = READERS,
                                             .pool = &pool,
                                             .transfers = &transfers,
                                             .fleet = *fleet.url ? &fleet : NULL,
                                             .engine = &settings.options,
                                             .limits = &limits,
                                             .listener = &d->listener,
                                             .own_user_only = c->is_private,
                                             .publish_group =
                                                 config_text(c, CONFIG_publish_group) };
    return serving_open(&d->serving, &options, err);
}

static void unblock_signals(void)
{
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGHUP);
    sigprocmask(SIG_UNBLOCK, &watched, NULL);
}

static enum kiln_code watch_signals(struct daemon *d, struct kiln_err *err)
{
    struct loop *loop = d->serving.loop;
    struct loop_owner *owner = &d->serving.owner;
    d->term.received = on_stop_signal;
    d->interrupt.received = on_stop_signal;
    d->hang_up.received = on_hang_up;
    enum kiln_code rc = loop_signal_init(loop, &d->term, owner, SIGTERM, err);
    if (!rc)
        rc = loop_signal_init(loop, &d->interrupt, owner, SIGINT, err);
    if (!rc)
        rc = loop_signal_init(loop, &d->hang_up, owner, SIGHUP, err);
    if (!rc)
        unblock_signals();
    return rc;
}

static enum kiln_code start_parts(struct daemon *d, struct kiln_err *err)
{
    const struct config *c = d->config;
    d->serving.ticked = on_tick;
    d->serving.is_busy = is_reloading;
    d->serving.closing = on_closing;
    enum kiln_code rc = serving_begin(&d->serving, err);
    if (rc)
        return rc;
    manager_init(&d->manager, d->serving.loop, &d->serving.owner, &d->listener,
                 config_text(c, CONFIG_descriptor_store));
    rc = watch_signals(d, err);
    if (!rc)
        rc = start_wait(open_socket, d, err);
    if (!rc)
        rc = find_users(d, err);
    if (!rc)
        rc = make_directories(d, err);
    return rc ? rc : open_serving(d, err);
}

static void warn_of_root_only(const struct daemon *d)
{
    const char *group = config_text(d->config, CONFIG_socket_group);
    if (d->listener.root_only)
        log_event(LOG_EVENT_socket_root_only, NULL,
                  "the group '%s' does not exist, so only root can use '%s': run 'groupadd "
                  "--system %s' and 'usermod -aG %s USER', then start kilnd again, or name "
                  "another group with --socket-group",
                  group, d->listener.path, group, group);
}

static void report_compilers_user(const struct daemon *d)
{
    struct worker_user user = pool_confinement(d->serving.pool).user;
    if (user.other)
        log_event(LOG_EVENT_compilers_user, NULL, "compilers run as '%s' (uid %u)", user.name,
                  (unsigned)user.uid);
    else if (user.uid == 0)
        log_event(
            LOG_EVENT_compilers_as_root, NULL,
            "compilers run as root: a client's source can include system files that only root may "
            "read; name another user with --compiler-user");
}

static void report_transfers_user(const struct daemon *d)
{
    const struct worker_user *user = &d->users.transfers;
    if (user->other)
        log_event(LOG_EVENT_transfers_user, NULL, "transfers run as '%s' (uid %u)", user->name,
                  (unsigned)user->uid);
    else if (user->uid == 0)
        log_event(LOG_EVENT_transfers_as_root, NULL,
                  "transfers run as root: name another user with --transfer-user");
}

static void run_until_stopped(struct daemon *d)
{
    const struct serving *s = &d->serving;
    d->busy_ms = loop_now_ms(s->loop);
    d->host.pool = s->pool;
    d->host.server = s->server;
    d->manager.server = s->server;
    d->manager.engine = s->engine;
    d->manager.work_queues = s->work_queues;
    listening_socket_drop_unused(&d->inherited);
    serving_start(&d->serving);
    log_event(LOG_EVENT_started, NULL,
              "kilnd " KILN_VERSION " listens on '%s', pid %d, %u compiler processes",
              d->listener.path, (int)getpid(), pool_counts(s->pool).total);
    warn_of_root_only(d);
    report_compilers_user(d);
    report_transfers_user(d);
    manager_ready(&d->manager);
    loop_run(s->loop);
}

/* Bytes of freed memory that malloc keeps for later.  Queued replies are allocated and freed in
 * pieces of about 100 KiB.  If free(3) returned each piece to the system, the next allocation would
 * cause page faults. */
#define MEMORY_KEPT (4 << 20)

static void keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, MEMORY_KEPT);
    mallopt(M_TRIM_THRESHOLD, MEMORY_KEPT);
}

static enum kiln_code begin_serving(struct daemon *d, int argc, const char *const *argv,
                                    struct kiln_err *err)
{
    const struct reload_parts parts = { .config = d->config,
                                        .argc = argc,
                                        .argv = argv,
                                        .apply = apply_config,
                                        .begins = on_reload_begins,
                                        .ended = on_reload_ended };
    enum kiln_code rc = inherited_take(&d->inherited, err);
    if (!rc)
        rc = reload_init(&d->reload, &parts, err);
    if (!rc)
        rc = start_parts(d, err);
    d->reload.parts.work_queues = d->serving.work_queues;
    return rc;
}

int daemon_run(struct config *config, int argc, const char *const *argv)
{
    struct daemon d = { .config = config, .listener = LISTENER_CLOSED };
    struct kiln_err err = KILN_ERR_INIT;
    signal(SIGCHLD, SIG_DFL); /* if SIGCHLD is ignored, the exit statuses of workers are lost */
    signal(SIGPIPE, SIG_IGN); /* writing the log must not end kilnd if the log's reader exits */
    signal(SIGXFSZ, SIG_IGN);
    keep_memory();
    notify_adopt();
    host_init(&d.host, config, &d.listener, &d.reload);
    enum kiln_code rc = begin_serving(&d, argc, argv, &err);
    if (rc)
        log_event(LOG_EVENT_start_failed, NULL, "cannot start: %s", err.text);
    else
        run_until_stopped(&d);
    if (d.serving.loop && d.serving.phase != SERVING_CLOSES) {
        serving_close(&d.serving);
        loop_run(d.serving.loop);
    }
    listener_close(&d.listener);
    serving_end(&d.serving);
    inherited_done(&d.inherited);
    reload_done(&d.reload);
    if (!rc)
        log_event(LOG_EVENT_stopped, NULL, "stopped");
    return rc || d.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
