/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "index_fixture.h"
#include "tests/support/entries.h"
#include "tests/support/tuning_work.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fsync_fails;
static unsigned fsyncs;
WRAP(int, fsync, int fd)
{
    fsyncs++;
    if (fsync_fails) {
        errno = EIO;
        return -1;
    }
    return __real_fsync(fd);
}

static bool is_same(const struct tuning_index_record *a, const struct tuning_index_record *b)
{
    for (int f = 0; f < FAMILIES; f++)
        if (!bytes_equal(a->kin.families[f], b->kin.families[f]))
            return false;
    return bytes_equal(a->key, b->key) && bytes_equal(a->value, b->value) &&
           a->kin.batch == b->kin.batch && a->kin.volume == b->kin.volume &&
           a->number == b->number && a->id_count == b->id_count &&
           bytes_equal(bytes_of(a->ids, a->id_count * 8), bytes_of(b->ids, b->id_count * 8));
}

TEST_F(index, every_record_is_read_in_the_order_of_its_source)
{
    write_index(f, RECORDS);
    KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);
    assert_int_equal(tuning_index_count(index), RECORDS);
    assert_int_equal(tuning_index_entries(index), 2 * RECORDS);
    assert_int_equal(tuning_index_kind(index), TUNING_FIND);
    for (unsigned i = 0; i < RECORDS; i++) {
        struct made_record made;
        struct tuning_index_record got;
        make_record(i, &made);
        assert_true(tuning_index_at(index, i, &got));
        assert_true(is_same(&got, &made.record));
    }
    struct tuning_index_record none;
    assert_false(tuning_index_at(index, RECORDS, &none));
    assert_int_equal(tuning_index_damaged(index), 0);
}

TEST_F(index, finds_each_key_and_no_other)
{
    write_index(f, RECORDS);
    KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);
    struct bytes value;
    for (unsigned i = 0; i < RECORDS; i++) {
        struct made_record made;
        make_record(i, &made);
        assert_true(tuning_index_find(index, made.record.key, &value));
        assert_true(bytes_equal(value, made.record.value));
        made.record.key.size--;
        assert_false(tuning_index_find(index, made.record.key, &value) &&
                     bytes_equal(value, made.record.value));
    }
    assert_false(tuning_index_find(index, bytes_of_text("verbatim-1"), &value));
    assert_false(tuning_index_find(index, bytes_of_text(""), &value));
}

struct seen {
    unsigned count, most;
    uint64_t last_number;
    bool in_order;
};

static bool see(void *context, const struct tuning_index_record *record)
{
    struct seen *seen = context;
    seen->in_order = seen->in_order && record->number > seen->last_number;
    seen->last_number = record->number;
    return ++seen->count < seen->most;
}

static struct seen see_family(struct tuning_index *index, struct bytes name, unsigned most)
{
    struct seen seen = { .most = most, .in_order = true };
    tuning_index_family(index, name, see, &seen);
    return seen;
}

TEST_F(index, finds_both_families_of_a_problem)
{
    write_index(f, RECORDS);
    KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);
    unsigned same_size = 0, all = 0;
    for (unsigned i = 0; i < RECORDS; i++) {
        same_size += i % 7 != 6 && i % 3 == 0;
        all += i % 7 != 6;
    }
    struct made_record made;
    make_record(0, &made);

    struct seen batch = see_family(index, made.record.kin.families[FAMILY_BATCH], RECORDS);
    struct seen spatial = see_family(index, made.record.kin.families[FAMILY_SPATIAL], RECORDS);
    struct seen stopped = see_family(index, made.record.kin.families[FAMILY_SPATIAL], 5);

    assert_int_equal(batch.count, same_size);
    assert_int_equal(spatial.count, all);
    assert_true(batch.in_order && spatial.in_order);
    assert_int_equal(stopped.count, 5);
    assert_int_equal(see_family(index, bytes_of_text(""), 9).count, 0);
    assert_int_equal(see_family(index, bytes_of_text("\1other"), 9).count, 0);
    assert_int_equal(see_family(index, bytes_of_text("\77other"), 9).count, 0);
}

