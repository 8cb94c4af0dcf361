/* SPDX-License-Identifier: MIT */

#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "engine/manifest/manifest.h"
#include "engine/package/package_record.h"
#include "tests/support/failing_json.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    const char *directory;
    char secret[160];
    struct kiln_err err;
};

SET_UP(set_up)
{
    f->directory = test_directory();
    snprintf(f->secret, sizeof(f->secret), "%s/alice.key", f->directory);
    json_allocations_can_fail();
    assert_int_equal(manifest_keygen(f->directory, "alice", &f->err), 0);
}

FIXTURE(manifest_failing, set_up, NULL);

static struct manifest_entry entry_of(const char *name)
{
    return (struct manifest_entry){ .name = name,
                                    .size = strlen(name),
                                    .sha256 = sha256_of(bytes_of_text(name)) };
}

/* Signs while allocation |nth| fails. Returns false if there were fewer allocations. */
static bool sign_while_failing(struct fixture *f, unsigned nth, struct buffer *ret_manifest,
                               enum kiln_code *ret_rc)
{
    const struct manifest_entry entries[] = { entry_of("gfx90a68.kdb"), entry_of("gfx906_60.kdb") };
    const struct manifest_content content = { .entries = entries, .count = 2 };
    fail_call("malloc", nth, ENOMEM);
    *ret_rc = manifest_sign(f->secret, &content, ret_manifest, &f->err);
    return calls_failed();
}

static void check_manifest(struct fixture *f, struct bytes manifest)
{
    static const char *const names[] = { "gfx90a68.kdb", "gfx906_60.kdb" };
    const struct manifest_trust trust = { .directory = f->directory };
    for (size_t i = 0; i < 2; i++) {
        struct manifest_entry entry = entry_of(names[i]);
        struct manifest_file file;
        must(manifest_check(manifest, &trust, names[i], &file, &f->err), f->err);
        assert_int_equal(file.size, entry.size);
        assert_true(digest_equal(&file.sha256, &entry.sha256));
    }
}

TEST_F(manifest_failing, a_manifest_is_signed_whole_or_not_at_all_when_memory_runs_out)
{
    bool failed = true;
    for (unsigned nth = 1; failed; nth++) {
        BUFFER_AUTO struct buffer manifest;
        enum kiln_code rc;
        buffer_init(&manifest, MANIFEST_MAX);
        failed = sign_while_failing(f, nth, &manifest, &rc);
        if (rc == KILN_OK)
            check_manifest(f, buffer_view(&manifest));
        else
            assert_true(failed && manifest.size == 0);
    }
}

static enum kiln_code make_key(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    return manifest_keygen(f->directory, "bob", err);
}

TEST_F(manifest_failing, a_key_is_written_whole_or_not_at_all_when_memory_runs_out)
{
    expect_failures(make_key, f, FAILING("malloc", ENOMEM), KILN_NO_MEMORY, "'bob'");
    snprintf(f->secret, sizeof(f->secret), "%s/bob.key", f->directory);
    BUFFER_AUTO struct buffer manifest;
    enum kiln_code rc;
    buffer_init(&manifest, MANIFEST_MAX);
    sign_while_failing(f, 1000, &manifest, &rc);
    must(rc, f->err);
    check_manifest(f, buffer_view(&manifest));
}

static const struct file_identity identity = { .inode = 1, .size = 2, .modified_ns = 3 };

static enum kiln_code announce_record(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    const struct package_record record = { .sha256 = sha256_of(bytes_of_text("x")),
                                           .rows = 4,
                                           .installed = 5,
                                           .signer = "alice",
                                           .source = "a file" };
    return package_record_announce(f->directory, "a.kpkg", &identity, &record, err);
}

TEST_F(manifest_failing, a_package_record_is_written_whole_or_not_at_all_when_memory_runs_out)
{
    expect_failures(announce_record, f, FAILING("malloc", ENOMEM), KILN_NO_MEMORY, "'a.kpkg'");
    struct package_record record;
    must(package_record_settle(f->directory, "a.kpkg", &f->err), f->err);
    must(package_record_read(f->directory, "a.kpkg", &identity, &record, &f->err), f->err);
    assert_int_equal(record.rows, 4);
    assert_string_equal(record.signer, "alice");
    assert_string_equal(record.source, "a file");
}
