/* SPDX-License-Identifier: MIT */
#include "tuning_db_fixture.h"

#include <math.h>
#include <stdio.h>

TEST_F(tuning_db, a_change_that_was_committed_is_there_after_a_restart)
{
    for (unsigned i = 1; i <= 60; i++)
        must(put(f, i, 2), f->err);

    must(reopen(f), f->err);

    assert_int_equal(count_found(f), 60);
    assert_int_equal(version_of(f, 58), 2);
    assert_string_equal(f->salvage.notice, "");
    assert_int_equal(files(f, "tuning.db.damaged-"), 0);
}

TEST_F(tuning_db, a_record_is_replaced_and_removed_as_a_whole)
{
    must(put(f, 1, 1), f->err);
    must(put(f, 2, 1), f->err);

    must(put(f, 1, 3), f->err);
    must(put(f, 2, 0), f->err);
    must(put(f, 9, 0), f->err);

    assert_int_equal(version_of(f, 1), 3);
    assert_int_equal(version_of(f, 2), 0);
    assert_int_equal(count_found(f), 1);
    must(reopen(f), f->err);
    assert_string_equal(f->salvage.notice, "");
}

TEST_F(tuning_db, a_change_that_was_not_committed_never_happened)
{
    must(put(f, 1, 1), f->err);
    {
        KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
        must(tuning_change_begin(f->db, &change, &f->err), f->err);
        must(change_one(change, 1, 2, &f->err), f->err);
        must(change_one(change, 2, 2, &f->err), f->err);
    }

    assert_int_equal(version_of(f, 1), 1);
    assert_int_equal(count_found(f), 1);
    assert_int_equal(put(f, 3, 1), KILN_OK);
}

TEST_F(tuning_db, a_second_change_waits_for_the_end_of_the_first)
{
    uint64_t freed = 0;
    KILN_AUTO(tuning_change) struct tuning_change *first = NULL;
    KILN_AUTO(tuning_change) struct tuning_change *second = NULL;
    must(tuning_change_begin(f->db, &first, &f->err), f->err);

    assert_int_equal(tuning_change_begin(f->db, &second, &f->err), KILN_BUSY);
    assert_int_equal(tuning_db_vacuum(f->db, &freed, &f->err), KILN_BUSY);

    must(tuning_change_commit(first, &f->err), f->err);
    assert_int_equal(change_one(first, 1, 1, &f->err), KILN_INVALID);
    tuning_change_destroy(KILN_TAKE(first));
    must(tuning_change_begin(f->db, &second, &f->err), f->err);
}

TEST_F(tuning_db, a_user_has_no_more_records_than_the_limit_and_the_host_any_number)
{
    f->records_per_uid = 3;
    must(reopen(f), f->err);
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    must(tuning_change_begin(f->db, &change, &f->err), f->err);
    for (unsigned i = 2; i <= 6; i += 2)
        must(change_one(change, i, 1, &f->err), f->err);

    assert_int_equal(change_one(change, 8, 1, &f->err), KILN_FULL);

    assert_says(f->err.text, "user 1000");
    assert_says(f->err.text, "kilnctl db rm");
    must(change_one(change, 2, 2, &f->err), f->err);
    must(change_one(change, 1, 1, &f->err), f->err);
    for (unsigned i = 7; i <= 70; i += 7)
        must(change_one(change, i, 1, &f->err), f->err);
    must(change_one(change, 4, 0, &f->err), f->err);
    must(change_one(change, 8, 1, &f->err), f->err);
    must(tuning_change_commit(change, &f->err), f->err);
    tuning_change_destroy(KILN_TAKE(change));
    assert_int_equal(put(f, 4, 1), KILN_FULL);
    must(reopen(f), f->err);
    assert_int_equal(count_found(f), 4 + 10);
}

