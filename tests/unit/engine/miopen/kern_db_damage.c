/* SPDX-License-Identifier: MIT */
#include "kern_db_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* KILN_TEST_FLIPS in the environment sets another number; sanitizers make each ten times as slow.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FLIPS 500
#else
#define FLIPS 5000
#endif
#define PAGE 4096
#define ROWS 50

struct flips {
    struct fixture *f;
    int fd;
    uint64_t bits, random;
    size_t opened, found, damaged, listed; /* results of the lookups */
};

static uint64_t next_random(struct flips *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

static void flip(struct flips *s, uint64_t bit)
{
    uint8_t byte = 0;
    assert_int_equal(pread(s->fd, &byte, 1, (off_t)(bit / 8)), 1);
    byte ^= (uint8_t)(1u << (bit % 8));
    assert_int_equal(pwrite(s->fd, &byte, 1, (off_t)(bit / 8)), 1);
}

/* Looks up and lists every row. find_row and list_rows fail the test if they get a wrong object. */
static void look_around(struct flips *s, bool list)
{
    struct fixture *f = s->f;
    s->opened++;
    for (size_t i = 0; i < f->count; i++) {
        bool damaged = false;
        enum kiln_code rc = find_row(f, i, &damaged);
        assert_true(rc == KILN_OK || rc == KILN_NOT_FOUND);
        s->found += rc == KILN_OK;
        s->damaged += damaged;
    }
    if (list)
        s->listed += list_rows(f, 0, UINT64_MAX).good;
}

static size_t flip_count(void)
{
    const char *count = getenv("KILN_TEST_FLIPS");
    return count ? strtoul(count, NULL, 10) : FLIPS;
}

static void flip_bits(struct fixture *f, enum kern_db_mode mode, size_t count, uint64_t seed)
{
    struct stat seen;
    struct flips s = { .f = f, .random = seed };
    s.fd = open(f->path, O_RDWR | O_CLOEXEC);
    assert_true(s.fd >= 0 && fstat(s.fd, &seen) == 0);
    s.bits = (uint64_t)seen.st_size * 8;
    for (size_t i = 0; i < count; i++) {
        /* one flip in ten hits the first two pages, which have the schema and the table's root */
        uint64_t bit = next_random(&s) % (i % 10 ? s.bits : UINT64_C(8) * 2 * PAGE);
        flip(&s, bit);
        enum kiln_code rc = kern_db_open(f->path, mode, &f->db, &f->err);
        if (rc == KILN_OK)
            look_around(&s, mode == KERN_DB_LIVE || i % 8 == 0);
        else if (rc != KILN_CORRUPT)
            fail_msg("seed %llu, bit %llu: code %d, '%s'", (unsigned long long)seed,
                     (unsigned long long)bit, (int)rc, f->err.text);
        close_db(f);
        flip(&s, bit);
    }
    close(s.fd);
    print_message("seed %llu: %zu flips, opened %zu, found %zu, damage noticed %zu, listed %zu\n",
                  (unsigned long long)seed, count, s.opened, s.found, s.damaged, s.listed);
    assert_true(s.opened > count / 2 && s.damaged > 0);
    assert_true(s.found > s.opened * (f->count - 5));
}

TEST_F(kern_db, a_flipped_bit_never_gives_another_object)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    flip_bits(f, KERN_DB_IMMUTABLE, flip_count(), 88172645463325252u);
}

TEST_F(kern_db, a_flipped_bit_in_a_live_file_never_gives_another_object)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    flip_bits(f, KERN_DB_LIVE, flip_count() / 10, 362436069362436069u);
}

/* ---- salvaging rows ---- */

static void wipe_page(struct fixture *f, size_t page)
{
    run(f, "dd if=/dev/urandom of=%s bs=%d seek=%zu count=1 conv=notrunc 2>/dev/null", f->path,
        PAGE, page - 1);
}

static size_t page_count(const struct fixture *f)
{
    struct stat seen;
    assert_int_equal(stat(f->path, &seen), 0);
    return (size_t)seen.st_size / PAGE;
}

/* The |at|-th page in which a row begins. */
static size_t leaf_page(struct fixture *f, size_t at)
{
    return strtoul(output_of(f,
                             "sqlite3 %s \"select pageno from dbstat('main', 0) "
                             "where name = 'kern_db' and pagetype = 'leaf' limit 1 offset %zu\"",
                             f->path, at),
                   NULL, 10);
}

TEST_F(kern_db, rows_after_a_damaged_page_are_read)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    size_t page = leaf_page(f, 2);
    assert_true(page > 1);
    size_t pages = page_count(f);
    wipe_page(f, page);
    open_db(f, KERN_DB_LIVE);

    struct listing l = list_rows(f, 0, UINT64_MAX);

    print_message("one of %zu pages wiped: %zu of %d rows saved, %llu lost\n", pages, l.good, ROWS,
                  (unsigned long long)l.lost);
    assert_int_equal(l.good + l.lost, ROWS);
    assert_true(l.lost >= 1 && l.lost <= 12);
    assert_int_equal(l.latest, ROWS);
}

