/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"

#include "common/base/fs.h"
#include "common/protocol/limits.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct seen {
    unsigned count;
    struct digest keys[64];
    struct kernel_record last;
    char program[64];
};

static void see(void *context, const struct kernel_record *record)
{
    struct seen *seen = context;
    assert_true(seen->count < 64);
    seen->keys[seen->count++] = record->key;
    seen->last = *record;
    snprintf(seen->program, sizeof(seen->program), "%s", record->program);
}

static struct seen list(struct fixture *f, struct kernel_filter filter, const struct digest *after,
                        size_t count)
{
    struct seen seen = { 0 };
    const struct kernel_page page = { .filter = filter, .after = after, .max = count };
    assert_int_equal(kernel_store_list(f->store, &page, see, &seen, &f->err), KILN_OK);
    return seen;
}

TEST_F(store, a_stored_kernel_is_returned_unchanged)
{
    size_t sizes[] = { 1, 5000, OBJECT_INLINE_MAX, OBJECT_INLINE_MAX + 1, 3 << 20 };
    for (unsigned i = 0; i < 5; i++) {
        stored(f, (struct kernel){
                      .number = i, .size = sizes[i], .seed = i + 1, .compressible = i % 2 });
        struct object *expected = object_of(sizes[i], i + 1, i % 2);
        struct object *object = NULL;
        struct digest key = key_of(i);
        bool damaged = true;

        assert_int_equal(kernel_store_get(f->store, &key, &object, &damaged, &f->err), KILN_OK);

        assert_false(damaged);
        assert_true(digest_equal(&object->digest, &expected->digest));
        assert_int_equal(object->size, sizes[i]);
        assert_int_equal(object->compile_ns, 1000000000);
        assert_int_equal(object->data != NULL, sizes[i] <= OBJECT_INLINE_MAX);
        assert_true(fs_is_sealed(object->fd));
        object_unref(object);
        object_unref(expected);
    }
}

TEST_F(store, kernels_survive_a_restart)
{
    stored(f, (struct kernel){ .number = 1, .size = 5000 });

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_string_equal(f->notice, "");
    assert_true(holds(f, 1));
    assert_int_equal(usage(f).kernels, 1);
}

TEST_F(store, a_miss_is_an_answer_without_a_message)
{
    f->err = KILN_ERR_INIT;

    assert_false(holds(f, 1));
    assert_false(is_damaged(f, 1));

    assert_string_equal(f->err.text, "");
}

TEST_F(store, an_object_with_two_keys_is_stored_once)
{
    stored(f, (struct kernel){ .number = 1, .size = 5000, .seed = 9 });
    struct kernel_usage one = usage(f);

    stored(f, (struct kernel){ .number = 2, .size = 5000, .seed = 9 });

    assert_int_equal(usage(f).objects, 1);
    assert_int_equal(usage(f).kernels, 2);
    assert_int_equal(usage(f).stored_bytes, one.stored_bytes);
    assert_true(holds(f, 1));
    assert_true(holds(f, 2));
}

TEST_F(store, an_object_is_deleted_with_its_last_key)
{
    struct digest keys[] = { key_of(1), key_of(2) };
    stored(f, (struct kernel){ .number = 1, .size = 5000, .seed = 9 });
    stored(f, (struct kernel){ .number = 2, .size = 5000, .seed = 9 });

    assert_int_equal(kernel_store_remove(f->store, &keys[0], &f->err), KILN_OK);
    assert_true(holds(f, 2));
    assert_int_equal(usage(f).objects, 1);
    assert_int_equal(kernel_store_remove(f->store, &keys[1], &f->err), KILN_OK);

    assert_int_equal(usage(f).objects, 0);
    assert_int_equal(usage(f).stored_bytes + usage(f).raw_bytes + usage(f).row_bytes, 0);
    assert_int_equal(ask(f, "select count(*) from recency"), 0);
    assert_int_equal(kernel_store_remove(f->store, &keys[1], &f->err), KILN_NOT_FOUND);
}

