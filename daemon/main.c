/* SPDX-License-Identifier: MIT */

/*
 * kilnd: the per-host service of compiled kernels.
 *
 *   main.c           flags, then daemon_run
 *   daemon.c         what starts and stops in which order; signals
 *   config.def       every setting: one table for file, variables, flags, help
 *   config.c         where settings come from; config_value.c reads and prints them
 *   config_defaults.c  those that depend on the host
 *   describe.c       compilers and connections in 'status' and 'stats'
 *   descriptors.c    open files divided between connections and hot set
 *   engine_settings.c  settings as the engine's options
 *   reload.c         SIGHUP: settings read anew
 *   host.c           what this process adds to 'status' and 'stats'; reports into the log
 *   inherited.c      descriptors that the service manager started us with
 *   kept_socket.c    which socket: the manager's, one that it kept, or a new one
 *   manager.c        what it is told, and what it keeps for the next kilnd
 *   notify.c         how it is told
 *   executor_uv.c    the engine's work onto lanes and compilers
 *
 *   loop/            all of libuv: loop, timer, watch, signals, process, lanes
 *   server/          listener    the socket: made, inherited, taken over, refused
 *                    server      accepts, counts, refuses, sweeps
 *                    session     one connection; frames in, replies out
 *                    inbox       frames out of a byte stream
 *                    outbox      replies into a socket
 *                    peer        who is at the other end
 *                    account     what one user holds
 *   workers/         pool        which compiler gets which job; restarts
 *                    worker      one kiln-compiler process; its states: worker_state
 *                    worker_end  why one ended, in words
 *                    worker_user  whom compilers and transfers run as
 *                    worker_process  one as our child, or in a unit of its own: launch,
 *                                    kiln_launch.c
 *                    take_file   another user's file becomes ours
 *                    temp_folder
 *                    kiln_compiler.c  that program itself; what it does: engine/compile/worker.c
 *
 * Below is the engine (engine/engine.h), which knows no socket and no loop.
 * Exit status: 0 stopped when asked to, 1 could not start, 2 flags or configuration wrong.
 */
#include "common/fs.h"
#include "common/log.h"
#include "daemon/daemon.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EXIT_USAGE 2

/* One that is not there yet is on the filesystem of the nearest directory that is. */
static enum kiln_code check_directory(const struct config *config, int key, struct kiln_err *err)
{
    char path[PATH_TEXT_MAX];
    snprintf(path, sizeof(path), "%s", config_text(config, key));
    while (access(path, F_OK) != 0 && errno == ENOENT && strcmp(path, "/") != 0 &&
           strcmp(path, ".") != 0) {
        const char *above = dirname(path);
        memmove(path, above, strlen(above) + 1);
    }
    return fs_refuse_network(path, config_table[key].key, err);
}

static int check(const struct config *config)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (check_directory(config, CONFIG_cache_dir, &err) ||
        check_directory(config, CONFIG_state_dir, &err)) {
        log_event(LOG_EVENT_configuration_refused, NULL, "%s", err.text);
        return EXIT_USAGE;
    }
    printf("configuration is fine\n");
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
    enum kiln_code rc =
        config_load(argc, (const char *const *)argv, (const char *const *)environ, &config, &err);
    if (rc) {
        log_event(LOG_EVENT_configuration_refused, NULL, "%s", err.text);
        return EXIT_USAGE;
    }
    switch (config.request) {
    case CONFIG_HELP: config_print_help(); return EXIT_SUCCESS;
    case CONFIG_VERSION: printf("kilnd " KILN_VERSION "\n"); return EXIT_SUCCESS;
    case CONFIG_CHECK: return check(&config);
    case CONFIG_RUN: break;
    }
    log_set_level((enum log_level)config_number(&config, CONFIG_log_level));
    rc = log_set_format((enum log_format)config_number(&config, CONFIG_log_format), &err);
    if (rc) {
        log_event(LOG_EVENT_configuration_refused, NULL, "%s", err.text);
        return EXIT_USAGE;
    }
    return daemon_run(&config, argc, (const char *const *)argv);
}
