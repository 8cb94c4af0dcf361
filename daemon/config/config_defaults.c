/* SPDX-License-Identifier: MIT */
#include "daemon/config/config.h"

#include "common/protocol/private_directories.h"
#include "daemon/workers/worker_user.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#ifndef KILN_COMPILER_INSTALLED
#define KILN_COMPILER_INSTALLED "/usr/libexec/kiln/kiln-compiler"
#define KILN_COMPILER_FROM_KILND "../libexec/kiln/kiln-compiler"
#define KILN_TRANSFER_INSTALLED "/usr/libexec/kiln/kiln-transfer"
#define KILN_TRANSFER_FROM_KILND "../libexec/kiln/kiln-transfer"
#endif

/* CMake's -DKILN_CACHE_DIR sets this default of cache_dir.  If it is "", the default depends on the
 * user. */
#ifndef KILN_BUILT_CACHE_DIR
#define KILN_BUILT_CACHE_DIR ""
#endif
#ifndef KILN_BUILT_CACHE
#define KILN_BUILT_CACHE "on"
#endif

#define CACHE_MAX (20ull << 30)
#define PRIVATE_IDLE_EXIT_MS 60000
#define PRIVATE_DRAIN_MS 5000
#define CACHE_SHARE 10 /* the default is 1/CACHE_SHARE of the filesystem */
#define CACHE_UNIT (1ull << 20)

static bool is_unset(const struct config *c, enum config_key key)
{
    return config_is_default(c, key) && !*config_table[key].standard;
}

static uint64_t processors(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0 || CPU_COUNT(&allowed) < 1)
        return 1;
    return (uint64_t)CPU_COUNT(&allowed);
}

static void directory_of(const char *path, char directory[PATH_TEXT_MAX])
{
    snprintf(directory, PATH_TEXT_MAX, "%s", path);
    char *slash = strrchr(directory, '/');
    if (!slash)
        snprintf(directory, PATH_TEXT_MAX, ".");
    else if (slash == directory)
        slash[1] = '\0';
    else
        *slash = '\0';
}

static bool find_existing(const char *directory, char found[PATH_TEXT_MAX], struct stat *ret_seen)
{
    char path[PATH_TEXT_MAX];
    snprintf(found, PATH_TEXT_MAX, "%s", directory);
    while (stat(found, ret_seen) < 0) {
        if (errno != ENOENT || strcmp(found, ".") == 0 || strcmp(found, "/") == 0)
            return false;
        snprintf(path, sizeof(path), "%s", found);
        directory_of(path, found);
    }
    return true;
}

static uint64_t cache_limit_of(const char *directory)
{
    char found[PATH_TEXT_MAX];
    struct stat seen;
    struct statvfs fs;
    if (!find_existing(directory, found, &seen) || statvfs(found, &fs) < 0)
        return CACHE_MAX;
    uint64_t share = (uint64_t)fs.f_blocks * fs.f_frsize / CACHE_SHARE;
    share -= share % CACHE_UNIT;
    if (share < CACHE_UNIT)
        return CACHE_UNIT;
    return share < CACHE_MAX ? share : CACHE_MAX;
}

/* Returns whether kilnd can safely create files in |directory|.  In a world-writable directory
 * without the sticky bit, every user may rename kilnd's files. */
static bool takes_files(const char *directory, const struct worker_user *user)
{
    char found[PATH_TEXT_MAX];
    struct stat seen;
    return find_existing(directory, found, &seen) && S_ISDIR(seen.st_mode) &&
           (!(seen.st_mode & S_IWOTH) || (seen.st_mode & S_ISVTX)) &&
           faccessat(AT_FDCWD, found, W_OK | X_OK, AT_EACCESS) == 0 &&
           worker_user_may_enter(user, found);
}

static struct worker_user user_of(const struct config *c)
{
    struct worker_user user = { 0 };
    struct kiln_err ignored = KILN_ERR_INIT;
    if (worker_user_find(&worker_compilers, config_text(c, CONFIG_compiler_user), &user, &ignored))
        return (struct worker_user){ .other = false };
    return user;
}

static void fill_temp(struct config *c)
{
    char *directory = c->entries[CONFIG_temp_dir].value.text;
    const char *general = getenv("TMPDIR");
    struct worker_user user = user_of(c);
    directory_of(config_text(c, CONFIG_socket), directory);
    if (takes_files(directory, &user))
        return;
    bool named = general && general[0] == '/' && strlen(general) < PATH_TEXT_MAX;
    snprintf(directory, PATH_TEXT_MAX, "%s",
             named && takes_files(general, &user) ? general : "/tmp");
}

