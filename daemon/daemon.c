/* SPDX-License-Identifier: MIT */
#include "daemon/daemon.h"

#include "common/fs.h"
#include "common/log.h"
#include "daemon/descriptors.h"
#include "daemon/engine_settings.h"
#include "daemon/executor_uv.h"
#include "daemon/folders.h"
#include "daemon/host.h"
#include "daemon/kept_socket.h"
#include "daemon/loop/signals.h"
#include "daemon/manager.h"
#include "daemon/notify.h"
#include "daemon/reload.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>

/* Threads that read the stores: more would only wait for the disk. */
#define READERS 4
#define TICK_MS 1000
/* More would share one line to the same server. */
#define TRANSFERS_AT_ONCE 3
/* Of those: users' imports must not keep packages out. */
#define TRANSFERS_FOR_ADMINS 1
/* Of one user: they would wait for hours. */
#define TRANSFERS_WAITING_UID 16
/* A stalled one ends much sooner; this is for a server that only just keeps it going. */
#define TRANSFER_MOST_MS (24u * 3600 * 1000)
/* Longer than anything that does not tell: libcurl's stalls (a minute), a pause between two tries
 * (another), the sum or the sync of 8 GiB on a slow disk. */
#define TRANSFER_SILENCE_MS (10u * 60 * 1000)
/* A process that has nothing left to do but to end. */
#define TRANSFER_EXIT_MS 5000
/* While stopping: how often we look whether what runs has ended. */
#define DRAIN_TICK_MS 10

enum phase { PHASE_SERVING, PHASE_DRAINING, PHASE_CLOSING };

struct daemon {
    struct config *config; /* borrowed */
    struct loop *loop;     /* owned, like all below */
    struct lanes *lanes;
    struct listener listener;
    struct pool *pool;
    struct transfers *transfers;
    struct worker_user transfers_user;
    struct closer *closer;
    struct executor_uv executor;
    struct host host;
    struct engine *engine;
    struct server *server;
    struct loop_owner owner;
    struct loop_timer tick;
    struct loop_signal term, interrupt, hang_up;
    struct inherited inherited;
    struct manager manager;
    struct reload reload;
    enum phase phase;
    uint64_t deadline_ms; /* of draining */
};

/* ---- stop ---- */

static void on_server_closed(void *context)
{
    struct daemon *d = context;
    d->server = NULL;
}

static void on_pool_closed(void *context)
{
    struct daemon *d = context;
    d->pool = NULL;
}

static void on_transfers_closed(void *context)
{
    struct daemon *d = context;
    d->transfers = NULL;
}

/* Nothing of the engine is out any more: close in the reverse order of start.  The loop ends when
 * the last handle has closed. */
static void close_all(struct daemon *d)
{
    d->phase = PHASE_CLOSING;
    manager_keep_last(&d->manager);
    manager_close(&d->manager);
    d->manager.engine = NULL;
    d->host.server = NULL;
    d->host.pool = NULL;
    if (d->server)
        server_close(d->server, on_server_closed, d);
    if (d->engine)
        engine_close(d->engine);
    d->engine = NULL;
    if (d->pool)
        pool_close(d->pool, on_pool_closed, d);
    if (d->transfers)
        transfers_close(d->transfers, on_transfers_closed, d);
    executor_uv_close(&d->executor);
    loop_timer_close(&d->tick);
    loop_signal_close(&d->term);
    loop_signal_close(&d->interrupt);
    loop_signal_close(&d->hang_up);
}

static struct descriptor_shares share_descriptors(const struct config *c)
{
    return descriptors_share(
        (struct descriptor_shares){ .connections = (unsigned)config_number(c, CONFIG_connections),
                                    .hot_count = (unsigned)config_number(c, CONFIG_hot_count) });
}

static void give_up_running(struct daemon *d)
{
    server_drop_sessions(d->server);
    pool_stop(d->pool);
    transfers_stop(d->transfers);
}

static void on_drain_tick(struct loop_timer *timer)
{
    struct daemon *d = LOOP_OWNER_OF(struct daemon, tick, timer);
    bool late = loop_now_ms(d->loop) >= d->deadline_ms;
    server_check_times(d->server, loop_now_ms(d->loop));
    if (late)
        give_up_running(d);
    if (server_is_empty(d->server) && pool_out(d->pool) == 0 && transfers_out(d->transfers) == 0 &&
        engine_idle(d->engine) && !reload_is_under_way(&d->reload))
        close_all(d);
}