static enum kiln_code put_sized(struct fixture *f, unsigned number, size_t size, bool commits)
{
    static char values[60000];
    char key[16];
    snprintf(key, sizeof(key), "key %u", number);
    memset(values, 'v', sizeof(values));
    struct tuning_place place = { .tier = TUNING_TIER_USER,
                                  .uid = 1000,
                                  .kind = TUNING_PERF,
                                  .database_id = "gfx90a68",
                                  .backend = "",
                                  .key = bytes_of_text(key) };
    struct tuning_row row = { .place = place,
                              .id = bytes_of_text("ConvA"),
                              .values = bytes_of(values, size) };
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    must(tuning_change_begin(f->db, &change, &f->err), f->err);
    enum kiln_code rc = tuning_change_record(change, &place, &row, size > 0, &f->err);
    return rc || !commits ? rc : tuning_change_commit(change, &f->err);
}

TEST_F(tuning_db, a_users_records_take_no_more_bytes_than_the_limit)
{
    f->bytes_per_uid = 100000;
    must(reopen(f), f->err);
    must(put_sized(f, 1, 50000, true), f->err);

    assert_int_equal(put_sized(f, 2, 50000, true), KILN_FULL);
    assert_says(f->err.text, "user 1000");
    assert_says(f->err.text, "kilnctl db rm");
    assert_says(f->err.text, "tuning_bytes_per_uid");
    must(put_sized(f, 2, 40000, true), f->err);
    assert_int_equal(put_sized(f, 1, 60000, true), KILN_FULL);
    must(put_sized(f, 1, 40000, false), f->err);
    assert_int_equal(put_sized(f, 3, 15000, true), KILN_FULL);
    must(put_sized(f, 1, 40000, true), f->err);
    must(put_sized(f, 3, 15000, true), f->err);
    must(reopen(f), f->err);
    assert_int_equal(put_sized(f, 4, 10000, true), KILN_FULL);
    must(put_sized(f, 3, 0, false), f->err);
    assert_int_equal(put_sized(f, 4, 10000, true), KILN_FULL);
    must(put_sized(f, 3, 0, true), f->err);
    must(put_sized(f, 4, 10000, true), f->err);
}

struct refusal {
    struct tuning_place place;
    struct tuning_row rows[2];
    size_t count;
};

static char long_text[70000];

static struct refusal fine(void)
{
    struct tuning_row row = { .id = bytes_of_text("ConvAsm1x1U"),
                              .values = bytes_of_text("0.5,0,direct") };
    memset(long_text, 'x', sizeof(long_text) - 1);
    return (struct refusal){ .place = { .tier = TUNING_TIER_USER,
                                        .uid = 1000,
                                        .kind = TUNING_FIND,
                                        .database_id = "gfx90a68",
                                        .backend = "HIP",
                                        .key = bytes_of_text("64-28") },
                             .rows = { row, { .id = bytes_of_text("Other") } },
                             .count = 1 };
}

static void refuse(struct fixture *f, struct refusal r, const char *words)
{
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    must(tuning_change_begin(f->db, &change, &f->err), f->err);
    assert_int_equal(tuning_change_record(change, &r.place, r.rows, r.count, &f->err),
                     KILN_INVALID);
    assert_says(f->err.text, words);
    must(change_one(change, 1, 1, &f->err), f->err);
    must(tuning_change_commit(change, &f->err), f->err);
}

TEST_F(tuning_db, refuses_records_that_belong_to_nobody_or_to_two)
{
    struct refusal r = fine();
    r.place.tier = TUNING_TIER_SYSTEM;
    refuse(f, r, "one user");
    r.place.tier = TUNING_TIER_HOST;
    refuse(f, r, "one user");
    r.place.tier = TUNING_TIER_USER;
    r.place.uid = TUNING_NOBODY;
    refuse(f, r, "one user");
    assert_int_equal(count_found(f), 1);
}

TEST_F(tuning_db, invalid_names_and_keys_are_refused)
{
    struct refusal r = fine();
    r.place.database_id = "";
    refuse(f, r, "database id");
    r.place.database_id = "gfx 90a";
    refuse(f, r, "database id");
    r = fine();
    r.place.kind = TUNING_PERF;
    refuse(f, r, "a backend");
    r = fine();
    r.place.key = bytes_of_text("");
    refuse(f, r, "key of");
    r.place.key = bytes_of_text("a\nb");
    refuse(f, r, "key of");
    r.place.key = bytes_of(long_text, 1025);
    refuse(f, r, "key of");
}

