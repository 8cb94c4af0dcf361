/* SPDX-License-Identifier: MIT */
#include "engine/store/hot_image.h"

#include "common/fs.h"
#include "store_fixture.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* Where numbers lie in an index: engine/store/hot_image.c. */
#define AT_VERSION 8
#define AT_OBJECTS 56
#define AT_KEYS 60
#define HEADER 64
#define AT_SIZE 32
#define AT_FLAGS 48

struct images {
    struct hot_set *from, *to;
    struct hot_image image;
    struct hot_image_origin origin;
    struct hot_image_taken taken;
    struct kiln_err err;
    int fds[64]; /* as they come through a socket: others than the set's */
    size_t count;
};

static struct hot_set *set_of(unsigned count)
{
    struct hot_set_options options = { .limit_bytes = 1u << 26, .limit_count = count };
    struct hot_set *set = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    must(hot_set_create(&options, &set, &err), err);
    return set;
}

static struct object_origin noted; /* the last one */

static const struct object_origin *look_up(void *context, const struct object *object)
{
    static const struct object_origin some = { "gfx90a", "conv.cl" };
    (void)context;
    (void)object;
    return &some;
}

static void note(void *context, struct object *object, const struct object_origin *origin)
{
    (void)context;
    object->ledger_kind = 5;
    noted = *origin;
}

static const struct hot_image_books books = { .look_up = look_up, .note = note };

static int setup(void **state)
{
    static struct images f;
    memset(&f, 0, sizeof(f));
    f.err = KILN_ERR_INIT;
    f.from = set_of(1000);
    f.to = set_of(1000);
    f.origin = (struct hot_image_origin){ .uid = 7, .sequence = 3, .packages = key_of(99) };
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct images *f = *state;
    for (size_t i = 0; i < f->count; i++) {
        if (f->fds[i] >= 0)
            close(f->fds[i]);
    }
    hot_image_done(&f->image);
    hot_set_destroy(f->from);
    hot_set_destroy(f->to);
    return 0;
}

FIXTURE(image, setup, teardown);

static struct object *made(struct images *f, unsigned number, size_t size)
{
    struct digest key = key_of(number);
    struct object *object = object_of(size, number, false);
    hot_set_insert(f->from, &key, object);
    object_unref(object); /* the set has it */
    return hot_set_find(f->from, &key);
}

static void write_image(struct images *f, size_t most)
{
    must(hot_image_write(f->from, &f->origin, &books, most, &f->image, &f->err), f->err);
    f->count = f->image.count;
    for (size_t i = 0; i < f->count; i++)
        f->fds[i] = fcntl(f->image.fds[i], F_DUPFD_CLOEXEC, 3);
}

static enum kiln_code read_image(struct images *f)
{
    return hot_image_read(f->to, buffer_view(&f->image.index), &f->origin, &books, f->fds, f->count,
                          &f->taken, &f->err);
}

static struct object *find(struct hot_set *set, unsigned number)
{
    struct digest key = key_of(number);
    return hot_set_find(set, &key);
}

TEST(image, what_was_in_memory_is_in_memory_again)
{
    struct images *f = *state;
    made(f, 1, 100);
    made(f, 2, OBJECT_INLINE_MOST + 1); /* not mapped by the set */
    find(f->from, 1)->compile_ns = 12345;
    write_image(f, 100);
    must(read_image(f), f->err);
    assert_int_equal(f->taken.objects, 2);
    assert_int_equal(f->taken.refused, 0);
    for (unsigned n = 1; n <= 2; n++) {
        struct object *before = find(f->from, n), *after = find(f->to, n);
        assert_non_null(after);
        assert_true(digest_equal(&after->digest, &before->digest));
        assert_int_equal(after->size, before->size);
        assert_null(after->data); /* before somebody wants it in a frame */
        assert_int_equal(object_map(after), before->data != NULL);
        assert_false(after->is_private);
        assert_int_equal(f->fds[n - 1], -1); /* taken */
    }
    assert_int_equal(find(f->to, 1)->compile_ns, 12345);
    assert_string_equal(noted.target, "gfx90a");
    assert_string_equal(noted.program, "conv.cl");
    assert_int_equal(find(f->to, 2)->ledger_kind, 5);
    assert_memory_equal(find(f->to, 1)->data, find(f->from, 1)->data, 100);
}

