/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where things are by default.  Root: /run/kiln, /var/cache/kiln, /var/lib/kiln, /etc/kiln.
 * Others: $XDG_RUNTIME_DIR/kiln, $XDG_CACHE_HOME/kiln, $XDG_STATE_HOME/kiln, $XDG_CONFIG_HOME/kiln,
 * with the XDG defaults below $HOME; without XDG_RUNTIME_DIR, /run/user/<uid>.  A unit's process
 * has the directories that its unit names (CacheDirectory=, StateDirectory=,
 * ConfigurationDirectory=). A setuid program's sockets are where they are without variables.
 */
#include "common/err.h"

#include <stddef.h>

#define PATH_TEXT_MAX 512

/* The socket a daemon of this user listens on. */
KILN_MUST_CHECK enum kiln_code paths_daemon_socket(char path[PATH_TEXT_MAX], struct kiln_err *err);
/* The socket a client connects to: $KILN_SOCKET; else the user's own daemon's where that file
 * exists; else the system's. */
KILN_MUST_CHECK enum kiln_code paths_client_socket(char path[PATH_TEXT_MAX], struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code paths_cache_directory(char path[PATH_TEXT_MAX],
                                                     struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code paths_state_directory(char path[PATH_TEXT_MAX],
                                                     struct kiln_err *err);
/* Of a user's private kilnd (common/private_directories.h), root's too: in XDG's directory, else in
 * the one below HOME. */
KILN_MUST_CHECK enum kiln_code paths_private_cache(char path[PATH_TEXT_MAX], struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code paths_private_state(char path[PATH_TEXT_MAX], struct kiln_err *err);
/* Directory of kilnd.json. */
KILN_MUST_CHECK enum kiln_code paths_config_directory(char path[PATH_TEXT_MAX],
                                                      struct kiln_err *err);
/* A program of ours (kiln-compiler): beside the running one, as in a build directory; else at
 * |relative| from its directory, as in an installed tree that was moved; else |installed|. */
KILN_MUST_CHECK enum kiln_code paths_program(const char *name, const char *relative,
                                             const char *installed, char path[PATH_TEXT_MAX],
                                             struct kiln_err *err);