/* Does not fail if kiln-transfer is missing.  Without it, kilnd only rejects requests that need a
 * transfer. */
static void find_transfer(char path[PATH_TEXT_MAX])
{
    struct kiln_err ignored = KILN_ERR_INIT;
    if (paths_program("kiln-transfer", KILN_TRANSFER_FROM_KILND, KILN_TRANSFER_INSTALLED, path,
                      &ignored))
        snprintf(path, PATH_TEXT_MAX, "%s", KILN_TRANSFER_INSTALLED);
}

static void fill_keys(const char *name, char path[PATH_TEXT_MAX])
{
    char directory[PATH_TEXT_MAX];
    struct kiln_err ignored = KILN_ERR_INIT;
    if (paths_config_directory(directory, &ignored))
        snprintf(directory, sizeof(directory), "/etc/kiln");
    snprintf(path, PATH_TEXT_MAX, "%.*s/%s", PATH_TEXT_MAX - 32, directory, name);
}

static enum kiln_code fill_cache_directory(char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    snprintf(path, PATH_TEXT_MAX, "%s", KILN_BUILT_CACHE_DIR);
    return *path ? KILN_OK : paths_cache_directory(path, err);
}

static enum kiln_code fill_cache_mode(struct config *c, struct kiln_err *err)
{
    if (!config_is_default(c, CONFIG_cache))
        return KILN_OK;
    return setting_parse(&config_table[CONFIG_cache], KILN_BUILT_CACHE,
                         &c->entries[CONFIG_cache].value, err);
}

static enum kiln_code fill_user(struct config *c, enum config_key key,
                                const struct worker_kind *kind, struct kiln_err *err)
{
    const char *name = "";
    if (!is_unset(c, key) || geteuid() != 0)
        return KILN_OK;
    enum kiln_code rc = worker_user_standard(kind, &name, err);
    if (!rc)
        snprintf(c->entries[key].value.text, sizeof(c->entries[key].value.text), "%s", name);
    return rc;
}

static enum kiln_code fill_directories(struct config *c, struct kiln_err *err)
{
    struct config_entry *e = c->entries;
    enum kiln_code rc = KILN_OK;
    if (is_unset(c, CONFIG_socket))
        rc = paths_daemon_socket(e[CONFIG_socket].value.text, err);
    if (!rc && is_unset(c, CONFIG_cache_dir))
        rc = fill_cache_directory(e[CONFIG_cache_dir].value.text, err);
    if (!rc && is_unset(c, CONFIG_state_dir))
        rc = paths_state_directory(e[CONFIG_state_dir].value.text, err);
    if (!rc)
        rc = fill_user(c, CONFIG_compiler_user, &worker_compilers, err);
    if (!rc)
        rc = fill_user(c, CONFIG_transfer_user, &worker_transfers, err);
    if (!rc && is_unset(c, CONFIG_temp_dir))
        fill_temp(c);
    if (!rc && is_unset(c, CONFIG_compiler))
        rc = paths_program("kiln-compiler", KILN_COMPILER_FROM_KILND, KILN_COMPILER_INSTALLED,
                           e[CONFIG_compiler].value.text, err);
    if (!rc && is_unset(c, CONFIG_transfer))
        find_transfer(e[CONFIG_transfer].value.text);
    if (!rc && is_unset(c, CONFIG_trusted_keys))
        fill_keys("trusted-keys.d", e[CONFIG_trusted_keys].value.text);
    if (!rc && is_unset(c, CONFIG_fleet_keys))
        fill_keys("fleet-keys.d", e[CONFIG_fleet_keys].value.text);
    return rc;
}

/* Makes a path absolute, because compilers run in other directories.  The socket's path stays
 * relative: a socket's path has at most 107 bytes, so the absolute path may be too long. */
