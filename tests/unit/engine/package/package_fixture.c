/* SPDX-License-Identifier: MIT */
#include "package_fixture.h"
#include "tests/support/test_buffer.h"

#include "engine/digest/sha256.h"
#include "engine/package/package_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Replaces libc's function, also for SQLite, because tests need not survive a power cut. */
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's name is reserved
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's name is reserved
__attribute__((visibility("default"))) int fsync(int fd)
{
    (void)fd;
    return 0;
}

const char *path_in(const char *directory, const char *name)
{
    static _Thread_local char path[8][400];
    static _Thread_local unsigned at;
    char *text = path[at++ % 8];
    snprintf(text, sizeof(path[0]), "%s/%s", directory, name);
    return text;
}

enum kiln_code open_set(struct fixture *f)
{
    package_set_destroy(f->set);
    f->set = NULL;
    const char *const others[] = { f->other, NULL };
    struct package_set_options options = {
        .own_directory = f->own,
        .other_directories = others,
        .trusted_keys_directory = f->keys,
        .readers = 2,
        .require_signature = f->require_signature,
    };
    return package_set_create(&options, &f->set, &f->err);
}

static void end_set(void *f) { package_set_destroy(((struct fixture *)f)->set); }

void open_directories(struct fixture *f)
{
    f->directory = test_directory();
    f->own = test_path(f->directory, "own");
    f->other = test_subdirectory(f->directory, "other");
    f->keys = test_subdirectory(f->directory, "keys");
    test_buffer(&f->raw, 64 << 20);
    test_at_end(end_set, f);
    must(open_set(f), f->err);
    f->incoming = test_subdirectory(f->own, "incoming");
    must(manifest_keygen(f->keys, "alice", &f->err), f->err);
}

struct kernel_text text_of(unsigned number)
{
    struct kernel_text text;
    snprintf(text.name, sizeof(text.name), "Kernel%05u.cl.o", number);
    snprintf(text.args, sizeof(text.args), " -DNUMBER=%u  -DFP32=1 -mcpu=gfx90a", number);
    return text;
}

/* Half of the objects are compressible and half are not, so that both stored forms occur. */
struct buffer object_of(unsigned number)
{
    struct buffer raw;
    buffer_init(&raw, 1 << 20);
    uint64_t seed = number * UINT64_C(0x9e3779b97f4a7c15) + 1;
    size_t size = 40 + number % 7 * 900;
    for (size_t i = 0; i < size; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        buffer_put_u8(&raw, number % 2 ? (uint8_t)(seed >> 56) : (uint8_t)(seed >> 62));
    }
    return raw;
}

struct digest key_of(unsigned number)
{
    struct kernel_text text = text_of(number);
    return sha256_of(bytes_of_text(text.args));
}

void write_package(struct fixture *f, const char *path, enum package_format format, unsigned first,
                   unsigned count)
{
    KILN_AUTO(package_writer) struct package_writer *writer = NULL;
    must(package_writer_create(path, format, &writer, &f->err), f->err);
    for (unsigned i = first; i < first + count; i++) {
        struct kernel_text text = text_of(i);
        BUFFER_AUTO struct buffer raw = object_of(i);
        struct package_entry entry = {
            .name = bytes_of_text(text.name),
            .args = bytes_of_text(text.args),
            .raw = buffer_view(&raw),
            .key = key_of(i),
            .toolchain_id = sha256_of(bytes_of_text("hiprtc")),
            .target = bytes_of_text("gfx90a"),
            .toolchain = bytes_of_text("hiprtc"),
            .program = bytes_of_text("Kernel.cl"),
            .options = bytes_of_text("-DFP32=1"),
            .source = bytes_of_text("void f() {}"),
        };
        must(package_writer_add(writer, &entry, &f->err), f->err);
    }
    must(package_writer_finish(writer, &f->err), f->err);
}

const char *put_package(struct fixture *f, const char *directory, const char *name, unsigned first,
                        unsigned count)
{
    enum package_format format = PACKAGE_KDB;
    const char *path = path_in(directory, name);
    assert_true(package_format_of(name, &format));
    unlink(path);
    write_package(f, path, format, first, count);
    return path;
}

