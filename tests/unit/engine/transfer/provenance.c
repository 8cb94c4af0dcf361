/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/transfer/transfer_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

TEST_F(transfer, a_file_with_the_requested_sha256_is_accepted)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_pack(&f->p, PACKAGE, PACKAGE ".bz2");
    from_server(f, PACKAGE ".bz2");
    struct digest digest = package_digest(package_path(&f->p, PACKAGE ".bz2"));
    digest_to_hex(&digest, f->hex);
    f->job.sha256 = f->hex;

    run(f);

    expect_installed(f);
}

TEST_F(transfer, a_file_with_another_sha256_is_refused)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_server(f, PACKAGE);
    memset(f->hex, 'a', 64);
    f->job.sha256 = f->hex;

    expect_refused(f, KILN_CORRUPT, "SHA-256");
}

TEST_F(transfer, a_malformed_sha256_is_refused_before_the_fetch)
{
    from_server(f, PACKAGE);
    f->job.sha256 = "abc";

    expect_refused(f, KILN_INVALID, "hexadecimal");

    assert_int_equal(f->server.requests, 0);
}

TEST_F(transfer, the_result_names_the_signer)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_pack(&f->p, PACKAGE, PACKAGE ".bz2");
    package_sign(&f->p, PACKAGE ".bz2", "amd", true);
    from_server(f, PACKAGE ".bz2");
    f->job.require_signature = true;

    run(f);

    assert_string_equal(f->result.signer, "amd");
    expect_installed(f);
}

TEST_F(transfer, a_manifest_from_a_descriptor_is_used)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_sign(&f->p, PACKAGE, "amd", true);
    from_descriptor(f, PACKAGE);
    f->job.manifest_fd = open(package_path(&f->p, PACKAGE ".manifest"), O_RDONLY | O_CLOEXEC);
    f->job.require_signature = true;

    run(f);

    assert_string_equal(f->result.signer, "amd");
    expect_installed(f);
}

TEST_F(transfer, a_manifest_next_to_a_file_url_is_used)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_sign(&f->p, PACKAGE, "amd", true);
    from_file_url(f, PACKAGE);
    f->job.require_signature = true;

    run(f);

    assert_string_equal(f->result.signer, "amd");
    expect_installed(f);
}

TEST_F(transfer, a_signed_package_with_a_flipped_bit_is_refused)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_sign(&f->p, PACKAGE, "amd", true);
    package_damage(&f->p, PACKAGE);
    from_server(f, PACKAGE);

    expect_refused(f, KILN_CORRUPT, "manifest");
}

TEST_F(transfer, a_manifest_of_an_untrusted_key_is_refused)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_sign(&f->p, PACKAGE, "stranger", false);
    from_server(f, PACKAGE);

    expect_refused(f, KILN_DENIED, "manifest");

    assert_false(http_script_was_asked(&f->server, "GET /" PACKAGE " HTTP"));
}

/* If kiln-transfer runs as another user, it reads a copy of the keys. Messages must nevertheless
 * state the directory into which users put keys. */
TEST_F(transfer, messages_state_the_original_directory_of_keys)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_sign(&f->p, PACKAGE, "stranger", false);
    from_server(f, PACKAGE);
    f->job.keys_shown = "/etc/kiln/trusted";

    expect_refused(f, KILN_DENIED, "'/etc/kiln/trusted'");

    const char *once = "the manifest of '" PACKAGE "'";
    const char *first = strstr(f->result.err.text, once);
    assert_non_null(first);
    assert_null(strstr(first + 1, once));
}

TEST_F(transfer, a_manifest_of_another_package_is_refused)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_write(&f->p, "gfx906_60.kdb", ROWS, OBJECT_SIZE);
    package_sign(&f->p, "gfx906_60.kdb", "amd", true);
    char from[FIXTURE_PATH_MAX];
    snprintf(from, sizeof(from), "%s", package_path(&f->p, "gfx906_60.kdb.manifest"));
    assert_int_equal(rename(from, package_path(&f->p, PACKAGE ".manifest")), 0);
    from_server(f, PACKAGE);

    expect_refused(f, KILN_NOT_FOUND, PACKAGE);
}

/* The package's name states its device, so the signature must cover the name, too. */
TEST_F(transfer, a_signed_package_cannot_be_renamed_to_another_device)
{
    static const char *const others[] = { "gfx90a.kdb", "gfx906_60.kdb", "gfx90a68.kpkg" };
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_sign(&f->p, PACKAGE, "amd", true);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        from_server(f, PACKAGE);
        f->job.name = others[i];
        expect_refused(f, KILN_DENIED, "'gfx90a68.kdb'");
        assert_non_null(strstr(f->result.err.text, others[i]));
    }
    package_write(&f->p, "latest", ROWS, OBJECT_SIZE);
    package_sign(&f->p, "latest", "amd2", true);
    from_server(f, "latest");
    f->job.name = PACKAGE;
    expect_refused(f, KILN_DENIED, "'latest'");
}

TEST_F(transfer, a_signed_package_can_be_renamed_for_the_same_device)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_pack(&f->p, PACKAGE, "gfx90a68.rocm7.kdb.bz2");
    package_sign(&f->p, "gfx90a68.rocm7.kdb.bz2", "amd", true);
    from_server(f, "gfx90a68.rocm7.kdb.bz2");
    f->job.name = PACKAGE;

    run(f);

    assert_string_equal(f->result.signer, "amd");
    expect_installed(f);
}

TEST_F(transfer, an_unsigned_package_is_refused_if_a_signature_is_required)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    f->job.require_signature = true;
    from_descriptor(f, PACKAGE);
    expect_refused(f, KILN_DENIED, "require_signature");

    from_file_url(f, PACKAGE);
    expect_refused(f, KILN_DENIED, "pkg sign");

    from_server(f, PACKAGE);
    expect_refused(f, KILN_DENIED, "require_signature");
}

TEST_F(transfer, a_missing_manifest_is_accepted)
{
    static const int statuses[] = { 403, 404, 410 };
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        f->manifest_status = statuses[i];
        from_server(f, PACKAGE);
        run(f);
        expect_installed(f);
    }
}

TEST_F(transfer, a_manifest_that_needs_a_password_is_an_error)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    f->manifest_status = 401;
    from_server(f, PACKAGE);

    expect_refused(f, KILN_DENIED, PACKAGE ".manifest");
}

TEST_F(transfer, a_manifest_that_cannot_be_fetched_is_an_error)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    f->manifest_status = 503;
    from_server(f, PACKAGE);

    expect_refused(f, KILN_UNAVAILABLE, PACKAGE ".manifest");
}

TEST_F(transfer, a_refused_required_manifest_is_reported_with_its_status)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    f->manifest_status = 403;
    from_server(f, PACKAGE);
    f->job.require_signature = true;

    expect_refused(f, KILN_DENIED, "status 403");
}

TEST_F(transfer, a_file_that_is_not_a_manifest_is_refused)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_write(&f->p, PACKAGE ".manifest", 1, 10);
    from_server(f, PACKAGE);

    expect_refused(f, KILN_CORRUPT, "manifest");
}
