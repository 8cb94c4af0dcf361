/* SPDX-License-Identifier: MIT */
/* The hot set from one engine to the next, and limits that change while an engine runs. */
#include "engine/service/internal.h"
#include "tests/unit/engine/service/kernel_files.h"

#include <fcntl.h>
#include <string.h>

#define ANN 1000
#define BOB 1001
#define MOST 64
#define AT_VERSION 8 /* in an index: engine/store/hot_image.c */

struct fixture {
    struct engine_fixture engine;
    struct test_caller ann, bob;
    struct buffer index;
    int fds[MOST];
    size_t count;
};

static void join(struct fixture *f)
{
    test_caller_join(&f->ann, &f->engine, ANN, ROLE_USE);
    test_caller_join(&f->bob, &f->engine, BOB, ROLE_USE);
    must(test_caller_hello(&f->ann, &f->engine), f->engine.err);
    must(test_caller_hello(&f->bob, &f->engine), f->engine.err);
}

static void leave(struct fixture *f)
{
    test_caller_leave(&f->ann, &f->engine);
    test_caller_leave(&f->bob, &f->engine);
}

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    buffer_init(&f.index, 1u << 20);
    engine_fixture_open(&f.engine, true);
    join(&f);
    *state = &f;
    return 0;
}

static void forget_export(struct fixture *f)
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->fds[i] >= 0)
            close(f->fds[i]);
    }
    f->count = 0;
    f->index.size = 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    leave(f);
    while (fake_executor_next_compile(&f->engine.executor))
        fake_executor_fail(&f->engine.executor, COMPILE_UNAVAILABLE, "the test is over", NULL);
    engine_fixture_close(&f->engine);
    forget_export(f);
    buffer_done(&f->index);
    return 0;
}

FIXTURE(hot, setup, teardown);

static struct digest key_of(unsigned number) { return (struct digest){ { (uint8_t)number, 7 } }; }

/* As a compile, or for one user alone as an import, would have left it. */
static void keep(struct fixture *f, unsigned number, const uid_t *owner)
{
    struct object *object = NULL;
    struct digest key = key_of(number);
    must(object_from_bytes(bytes_of_text("object"), 5, &object, &f->engine.err), f->engine.err);
    object->is_private = owner != NULL;
    object->owner = owner ? (uint32_t)*owner : 0;
    hot_set_insert(f->engine.engine->hot, &key, object);
    object_unref(object);
}

/* As a service manager does. */
static void export(struct fixture *f)
{
    HOT_IMAGE_AUTO struct hot_image image = { 0 };
    must(engine_hot_export(f->engine.engine, 1, MOST, &image, &f->engine.err), f->engine.err);
    buffer_put(&f->index, image.index.data, image.index.size);
    f->count = image.count;
    for (size_t i = 0; i < image.count; i++)
        f->fds[i] = fcntl(image.fds[i], F_DUPFD_CLOEXEC, 3);
}

static void reopen(struct fixture *f)
{
    leave(f);
    engine_fixture_reopen(&f->engine);
    join(f);
}

static enum kiln_code import(struct fixture *f)
{
    struct hot_image_taken taken;
    return engine_hot_import(f->engine.engine, buffer_view(&f->index), f->fds, f->count, &taken,
                             &f->engine.err);
}

static enum tier tier_for(struct fixture *f, struct test_caller *c, unsigned number)
{
    struct message_fetch m = { .key = key_of(number) };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    message_fetch_write(&b, &m);
    test_caller_forget_replies(c);
    must(test_caller_send(c, &f->engine, MESSAGE_fetch, number, buffer_view(&b)), f->engine.err);
    fake_executor_run_tasks(&f->engine.executor);
    return reply_outcome(c, 0).code ? (enum tier)0 : reply_outcome(c, 0).tier;
}

TEST(hot, what_was_hot_is_hot_in_the_next_engine)
{
    struct fixture *f = *state;
    keep(f, 1, NULL);
    export(f);
    reopen(f);
    must(import(f), f->engine.err);
    assert_int_equal(tier_for(f, &f->ann, 1), TIER_HOT);
    assert_int_equal(tier_for(f, &f->bob, 1), TIER_HOT);
}

