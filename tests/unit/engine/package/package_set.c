/* SPDX-License-Identifier: MIT */
#include "package_fixture.h"

#include "engine/digest/sha256.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MI210 "gfx90a68"

/* ---- lookups ---- */

TEST_F(package, packages_for_the_compute_units_come_before_those_for_the_arch)
{
    put_package(f, f->other, "gfx90a.kdb", 0, 20);
    put_package(f, f->other, "gfx90a68.kdb", 10, 20);
    put_package(f, f->other, "gfx90a6e.kdb", 30, 10);
    put_package(f, f->other, "gfx908.kdb", 40, 10);
    rescan(f);
    assert_int_equal(f->came, 4);

    assert_true(has(f, MI210, 15));
    assert_string_equal(f->found.package, "gfx90a68.kdb");
    assert_true(has(f, MI210, 5));
    assert_string_equal(f->found.package, "gfx90a.kdb");
    /* as in MIOpen, packages for another number of compute units do not match */
    assert_false(has(f, MI210, 35));
    assert_false(has(f, MI210, 45));
    assert_true(has(f, "gfx90a6e", 35));
    assert_true(has(f, "gfx90a", 5));
    /* An id without compute units matches no package with compute units. */
    assert_false(has(f, "gfx90a", 25));
}

TEST_F(package, an_invalid_database_id_has_no_packages)
{
    put_package(f, f->other, "gfx90a68.kdb", 0, 5);
    rescan(f);
    static const char *const ids[] = {
        "", "gfx", "gfx90a068", "gfx90a68x", "../gfx90a68", "sm_90"
    };
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        assert_false(has(f, ids[i], 1));
        assert_false(package_set_covers(f->set, bytes_of_text(ids[i])));
    }
}

TEST_F(package, the_writable_directory_is_searched_first_then_the_others_by_name)
{
    put_package(f, f->other, "gfx90a68.a.kdb", 0, 5);
    put_package(f, f->own, "gfx90a68.z.kdb", 0, 1);
    put_package(f, f->own, "gfx90a68.b.kpkg", 1, 2);
    put_package(f, f->own, "gfx90a68.c.ukdb", 1, 3);
    rescan(f);

    assert_true(has(f, MI210, 0));
    assert_string_equal(f->found.package, "gfx90a68.z.kdb");
    assert_true(has(f, MI210, 1));
    assert_string_equal(f->found.package, "gfx90a68.b.kpkg");
    assert_true(has(f, MI210, 3));
    assert_string_equal(f->found.package, "gfx90a68.c.ukdb");
    assert_true(has(f, MI210, 4));
    assert_string_equal(f->found.package, "gfx90a68.a.kdb");
}

/* Flips a bit of kernel |number|'s object in the package at |path|. */
static void damage(const char *path, unsigned number)
{
    BUFFER_AUTO struct buffer content = read_file(path);
    BUFFER_AUTO struct buffer raw = object_of(number);
    /* Incompressible content is stored uncompressed. At least its first 32 bytes are contiguous. */
    uint8_t *at = memmem(content.data, content.size, raw.data, 32);
    assert_non_null(at);
    at[7] ^= 1;
    test_write(path, buffer_view(&content));
}

TEST_F(package, after_a_damaged_row_the_next_package_is_searched)
{
    const char *path = put_package(f, f->other, "gfx90a68.a.kpkg", 1, 1);
    damage(path, 1);
    rescan(f);

    assert_false(has(f, MI210, 1));
    assert_string_equal(f->found.damaged, "gfx90a68.a.kpkg");
    assert_says(f->found.damage, "'gfx90a68.a.kpkg'");
    assert_string_equal(f->found.package, "");
    assert_true(strlen(f->found.damaged_row) > 0);
    put_package(f, f->other, "gfx90a.kdb", 1, 1);
    rescan(f);
    assert_true(has(f, MI210, 1));
    assert_string_equal(f->found.damaged, "");
    assert_string_equal(f->found.package, "gfx90a.kdb");
    assert_true(has(f, "gfx90a", 1));
    assert_string_equal(f->found.damaged, "");
}

