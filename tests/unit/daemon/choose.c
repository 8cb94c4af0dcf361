/* SPDX-License-Identifier: MIT */
#include "daemon/workers/choose.h"

#include "tests/support/test.h"

#include <stdio.h>

static const struct compile_task task = { .job.toolchain = { (const uint8_t *)"hiprtc", 6 } };

static struct worker idle(const char *toolchain)
{
    struct worker w = { .state = WORKER_IDLE };
    snprintf(w.toolchain, sizeof(w.toolchain), "%s", toolchain);
    return w;
}

static void chain(struct worker *workers, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++)
        workers[i].next = &workers[i + 1];
}

/* Best first, each taken away in turn. */
static void one_with_the_libraries_comes_first_then_one_with_none(void **state)
{
    (void)state;
    struct worker workers[] = { idle("clang"), idle(""), idle("hiprtc") };
    static const size_t best[] = { 2, 1, 0 };
    chain(workers, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(worker_choose(workers, &task), &workers[best[i]]);
        workers[best[i]].state = WORKER_BUSY;
    }
    assert_null(worker_choose(workers, &task));
}

static void one_that_hung_up_or_is_not_idle_gets_nothing(void **state)
{
    (void)state;
    struct worker workers[] = { idle("hiprtc"), idle("hiprtc"), idle("hiprtc") };
    chain(workers, 3);
    workers[0].hung_up = true;
    workers[1].state = WORKER_KILLED;
    workers[2].state = WORKER_STARTING;
    assert_null(worker_choose(workers, &task));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_with_the_libraries_comes_first_then_one_with_none),
        cmocka_unit_test(one_that_hung_up_or_is_not_idle_gets_nothing),
    };
    return cmocka_run_group_tests_name("choose", tests, NULL, NULL);
}
