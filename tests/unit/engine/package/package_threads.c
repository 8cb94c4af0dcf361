/* SPDX-License-Identifier: MIT */
#include "package_fixture.h"

#include "engine/digest/sha256.h"
#include "tests/support/wait.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 24
#define LOOKERS 3
#define KERNELS 20

struct looker {
    struct fixture *f;
    pthread_t thread;
    atomic_bool *stop;
    unsigned found, missed, wrong, failed;
};

static void look_up_kernel(struct looker *l, unsigned number)
{
    struct kernel_text text = text_of(number);
    struct digest key = key_of(number);
    BUFFER_AUTO struct buffer raw = object_of(number), got;
    struct package_found found;
    struct kiln_err err = KILN_ERR_INIT;
    buffer_init(&got, 1 << 20);
    enum kiln_code rc =
        number % 2 ? package_set_find_named(l->f->set,
                                            &(struct package_query){ bytes_of_text("gfx90a68"),
                                                                     { bytes_of_text(text.name),
                                                                       bytes_of_text(text.args) } },
                                            &got, &found, &err)
                   : package_set_find_key(l->f->set, &key, &got, &found, &err);
    l->found += rc == KILN_OK;
    l->missed += rc == KILN_NOT_FOUND;
    l->failed += rc != KILN_OK && rc != KILN_NOT_FOUND;
    l->wrong += rc == KILN_OK && !bytes_equal(buffer_view(&raw), buffer_view(&got));
    l->wrong += found.damaged[0] != '\0';
}

static void count(void *context, const struct package_info *info,
                  const struct package_signature *signature)
{
    (void)signature;
    struct looker *l = context;
    l->wrong += info->rows != KERNELS;
}

static void *run(void *context)
{
    struct looker *l = context;
    for (unsigned i = 0; !atomic_load(l->stop); i++) {
        look_up_kernel(l, i % KERNELS);
        if (i % 16 == 0) {
            package_set_list(l->f->set, count, l);
            package_set_covers(l->f->set, bytes_of_text("gfx90a68"));
            package_set_coverage(l->f->set, "gfx90a68", NULL, NULL);
        }
    }
    return NULL;
}

static void come_and_go(struct fixture *f, unsigned round)
{
    static const char *const names[] = { "gfx90a68.kpkg", "gfx90a68.kdb", "gfx90a.kpkg" };
    struct package_info info;
    const char *name = names[round % 3];
    must(install(f, name, 0, KERNELS, "alice"), f->err);
    if (round % 4 == 0)
        must(install(f, name, 0, KERNELS, "alice"), f->err);
    put_package(f, f->directory, "gfx90a68.x.kdb", 0, KERNELS);
    assert_int_equal(
        rename(path_in(f->directory, "gfx90a68.x.kdb"), path_in(f->other, "gfx90a68.x.kdb")), 0);
    rescan(f);
    must(package_set_remove(f->set, name, &info, &f->err), f->err);
    unlink(path_in(f->other, "gfx90a68.x.kdb"));
    rescan(f);
}

TEST_F(package, packages_come_and_go_while_others_look_them_up)
{
    atomic_bool stop = false;
    struct looker lookers[LOOKERS] = { { .f = NULL } };
    for (unsigned i = 0; i < LOOKERS; i++) {
        lookers[i].f = f;
        lookers[i].stop = &stop;
        assert_int_equal(pthread_create(&lookers[i].thread, NULL, run, &lookers[i]), 0);
    }

    for (unsigned round = 0; round < ROUNDS; round++)
        come_and_go(f, round);

    atomic_store(&stop, true);
    unsigned found = 0;
    for (unsigned i = 0; i < LOOKERS; i++) {
        await_thread(lookers[i].thread, NULL);
        assert_int_equal(lookers[i].wrong, 0);
        assert_int_equal(lookers[i].failed, 0);
        found += lookers[i].found;
    }
    assert_true(found > 0);
}

struct shared {
    struct package *package;
    pthread_t thread;
    unsigned found;
};

static void *find_all(void *context)
{
    struct shared *s = context;
    for (unsigned i = 0; i < 10 * KERNELS; i++) {
        struct kernel_text text = text_of(i % KERNELS);
        struct kiln_err err;
        bool damaged = false;
        BUFFER_AUTO struct buffer raw;
        buffer_init(&raw, 1 << 20);
        s->found += package_find_named(
                        s->package,
                        &(struct kern_name){ bytes_of_text(text.name), bytes_of_text(text.args) },
                        &raw, &damaged, &err) == KILN_OK;
    }
    return NULL;
}

TEST_F(package, more_threads_than_readers_share_the_readers)
{
    for (unsigned round = 0; round < 2; round++) {
        const char *path = put_package(f, f->directory, "gfx90a68.kpkg", 0, KERNELS);
        struct package_options options = { .path = path, .readers = 2 };
        KILN_AUTO(package) struct package *package = NULL;
        must(package_open(&options, &package, &f->err), f->err);
        if (round)
            put_package(f, f->directory, "gfx90a68.kpkg", 50, KERNELS);
        struct shared threads[6] = { { .package = NULL } };
        for (unsigned i = 0; i < 6; i++) {
            threads[i].package = package;
            assert_int_equal(pthread_create(&threads[i].thread, NULL, find_all, &threads[i]), 0);
        }
        for (unsigned i = 0; i < 6; i++) {
            await_thread(threads[i].thread, NULL);
            assert_int_equal(threads[i].found, 10 * KERNELS);
        }
    }
}