static void start_drain(struct daemon *d)
{
    uint64_t timeout_ms = config_number(d->config, CONFIG_drain_timeout);
    log_event(LOG_EVENT_stopping, NULL, "stopping: what runs may take %.0f s more",
              (double)timeout_ms / 1e3);
    manager_stopping(&d->manager, timeout_ms);
    d->phase = PHASE_DRAINING;
    d->deadline_ms = loop_now_ms(d->loop) + timeout_ms;
    reload_cancel(&d->reload);
    server_drain(d->server);
    listener_close(&d->listener);
    engine_drain(d->engine);
    d->tick.fire = on_drain_tick;
    loop_timer_start(&d->tick, 0, DRAIN_TICK_MS);
}

static void on_stop_signal(struct loop_signal *signal, int number)
{
    struct daemon *d = number == SIGTERM ? LOOP_OWNER_OF(struct daemon, term, signal)
                                         : LOOP_OWNER_OF(struct daemon, interrupt, signal);
    if (d->phase == PHASE_SERVING)
        start_drain(d);
    else
        d->deadline_ms = 0; /* asked twice: now */
}

/* ---- reload ---- */

static struct daemon *daemon_of(struct reload *reload)
{
    return LOOP_OWNER_OF(struct daemon, reload, reload);
}

/* All that config.def says may change NOW; drain_timeout is looked at when it counts. */
static enum kiln_code apply_config(struct reload *reload, const struct config *c,
                                   const struct peer_groups *groups, struct kiln_err *err)
{
    struct daemon *d = daemon_of(reload);
    struct engine_settings settings;
    enum kiln_code rc = log_set_format((enum log_format)config_number(c, CONFIG_log_format), err);
    if (rc)
        return rc;
    struct descriptor_shares shares = share_descriptors(c);
    engine_settings_of(c, shares.hot_count, &settings);
    engine_set_limits(d->engine, &settings.options);
    server_set_limits(d->server, shares.connections,
                      (unsigned)config_number(c, CONFIG_connections_per_uid));
    server_set_groups(d->server, groups);
    pool_set_timeout(d->pool, config_number(c, CONFIG_compile_timeout));
    log_set_level((enum log_level)config_number(c, CONFIG_log_level));
    return KILN_OK;
}

static void on_reload_begins(struct reload *reload)
{
    manager_reloading(&daemon_of(reload)->manager);
}

static void on_reload_ended(struct reload *reload, const char *note)
{
    struct daemon *d = daemon_of(reload);
    if (d->phase == PHASE_SERVING)
        manager_reloaded(&d->manager, note);
}

static void on_hang_up(struct loop_signal *signal, int number)
{
    (void)number;
    struct daemon *d = LOOP_OWNER_OF(struct daemon, hang_up, signal);
    if (d->phase == PHASE_SERVING)
        reload_begin(&d->reload);
}

/* ---- start ---- */

static void on_tick(struct loop_timer *timer)
{
    struct daemon *d = LOOP_OWNER_OF(struct daemon, tick, timer);
    engine_tick(d->engine);
    manager_tick(&d->manager);
    log_tell_withheld();
}

static enum kiln_code open_socket(struct daemon *d, struct kiln_err *err)
{
    const struct config *c = d->config;
    enum kiln_code rc = kept_socket_open(&d->inherited, config_text(c, CONFIG_socket),
                                         config_text(c, CONFIG_socket_group), &d->listener, err);
    return rc ? rc : config_use_socket(d->config, d->listener.path, d->listener.inherited, err);
}

static enum kiln_code make_state_folder(const struct daemon *d, struct kiln_err *err)
{
    const char *path = config_text(d->config, CONFIG_state_dir);
    const char *setting = geteuid() == 0 ? "--state-dir" : "--state-dir or XDG_STATE_HOME";
    enum kiln_code rc = folder_make(path, 0700, "the state folder", setting, err);
    char what[64];
    snprintf(what, sizeof(what), "the state folder (%s)", setting);
    return rc ? rc : fs_refuse_network(path, what, err);
}

static enum kiln_code find_user(const struct worker_kind *kind, const char *service,
                                const char *name, struct worker_user *ret_user,
                                struct kiln_err *err)
{
    return *service ? worker_user_of_service(kind, ret_user, err)
                    : worker_user_find(kind, name, ret_user, err);
}

