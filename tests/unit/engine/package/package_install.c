/* SPDX-License-Identifier: MIT */
#include "package_fixture.h"

#include "common/base/json.h"
#include "engine/digest/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MI210 "gfx90a68"

static int renames_until_crash = -1; /* -1: none fails */

WRAP(int, rename, const char *from, const char *to)
{
    if (renames_until_crash == 0) {
        errno = EIO;
        return -1;
    }
    if (renames_until_crash > 0)
        renames_until_crash--;
    return __real_rename(from, to);
}

TEAR_DOWN(teardown) { renames_until_crash = -1; }

FIXTURE(package_install, set_up_packages, teardown);

static struct package_upload upload_of(struct fixture *f, const char *path, const char *name)
{
    BUFFER_AUTO struct buffer content = read_file(path);
    (void)f;
    return (struct package_upload){ .path = path,
                                    .name = name,
                                    .sha256 = sha256_of(buffer_view(&content)),
                                    .fetched = name,
                                    .source = "" };
}

static enum kiln_code adopt_upload(struct fixture *f, const struct package_upload *upload)
{
    struct package_info info;
    return adopt_into(f, upload, &info);
}

static enum kiln_code remove_package(struct fixture *f, const char *name,
                                     struct package_info *ret_info)
{
    f->err = KILN_ERR_INIT;
    return package_set_remove(f->set, name, ret_info, &f->err);
}

static bool is_there(const char *directory, const char *name)
{
    return access(path_in(directory, name), F_OK) == 0;
}

/* Does not count files in incoming. */
static unsigned files_in(struct fixture *f, const char *name)
{
    static const char *const suffixes[] = { "", ".json", ".json.next" };
    unsigned count = 0;
    for (unsigned i = 0; i < 3; i++) {
        char whole[100];
        snprintf(whole, sizeof(whole), "%s%s", name, suffixes[i]);
        count += is_there(f->own, whole);
    }
    return count;
}

/* ---- installing ---- */

TEST_F(package_install, an_installed_package_answers_at_once)
{
    must(install(f, "gfx90a68.kpkg", 0, 5, "alice"), f->err);

    assert_true(has(f, MI210, 3));
    assert_true(has_key(f, 3));
    assert_false(is_there(f->incoming, "gfx90a68.kpkg"));
    assert_int_equal(files_in(f, "gfx90a68.kpkg"), 2);
    rescan(f);
    assert_int_equal(f->came + f->went + f->refused, 0);
}

TEST_F(package_install, an_installation_reports_the_package)
{
    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 0, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");
    BUFFER_AUTO struct buffer manifest = sign_upload(f, &upload, "gfx90a68.kdb", "alice");
    upload.manifest = buffer_view(&manifest);
    upload.source = "https://example.org/gfx90a68.kdb.bz2";
    struct package_info info;

    must(adopt_into(f, &upload, &info), f->err);

    assert_string_equal(info.name, "gfx90a68.kdb");
    assert_string_equal(info.path, path_in(f->own, "gfx90a68.kdb"));
    assert_string_equal(info.signer, "alice");
    assert_string_equal(info.source, "https://example.org/gfx90a68.kdb.bz2");
    assert_int_equal(info.rows, 5);
    assert_true(info.installed > 0);
    assert_true(digest_equal(&info.sha256, &upload.sha256));
    struct stat seen;
    assert_int_equal(stat(info.path, &seen), 0);
    assert_int_equal(seen.st_mode & 07777, 0644);
    assert_int_equal(seen.st_size, info.size);
}

TEST_F(package_install, checks_of_installed_packages_survive_a_restart)
{
    must(install(f, "gfx90a68.kpkg", 0, 5, "alice"), f->err);
    must(install(f, "gfx90a.kpkg", 5, 5, ""), f->err);

    must(open_set(f), f->err);
    assert_false(has_key(f, 3));
    rescan(f);

    assert_int_equal(f->came, 2);
    assert_int_equal(f->refused, 0);
    assert_true(has_key(f, 3));
    assert_false(has_key(f, 7));
    assert_true(has(f, MI210, 7));
}

