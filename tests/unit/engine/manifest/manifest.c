/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"
#include "tests/support/test_files.h"

#include "common/base/fs.h"
#include "common/base/json.h"
#include "engine/digest/ed25519.h"
#include "engine/digest/sha256.h"
#include "engine/manifest/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int fsyncs_until_full = -1; /* -1: none fails */

WRAP(int, fsync, int fd)
{
    (void)fd;
    if (fsyncs_until_full != 0) {
        fsyncs_until_full -= fsyncs_until_full > 0;
        return 0;
    }
    errno = ENOSPC;
    return -1;
}

struct fixture {
    const char *directory;
    char trusted[160];
    char secret[200];
    struct buffer manifest;
    struct manifest_file file;
    struct kiln_err err;
};

static const char *path_in(const char *directory, const char *name)
{
    static char path[4][300];
    static unsigned at;
    char *text = path[at++ % 4];
    snprintf(text, sizeof(path[0]), "%s/%s", directory, name);
    return text;
}

static void trust(struct fixture *f, const char *key)
{
    char name[80];
    snprintf(name, sizeof(name), "%s.pub", key);
    assert_int_equal(rename(path_in(f->directory, name), path_in(f->trusted, name)), 0);
}

SET_UP(setup)
{
    f->directory = test_directory();
    snprintf(f->trusted, sizeof(f->trusted), "%s/trusted", f->directory);
    snprintf(f->secret, sizeof(f->secret), "%s/alice.key", f->directory);
    test_buffer(&f->manifest, MANIFEST_MAX);
    assert_false(mkdir(f->trusted, 0755) != 0 || manifest_keygen(f->directory, "alice", &f->err));
    trust(f, "alice");
}

TEAR_DOWN(teardown) { fsyncs_until_full = -1; }

FIXTURE(manifest, setup, teardown);

static struct manifest_entry entry_of(const char *name)
{
    return (struct manifest_entry){ .name = name,
                                    .size = 1000 + strlen(name),
                                    .sha256 = sha256_of(bytes_of_text(name)) };
}

static enum kiln_code sign_entries(struct fixture *f, const char *key_file,
                                   const struct manifest_entry *entries, size_t count)
{
    const struct manifest_content content = { .entries = entries, .count = count };
    return manifest_sign(key_file, &content, &f->manifest, &f->err);
}

static void sign_two(struct fixture *f)
{
    struct manifest_entry entries[] = { entry_of("gfx90a68.kdb"), entry_of("gfx906_60.kpkg") };
    f->manifest.size = 0;
    must(sign_entries(f, f->secret, entries, 2), f->err);
}

static enum kiln_code check_bytes(struct fixture *f, struct bytes manifest, const char *name)
{
    const struct manifest_trust trust = { .directory = f->trusted };
    return manifest_check(manifest, &trust, name, &f->file, &f->err);
}

static enum kiln_code check_trusted(struct fixture *f, const char *name)
{
    return check_bytes(f, buffer_view(&f->manifest), name);
}

static void write_text(const char *path, const char *text, mode_t mode)
{
    test_write_text(path, text);
    assert_int_equal(chmod(path, mode), 0);
}

TEST_F(manifest, a_manifest_gives_size_hash_and_signer_of_a_signed_file)
{
    sign_two(f);

    must(check_trusted(f, "gfx906_60.kpkg"), f->err);

    struct manifest_entry expected = entry_of("gfx906_60.kpkg");
    assert_int_equal(f->file.size, expected.size);
    assert_true(digest_equal(&f->file.sha256, &expected.sha256));
    assert_string_equal(f->file.signer, "alice");
}

TEST_F(manifest, a_manifest_states_the_content_of_a_packed_file_and_its_edition)
{
    struct manifest_entry entry = entry_of("gfx90a68.kdb.bz2");
    const struct digest content = sha256_of(bytes_of_text("content"));
    const struct manifest_content signed_content = { &entry, 1, { .version = 7, .time = 1000 } };
    entry.is_packed = true;
    entry.unpacked_size = 7;
    entry.unpacked_sha256 = content;
    must(manifest_sign(f->secret, &signed_content, &f->manifest, &f->err), f->err);

    must(check_trusted(f, "gfx90a68.kdb.bz2"), f->err);

    assert_true(f->file.has_unpacked);
    assert_true(digest_equal(&f->file.unpacked_sha256, &content));
    assert_true(digest_equal(&f->file.sha256, &entry.sha256));
    assert_int_equal(f->file.edition.version, 7);
    assert_int_equal(f->file.edition.time, 1000);
}