TEST_F(index, the_first_of_two_equal_keys_answers)
{
    KILN_AUTO(tuning_index_builder) struct tuning_index_builder *builder = NULL;
    must(tuning_index_builder_create(TUNING_PERF, &builder, &f->err), f->err);
    struct tuning_index_record record = { .key = bytes_of_text("k"),
                                          .value = bytes_of_text("a:1") };
    must(tuning_index_builder_add(builder, &record, &f->err), f->err);
    record.value = bytes_of_text("b:2");
    must(tuning_index_builder_add(builder, &record, &f->err), f->err);
    must(tuning_index_builder_write(builder, f->path, &f->digest, &f->err), f->err);

    KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);
    struct bytes value;
    assert_true(tuning_index_find(index, record.key, &value));
    assert_true(bytes_equal_text(value, "a:1"));
    assert_int_equal(tuning_index_count(index), 2);
    assert_int_equal(tuning_index_kind(index), TUNING_PERF);
}

TEST_F(index, an_empty_database_has_an_index)
{
    write_index(f, 0);
    KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);
    struct bytes value;
    assert_int_equal(tuning_index_count(index), 0);
    assert_false(tuning_index_find(index, bytes_of_text("k"), &value));
    must(tuning_index_verify(index, &f->err), f->err);
}

TEST_F(index, the_value_of_an_indexed_record_may_be_empty)
{
    KILN_AUTO(tuning_index_builder) struct tuning_index_builder *builder = NULL;
    must(tuning_index_builder_create(TUNING_FIND, &builder, &f->err), f->err);
    struct tuning_index_record record = { .key = bytes_of_text("k") };
    must(tuning_index_builder_add(builder, &record, &f->err), f->err);
    must(tuning_index_builder_write(builder, f->path, &f->digest, &f->err), f->err);
    KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);
    struct bytes value = bytes_of_text("x");
    assert_true(tuning_index_find(index, record.key, &value));
    assert_int_equal(value.size, 0);
    assert_int_equal(tuning_index_entries(index), 0);
}

TEST_F(index, the_same_records_give_the_same_file)
{
    write_index(f, RECORDS);
    struct digest first = f->digest;
    write_index(f, RECORDS);
    assert_true(digest_equal(&first, &f->digest));
    KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);
    struct digest stated = tuning_index_digest(index);
    assert_true(digest_equal(&first, &stated));
    must(tuning_index_verify(index, &f->err), f->err);
    write_index(f, RECORDS - 1);
    assert_false(digest_equal(&first, &f->digest));
}

TEST_F(index, verifying_survives_a_file_that_lost_its_end)
{
    write_index(f, RECORDS);
    KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);
    assert_int_equal(chmod(f->path, 0600), 0);
    /* The index stays mapped, so reading a page beyond the file's new end would raise SIGBUS. */
    assert_int_equal(truncate(f->path, 5000), 0);

    assert_int_equal(tuning_index_verify(index, &f->err), KILN_CORRUPT);

    assert_says(f->err.text, "5000");
}

static void write_large_index(struct index_fixture *f, size_t size)
{
    static char value[50000];
    KILN_AUTO(tuning_index_builder) struct tuning_index_builder *builder = NULL;
    memset(value, 'x', sizeof(value));
    value[0] = 'a';
    value[1] = ':';
    must(tuning_index_builder_create(TUNING_PERF, &builder, &f->err), f->err);
    for (size_t i = 0; i < size / sizeof(value); i++) {
        char key[24];
        snprintf(key, sizeof(key), "k%zu", i);
        const struct tuning_index_record record = { .key = bytes_of_text(key),
                                                    .value = bytes_of(value, sizeof(value)) };
        must(tuning_index_builder_add(builder, &record, &f->err), f->err);
    }
    must(tuning_index_builder_write(builder, f->path, &f->digest, &f->err), f->err);
}

TEST_F(index, an_index_is_verified_four_mebibytes_at_a_time)
{
    struct tuning_index_check check = { .at = 0 };
    unsigned steps = 0;
    write_large_index(f, 10u << 20);
    KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);

    for (bool more = true; more; steps++)
        must(tuning_index_check_step(index, &check, &more, &f->err), f->err);

    assert_int_equal(steps, 3);
    assert_int_equal(check.at, tuning_index_bytes(index));
}

TEST_F(index, a_mapped_index_outlives_its_replacement)
{
    write_index(f, RECORDS);
    KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);
    write_index(f, 1);
    must(tuning_index_verify(index, &f->err), f->err);
    assert_int_equal(tuning_index_count(index), RECORDS);
    assert_int_equal(entry_count(f->directory, ""), 1);
}