TEST_F(package_install, a_package_of_the_same_name_is_replaced)
{
    must(install(f, "gfx90a68.kpkg", 0, 5, "alice"), f->err);
    const char *path = put_package(f, f->incoming, "gfx90a68.kpkg", 5, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kpkg");
    upload.replace_signed = true;
    must(adopt_upload(f, &upload), f->err);

    assert_false(has(f, MI210, 3));
    assert_true(has(f, MI210, 7));
    assert_false(has_key(f, 7));
    assert_int_equal(files_in(f, "gfx90a68.kpkg"), 2);
    must(open_set(f), f->err);
    rescan(f);
    assert_int_equal(f->came, 1);
    assert_true(has(f, MI210, 7));
    assert_false(has_key(f, 7));
}

TEST_F(package_install, an_upload_may_have_another_file_name)
{
    const char *path = path_in(f->incoming, "17.part");
    write_package(f, path, PACKAGE_KDB, 0, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");

    must(adopt_upload(f, &upload), f->err);

    assert_true(has(f, MI210, 3));
    assert_false(is_there(f->incoming, "17.part"));
}

/* Checks that a refused install changed nothing. The upload must still be there, and the old
 * package must still answer. */
static void assert_untouched(struct fixture *f, const char *arrived)
{
    assert_true(is_there(f->incoming, arrived));
    assert_true(has(f, MI210, 3));
    assert_int_equal(files_in(f, "gfx90a68.kdb"), 2);
    rescan(f);
    assert_int_equal(f->came + f->went + f->refused, 0);
}

TEST_F(package_install, a_file_changed_between_check_and_install_is_refused)
{
    must(install(f, "gfx90a68.kdb", 0, 5, ""), f->err);
    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 5, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");
    struct package_checked checked;
    struct package_info info;
    must(package_set_check(f->set, &upload, &checked, &f->err), f->err);
    assert_int_equal(checked.rows, 5);
    BUFFER_AUTO struct buffer content = read_file(path);
    assert_int_equal(unlink(path), 0);
    test_write(path, buffer_view(&content));

    assert_int_equal(package_set_adopt(f->set, &upload, &checked, &info, &f->err), KILN_CORRUPT);

    assert_non_null(strstr(f->err.text, "changed"));
    assert_true(has(f, MI210, 3));
    assert_true(is_there(f->incoming, "gfx90a68.kdb"));
}

TEST_F(package_install, an_upload_that_changed_after_its_check_is_refused)
{
    must(install(f, "gfx90a68.kdb", 0, 5, ""), f->err);
    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 5, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");
    upload.sha256.bytes[31] ^= 1;

    assert_int_equal(adopt_upload(f, &upload), KILN_CORRUPT);

    assert_says(f->err.text, "installing 'gfx90a68.kdb'");
    assert_says(f->err.text, "changed");
    assert_untouched(f, "gfx90a68.kdb");
}

TEST_F(package_install, an_upload_that_is_open_for_writing_is_refused)
{
    must(install(f, "gfx90a68.kdb", 0, 5, ""), f->err);
    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 5, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");
    int fd = open(path, O_RDWR | O_CLOEXEC);

    enum kiln_code rc = adopt_upload(f, &upload);

    close(fd);
    assert_int_equal(rc, KILN_BUSY);
    assert_says(f->err.text, "writing");
    assert_untouched(f, "gfx90a68.kdb");
    must(adopt_upload(f, &upload), f->err);
}

TEST_F(package_install, an_upload_that_is_not_a_regular_file_is_refused)
{
    must(install(f, "gfx90a68.kdb", 0, 5, ""), f->err);
    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 5, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");
    const char *other = path_in(f->directory, "other-name");

    assert_int_equal(link(path, other), 0);
    assert_int_equal(adopt_upload(f, &upload), KILN_INVALID);
    assert_says(f->err.text, "link");
    assert_untouched(f, "gfx90a68.kdb");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_int_not_equal(adopt_upload(f, &upload), KILN_OK);
    assert_untouched(f, "gfx90a68.kdb");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(adopt_upload(f, &upload), KILN_INVALID);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(adopt_upload(f, &upload), KILN_NOT_FOUND);
}

TEST_F(package_install, an_upload_that_is_not_a_package_is_refused)
{
    must(install(f, "gfx90a68.kdb", 0, 5, ""), f->err);
    const char *path = path_in(f->incoming, "gfx90a68.kdb");
    uint8_t zeros[4096] = { 0 };
    test_write(path, bytes_of(zeros, sizeof(zeros)));
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");

    assert_int_equal(adopt_upload(f, &upload), KILN_CORRUPT);

    assert_untouched(f, "gfx90a68.kdb");
}

TEST_F(package_install, package_names_with_a_path_are_refused)
{
    static const char *const names[] = { "",          "../gfx90a68.kdb", ".gfx90a68.kdb",
                                         "a/gfx.kdb", "gfx90a68.txt",    "unknown.kdb",
                                         "gfx90a68",  "gfx90a68.kdb.bz2" };
    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 0, 5);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct package_upload upload = upload_of(f, path, names[i]);
        assert_int_equal(adopt_upload(f, &upload), KILN_INVALID);
        assert_true(strlen(f->err.text) > 20);
    }
    assert_true(is_there(f->incoming, "gfx90a68.kdb"));
}