TEST_F(package, a_damaged_row_is_read_again_after_its_package_was_replaced)
{
    const char *path = put_package(f, f->other, "gfx90a68.kpkg", 1, 2);
    damage(path, 1);
    rescan(f);
    assert_false(has(f, MI210, 1));
    assert_true(has(f, MI210, 2));

    put_package(f, f->other, "gfx90a68.kpkg", 1, 2);
    rescan(f);

    assert_true(has(f, MI210, 1));
}

TEST_F(package, a_skipped_kernel_is_a_miss_in_that_package_alone)
{
    put_package(f, f->other, "gfx90a68.kdb", 1, 2);
    put_package(f, f->other, "gfx90a.kdb", 1, 2);
    rescan(f);
    struct kernel_text text = text_of(1);

    package_set_shun(f->set, "gfx90a68.kdb",
                     &(struct kern_name){ bytes_of_text(text.name), bytes_of_text(text.args) });

    assert_true(has(f, MI210, 1));
    assert_string_equal(f->found.package, "gfx90a.kdb");
    assert_string_equal(f->found.damaged, "");
    assert_true(has(f, MI210, 2));
    assert_string_equal(f->found.package, "gfx90a68.kdb");
}

TEST_F(package, no_memory_for_an_object_is_an_error_not_a_miss)
{
    put_package(f, f->other, "gfx90a68.kpkg", 0, 5);
    rescan(f);
    buffer_done(&f->raw);
    buffer_init(&f->raw, 8);

    assert_int_equal(look_up(f, MI210, 1), KILN_NO_MEMORY);

    assert_true(strlen(f->err.text) > 0);
    assert_string_equal(f->found.damaged, "");
}

/* ---- rescans ---- */

TEST_F(package, added_and_removed_packages_are_noticed)
{
    rescan(f);
    assert_int_equal(f->came + f->went + f->refused, 0);

    const char *path = put_package(f, f->other, "gfx90a68.kdb", 0, 5);
    rescan(f);
    assert_int_equal(f->came, 1);
    assert_string_equal(f->last, "gfx90a68.kdb");
    assert_true(has(f, MI210, 1));
    assert_true(package_set_covers(f->set, bytes_of_text(MI210)));
    assert_false(package_set_covers(f->set, bytes_of_text("gfx90a6e")));

    unlink(path);
    rescan(f);
    assert_int_equal(f->went, 1);
    assert_string_equal(f->last, "gfx90a68.kdb");
    assert_false(has(f, MI210, 1));
    assert_false(package_set_covers(f->set, bytes_of_text(MI210)));
}

TEST_F(package, a_replaced_package_is_reported_as_removed_and_added)
{
    put_package(f, f->other, "gfx90a68.kdb", 0, 5);
    rescan(f);
    put_package(f, f->directory, "gfx90a68.kdb", 5, 5);
    assert_int_equal(
        rename(path_in(f->directory, "gfx90a68.kdb"), path_in(f->other, "gfx90a68.kdb")), 0);

    rescan(f);

    assert_int_equal(f->came, 1);
    assert_int_equal(f->went, 1);
    assert_false(has(f, MI210, 1));
    assert_true(has(f, MI210, 6));
}

static unsigned opens;

WRAP(int, open, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    opens++;
    return __real_open(path, flags, mode);
}

TEST_F(package, a_rescan_without_changes_opens_no_file)
{
    put_package(f, f->other, "gfx90a68.kdb", 0, 5);
    put_package(f, f->own, "gfx90a.kpkg", 0, 5);
    test_write_text(path_in(f->other, "gfx906.kdb"), "no package");
    must(install(f, "gfx908_60.kdb", 0, 3, "alice"), f->err);
    opens = 0;
    rescan(f);
    assert_true(opens > 0);
    rescan(f);
    opens = 0;

    rescan(f);

    assert_int_equal(opens, 0);
    assert_int_equal(f->came + f->went + f->refused, 0);
}

TEST_F(package, a_package_directory_may_appear_later)
{
    fs_remove_tree(AT_FDCWD, f->other);
    rescan(f);
    assert_int_equal(f->refused, 0);
    mkdir(f->other, 0755);
    put_package(f, f->other, "gfx90a68.kdb", 0, 5);

    rescan(f);

    assert_true(has(f, MI210, 1));
}