/* Small ones travel in the frame itself; they are mapped when the first is asked for. */
TEST(hot, a_small_object_travels_in_a_frame_as_before)
{
    struct fixture *f = *state;
    keep(f, 1, NULL);
    export(f);
    reopen(f);
    must(import(f), f->engine.err);
    f->ann.base.capabilities |= CAPABILITY_INLINE;
    struct message_fetch m = { .key = key_of(1), .inline_limit = 4096 };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    message_fetch_write(&b, &m);
    test_caller_forget_replies(&f->ann);
    must(test_caller_send(&f->ann, &f->engine, MESSAGE_fetch, 1, buffer_view(&b)), f->engine.err);
    assert_int_equal(f->ann.replies[0].object_count, 0);
    assert_true(bytes_equal_text(reply_outcome(&f->ann, 0).content, "object"));
}

TEST(hot, what_one_user_brought_stays_that_users)
{
    struct fixture *f = *state;
    const uid_t ann = ANN;
    keep(f, 1, &ann);
    export(f);
    reopen(f);
    must(import(f), f->engine.err);
    assert_int_equal(tier_for(f, &f->ann, 1), TIER_HOT);
    assert_int_not_equal(tier_for(f, &f->bob, 1), TIER_HOT);
}

/* As after an update of kiln: the hot set begins empty and fills as ever. */
TEST(hot, an_image_of_an_older_kilnd_is_refused_and_the_next_is_used)
{
    struct fixture *f = *state;
    keep(f, 1, NULL);
    export(f);
    f->index.data[AT_VERSION] = 1;
    reopen(f);
    assert_int_equal(import(f), KILN_UNSUPPORTED);
    assert_says(f->engine.err.text, "has version 1");
    assert_int_not_equal(tier_for(f, &f->ann, 1), TIER_HOT);

    forget_export(f);
    keep(f, 1, NULL);
    export(f);
    reopen(f);
    must(import(f), f->engine.err);
    assert_int_equal(tier_for(f, &f->ann, 1), TIER_HOT);
}

/* Whether kernels of a package count may have changed meanwhile: where they are from is not known.
 */
TEST(hot, packages_that_changed_meanwhile_cost_the_hot_set)
{
    struct fixture *f = *state;
    keep(f, 1, NULL);
    export(f);
    f->index.data[24] ^= 1; /* as if others had been there: the index has their fingerprint */
    reopen(f);
    assert_int_equal(import(f), KILN_NOT_FOUND);
    assert_says(f->engine.err.text, "packages have changed");
    assert_int_not_equal(tier_for(f, &f->ann, 1), TIER_HOT);
}

static void note_nothing(void *context, const struct package_change *change)
{
    (void)context;
    (void)change;
}

static void say_nothing(void *context, const char *text)
{
    (void)context;
    (void)text;
}

/* As far as the lane comes before the engine hears of it. */
static void exchange_packages(struct fixture *f)
{
    const struct kernel_row row = TEXT_KERNEL("k", " -mcpu=gfx90a", "content");
    struct package_set *packages = f->engine.engine->packages;
    struct digest before = package_set_fingerprint(packages);
    put_package(&f->engine, "gfx90a68.kdb", &row, 1);
    must(package_set_rescan(packages, note_nothing, say_nothing, NULL, &f->engine.err),
         f->engine.err);
    struct digest after = package_set_fingerprint(packages);
    assert_false(digest_equal(&before, &after));
}

TEST(hot, packages_that_just_changed_do_not_vouch_for_what_is_hot)
{
    struct fixture *f = *state;
    keep(f, 1, NULL);
    exchange_packages(f);
    export(f);
    assert_int_equal(f->count, 1);
    reopen(f);
    assert_int_equal(import(f), KILN_NOT_FOUND);
    assert_says(f->engine.err.text, "packages have changed");
}

/* Once all was forgotten what comes is from the new ones. */
TEST(hot, what_came_after_new_packages_is_hot_in_the_next_engine)
{
    struct fixture *f = *state;
    exchange_packages(f);
    engine_forget_hot(f->engine.engine);
    keep(f, 1, NULL);
    export(f);
    reopen(f);
    must(import(f), f->engine.err);
    assert_int_equal(tier_for(f, &f->ann, 1), TIER_HOT);
}

TEST(hot, what_is_forgotten_is_not_in_the_next_image)
{
    struct fixture *f = *state;
    keep(f, 1, NULL);
    uint64_t before = engine_hot_changes(f->engine.engine);
    engine_forget_hot(f->engine.engine);
    assert_true(engine_hot_changes(f->engine.engine) > before);
    export(f);
    assert_int_equal(f->count, 0);
}