TEST_F(package_install, a_failed_rename_leaves_no_trace)
{
    must(install(f, "gfx90a68.kdb", 0, 5, ""), f->err);
    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 5, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");
    renames_until_crash = 0;

    assert_int_equal(adopt_upload(f, &upload), KILN_IO);

    renames_until_crash = -1;
    assert_says(f->err.text, "cannot move");
    assert_untouched(f, "gfx90a68.kdb");
}

/* An install first renames the file into place, then the file's record. Here, the power fails
 * between the two renames. */
TEST_F(package_install, a_crash_between_file_and_record_is_repaired)
{
    must(install(f, "gfx90a68.kpkg", 0, 5, ""), f->err);
    const char *path = put_package(f, f->incoming, "gfx90a68.kpkg", 5, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kpkg");
    BUFFER_AUTO struct buffer manifest = sign_upload(f, &upload, "gfx90a68.kpkg", "alice");
    upload.manifest = buffer_view(&manifest);
    renames_until_crash = 1;
    assert_int_equal(adopt_upload(f, &upload), KILN_IO);
    renames_until_crash = -1;
    assert_int_equal(files_in(f, "gfx90a68.kpkg"), 3);

    must(open_set(f), f->err);
    rescan(f);

    assert_int_equal(f->came, 1);
    assert_int_equal(f->refused, 0);
    assert_true(has_key(f, 7));
    assert_int_equal(files_in(f, "gfx90a68.kpkg"), 2);
}

/* ---- kilnd checks again what kiln-transfer states ---- */

static enum kiln_code adopt_signed_as(struct fixture *f, struct package_upload *upload,
                                      const char *signed_name)
{
    BUFFER_AUTO struct buffer manifest = sign_upload(f, upload, signed_name, "alice");
    upload->manifest = buffer_view(&manifest);
    upload->fetched = signed_name;
    return adopt_upload(f, upload);
}

TEST_F(package_install, an_upload_that_differs_from_its_manifest_is_refused)
{
    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 0, 5);
    struct package_upload other = upload_of(f, path, "gfx90a68.kdb"), upload = other;
    other.sha256 = (struct digest){ { 1 } };
    BUFFER_AUTO struct buffer manifest = sign_upload(f, &other, "gfx90a68.kdb", "alice");
    upload.manifest = buffer_view(&manifest);

    assert_int_equal(adopt_upload(f, &upload), KILN_CORRUPT);
    assert_says(f->err.text, "manifest");
    assert_false(is_there(f->own, "gfx90a68.kdb"));
}

