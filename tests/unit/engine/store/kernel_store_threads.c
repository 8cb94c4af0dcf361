/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"
#include "tests/support/wait.h"

#include <pthread.h>
#include <stdatomic.h>

#define READERS 6u
#define KERNELS 30u
#define ROUNDS 120u

struct shared {
    struct fixture *f;
    struct digest expected[KERNELS];
    atomic_bool stop;
    atomic_uint gets, hits, wrong, errors;
};

static void *read_until_reported(void *context)
{
    struct shared *s = context;
    struct kiln_err err = KILN_ERR_INIT;
    for (unsigned i = 0; !atomic_load(&s->stop) || i < KERNELS; i++) {
        struct digest key = key_of(i % KERNELS);
        struct object *object = NULL;
        struct kernel_usage u;
        bool damaged = false;
        enum kiln_code rc = kernel_store_get(s->f->store, &key, &object, &damaged, &err);
        atomic_fetch_add(&s->gets, 1);
        atomic_fetch_add(&s->errors, (rc != KILN_OK && rc != KILN_NOT_FOUND) || damaged);
        if (object) {
            atomic_fetch_add(&s->hits, 1);
            atomic_fetch_add(&s->wrong, !digest_equal(&object->digest, &s->expected[i % KERNELS]));
        }
        object_unref(object);
        if (i % 16 == 0)
            atomic_fetch_add(&s->errors, kernel_store_usage(s->f->store, &u, &err) != KILN_OK);
    }
    return NULL;
}

static void start(struct shared *s, struct fixture *f, pthread_t threads[READERS])
{
    *s = (struct shared){ .f = f };
    for (unsigned i = 0; i < KERNELS; i++) {
        struct object *object = object_of(4000 + 900 * i, i + 1, true);
        s->expected[i] = object->digest;
        object_unref(object);
    }
    for (unsigned i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_until_reported, s), 0);
}

static void finish(struct shared *s, pthread_t threads[READERS])
{
    atomic_store(&s->stop, true);
    for (unsigned i = 0; i < READERS; i++)
        await_thread(threads[i], NULL);
    assert_int_equal(atomic_load(&s->wrong), 0);
    assert_true(atomic_load(&s->gets) >= READERS * KERNELS);
}

static void write_some(struct fixture *f, unsigned round)
{
    unsigned i = round % KERNELS;
    struct digest keys[2] = { key_of(i), key_of((i + 7) % KERNELS) };
    stored(f, (struct kernel){
                  .number = i, .size = 4000 + 900 * i, .seed = i + 1, .compressible = true });
    assert_int_equal(kernel_store_touch(f->store, keys, 2, 1700000000 + round, &f->err), KILN_OK);
    if (round % 5 == 4)
        assert_in_range(kernel_store_remove(f->store, &keys[1], &f->err), KILN_OK, KILN_NOT_FOUND);
}

TEST_F(store, readers_see_whole_kernels_while_one_writes)
{
    struct shared s;
    pthread_t threads[READERS];
    start(&s, f, threads);

    for (unsigned round = 0; round < ROUNDS; round++)
        write_some(f, round);

    finish(&s, threads);
    assert_int_equal(atomic_load(&s.errors), 0);
}

TEST_F(store, readers_go_on_while_the_file_is_replaced)
{
    struct shared s;
    pthread_t threads[READERS];
    start(&s, f, threads);

    for (unsigned round = 0; round < 10; round++) {
        write_some(f, round);
        meddle(f, "drop table recency", NULL); /* the next put finds the file damaged */
        write_some(f, round + 1);
        assert_true(kernel_store_take_notice(f->store, f->notice));
    }

    finish(&s, threads);
    assert_true(holds(f, 10));
}