TEST_F(package, a_refused_file_is_reported_once_until_it_changes)
{
    uint8_t zeros[8192] = { 0 };
    const char *path = path_in(f->other, "gfx90a68.kdb");
    test_write(path, bytes_of(zeros, 4096));

    rescan(f);
    assert_int_equal(f->refused, 1);
    assert_says(f->refusal, "SQLite");
    rescan(f);
    assert_int_equal(f->refused, 0);
    test_write(path, bytes_of(zeros, 8192));
    rescan(f);
    assert_int_equal(f->refused, 1);
    unlink(path);
    rescan(f);
    assert_int_equal(f->refused, 0);
    put_package(f, f->other, "gfx90a68.kdb", 0, 5);
    rescan(f);
    assert_int_equal(f->refused, 0);
    assert_int_equal(f->came, 1);
}

struct refused_files {
    unsigned count;
    char directory[200], name[PACKAGE_NAME_MAX], why[600];
};

static void note_refused(void *context, const char *directory, const char *name, const char *why)
{
    struct refused_files *files = context;
    files->count++;
    snprintf(files->directory, sizeof(files->directory), "%s", directory);
    snprintf(files->name, sizeof(files->name), "%s", name);
    snprintf(files->why, sizeof(files->why), "%s", why);
}

static struct refused_files list_refused(struct fixture *f)
{
    struct refused_files files = { .count = 0 };
    package_set_list_refused(f->set, note_refused, &files);
    return files;
}

TEST_F(package, unused_files_are_listed_with_the_reason)
{
    put_package(f, f->other, "gfx90a68.kdb", 0, 5);
    test_write_text(path_in(f->other, "gfx906_60.kdb.bz2"), "BZh9");
    rescan(f);

    struct refused_files files = list_refused(f);
    assert_int_equal(files.count, 1);
    assert_string_equal(files.directory, f->other);
    assert_string_equal(files.name, "gfx906_60.kdb.bz2");
    assert_says(files.why, "kilnctl");

    f->require_signature = true;
    must(open_set(f), f->err);
    rescan(f);
    assert_int_equal(list_refused(f).count, 2);
    assert_int_equal(unlink(path_in(f->other, "gfx906_60.kdb.bz2")), 0);
    rescan(f);
    files = list_refused(f);
    assert_int_equal(files.count, 1);
    assert_string_equal(files.name, "gfx90a68.kdb");
    assert_says(files.why, "require-signature");
}

TEST_F(package, a_file_that_is_being_copied_is_not_reported)
{
    BUFFER_AUTO struct buffer content =
        read_file(put_package(f, f->directory, "gfx90a68.kdb", 0, 50));
    const char *path = path_in(f->other, "gfx90a68.kdb");
    for (size_t size = 0; size < content.size; size += content.size / 10) {
        test_write(path, bytes_of(content.data, size));
        rescan(f);
        assert_int_equal(f->refused + f->came, 0);
    }
    test_write(path, buffer_view(&content));

    rescan(f);

    assert_int_equal(f->came, 1);
    assert_int_equal(f->refused, 0);
    assert_true(has(f, MI210, 1));
}

TEST_F(package, an_incomplete_copy_is_reported_once)
{
    BUFFER_AUTO struct buffer content =
        read_file(put_package(f, f->directory, "gfx90a68.kdb", 0, 50));
    test_write(path_in(f->other, "gfx90a68.kdb"), bytes_of(content.data, content.size / 2));

    rescan(f);
    assert_int_equal(f->refused, 0);
    rescan(f);
    assert_int_equal(f->refused, 1);
    assert_says(f->refusal, "incomplete");
    rescan(f);
    assert_int_equal(f->refused, 0);
}

TEST_F(package, a_package_overwritten_in_place_is_closed)
{
    BUFFER_AUTO struct buffer content =
        read_file(put_package(f, f->directory, "gfx90a68.kdb", 5, 50));
    const char *path = put_package(f, f->other, "gfx90a68.kdb", 0, 5);
    rescan(f);
    test_write(path, bytes_of(content.data, content.size / 2));

    rescan(f);
    assert_int_equal(f->went, 1);
    assert_int_equal(f->came, 0);
    assert_false(has(f, MI210, 1));
    test_write(path, buffer_view(&content));
    rescan(f);
    assert_int_equal(f->came, 1);
    assert_true(has(f, MI210, 50));
}