TEST_F(package_install, an_upload_with_an_invalid_manifest_is_refused)
{
    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 0, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");
    BUFFER_AUTO struct buffer manifest = sign_upload(f, &upload, "gfx90a68.kdb", "alice");
    upload.manifest = buffer_view(&manifest);
    char *digits = memmem(manifest.data, manifest.size, "sha256", 6);
    digits[12] = digits[12] == '0' ? '1' : '0';
    assert_int_equal(adopt_upload(f, &upload), KILN_DENIED);
    assert_says(f->err.text, "signature");

    upload.manifest = bytes_of_text("{}");
    assert_int_equal(adopt_upload(f, &upload), KILN_CORRUPT);
    assert_false(is_there(f->own, "gfx90a68.kdb"));
}

TEST_F(package_install, an_upload_with_a_manifest_for_another_device_is_refused)
{
    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 0, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");
    assert_int_equal(adopt_signed_as(f, &upload, "gfx906_60.kdb"), KILN_DENIED);
    assert_says(f->err.text, "'gfx906_60.kdb'");
}

/* Signs the manifest of a compressed package. If |content| is not NULL, the manifest states it as
 * the digest of the unpacked package. */
static struct buffer sign_packed(struct fixture *f, const struct digest *content)
{
    char key[200];
    struct manifest_entry entry = { .name = "gfx90a68.kdb.bz2", .size = 1, .sha256 = { { 1 } } };
    const struct manifest_content signed_content = { .entries = &entry, .count = 1 };
    struct buffer manifest;
    entry.is_packed = content != NULL;
    if (content)
        entry.unpacked_sha256 = *content;
    snprintf(key, sizeof(key), "%s/alice.key", f->keys);
    buffer_init(&manifest, MANIFEST_MAX);
    must(manifest_sign(key, &signed_content, &manifest, &f->err), f->err);
    return manifest;
}

TEST_F(package_install, a_packed_file_is_signed_only_if_its_manifest_states_the_content)
{
    struct package_info info;
    struct package_checked checked;
    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 0, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");
    upload.fetched = "gfx90a68.kdb.bz2";
    BUFFER_AUTO struct buffer whole = sign_packed(f, &upload.sha256);
    upload.manifest = buffer_view(&whole);
    must(adopt_into(f, &upload, &info), f->err);
    assert_string_equal(info.signer, "alice");

    put_package(f, f->incoming, "gfx90a68.kdb", 0, 5);
    BUFFER_AUTO struct buffer bare = sign_packed(f, NULL);
    upload.manifest = buffer_view(&bare);
    must(package_set_check(f->set, &upload, &checked, &f->err), f->err);
    assert_string_equal(checked.signer, "");
    assert_true(checked.only_packed_signed);
    /* The upload would replace a signed package. */
    assert_int_equal(adopt_upload(f, &upload), KILN_DENIED);
    assert_says(f->err.text, "pkg sign");

    const struct digest other = { { 2 } };
    BUFFER_AUTO struct buffer forged = sign_packed(f, &other);
    upload.manifest = buffer_view(&forged);
    assert_int_equal(adopt_upload(f, &upload), KILN_CORRUPT);
}

TEST_F(package_install, a_signature_of_only_the_packed_file_is_not_enough_if_one_is_required)
{
    f->require_signature = true;
    must(open_set(f), f->err);
    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 0, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");
    upload.fetched = "gfx90a68.kdb.bz2";
    upload.may_be_packed = true;
    BUFFER_AUTO struct buffer bare = sign_packed(f, NULL);
    upload.manifest = buffer_view(&bare);

    assert_int_equal(adopt_upload(f, &upload), KILN_DENIED);

    assert_says(f->err.text, "kilnctl pkg sign");
    assert_false(is_there(f->own, "gfx90a68.kdb"));
}

/* Installs a package as |name|. The package was signed as gfx90a68.kpkg or gfx90a68.kdb, depending
 * on the suffix of |name|. */
