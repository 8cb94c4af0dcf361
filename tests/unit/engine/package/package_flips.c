/* SPDX-License-Identifier: MIT */
#include "package_fixture.h"

#include "tests/support/repeats.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Tests that flip bits in packages. No lookup may then fail or return a wrong object, which
 * has() and has_key() check. When the bits are restored, every kernel must be found again. */

#define KERNELS 12
/* Flips for each kind of file. */
#define FLIPS 500u

static uint64_t random_number(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *seed >> 24;
}

static bool take_row(void *context, const struct package_row *row)
{
    uint64_t *last = context;
    bool rises = row->id > *last;
    *last = row->id;
    return rises;
}

/* Lists and checks the package. Both may fail, but must return. */
static enum kiln_code exercise(void *context, struct package *package, struct kiln_err *err)
{
    (void)err;
    (void)context;
    struct kiln_err why = KILN_ERR_INIT;
    struct package_report report;
    uint64_t last = 0, rows = 0;
    enum kiln_code rc =
        package_each(package, &(struct package_listing){ 0, 100, take_row, &last }, &why);
    if (!rc)
        rc = package_rows(package, &rows, &why);
    if (!rc || rc == KILN_NOT_FOUND)
        rc = package_check(package, NULL, NULL, &report, &why);
    assert_true(!rc || strlen(why.text) > 0);
    return KILN_OK;
}

static unsigned look_up_all(struct fixture *f, const char *name)
{
    unsigned found = 0;
    must(open_set(f), f->err);
    rescan(f);
    for (unsigned i = 0; i < KERNELS; i++) {
        bool by_name = has(f, "gfx90a68", i);
        bool reported = f->found.damaged[0];
        found += by_name;
        assert_int_equal(reported, f->found.damage[0] != '\0');
        has_key(f, i);
    }
    assert_false(has(f, "gfx90a68", KERNELS + 1));
    if (f->came && package_set_use(f->set, name, exercise, f, &f->err))
        fail_msg("%s", f->err.text);
    return found;
}

static void flip_bits(struct fixture *f, const char *directory, const char *name, uint64_t seed)
{
    const char *path = path_in(directory, name);
    BUFFER_AUTO struct buffer content = read_file(path);
    char kept[400];
    strcpy(kept, path);
    int fd = open(kept, O_RDWR | O_CLOEXEC);
    const unsigned rounds = test_repeats(FLIPS);
    unsigned damaged = 0;
    for (unsigned i = 0; i < rounds; i++) {
        unsigned flips = 1 + (unsigned)(random_number(&seed) % 3);
        uint64_t places[3];
        for (unsigned k = 0; k < flips; k++) {
            /* half of the flips hit the schema and the indices, where they have most effect */
            uint64_t most = random_number(&seed) % 2 ? content.size : 8192;
            places[k] = random_number(&seed) % (most * 8);
            uint8_t byte = content.data[places[k] / 8] ^ (uint8_t)(1u << (places[k] % 8));
            assert_int_equal(pwrite(fd, &byte, 1, (off_t)(places[k] / 8)), 1);
        }
        damaged += look_up_all(f, name) < KERNELS;
        for (unsigned k = 0; k < flips; k++) {
            size_t at = places[k] / 8;
            assert_int_equal(pwrite(fd, content.data + at, 1, (off_t)at), 1);
        }
    }
    close(fd);
    assert_true(damaged > rounds / 10); /* otherwise the flips damaged almost nothing */
    assert_int_equal(look_up_all(f, name), KERNELS);
}

TEST_F(package, no_flipped_bit_of_a_kdb_gives_a_wrong_object)
{
    put_package(f, f->other, "gfx90a68.kdb", 0, KERNELS);
    flip_bits(f, f->other, "gfx90a68.kdb", 1);
}

TEST_F(package, no_flipped_bit_of_a_kpkg_gives_a_wrong_object)
{
    put_package(f, f->other, "gfx90a68.kpkg", 0, KERNELS);
    flip_bits(f, f->other, "gfx90a68.kpkg", 2);
}

/* Only a trusted package answers lookups by key. kilnd trusts a package because of the record of
 * its installation. The test has no record, and opens the file as trusted itself. */
TEST_F(package, no_flipped_bit_of_a_trusted_kpkg_gives_a_wrong_object)
{
    const char *path = put_package(f, f->other, "gfx90a68.kpkg", 0, KERNELS);
    BUFFER_AUTO struct buffer content = read_file(path);
    char kept[400];
    strcpy(kept, path);
    struct package_options options = { .path = kept, .readers = 1, .trusted = true };
    uint64_t seed = 3;
    for (unsigned i = 0; i < test_repeats(FLIPS); i++) {
        uint64_t place = random_number(&seed) % (content.size * 8);
        content.data[place / 8] ^= (uint8_t)(1u << (place % 8));
        test_write(kept, buffer_view(&content));
        KILN_AUTO(package) struct package *package = NULL;
        for (unsigned k = 0; k < KERNELS && (package || !package_open(&options, &package, &f->err));
             k++) {
            struct digest key = key_of(k);
            bool damaged = false;
            BUFFER_AUTO struct buffer raw = object_of(k);
            f->raw.size = 0;
            enum kiln_code rc = package_find_key(package, &key, &f->raw, &damaged, &f->err);
            assert_true(rc == KILN_NOT_FOUND || rc == KILN_OK);
            assert_true(rc || bytes_equal(buffer_view(&raw), buffer_view(&f->raw)));
            assert_true(!rc || f->raw.size == 0);
        }
        content.data[place / 8] ^= (uint8_t)(1u << (place % 8));
    }
}