TEST_F(package, a_packed_database_is_reported_with_advice_to_unpack_it)
{
    test_write_text(path_in(f->other, "gfx90a68.kdb.bz2"), "BZh9");

    rescan(f);
    assert_int_equal(f->refused, 1);
    assert_says(f->refusal, "unpacked:");
    rescan(f);
    assert_int_equal(f->refused, 0);
}

TEST_F(package, a_database_with_a_log_is_reported_with_advice_to_install_it)
{
    const char *path = put_package(f, f->other, "gfx90a68.ukdb", 0, 5);
    BUFFER_AUTO struct buffer content = read_file(path);
    content.data[18] = content.data[19] = 2;
    test_write(path, buffer_view(&content));
    test_write_text(path_in(f->other, "gfx90a68.ukdb-wal"), "frames");

    rescan(f);
    assert_int_equal(f->refused, 1);
    assert_says(f->refusal, "write-ahead");
    unlink(path_in(f->other, "gfx90a68.ukdb-wal"));
    rescan(f);
    assert_int_equal(f->came, 1);
    assert_true(has(f, MI210, 1));
}

TEST_F(package, unrelated_files_in_a_package_directory_are_ignored)
{
    test_write_text(path_in(f->other, "README"), "x");
    test_write_text(path_in(f->other, ".gfx90a68.kdb"), "x");
    test_write_text(path_in(f->other, "gfx90a68.db"), "x");
    test_write_text(path_in(f->other, "gfx90a68.kdb.dpkg-new"), "x");
    mkdir(path_in(f->other, "gfx908.kdb"), 0755);
    mkfifo(path_in(f->other, "gfx906.kdb"), 0600);

    rescan(f);
    rescan(f);

    assert_int_equal(f->refused + f->came, 0);
}

TEST_F(package, a_package_for_no_known_device_is_refused)
{
    put_package(f, f->other, "mine.kdb", 0, 3);

    rescan(f);

    assert_int_equal(f->refused, 1);
    assert_says(f->refusal, "device");
}

TEST_F(package, an_unreadable_package_directory_is_reported_once)
{
    char loop[300];
    snprintf(loop, sizeof(loop), "%s", f->other);
    rmdir(f->other);
    assert_int_equal(symlink(loop, loop), 0); /* ELOOP, even for root */

    rescan(f);
    assert_int_equal(f->refused, 1);
    assert_says(f->refusal, "search");
    rescan(f);
    assert_int_equal(f->refused, 0);
    unlink(f->other);
    mkdir(f->other, 0755);
    put_package(f, f->other, "gfx90a68.kdb", 0, 3);
    rescan(f);
    assert_int_equal(f->came, 1);
}

TEST_F(package, packages_that_everybody_may_write_are_not_used)
{
    const char *path = put_package(f, f->other, "gfx90a68.kdb", 0, 3);
    chmod(f->other, 01777);
    rescan(f);
    assert_int_equal(f->refused, 1);
    assert_says(f->refusal, "other'");
    assert_says(f->refusal, "chmod o-w");
    rescan(f);
    assert_int_equal(f->refused + f->came, 0);

    chmod(f->other, 0755);
    chmod(path, 0666);
    rescan(f);
    assert_int_equal(f->refused, 1);
    assert_says(f->refusal, "o-w");
    assert_false(has(f, MI210, 1));
    chmod(path, 0644);
    rescan(f);
    assert_true(has(f, MI210, 1));
}

TEST_F(package, a_package_set_needs_no_other_directories_or_keys)
{
    struct package_set_options options = { .own_directory = f->own, .readers = 1 };
    package_set_destroy(f->set);
    f->set = NULL;
    must(package_set_create(&options, &f->set, &f->err), f->err);
    put_package(f, f->own, "gfx90a68.kdb", 0, 3);

    rescan(f);

    assert_true(has(f, MI210, 1));
    assert_int_equal(f->refused, 0);
}

/* ---- kiln's own directory ---- */

TEST_F(package, the_package_directory_is_made_readable_by_all)
{
    struct stat seen;
    assert_int_equal(stat(f->own, &seen), 0);
    assert_int_equal(seen.st_mode & 07777, 0755);
}