TEST_F(store, a_second_put_replaces_the_claim)
{
    struct digest key = key_of(1);
    struct object *newer = object_of(6000, 10, false);
    stored(f, (struct kernel){ .number = 1, .size = 5000, .seed = 9 });

    stored(f, (struct kernel){ .number = 1, .size = 6000, .seed = 10 });

    struct object *object = NULL;
    bool damaged = false;
    assert_int_equal(kernel_store_get(f->store, &key, &object, &damaged, &f->err), KILN_OK);
    assert_true(digest_equal(&object->digest, &newer->digest));
    assert_int_equal(usage(f).objects, 1);
    assert_int_equal(usage(f).kernels, 1);
    object_unref(object);
    object_unref(newer);
}

TEST_F(store, counters_agree_with_the_rows)
{
    for (unsigned i = 0; i < 30; i++)
        stored(f, (struct kernel){
                      .number = i, .size = 1000 + i, .seed = 1 + i / 2, .compressible = true });
    struct digest key = key_of(3);
    assert_int_equal(kernel_store_remove(f->store, &key, &f->err), KILN_OK);

    struct kernel_usage u = usage(f);

    assert_int_equal(u.limit_bytes, ROOMY);
    assert_int_equal(u.kernels, ask(f, "select count(*) from kernel"));
    assert_int_equal(u.objects, ask(f, "select count(*) from object"));
    assert_int_equal(u.stored_bytes, ask(f, "select sum(length(bytes)) from object"));
    assert_int_equal(u.raw_bytes, ask(f, "select sum(raw_size) from object"));
    assert_int_equal(u.row_bytes, ask(f, "select sum(row_bytes) from kernel"));
}

TEST_F(store, texts_longer_than_in_requests_are_refused)
{
    char program[LIMIT_PROGRAM_NAME + 2];
    memset(program, 'p', sizeof(program) - 1);
    program[sizeof(program) - 1] = '\0';

    assert_int_equal(put(f, (struct kernel){ .number = 1, .size = 10, .program = program }),
                     KILN_INVALID);

    assert_says(f->err.text, "program");
}

TEST_F(store, showing_a_kernel_reports_every_field)
{
    struct digest key = key_of(1), toolchain = key_of(7);
    struct object *object = object_of(5000, 1, true);
    struct seen seen = { 0 };
    stored(f,
           (struct kernel){ .number = 1, .size = 5000, .compressible = true, .program = "a.cl" });

    assert_int_equal(kernel_store_show(f->store, &key, see, &seen, &f->err), KILN_OK);

    assert_int_equal(seen.count, 1);
    assert_true(digest_equal(&seen.last.key, &key));
    assert_true(digest_equal(&seen.last.object, &object->digest));
    assert_true(digest_equal(&seen.last.toolchain_id, &toolchain));
    assert_string_equal(seen.program, "a.cl");
    assert_int_equal(seen.last.raw_size, 5000);
    assert_in_range(seen.last.stored_size, 1, 4999);
    assert_int_equal(seen.last.compile_ns, 1000000000);
    assert_int_equal(seen.last.created, 1700000000);
    assert_int_equal(seen.last.last_used, 1700000000);
    assert_int_equal(seen.last.uid, 1000);
    key = key_of(2);
    assert_int_equal(kernel_store_show(f->store, &key, see, &seen, &f->err), KILN_NOT_FOUND);
    object_unref(object);
}

TEST_F(store, kernels_are_listed_in_pages_by_key)
{
    for (unsigned i = 0; i < 25; i++)
        stored(f, (struct kernel){ .number = i, .size = 100 });
    struct seen all = list(f, (struct kernel_filter){ 0 }, NULL, 64);

    struct digest after = { 0 };
    unsigned total = 0;
    for (unsigned count = 10; count == 10;) {
        struct seen page = list(f, (struct kernel_filter){ 0 }, total ? &after : NULL, 10);
        count = page.count;
        for (unsigned i = 0; i < count; i++)
            assert_true(digest_equal(&page.keys[i], &all.keys[total + i]));
        total += count;
        after = page.keys[count - 1];
    }

    assert_int_equal(total, 25);
    for (unsigned i = 1; i < all.count; i++)
        assert_true(memcmp(all.keys[i - 1].bytes, all.keys[i].bytes, DIGEST_SIZE) < 0);
}

