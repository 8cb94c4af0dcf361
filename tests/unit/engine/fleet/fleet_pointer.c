/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"

#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_pointer.h"
#include "tests/support/fleet_keys.h"

#include <string.h>
#include <unistd.h>

struct fixture {
    const char *keys;
    struct fleet_signer carol, dave;
    struct fleet_trust *trust;
    struct fleet_epochs epochs;
    struct buffer text;
    struct kiln_err err;
};

static void reread_keys(struct fixture *f)
{
    fleet_trust_destroy(f->trust);
    f->trust = NULL;
    must(fleet_trust_read(f->keys, &f->trust, &f->err), f->err);
}

SET_UP(set_up)
{
    f->keys = test_directory();
    f->carol = fleet_test_signer(3);
    f->dave = fleet_test_signer(4);
    fleet_test_trust(f->keys, &f->carol, &(struct fleet_test_key){ "carol", NULL, true });
    fleet_test_trust(f->keys, &f->dave, &(struct fleet_test_key){ "dave", NULL, true });
    reread_keys(f);
    test_buffer(&f->text, FLEET_EPOCHS_TEXT_MAX);
}

TEAR_DOWN(tear_down)
{
    fleet_epochs_done(&f->epochs);
    fleet_trust_destroy(f->trust);
}

FIXTURE(pointer, set_up, tear_down);

struct made {
    const struct fleet_signer *signer;
    const char *target;
    uint64_t epoch;
};

static struct fleet_index *make_index(struct fixture *f, const struct made *made)
{
    struct fleet_index_draft draft = { .shard = { .target = bytes_of_text(made->target) },
                                       .epoch = made->epoch };
    BUFFER_AUTO struct buffer content;
    struct fleet_index *index = NULL;
    enum fleet_fault fault;
    buffer_init(&content, FLEET_INDEX_MAX);
    must(fleet_index_write(&draft, made->signer, &content, &f->err), f->err);
    must(fleet_index_open(&content, f->trust, &index, &fault, &f->err), f->err);
    return index;
}

static enum fleet_fault check(struct fixture *f, const struct made *made)
{
    KILN_AUTO(fleet_index) struct fleet_index *index = make_index(f, made);
    return fleet_epochs_check(&f->epochs, f->trust, index);
}

static void note(struct fixture *f, const struct made *made)
{
    KILN_AUTO(fleet_index) struct fleet_index *index = make_index(f, made);
    must(fleet_epochs_note(&f->epochs, index, &f->err), f->err);
}

TEST(plain, a_pointer_is_read_as_it_was_written)
{
    const struct fleet_pointer pointer = { UINT64_MAX, sha256_of(bytes_of_text("index")) };
    struct fleet_pointer read;
    char text[FLEET_POINTER_MAX];
    fleet_pointer_write(&pointer, text);
    assert_true(fleet_pointer_read(bytes_of_text(text), &read));
    assert_true(read.epoch == pointer.epoch && digest_equal(&read.sha256, &pointer.sha256));
    for (size_t size = 0; size < strlen(text); size++)
        assert_false(fleet_pointer_read(bytes_of(text, size), &read));
}

TEST(plain, other_texts_are_no_pointers)
{
#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    static const char *const bad[] = {
        "kiln-fleet-pointer-2 1 " HEX "\n",
        "kiln-fleet-pointer-1 -1 " HEX "\n",
        "kiln-fleet-pointer-1 18446744073709551616 " HEX "\n",
        "kiln-fleet-pointer-1 1 " HEX "0\n",
        "kiln-fleet-pointer-1 1 " HEX "\n\n",
        "kiln-fleet-pointer-1  1 " HEX "\n",
        "<html>not found</html>\n",
    };
    struct fleet_pointer read;
    assert_true(fleet_pointer_read(bytes_of_text("kiln-fleet-pointer-1 1 " HEX "\n"), &read));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(fleet_pointer_read(bytes_of_text(bad[i]), &read));
}

TEST_F(pointer, an_older_index_is_refused)
{
    note(f, &(struct made){ &f->carol, "gfx90a", 5 });
    assert_int_equal(check(f, &(struct made){ &f->carol, "gfx90a", 4 }), FLEET_FAULT_ROLLED_BACK);
    assert_int_equal(check(f, &(struct made){ &f->dave, "gfx90a", 4 }), FLEET_FAULT_ROLLED_BACK);
    assert_int_equal(check(f, &(struct made){ &f->carol, "gfx90a", 5 }), FLEET_FAULT_NONE);
    assert_int_equal(check(f, &(struct made){ &f->carol, "gfx90a", 6 }), FLEET_FAULT_NONE);
}

