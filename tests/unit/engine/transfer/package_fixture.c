/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/transfer/package_fixture.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "engine/manifest/manifest.h"
#include "engine/miopen/kern_db.h"

#include <bzlib.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (64u << 20)

void package_fixture_open(struct package_fixture *f)
{
    *f = (struct package_fixture){ .directory = test_directory(), .err = KILN_ERR_INIT };
    snprintf(f->staging, sizeof(f->staging), "%s/staging", f->directory);
    snprintf(f->keys, sizeof(f->keys), "%s/keys", f->directory);
    snprintf(f->files, sizeof(f->files), "%s/files", f->directory);
    assert_int_equal(mkdir(f->staging, 0700), 0);
    assert_int_equal(mkdir(f->keys, 0700), 0);
    assert_int_equal(mkdir(f->files, 0700), 0);
}

const char *package_path(const struct package_fixture *f, const char *name)
{
    static char path[FIXTURE_PATH_MAX];
    snprintf(path, sizeof(path), "%s/%.200s", f->files, name);
    return path;
}

static void fill(struct buffer *b, size_t size, uint32_t seed)
{
    b->size = 0;
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        buffer_put_u8(b, (uint8_t)(seed >> 24));
    }
}

void package_write(const struct package_fixture *f, const char *name, unsigned rows, size_t size)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(kern_db_writer) struct kern_db_writer *writer = NULL;
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, FILE_MAX);
    unlink(package_path(f, name));
    must(kern_db_create(package_path(f, name), &writer, &err), err);
    for (unsigned i = 0; i < rows; i++) {
        char kernel[32];
        snprintf(kernel, sizeof(kernel), "conv%u.s.o", i);
        fill(&raw, size, i + 1);
        must(kern_db_writer_add(writer, bytes_of_text(kernel), bytes_of_text(" -mcpu=gfx90a"),
                                buffer_view(&raw), &err),
             err);
    }
    must(kern_db_writer_finish(writer, &err), err);
}

static void read_all(const char *path, struct buffer *content)
{
    struct kiln_err err = KILN_ERR_INIT;
    buffer_init(content, FILE_MAX);
    must(fs_read_file(path, FILE_MAX, content, &err), err);
}

static void write_all(const char *path, struct bytes content)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(fd) int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    must(fs_write_all(fd, content, &err), err);
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
    BUFFER_AUTO struct buffer raw, packed;
    read_all(package_path(f, from), &raw);
    buffer_init(&packed, FILE_MAX);
    size_t half = raw.size / 2;
    pack_stream(bytes_of(raw.data, half), &packed);
    pack_stream(bytes_of(raw.data + half, raw.size - half), &packed);
    write_all(package_path(f, to), buffer_view(&packed));
}

struct digest package_digest(const char *path)
{
    BUFFER_AUTO struct buffer content;
    read_all(path, &content);
    return sha256_of(buffer_view(&content));
}

void package_sign(const struct package_fixture *f, const char *name, const char *key, bool trusted)
{
    struct kiln_err err = KILN_ERR_INIT;
    char secret[FIXTURE_PATH_MAX], public[FIXTURE_PATH_MAX], manifest_name[FIXTURE_PATH_MAX];
    char trusted_public[FIXTURE_PATH_MAX];
    BUFFER_AUTO struct buffer manifest;
    struct stat seen;
    must(manifest_keygen(f->directory, key, &err), err);
    snprintf(secret, sizeof(secret), "%s/%s.key", f->directory, key);
    snprintf(public, sizeof(public), "%s/%s.pub", f->directory, key);
    snprintf(trusted_public, sizeof(trusted_public), "%s/%s.pub", f->keys, key);
    if (trusted)
        assert_int_equal(rename(public, trusted_public), 0);
    assert_int_equal(stat(package_path(f, name), &seen), 0);
    const struct manifest_entry entry = { .name = name,
                                          .size = (uint64_t)seen.st_size,
                                          .sha256 = package_digest(package_path(f, name)) };
    buffer_init(&manifest, MANIFEST_MAX);
    const struct manifest_content content = { .entries = &entry, .count = 1 };
    must(manifest_sign(secret, &content, &manifest, &err), err);
    snprintf(manifest_name, sizeof(manifest_name), "%s.manifest", name);
    write_all(package_path(f, manifest_name), buffer_view(&manifest));
}

void package_damage(const struct package_fixture *f, const char *name)
{
    BUFFER_AUTO struct buffer content;
    read_all(package_path(f, name), &content);
    content.data[content.size - 100] ^= 1;
    write_all(package_path(f, name), buffer_view(&content));
}

void assert_is_empty(const char *directory)
{
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            fail_msg("'%s' is in '%s'", e->d_name, directory);
    }
    closedir(dir);
}