TEST_F(store, lists_can_be_filtered_by_target_program_and_age)
{
    stored(f, (struct kernel){ .number = 1, .size = 9, .target = "gfx90a", .last_used = 1000 });
    stored(f, (struct kernel){
                  .number = 2, .size = 9, .target = "gfx90a:sramecc+:xnack-", .last_used = 2000 });
    stored(f,
           (struct kernel){
               .number = 3, .size = 9, .target = "gfx90", .program = "b.cl", .last_used = 3000 });

    assert_int_equal(list(f, (struct kernel_filter){ .target = "gfx90a" }, NULL, 9).count, 2);
    assert_int_equal(list(f, (struct kernel_filter){ .target = "gfx90" }, NULL, 9).count, 1);
    assert_int_equal(
        list(f, (struct kernel_filter){ .target = "gfx90a:sramecc+:xnack-" }, NULL, 9).count, 1);
    assert_int_equal(list(f, (struct kernel_filter){ .program = "b.cl" }, NULL, 9).count, 1);
    assert_int_equal(list(f, (struct kernel_filter){ .older_than = 2000 }, NULL, 9).count, 1);
    assert_int_equal(
        list(f, (struct kernel_filter){ .target = "", .older_than = 9999 }, NULL, 9).count, 3);
    assert_int_equal(list(f, (struct kernel_filter){ .target = "' or 1 = 1 --" }, NULL, 9).count,
                     0);
}

static void keep(struct fixture *f, unsigned number, struct kernel_record record)
{
    struct object *object = object_of(100, number, false);
    uint64_t evicted = 0;
    record.key = key_of(number);
    record.target = "gfx906";
    if (kernel_store_put(f->store, &record, object, &evicted, &f->err) != KILN_OK)
        fail_msg("%s", f->err.text);
    object_unref(object);
}

