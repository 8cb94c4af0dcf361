/* SPDX-License-Identifier: MIT */
#include "tests/faults/engine_cases.h"

#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "engine/package/package_set.h"
#include "engine/package/package_writer.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define INSTALLED "gfx90a68.kdb"
#define COMING "gfx906_60.kdb"
#define SIGNER "amd"
#define KERNELS 6u
#define SIZE 900u
#define FILE_MAX (1u << 20)

static void path_in(const char *directory, const char *name, char path[256])
{
    snprintf(path, 256, "%s/own/%s", directory, name);
}

static void fill_package(unsigned number, uint8_t raw[SIZE])
{
    for (size_t i = 0; i < SIZE; i++)
        raw[i] = (uint8_t)((i * 2654435761u + number * 977) >> 9);
}

static void write_package(const char *path)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(package_writer) struct package_writer *writer = NULL;
    must(package_writer_create(path, PACKAGE_KDB, &writer, &err), err);
    for (unsigned i = 0; i < KERNELS; i++) {
        uint8_t raw[SIZE];
        char name[32];
        fill_package(i, raw);
        snprintf(name, sizeof(name), "Kernel%u.o", i);
        const struct package_entry entry = { .name = bytes_of_text(name),
                                             .args = bytes_of_text("-DFP32=1"),
                                             .raw = bytes_of(raw, sizeof(raw)) };
        must(package_writer_add(writer, &entry, &err), err);
    }
    must(package_writer_finish(writer, &err), err);
}

/* Requires signatures, so that a package whose signature was lost is not found. */
static enum kiln_code open_set(const char *directory, struct package_set **ret_set,
                               struct kiln_err *err)
{
    char own[256], keys[256];
    path_in(directory, "", own);
    path_in(directory, "keys", keys);
    const struct package_set_options options = { .own_directory = own,
                                                 .trusted_keys_directory = keys,
                                                 .readers = 1,
                                                 .require_signature = true };
    return package_set_create(&options, ret_set, err);
}

static void on_changed(void *context, const struct package_change *change)
{
    (void)context;
    (void)change;
}

static void on_refused(void *context, const char *text)
{
    unsigned *refused = context;
    (void)text;
    ++*refused;
}

static enum kiln_code rescan_packages(struct package_set *set, unsigned *refused,
                                      struct kiln_err *err)
{
    return package_set_rescan(set, on_changed, on_refused, refused, err);
}

static enum kiln_code find_kernel(struct package_set *set, const char *database_id, unsigned number,
                                  struct kiln_err *err)
{
    struct package_found found;
    uint8_t raw[SIZE];
    char name[32];
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FILE_MAX);
    fill_package(number, raw);
    snprintf(name, sizeof(name), "Kernel%u.o", number);
    enum kiln_code rc = package_set_find_named(
        set,
        &(struct package_query){ bytes_of_text(database_id),
                                 { bytes_of_text(name), bytes_of_text("-DFP32=1") } },
        &content, &found, err);
    if (!rc && !bytes_equal(buffer_view(&content), bytes_of(raw, sizeof(raw))))
        abort(); /* wrong bytes must never be served */
    return rc;
}

struct staged {
    const char *name;
    char path[256];
    struct digest sha256;
    struct buffer manifest; /* owned */
};

static void staged_done(struct staged *staged) { buffer_done(&staged->manifest); }
#define STAGED_AUTO __attribute__((cleanup(staged_done)))

static void sign_package(const char *directory, struct staged *staged, uint64_t size)
{
    char key[256];
    struct kiln_err err = KILN_ERR_INIT;
    const struct manifest_entry entry = { .name = staged->name,
                                          .size = size,
                                          .sha256 = staged->sha256 };
    const struct manifest_content content = { .entries = &entry, .count = 1 };
    path_in(directory, "keys/" SIGNER ".key", key);
    buffer_init(&staged->manifest, MANIFEST_MAX);
    must(manifest_sign(key, &content, &staged->manifest, &err), err);
}

/* Writes and signs a package in the directory "incoming", as kiln-transfer does before kilnd
 * installs it. */
static void stage_package(const char *directory, const char *name, struct staged *ret_staged)
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FILE_MAX);
    path_in(directory, "incoming/new", ret_staged->path);
    write_package(ret_staged->path);
    must(fs_read_file(ret_staged->path, FILE_MAX, &content, &err), err);
    ret_staged->name = name;
    ret_staged->sha256 = sha256_of(buffer_view(&content));
    sign_package(directory, ret_staged, content.size);
}

static enum kiln_code install_package(struct package_set *set, const struct staged *staged,
                                      struct kiln_err *err)
{
    struct package_checked checked;
    struct package_info info;
    const struct package_upload upload = { .path = staged->path,
                                           .name = staged->name,
                                           .sha256 = staged->sha256,
                                           .manifest = buffer_view(&staged->manifest),
                                           .fetched = staged->name,
                                           .source = "a test" };
    enum kiln_code rc = package_set_check(set, &upload, &checked, err);
    return rc ? rc : package_set_adopt(set, &upload, &checked, &info, err);
}