struct buffer read_file(const char *path)
{
    struct buffer content;
    struct kiln_err err;
    buffer_init(&content, 64 << 20);
    must(fs_read_file(path, 64 << 20, &content, &err), err);
    return content;
}

enum kiln_code adopt_into(struct fixture *f, const struct package_upload *upload,
                          struct package_info *ret_info)
{
    struct package_checked checked;
    f->err = KILN_ERR_INIT;
    enum kiln_code rc = package_set_check(f->set, upload, &checked, &f->err);
    return rc ? rc : package_set_adopt(f->set, upload, &checked, ret_info, &f->err);
}

struct buffer sign_upload(struct fixture *f, const struct package_upload *upload, const char *name,
                          const char *signer)
{
    char key[200];
    struct stat seen;
    struct buffer manifest;
    assert_int_equal(stat(upload->path, &seen), 0);
    const struct manifest_entry entry = { .name = name,
                                          .size = (uint64_t)seen.st_size,
                                          .sha256 = upload->sha256 };
    snprintf(key, sizeof(key), "%s/%s.key", f->keys, signer);
    buffer_init(&manifest, MANIFEST_MAX);
    const struct manifest_content content = { .entries = &entry, .count = 1 };
    must(manifest_sign(key, &content, &manifest, &f->err), f->err);
    return manifest;
}

enum kiln_code install(struct fixture *f, const char *name, unsigned first, unsigned count,
                       const char *signer)
{
    const char *path = put_package(f, f->incoming, name, first, count);
    BUFFER_AUTO struct buffer content = read_file(path);
    struct package_upload upload = {
        .path = path,
        .name = name,
        .sha256 = sha256_of(buffer_view(&content)),
        .fetched = name,
        .source = "https://example.org/it",
    };
    BUFFER_AUTO struct buffer manifest = { 0 };
    char key[100];
    snprintf(key, sizeof(key), "%s.key", signer); /* without this file, nothing is signed */
    if (access(path_in(f->keys, key), R_OK) == 0) {
        manifest = sign_upload(f, &upload, name, signer);
        upload.manifest = buffer_view(&manifest);
    }
    struct package_info info;
    return adopt_into(f, &upload, &info);
}

static void on_changed(void *context, const struct package_change *change)
{
    struct fixture *f = context;
    if (change->appeared)
        f->came++;
    else
        f->went++;
    snprintf(f->last, sizeof(f->last), "%s", change->info.name);
}

static void on_refused(void *context, const char *text)
{
    struct fixture *f = context;
    f->refused++;
    snprintf(f->refusal, sizeof(f->refusal), "%s", text);
}

void rescan(struct fixture *f)
{
    f->came = f->went = f->refused = 0;
    f->last[0] = f->refusal[0] = '\0';
    must(package_set_rescan(f->set, on_changed, on_refused, f, &f->err), f->err);
}

enum kiln_code look_up(struct fixture *f, const char *database_id, unsigned number)
{
    struct kernel_text text = text_of(number);
    f->raw.size = 0;
    f->err = KILN_ERR_INIT;
    return package_set_find_named(
        f->set,
        &(struct package_query){ bytes_of_text(database_id),
                                 { bytes_of_text(text.name), bytes_of_text(text.args) } },
        &f->raw, &f->found, &f->err);
}

enum kiln_code look_up_key(struct fixture *f, unsigned number)
{
    struct digest key = key_of(number);
    f->raw.size = 0;
    f->err = KILN_ERR_INIT;
    return package_set_find_key(f->set, &key, &f->raw, &f->found, &f->err);
}

static bool is_right(struct fixture *f, enum kiln_code rc, unsigned number)
{
    if (rc == KILN_OK) {
        BUFFER_AUTO struct buffer raw = object_of(number);
        assert_true(bytes_equal(buffer_view(&f->raw), buffer_view(&raw)));
        return true;
    }
    assert_int_equal(rc, KILN_NOT_FOUND);
    assert_int_equal(f->raw.size, 0);
    assert_string_equal(f->err.text, "");
    return false;
}

bool has(struct fixture *f, const char *database_id, unsigned number)
{
    return is_right(f, look_up(f, database_id, number), number);
}

bool has_key(struct fixture *f, unsigned number)
{
    return is_right(f, look_up_key(f, number), number);
}
