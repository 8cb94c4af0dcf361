/* SPDX-License-Identifier: MIT */
/* This build has -DKILN_CACHE_DIR=/var/built. */
#include "daemon/config/config.h"
#include "tests/support/test.h"

TEST(plain, the_directory_of_the_build_is_the_default)
{
    static struct config config;
    struct kiln_err err = KILN_ERR_INIT;
    const char *environment[] = { "KILND_COMPILER=/bin/true", NULL };
    must(config_load(0, NULL, environment, &config, &err), err);
    assert_string_equal(config_text(&config, CONFIG_cache_dir), "/var/built");
    assert_string_equal(config_text(&config, CONFIG_cache), "on");
}

TEST(plain, a_setting_overrides_the_directory_of_the_build)
{
    static struct config config;
    struct kiln_err err = KILN_ERR_INIT;
    const char *environment[] = { "KILND_COMPILER=/bin/true", "KILND_CACHE_DIR=/var/other", NULL };
    must(config_load(0, NULL, environment, &config, &err), err);
    assert_string_equal(config_text(&config, CONFIG_cache_dir), "/var/other");
}