TEST_F(manifest, an_entry_of_the_content_also_covers_the_packed_file)
{
    struct manifest_entry entries[] = { entry_of("gfx90a68.kdb"), entry_of("gfx90a68.kdb.bz2"),
                                        entry_of("gfx90a68.kdb.bz2.bz2") };
    must(sign_entries(f, f->secret, entries, 3), f->err);

    must(check_trusted(f, "gfx90a68.kdb.bz2"), f->err);

    assert_true(f->file.has_unpacked);
    assert_true(digest_equal(&f->file.unpacked_sha256, &entries[0].sha256));
    must(check_trusted(f, "gfx90a68.kdb"), f->err);
    assert_false(f->file.has_unpacked);
    assert_int_equal(f->file.edition.time, 0);
}

TEST(plain, a_higher_version_is_newer_and_of_equal_versions_the_later_one)
{
    const struct manifest_edition first = { 1, 900 }, later = { 1, 901 }, second = { 2, 100 };
    assert_true(manifest_edition_compare(&first, &later) < 0);
    assert_true(manifest_edition_compare(&later, &first) > 0);
    assert_true(manifest_edition_compare(&second, &later) > 0);
    assert_true(manifest_edition_compare(&later, &second) < 0);
    assert_int_equal(manifest_edition_compare(&first, &first), 0);
}

TEST_F(manifest, the_same_entries_give_the_same_manifest)
{
    sign_two(f);
    BUFFER_AUTO struct buffer first = f->manifest;
    buffer_init(&f->manifest, MANIFEST_MAX);

    sign_two(f);

    assert_true(bytes_equal(buffer_view(&first), buffer_view(&f->manifest)));
}

TEST_F(manifest, a_file_missing_in_a_manifest_is_refused_with_its_list)
{
    sign_two(f);

    assert_int_equal(check_trusted(f, "gfx908.kdb"), KILN_NOT_FOUND);

    assert_says(f->err.text, "'gfx906_60");
    assert_says(f->err.text, "of 'alice'");
}

TEST_F(manifest, a_manifest_of_an_untrusted_key_is_refused)
{
    must(manifest_keygen(f->directory, "mallory", &f->err), f->err);
    snprintf(f->secret, sizeof(f->secret), "%s/mallory.key", f->directory);
    sign_two(f);

    assert_int_equal(check_trusted(f, "gfx90a68.kdb"), KILN_DENIED);

    assert_says(f->err.text, "trusted keys");
    assert_says(f->err.text, ".pub");
    trust(f, "mallory");
    must(check_trusted(f, "gfx90a68.kdb"), f->err);
    assert_string_equal(f->file.signer, "mallory");
}

TEST_F(manifest, without_trusted_keys_every_manifest_is_refused)
{
    sign_two(f);
    fs_remove_tree(AT_FDCWD, f->trusted);

    assert_int_equal(check_trusted(f, "gfx90a68.kdb"), KILN_DENIED);
    assert_says(f->err.text, "the 0");
}

TEST_F(manifest, an_unreadable_directory_of_trusted_keys_is_reported)
{
    sign_two(f);
    fs_remove_tree(AT_FDCWD, f->trusted);
    write_text(f->trusted, "no directory", 0644);

    enum kiln_code rc = check_trusted(f, "gfx90a68.kdb");

    assert_int_not_equal(rc, KILN_OK);
    assert_says(f->err.text, "trusted keys");
}

TEST_F(manifest, a_manifest_with_a_changed_byte_is_refused)
{
    sign_two(f);
    struct manifest_entry expected = entry_of("gfx90a68.kdb");
    for (size_t i = 0; i < f->manifest.size; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            f->manifest.data[i] ^= (uint8_t)(1u << bit);
            enum kiln_code rc = check_trusted(f, "gfx90a68.kdb");
            /* the flipped bit is in white space, or does not change what the JSON means */
            if (rc == KILN_OK) {
                assert_int_equal(f->file.size, expected.size);
                assert_true(digest_equal(&f->file.sha256, &expected.sha256));
                assert_string_equal(f->file.signer, "alice");
            } else {
                assert_true(rc == KILN_DENIED || rc == KILN_CORRUPT);
                assert_true(strlen(f->err.text) > 20);
            }
            f->manifest.data[i] ^= (uint8_t)(1u << bit);
        }
    }
    must(check_trusted(f, "gfx90a68.kdb"), f->err);
}