TEST_F(tuning_db, invalid_entries_are_refused)
{
    struct refusal r = fine();
    r.rows[0].id = bytes_of_text("");
    refuse(f, r, "id of");
    r.rows[0].id = bytes_of(long_text, 1025);
    refuse(f, r, "id of");
    r = fine();
    r.rows[0].values = bytes_of(long_text, 65537);
    refuse(f, r, "values of");
    r = fine();
    r.rows[0].measured.median_ms = NAN;
    refuse(f, r, "measured");
    r.rows[0].measured.median_ms = 0;
    r.rows[0].measured.spread_ms = -1;
    refuse(f, r, "measured");
    r = fine();
    r.rows[0].measured.origin.driver = long_text;
    refuse(f, r, "measurement");
    r = fine();
    r.count = 2;
    r.rows[1].id = r.rows[0].id;
    refuse(f, r, "'ConvAsm1x1U'");
}

static bool count_rows(void *context, const struct tuning_place *place,
                       const struct tuning_row *rows, size_t count)
{
    unsigned *counted = context;
    (void)place;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(rows[i].values.size, 65536);
    *counted += (unsigned)count;
    return true;
}

TEST_F(tuning_db, the_largest_record_is_stored_and_a_larger_one_refused)
{
    struct refusal r = fine();
    static struct tuning_row rows[257];
    static char ids[257][1025];
    unsigned count = 0;
    for (unsigned i = 0; i < 257; i++) {
        memset(ids[i], 'i', 1024);
        ids[i][snprintf(ids[i], 10, "%u", i)] = 'i';
        rows[i] = (struct tuning_row){ .id = bytes_of(ids[i], 1024),
                                       .values = bytes_of(long_text, 65536) };
    }
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    must(tuning_change_begin(f->db, &change, &f->err), f->err);

    assert_int_equal(tuning_change_record(change, &r.place, rows, 257, &f->err), KILN_INVALID);
    must(tuning_change_record(change, &r.place, rows, 256, &f->err), f->err);

    must(tuning_change_commit(change, &f->err), f->err);
    tuning_change_destroy(KILN_TAKE(change));
    must(reopen(f), f->err);
    must(tuning_db_each(f->db, count_rows, &count, &f->err), f->err);
    assert_int_equal(count, 256);
}

static struct tuning_system_file system_file(const char *database_id)
{
    return (struct tuning_system_file){ .kind = TUNING_FIND,
                                        .database_id = database_id,
                                        .backend = "HIP",
                                        .source = "gfx90a68.HIP.fdb.txt.bz2",
                                        .index_file = "find-gfx90a68.index",
                                        .digest = { { 1, 2, 3 } },
                                        .records = 193590,
                                        .entries = 800000,
                                        .rejected = 3,
                                        .imported_at = 1700000000,
                                        .uid = 7 };
}

static enum kiln_code put_system(struct fixture *f, struct tuning_system_file file)
{
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    must(tuning_change_begin(f->db, &change, &f->err), f->err);
    enum kiln_code rc = tuning_change_system(change, &file, &f->err);
    return rc ? rc : tuning_change_commit(change, &f->err);
}

struct systems {
    unsigned count;
    uint64_t records;
};

static bool on_system(void *context, const struct tuning_system_file *file)
{
    struct systems *s = context;
    struct tuning_system_file expected = system_file(file->database_id);
    assert_string_equal(file->source, expected.source);
    assert_string_equal(file->index_file, expected.index_file);
    assert_true(digest_equal(&file->digest, &expected.digest));
    assert_int_equal(file->entries, expected.entries);
    assert_int_equal(file->rejected, expected.rejected);
    assert_int_equal(file->imported_at, expected.imported_at);
    assert_int_equal(file->uid, expected.uid);
    s->count++;
    s->records += file->records;
    return true;
}

TEST_F(tuning_db, a_later_import_replaces_an_earlier_one_of_the_same_database)
{
    struct systems found = { 0 };
    struct tuning_system_file again = system_file("gfx90a68");
    again.records = 5;
    must(put_system(f, system_file("gfx90a68")), f->err);
    must(put_system(f, system_file("gfx906_60")), f->err);

    must(put_system(f, again), f->err);

    must(reopen(f), f->err);
    must(tuning_db_each_system(f->db, on_system, &found, &f->err), f->err);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.records, 193590 + 5);
}

