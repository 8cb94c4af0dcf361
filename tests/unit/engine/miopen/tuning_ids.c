/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "engine/miopen/tuning_ids.h"

#include <stdio.h>

struct fixture {
    struct tuning_ids ids;
    char texts[TUNING_ENTRIES_MAX + 1][8];
    struct kiln_err err;
};

SET_UP(set_up)
{
    must(tuning_ids_init(&f->ids, &f->err), f->err);
    for (unsigned i = 0; i <= TUNING_ENTRIES_MAX; i++)
        snprintf(f->texts[i], sizeof(f->texts[i]), "%u", i);
}

FIXTURE(tuning_ids, set_up, NULL);

static struct bytes id(struct fixture *f, unsigned number)
{
    return bytes_of_text(f->texts[number]);
}

static void fill(struct fixture *f)
{
    for (unsigned i = 0; i < TUNING_ENTRIES_MAX; i++)
        assert_int_equal(tuning_ids_add(&f->ids, id(f, i)), TUNING_ID_IS_NEW);
}

TEST_F(tuning_ids, an_added_tuning_id_is_known)
{
    assert_false(tuning_ids_has(&f->ids, id(f, 1)));
    assert_int_equal(tuning_ids_add(&f->ids, id(f, 1)), TUNING_ID_IS_NEW);
    assert_true(tuning_ids_has(&f->ids, id(f, 1)));
    assert_false(tuning_ids_has(&f->ids, id(f, 2)));
    assert_int_equal(tuning_ids_add(&f->ids, bytes_of_text("1")), TUNING_ID_IS_KNOWN);
    assert_int_equal(f->ids.count, 1);
}

TEST_F(tuning_ids, a_full_set_of_tuning_ids_refuses_new_ones)
{
    fill(f);
    for (unsigned i = 0; i < TUNING_ENTRIES_MAX; i++)
        assert_int_equal(tuning_ids_add(&f->ids, id(f, i)), TUNING_ID_IS_KNOWN);
    assert_int_equal(tuning_ids_add(&f->ids, id(f, TUNING_ENTRIES_MAX)), TUNING_IDS_ARE_FULL);
    assert_false(tuning_ids_has(&f->ids, id(f, TUNING_ENTRIES_MAX)));
    assert_true(bytes_equal_text(f->ids.ids[TUNING_ENTRIES_MAX - 1], "255"));
}

TEST_F(tuning_ids, a_cleared_set_of_tuning_ids_is_empty)
{
    for (unsigned round = 0; round < 3; round++) {
        fill(f);
        tuning_ids_clear(&f->ids);
        for (unsigned i = 0; i < TUNING_ENTRIES_MAX; i++)
            assert_false(tuning_ids_has(&f->ids, id(f, i)));
    }
}
