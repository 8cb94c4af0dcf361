/* SPDX-License-Identifier: MIT */
/* This build has -DKILN_CACHE_DIR= (nothing). */
#include "daemon/config/config.h"
#include "tests/support/test.h"

TEST(plain, a_build_without_a_directory_turns_the_cache_off)
{
    static struct config config;
    struct kiln_err err = KILN_ERR_INIT;
    const char *environment[] = { "KILND_COMPILER=/bin/true", NULL };
    must(config_load(0, NULL, environment, &config, &err), err);
    assert_string_equal(config_text(&config, CONFIG_cache), "off");
}

TEST(plain, a_setting_turns_it_on)
{
    static struct config config;
    struct kiln_err err = KILN_ERR_INIT;
    const char *environment[] = { "KILND_COMPILER=/bin/true", "KILND_CACHE=on", NULL };
    must(config_load(0, NULL, environment, &config, &err), err);
    assert_string_equal(config_text(&config, CONFIG_cache), "on");
}
