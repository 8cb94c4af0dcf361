/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"

#include "common/protocol/limits.h"
#include "engine/digest/sha256.h"

#include <stdio.h>
#include <string.h>

#define ANNA 1001u
#define BERT 1002u
#define DEVICE "gfx906_60"

struct named {
    const char *name, *args;
    uint32_t uid;
    bool is_private;
    uint64_t seed;
    const char *database_id;
};

static struct digest key_named(const struct named *n)
{
    return kernel_name_key(n->is_private ? n->uid : KERNEL_SCOPE_EVERYONE,
                           bytes_of_text(n->database_id ? n->database_id : DEVICE),
                           bytes_of_text(n->name), bytes_of_text(n->args));
}

static void import_named(struct fixture *f, struct named n)
{
    struct object *object = object_of(3000, n.seed, true);
    struct kernel_record record = { .key = key_named(&n),
                                    .target = "gfx906",
                                    .program = n.name,
                                    .options = n.args,
                                    .database_id = n.database_id ? n.database_id : DEVICE,
                                    .version = "0.1.0",
                                    .uid = n.uid,
                                    .is_private = n.is_private };
    uint64_t evicted = 0;
    if (kernel_store_import(f->store, &record, object, &evicted, &f->err) != KILN_OK)
        fail_msg("%s", f->err.text);
    object_unref(object);
}

TEST(store, a_name_key_depends_on_every_byte_of_its_fields)
{
    struct bytes device = bytes_of_text(DEVICE), name = bytes_of_text("a.s.o"),
                 args = bytes_of_text(" -mcpu=gfx906");
    struct digest keys[] = {
        kernel_name_key(KERNEL_SCOPE_EVERYONE, device, name, args),
        kernel_name_key(0, device, name, args),
        kernel_name_key(1, device, name, args),
        kernel_name_key(KERNEL_SCOPE_EVERYONE, bytes_of_text("gfx906_64"), name, args),
        kernel_name_key(KERNEL_SCOPE_EVERYONE, device, bytes_of_text("a.s.o "), args),
        kernel_name_key(KERNEL_SCOPE_EVERYONE, device, name, bytes_of_text("-mcpu=gfx906")),
        kernel_name_key(KERNEL_SCOPE_EVERYONE, device, name, bytes_of_text("  -mcpu=gfx906")),
        kernel_name_key(KERNEL_SCOPE_EVERYONE, device, bytes_of_text("a.s.o -mcpu=gfx906"),
                        bytes_of_text("")),
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        for (size_t j = 0; j < i; j++)
            assert_false(digest_equal(&keys[i], &keys[j]));
    }
    struct digest again = kernel_name_key(1, device, name, args);
    assert_true(digest_equal(&again, &keys[2]));
}

TEST(store, a_name_key_is_the_documented_sum)
{
    static const char text[] = "\x0b\0\0\0\0\0\0\0kiln-name-1"
                               "\x08\0\0\0\0\0\0\0\xe9\x03\0\0\0\0\0\0"
                               "\x09\0\0\0\0\0\0\0gfx906_60"
                               "\x05\0\0\0\0\0\0\0a.s.o"
                               "\x02\0\0\0\0\0\0\0 x";
    struct digest expected = sha256_of(bytes_of(text, sizeof(text) - 1));

    struct digest key =
        kernel_name_key(ANNA, bytes_of_text(DEVICE), bytes_of_text("a.s.o"), bytes_of_text(" x"));

    assert_true(digest_equal(&key, &expected));
}

struct exported {
    size_t count, max;
    char names[40][64];
    char args[40][64];
    struct digest sums[40];
    size_t damaged;
    struct kernel_record last;
};

static bool take(void *context, const struct kernel_record *record, struct bytes raw)
{
    struct exported *e = context;
    assert_true(e->count < 40);
    snprintf(e->names[e->count], 64, "%s", record->program);
    snprintf(e->args[e->count], 64, "%s", record->options);
    e->sums[e->count] = sha256_of(raw);
    e->damaged += raw.size == 0;
    assert_true(raw.size == 0 || digest_equal(&e->sums[e->count], &record->object));
    e->last = *record;
    e->count++;
    return e->max == 0 || e->count < e->max;
}

static struct exported export(struct fixture *f, uint32_t uid, const char *database_id)
{
    struct exported e = { 0 };
    struct kernel_position position = { 0 };
    bool end = false;
    const struct kernel_export kernels = {
        .uid = uid, .database_id = database_id, .max = 1000, .each = take, .context = &e
    };
    assert_int_equal(kernel_store_each_named(f->store, &kernels, &position, &end, &f->err),
                     KILN_OK);
    assert_true(end);
    return e;
}

