/* SPDX-License-Identifier: MIT */
#include "common/base/paths.h"

#include "common/base/units.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct place {
    const char *root;
    const char *manager;
    const char *variable;
    const char *below_home;
    const char *what;
    const char *flag;
};

static const struct place cache = { "/var/cache/kiln", "CACHE_DIRECTORY", "XDG_CACHE_HOME",
                                    ".cache",          "cache",           "--cache-dir" };
static const struct place state = { "/var/lib/kiln", "STATE_DIRECTORY", "XDG_STATE_HOME",
                                    ".local/state",  "state",           "--state-dir" };
static const struct place config = { "/etc/kiln", "CONFIGURATION_DIRECTORY", "XDG_CONFIG_HOME",
                                     ".config",   "configuration",           NULL };

KILN_PRINTF(3, 4)
static enum kiln_code put_path(char path[PATH_TEXT_MAX], struct kiln_err *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int size = vsnprintf(path, PATH_TEXT_MAX, fmt, args);
    va_end(args);
    if (size < 0 || size >= PATH_TEXT_MAX)
        return kiln_fail(err, KILN_INVALID, "path '%.100s...' is longer than %d bytes", path,
                         PATH_TEXT_MAX - 1);
    return KILN_OK;
}

static const char *absolute_variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] == '/' ? value : NULL;
}

/* Returns NULL in a setuid program: the user who starts it must not choose the daemon whose kernels
 * the program runs. */
static const char *trusted_variable(const char *name)
{
    const char *value = secure_getenv(name);
    return value && value[0] ? value : NULL;
}

/* Returns whether the service manager itself started this process, whose pid is then the value of
 * SYSTEMD_EXEC_PID.  The unit's other variables do not show this: processes that the unit's process
 * starts inherit them, too. */
static bool is_of_a_unit(void)
{
    uint64_t pid;
    return units_parse_number(getenv("SYSTEMD_EXEC_PID"), INT_MAX, &pid) &&
           pid == (uint64_t)getpid();
}

static enum kiln_code find_directory(const struct place *place, char path[PATH_TEXT_MAX],
                                     struct kiln_err *err)
{
    const char *given = absolute_variable(place->manager);
    if (given && !strchr(given, ':') && is_of_a_unit())
        return put_path(path, err, "%s", given);
    if (geteuid() == 0)
        return put_path(path, err, "%s", place->root);
    const char *base = absolute_variable(place->variable);
    if (base)
        return put_path(path, err, "%s/kiln", base);
    const char *home = absolute_variable("HOME");
    if (!home)
        return kiln_fail(err, KILN_INVALID,
                         "no place for the %s directory: neither %s nor HOME is set%s%s",
                         place->what, place->variable, place->flag ? "; set one, or " : "",
                         place->flag ? place->flag : "");
    return put_path(path, err, "%s/%s/kiln", home, place->below_home);
}

enum kiln_code paths_cache_directory(char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    return find_directory(&cache, path, err);
}

enum kiln_code paths_state_directory(char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    return find_directory(&state, path, err);
}

static enum kiln_code user_directory(const struct place *place, const char *name,
                                     char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    const char *base = absolute_variable(place->variable);
    const char *home = absolute_variable("HOME");
    if (base)
        return put_path(path, err, "%s/kiln/%s", base, name);
    if (!home)
        return kiln_fail(err, KILN_INVALID,
                         "no place for the user's %s directory: neither %s nor HOME is set: set "
                         "one to an absolute path",
                         place->what, place->variable);
    return put_path(path, err, "%s/%s/kiln/%s", home, place->below_home, name);
}

enum kiln_code paths_private_cache(char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    return user_directory(&cache, "private", path, err);
}

enum kiln_code paths_private_state(char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    return user_directory(&state, "private", path, err);
}

enum kiln_code paths_traces(char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    return user_directory(&cache, "traces", path, err);
}

enum kiln_code paths_config_directory(char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    return find_directory(&config, path, err);
}

enum kiln_code paths_daemon_socket(char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    if (geteuid() == 0)
        return put_path(path, err, "/run/kiln/kilnd.sock");
    const char *runtime = trusted_variable("XDG_RUNTIME_DIR");
    if (runtime && runtime[0] == '/')
        return put_path(path, err, "%s/kiln/kilnd.sock", runtime);
    return put_path(path, err, "/run/user/%u/kiln/kilnd.sock", (unsigned)geteuid());
}

enum kiln_code paths_client_socket(char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    const char *named = trusted_variable("KILN_SOCKET");
    if (named)
        return put_path(path, err, "%s", named);
    enum kiln_code rc = paths_daemon_socket(path, err);
    struct stat seen;
    if (!rc && stat(path, &seen) == 0)
        return KILN_OK;
    return put_path(path, err, "/run/kiln/kilnd.sock");
}

static bool near_this_program(const char *relative, char path[PATH_TEXT_MAX])
{
    char self[PATH_TEXT_MAX];
    ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (size <= 0)
        return false;
    self[size] = '\0';
    char *slash = strrchr(self, '/');
    struct kiln_err ignored = KILN_ERR_INIT;
    if (!slash)
        return false;
    *slash = '\0';
    return put_path(path, &ignored, "%s/%s", self, relative) == KILN_OK && access(path, X_OK) == 0;
}

enum kiln_code paths_program(const char *name, const char *relative, const char *installed,
                             char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    if (near_this_program(name, path) || near_this_program(relative, path))
        return KILN_OK;
    if (access(installed, X_OK) == 0)
        return put_path(path, err, "%s", installed);
    return kiln_fail(
        err, KILN_NOT_FOUND,
        "cannot find '%s': looked in this program's directory, at '%s' from there, and at '%s'",
        name, relative, installed);
}