TEST_F(package, a_package_directory_that_others_may_write_to_is_refused)
{
    chmod(f->own, 0775);
    assert_int_equal(open_set(f), KILN_DENIED);
    assert_says(f->err.text, "own'");
    chmod(f->own, 0777);
    assert_int_equal(open_set(f), KILN_DENIED);
    chmod(f->own, 0755);
    must(open_set(f), f->err);
}

TEST_F(package, a_package_directory_that_cannot_be_made_is_reported)
{
    fs_remove_tree(AT_FDCWD, f->own);
    test_write_text(f->own, "a file");

    assert_int_not_equal(open_set(f), KILN_OK);
    assert_null(f->set);
    assert_says(f->err.text, "own");
}

/* ---- lists ---- */

struct listing {
    unsigned count;
    struct package_info last;
    struct package_signature signature;
};

static void note(void *context, const struct package_info *info,
                 const struct package_signature *signature)
{
    struct listing *listing = context;
    listing->count++;
    listing->last = *info;
    listing->signature = *signature;
}

TEST_F(package, packages_are_listed_with_their_rows)
{
    put_package(f, f->own, "gfx90a68.kpkg", 0, 5);
    put_package(f, f->other, "gfx906_60.kdb", 0, 7);
    rescan(f);
    struct listing listing = { 0 };

    package_set_list(f->set, note, &listing);

    assert_int_equal(listing.count, 2);
    assert_string_equal(listing.last.name, "gfx906_60.kdb");
    assert_int_equal(listing.last.rows, 7);
    assert_string_equal(listing.last.path, path_in(f->other, "gfx906_60.kdb"));
    assert_int_equal(listing.last.installed, 0);
}

static struct package_signature signature_now(struct fixture *f)
{
    struct listing listing = { 0 };
    package_set_list(f->set, note, &listing);
    assert_int_equal(listing.count, 1);
    return listing.signature;
}

static void put_manifest(struct fixture *f, const char *name, const char *signer)
{
    BUFFER_AUTO struct buffer content = read_file(path_in(f->other, name));
    const struct package_upload upload = { .path = path_in(f->other, name),
                                           .sha256 = sha256_of(buffer_view(&content)) };
    BUFFER_AUTO struct buffer manifest = sign_upload(f, &upload, name, signer);
    char path[300];
    snprintf(path, sizeof(path), "%s/%s.manifest", f->other, name);
    test_write(path, buffer_view(&manifest));
}

TEST_F(package, the_signer_of_a_package_of_a_distribution_is_shown_but_not_believed)
{
    put_package(f, f->other, "gfx90a68.kpkg", 0, 5);
    rescan(f);
    assert_string_equal(signature_now(f).signer, "");
    assert_string_equal(signature_now(f).refused, "");
    put_manifest(f, "gfx90a68.kpkg", "alice");

    struct package_signature signature = signature_now(f);

    assert_string_equal(signature.signer, "alice");
    assert_false(signature.counts);
    assert_string_equal(signature.refused, "");
    assert_false(has_key(f, 3));
    assert_true(has(f, "gfx90a68", 3));
}

TEST_F(package, a_manifest_of_a_distribution_that_is_not_believed_is_explained)
{
    put_package(f, f->other, "gfx90a68.kpkg", 0, 5);
    put_manifest(f, "gfx90a68.kpkg", "alice");
    rescan(f);
    assert_int_equal(rename(path_in(f->keys, "alice.pub"), path_in(f->directory, "alice.pub")), 0);
    assert_string_equal(signature_now(f).signer, "");
    assert_says(signature_now(f).refused, "key");

    assert_int_equal(rename(path_in(f->directory, "alice.pub"), path_in(f->keys, "alice.pub")), 0);
    assert_string_equal(signature_now(f).signer, "alice");
    put_package(f, f->other, "gfx90a68.kpkg", 0, 6);
    rescan(f);
    assert_string_equal(signature_now(f).signer, "");
    assert_says(signature_now(f).refused, "manifest");
}

static enum kiln_code count_rows(void *context, struct package *package, struct kiln_err *err)
{
    return package_rows(package, context, err);
}