TEST_F(store, exports_are_verbatim_and_in_the_order_of_import)
{
    static const char *const args[] = { " -mcpu=gfx906", "-mcpu=gfx906", "  -A  -B ", "" };
    for (unsigned i = 0; i < 4; i++) /* the keys have another order */
        import_named(f, (struct named){ "k.s.o", args[i], ANNA, true, .seed = i + 1 });

    struct exported e = export(f, ANNA, DEVICE);

    assert_int_equal(e.count, 4);
    for (unsigned i = 0; i < 4; i++) {
        struct object *expected = object_of(3000, i + 1, true);
        assert_string_equal(e.names[i], "k.s.o");
        assert_string_equal(e.args[i], args[i]);
        assert_true(digest_equal(&e.sums[i], &expected->digest));
        object_unref(expected);
    }
}

struct cut {
    struct fixture *f;
    size_t reported, refused;
};

/* Counts the records, and the checkpoints that were blocked by a reader. The first column of
 * wal_checkpoint's row tells whether the checkpoint was blocked. */
static bool cut_log(void *context, const struct kernel_record *record, struct bytes raw)
{
    struct cut *cut = context;
    struct digest sum = sha256_of(raw);
    cut->reported++;
    cut->refused += ask(cut->f, "pragma wal_checkpoint(truncate)") != 0;
    assert_string_equal(record->program, "k.s.o");
    assert_string_equal(record->database_id, DEVICE);
    assert_true(digest_equal(&sum, &record->object));
    return true;
}

TEST_F(store, a_slow_export_blocks_no_writer)
{
    struct kernel_position position = { 0 };
    struct cut cut = { .f = f };
    bool end = false;
    static const char *const args[] = { " -mcpu=gfx906", "-mcpu=gfx906", "  -A  -B ", "" };
    for (unsigned i = 0; i < 4; i++)
        import_named(f, (struct named){ "k.s.o", args[i], ANNA, i % 2, .seed = i + 1 });

    const struct kernel_export kernels = {
        .uid = ANNA, .database_id = DEVICE, .max = 1000, .each = cut_log, .context = &cut
    };
    assert_int_equal(kernel_store_each_named(f->store, &kernels, &position, &end, &f->err),
                     KILN_OK);

    assert_true(end);
    assert_int_equal(cut.reported, 4);
    assert_int_equal(cut.refused, 0);
}

TEST_F(store, an_export_has_private_kernels_first_and_then_public_ones_that_are_not_replaced)
{
    import_named(f, (struct named){ "a.o", " x", 0, false, .seed = 1 });
    import_named(f, (struct named){ "b.o", " x", 0, false, .seed = 2 });
    import_named(f, (struct named){ "b.o", " x", ANNA, true, .seed = 3 });
    import_named(f, (struct named){ "c.o", " x", BERT, true, .seed = 4 });
    import_named(f, (struct named){ "d.o", " x", ANNA, true, .seed = 5 });
    import_named(f, (struct named){ "e.o", " x", ANNA, true, .seed = 6, "gfx90a68" });
    /* Kernels that kiln compiles have no MIOpen name. */
    stored(f, (struct kernel){ .number = 1, .size = 100 });

    struct exported annas = export(f, ANNA, DEVICE), berts = export(f, BERT, DEVICE);

    assert_int_equal(annas.count, 3);
    assert_string_equal(annas.names[0], "b.o");
    assert_string_equal(annas.names[1], "d.o");
    assert_string_equal(annas.names[2], "a.o");
    assert_int_equal(berts.count, 3);
    assert_string_equal(berts.names[0], "c.o");
    assert_string_equal(berts.names[1], "a.o");
    assert_string_equal(berts.names[2], "b.o");
    assert_int_equal(export(f, 7, DEVICE).count, 2);
    assert_int_equal(export(f, ANNA, "gfx90a68").count, 1);
    assert_int_equal(export(f, ANNA, "").count, 0);
}

TEST_F(store, a_paged_export_neither_loses_nor_repeats_kernels)
{
    char args[32];
    for (unsigned i = 0; i < 20; i++) {
        snprintf(args, sizeof(args), " -D%u", i);
        import_named(f, (struct named){ "k.o", args, ANNA, i % 3 != 0, .seed = i + 1 });
    }
    struct exported all = export(f, ANNA, DEVICE), paged = { 0 };
    struct kernel_position position = { 0 };
    bool end = false;
    unsigned pages = 0;

    const struct kernel_export kernels = {
        .uid = ANNA, .database_id = DEVICE, .max = 3, .each = take, .context = &paged
    };
    for (; !end; pages++) {
        paged.max = pages % 2 ? paged.count + 2 : 0;
        assert_int_equal(kernel_store_each_named(f->store, &kernels, &position, &end, &f->err),
                         KILN_OK);
    }

    assert_in_range(pages, 8, 10);
    assert_int_equal(paged.count, 20);
    for (unsigned i = 0; i < 20; i++)
        assert_string_equal(paged.args[i], all.args[i]);
}

