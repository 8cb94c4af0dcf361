/* SPDX-License-Identifier: MIT */
#include "engine/store/object.h"

#include "common/base/fs.h"
#include "common/protocol/limits.h"
#include "engine/digest/sha256.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint8_t content[OBJECT_INLINE_MAX + 1];

static struct object *object_of_size(size_t size)
{
    struct object *object = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(object_from_bytes(bytes_of(content, size), 42, &object, &err), KILN_OK);
    return object;
}

static int memfd_of(const char *text)
{
    struct kiln_err err = KILN_ERR_INIT;
    int fd = -1;
    assert_int_equal(fs_memfd("test", &fd, &err), KILN_OK);
    assert_int_equal(fs_write_all(fd, bytes_of_text(text), &err), KILN_OK);
    return fd;
}

TEST(plain, objects_up_to_the_inline_limit_stay_mapped)
{
    struct object *small = object_of_size(OBJECT_INLINE_MAX);
    struct object *large = object_of_size(OBJECT_INLINE_MAX + 1);

    assert_non_null(small->data);
    assert_memory_equal(small->data, content, OBJECT_INLINE_MAX);
    assert_null(large->data);

    object_unref(small);
    object_unref(large);
}

TEST(plain, an_object_is_sealed_and_has_its_size_cost_and_digest)
{
    struct object *object = object_of_size(100);
    struct digest expected = sha256_of(bytes_of(content, 100));

    assert_true(fs_is_sealed(object->fd));
    assert_int_equal(object->size, 100);
    assert_int_equal(object->compile_ns, 42);
    assert_true(digest_equal(&object->digest, &expected));
    assert_int_equal(write(object->fd, "x", 1), -1);

    object_unref(object);
}

TEST(plain, an_unsealed_memfd_is_sealed)
{
    struct object *object = NULL;
    struct kiln_err err = KILN_ERR_INIT;

    assert_int_equal(object_from_memfd(memfd_of("code"), 1, &object, &err), KILN_OK);

    assert_true(fs_is_sealed(object->fd));
    assert_memory_equal(object->data, "code", 4);
    object_unref(object);
}

TEST(plain, a_descriptor_that_cannot_be_sealed_is_refused_and_closed)
{
    struct object *object = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    int ends[2];
    assert_int_equal(pipe(ends), 0);

    assert_int_equal(object_from_memfd(ends[0], 1, &object, &err), KILN_INVALID);

    assert_null(object);
    assert_says(err.text, "sealed");
    assert_int_equal(fcntl(ends[0], F_GETFD), -1);
    close(ends[1]);
}

TEST(plain, a_memfd_that_is_mapped_for_writing_is_refused)
{
    struct object *object = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    int fd = memfd_of("code");
    void *mapping = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(mapping, MAP_FAILED);

    assert_int_equal(object_from_memfd(fd, 1, &object, &err), KILN_INVALID);

    munmap(mapping, 4);
}

TEST(plain, an_empty_object_is_refused)
{
    struct object *object = NULL;
    struct kiln_err err = KILN_ERR_INIT;

    assert_int_equal(object_from_bytes(bytes_of(NULL, 0), 1, &object, &err), KILN_INVALID);
    assert_says(err.text, "empty");
}

TEST(plain, an_object_beyond_the_size_limit_is_refused)
{
    struct object *object = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    int fd = memfd_of("");
    assert_int_equal(ftruncate(fd, (off_t)LIMIT_CODE_OBJECT + 1), 0); /* sparse */

    assert_int_equal(object_from_memfd(fd, 1, &object, &err), KILN_INVALID);
}

TEST(plain, an_object_lives_until_its_last_reference_is_dropped)
{
    struct object *object = object_of_size(10);
    int fd = object->fd;
    assert_ptr_equal(object_ref(object), object);

    assert_null(object_unref(object));
    assert_int_not_equal(fcntl(fd, F_GETFD), -1);
    assert_null(object_unref(object));

    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_null(object_unref(NULL));
}

TEST(plain, small_and_large_objects_can_be_viewed)
{
    size_t sizes[] = { 10, OBJECT_INLINE_MAX + 1 };
    for (size_t i = 0; i < 2; i++) {
        struct object *object = object_of_size(sizes[i]);
        struct object_view view = { 0 };
        struct kiln_err err = KILN_ERR_INIT;

        assert_int_equal(object_view_open(object, &view, &err), KILN_OK);

        assert_int_equal(view.bytes.size, sizes[i]);
        assert_memory_equal(view.bytes.data, content, sizes[i]);
        object_view_done(&view);
        object_unref(object);
    }
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(content); i++)
        content[i] = (uint8_t)(i * 31 + i / 251);
    return test_main(argc, argv);
}