TEST_F(tuning_db, an_imported_database_can_be_removed)
{
    struct systems found = { 0 };
    must(put_system(f, system_file("gfx90a68")), f->err);
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    must(tuning_change_begin(f->db, &change, &f->err), f->err);

    for (int i = 0; i < 2; i++)
        must(tuning_change_system_remove(change, TUNING_FIND, "gfx90a68", "HIP", &f->err), f->err);

    must(tuning_change_commit(change, &f->err), f->err);
    tuning_change_destroy(KILN_TAKE(change));
    must(reopen(f), f->err);
    assert_string_equal(f->salvage.notice, "");
    must(tuning_db_each_system(f->db, on_system, &found, &f->err), f->err);
    assert_int_equal(found.count, 0);
}

TEST_F(tuning_db, an_index_must_be_next_to_the_database)
{
    static const char *const names[] = { "", ".", "..", "a/b", "/etc/passwd", "a b" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct tuning_system_file file = system_file("gfx90a68");
        file.index_file = names[i];
        assert_int_equal(put_system(f, file), KILN_INVALID);
        assert_says(f->err.text, "index");
    }
}

static struct tuning_put_token token_of(unsigned number)
{
    struct tuning_put_token token = { { 0 } };
    memcpy(token.bytes, &number, sizeof(number));
    return token;
}

static bool has_put(struct fixture *f, uint32_t uid, unsigned number)
{
    const struct tuning_put_token token = token_of(number);
    bool has = false;
    must(tuning_db_has_put(f->db, uid, &token, &has, &f->err), f->err);
    return has;
}

/* Adds the puts |first| to |first| + |count| - 1 in one change. The uid of put n is n * |uids| +
 * 1000. */
static void add_puts(struct fixture *f, unsigned first, unsigned count, uint32_t uids)
{
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    must(tuning_change_begin(f->db, &change, &f->err), f->err);
    for (unsigned i = first; i < first + count; i++) {
        const struct tuning_put_token token = token_of(i);
        must(tuning_change_add_put(change, 1000 + i * uids, &token, &f->err), f->err);
    }
    must(tuning_change_commit(change, &f->err), f->err);
}

TEST_F(tuning_db, a_put_is_remembered_in_the_same_transaction_as_its_change)
{
    const struct tuning_put_token other = token_of(2);
    add_puts(f, 1, 1, 0);
    {
        KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
        must(tuning_change_begin(f->db, &change, &f->err), f->err);
        must(tuning_change_add_put(change, 1000, &other, &f->err), f->err);
    }

    must(reopen(f), f->err);

    assert_string_equal(f->salvage.notice, "");
    assert_true(has_put(f, 1000, 1));
    assert_false(has_put(f, 1001, 1));
    assert_false(has_put(f, 1000, 2));
}

TEST_F(tuning_db, the_latest_puts_of_one_user_are_remembered)
{
    add_puts(f, 1, 1, 1);
    add_puts(f, 2, TUNING_PUTS_UID + 3, 0);

    assert_false(has_put(f, 1000, 4));
    assert_true(has_put(f, 1000, 5));
    assert_true(has_put(f, 1000, TUNING_PUTS_UID + 4));
    assert_true(has_put(f, 1001, 1));
}

TEST_F(tuning_db, the_number_of_remembered_puts_of_all_users_is_bounded)
{
    add_puts(f, 1, TUNING_PUTS_MAX + 1, 1);

    assert_false(has_put(f, 1001, 1));
    assert_true(has_put(f, 1002, 2));
    assert_true(has_put(f, 1000 + TUNING_PUTS_MAX + 1, TUNING_PUTS_MAX + 1));
}

/* If the token of a put could be stored twice, the two puts would be indistinguishable. */
TEST_F(tuning_db, a_put_that_is_remembered_is_not_added_twice)
{
    const struct tuning_put_token token = token_of(1);
    add_puts(f, 1, 1, 0);
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    must(tuning_change_begin(f->db, &change, &f->err), f->err);
    assert_int_not_equal(tuning_change_add_put(change, 1000, &token, &f->err), KILN_OK);
    assert_int_not_equal(tuning_change_commit(change, &f->err), KILN_OK);
}