static void prepare_packages(const char *directory)
{
    char path[256];
    unsigned refused = 0;
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(package_set) struct package_set *set = NULL;
    STAGED_AUTO struct staged staged = { .name = NULL };
    must(open_set(directory, &set, &err), err);
    path_in(directory, "incoming", path);
    assert_int_equal(mkdir(path, 0700), 0);
    path_in(directory, "keys", path);
    assert_int_equal(mkdir(path, 0700), 0);
    must(manifest_keygen(path, SIGNER, &err), err);
    stage_package(directory, INSTALLED, &staged);
    must(install_package(set, &staged, &err), err);
    must(rescan_packages(set, &refused, &err), err);
    must(find_kernel(set, "gfx90a68", 0, &err), err);
}

static void act_open(struct trial *t)
{
    unsigned refused = 0;
    struct kiln_err err = KILN_ERR_INIT;
    struct package_set *set = NULL;
    trial_mark(t);
    bool fine = trial_step(t, open_set(t->directory, &set, &err), &err) &&
                trial_step(t, rescan_packages(set, &refused, &err), &err);
    if (fine)
        trial_step(t, find_kernel(set, "gfx90a68", 1, &err), &err);
    trial_over(t);
    if (set) { /* the next rescan must repair what the fault left */
        must(rescan_packages(set, &refused, &err), err);
        must(find_kernel(set, "gfx90a68", 1, &err), err);
    }
    package_set_destroy(set);
}

static void act_install(struct trial *t)
{
    unsigned refused = 0;
    struct kiln_err err = KILN_ERR_INIT;
    struct package_set *set = NULL;
    STAGED_AUTO struct staged staged = { .name = NULL };
    stage_package(t->directory, COMING, &staged);
    must(open_set(t->directory, &set, &err), err);
    must(rescan_packages(set, &refused, &err), err);
    trial_mark(t);
    trial_step(t, install_package(set, &staged, &err), &err);
    trial_over(t);
    must(find_kernel(set, "gfx90a68", 2, &err), err);
    package_set_destroy(set);
}

static void act_remove(struct trial *t)
{
    unsigned refused = 0;
    struct kiln_err err = KILN_ERR_INIT;
    struct package_set *set = NULL;
    struct package_info info;
    must(open_set(t->directory, &set, &err), err);
    must(rescan_packages(set, &refused, &err), err);
    trial_mark(t);
    trial_step(t, package_set_remove(set, INSTALLED, &info, &err), &err);
    trial_over(t);
    package_set_destroy(set);
}

static unsigned count_found(struct package_set *set, const char *database_id)
{
    unsigned found = 0;
    for (unsigned i = 0; i < KERNELS; i++) {
        struct kiln_err err = KILN_ERR_INIT;
        enum kiln_code rc = find_kernel(set, database_id, i, &err);
        assert_true(rc == KILN_OK || rc == KILN_NOT_FOUND);
        found += rc == KILN_OK;
    }
    return found;
}

static void count_packages(const struct trial *t, unsigned *ret_installed, unsigned *ret_coming)
{
    unsigned refused = 0;
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(package_set) struct package_set *set = NULL;
    must(open_set(t->directory, &set, &err), err);
    must(rescan_packages(set, &refused, &err), err);
    must(rescan_packages(set, &refused, &err),
         err); /* the second scan counts incomplete packages as refused */
    assert_int_equal(refused, 0);
    *ret_installed = count_found(set, "gfx90a68");
    *ret_coming = count_found(set, "gfx906_60");
    assert_true(*ret_installed == 0 || *ret_installed == KERNELS);
    assert_true(*ret_coming == 0 || *ret_coming == KERNELS);
}

static void check_opened(const struct trial *t)
{
    unsigned installed, coming;
    count_packages(t, &installed, &coming);
    assert_int_equal(installed, KERNELS);
    assert_int_equal(coming, 0);
}

static void check_installed(const struct trial *t)
{
    unsigned installed, coming;
    count_packages(t, &installed, &coming);
    assert_int_equal(installed, KERNELS);
    assert_true(coming == KERNELS || t->end->done == 0);
}

static void check_removed(const struct trial *t)
{
    unsigned installed, coming;
    count_packages(t, &installed, &coming);
    assert_true(installed == 0 || t->end->done == 0);
}

#define OPERATION(label, act, check) ENGINE_OPERATION(label, 0, prepare_packages, act, check)

const struct operation package_operations[] = {
    OPERATION("packages-open", act_open, check_opened),
    OPERATION("packages-install", act_install, check_installed),
    OPERATION("packages-remove", act_remove, check_removed),
};
const size_t package_operation_count = sizeof(package_operations) / sizeof(package_operations[0]);
