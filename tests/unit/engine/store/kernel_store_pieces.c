/* SPDX-License-Identifier: MIT */
#include "engine/digest/sha256.h"
#include "store_fixture.h"

#include <string.h>
#include <unistd.h>

#define PIECE KERNEL_PIECE_MAX
#define LARGE (9u * PIECE / 2) /* five pieces */
#define STEPS 6                /* steps of a put: one for each piece, and one for the rows */
#define DEVICE "gfx906_60"

struct large_put {
    struct object *object;
    struct kernel_record record;
    struct kernel_putting putting;
};

static void begin_put(struct large_put *p, unsigned number, size_t size, uint64_t seed)
{
    *p = (struct large_put){ .object = object_of(size, seed, false) };
    p->record = (struct kernel_record){ .key = key_of(number),
                                        .toolchain_id = key_of(7),
                                        .target = "gfx90a",
                                        .toolchain = "clang",
                                        .program = "large.cpp",
                                        .options = "-O3",
                                        .compile_ns = 1000000000,
                                        .last_used = 1700000000,
                                        .uid = 1000 };
    p->putting = (struct kernel_putting){ .record = &p->record, .object = p->object };
}

static void step(struct fixture *f, struct large_put *p)
{
    must(kernel_store_put_some(f->store, &p->putting, &f->err), f->err);
}

static void run_steps(struct fixture *f, struct large_put *p, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_false(p->putting.is_over);
        step(f, p);
    }
}

static void end_put(struct fixture *f, struct large_put *p)
{
    kernel_store_put_abandon(f->store, &p->putting);
    object_unref(p->object);
}

static void put_large(struct fixture *f, unsigned number, uint64_t seed)
{
    stored(f, (struct kernel){ .number = number, .size = LARGE, .seed = seed });
}

static uint64_t pieces(struct fixture *f) { return ask(f, "select count(*) from piece"); }

static uint64_t most_changed; /* largest db_changes() at a commit */

WRAP(enum kiln_code, transaction_commit, struct transaction *t, struct kiln_err *err)
{
    if (db_changes(t->db) > most_changed)
        most_changed = db_changes(t->db);
    return __real_transaction_commit(t, err);
}

TEST_F(store, a_large_object_is_stored_one_piece_a_step_and_its_key_last)
{
    struct large_put p;
    begin_put(&p, 1, LARGE, 1);
    for (unsigned i = 1; i < STEPS; i++) {
        run_steps(f, &p, 1);
        assert_int_equal(pieces(f), i);
        assert_false(holds(f, 1));
    }
    run_steps(f, &p, 1);

    assert_true(p.putting.is_over);
    assert_true(holds(f, 1));
    assert_int_equal(ask(f, "select max(raw_size) from piece"), PIECE);
    assert_int_equal(ask(f, "select sum(length(bytes)) from object"), 0);
    end_put(f, &p);
}

TEST_F(store, an_object_of_one_piece_is_stored_in_one_row)
{
    struct large_put p;
    begin_put(&p, 1, PIECE, 1);

    run_steps(f, &p, 1);

    assert_true(p.putting.is_over);
    assert_true(holds(f, 1));
    assert_int_equal(pieces(f), 0);
    end_put(f, &p);
}

TEST_F(store, puts_of_large_objects_alternate_with_each_other_and_with_small_ones)
{
    struct large_put a, b;
    begin_put(&a, 1, LARGE, 1);
    begin_put(&b, 2, LARGE, 2);
    for (unsigned i = 0; i < STEPS; i++) {
        run_steps(f, &a, 1);
        store_one(f, 10 + i);
        run_steps(f, &b, 1);
    }

    assert_true(holds(f, 1));
    assert_true(holds(f, 2));
    for (unsigned i = 0; i < STEPS; i++)
        assert_true(holds(f, 10 + i));
    end_put(f, &a);
    end_put(f, &b);
}

TEST_F(store, the_sizes_of_pieces_count_for_their_object_and_its_user)
{
    stored(f, (struct kernel){ .number = 1, .size = LARGE, .compressible = true });

    struct kernel_usage u = usage(f);
    assert_int_equal(u.objects, 1);
    assert_int_equal(u.raw_bytes, LARGE);
    assert_int_equal(u.stored_bytes, ask(f, "select sum(length(bytes)) from piece"));
    assert_true(u.stored_bytes < LARGE / 2);
    assert_int_equal(ask(f, "select bytes from usage_uid where uid = 1000"),
                     u.stored_bytes + u.row_bytes);
}

TEST_F(store, a_large_object_that_is_stored_already_takes_one_step)
{
    struct large_put same_key, other_key;
    put_large(f, 1, 1);
    begin_put(&same_key, 1, LARGE, 1);
    begin_put(&other_key, 2, LARGE, 1);

    run_steps(f, &same_key, 1);
    run_steps(f, &other_key, 1);

    assert_true(same_key.putting.is_over && other_key.putting.is_over);
    assert_true(holds(f, 1));
    assert_true(holds(f, 2));
    assert_int_equal(pieces(f), STEPS - 1);
    assert_int_equal(usage(f).kernels, 2);
    assert_int_equal(usage(f).objects, 1);
    end_put(f, &same_key);
    end_put(f, &other_key);
}