static enum kiln_code make_absolute(struct config *c, enum config_key key, struct kiln_err *err)
{
    char here[PATH_TEXT_MAX], whole[2 * PATH_TEXT_MAX];
    char *text = c->entries[key].value.text;
    if (config_table[key].type != SETTING_PATH || key == CONFIG_socket || text[0] == '/')
        return KILN_OK;
    if (!getcwd(here, sizeof(here)))
        return kiln_fail_errno(err, errno,
                               "cannot determine the working directory, to which %s is relative",
                               config_table[key].key);
    int size = snprintf(whole, sizeof(whole), "%s/%s", here, text);
    if (size < 0 || size >= PATH_TEXT_MAX)
        return kiln_fail(err, KILN_INVALID, "%s: '%s' is too long", config_table[key].key, text);
    memcpy(text, whole, (size_t)size + 1);
    return KILN_OK;
}

enum kiln_code config_fill_defaults(struct config *c, struct kiln_err *err)
{
    enum kiln_code rc = fill_directories(c, err);
    if (!rc)
        rc = fill_cache_mode(c, err);
    for (int i = 0; i < CONFIG_KEYS && !rc; i++)
        rc = make_absolute(c, (enum config_key)i, err);
    if (rc)
        return rc;
    if (is_unset(c, CONFIG_workers))
        c->entries[CONFIG_workers].value.number = processors();
    if (is_unset(c, CONFIG_cache_limit))
        c->entries[CONFIG_cache_limit].value.number =
            cache_limit_of(config_text(c, CONFIG_cache_dir));
    return KILN_OK;
}

static bool is_by_flag(const struct config *c, enum config_key key)
{
    return strncmp(c->entries[key].origin, "flag", 4) == 0;
}

static void set_private_text(struct config *c, enum config_key key, const char *text)
{
    if (is_by_flag(c, key))
        return;
    snprintf(c->entries[key].value.text, sizeof(c->entries[key].value.text), "%s", text);
    snprintf(c->entries[key].origin, sizeof(c->entries[key].origin), "--private");
}

static void set_private_number(struct config *c, enum config_key key, uint64_t number)
{
    if (!config_is_default(c, key))
        return;
    c->entries[key].value.number = number;
    snprintf(c->entries[key].origin, sizeof(c->entries[key].origin), "--private");
}

enum kiln_code config_make_private(struct config *c, struct kiln_err *err)
{
    struct private_directories directories;
    enum kiln_code rc = private_directories_find(&directories, err);
    if (rc)
        return rc;
    set_private_text(c, CONFIG_cache_dir, directories.cache);
    set_private_text(c, CONFIG_state_dir, directories.state);
    set_private_text(c, CONFIG_socket, directories.socket);
    set_private_text(c, CONFIG_descriptor_store, "off");
    set_private_number(c, CONFIG_idle_exit, PRIVATE_IDLE_EXIT_MS);
    set_private_number(c, CONFIG_drain_timeout, PRIVATE_DRAIN_MS);
    return KILN_OK;
}

enum kiln_code config_use_socket(struct config *c, const char *path, bool inherited,
                                 struct kiln_err *err)
{
    struct config_entry *socket = &c->entries[CONFIG_socket];
    if (inherited) {
        snprintf(socket->value.text, sizeof(socket->value.text), "%s", path);
        snprintf(socket->origin, sizeof(socket->origin), "LISTEN_FDS");
    }
    if (is_unset(c, CONFIG_temp_dir))
        fill_temp(c);
    return make_absolute(c, CONFIG_temp_dir, err);
}

void config_print_help(void)
{
    printf(
        "usage: kilnd [flags]\n\n"
        "Serves compiled kernels to the processes of this host.\n\n"
        "  --help          print this help and exit\n"
        "  --version       print the version and exit\n"
        "  --private       serve one user from directories below ~/.cache and ~/.local/state,\n"
        "                  without kilnd.json; libkiln starts kilnd so if no other one answers\n"
        "  --check-config  read the configuration, report errors in it, and exit\n"
        "  --config FILE   read FILE instead of kilnd.json and kilnd.json.d/*.json in /etc/kiln\n"
        "                  (root) or $XDG_CONFIG_HOME/kiln (variable KILND_CONFIG)\n\n"
        "Every setting is a flag, a variable and a key of the configuration file.\n\n");
    for (int i = 0; i < CONFIG_KEYS; i++) {
        const struct setting *s = &config_table[i];
        char flag[64], variable[64];
        config_flag_name(s->key, flag);
        config_variable_name(s->key, variable);
        printf("  %s, %s, \"%s\"\n      %s", flag, variable, s->key, s->help);
        if (*s->standard)
            printf(" (default: %s)", s->standard);
        if (*s->rule)
            printf(" [%s]", s->rule);
        printf("\n");
    }
}