TEST_F(store, a_damaged_object_is_reported_without_its_bytes)
{
    struct named bad = { "b.o", " x", ANNA, true, .seed = 2 };
    struct digest key = key_named(&bad);
    import_named(f, (struct named){ "a.o", " x", ANNA, true, .seed = 1 });
    import_named(f, bad);
    meddle(f,
           "update object set bytes = cast(zeroblob(40) as blob)"
           " where id = (select object from kernel where key = ?1)",
           &key);

    struct exported e = export(f, ANNA, DEVICE);

    assert_int_equal(e.count, 2);
    assert_int_equal(e.damaged, 1);
    assert_true(digest_equal(&e.last.key, &key));
    assert_int_equal(kernel_store_quarantine(f->store, &key, &f->err), KILN_OK);
    assert_int_equal(export(f, ANNA, DEVICE).count, 1);
}

static struct object *get(struct fixture *f, const struct named *n)
{
    struct object *object = NULL;
    struct digest key = key_named(n);
    bool damaged = false;
    enum kiln_code rc = kernel_store_get(f->store, &key, &object, &damaged, &f->err);
    assert_true(rc == KILN_OK || rc == KILN_NOT_FOUND);
    return object;
}

TEST_F(store, an_object_reports_its_owner)
{
    struct named annas = { "a.o", " x", ANNA, true, .seed = 1 };
    struct named everyones = { "a.o", " x", 0, false, .seed = 2 };
    import_named(f, annas);
    import_named(f, everyones);

    struct object *own = get(f, &annas), *shared = get(f, &everyones);

    assert_true(own->is_private);
    assert_int_equal(own->owner, ANNA);
    assert_false(shared->is_private);
    assert_false(digest_equal(&own->digest, &shared->digest));
    object_unref(own);
    object_unref(shared);
}

/* The object is damaged. A look-up that read it would report that, so no report means that it
 * was not read. */
TEST_F(store, a_private_kernel_of_another_user_is_not_even_read)
{
    struct named annas = { "a.o", " x", ANNA, true, .seed = 1 };
    struct digest key = key_named(&annas);
    struct object *object = NULL;
    import_named(f, annas);
    meddle(f, "update object set bytes = zeroblob(length(bytes))", NULL);

    struct kernel_reader bert = { .uid = BERT }, anna = { .uid = ANNA };
    assert_int_equal(kernel_store_get_as(f->store, &bert, &key, &object, &f->err), KILN_NOT_FOUND);
    assert_false(bert.damaged);
    assert_true(bert.hidden);
    assert_int_equal(bert.owner, ANNA);
    assert_int_equal(kernel_store_get_as(f->store, &anna, &key, &object, &f->err), KILN_NOT_FOUND);
    assert_true(anna.damaged);
    assert_false(anna.hidden);
}

TEST_F(store, named_kernels_survive_a_restart_with_all_their_fields)
{
    import_named(f, (struct named){ "a.o", " x", ANNA, true, .seed = 1 });

    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    struct exported e = export(f, ANNA, DEVICE);

    assert_int_equal(e.count, 1);
    assert_true(e.last.is_private);
    assert_int_equal(e.last.uid, ANNA);
    assert_int_equal(kernel_record_scope(&e.last), ANNA);
}

/* The arguments are as long as MIOpen's longest. */
TEST_F(store, arguments_of_two_kilobytes_are_stored)
{
    char args[2200];
    memset(args, 'x', sizeof(args) - 1);
    args[sizeof(args) - 1] = '\0';
    struct named n = { "long.cl.o", args, ANNA, false, .seed = 1 };
    import_named(f, n);

    struct object *object = get(f, &n);

    assert_non_null(object);
    object_unref(object);
}

struct near {
    unsigned count;
    char programs[KERNEL_NEAREST_MAX][64];
    char options[KERNEL_NEAREST_MAX][64];
    char targets[KERNEL_NEAREST_MAX][64];
    struct kernel_record records[KERNEL_NEAREST_MAX];
};

static void see_near(void *context, const struct kernel_record *record)
{
    struct near *n = context;
    assert_true(n->count < KERNEL_NEAREST_MAX);
    snprintf(n->programs[n->count], 64, "%s", record->program);
    snprintf(n->options[n->count], 64, "%s", record->options);
    snprintf(n->targets[n->count], 64, "%s", record->target);
    n->records[n->count++] = *record;
}

