/* SPDX-License-Identifier: MIT */
#include "daemon/config/engine_settings.h"

#include <stdio.h>
#include <string.h>

static enum kernel_store_mode store_mode(const struct config *c)
{
    const char *word = config_text(c, CONFIG_cache);
    return strcmp(word, "off") == 0         ? KERNEL_STORE_OFF
           : strcmp(word, "read-only") == 0 ? KERNEL_STORE_READ_ONLY
                                            : KERNEL_STORE_ON;
}

static enum tuning_stale tuning_stale(const struct config *c)
{
    const char *word = config_text(c, CONFIG_tuning_stale);
    return strcmp(word, "trust") == 0    ? TUNING_TRUST
           : strcmp(word, "ignore") == 0 ? TUNING_IGNORE
                                         : TUNING_WARN;
}

static void split_path(char *path, const char *ret_directories[PACKAGE_DIRECTORIES_MAX + 1])
{
    size_t count = 0;
    char *rest = NULL;
    for (char *at = strtok_r(path, ":", &rest); at; at = strtok_r(NULL, ":", &rest)) {
        if (count < PACKAGE_DIRECTORIES_MAX)
            ret_directories[count++] = at;
    }
    ret_directories[count] = NULL;
}

static uint64_t held_limit(const struct config *c)
{
    uint64_t hot = config_number(c, CONFIG_hot_limit);
    return hot > LIMIT_CODE_OBJECT ? hot : LIMIT_CODE_OBJECT;
}

void engine_settings_of(const struct config *c, unsigned hot_count, struct engine_settings *s)
{
    snprintf(s->packages, sizeof(s->packages), "%s/packages", config_text(c, CONFIG_state_dir));
    snprintf(s->path, sizeof(s->path), "%s", config_text(c, CONFIG_package_path));
    split_path(s->path, s->directories);
    s->options = (struct engine_options){
        .cache_directory = config_text(c, CONFIG_cache_dir),
        .store_limit_bytes = config_number(c, CONFIG_cache_limit),
        .store_limit_bytes_uid = config_number(c, CONFIG_cache_limit_per_uid),
        .store_mode = store_mode(c),
        .state_directory = config_text(c, CONFIG_state_dir),
        .tuning_records_per_uid = config_number(c, CONFIG_tuning_records_per_uid),
        .tuning_bytes_per_uid = config_number(c, CONFIG_tuning_bytes_per_uid),
        .tuning_stale = tuning_stale(c),
        .package_directory = s->packages,
        .more_package_directories = s->directories,
        .trusted_keys = config_text(c, CONFIG_trusted_keys),
        .has_fleet = *config_text(c, CONFIG_fleet) != '\0',
        .fleet_wait_ms = config_number(c, CONFIG_fleet_wait),
        .fleet_keys = config_text(c, CONFIG_fleet_keys),
        .fleet_lease_ns = config_number(c, CONFIG_fleet_lease) * 1000000u,
        .fleet_tree = config_text(c, CONFIG_fleet),
        .fleet_builder = config_text(c, CONFIG_fleet_builder),
        .package_limit = config_number(c, CONFIG_package_limit),
        .require_signature = strcmp(config_text(c, CONFIG_require_signature), "yes") == 0,
        .hot_limit_bytes = config_number(c, CONFIG_hot_limit),
        .hot_limit_count = hot_count,
        .held_limit_bytes_uid = held_limit(c),
        .failure_ttl_s = (unsigned)((config_number(c, CONFIG_failure_ttl) + 999) / 1000),
        .queue_limit = (unsigned)config_number(c, CONFIG_queue),
        .queue_limit_uid = (unsigned)config_number(c, CONFIG_queue_per_uid),
        .queue_bytes = config_number(c, CONFIG_queue_bytes),
        .queue_bytes_uid = config_number(c, CONFIG_queue_bytes_per_uid),
    };
}
