/* SPDX-License-Identifier: MIT */
#include "daemon/config/config.h"
#include "engine/embed/defaults.h"
#include "tests/support/test.h"

#include <stdio.h>

static uint64_t standard_of(enum config_key key)
{
    struct setting_value value;
    struct kiln_err err = KILN_ERR_INIT;
    must(setting_parse(&config_table[key], config_table[key].standard, &value, &err), err);
    return value.number;
}

TEST(plain, the_static_build_has_the_defaults_of_kilnds_settings)
{
    assert_int_equal(DEFAULT_TUNING_RECORDS, standard_of(CONFIG_tuning_records_per_uid));
    assert_int_equal(DEFAULT_TUNING_BYTES, standard_of(CONFIG_tuning_bytes_per_uid));
    assert_int_equal(DEFAULT_PACKAGE_LIMIT, standard_of(CONFIG_package_limit));
    assert_int_equal(DEFAULT_HOT_BYTES, standard_of(CONFIG_hot_limit));
    assert_int_equal(DEFAULT_HOT_COUNT, standard_of(CONFIG_hot_count));
    assert_int_equal(DEFAULT_FAILURE_TTL_S * 1000, standard_of(CONFIG_failure_ttl));
    assert_int_equal(DEFAULT_QUEUE, standard_of(CONFIG_queue));
    assert_int_equal(DEFAULT_QUEUE_UID, standard_of(CONFIG_queue_per_uid));
    assert_int_equal(DEFAULT_QUEUE_BYTES, standard_of(CONFIG_queue_bytes));
    assert_int_equal(DEFAULT_QUEUE_BYTES_UID, standard_of(CONFIG_queue_bytes_per_uid));
}

TEST(plain, the_static_builds_compiler_has_the_defaults_of_kilnds_settings)
{
    char limits[80];
    snprintf(limits, sizeof(limits), "%llu,%llu,%llu",
             (unsigned long long)standard_of(CONFIG_compile_cpu) / 1000,
             (unsigned long long)standard_of(CONFIG_compile_memory),
             (unsigned long long)standard_of(CONFIG_compile_output));
    assert_string_equal(DEFAULT_LIMITS_TEXT, limits);
    assert_int_equal(DEFAULT_JOBS_MAX, standard_of(CONFIG_worker_jobs));
    assert_string_equal(DEFAULT_JOBS_TEXT, config_table[CONFIG_worker_jobs].standard);
    assert_int_equal(DEFAULT_COMPILE_MS, standard_of(CONFIG_compile_timeout));
}
