/* SPDX-License-Identifier: MIT */
#include "kern_db_fixture.h"

#include "tests/support/repeats.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FLIPS 200u
#define PAGE 4096
#define ROWS 50

struct flips {
    struct fixture *f;
    int fd;
    uint64_t bits, random;
    size_t opened, found, damaged, listed;
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

/* Looks up every row, and lists them if the file passes the check that precedes an import.
 * find_row and list_rows fail the test if they get a wrong object. */
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
    if (!list || kern_db_check(f->db, &f->err))
        return;
    struct listing l = list_rows(f, 0, UINT64_MAX);
    must(l.rc, f->err);
    assert_int_equal(l.given, f->count);
    assert_true(l.good + 1 >= f->count);
    s->listed++;
}

static void flip_bits(struct fixture *f, size_t count, uint64_t seed)
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
        enum kiln_code rc = kern_db_open(f->path, &f->db, &f->err);
        if (rc == KILN_OK)
            look_around(&s, i % 8 == 0);
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
    assert_in_range(s.listed, 1, s.opened / 8);
    assert_true(s.found > s.opened * (f->count - 5));
}

TEST_F(kern_db, a_flipped_bit_never_gives_another_object)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    flip_bits(f, test_repeats(FLIPS), 88172645463325252u);
}

static void wipe_page(struct fixture *f, size_t page)
{
    shell(f->directory, "dd if=/dev/urandom of=%s bs=%d seek=%zu count=1 conv=notrunc 2>/dev/null",
          f->path, PAGE, page - 1);
}

static size_t page_count(const struct fixture *f)
{
    struct stat seen;
    assert_int_equal(stat(f->path, &seen), 0);
    return (size_t)seen.st_size / PAGE;
}

static size_t leaf_page(struct fixture *f, size_t at)
{
    KILN_AUTO(mem)
    char *number = shell_text(f->directory,
                              "sqlite3 %s \"select pageno from dbstat('main', 0) "
                              "where name = 'kern_db' and pagetype = 'leaf' limit 1 offset %zu\"",
                              f->path, at);
    return strtoul(number, NULL, 10);
}

static bool is_refused(struct fixture *f)
{
    f->err = KILN_ERR_INIT;
    close_db(f);
    enum kiln_code rc = kern_db_open(f->path, &f->db, &f->err);
    if (!rc)
        rc = kern_db_check(f->db, &f->err);
    if (rc && rc != KILN_CORRUPT)
        fail_msg("code %d, '%s'", (int)rc, f->err.text);
    return rc;
}

TEST_F(kern_db, an_intact_file_passes_the_check)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    open_db(f);
    must(kern_db_check(f->db, &f->err), f->err);
}

TEST_F(kern_db, a_lost_page_is_damage_and_ends_a_listing)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    size_t page = leaf_page(f, 2);
    assert_true(page > 1);
    wipe_page(f, page);
    assert_true(is_refused(f));
    assert_says(f->err.text, "is damaged");

    struct listing l = list_rows(f, 0, UINT64_MAX);

    assert_int_equal(l.rc, KILN_CORRUPT);
    assert_true(l.given > 0 && l.given < ROWS);
}

/* The lost page may belong to the table, to the index or to an overflow chain. If it is the last
 * page of a chain, only the object's checksum shows the loss. */
TEST(kern_db, any_one_lost_page_is_noticed)
{
    struct fixture *f = *state;
    size_t refused = 0;
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    size_t pages = page_count(f);
    shell(f->directory, "cp %s whole", f->path);
    for (size_t page = 1; page <= pages; page++) {
        shell(f->directory, "cp whole %s", f->path);
        wipe_page(f, page);
        if (is_refused(f)) {
            refused++;
            continue;
        }
        struct listing l = list_rows(f, 0, UINT64_MAX);
        assert_int_equal(l.given, ROWS);
        assert_int_equal(l.good, ROWS - 1);
    }
    print_message("%zu of %zu wiped pages found by the check of the file\n", refused, pages);
    assert_true(refused > pages / 4);
}

TEST_F(kern_db, a_truncated_file_is_refused)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    shell(f->directory, "truncate -s %zu %s", page_count(f) * PAGE / 2 + 1000, f->path);
    assert_true(is_refused(f));
    assert_says(f->err.text, "malformed");
}

/* Imitates a flipped bit that turns a row's arguments into those of another kernel. The md5 of the
 * row's object is still correct. */
