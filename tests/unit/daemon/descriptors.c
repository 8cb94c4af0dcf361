/* SPDX-License-Identifier: MIT */
#include "daemon/server/descriptors.h"

#include "common/log/log.h"
#include "tests/support/test.h"

#include <sys/resource.h>

static void ignore_message(enum log_level level, const char *message)
{
    (void)level;
    (void)message;
}

TEST(plain, descriptors_of_many_workers_reduce_the_other_shares)
{
    const struct descriptor_shares wanted = { .connections = 10000000, .hot_count = 10000000 };
    struct descriptor_shares with_many = wanted;
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    SKIP_IF(files.rlim_max < 8000, "a process may have fewer than 8000 descriptors here");
    log_set_sink(ignore_message);
    struct descriptor_shares alone = descriptors_share(wanted);
    with_many.workers = 500;
    with_many = descriptors_share(with_many);
    log_set_sink(NULL);
    assert_int_equal(with_many.connections + with_many.hot_count + 500 * DESCRIPTORS_A_WORKER,
                     alone.connections + alone.hot_count);
}