TEST_F(manifest, a_truncated_manifest_is_refused)
{
    sign_two(f);
    for (size_t size = 0; size + 2 < f->manifest.size; size++)
        assert_int_equal(check_bytes(f, bytes_of(f->manifest.data, size), "gfx90a68.kdb"),
                         KILN_CORRUPT);
}

TEST_F(manifest, a_signature_of_another_manifest_is_refused)
{
    sign_two(f);
    KILN_AUTO(json) struct json *first = NULL, *other = json_object();
    must(json_parse(buffer_view(&f->manifest), "it", &first, &f->err), f->err);
    json_set_text(other, "manifest",
                  "{\"format\":\"kiln-manifest-1\",\"files\":[{\"name\":\"gfx90a68.kdb\","
                  "\"size\":1,\"sha256\":"
                  "\"0000000000000000000000000000000000000000000000000000000000000000\"}]}");
    json_set_text(other, "key_id", json_get_text(first, "key_id", ""));
    json_set_text(other, "signature", json_get_text(first, "signature", ""));
    KILN_AUTO(mem) char *text = json_print(other, false);

    assert_int_equal(check_bytes(f, bytes_of_text(text), "gfx90a68.kdb"), KILN_DENIED);

    assert_says(f->err.text, "'alice'");
}

/* Signs |text|, even if it is not what manifest_sign would write. Then checks it as a manifest. */
static enum kiln_code check_signed(struct fixture *f, const char *text)
{
    struct bytes key = test_read(f->secret);
    KILN_AUTO(json) struct json *json = NULL, *out = json_object();
    must(json_parse(key, "key", &json, &f->err), f->err);
    struct digest secret;
    assert_true(digest_from_hex(json_get_text(json, "secret", ""), &secret));
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    ed25519_sign(secret.bytes, bytes_of_text(text), signature);
    char hex[2 * sizeof(signature) + 1];
    for (size_t i = 0; i < sizeof(signature); i++)
        snprintf(hex + 2 * i, 3, "%02x", signature[i]);
    json_set_text(out, "manifest", text);
    json_set_text(out, "key_id", json_get_text(json, "key_id", ""));
    json_set_text(out, "signature", hex);
    KILN_AUTO(mem) char *whole = json_print(out, true);
    return check_bytes(f, bytes_of_text(whole), "f");
}

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define FILE_F "{\"name\":\"f\",\"size\":1,\"sha256\":\"" ZEROS "\"}"

TEST_F(manifest, a_signed_but_malformed_manifest_is_refused)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "x", "the signed text is not JSON" },
        { "{}", "format" },
        { "[]", "format" },
        { "{\"format\":\"kiln-manifest-2\",\"files\":[" FILE_F "]}", "format" },
        { "{\"format\":\"kiln-manifest-1\",\"files\":7}", "format" },
        { "{\"format\":\"kiln-manifest-1\",\"files\":[7]}", "an entry lacks" },
        { "{\"format\":\"kiln-manifest-1\",\"files\":[{\"name\":\"f\"}]}", "an entry lacks" },
        { "{\"format\":\"kiln-manifest-1\",\"files\":[{\"name\":\"../f\",\"size\":1,\"sha256\":"
          "\"" ZEROS "\"}]}",
          "an entry lacks" },
        { "{\"format\":\"kiln-manifest-1\",\"files\":[{\"name\":\"f\",\"size\":-1,\"sha256\":"
          "\"" ZEROS "\"}]}",
          "an entry lacks" },
        { "{\"format\":\"kiln-manifest-1\",\"files\":[{\"name\":\"f\",\"size\":1,\"sha256\":"
          "\"00\"}]}",
          "an entry lacks" },
        { "{\"format\":\"kiln-manifest-1\",\"files\":[" FILE_F "," FILE_F "]}", "twice" },
    };
    must(check_signed(f, "{\"format\":\"kiln-manifest-1\",\"files\":[" FILE_F "]}"), f->err);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(check_signed(f, cases[i].text), KILN_CORRUPT);
        assert_says(f->err.text, cases[i].says);
    }
    assert_int_equal(check_signed(f, "{\"format\":\"kiln-manifest-1\",\"files\":[]}"),
                     KILN_NOT_FOUND);
    assert_says(f->err.text, "nothing");
}

