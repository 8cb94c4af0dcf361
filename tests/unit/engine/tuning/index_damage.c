/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "index_fixture.h"
#include "tests/support/repeats.h"
#include "tests/support/tuning_work.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define FLIPS 2000u

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void flip(int fd, uint64_t bit)
{
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, (off_t)(bit / 8)), 1);
    byte ^= (uint8_t)(1 << bit % 8);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
}

static bool is_made(const struct tuning_index_record *record)
{
    struct made_record made;
    unsigned place = (unsigned)record->number - 100;
    if (place >= RECORDS)
        return false;
    make_record(place, &made);
    return bytes_equal(record->key, made.record.key) &&
           bytes_equal(record->value, made.record.value) &&
           record->kin.batch == made.record.kin.batch &&
           record->kin.volume == made.record.kin.volume &&
           bytes_equal(record->kin.families[FAMILY_SPATIAL],
                       made.record.kin.families[FAMILY_SPATIAL]);
}

struct relatives {
    struct bytes family;
    enum family kind;
    unsigned count;
};

static bool must_be_a_relative(void *context, const struct tuning_index_record *record)
{
    struct relatives *wanted = context;
    assert_true(is_made(record));
    assert_true(bytes_equal(record->kin.families[wanted->kind], wanted->family));
    wanted->count++;
    return true;
}

/* Looks up record |place| in every way. Returns the number of answers, each of which must be
 * right. */
static unsigned ask_for(struct tuning_index *index, unsigned place)
{
    struct made_record made;
    struct bytes value;
    struct tuning_index_record record;
    unsigned answers = 0;
    make_record(place, &made);
    if (tuning_index_find(index, made.record.key, &value)) {
        assert_true(bytes_equal(value, made.record.value));
        answers++;
    }
    if (tuning_index_at(index, place, &record)) {
        assert_true(is_made(&record) && record.number == place + 100);
        answers++;
    }
    for (enum family f = 0; f < FAMILIES; f++) {
        struct relatives wanted = { .family = made.record.kin.families[f], .kind = f };
        tuning_index_family(index, wanted.family, must_be_a_relative, &wanted);
        answers += wanted.count;
    }
    return answers;
}

TEST_F(index, a_flipped_bit_gives_misses_and_never_a_wrong_answer)
{
    write_index(f, RECORDS);
    KILN_AUTO(fd) int fd = open(f->path, O_RDWR | O_CLOEXEC);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    uint64_t seed = 20;
    const unsigned flips = test_repeats(FLIPS);
    unsigned refused = 0, noticed = 0, answers = 0;
    for (unsigned i = 0; i < flips; i++) {
        uint64_t bit = next_random(&seed) % ((uint64_t)st.st_size * 8);
        flip(fd, bit);
        KILN_AUTO(tuning_index) struct tuning_index *index = NULL;
        if (tuning_index_open(f->path, &index, &f->err) == KILN_OK) {
            answers += ask_for(index, (unsigned)(next_random(&seed) % RECORDS));
            assert_int_equal(tuning_index_verify(index, &f->err), KILN_CORRUPT);
            noticed += tuning_index_damaged(index) > 0;
        } else {
            refused++;
        }
        flip(fd, bit);
    }
    assert_in_range(refused, 1, flips / 10);
    assert_in_range(noticed, 1, flips);
    assert_in_range(answers, flips, UINT32_MAX);
}

TEST_F(index, every_flipped_bit_of_a_text_is_a_counted_miss)
{
    write_index(f, RECORDS);
    KILN_AUTO(fd) int fd = open(f->path, O_RDWR | O_CLOEXEC);
    struct made_record made;
    make_record(RECORDS - 1, &made);
    uint64_t size = made.record.key.size + made.record.value.size;
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    /* The file ends with this record's texts and a few bytes of padding. */
    uint64_t end = (uint64_t)st.st_size;
    KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);
    struct bytes value;
    assert_true(tuning_index_find(index, made.record.key, &value));
    for (uint64_t bit = (end - size) * 8; bit < (end - 7) * 8; bit++) {
        uint64_t before = tuning_index_damaged(index);
        flip(fd, bit);
        assert_false(tuning_index_find(index, made.record.key, &value));
        assert_int_equal(tuning_index_damaged(index), before + 1);
        flip(fd, bit);
    }
    assert_true(tuning_index_find(index, made.record.key, &value));
}

TEST_F(index, overwritten_parts_give_misses)
{
    write_index(f, RECORDS);
    KILN_AUTO(fd) int fd = open(f->path, O_RDWR | O_CLOEXEC);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    uint64_t seed = 7;
    for (unsigned round = 0; round < 200; round++) {
        uint8_t rubbish[512];
        for (size_t i = 0; i < sizeof(rubbish); i += 8) {
            uint64_t word = round % 4 == 0 ? UINT64_MAX : next_random(&seed);
            memcpy(rubbish + i, &word, sizeof(word));
        }
        off_t at = 256 + (off_t)(next_random(&seed) % ((uint64_t)st.st_size - 256 - 512));
        assert_int_equal(pwrite(fd, rubbish, sizeof(rubbish), at), sizeof(rubbish));
        KILN_AUTO(tuning_index) struct tuning_index *index = open_index(f);
        for (unsigned i = 0; i < 10; i++)
            ask_for(index, (unsigned)(next_random(&seed) % RECORDS));
    }
}

TEST_F(index, a_file_of_another_length_is_refused)
{
    write_index(f, RECORDS);
    struct stat st;
    assert_int_equal(stat(f->path, &st), 0);
    const off_t sizes[] = { 0, 1, 255, 256, st.st_size - 1, st.st_size + 1 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct tuning_index *index = NULL;
        assert_int_equal(truncate(f->path, sizes[i]), 0);
        assert_int_equal(tuning_index_open(f->path, &index, &f->err), KILN_CORRUPT);
        assert_says(f->err.text, "import");
        write_index(f, RECORDS);
    }
}

TEST_F(index, an_index_of_another_version_is_reported)
{
    write_index(f, 1);
    KILN_AUTO(fd) int fd = open(f->path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "\2", 1, 8), 1);
    struct tuning_index *index = NULL;
    assert_int_equal(tuning_index_open(f->path, &index, &f->err), KILN_UNSUPPORTED);
    assert_says(f->err.text, "format 2");
    assert_int_equal(pwrite(fd, "SQLite", 6, 0), 6);
    assert_int_equal(tuning_index_open(f->path, &index, &f->err), KILN_CORRUPT);
    assert_says(f->err.text, "not an index");
}