static struct near nearest(struct fixture *f, struct kernel_record wanted, uint32_t uid)
{
    struct near n = { 0 };
    wanted.uid = uid;
    enum kiln_code rc = kernel_store_nearest(f->store, &wanted, see_near, &n, &f->err);
    assert_int_equal(rc, n.count ? KILN_OK : KILN_NOT_FOUND);
    return n;
}

static const struct kernel_record usual = { .program = "conv.cpp",
                                            .target = "gfx90a:sramecc+:xnack-",
                                            .options = "-DA=1 -DB=2 -DC=3",
                                            .toolchain = "hiprtc",
                                            .version = "0.1.0",
                                            .source_id = { { 1 } },
                                            .headers_id = { { 2 } },
                                            .toolchain_id = { { 3 } } };

static void keep(struct fixture *f, unsigned number, struct kernel_record record)
{
    struct object *object = object_of(100, number, false);
    uint64_t evicted = 0;
    record.key = key_of(number);
    assert_int_equal(kernel_store_put(f->store, &record, object, &evicted, &f->err), KILN_OK);
    object_unref(object);
}

TEST_F(store, the_nearest_kernel_is_the_one_that_differs_in_one_field)
{
    struct kernel_record toolchain = usual, source = usual, features = usual, other = usual;
    toolchain.toolchain_id.bytes[0] = 99;
    source.source_id.bytes[0] = 99;
    source.headers_id.bytes[0] = 99;
    features.target = "gfx90a:sramecc+:xnack+";
    features.options = "-DA=1";
    features.source_id.bytes[0] = 99;
    other.program = "other.cpp";
    keep(f, 1, toolchain);
    keep(f, 2, source);
    keep(f, 3, features);
    keep(f, 4, other);

    struct near n = nearest(f, usual, 0);

    assert_int_equal(n.count, 3);
    assert_int_equal(n.records[0].toolchain_id.bytes[0], 99);
    assert_int_equal(n.records[1].source_id.bytes[0], 99);
    assert_string_equal(n.targets[2], "gfx90a:sramecc+:xnack+");
}

TEST_F(store, with_equally_many_agreeing_fields_the_most_similar_kernel_is_nearest)
{
    struct kernel_record r = usual;
    static const char *const options[] = { "-DX=1", "-DA=1 -DB=7 -DC=3", "-DA=1 -DC=3" };
    for (unsigned i = 0; i < 3; i++) {
        r.options = options[i];
        keep(f, i + 1, r);
    }

    struct near n = nearest(f, usual, 0);

    assert_string_equal(n.options[0], "-DA=1 -DB=7 -DC=3");
    assert_string_equal(n.options[1], "-DA=1 -DC=3");
    assert_string_equal(n.options[2], "-DX=1");
}

TEST_F(store, a_kernel_of_another_program_is_near_only_if_its_own_program_has_none)
{
    assert_int_equal(nearest(f, usual, 0).count, 0);
    struct kernel_record other = usual;
    other.program = "renamed.cpp";
    keep(f, 1, other);

    assert_string_equal(nearest(f, usual, 0).programs[0], "renamed.cpp");
    keep(f, 2, (struct kernel_record){ .program = "conv.cpp", .target = "sm_90" });

    struct near n = nearest(f, usual, 0);
    assert_int_equal(n.count, 1);
    assert_string_equal(n.programs[0], "conv.cpp");
}

TEST_F(store, a_named_kernel_of_other_compute_units_is_near)
{
    import_named(f, (struct named){ "a.o", " -mcpu=gfx906", 0, false, .seed = 1, "gfx900_56" });
    import_named(f, (struct named){ "a.o", " -mcpu=gfx906", 0, false, .seed = 2, "gfx906_64" });
    import_named(f, (struct named){ "a.o", "-mcpu=gfx906", 0, false, .seed = 3, "gfx906_64" });

    struct near n =
        nearest(f,
                (struct kernel_record){
                    .program = "a.o", .options = " -mcpu=gfx906", .database_id = DEVICE },
                ANNA);

    assert_int_equal(n.count, 3);
    assert_string_equal(n.options[0], " -mcpu=gfx906");
    struct digest key = kernel_name_key(KERNEL_SCOPE_EVERYONE, bytes_of_text("gfx906_64"),
                                        bytes_of_text("a.o"), bytes_of_text(" -mcpu=gfx906"));
    assert_true(digest_equal(&n.records[0].key, &key));
}

TEST_F(store, private_kernels_of_others_are_not_among_the_nearest)
{
    import_named(f, (struct named){ "a.o", " x", BERT, true, .seed = 1 });
    struct kernel_record wanted = { .program = "a.o", .options = " x", .database_id = DEVICE };

    assert_int_equal(nearest(f, wanted, ANNA).count, 0);
    assert_int_equal(nearest(f, wanted, BERT).count, 1);
}