TEST(image, what_is_one_users_stays_that_users)
{
    struct images *f = *state;
    struct object *own = made(f, 1, 100);
    own->is_private = true;
    own->owner = 1234;
    made(f, 2, 100);
    write_image(f, 100);
    must(read_image(f), f->err);
    assert_true(find(f->to, 1)->is_private);
    assert_int_equal(find(f->to, 1)->owner, 1234);
    assert_false(find(f->to, 2)->is_private);
}

TEST(image, what_is_hot_under_one_users_names_goes_with_them)
{
    struct images *f = *state;
    struct object *named = made(f, 1, 100);
    named->is_named = true;
    named->owner = 1234;
    made(f, 2, 100)->owner = 1234;
    write_image(f, 100);
    must(read_image(f), f->err);
    assert_false(find(f->to, 1)->is_private);
    hot_set_remove_of(f->to, 4321);
    assert_non_null(find(f->to, 1));
    hot_set_remove_of(f->to, 1234);
    assert_null(find(f->to, 1));
    assert_non_null(find(f->to, 2)); /* everyone's, by its key */
}

TEST(image, an_object_of_several_keys_is_one_object)
{
    struct images *f = *state;
    struct object *object = made(f, 1, 100);
    struct digest second = key_of(2);
    hot_set_insert(f->from, &second, object);
    write_image(f, 100);
    assert_int_equal(f->count, 1);
    must(read_image(f), f->err);
    assert_ptr_equal(find(f->to, 1), find(f->to, 2));
    assert_int_equal(find(f->to, 1)->references, 2); /* one a key */
}

TEST(image, the_order_of_use_is_kept)
{
    struct images *f = *state;
    for (unsigned n = 1; n <= 3; n++)
        made(f, n, 100);
    find(f->from, 1); /* now the most recently used */
    write_image(f, 100);
    must(read_image(f), f->err);
    const struct hot_set_options one = { .limit_bytes = 1u << 20, .limit_count = 1 };
    hot_set_set_limits(f->to, &one);
    assert_non_null(find(f->to, 1));
}

TEST(image, where_not_all_fit_those_used_last_are_kept)
{
    struct images *f = *state;
    for (unsigned n = 1; n <= 5; n++)
        made(f, n, 100);
    write_image(f, 2);
    assert_int_equal(f->count, 2);
    must(read_image(f), f->err);
    assert_non_null(find(f->to, 5));
    assert_non_null(find(f->to, 4));
    assert_null(find(f->to, 3));
}

TEST(image, a_smaller_set_takes_what_it_has_room_for)
{
    struct images *f = *state;
    for (unsigned n = 1; n <= 5; n++)
        made(f, n, 100);
    write_image(f, 100);
    hot_set_destroy(f->to);
    f->to = set_of(2);
    must(read_image(f), f->err);
    assert_int_equal(hot_set_count(f->to), 2);
    assert_non_null(find(f->to, 5));
}

TEST(image, an_empty_set_has_an_image_too)
{
    struct images *f = *state;
    write_image(f, 100);
    must(read_image(f), f->err);
    assert_int_equal(f->taken.objects, 0);
    assert_int_equal(hot_image_sequence(buffer_view(&f->image.index)), 3);
}

/* ---- what is not believed ---- */

static void expect_refused(struct images *f, enum kiln_code code, const char *words)
{
    assert_int_equal(read_image(f), code);
    assert_says(f->err.text, words);
    assert_int_equal(hot_set_count(f->to), 0);
    for (size_t i = 0; i < f->count; i++)
        assert_true(f->fds[i] >= 0); /* still the caller's to close */
}

TEST(image, an_image_of_another_kilnd_is_not_used)
{
    struct images *f = *state;
    made(f, 1, 100);
    write_image(f, 100);
    f->origin.uid = 8;
    expect_refused(f, KILN_NOT_FOUND, "of user 7");
    f->origin.uid = 7;
    f->origin.packages = key_of(98);
    expect_refused(f, KILN_NOT_FOUND, "packages have changed");
}