static enum kiln_code install_edition_as(struct fixture *f, const char *name,
                                         struct manifest_edition edition, bool allow_downgrade)
{
    char key[200];
    const char *path = put_package(f, f->incoming, name, 0, 5);
    struct package_upload upload = upload_of(f, path, name);
    upload.fetched = strstr(name, ".kpkg") ? "gfx90a68.kpkg" : "gfx90a68.kdb";
    const struct manifest_entry entry = { .name = upload.fetched, .sha256 = upload.sha256 };
    const struct manifest_content content = { &entry, 1, edition };
    BUFFER_AUTO struct buffer manifest;
    buffer_init(&manifest, MANIFEST_MAX);
    snprintf(key, sizeof(key), "%s/alice.key", f->keys);
    must(manifest_sign(key, &content, &manifest, &f->err), f->err);
    upload.manifest = buffer_view(&manifest);
    upload.allow_downgrade = allow_downgrade;
    return adopt_upload(f, &upload);
}

static enum kiln_code install_edition(struct fixture *f, struct manifest_edition edition,
                                      bool allow_downgrade)
{
    return install_edition_as(f, "gfx90a68.kdb", edition, allow_downgrade);
}

TEST_F(package_install, an_older_signed_package_replaces_a_newer_one_only_on_request)
{
    must(install_edition(f, (struct manifest_edition){ 0 }, false), f->err);
    must(install_edition(f, (struct manifest_edition){ 0, 2000 }, false), f->err);
    must(install_edition(f, (struct manifest_edition){ 0, 2000 }, false), f->err);
    must(install_edition(f, (struct manifest_edition){ 3, 1000 }, false), f->err);

    must(open_set(f), f->err);
    rescan(f);
    assert_int_equal(install_edition(f, (struct manifest_edition){ 2, 3000 }, false), KILN_DENIED);
    assert_says(f->err.text, "--allow-downgrade");
    assert_int_equal(install_edition(f, (struct manifest_edition){ 0 }, false), KILN_DENIED);

    must(install_edition(f, (struct manifest_edition){ 2, 3000 }, true), f->err);
    must(install_edition(f, (struct manifest_edition){ 3, 1000 }, false), f->err);
}

TEST_F(package_install, an_older_signed_package_is_not_installed_under_another_name)
{
    static const char *const names[] = { "gfx90a68.a.kdb", "gfx90a68.z.kdb", "gfx90a68.ukdb" };
    const struct manifest_edition old = { 1, 1000 }, new = { 2, 2000 };
    must(install_edition(f, new, false), f->err);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(install_edition_as(f, names[i], old, false), KILN_DENIED);
        assert_says(f->err.text, "'gfx90a68.kdb' is newer");
        assert_false(is_there(f->own, names[i]));
    }

    /* A .kpkg answers other requests. */
    must(install_edition_as(f, "gfx90a68.kpkg", old, false), f->err);
    must(install_edition_as(f, names[0], new, false), f->err);
    must(install_edition_as(f, names[1], old, true), f->err);
}

TEST_F(package_install, the_newest_signed_package_answers_whatever_the_names)
{
    const struct manifest_edition old = { 1, 1000 }, new = { 2, 2000 };
    must(install(f, "gfx90a68.0.kdb", 0, 5, ""), f->err);
    must(install_edition_as(f, "gfx90a68.z.kdb", new, false), f->err);
    must(install_edition_as(f, "gfx90a68.a.kdb", old, true), f->err);
    must(install_edition_as(f, "gfx90a68.b.kpkg", (struct manifest_edition){ 3, 500 }, false),
         f->err);

    assert_true(has(f, MI210, 1));
    assert_string_equal(f->found.package, "gfx90a68.b.kpkg");
    assert_true(has_key(f, 1));
    must(open_set(f), f->err);
    rescan(f);
    assert_true(has(f, MI210, 1));
    assert_string_equal(f->found.package, "gfx90a68.b.kpkg");

    struct package_info info;
    must(remove_package(f, "gfx90a68.b.kpkg", &info), f->err);
    assert_true(has(f, MI210, 1));
    assert_string_equal(f->found.package, "gfx90a68.z.kdb");
    must(remove_package(f, "gfx90a68.z.kdb", &info), f->err);
    assert_true(has(f, MI210, 1));
    assert_string_equal(f->found.package, "gfx90a68.a.kdb");
    must(remove_package(f, "gfx90a68.a.kdb", &info), f->err);
    assert_true(has(f, MI210, 1));
    assert_string_equal(f->found.package, "gfx90a68.0.kdb");
}