static enum kiln_code open_pool(struct daemon *d, struct kiln_err *err)
{
    const struct config *c = d->config;
    struct worker_user user;
    const char *service = config_text(c, CONFIG_compiler_service);
    enum kiln_code rc =
        find_user(&worker_compilers, service, config_text(c, CONFIG_compiler_user), &user, err);
    if (rc)
        return rc;
    const struct pool_options options = {
        .loop = d->loop,
        .lanes = d->lanes,
        .program = config_text(c, CONFIG_compiler),
        .service = service,
        .temp_base = config_text(c, CONFIG_temp_dir),
        .user = user,
        .workers = (unsigned)config_number(c, CONFIG_workers),
        .require_sandbox = strcmp(config_text(c, CONFIG_sandbox), "require") == 0,
        .limits = { .cpu_s = (config_number(c, CONFIG_compile_cpu) + 999) / 1000,
                    .memory = config_number(c, CONFIG_compile_memory),
                    .output = config_number(c, CONFIG_compile_output),
                    .jobs = (unsigned)config_number(c, CONFIG_worker_jobs) },
        .timeout_ms = config_number(c, CONFIG_compile_timeout),
    };
    if (!*service)
        rc = folder_make(options.temp_base, temp_base_mode(&user), "the folder for temporary files",
                         "--temp-dir", err);
    if (!rc)
        rc = pool_create(&options, &d->pool, err);
    return rc;
}

static void init_executor(struct daemon *d)
{
    const struct executor_uv_parts parts = { .loop = d->loop,
                                             .owner = &d->owner,
                                             .lanes = d->lanes,
                                             .pool = d->pool,
                                             .transfers = d->transfers,
                                             .closer = d->closer };
    executor_uv_init(&d->executor, &parts);
}

static enum kiln_code open_transfers(struct daemon *d, struct kiln_err *err)
{
    const char *service = config_text(d->config, CONFIG_transfer_service);
    enum kiln_code rc =
        find_user(&worker_transfers, service, config_text(d->config, CONFIG_transfer_user),
                  &d->transfers_user, err);
    if (rc)
        return rc;
    const struct transfers_options options = {
        .user = d->transfers_user,
        .loop = d->loop,
        .lanes = d->lanes,
        .program = config_text(d->config, CONFIG_transfer),
        .service = service,
        .at_once = TRANSFERS_AT_ONCE,
        .for_admins = TRANSFERS_FOR_ADMINS,
        .waiting_most_uid = TRANSFERS_WAITING_UID,
        .timeout_ms = TRANSFER_MOST_MS,
        .silence_ms = TRANSFER_SILENCE_MS,
        .exit_ms = TRANSFER_EXIT_MS,
    };
    rc = transfers_create(&options, &d->transfers, err);
    if (!rc)
        rc = closer_create(&CLOSER_LIMITS_DEFAULT, &d->closer, err);
    if (!rc)
        init_executor(d);
    return rc;
}

static enum kiln_code open_engine(struct daemon *d, unsigned hot_count, struct kiln_err *err)
{
    struct engine_settings settings;
    engine_settings_of(d->config, hot_count, &settings);
    settings.options.executor = &d->executor.base;
    settings.options.host = &d->host.base;
    settings.options.readers = READERS;
    return engine_open(&settings.options, &d->engine, err);
}

static enum kiln_code open_server(struct daemon *d, unsigned connections, struct kiln_err *err)
{
    struct server_limits limits = SERVER_LIMITS_DEFAULT;
    limits.connections = connections;
    limits.connections_per_uid = (unsigned)config_number(d->config, CONFIG_connections_per_uid);
    const struct server_options options = { .loop = d->loop,
                                            .engine = d->engine,
                                            .listener = &d->listener,
                                            .closer = d->closer,
                                            .publish_group =
                                                config_text(d->config, CONFIG_publish_group),
                                            .limits = &limits };
    return server_create(&options, &d->server, err);
}

/* Whoever started us may have had them blocked, and one may be waiting already. */
static void let_signals_through(void)
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
    enum kiln_code rc =
        loop_signal_init(d->loop, &d->term, &d->owner, SIGTERM, on_stop_signal, err);
    if (!rc)
        rc = loop_signal_init(d->loop, &d->interrupt, &d->owner, SIGINT, on_stop_signal, err);
    if (!rc)
        rc = loop_signal_init(d->loop, &d->hang_up, &d->owner, SIGHUP, on_hang_up, err);
    if (!rc)
        let_signals_through();
    return rc;
}

static enum kiln_code start(struct daemon *d, struct kiln_err *err)
{
    const struct config *c = d->config;
    struct descriptor_shares shares = share_descriptors(c);
    enum kiln_code rc = loop_create(&d->loop, err);
    if (rc)
        return rc;
    loop_timer_init(d->loop, &d->tick, &d->owner, on_tick);
    manager_init(&d->manager, d->loop, &d->owner, &d->listener,
                 config_text(c, CONFIG_descriptor_store));
    rc = watch_signals(d, err); /* first: a stop before there is a socket leaves none behind */
    if (!rc)
        rc = open_socket(d, err);
    if (!rc)
        rc = lanes_create(d->loop, READERS, &d->lanes, err);
    if (!rc)
        rc = open_pool(d, err);
    if (!rc)
        rc = open_transfers(d, err);
    if (!rc)
        rc = make_state_folder(d, err);
    if (!rc)
        rc = open_engine(d, shares.hot_count, err);
    if (!rc)
        rc = open_server(d, shares.connections, err);
    return rc;
}