TEST_F(manifest, a_manifest_that_is_too_large_is_refused)
{
    KILN_AUTO(mem) char *blanks = malloc(MANIFEST_MAX + 1);
    memset(blanks, ' ', MANIFEST_MAX + 1);

    assert_int_equal(check_bytes(f, bytes_of(blanks, MANIFEST_MAX + 1), "f"), KILN_CORRUPT);
    assert_says(f->err.text, "large");
}

TEST_F(manifest, invalid_key_files_are_skipped)
{
    static const char *const files[] = {
        "",
        "{}",
        "{\"format\":\"kiln-public-key-1\"}",
        "{\"format\":\"kiln-public-key-1\",\"name\":\"a/b\",\"key_id\":\"\",\"key\":\"" ZEROS "\"}",
        "{\"format\":\"kiln-public-key-1\",\"name\":\"a\",\"key_id\":\"\",\"key\":\"00\"}",
        "{\"format\":\"kiln-public-key-1\",\"name\":\"a\",\"key_id\":\"0123456789abcdef\",\"key\":"
        "\"" ZEROS "\"}",
    };
    sign_two(f);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "%zu.pub", i);
        write_text(path_in(f->trusted, name), files[i], 0644);
    }
    assert_int_equal(mkfifo(path_in(f->trusted, "pipe.pub"), 0600), 0);

    must(check_trusted(f, "gfx90a68.kdb"), f->err);

    assert_int_equal(unlink(path_in(f->trusted, "alice.pub")), 0);
    assert_int_equal(check_trusted(f, "gfx90a68.kdb"), KILN_DENIED);
    assert_says(f->err.text, "the 0");
    assert_says(f->err.text, "'0.pub'");
}

TEST_F(manifest, a_secret_key_file_is_private_to_its_owner)
{
    struct stat secret, pub;
    mode_t before = umask(0);

    must(manifest_keygen(f->directory, "bob", &f->err), f->err);

    umask(before);
    assert_int_equal(stat(path_in(f->directory, "bob.key"), &secret), 0);
    assert_int_equal(stat(path_in(f->directory, "bob.pub"), &pub), 0);
    assert_int_equal(secret.st_mode & 07777, 0600);
    assert_int_equal(pub.st_mode & 07777, 0644);
}

TEST_F(manifest, each_keygen_makes_a_different_key)
{
    char other[200];
    snprintf(other, sizeof(other), "%s/deep/er", f->directory);

    must(manifest_keygen(other, "alice", &f->err), f->err);

    assert_false(bytes_equal(test_read(f->secret), test_read(path_in(other, "alice.key"))));
}

TEST_F(manifest, keygen_never_overwrites_a_key)
{
    struct bytes before = test_read(f->secret);

    assert_int_equal(manifest_keygen(f->directory, "alice", &f->err), KILN_BUSY);
    assert_says(f->err.text, "'alice'");
    assert_true(bytes_equal(before, test_read(f->secret)));

    write_text(path_in(f->directory, "carol.pub"), "x", 0644);
    assert_int_equal(manifest_keygen(f->directory, "carol", &f->err), KILN_BUSY);
    assert_int_not_equal(access(path_in(f->directory, "carol.key"), F_OK), 0);
}

TEST_F(manifest, a_full_disk_leaves_no_incomplete_key)
{
    /* the syncs of the secret file, of its directory and of the public file fail in turn */
    for (int i = 0; i < 3; i++) {
        fsyncs_until_full = i;
        assert_int_equal(manifest_keygen(f->directory, "bob", &f->err), KILN_FULL);
        assert_says(f->err.text, "'bob'");
        assert_int_not_equal(access(path_in(f->directory, ".bob.key.tmp"), F_OK), 0);
        assert_int_not_equal(access(path_in(f->directory, "bob.key"), F_OK), 0);
    }
    fsyncs_until_full = -1;
    must(manifest_keygen(f->directory, "bob", &f->err), f->err);
}