/* Without page 1, SQLite finds no table. */
TEST_F(kern_db, a_file_that_sqlite_rejects_is_read_directly)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    wipe_page(f, 1);
    assert_int_equal(kern_db_open(f->path, KERN_DB_IMMUTABLE, &f->db, &f->err), KILN_CORRUPT);
    open_db(f, KERN_DB_SALVAGE);

    struct listing l = list_rows(f, 0, UINT64_MAX);

    assert_true(l.good >= ROWS - 12);
    assert_true(kern_db_is_damaged(f->db));
}

/* The page may belong to the table, to the index or to an overflow chain. */
TEST(kern_db, any_one_damaged_page_costs_few_rows)
{
    struct fixture *f = *state;
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    run(f, "cp %s whole", f->path);
    for (size_t page = 1; page <= page_count(f); page++) {
        run(f, "cp whole %s", f->path);
        wipe_page(f, page);
        open_db(f, KERN_DB_LIVE);
        struct listing l = list_rows(f, 0, UINT64_MAX);
        /* An index entry that ends on the wiped page may state an id that never existed. */
        if (l.good < ROWS - 12 || l.good > ROWS || l.lost > ROWS - l.good + 2)
            fail_msg("page %zu: %zu saved, %llu lost", page, l.good, (unsigned long long)l.lost);
    }
}

TEST_F(kern_db, rows_of_a_truncated_file_are_salvaged)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    size_t pages = page_count(f);
    run(f, "truncate -s %zu %s", pages * PAGE / 2 + 1000, f->path);
    assert_int_equal(kern_db_open(f->path, KERN_DB_IMMUTABLE, &f->db, &f->err), KILN_CORRUPT);
    assert_says(f->err.text, "malformed");

    open_db(f, KERN_DB_LIVE);
    struct listing l = list_rows(f, 0, UINT64_MAX);
    uint64_t count = 0;
    must(kern_db_count(f->db, &count, &f->err), f->err);
    bool damaged = false;

    print_message("cut to a half: %zu of %d rows saved, %llu lost\n", l.good, ROWS,
                  (unsigned long long)l.lost);
    assert_true(l.good >= ROWS / 4 && l.good < ROWS);
    assert_true(count >= l.good);
    assert_true(kern_db_is_damaged(f->db));
    assert_int_equal(find_row(f, 0, &damaged), KILN_NOT_FOUND);
    assert_true(damaged);
    assert_says(f->err.text, "too damaged");
}

TEST_F(kern_db, a_damaged_file_can_be_listed_in_parts)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    wipe_page(f, leaf_page(f, 2));
    wipe_page(f, leaf_page(f, 5));
    open_db(f, KERN_DB_LIVE);
    struct listing whole = list_rows(f, 0, UINT64_MAX), part = { 0 };
    size_t good = 0;
    uint64_t lost = 0;
    open_db(f, KERN_DB_LIVE);
    do {
        part = list_rows(f, part.latest, 7);
        good += part.good;
        lost += part.lost;
    } while (part.given > 0);
    assert_int_equal(good, whole.good);
    assert_int_equal(lost, whole.lost);
}

static bool count_row(void *context, const struct kern_row *row)
{
    (void)row;
    ++*(size_t *)context;
    return true;
}

/* Every call is late, so it searches one page, or sorts one of the rows that were found. */
TEST_F(kern_db, a_damaged_file_is_searched_in_steps)
{
    size_t found = 0, calls = 0;
    uint64_t lost = 0;
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    wipe_page(f, 1);
    open_db(f, KERN_DB_SALVAGE);
    struct listing whole = list_rows(f, 0, UINT64_MAX);
    open_db(f, KERN_DB_SALVAGE);
    const struct kern_listing listing = {
        .count = UINT64_MAX, .each = count_row, .context = &found, .end_ns = 1
    };
    do {
        assert_int_equal(found, 0);
        must(kern_db_each(f->db, &listing, &lost, &f->err), f->err);
        calls++;
    } while (kern_db_is_searching(f->db));
    assert_int_equal(found, whole.given);
    assert_int_equal(lost, whole.lost);
    assert_true(calls > page_count(f));
}

TEST_F(kern_db, a_file_without_any_row_is_refused_after_its_search)
{
    run(f, "head -c 50000 /dev/urandom >%s", f->path);
    open_db(f, KERN_DB_SALVAGE);
    uint64_t lost = 0, count = 0;
    size_t found = 0;
    const struct kern_listing listing = { .count = UINT64_MAX,
                                          .each = count_row,
                                          .context = &found };
    assert_int_equal(kern_db_count(f->db, &count, &f->err), KILN_CORRUPT);
    f->err = KILN_ERR_INIT;
    assert_int_equal(kern_db_each(f->db, &listing, &lost, &f->err), KILN_CORRUPT);
    assert_says(f->err.text, "kernel database");
}

/* Damage is found in the middle of a listing. */
TEST_F(kern_db, a_listing_continues_after_the_first_damage)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    wipe_page(f, leaf_page(f, 5));
    open_db(f, KERN_DB_IMMUTABLE);
    struct listing l = list_rows(f, 0, UINT64_MAX);
    assert_int_equal(l.good + l.lost, ROWS);
    assert_true(l.lost >= 1 && l.lost <= 12);
}