static void warn_of_root_only(const struct daemon *d)
{
    const char *group = config_text(d->config, CONFIG_socket_group);
    if (d->listener.root_only)
        log_event(LOG_EVENT_socket_root_only, NULL,
                  "there is no group '%s', so nobody but root can use '%s': run 'groupadd "
                  "--system %s' and 'usermod -aG %s USER', then start kilnd again, or name "
                  "another group with --socket-group",
                  group, d->listener.path, group, group);
}

static void tell_compilers_user(const struct daemon *d)
{
    struct worker_user user = pool_confinement(d->pool).user;
    if (user.other)
        log_event(LOG_EVENT_compilers_user, NULL, "compilers run as '%s' (uid %u)", user.name,
                  (unsigned)user.uid);
    else if (user.uid == 0)
        log_event(LOG_EVENT_compilers_as_root, NULL,
                  "compilers run as root: a source may quote what only root may read in folders "
                  "of the system; name another user with --compiler-user");
}

static void tell_transfers_user(const struct daemon *d)
{
    const struct worker_user *user = &d->transfers_user;
    struct worker_user compilers = pool_confinement(d->pool).user;
    if (user->other && compilers.other && compilers.uid == user->uid)
        log_event(LOG_EVENT_transfers_user, NULL,
                  "transfers run as '%s' (uid %u), as compilers do: 'useradd --system --shell "
                  "/usr/sbin/nologin %s' gives them a user of their own",
                  user->name, (unsigned)user->uid, worker_transfers.account);
    else if (user->other)
        log_event(LOG_EVENT_transfers_user, NULL, "transfers run as '%s' (uid %u)", user->name,
                  (unsigned)user->uid);
    else if (user->uid == 0)
        log_event(LOG_EVENT_transfers_as_root, NULL,
                  "transfers run as root: name another user with --transfer-user");
}

static void serve(struct daemon *d)
{
    d->host.pool = d->pool;
    d->host.server = d->server;
    d->manager.server = d->server;
    d->manager.engine = d->engine;
    manager_restore(&d->manager, &d->inherited);
    kept_socket_drop(&d->inherited);
    engine_start(d->engine);
    loop_timer_start(&d->tick, TICK_MS, TICK_MS);
    log_event(LOG_EVENT_started, NULL,
              "kilnd " KILN_VERSION " listens on '%s', pid %d, %u compiler processes",
              d->listener.path, (int)getpid(), pool_counts(d->pool).total);
    warn_of_root_only(d);
    tell_compilers_user(d);
    tell_transfers_user(d);
    manager_ready(&d->manager);
    loop_run(d->loop);
}

/* Queued replies come and go in pieces of a hundred KiB: given back to the system each time, every
 * one would cost its page faults anew.  What is kept for them is bounded, and small. */
#define MEMORY_KEPT (4 << 20)

static void keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, MEMORY_KEPT);
    mallopt(M_TRIM_THRESHOLD, MEMORY_KEPT);
}

static enum kiln_code begin(struct daemon *d, int argc, const char *const *argv,
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
        rc = start(d, err);
    d->reload.parts.lanes = d->lanes;
    return rc;
}

int daemon_run(struct config *config, int argc, const char *const *argv)
{
    struct daemon d = { .config = config, .listener = LISTENER_CLOSED };
    struct kiln_err err = KILN_ERR_INIT;
    signal(SIGPIPE, SIG_IGN); /* a log reader that went must not take us along */
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of the write, not our end */
    keep_memory();
    notify_adopt();
    host_init(&d.host, config, &d.listener, &d.reload, &d.manager);
    enum kiln_code rc = begin(&d, argc, argv, &err);
    if (rc)
        log_event(LOG_EVENT_start_failed, NULL, "cannot start: %s", err.text);
    else
        serve(&d);
    if (d.loop && d.phase != PHASE_CLOSING) {
        close_all(&d);
        loop_run(d.loop);
    }
    listener_close(&d.listener);
    closer_destroy(d.closer);
    lanes_destroy(d.lanes);
    loop_destroy(d.loop);
    inherited_done(&d.inherited);
    reload_done(&d.reload);
    if (!rc)
        log_event(LOG_EVENT_stopped, NULL, "stopped");
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