TEST_F(kern_db, a_row_whose_arguments_are_not_those_of_the_index_is_damage)
{
    add_row(f, "conv.s.o", "-DSIZE=1 -mcpu=gfx906", 600, true);
    add_row(f, "conv.s.o", "-DSIZE=2 -mcpu=gfx906", 700, true);
    write_rows(f, NULL, NULL);
    shell(f->directory,
          "sqlite3 %s \"drop index idx_kern_db; update kern_db set kernel_args = "
          "'-DSIZE=3 -mcpu=gfx906' where id = 1; create unique index idx_kern_db on kern_db"
          "(kernel_name, kernel_args)\"; cp %s changed; rm -f %s",
          f->path, f->path, f->path);
    write_rows(f, NULL, NULL);
    shell(f->directory, "dd if=changed of=%s bs=%d seek=1 skip=1 count=1 conv=notrunc 2>/dev/null",
          f->path, PAGE);
    assert_true(is_refused(f));
    assert_says(f->err.text, "row 1 missing from index");
    bool damaged = false;
    assert_int_equal(find_row(f, 0, &damaged), KILN_NOT_FOUND);
    assert_true(damaged);
    assert_says(f->err.text, "another kernel");
}

/* The manual and the message of fail_damaged_cache advise the commands of sqlite3 that this test
 * runs. */
TEST_F(kern_db, sqlite3_saves_the_readable_rows_of_a_damaged_file)
{
    add_rows(f, ROWS);
    write_rows(f, NULL, NULL);
    shell(f->directory, "cp %s whole", f->path);
    for (unsigned is_cut = 0; is_cut < 2; is_cut++) {
        shell(f->directory, "cp whole %s; rm -f saved", f->path);
        if (is_cut)
            shell(f->directory, "truncate -s %zu %s", page_count(f) / 2 * PAGE, f->path);
        else
            wipe_page(f, leaf_page(f, 2));
        assert_true(is_refused(f));
        shell(f->directory,
              "sqlite3 %s 'pragma writable_schema = on' .dump | "
              "sed 's/^ROLLBACK;.*/COMMIT;/' | sqlite3 saved; mv saved %s",
              f->path, f->path);
        assert_false(is_refused(f));
        struct listing l = list_rows(f, 0, UINT64_MAX);
        print_message("%s: %zu of %d rows saved\n", is_cut ? "cut" : "one page lost", l.good, ROWS);
        assert_int_equal(l.good, l.given);
        assert_true(l.good > ROWS / 5 && l.good < ROWS);
    }
}

/* In the root page of the table, every pointer to a child leads to the same page. If several levels
 * of the tree had such pages, a scan would practically never end. */
TEST_F(kern_db, reading_a_cyclic_tree_ends)
{
    add_rows(f, 200);
    write_rows(f, NULL, "");
    struct flips s = { .f = f, .fd = open(f->path, O_RDWR | O_CLOEXEC) };
    uint8_t page[PAGE];
    assert_int_equal(pread(s.fd, page, PAGE, PAGE), PAGE);
    assert_int_equal(page[0], 5); /* an inner page of a table */
    memset(page + 8, 0, 4);
    page[11] = 2; /* the rightmost child is the page itself */
    for (unsigned i = 0; i < (unsigned)page[3] * 256 + page[4]; i++) {
        unsigned at = page[12 + 2 * i] * 256u + page[13 + 2 * i];
        memset(page + at, 0, 4);
        page[at + 3] = 2;
    }
    assert_int_equal(pwrite(s.fd, page, PAGE, PAGE), PAGE);
    close(s.fd);

    assert_true(is_refused(f));
    bool damaged = false;
    assert_int_equal(find_row(f, 7, &damaged), KILN_NOT_FOUND);
    assert_true(damaged);
    assert_int_equal(list_rows(f, 0, UINT64_MAX).rc, KILN_CORRUPT);
}

TEST_F(kern_db, an_endless_lookup_is_stopped)
{
    shell(f->directory,
          "sqlite3 %s \"create table kern_db (id integer primary key, kernel_name text, "
          "kernel_args text, kernel_blob blob, kernel_hash text, uncompressed_size int); "
          "with recursive n (i) as (select 1 union all select i + 1 from n limit 3000000) "
          "insert into kern_db select i, 'n', i, '', '', 0 from n\"",
          f->path);
    add_row(f, "n", "absent", 100, true);
    open_db(f);
    bool damaged = false;
    assert_int_equal(find_row(f, 0, &damaged), KILN_NOT_FOUND);
    assert_true(damaged);
    assert_says(f->err.text, "interrupted");
}
