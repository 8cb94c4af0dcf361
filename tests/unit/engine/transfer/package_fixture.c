/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/transfer/package_fixture.h"

#include "engine/digest/sha256.h"
#include "engine/manifest/manifest.h"
#include "engine/miopen/kern_db.h"
#include "tests/support/entries.h"
#include "tests/support/random_bytes.h"
#include "tests/support/test_files.h"

#include <bzlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX (64u << 20)

void package_fixture_open(struct package_fixture *f)
{
    f->directory = test_directory();
    f->staging = test_subdirectory(f->directory, "staging");
    f->keys = test_subdirectory(f->directory, "keys");
    f->files = test_subdirectory(f->directory, "files");
}

struct transfer_job package_job(const struct package_fixture *f)
{
    return (struct transfer_job){ .content_fd = -1,
                                  .manifest_fd = -1,
                                  .staging = f->staging,
                                  .trusted_keys = f->keys,
                                  .size_limit = 64 << 20 };
}

const char *package_path(const struct package_fixture *f, const char *name)
{
    static char path[FIXTURE_PATH_MAX];
    snprintf(path, sizeof(path), "%s/%.200s", f->files, name);
    return path;
}

void package_write(const struct package_fixture *f, const char *name, unsigned rows, size_t size)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(kern_db_writer) struct kern_db_writer *writer = NULL;
    KILN_AUTO(mem) uint8_t *raw = malloc(size);
    assert_non_null(raw);
    unlink(package_path(f, name));
    must(kern_db_create(package_path(f, name), &writer, &err), err);
    for (unsigned i = 0; i < rows; i++) {
        char kernel[32];
        snprintf(kernel, sizeof(kernel), "conv%u.s.o", i);
        random_bytes(raw, size, i + 1);
        must(kern_db_writer_add(writer, bytes_of_text(kernel), bytes_of_text(" -mcpu=gfx90a"),
                                bytes_of(raw, size), &err),
             err);
    }
    must(kern_db_writer_finish(writer, &err), err);
}

static void pack_stream(struct bytes raw, struct buffer *packed)
{
    static char room[FILE_MAX];
    unsigned size = sizeof(room);
    assert_int_equal(BZ2_bzBuffToBuffCompress(room, &size, (char *)(uintptr_t)raw.data,
                                              (unsigned)raw.size, 9, 0, 30),
                     BZ_OK);
    buffer_put(packed, room, size);
}

void package_pack(const struct package_fixture *f, const char *from, const char *to)
{
    BUFFER_AUTO struct buffer packed;
    struct bytes raw = test_read(package_path(f, from));
    buffer_init(&packed, FILE_MAX);
    size_t half = raw.size / 2;
    pack_stream(bytes_of(raw.data, half), &packed);
    pack_stream(bytes_of(raw.data + half, raw.size - half), &packed);
    test_write(package_path(f, to), buffer_view(&packed));
}

struct digest package_digest(const char *path) { return sha256_of(test_read(path)); }

void package_sign(const struct package_fixture *f, const char *name, const char *key, bool trusted)
{
    struct kiln_err err = KILN_ERR_INIT;
    char file[FIXTURE_PATH_MAX];
    BUFFER_AUTO struct buffer manifest;
    struct bytes signed_content = test_read(package_path(f, name));
    must(manifest_keygen(f->directory, key, &err), err);
    snprintf(file, sizeof(file), "%s.pub", key);
    if (trusted)
        assert_int_equal(rename(test_path(f->directory, file), test_path(f->keys, file)), 0);
    const struct manifest_entry entry = { .name = name,
                                          .size = signed_content.size,
                                          .sha256 = sha256_of(signed_content) };
    const struct manifest_content content = { .entries = &entry, .count = 1 };
    buffer_init(&manifest, MANIFEST_MAX);
    snprintf(file, sizeof(file), "%s.key", key);
    must(manifest_sign(test_path(f->directory, file), &content, &manifest, &err), err);
    snprintf(file, sizeof(file), "%s.manifest", name);
    test_write(package_path(f, file), buffer_view(&manifest));
}

void package_damage(const struct package_fixture *f, const char *name)
{
    struct bytes content = test_read(package_path(f, name));
    ((uint8_t *)(uintptr_t)content.data)[content.size - 100] ^= 1;
    test_write(package_path(f, name), content);
}

void assert_is_empty(const char *directory) { assert_int_equal(entry_count(directory, ""), 0); }