TEST_F(manifest, invalid_key_names_are_refused)
{
    char long_name[KEY_NAME_MAX + 1];
    memset(long_name, 'a', KEY_NAME_MAX);
    long_name[KEY_NAME_MAX] = '\0';
    const char *names[] = { "", ".", ".a", "-a", "a/b", "a b", "\xc3\xa4", long_name };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(manifest_keygen(f->directory, names[i], &f->err), KILN_INVALID);
        assert_says(f->err.text, "name");
    }
}

TEST_F(manifest, a_secret_key_that_others_can_read_is_refused)
{
    struct manifest_entry entry = entry_of("f");
    static const mode_t modes[] = { 0640, 0604, 0660 };
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(chmod(f->secret, modes[i]), 0);
        assert_int_equal(sign_entries(f, f->secret, &entry, 1), KILN_DENIED);
        assert_says(f->err.text, "chmod 600");
        assert_int_equal(f->manifest.size, 0);
    }
}

/* systemd grants access to a secret key by an access control list. stat(2) returns the list's mask
 * as the rights of the file's group. */
TEST_F(manifest, a_secret_key_that_systemd_passes_may_have_rights_of_the_group)
{
    struct manifest_entry entry = entry_of("f");
    assert_int_equal(chmod(f->secret, 0440), 0);
    test_setenv("CREDENTIALS_DIRECTORY", "/another");
    assert_int_equal(sign_entries(f, f->secret, &entry, 1), KILN_DENIED);
    test_setenv("CREDENTIALS_DIRECTORY", f->directory);
    must(sign_entries(f, f->secret, &entry, 1), f->err);
    assert_int_equal(chmod(f->secret, 0444), 0);
    assert_int_equal(sign_entries(f, f->secret, &entry, 1), KILN_DENIED);
}

TEST_F(manifest, an_invalid_secret_key_is_refused_with_a_reason)
{
    struct manifest_entry entry = entry_of("f");
    const char *path = path_in(f->directory, "bad.key");

    assert_int_equal(sign_entries(f, path, &entry, 1), KILN_NOT_FOUND);
    assert_says(f->err.text, "secret");
    write_text(path, "x", 0600);
    assert_int_equal(sign_entries(f, path, &entry, 1), KILN_INVALID);
    write_text(path, "{\"format\":\"kiln-secret-key-1\",\"name\":\"a\",\"secret\":\"zz\"}", 0600);
    assert_int_equal(sign_entries(f, path, &entry, 1), KILN_INVALID);
    assert_says(f->err.text, "hexadecimal");
    write_text(path, "{\"format\":\"kiln-public-key-1\",\"name\":\"a\"}", 0600);
    assert_int_equal(sign_entries(f, path, &entry, 1), KILN_INVALID);
    assert_says(f->err.text, "kiln-secret-key-1");
    assert_int_equal(sign_entries(f, f->directory, &entry, 1), KILN_INVALID);
}

TEST_F(manifest, invalid_manifest_entries_are_not_signed)
{
    struct manifest_entry entries[] = { entry_of("a"), entry_of("b"), entry_of("a") };
    static const char *const names[] = { "", "..", ".hidden", "a/b" };

    assert_int_equal(sign_entries(f, f->secret, entries, 3), KILN_INVALID);
    assert_says(f->err.text, "'a'");
    assert_int_equal(sign_entries(f, f->secret, entries, 0), KILN_INVALID);
    for (unsigned i = 0; i < 4; i++) {
        entries[0].name = names[i];
        assert_int_equal(sign_entries(f, f->secret, entries, 1), KILN_INVALID);
        assert_says(f->err.text, "name");
    }
}

TEST_F(manifest, too_many_manifest_entries_are_refused)
{
    enum { COUNT = 3000 };
    struct manifest_entry *entries = calloc(COUNT, sizeof(*entries));
    char(*names)[16] = calloc(COUNT, sizeof(*names));
    for (unsigned i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof(names[i]), "file-%u", i);
        entries[i] = entry_of(names[i]);
    }

    assert_int_equal(sign_entries(f, f->secret, entries, COUNT), KILN_FULL);

    assert_says(f->err.text, "make several");
    free(entries);
    free(names);
}