TEST_F(store, lists_can_be_filtered_by_every_field)
{
    struct digest toolchain = key_of(70);
    keep(f, 1,
         (struct kernel_record){ .uid = 0, .toolchain = "hiprtc", .toolchain_id = toolchain });
    keep(f, 2, (struct kernel_record){ .uid = 1001, .toolchain = "clang", .pinned = true });
    keep(f, 3,
         (struct kernel_record){ .uid = 1001, .database_id = "gfx906_60", .is_private = true });
    keep(f, 4, (struct kernel_record){ .uid = 0, .database_id = "gfx906_60", .package = "a.kdb" });
    static const struct {
        struct kernel_filter filter;
        unsigned matches, first;
    } cases[] = {
        { { .by_uid = true, .uid = 1001 }, 2, 0 },
        { { .by_uid = true }, 2, 0 },
        { { .toolchain = "clang" }, 1, 2 },
        { { .database_id = "gfx906_60" }, 2, 0 },
        { { .package = "a.kdb" }, 1, 4 },
        { { .by_scope = true, .scope = 1001 }, 1, 3 },
        { { .by_scope = true, .scope = 0 }, 0, 0 },
        { { .by_scope = true, .scope = KERNEL_SCOPE_EVERYONE }, 3, 0 },
        { { .not_pinned = true }, 3, 0 },
        { { .by_uid = true, .uid = 1001, .not_pinned = true, .database_id = "gfx906_60" }, 1, 3 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct seen seen = list(f, cases[i].filter, NULL, 9);
        struct digest first = key_of(cases[i].first);
        uint64_t count = 0, bytes = 0;
        assert_int_equal(seen.count, cases[i].matches);
        assert_true(!cases[i].first || digest_equal(&seen.keys[0], &first));
        assert_int_equal(kernel_store_count(f->store, &cases[i].filter, &count, &bytes, &f->err),
                         KILN_OK);
        assert_int_equal(count, cases[i].matches);
    }
    assert_int_equal(list(f, (struct kernel_filter){ .toolchain_id = toolchain }, NULL, 9).count,
                     1);
    struct digest other = key_of(71);
    assert_int_equal(list(f, (struct kernel_filter){ .toolchain_id = other }, NULL, 9).count, 0);
}

TEST_F(store, ids_of_source_and_headers_are_stored)
{
    struct seen seen = { 0 };
    struct digest key = key_of(1), unknown = { 0 };
    keep(f, 1,
         (struct kernel_record){ .source_id = key_of(5),
                                 .headers_id = key_of(6),
                                 .version = "0.1.0",
                                 .package = "a.kdb",
                                 .program = "a.cl",
                                 .uid = 77,
                                 .is_private = true,
                                 .pinned = true });
    struct digest source = key_of(5), headers = key_of(6);

    assert_int_equal(kernel_store_show(f->store, &key, see, &seen, &f->err), KILN_OK);

    assert_true(digest_equal(&seen.last.source_id, &source));
    assert_true(digest_equal(&seen.last.headers_id, &headers));
    assert_true(seen.last.is_private && seen.last.pinned);
    assert_int_equal(kernel_record_scope(&seen.last), 77);
    assert_int_equal(ask(f, "select version = '0.1.0' and package = 'a.kdb' and database_id = ''"
                            " from kernel"),
                     1);
    keep(f, 2, (struct kernel_record){ .program = "b.cl" });
    key = key_of(2);
    assert_int_equal(kernel_store_show(f->store, &key, see, &seen, &f->err), KILN_OK);
    assert_true(digest_equal(&seen.last.source_id, &unknown));
    assert_int_equal(kernel_record_scope(&seen.last), KERNEL_SCOPE_EVERYONE);
}

static size_t match(struct fixture *f, const char *prefix, struct digest *keys, size_t max)
{
    struct kernel_keys found = { .keys = keys, .max = max, .count = 99 };
    assert_int_equal(kernel_store_match(f->store, prefix, NULL, &found, &f->err), KILN_OK);
    return found.count;
}

TEST_F(store, keys_are_found_by_their_first_digits)
{
    struct digest keys[3], wanted = key_of(5);
    char hex[DIGEST_HEX_SIZE];
    for (unsigned i = 0; i < 20; i++)
        stored(f, (struct kernel){ .number = i, .size = 10 });
    digest_to_hex(&wanted, hex);

    for (size_t digits = DIGEST_HEX_SIZE - 1; digits >= 5; digits--) {
        hex[digits] = '\0';
        assert_int_equal(match(f, hex, keys, 3), 1);
        assert_true(digest_equal(&keys[0], &wanted));
    }
    assert_int_equal(match(f, "ffffffffff", keys, 3), 0);
    for (unsigned i = 0; i < 16; i++) {
        char digit[2] = { "0123456789abcdef"[i], '\0' };
        assert_in_range(match(f, digit, keys, 3), 0, 3);
    }
}

TEST_F(store, prefixes_that_are_not_hexadecimal_are_refused)
{
    const char *wrong[] = { "", "xyz", "12 ",
                            "0123456789012345678901234567890123456789012345678901234567890123a" };
    struct digest key;
    struct kernel_keys found = { .keys = &key, .max = 1 };
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(kernel_store_match(f->store, wrong[i], NULL, &found, &f->err),
                         KILN_INVALID);
}

/* The search for a prefix must not read without end, even if very many private kernels of other
 * users have keys with that prefix. */
TEST_F(store, a_prefix_that_very_many_keys_share_is_refused)
{
    const uint32_t other = 2000;
    struct digest keys[2];
    struct kernel_keys found = { .keys = keys, .max = 2 };
    for (unsigned i = 0; i < 1024; i++)
        stored(f, (struct kernel){ .number = i, .size = 10, .seed = 1, .is_private = true });
    meddle(f, "update kernel set key = cast(x'ab' || substr(key, 2) as blob)", NULL);

    assert_int_equal(kernel_store_match(f->store, "ab", &other, &found, &f->err), KILN_INVALID);
    assert_says(f->err.text, "more digits");
    assert_int_equal(match(f, "ab", keys, 2), 2);
    assert_int_equal(match(f, "ac", keys, 2), 0);
}

TEST_F(store, a_clear_that_finds_no_kernel_looks_for_it_in_steps)
{
    struct kernel_clearing clearing = { .filter = { .by_uid = true, .uid = 7 } };
    for (unsigned i = 0; i < 4200; i++)
        stored(f, (struct kernel){ .number = i, .size = 10, .seed = 1 });

    must(kernel_store_clear_some(f->store, &clearing, &f->err), f->err);
    assert_false(clearing.is_over);
    while (!clearing.is_over)
        must(kernel_store_clear_some(f->store, &clearing, &f->err), f->err);
    assert_int_equal(clearing.count, 0);
    assert_int_equal(usage(f).kernels, 4200);
}

TEST_F(store, counting_reports_what_clearing_would_remove)
{
    for (unsigned i = 0; i < 10; i++)
        stored(f, (struct kernel){ .number = i,
                                   .size = 1000,
                                   .seed = 1 + i / 2,
                                   .target = i < 6 ? "gfx906" : "gfx942" });
    struct kernel_filter filter = { .target = "gfx906" };
    uint64_t count = 0, bytes = 0;

    assert_int_equal(kernel_store_count(f->store, &filter, &count, &bytes, &f->err), KILN_OK);
    assert_int_equal(count, 6);
    assert_int_equal(bytes, 3000); /* three objects, each under two keys */
    assert_int_equal(usage(f).kernels, 10);

    assert_int_equal(kernel_store_clear(f->store, &filter, &count, &bytes, &f->err), KILN_OK);
    assert_int_equal(count, 6);
    assert_int_equal(bytes, 3000);
    assert_int_equal(usage(f).kernels, 4);
    assert_int_equal(usage(f).stored_bytes, 2000);
    assert_false(holds(f, 0));
    assert_true(holds(f, 9));
}

TEST_F(store, clearing_all_frees_the_disk_space)
{
    for (unsigned i = 0; i < 1200; i++)
        stored(f, (struct kernel){ .number = i, .size = 3000 });
    struct kernel_filter filter = { 0 };
    uint64_t count = 0, bytes = 0;

    assert_int_equal(kernel_store_clear(f->store, &filter, &count, &bytes, &f->err), KILN_OK);

    assert_int_equal(count, 1200);
    assert_int_equal(usage(f).kernels + usage(f).objects + usage(f).row_bytes, 0);
    assert_int_equal(ask(f, "select count(*) from recency"), 0);
    close_store(f);
    struct stat seen;
    assert_int_equal(stat(f->file, &seen), 0);
    assert_true(seen.st_size < 400000);
}

struct probe_seen {
    unsigned count;
    struct digest id;
    char target[32];
    bool works;
    char detail[64];
};

static void see_probe(void *context, const struct kernel_probe *probe)
{
    struct probe_seen *seen = context;
    seen->count++;
    seen->id = probe->toolchain_id;
    seen->works = probe->works;
    snprintf(seen->target, sizeof(seen->target), "%s", probe->target);
    snprintf(seen->detail, sizeof(seen->detail), "%s", probe->detail);
}

TEST_F(store, probe_results_survive_a_restart)
{
    struct digest id = key_of(3);
    struct probe_seen seen = { 0 };
    const struct kernel_probe works = { .toolchain_id = id, .target = "gfx942", .works = true };
    const struct kernel_probe aborts = { .toolchain_id = id,
                                         .target = "gfx942",
                                         .detail = "aborts" };
    assert_int_equal(kernel_store_probe_put(f->store, &works, &f->err), KILN_OK);
    assert_int_equal(kernel_store_probe_put(f->store, &aborts, &f->err), KILN_OK);

    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    assert_int_equal(kernel_store_probes(f->store, see_probe, &seen, &f->err), KILN_OK);

    assert_int_equal(seen.count, 1);
    assert_true(digest_equal(&seen.id, &id));
    assert_string_equal(seen.target, "gfx942");
    assert_false(seen.works);
    assert_string_equal(seen.detail, "aborts");
}

/* Forgetting a failed probe costs one more probe. Forgetting a successful one could cost a
 * compile. */
TEST_F(store, failed_probes_are_deleted_before_successful_ones)
{
    struct digest id = key_of(3);
    const struct kernel_probe probe = { .toolchain_id = key_of(4),
                                        .target = "sm_90",
                                        .works = true };
    meddle(f,
           "with recursive n (i) as (select 1 union all select i + 1 from n where i < 1500)"
           " insert into probe select ?1, 'sm_' || i, i = 1, '', i from n",
           &id);

    assert_int_equal(kernel_store_probe_put(f->store, &probe, &f->err), KILN_OK);

    assert_int_equal(ask(f, "select count(*) from probe"), 1024);
    assert_int_equal(ask(f, "select count(*) from probe where works = 1"), 2);
    assert_int_equal(ask(f, "select min(made) from probe where works = 0"), 1500 - 1022 + 1);
}

TEST_F(store, the_cache_directory_is_private_and_tagged)
{
    struct stat seen;
    assert_int_equal(stat(f->file, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0600);
    assert_int_equal(files(f, "CACHEDIR.TAG"), 1);
}

TEST_F(store, a_world_writable_directory_is_refused)
{
    close_store(f);
    assert_int_equal(chmod(f->directory, 0777), 0);

    assert_int_equal(reopen(f, ROOMY), KILN_DENIED);

    assert_says(f->err.text, "chmod go-w");
}
