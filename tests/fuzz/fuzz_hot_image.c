/* SPDX-License-Identifier: MIT */
/* What an earlier kilnd kept: the index of its hot set, with descriptors of all kinds. */
#include "tests/fuzz/fuzz.h"

#include "engine/store/hot_image.h"
#include "engine/store/hot_set.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MOST 16

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
    (void)object;
    fuzz_expect(memchr(origin->target, '\0', sizeof(origin->target)) &&
                    memchr(origin->program, '\0', sizeof(origin->program)),
                "texts are terminated");
}

static int some_file(unsigned kind)
{
    static const uint8_t zeros[64];
    if (kind % 8 == 7)
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    return fuzz_memfd(bytes_of(zeros, kind % 64), kind % 8 != 6);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct hot_image_books books = { .look_up = look_up, .note = note };
    const struct hot_set_options options = { .limit_bytes = 256, .limit_count = 8 };
    const struct hot_image_origin origin = { .uid = 0 };
    struct kiln_err err = KILN_ERR_INIT;
    struct reader r = reader_of(bytes_of(data, size));
    struct hot_set *set = NULL;
    unsigned before = fuzz_descriptors();
    struct hot_image_taken taken;
    int fds[FILES_MOST];
    size_t count = reader_u8(&r) % (FILES_MOST + 1);
    for (size_t i = 0; i < count; i++)
        fds[i] = some_file(reader_u8(&r));
    struct bytes part = fuzz_rest(&r);
    uint8_t *index = fuzz_copy(part);
    fuzz_expect(hot_set_create(&options, &set, &err) == KILN_OK, "a hot set");
    hot_image_sequence(bytes_of(index, part.size));
    if (hot_image_read(set, bytes_of(index, part.size), &origin, &books, fds, count, &taken,
                       &err) == KILN_OK)
        fuzz_expect(taken.objects + taken.refused == count, "every descriptor has its end");
    free(index);
    HOT_IMAGE_AUTO struct hot_image image = { 0 };
    fuzz_expect(hot_image_write(set, &origin, &books, 8, &image, &err) == KILN_OK,
                "what was read can be kept again");
    hot_set_destroy(set);
    for (size_t i = 0; i < count; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    fuzz_expect(fuzz_descriptors() == before, "no descriptor stays open");
    return 0;
}
