/* SPDX-License-Identifier: MIT */
#include "engine/store/codec_zstd.h"

#include "common/limits.h"
#include "store_fixture.h"

#include <string.h>

struct packed {
    struct codec *codec;
    uint8_t *raw;
    size_t size;
    uint8_t *stored; /* a copy, with a spare byte */
    size_t stored_size;
    enum codec_id id;
};

static struct packed pack(size_t size, bool compressible)
{
    struct packed p = { .size = size, .raw = malloc(size) };
    struct kiln_err err = KILN_ERR_INIT;
    struct bytes stored;
    fill(p.raw, size, 3, compressible);
    assert_int_equal(codec_create(&p.codec, &err), KILN_OK);
    assert_int_equal(codec_pack(p.codec, bytes_of(p.raw, size), &stored, &p.id, &err), KILN_OK);
    p.stored = malloc(stored.size + 1);
    memcpy(p.stored, stored.data, stored.size);
    p.stored[stored.size] = 0;
    p.stored_size = stored.size;
    return p;
}

static void done(struct packed *p)
{
    codec_destroy(p->codec);
    free(p->raw);
    free(p->stored);
}

static enum kiln_code unpack(struct packed *p, size_t stored_size, uint64_t raw_size)
{
    struct bytes raw;
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc =
        codec_unpack(p->codec, p->id, bytes_of(p->stored, stored_size), raw_size, &raw, &err);
    if (!rc)
        assert_true(bytes_equal(raw, bytes_of(p->raw, p->size)));
    return rc;
}

static void shrinks_what_can_be_shrunk_and_gets_it_back(void **state)
{
    (void)state;
    size_t sizes[] = { 200, 20000, 3 << 20 };
    for (size_t i = 0; i < 3; i++) {
        struct packed p = pack(sizes[i], true);
        assert_int_equal(p.id, CODEC_ZSTD);
        assert_true(p.stored_size < sizes[i]);
        assert_int_equal(unpack(&p, p.stored_size, sizes[i]), KILN_OK);
        done(&p);
    }
}

static void stores_what_does_not_shrink_as_it_is(void **state)
{
    (void)state;
    struct packed p = pack(20000, false);

    assert_int_equal(p.id, CODEC_RAW);
    assert_int_equal(p.stored_size, 20000);
    assert_int_equal(unpack(&p, p.stored_size, 20000), KILN_OK);
    done(&p);
}

static void refuses_every_size_but_the_right_one(void **state)
{
    (void)state;
    uint64_t wrong[] = {
        0, 1, 19999, 20001, LIMIT_CODE_OBJECT, LIMIT_CODE_OBJECT + 1ull, UINT64_MAX
    };
    for (int compressible = 0; compressible < 2; compressible++) {
        struct packed p = pack(20000, compressible);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
            assert_int_equal(unpack(&p, p.stored_size, wrong[i]), KILN_CORRUPT);
        done(&p);
    }
}

static void refuses_truncated_and_extended_forms(void **state)
{
    (void)state;
    struct packed p = pack(2000, true);
    for (size_t size = 0; size < p.stored_size; size++)
        assert_int_equal(unpack(&p, size, 2000), KILN_CORRUPT);
    assert_int_equal(unpack(&p, p.stored_size + 1, 2000), KILN_CORRUPT);
    done(&p);
}

static void refuses_a_form_it_does_not_know(void **state)
{
    (void)state;
    struct packed p = pack(2000, true);
    struct bytes raw;
    struct kiln_err err = KILN_ERR_INIT;

    assert_int_equal(codec_unpack(p.codec, 77, bytes_of(p.stored, p.stored_size), 2000, &raw, &err),
                     KILN_CORRUPT);
    done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shrinks_what_can_be_shrunk_and_gets_it_back),
        cmocka_unit_test(stores_what_does_not_shrink_as_it_is),
        cmocka_unit_test(refuses_every_size_but_the_right_one),
        cmocka_unit_test(refuses_truncated_and_extended_forms),
        cmocka_unit_test(refuses_a_form_it_does_not_know),
    };
    return cmocka_run_group_tests_name("codec_zstd", tests, NULL, NULL);
}
