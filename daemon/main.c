/* SPDX-License-Identifier: MIT */

/*
 * kilnd: the per-host service of compiled kernels.
 *
 *   main.c           flags, then daemon_run
 *   daemon.c         the order in which parts start and stop; signals
 *   serving.c        the serving core: loop, engine, processes, server
 *   start_wait.c     waits for the socket and the locks of a kilnd that was killed
 *   executor_uv.c    runs the engine's work on threads and in processes
 *   leave_job.c      undoes what a private kilnd inherits from its job
 *   host.c           what this process adds to 'status' and 'stats'; the engine's log
 *   describe.c       compilers and connections in 'status' and 'stats'
 *   config/          settings, and how SIGHUP reloads them
 *   manager/         the service manager: notification, inherited and stored sockets
 *   loop/            all of libuv: timers, descriptors, signals, processes, work queues
 *   server/          connections: listener, server, session, inbox, outbox, peer, account, closer
 *   workers/         processes: the pool of compilers, and transfers
 *   programs/        kiln-compiler, kiln-transfer and kiln-launch
 *   built_in/        compiles for the static build; not part of kilnd
 *
 * The engine (engine/engine.h) is the layer below.  It uses neither sockets nor the loop.
 * Exit status: 0 after a requested stop, 1 if kilnd could not start or no descriptor was free for
 * connections, 2 if flags or configuration are wrong.
 */
#include "common/log/log.h"
#include "daemon/config/config_check.h"
#include "daemon/daemon.h"
#include "daemon/leave_job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EXIT_USAGE 2

/* Logs in the default format, because the setting of the log's format could not be read.  Under
 * systemd, the message goes to the journal, where kilnctl doctor looks for it. */
static int refuse_config(const struct kiln_err *why)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    (void)!log_set_format(LOG_FORMAT_AUTO, &ignored);
    log_event(LOG_EVENT_configuration_refused, NULL, "%s", why->text);
    return EXIT_USAGE;
}

static int check_config(const struct config *config)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (config_check(config, &err))
        return refuse_config(&err);
    printf("the configuration is valid\n");
    for (int i = 0; i < CONFIG_KEYS; i++) {
        char text[PATH_TEXT_MAX];
        setting_print(&config_table[i], &config->entries[i].value, text, sizeof(text));
        printf("%-20s %-32s %s\n", config_table[i].key, text, config->entries[i].origin);
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct config config;
    struct kiln_err err = KILN_ERR_INIT;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--private") == 0)
            leave_job(); /* first, because defaults depend on the number of processors */
    }
    enum kiln_code rc =
        config_load(argc, (const char *const *)argv, (const char *const *)environ, &config, &err);
    if (rc)
        return refuse_config(&err);
    switch (config.request) {
    case CONFIG_HELP: config_print_help(); return EXIT_SUCCESS;
    case CONFIG_VERSION: printf("kilnd " KILN_VERSION "\n"); return EXIT_SUCCESS;
    case CONFIG_CHECK: return check_config(&config);
    case CONFIG_RUN: break;
    }
    log_set_level((enum log_level)config_number(&config, CONFIG_log_level));
    rc = log_set_format((enum log_format)config_number(&config, CONFIG_log_format), &err);
    if (rc)
        return refuse_config(&err);
    return daemon_run(&config, argc, (const char *const *)argv);
}