/* Whoever keeps an image must let go of it, or a crash brings back what was removed. */
TEST(hot, the_host_hears_of_what_is_forgotten)
{
    struct fixture *f = *state;
    struct engine *e = f->engine.engine;
    const char question[] = "{\"own\": false, \"all\": true}";
    unsigned before = f->engine.forgotten;
    f->bob.base.role = ROLE_ADMIN;
    keep(f, 1, NULL);
    test_caller_forget_replies(&f->bob);
    must(test_caller_send(&f->bob, &f->engine, MESSAGE_clear, 1, bytes_of_text(question)),
         f->engine.err);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->bob.reply_count, 1);
    assert_int_equal(f->engine.forgotten, before + 1);
    assert_int_equal(hot_set_count(e->hot), 0);
}

/* ---- limits ---- */

TEST(hot, a_smaller_hot_set_counts_at_once)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < 8; i++)
        keep(f, i, NULL);
    f->engine.options.hot_limit_count = 3;
    engine_set_limits(f->engine.engine, &f->engine.options);
    assert_int_equal(hot_set_count(f->engine.engine->hot), 3);
}

TEST(hot, a_shorter_memory_of_failures_counts_for_those_it_has)
{
    struct fixture *f = *state;
    struct failure failure;
    struct kiln_err why = { .code = KILN_COMPILE_FAILED, .text = "no" };
    struct digest key = key_of(1);
    failure_memory_add(f->engine.engine->failures, &key, &why, NULL, 0);
    f->engine.options.failure_ttl_s = 5;
    engine_set_limits(f->engine.engine, &f->engine.options);
    assert_true(failure_memory_find(f->engine.engine->failures, &key, 4999999999u, &failure));
    assert_false(failure_memory_find(f->engine.engine->failures, &key, 5000000000u, &failure));
}

static enum kiln_code want(struct fixture *f, const char *program)
{
    test_caller_forget_replies(&f->ann);
    test_caller_want(&f->ann, &f->engine, 1, program, PRIORITY_INTERACTIVE);
    fake_executor_run_tasks(&f->engine.executor);
    return f->ann.reply_count ? reply_outcome(&f->ann, 0).code : KILN_OK;
}

TEST(hot, a_shorter_queue_keeps_what_waits_and_refuses_more)
{
    struct fixture *f = *state;
    assert_int_equal(want(f, "runs.cl"), KILN_OK);
    assert_int_equal(want(f, "waits.cl"), KILN_OK);
    f->engine.options.queue_limit_uid = 1;
    engine_set_limits(f->engine.engine, &f->engine.options);
    assert_int_equal(want(f, "more.cl"), KILN_BUSY);
    f->engine.options.queue_limit_uid = 2;
    engine_set_limits(f->engine.engine, &f->engine.options);
    assert_int_equal(want(f, "more.cl"), KILN_OK);
}

/* What is taken already may be more than the new limit: nothing may wrap around. */
TEST(hot, fewer_bytes_that_wait_than_wait_already_refuse_more)
{
    struct fixture *f = *state;
    assert_int_equal(want(f, "waits.cl"), KILN_OK);
    f->engine.options.queue_bytes = 1;
    engine_set_limits(f->engine.engine, &f->engine.options);
    assert_int_equal(want(f, "more.cl"), KILN_BUSY);
    f->engine.options.queue_bytes = 1u << 20;
    f->engine.options.queue_bytes_uid = 1;
    engine_set_limits(f->engine.engine, &f->engine.options);
    assert_int_equal(want(f, "more.cl"), KILN_BUSY);
    f->engine.options.queue_bytes_uid = 1u << 20;
    engine_set_limits(f->engine.engine, &f->engine.options);
    assert_int_equal(want(f, "more.cl"), KILN_OK);
}

TEST(hot, the_pulse_counts_what_was_asked_and_found)
{
    struct fixture *f = *state;
    keep(f, 1, NULL);
    tier_for(f, &f->ann, 1);
    tier_for(f, &f->ann, 2); /* nowhere */
    want(f, "runs.cl");
    struct engine_pulse pulse = engine_pulse(f->engine.engine);
    assert_int_equal(pulse.asked, 3);
    assert_int_equal(pulse.found, 1);
    assert_int_equal(pulse.compiling, 1);
    assert_int_equal(pulse.waiting, 0);
}