/* As in MIOpen, a package for exactly this device comes before one for its architecture. */
TEST_F(package_install, an_unsigned_package_for_the_device_comes_before_a_signed_one_for_the_arch)
{
    must(install(f, "gfx90a.kpkg", 0, 5, "alice"), f->err);
    must(install(f, "gfx90a68.kpkg", 0, 5, ""), f->err);
    assert_true(has(f, MI210, 1));
    assert_string_equal(f->found.package, "gfx90a68.kpkg");
}

TEST_F(package_install, an_upload_without_the_requested_sha256_is_refused)
{
    char digits[DIGEST_HEX_SIZE];
    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 0, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");
    const struct digest another = { { 1 } };
    digest_to_hex(&another, digits);
    upload.wanted = digits;
    assert_int_equal(adopt_upload(f, &upload), KILN_CORRUPT);
    assert_says(f->err.text, "given");

    digest_to_hex(&upload.sha256, digits);
    must(adopt_upload(f, &upload), f->err);
}

/* ---- installed files that change ---- */

TEST_F(package_install, an_installed_file_that_changed_is_refused)
{
    must(install(f, "gfx90a68.kpkg", 0, 5, "alice"), f->err);
    BUFFER_AUTO struct buffer content = read_file(path_in(f->own, "gfx90a68.kpkg"));
    content.data[content.size - 1] ^= 1;
    test_write(path_in(f->own, "gfx90a68.kpkg"), buffer_view(&content));

    rescan(f);

    assert_int_equal(f->went, 1);
    assert_int_equal(f->refused, 1);
    assert_says(f->refusal, "'gfx90a68.kpkg.json'");
    assert_says(f->refusal, "kilnctl");
    assert_false(has(f, MI210, 3));
    must(install(f, "gfx90a68.kpkg", 0, 5, "alice"), f->err);
    assert_true(has_key(f, 3));
}

TEST_F(package_install, a_restored_backup_is_recognised_by_its_hash)
{
    must(install(f, "gfx90a68.kpkg", 0, 5, "alice"), f->err);
    BUFFER_AUTO struct buffer content = read_file(path_in(f->own, "gfx90a68.kpkg"));
    assert_int_equal(unlink(path_in(f->own, "gfx90a68.kpkg")), 0);
    test_write(path_in(f->own, "gfx90a68.kpkg"), buffer_view(&content));
    BUFFER_AUTO struct buffer before = read_file(path_in(f->own, "gfx90a68.kpkg.json"));

    must(open_set(f), f->err);
    rescan(f);

    assert_true(has_key(f, 3));
    BUFFER_AUTO struct buffer after = read_file(path_in(f->own, "gfx90a68.kpkg.json"));
    assert_false(bytes_equal(buffer_view(&before), buffer_view(&after)));
}

TEST_F(package_install, an_invalid_package_record_is_ignored)
{
    static const char *const records[] = { "", "{}", "null", "\xff",
                                           "{\"format\":\"kiln-package-record-1\"}" };
    must(install(f, "gfx90a68.kpkg", 0, 5, "alice"), f->err);
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        test_write_text(path_in(f->own, "gfx90a68.kpkg.json"), records[i]);
        must(open_set(f), f->err);
        rescan(f);
        assert_int_equal(f->refused, 1);
        assert_false(has(f, MI210, 3));
    }
}

/* ---- signatures ---- */