TEST_F(pointer, shards_have_separate_epochs)
{
    note(f, &(struct made){ &f->carol, "gfx90a", 5 });
    assert_int_equal(check(f, &(struct made){ &f->carol, "gfx942", 1 }), FLEET_FAULT_NONE);
}

TEST_F(pointer, a_revoked_signer_cannot_block_a_shard)
{
    char path[512];
    note(f, &(struct made){ &f->carol, "gfx90a", UINT64_MAX });
    assert_int_equal(check(f, &(struct made){ &f->dave, "gfx90a", 9 }), FLEET_FAULT_ROLLED_BACK);
    snprintf(path, sizeof(path), "%s/carol.pub", f->keys);
    assert_int_equal(unlink(path), 0);
    reread_keys(f);
    assert_int_equal(check(f, &(struct made){ &f->dave, "gfx90a", 9 }), FLEET_FAULT_NONE);
}

TEST_F(pointer, a_signer_that_may_no_longer_sign_indices_cannot_block_a_shard)
{
    note(f, &(struct made){ &f->carol, "gfx90a", 9 });
    fleet_test_trust(f->keys, &f->carol, &(struct fleet_test_key){ "carol", "gfx90a", false });
    reread_keys(f);
    assert_int_equal(check(f, &(struct made){ &f->dave, "gfx90a", 1 }), FLEET_FAULT_NONE);
}

TEST_F(pointer, epochs_survive_a_restart)
{
    note(f, &(struct made){ &f->carol, "gfx90a", 5 });
    note(f, &(struct made){ &f->dave, "gfx942", 6 });
    note(f, &(struct made){ &f->carol, "gfx90a", 8 });
    fleet_epochs_write(&f->epochs, &f->text);
    fleet_epochs_done(&f->epochs);
    assert_true(fleet_epochs_read(buffer_view(&f->text), &f->epochs));
    assert_int_equal(f->epochs.count, 2);
    assert_int_equal(check(f, &(struct made){ &f->dave, "gfx90a", 7 }), FLEET_FAULT_ROLLED_BACK);
    assert_int_equal(check(f, &(struct made){ &f->carol, "gfx942", 5 }), FLEET_FAULT_ROLLED_BACK);
}

TEST_F(pointer, the_intact_lines_of_damaged_epochs_count)
{
    note(f, &(struct made){ &f->carol, "gfx90a", 5 });
    fleet_epochs_write(&f->epochs, &f->text);
    buffer_put(&f->text, "rubbish\n", 8);
    fleet_epochs_done(&f->epochs);
    assert_false(fleet_epochs_read(buffer_view(&f->text), &f->epochs));
    assert_int_equal(f->epochs.count, 1);
}

TEST_F(pointer, the_oldest_epochs_are_dropped_above_the_limit)
{
    char line[FLEET_POINTER_MAX];
    note(f, &(struct made){ &f->carol, "gfx90a", 5 });
    fleet_epochs_write(&f->epochs, &f->text);
    for (unsigned i = 1; i < FLEET_EPOCHS_MAX; i++) {
        snprintf(line, sizeof(line), "%032x 0011223344556677 %llu\n", i, UINT64_MAX + 0ull);
        buffer_put(&f->text, line, strlen(line));
    }
    assert_false(f->text.failed);
    fleet_epochs_done(&f->epochs);
    assert_true(fleet_epochs_read(buffer_view(&f->text), &f->epochs));
    assert_int_equal(check(f, &(struct made){ &f->carol, "gfx90a", 4 }), FLEET_FAULT_ROLLED_BACK);

    note(f, &(struct made){ &f->carol, "gfx942", 5 });
    assert_int_equal(f->epochs.count, FLEET_EPOCHS_MAX);
    assert_int_equal(check(f, &(struct made){ &f->carol, "gfx90a", 4 }), FLEET_FAULT_NONE);
    assert_int_equal(check(f, &(struct made){ &f->carol, "gfx942", 4 }), FLEET_FAULT_ROLLED_BACK);
}