TEST_F(store, two_puts_of_the_same_large_object_store_it_once)
{
    struct large_put a, b;
    begin_put(&a, 1, LARGE, 1);
    begin_put(&b, 2, LARGE, 1);
    run_steps(f, &b, 2);
    run_steps(f, &a, STEPS);

    run_steps(f, &b, 1);

    assert_true(b.putting.is_over);
    assert_true(holds(f, 1));
    assert_true(holds(f, 2));
    tidy_store(f);
    assert_int_equal(pieces(f), STEPS - 1);
    end_put(f, &a);
    end_put(f, &b);
}

TEST_F(store, the_pieces_go_with_the_last_kernel_of_their_object)
{
    struct digest keys[] = { key_of(1), key_of(2) };
    put_large(f, 1, 1);
    put_large(f, 2, 1);

    must(kernel_store_remove(f->store, &keys[0], &f->err), f->err);
    assert_int_equal(pieces(f), STEPS - 1);
    assert_true(holds(f, 2));
    must(kernel_store_remove(f->store, &keys[1], &f->err), f->err);

    assert_int_equal(pieces(f), 0);
    assert_int_equal(usage(f).stored_bytes, 0);
}

TEST_F(store, another_large_object_replaces_the_pieces_of_the_first)
{
    put_large(f, 1, 1);

    put_large(f, 1, 2);

    assert_true(holds(f, 1));
    assert_int_equal(usage(f).objects, 1);
    assert_int_equal(pieces(f), STEPS - 1);
}

TEST_F(store, pieces_of_a_put_that_was_killed_are_removed_and_others_stay)
{
    struct large_put p;
    put_large(f, 1, 1);
    begin_put(&p, 2, LARGE, 2);
    run_steps(f, &p, 3);
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    assert_int_equal(pieces(f), STEPS - 1 + 3);
    assert_false(holds(f, 2));

    tidy_store(f);

    assert_int_equal(pieces(f), STEPS - 1);
    assert_true(holds(f, 1));
    object_unref(p.object);
}

TEST_F(store, an_abandoned_put_leaves_no_pieces_and_others_continue)
{
    struct large_put gone, other;
    begin_put(&gone, 1, LARGE, 1);
    begin_put(&other, 2, LARGE, 2);
    run_steps(f, &gone, 2);
    run_steps(f, &other, 2);

    end_put(f, &gone);
    tidy_store(f);

    assert_int_equal(pieces(f), 2);
    run_steps(f, &other, STEPS - 2);
    assert_true(holds(f, 2));
    assert_false(holds(f, 1));
    end_put(f, &other);
}

TEST_F(store, many_pieces_without_an_owner_are_removed_in_steps)
{
    bool more = true;
    meddle(f,
           "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100)"
           " insert into piece (piece_set, codec, raw_size, bytes)"
           " select 5 + i / 50, 0, 1, zeroblob(9000) from n",
           NULL);
    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    must(kernel_store_tidy(f->store, &more, &f->err), f->err);
    tidy_store(f);

    assert_int_equal(pieces(f), 0);
}

TEST_F(store, a_put_continues_from_its_beginning_if_the_file_was_removed)
{
    struct large_put p, other;
    begin_put(&p, 1, LARGE, 1);
    begin_put(&other, 2, LARGE, 2);
    run_steps(f, &p, 3);
    assert_int_equal(unlink(f->file), 0);
    run_steps(f, &other, 2);

    run_steps(f, &p, STEPS);

    assert_true(p.putting.is_over);
    assert_true(holds(f, 1));
    run_steps(f, &other, STEPS - 2);
    assert_true(holds(f, 2));
    tidy_store(f);
    assert_int_equal(pieces(f), 2 * (STEPS - 1));
    end_put(f, &p);
    end_put(f, &other);
}

TEST_F(store, a_large_object_that_can_never_fit_evicts_nothing)
{
    assert_int_equal(reopen(f, 8 << 20), KILN_OK);
    for (unsigned i = 1; i <= 60; i++)
        stored(f, (struct kernel){ .number = i, .size = 100000 });

    assert_int_equal(put(f, (struct kernel){ .number = 99, .size = 8 << 20 }), KILN_FULL);

    assert_says(f->err.text, "raise cache_limit");
    assert_int_equal(usage(f).kernels, 60);
    tidy_store(f);
    assert_int_equal(pieces(f), 0);
}