/* One flipped bit turns the arguments into another kernel's; the object's md5 is still correct. */
TEST_F(kern_db, a_row_whose_arguments_are_not_those_of_the_index_is_lost)
{
    static const enum kern_db_mode modes[] = { KERN_DB_IMMUTABLE, KERN_DB_LIVE };
    add_row(f, "conv.s.o", "-DSIZE=1 -mcpu=gfx906", 600, true);
    add_row(f, "conv.s.o", "-DSIZE=2 -mcpu=gfx906", 700, true);
    write_rows(f, NULL, NULL);
    run(f,
        "sqlite3 %s \"drop index idx_kern_db; update kern_db set kernel_args = "
        "'-DSIZE=3 -mcpu=gfx906' where id = 1; create unique index idx_kern_db on kern_db"
        "(kernel_name, kernel_args)\"; cp %s changed; rm -f %s",
        f->path, f->path, f->path);
    write_rows(f, NULL, NULL);
    /* Combine the table pages of one file with the index of another. */
    run(f, "dd if=changed of=%s bs=%d seek=1 skip=1 count=1 conv=notrunc 2>/dev/null", f->path,
        PAGE);
    for (size_t i = 0; i < 2; i++) {
        open_db(f, modes[i]);
        struct listing l = list_rows(f, 0, UINT64_MAX);
        assert_int_equal(l.given, 1);
        assert_int_equal(l.good, 1);
        assert_int_equal(l.latest, 2);
        assert_int_equal(l.lost, 1);
        bool damaged = false;
        assert_int_equal(find_row(f, 0, &damaged), KILN_NOT_FOUND);
        assert_true(damaged);
        assert_says(f->err.text, "another kernel");
    }
}

TEST_F(kern_db, deleted_rows_are_not_salvaged)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    run(f,
        "sqlite3 %s \"pragma secure_delete = off; delete from kern_db where id > 25\" > /dev/null",
        f->path);
    wipe_page(f, leaf_page(f, 1));
    open_db(f, KERN_DB_LIVE);
    struct listing l = list_rows(f, 0, UINT64_MAX);
    assert_true(l.latest <= 25);
    assert_int_equal(l.good + l.lost, 25);
}

TEST_F(kern_db, a_damaged_schema_hides_no_rows)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    wipe_page(f, 1);
    open_db(f, KERN_DB_LIVE);
    assert_int_equal(list_rows(f, 0, UINT64_MAX).good, ROWS);
}

TEST_F(kern_db, a_damaged_file_without_rows_is_refused)
{
    write_rows(f, NULL, NULL);
    wipe_page(f, 1);
    assert_int_equal(kern_db_open(f->path, KERN_DB_LIVE, &f->db, &f->err), KILN_CORRUPT);
    assert_says(f->err.text, f->path);
    assert_says(f->err.text, "not a");
}

/* ---- crafted files ---- */

/* Every child of the table's root is the same page. With several such levels, a scan would
 * practically never end. */
TEST_F(kern_db, reading_a_cyclic_tree_ends)
{
    add_rows(f, 200);
    write_rows(f, NULL, "");
    struct flips s = { .f = f, .fd = open(f->path, O_RDWR | O_CLOEXEC) };
    uint8_t page[PAGE];
    assert_int_equal(pread(s.fd, page, PAGE, PAGE), PAGE);
    assert_int_equal(page[0], 5); /* an inner page of a table */
    memset(page + 8, 0, 4);
    page[11] = 2; /* its rightmost child is the page itself */
    for (unsigned i = 0; i < (unsigned)page[3] * 256 + page[4]; i++) {
        unsigned at = page[12 + 2 * i] * 256u + page[13 + 2 * i];
        memset(page + at, 0, 4);
        page[at + 3] = 2;
    }
    assert_int_equal(pwrite(s.fd, page, PAGE, PAGE), PAGE);
    close(s.fd);

    open_db(f, KERN_DB_IMMUTABLE);

    bool damaged = false;
    assert_int_equal(find_row(f, 7, &damaged), KILN_NOT_FOUND);
    assert_true(damaged);
    assert_int_equal(list_rows(f, 0, UINT64_MAX).good, 200);
}

/* There is no index, and the table has three million rows. */
TEST_F(kern_db, an_endless_lookup_is_stopped)
{
    run(f,
        "sqlite3 %s \"create table kern_db (id integer primary key, kernel_name text, "
        "kernel_args text, kernel_blob blob, kernel_hash text, uncompressed_size int); "
        "with recursive n (i) as (select 1 union all select i + 1 from n limit 3000000) "
        "insert into kern_db select i, 'n', i, '', '', 0 from n\"",
        f->path);
    add_row(f, "n", "absent", 100, true);
    open_db(f, KERN_DB_IMMUTABLE);
    bool damaged = false;
    assert_int_equal(find_row(f, 0, &damaged), KILN_NOT_FOUND);
    assert_true(damaged);
    assert_says(f->err.text, "interrupted");
}
