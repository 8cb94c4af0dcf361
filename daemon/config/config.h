/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * kilnd's settings, each with its origin.  The table is daemon/config/config.def.
 *
 * Role       reads all sources of settings.  A later source in this list overrides the earlier
 *            ones:
 *              - the defaults;
 *              - kilnd.json, then the .json files of kilnd.json.d by name.  Both are in /etc/kiln
 *                for root, else in $XDG_CONFIG_HOME/kiln.  --config names one file instead of both;
 *              - the variables KILND_(KEY);
 *              - the flags.
 *            With --private, kilnd.json and kilnd.json.d are not read, and the directories
 *            are taken from private_directories.h
 * Ownership  a plain value
 * Threading  loaded by one thread; the active configuration is changed on the loop's thread
 *            (daemon/config/reload.h)
 */
#include "daemon/config/config_value.h"

#define CONFIG_ORIGIN_MAX (PATH_TEXT_MAX + 16)

enum config_key {
#define SETTING(key, type, applies, standard, rule, help) CONFIG_##key,
#include "daemon/config/config.def"
#undef SETTING
    CONFIG_KEYS
};

struct config_entry {
    struct setting_value value;
    /* "default", the path of a file, "variable KILND_X", "flag --x" or "LISTEN_FDS" */
    char origin[CONFIG_ORIGIN_MAX];
};

enum config_request { CONFIG_RUN, CONFIG_HELP, CONFIG_VERSION, CONFIG_CHECK };

struct config {
    struct config_entry entries[CONFIG_KEYS];
    enum config_request request;
    /* --private was given: kilnd serves one user and has separate directories. */
    bool is_private;
};

extern const struct setting config_table[CONFIG_KEYS];

/* |environment| has the form of environ(7).  On failure, the message names the wrong setting and
 * where it came from. */
KILN_MUST_CHECK enum kiln_code config_load(int argc, const char *const *argv,
                                           const char *const *environment,
                                           struct config *ret_config, struct kiln_err *err);
bool config_is_default(const struct config *config, enum config_key key);
uint64_t config_number(const struct config *config, enum config_key key);
const char *config_text(const struct config *config, enum config_key key);
/* Call it after the listening socket was chosen.  If the service manager opened the socket
 * (|inherited|), gives the setting "socket" the value |path|.  If temp_dir is not set, chooses a
 * directory next to the socket. */
KILN_MUST_CHECK enum kiln_code config_use_socket(struct config *config, const char *path,
                                                 bool inherited, struct kiln_err *err);
/* Returns {"value": text, "origin": text}, without the credentials of URLs; the caller owns it. */
struct json *config_describe(const struct config_entry *entry, enum config_key key);
void config_print_help(void);

KILN_MUST_CHECK enum kiln_code config_fill_defaults(struct config *config, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code config_make_private(struct config *config, struct kiln_err *err);
/* Write "--cache-dir" and "KILND_CACHE_DIR" for "cache_dir". */
void config_flag_name(const char *key, char name[64]);
void config_variable_name(const char *key, char name[64]);