TEST_F(package_install, a_package_without_a_record_does_not_answer_by_key)
{
    put_package(f, f->own, "gfx90a68.kpkg", 0, 5);
    put_package(f, f->other, "gfx90a.kpkg", 5, 5);
    test_write_text(path_in(f->other, "gfx90a.kpkg.json"), "{\"signer\": \"alice\"}");
    rescan(f);

    assert_true(has(f, MI210, 3));
    assert_true(has(f, MI210, 7));
    assert_false(has_key(f, 3));
    assert_false(has_key(f, 7));
}

TEST_F(package_install, a_signature_counts_while_its_key_is_trusted)
{
    must(install(f, "gfx90a68.kpkg", 0, 5, "alice"), f->err);
    rescan(f);
    assert_true(has_key(f, 3));
    assert_int_equal(rename(path_in(f->keys, "alice.pub"), path_in(f->directory, "alice.pub")), 0);

    rescan(f);
    assert_false(has_key(f, 3));
    assert_true(has(f, MI210, 3));
    assert_int_equal(rename(path_in(f->directory, "alice.pub"), path_in(f->keys, "alice.pub")), 0);
    rescan(f);
    assert_true(has_key(f, 3));
}

TEST_F(package_install, unsigned_packages_are_refused_if_signatures_are_required)
{
    must(install(f, "gfx90a68.kpkg", 0, 5, "alice"), f->err);
    must(install(f, "gfx90a.kdb", 5, 5, ""), f->err);
    must(install(f, "gfx906_60.kdb", 5, 5, "mallory"), f->err);
    put_package(f, f->other, "gfx908.kdb", 0, 5);
    f->require_signature = true;
    must(open_set(f), f->err);

    rescan(f);

    assert_int_equal(f->came, 1);
    assert_string_equal(f->last, "gfx90a68.kpkg");
    assert_int_equal(f->refused, 3);
    assert_true(has_key(f, 3));
    assert_false(has(f, MI210, 7));
    assert_false(has(f, "gfx908", 1));
}

TEST_F(package_install, the_refusal_of_an_unsigned_package_names_the_setting)
{
    f->require_signature = true;
    must(open_set(f), f->err);
    put_package(f, f->other, "gfx908.kdb", 0, 5);
    rescan(f);
    assert_says(f->refusal, "require-signature");
    assert_says(f->refusal, "kilnctl");
    assert_int_equal(unlink(path_in(f->other, "gfx908.kdb")), 0);

    assert_int_equal(install(f, "gfx90a68.kdb", 0, 5, ""), KILN_DENIED);
    assert_says(f->err.text, "require-signature");
    assert_int_equal(install(f, "gfx90a68.kdb", 0, 5, "mallory"), KILN_DENIED);
    assert_int_equal(files_in(f, "gfx90a68.kdb"), 0);
    must(install(f, "gfx90a68.kdb", 0, 5, "alice"), f->err);

    assert_int_equal(unlink(path_in(f->keys, "alice.pub")), 0);
    rescan(f);
    assert_int_equal(f->went, 1);
    assert_int_equal(f->refused, 1);
    assert_says(f->refusal, "'alice'");
    rescan(f);
    assert_int_equal(f->refused, 0);
}

TEST_F(package_install, a_signed_package_is_replaced_by_an_unsigned_one_only_on_request)
{
    must(install(f, "gfx90a68.kdb", 0, 5, "alice"), f->err);

    assert_int_equal(install(f, "gfx90a68.kdb", 5, 5, ""), KILN_DENIED);
    assert_says(f->err.text, "'alice'");
    assert_says(f->err.text, "--replace-signed");
    assert_int_equal(install(f, "gfx90a68.kdb", 5, 5, "mallory"), KILN_DENIED);
    assert_true(has(f, MI210, 3));

    const char *path = put_package(f, f->incoming, "gfx90a68.kdb", 5, 5);
    struct package_upload upload = upload_of(f, path, "gfx90a68.kdb");
    upload.replace_signed = true;
    must(adopt_upload(f, &upload), f->err);
    assert_true(has(f, MI210, 7));
    must(install(f, "gfx90a68.kdb", 0, 5, ""), f->err);
    must(install(f, "gfx90a68.kdb", 0, 5, "alice"), f->err);
}

