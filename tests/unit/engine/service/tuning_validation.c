/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_validation.h"
#include "tests/support/test.h"

#include <string.h>

struct fixture {
    struct tuning_database known;
    struct kiln_err err;
};

SET_UP(set_up) { *f = (struct fixture){ .err = KILN_ERR_INIT }; }

FIXTURE(tuning_validation, set_up, NULL);

static unsigned parsed;

WRAP(enum kiln_code, database_id_parse, struct bytes text, struct database_id *ret_id,
     struct kiln_err *err)
{
    parsed++;
    return __real_database_id_parse(text, ret_id, err);
}

static enum kiln_code take_database(struct fixture *f, enum tuning_kind kind, const char *id,
                                    const char *backend)
{
    parsed = 0;
    f->err = KILN_ERR_INIT;
    return tuning_database_take(kind, bytes_of_text(id), bytes_of_text(backend), &f->known,
                                &f->err);
}

static void assert_known(const struct fixture *f, const char *id, const char *backend)
{
    assert_string_equal(f->known.id, id);
    assert_string_equal(f->known.backend, backend);
}

TEST_F(tuning_validation, a_database_is_checked_once_and_then_known)
{
    must(take_database(f, TUNING_FIND, "gfx90a68", "HIP"), f->err);
    assert_true(parsed > 0);
    must(take_database(f, TUNING_FIND, "gfx90a68", "HIP"), f->err);
    assert_int_equal(parsed, 0);
    assert_known(f, "gfx90a68", "HIP");
    must(take_database(f, TUNING_FIND, "gfx906_60", "OpenCL"), f->err);
    assert_true(parsed > 0);
    assert_known(f, "gfx906_60", "OpenCL");
}

TEST_F(tuning_validation, a_missing_backend_defaults_to_the_devices)
{
    must(take_database(f, TUNING_FIND, "gfx90a68", "OpenCL"), f->err);
    must(take_database(f, TUNING_FIND, "gfx90a68", ""), f->err);
    assert_known(f, "gfx90a68", "HIP");
    must(take_database(f, TUNING_FIND, "gfx90a68", ""), f->err);
    assert_known(f, "gfx90a68", "HIP");
}

TEST_F(tuning_validation, another_backend_of_a_known_device_is_checked)
{
    must(take_database(f, TUNING_FIND, "gfx90a68", "HIP"), f->err);
    assert_int_equal(take_database(f, TUNING_FIND, "gfx90a68", "CUDA"), KILN_INVALID);
    assert_int_equal(take_database(f, TUNING_FIND, "gfx90a68", "HIP2"), KILN_INVALID);
    assert_known(f, "gfx90a68", "HIP");
}

TEST_F(tuning_validation, a_perf_database_has_no_backend)
{
    must(take_database(f, TUNING_PERF, "gfx90a68", ""), f->err);
    assert_known(f, "gfx90a68", "");
    must(take_database(f, TUNING_PERF, "gfx90a68", ""), f->err);
    assert_int_equal(parsed, 0);
    assert_int_equal(take_database(f, TUNING_PERF, "gfx90a68", "HIP"), KILN_INVALID);
    assert_says(f->err.text, "backend");
    assert_known(f, "gfx90a68", "");
}

TEST_F(tuning_validation, an_invalid_database_id_is_refused_and_changes_nothing)
{
    static const char *const wrong[] = { "", "gfx90a68 ", "68", "gfx90a68\n" };
    for (unsigned known = 0; known < 2; known++) {
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
            assert_int_not_equal(take_database(f, TUNING_PERF, wrong[i], ""), KILN_OK);
        assert_known(f, known ? "gfx90a68" : "", "");
        must(take_database(f, TUNING_PERF, "gfx90a68", ""), f->err);
    }
    must(take_database(f, TUNING_PERF, "gfx90a", ""), f->err);
    assert_known(f, "gfx90a", "");
}
