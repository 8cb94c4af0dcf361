/* SPDX-License-Identifier: MIT */
#include "daemon/workers/choose.h"

#include "tests/support/test.h"

#include <stdio.h>

static const struct compile_task task = { .job.toolchain = { (const uint8_t *)"hiprtc", 6 } };

static struct worker idle_worker(const char *toolchain)
{
    struct worker w = { .state = WORKER_IDLE };
    snprintf(w.toolchain, sizeof(w.toolchain), "%s", toolchain);
    return w;
}

static void fill_list(struct list *list, struct worker *workers, size_t count)
{
    list_init(list);
    for (size_t i = 0; i < count; i++)
        list_append(list, &workers[i].link);
}

/* Chooses workers one after the other, and makes each busy. |best| has the expected order. */
TEST(plain, a_worker_with_the_libraries_is_chosen_before_a_cold_one)
{
    struct worker workers[] = { idle_worker("clang"), idle_worker(""), idle_worker("hiprtc") };
    static const size_t best[] = { 2, 1, 0 };
    struct list list;
    fill_list(&list, workers, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(worker_choose(&list, &task), &workers[best[i]]);
        workers[best[i]].state = WORKER_BUSY;
    }
    assert_null(worker_choose(&list, &task));
}

static struct worker idle_worker_with(const char *toolchain, uint8_t id)
{
    struct worker w = idle_worker(toolchain);
    w.toolchain_id.bytes[0] = id;
    return w;
}

TEST(plain, a_worker_with_libraries_from_before_an_upgrade_is_chosen_last)
{
    struct compile_task of_7 = task;
    struct worker workers[] = { idle_worker_with("hiprtc", 6), idle_worker_with("clang", 1),
                                idle_worker(""), idle_worker_with("hiprtc", 7) };
    static const size_t best[] = { 3, 2, 1, 0 };
    of_7.job.toolchain_id.bytes[0] = 7;
    struct list list;
    fill_list(&list, workers, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_ptr_equal(worker_choose(&list, &of_7), &workers[best[i]]);
        workers[best[i]].state = WORKER_BUSY;
    }
}

TEST(plain, a_job_without_a_toolchain_id_accepts_any_loaded_version)
{
    static const struct digest none;
    struct worker w = idle_worker_with("hiprtc", 6);
    struct digest six = w.toolchain_id;
    assert_int_equal(worker_loaded(&w, task.job.toolchain, &none), LOADED_IT);
    w.toolchain_id = none;
    assert_int_equal(worker_loaded(&w, task.job.toolchain, &six), LOADED_IT);
}

TEST(plain, a_worker_that_hung_up_or_is_not_idle_is_not_chosen)
{
    struct worker workers[] = { idle_worker("hiprtc"), idle_worker("hiprtc"),
                                idle_worker("hiprtc") };
    struct list list;
    fill_list(&list, workers, 3);
    workers[0].hung_up = true;
    workers[1].state = WORKER_KILLED;
    workers[2].state = WORKER_STARTING;
    assert_null(worker_choose(&list, &task));
}