TEST_F(package_install, a_signature_of_a_removed_key_protects_nothing)
{
    must(install(f, "gfx90a68.kdb", 0, 5, "alice"), f->err);
    assert_int_equal(unlink(path_in(f->keys, "alice.pub")), 0);
    rescan(f);

    must(install(f, "gfx90a68.kdb", 5, 5, ""), f->err);
}

/* ---- removing ---- */

TEST_F(package_install, a_removed_package_leaves_nothing)
{
    must(install(f, "gfx90a68.kdb", 0, 5, "alice"), f->err);
    struct package_info info;

    must(remove_package(f, "gfx90a68.kdb", &info), f->err);

    assert_string_equal(info.name, "gfx90a68.kdb");
    assert_int_equal(info.rows, 5);
    assert_int_equal(files_in(f, "gfx90a68.kdb"), 0);
    assert_false(has(f, MI210, 3));
    rescan(f);
    assert_int_equal(f->came + f->went + f->refused, 0);
    assert_int_equal(remove_package(f, "gfx90a68.kdb", &info), KILN_NOT_FOUND);
    assert_says(f->err.text, "'gfx90a68.kdb'");
}

TEST_F(package_install, a_package_of_a_distribution_cannot_be_removed)
{
    put_package(f, f->other, "gfx90a68.kdb", 0, 5);
    rescan(f);
    struct package_info info;

    assert_int_equal(remove_package(f, "gfx90a68.kdb", &info), KILN_DENIED);

    assert_says(f->err.text, "dpkg");
    assert_says(f->err.text, "dpkg -S");
    assert_true(has(f, MI210, 3));
}

TEST_F(package_install, a_refused_file_of_the_package_directory_can_be_removed)
{
    uint8_t zeros[4096] = { 0 };
    test_write(path_in(f->own, "gfx90a68.kdb"), bytes_of(zeros, sizeof(zeros)));
    rescan(f);
    assert_int_equal(f->refused, 1);
    struct package_info info;

    must(remove_package(f, "gfx90a68.kdb", &info), f->err);

    assert_string_equal(info.path, path_in(f->own, "gfx90a68.kdb"));
    assert_int_equal(files_in(f, "gfx90a68.kdb"), 0);
}

TEST_F(package_install, only_packages_can_be_removed)
{
    static const char *const names[] = { "", ".", "..", "../other/x.kdb", "incoming", "note.txt" };
    struct package_info info;
    test_write_text(path_in(f->own, "note.txt"), "x");
    test_write_text(path_in(f->other, "x.kdb"), "x");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(remove_package(f, names[i], &info), KILN_NOT_FOUND);
    assert_true(is_there(f->own, "note.txt"));
    assert_true(is_there(f->other, "x.kdb"));
    assert_true(is_there(f->own, "incoming"));
}

struct removal {
    struct fixture *f;
    unsigned found;
};

static enum kiln_code remove_while_in_use(void *context, struct package *package,
                                          struct kiln_err *err)
{
    struct removal *removal = context;
    struct package_info info;
    must(package_set_remove(removal->f->set, "gfx90a68.kpkg", &info, err), *err);
    for (unsigned i = 0; i < 5; i++) {
        struct kernel_text text = text_of(i);
        bool damaged = false;
        removal->f->raw.size = 0;
        if (!package_find_named(
                package, &(struct kern_name){ bytes_of_text(text.name), bytes_of_text(text.args) },
                &removal->f->raw, &damaged, err))
            removal->found++;
    }
    return KILN_OK;
}

TEST_F(package_install, a_package_in_use_outlives_its_removal)
{
    must(install(f, "gfx90a68.kpkg", 0, 5, ""), f->err);
    struct removal removal = { .f = f };

    must(package_set_use(f->set, "gfx90a68.kpkg", remove_while_in_use, &removal, &f->err), f->err);

    assert_int_equal(removal.found, 5);
    assert_false(has(f, MI210, 3));
}