TEST_F(package, a_package_can_be_used_by_its_name)
{
    uint64_t rows = 0;
    assert_int_equal(package_set_use(f->set, "gfx90a68.kdb", count_rows, &rows, &f->err),
                     KILN_NOT_FOUND);
    assert_says(f->err.text, "none");
    put_package(f, f->other, "gfx90a68.kdb", 0, 5);
    put_package(f, f->other, "gfx906_60.kdb", 0, 5);
    rescan(f);

    must(package_set_use(f->set, "gfx90a68.kdb", count_rows, &rows, &f->err), f->err);
    assert_int_equal(rows, 5);
    assert_int_equal(package_set_use(f->set, "gfx908.kdb", count_rows, &rows, &f->err),
                     KILN_NOT_FOUND);
    assert_says(f->err.text, "gfx906_60.kdb, gfx90a68.kdb");
}

/* ---- coverage ---- */

struct covered {
    char text[400];
};

static void note_fit(void *context, enum package_fit fit, const struct package_info *info)
{
    struct covered *covered = context;
    size_t used = strlen(covered->text);
    snprintf(covered->text + used, sizeof(covered->text) - used, "%s %s; ", package_fit_name(fit),
             info->name);
}

TEST_F(package, the_fit_of_packages_for_a_gpu_is_reported)
{
    put_package(f, f->other, "gfx90a.kdb", 0, 1);
    put_package(f, f->other, "gfx90a68.kdb", 0, 1);
    put_package(f, f->other, "gfx90a6e.kdb", 0, 1);
    put_package(f, f->other, "gfx908.kdb", 0, 1);
    put_package(f, f->own, "gfx90a68.kpkg", 0, 1);
    rescan(f);
    struct covered covered = { "" };

    assert_int_equal(package_set_coverage(f->set, MI210, note_fit, &covered), PACKAGE_FIT_EXACT);
    assert_string_equal(covered.text, "exact gfx90a68.kpkg; exact gfx90a68.kdb; arch gfx90a.kdb; "
                                      "other-cus gfx90a6e.kdb; ");
    assert_int_equal(package_set_coverage(f->set, "gfx90a_50", NULL, NULL), PACKAGE_FIT_ARCH);
    assert_int_equal(package_set_coverage(f->set, "gfx90878", NULL, NULL), PACKAGE_FIT_ARCH);
    assert_int_equal(package_set_coverage(f->set, "gfx906_60", NULL, NULL), PACKAGE_FIT_NONE);
    assert_int_equal(package_set_coverage(f->set, "nonsense", NULL, NULL), PACKAGE_FIT_NONE);
    assert_string_equal(package_fit_name(PACKAGE_FIT_NONE), "none");
}

TEST_F(package, a_missing_package_is_reported_by_its_miopen_name)
{
    char text[PACKAGE_MISSING_TEXT] = "untouched";
    assert_true(package_set_missing(f->set, MI210, text));
    assert_int_equal(strncmp(text,
                             "Missing system database file: gfx90a68.kdb Performance may degrade. "
                             "Please follow instructions to install: ",
                             107),
                     0);
    assert_says(text, "kilnctl");
    assert_says(text, "install_precompiled_kernels.sh");
    assert_null(strstr(text, "compute units"));

    put_package(f, f->other, "gfx90a6e.kdb", 0, 1);
    put_package(f, f->other, "gfx90a_50.kdb", 0, 1);
    rescan(f);
    assert_true(package_set_missing(f->set, MI210, text));
    assert_says(text, "gfx90a6e.kdb, gfx90a_50");

    put_package(f, f->other, "gfx90a.kdb", 0, 1);
    rescan(f);
    snprintf(text, sizeof(text), "untouched");
    assert_false(package_set_missing(f->set, MI210, text));
    assert_string_equal(text, "untouched");
}

TEST_F(package, the_message_for_a_missing_package_is_bounded)
{
    char name[64], text[PACKAGE_MISSING_TEXT];
    for (unsigned i = 1; i < 40; i++) {
        snprintf(name, sizeof(name), "gfx90a_%u.a-rather-long-name-of-a-package.kdb", i);
        put_package(f, f->other, name, 0, 1);
    }
    rescan(f);

    assert_true(package_set_missing(f->set, MI210, text));

    assert_true(strlen(text) < sizeof(text));
    assert_says(text, "gfx90a_1.");
}