TEST_F(store, a_large_object_evicts_others_and_stays_within_the_limit)
{
    assert_int_equal(reopen(f, 8 << 20), KILN_OK);
    for (unsigned i = 1; i <= 60; i++)
        stored(f, (struct kernel){ .number = i, .size = 100000 });

    uint64_t evicted = stored(f, (struct kernel){ .number = 99, .size = LARGE });

    assert_in_range(evicted, 20, 59);
    assert_true(holds(f, 99));
    assert_true(taken(f) <= 8 << 20);
}

TEST_F(store, pieces_without_an_owner_are_removed_before_kernels_are_evicted)
{
    struct large_put p;
    assert_int_equal(reopen(f, 8 << 20), KILN_OK);
    begin_put(&p, 1, LARGE, 1);
    run_steps(f, &p, 4);
    end_put(f, &p);

    for (unsigned i = 2; i <= 50; i++)
        assert_int_equal(stored(f, (struct kernel){ .number = i, .size = 100000 }), 0);

    assert_int_equal(pieces(f), 0);
}

TEST_F(store, a_large_import_beyond_the_quota_is_refused_and_leaves_no_pieces)
{
    f->quota = 3 * PIECE;
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    stored(f, (struct kernel){ .number = 1, .size = 100000 });

    assert_int_equal(import(f, (struct kernel){ .number = 2, .size = LARGE }), KILN_FULL);

    assert_says(f->err.text, "quota");
    assert_true(holds(f, 1));
    tidy_store(f);
    assert_int_equal(pieces(f), 0);
}

static void expect_quarantined(struct fixture *f)
{
    struct digest key = key_of(1);
    assert_false(holds(f, 1));
    assert_true(is_damaged(f, 1));

    must(kernel_store_quarantine(f->store, &key, &f->err), f->err);

    assert_false(is_damaged(f, 1));
    assert_int_equal(usage(f).kernels, 0);
    assert_int_equal(usage(f).quarantined, 1);
    assert_int_equal(ask(f, "select count(*) from quarantine where bytes is null"), 1);
    assert_int_equal(pieces(f), 0);
}

TEST_F(store, a_damaged_piece_is_a_miss)
{
    put_large(f, 1, 1);
    meddle(f, "update piece set bytes = zeroblob(length(bytes)) where id = 3", NULL);
    expect_quarantined(f);
}

TEST_F(store, a_missing_piece_is_a_miss)
{
    put_large(f, 1, 1);
    meddle(f, "delete from piece where id = (select max(id) from piece)", NULL);
    expect_quarantined(f);
}

TEST_F(store, a_piece_too_many_is_a_miss)
{
    put_large(f, 1, 1);
    meddle(f,
           "insert into piece (piece_set, codec, raw_size, bytes)"
           " select piece_set, codec, raw_size, bytes from piece where id = 1",
           NULL);
    expect_quarantined(f);
}

TEST_F(store, pieces_in_another_order_are_a_miss)
{
    put_large(f, 1, 1);
    meddle(f, "update piece set id = 99 where id = 1", NULL);
    expect_quarantined(f);
}

TEST_F(store, a_piece_with_an_unknown_codec_is_a_miss_and_stays)
{
    put_large(f, 1, 1);
    meddle(f, "update piece set codec = 77 where id = 2", NULL);

    assert_false(holds(f, 1));

    assert_false(is_damaged(f, 1));
    assert_int_equal(pieces(f), STEPS - 1);
}

static bool compare(void *context, const struct kernel_record *record, struct bytes raw)
{
    struct digest sum = sha256_of(raw);
    assert_int_equal(raw.size, record->raw_size);
    assert_true(digest_equal(&sum, &record->object));
    ++*(unsigned *)context;
    return true;
}

TEST_F(store, large_objects_are_exported_whole)
{
    unsigned count = 0;
    bool end = false;
    struct large_put p[2];
    struct kernel_position position = { 0 };
    for (unsigned i = 0; i < 2; i++) {
        begin_put(&p[i], i, LARGE - i * PIECE, 1 + i);
        p[i].record.database_id = DEVICE;
        run_steps(f, &p[i], STEPS - i);
        end_put(f, &p[i]);
    }
    const struct kernel_export kernels = {
        .uid = 1000, .database_id = DEVICE, .max = 10, .each = compare, .context = &count
    };

    must(kernel_store_each_named(f->store, &kernels, &position, &end, &f->err), f->err);

    assert_int_equal(count, 2);
    assert_true(end);
}

/* Small kernels are removed first, several in one transaction. */
TEST_F(store, one_transaction_removes_at_most_four_mebibytes_and_one_more_kernel)
{
    struct kernel_filter all = { 0 };
    uint64_t count = 0, bytes = 0;
    for (unsigned i = 0; i < 7; i++)
        stored(f, (struct kernel){ .number = 100 + i, .size = 100 });
    for (unsigned i = 0; i < 5; i++)
        put_large(f, i, i + 1);

    most_changed = 0;
    must(kernel_store_clear(f->store, &all, &count, &bytes, &f->err), f->err);

    assert_int_equal(count, 12);
    assert_true(most_changed <= 4);
    assert_int_equal(pieces(f), 0);
}
