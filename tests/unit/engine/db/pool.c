/* SPDX-License-Identifier: MIT */
#include "engine/db/pool.h"

#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct fixture {
    struct db_pool pool;
    unsigned opens_left; /* successful opens before opening fails */
    atomic_uint open;
    struct kiln_err err;
};

static atomic_uint *open_count;

static enum kiln_code open_one(void *context, void **ret_connection, struct kiln_err *err)
{
    struct fixture *f = context;
    if (f->opens_left == 0)
        return kiln_fail(err, KILN_IO, "there is no more");
    f->opens_left--;
    atomic_fetch_add(&f->open, 1);
    *ret_connection = malloc(1);
    return KILN_OK;
}

static void close_one(void *connection)
{
    atomic_fetch_sub(open_count, 1);
    free(connection);
}

SET_UP(setup)
{
    const struct db_pool_options options = {
        .open = open_one, .close = close_one, .context = f, .max = 3
    };
    *f = (struct fixture){ .opens_left = 100 };
    open_count = &f->open;
    db_pool_init(&f->pool, &options);
}

TEAR_DOWN(teardown)
{
    db_pool_done(&f->pool);
    assert_int_equal(atomic_load(&f->open), 0);
}

FIXTURE(pool, setup, teardown);

TEST_F(pool, a_pool_opens_connections_on_demand_up_to_its_maximum)
{
    void *taken[3];
    must(db_pool_open(&f->pool, 1, &f->err), f->err);
    assert_int_equal(atomic_load(&f->open), 1);
    for (unsigned i = 0; i < 3; i++)
        assert_non_null(taken[i] = db_pool_take(&f->pool));
    assert_int_equal(atomic_load(&f->open), 3);
    assert_ptr_not_equal(taken[0], taken[1]);
    for (unsigned i = 0; i < 3; i++)
        db_pool_return(&f->pool, taken[i]);
    for (unsigned i = 0; i < 3; i++)
        assert_non_null(taken[i] = db_pool_take(&f->pool));
    assert_int_equal(atomic_load(&f->open), 3);
    for (unsigned i = 0; i < 3; i++)
        db_pool_return(&f->pool, taken[i]);
}

TEST_F(pool, a_pool_can_open_all_connections_at_once)
{
    must(db_pool_open(&f->pool, DB_POOL_MAX, &f->err), f->err);
    assert_int_equal(atomic_load(&f->open), 3);
}

TEST_F(pool, a_closed_pool_has_no_connection)
{
    assert_null(db_pool_take(&f->pool));
    must(db_pool_open(&f->pool, 2, &f->err), f->err);
    db_pool_close(&f->pool);
    assert_int_equal(atomic_load(&f->open), 0);
    assert_null(db_pool_take(&f->pool));
}

TEST_F(pool, a_pool_that_fails_to_reopen_is_unchanged)
{
    must(db_pool_open(&f->pool, 2, &f->err), f->err);
    f->opens_left = 1;
    assert_int_equal(db_pool_open(&f->pool, 2, &f->err), KILN_IO);
    assert_int_equal(atomic_load(&f->open), 2);
    void *one = db_pool_take(&f->pool);
    assert_non_null(one);
    db_pool_return(&f->pool, one);
}

static void *return_later(void *context)
{
    void **connection = context;
    await_sleep(getpid());
    db_pool_return(connection[0], connection[1]);
    return NULL;
}

/* The other thread returns the connection when this thread sleeps in db_pool_take. */
TEST_F(pool, if_opening_another_connection_fails_acquirers_wait_for_an_open_one)
{
    pthread_t thread;
    must(db_pool_open(&f->pool, 1, &f->err), f->err);
    f->opens_left = 0;
    void *first = db_pool_take(&f->pool);
    void *context[] = { &f->pool, first };
    assert_int_equal(pthread_create(&thread, NULL, return_later, context), 0);
    void *taken = NULL;
    IN_TIME(taken = db_pool_take(&f->pool));
    assert_ptr_equal(taken, first);
    await_thread(thread, NULL);
    db_pool_return(&f->pool, first);
}

TEST_F(pool, a_pool_opens_more_connections_once_opening_succeeds_again)
{
    void *taken[3];
    pthread_t thread;
    must(db_pool_open(&f->pool, 1, &f->err), f->err);
    f->opens_left = 0;
    void *context[] = { &f->pool, db_pool_take(&f->pool) };
    assert_int_equal(pthread_create(&thread, NULL, return_later, context), 0);
    IN_TIME(taken[0] = db_pool_take(&f->pool));
    await_thread(thread, NULL);
    f->opens_left = 2;

    for (unsigned i = 1; i < 3; i++)
        IN_TIME(taken[i] = db_pool_take(&f->pool));

    assert_int_equal(atomic_load(&f->open), 3);
    for (unsigned i = 0; i < 3; i++)
        db_pool_return(&f->pool, taken[i]);
}

TEST_F(pool, new_connections_replace_old_ones_after_these_are_returned)
{
    pthread_t thread;
    must(db_pool_open(&f->pool, 1, &f->err), f->err);
    void *context[] = { &f->pool, db_pool_take(&f->pool) };
    assert_int_equal(pthread_create(&thread, NULL, return_later, context), 0);
    IN_TIME(must(db_pool_open(&f->pool, 2, &f->err), f->err));
    await_thread(thread, NULL);
    assert_int_equal(atomic_load(&f->open), 2);
}

static void *release_later(void *context)
{
    struct fixture *f = context;
    await_sleep(getpid());
    must(db_pool_open(&f->pool, 1, &f->err), f->err);
    return NULL;
}

TEST_F(pool, an_acquirer_of_a_pool_that_is_held_blocks_until_it_is_open_again)
{
    pthread_t thread;
    must(db_pool_open(&f->pool, 1, &f->err), f->err);
    db_pool_hold(&f->pool, true);
    db_pool_close(&f->pool);
    assert_int_equal(pthread_create(&thread, NULL, release_later, f), 0);
    void *connection = NULL;
    IN_TIME(connection = db_pool_take(&f->pool));
    assert_non_null(connection);
    await_thread(thread, NULL);
    db_pool_return(&f->pool, connection);
}