TEST(image, an_image_of_another_version_is_not_used)
{
    struct images *f = *state;
    made(f, 1, 100);
    write_image(f, 100);
    f->image.index.data[AT_VERSION] = 3;
    expect_refused(f, KILN_UNSUPPORTED, "has version 3");
    assert_int_equal(hot_image_sequence(buffer_view(&f->image.index)), 0);
    f->image.index.data[AT_VERSION] = 1; /* did not say what is hot under a user's name */
    expect_refused(f, KILN_UNSUPPORTED, "has version 1, this kilnd knows version 2");
    assert_int_equal(hot_image_sequence(buffer_view(&f->image.index)), 0);
}

TEST(image, an_index_cut_anywhere_is_refused)
{
    struct images *f = *state;
    made(f, 1, 100);
    made(f, 2, 100);
    write_image(f, 100);
    size_t whole = f->image.index.size;
    for (f->image.index.size = 0; f->image.index.size < whole; f->image.index.size++) {
        assert_int_equal(read_image(f), KILN_CORRUPT);
        assert_int_equal(hot_set_count(f->to), 0);
    }
    f->image.index.size = whole;
    buffer_put_u8(&f->image.index, 0); /* and one with something behind it */
    assert_int_equal(read_image(f), KILN_CORRUPT);
}

TEST(image, numbers_that_do_not_fit_are_refused)
{
    struct images *f = *state;
    made(f, 1, 100);
    write_image(f, 100);
    uint8_t *index = f->image.index.data;
    index[AT_OBJECTS + 3] = 0xff;
    expect_refused(f, KILN_CORRUPT, "more than fits");
    index[AT_OBJECTS + 3] = 0;
    index[AT_KEYS + 3] = 0xff;
    expect_refused(f, KILN_CORRUPT, "more than fits");
    index[AT_KEYS + 3] = 0;
    index[f->image.index.size - 4] = 1; /* the key's object: there is only number 0 */
    expect_refused(f, KILN_CORRUPT, "leads to no code object");
}

TEST(image, another_number_of_descriptors_than_the_index_says_is_refused)
{
    struct images *f = *state;
    made(f, 1, 100);
    made(f, 2, 100);
    write_image(f, 100);
    f->count = 1;
    expect_refused(f, KILN_CORRUPT, "speaks of 2 code objects, 1 descriptors came");
    f->count = 2;
}

/* Replaces the descriptor of one of two objects; the other one must come through. */
static void expect_one_refused(struct images *f, int fd)
{
    close(f->fds[0]);
    f->fds[0] = fd;
    must(read_image(f), f->err);
    assert_int_equal(f->taken.objects, 1);
    assert_int_equal(f->taken.refused, 1);
    assert_int_equal(f->fds[0], fd); /* the caller's to close */
    assert_int_equal(hot_set_count(f->to), 1);
}

static int file_of(size_t size, bool sealed)
{
    struct kiln_err err = KILN_ERR_INIT;
    int fd = -1;
    must(fs_memfd("some", &fd, &err), err);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    if (sealed)
        must(fs_seal(fd, &err), err);
    return fd;
}

TEST(image, a_descriptor_that_could_still_change_is_not_used)
{
    struct images *f = *state;
    made(f, 1, 100);
    made(f, 2, 100);
    write_image(f, 100);
    expect_one_refused(f, file_of(100, false));
}

TEST(image, a_descriptor_of_another_size_is_not_used)
{
    struct images *f = *state;
    made(f, 1, 100);
    made(f, 2, 100);
    write_image(f, 100);
    expect_one_refused(f, file_of(101, true));
}

TEST(image, a_descriptor_that_is_no_memory_file_is_not_used)
{
    struct images *f = *state;
    made(f, 1, 100);
    made(f, 2, 100);
    write_image(f, 100);
    expect_one_refused(f, open("/dev/null", O_RDONLY | O_CLOEXEC));
}

TEST(image, an_object_with_unknown_flags_or_no_size_is_not_used)
{
    struct images *f = *state;
    made(f, 1, 100);
    write_image(f, 100);
    f->image.index.data[HEADER + AT_FLAGS] = 4;
    must(read_image(f), f->err);
    assert_int_equal(f->taken.refused, 1);
    f->image.index.data[HEADER + AT_FLAGS] = 0;
    f->image.index.data[HEADER + AT_SIZE] = 0;
    must(read_image(f), f->err);
    assert_int_equal(f->taken.refused, 1);
    assert_int_equal(hot_set_count(f->to), 0);
}
