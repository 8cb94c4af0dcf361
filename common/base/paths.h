/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Default paths.  For root, they are /run/kiln, /var/cache/kiln, /var/lib/kiln, /etc/kiln.  For
 * other users, they are $XDG_RUNTIME_DIR/kiln, $XDG_CACHE_HOME/kiln, $XDG_STATE_HOME/kiln,
 * $XDG_CONFIG_HOME/kiln, with the XDG defaults below $HOME.  The default of XDG_RUNTIME_DIR is
 * /run/user/<uid>. A process of a systemd unit uses the directories that its unit names
 * (CacheDirectory=, StateDirectory=, ConfigurationDirectory=).  A setuid program ignores all
 * environment variables when it looks for sockets.
 *
 * Threading  pure functions of the environment and the filesystem; may block
 */
#include "common/base/err.h"

#include <stddef.h>

#define PATH_TEXT_MAX 512

KILN_MUST_CHECK enum kiln_code paths_daemon_socket(char path[PATH_TEXT_MAX], struct kiln_err *err);
/* Returns the path of the socket to which a client connects: $KILN_SOCKET, else the socket of the
 * user's own daemon if the file exists, else the system's socket. */
KILN_MUST_CHECK enum kiln_code paths_client_socket(char path[PATH_TEXT_MAX], struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code paths_cache_directory(char path[PATH_TEXT_MAX],
                                                     struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code paths_state_directory(char path[PATH_TEXT_MAX],
                                                     struct kiln_err *err);
/* The directories of a user's private kilnd (common/protocol/private_directories.h): XDG's
 * directory, else the default below $HOME.  Root has the same defaults. */
KILN_MUST_CHECK enum kiln_code paths_private_cache(char path[PATH_TEXT_MAX], struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code paths_private_state(char path[PATH_TEXT_MAX], struct kiln_err *err);
/* The directory of the user's traces (trace_file.h), below XDG's cache directory or its default. */
KILN_MUST_CHECK enum kiln_code paths_traces(char path[PATH_TEXT_MAX], struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code paths_config_directory(char path[PATH_TEXT_MAX],
                                                      struct kiln_err *err);
/* Finds the program |name|: looks first in the running program's directory (for a build directory),
 * then at |relative| from there (for an installed tree that was moved), then at |installed|. */
KILN_MUST_CHECK enum kiln_code paths_program(const char *name, const char *relative,
                                             const char *installed, char path[PATH_TEXT_MAX],
                                             struct kiln_err *err);