TEST_F(index, an_index_syncs_its_file_and_directory)
{
    fsyncs = 0;
    write_index(f, 1);
    assert_int_equal(fsyncs, 2);
}

TEST_F(index, a_disk_that_fails_leaves_the_old_index)
{
    write_index(f, RECORDS);
    KILN_AUTO(tuning_index_builder) struct tuning_index_builder *builder = NULL;
    must(tuning_index_builder_create(TUNING_FIND, &builder, &f->err), f->err);
    fsync_fails = true;
    enum kiln_code rc = tuning_index_builder_write(builder, f->path, &f->digest, &f->err);
    fsync_fails = false;
    assert_int_equal(rc, KILN_IO);
    assert_says(f->err.text, f->path);
    assert_int_equal(entry_count(f->directory, ""), 1);
    KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);
    assert_int_equal(tuning_index_count(index), RECORDS);
}

TEST_F(index, a_missing_directory_is_reported)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/none/find.index", f->directory);
    KILN_AUTO(tuning_index_builder) struct tuning_index_builder *builder = NULL;
    must(tuning_index_builder_create(TUNING_FIND, &builder, &f->err), f->err);
    assert_int_not_equal(tuning_index_builder_write(builder, path, &f->digest, &f->err), KILN_OK);
    assert_says(f->err.text, path);
}

TEST_F(index, refuses_records_that_are_too_long)
{
    KILN_AUTO(tuning_index_builder) struct tuning_index_builder *builder = NULL;
    must(tuning_index_builder_create(TUNING_FIND, &builder, &f->err), f->err);
    static uint8_t text[(64u << 10) + 1];
    static uint64_t ids[257];
    struct bytes key = bytes_of_text("k");
    const struct tuning_index_record bad[] = {
        { .key = bytes_of(text, 0) },
        { .key = bytes_of(text, 1025) },
        { .key = key, .value = bytes_of(text, sizeof(text)) },
        { .key = key, .ids = ids, .id_count = 257 },
        { .key = key, .kin.families[FAMILY_SPATIAL] = bytes_of(text, 10) },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(tuning_index_builder_add(builder, &bad[i], &f->err), KILN_INVALID);
    const struct tuning_index_record longest = {
        .key = bytes_of(text, 1024),
        .value = bytes_of(text, sizeof(text) - 1),
        .ids = ids,
        .id_count = 256,
    };
    must(tuning_index_builder_add(builder, &longest, &f->err), f->err);
    must(tuning_index_builder_write(builder, f->path, &f->digest, &f->err), f->err);
    KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);
    struct bytes value;
    assert_int_equal(tuning_index_count(index), 1);
    assert_true(tuning_index_find(index, longest.key, &value));
    assert_int_equal(value.size, longest.value.size);
}

TEST_F(index, only_an_index_that_nobody_else_can_write_is_opened)
{
    write_index(f, 1);
    struct tuning_index *index = NULL;
    assert_int_equal(chmod(f->path, 0620), 0);
    assert_int_equal(tuning_index_open(f->path, &index, &f->err), KILN_DENIED);
    assert_says(f->err.text, "chmod go-w");
    assert_int_equal(tuning_index_open("/dev/null", &index, &f->err), KILN_DENIED);
    assert_says(f->err.text, "regular file");
    assert_int_equal(tuning_index_open(f->directory, &index, &f->err), KILN_DENIED);
    char link[128];
    snprintf(link, sizeof(link), "%s.link", f->path);
    assert_int_equal(symlink(f->path, link), 0);
    assert_int_not_equal(tuning_index_open(link, &index, &f->err), KILN_OK);
    if (geteuid() == 0) {
        assert_int_equal(chmod(f->path, 0600) | chown(f->path, 65534, 65534), 0);
        assert_int_equal(tuning_index_open(f->path, &index, &f->err), KILN_DENIED);
        assert_says(f->err.text, "uid 65534");
    }
    assert_null(index);
}

TEST_F(index, says_when_there_is_no_file)
{
    struct tuning_index *index = NULL;
    assert_int_equal(tuning_index_open(f->path, &index, &f->err), KILN_NOT_FOUND);
    assert_says(f->err.text, f->path);
}
