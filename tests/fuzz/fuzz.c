/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/fuzz.h"

#include "common/base/fs.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIRECTORY_MAX 256
#define PATHS 4
/* descriptors with this number or a higher one are not checked, because no input opens as many */
#define DESCRIPTORS_LOOKED_AT 128

void fuzz_expect(bool holds, const char *promise)
{
    if (holds)
        return;
    fprintf(stderr, "broken promise: %s\n", promise);
    abort();
}

static void must(enum kiln_code rc, const struct kiln_err *err)
{
    if (rc)
        fuzz_expect(false, err->text);
}

struct bytes fuzz_part(struct reader *r)
{
    size_t size = reader_left(r) < 2 ? 0 : reader_u16(r);
    return reader_take(r, size < reader_left(r) ? size : reader_left(r));
}

struct bytes fuzz_rest(struct reader *r) { return reader_take(r, reader_left(r)); }

char *fuzz_text(struct bytes part)
{
    char *text = bytes_to_text(part);
    fuzz_expect(text, "memory for a text");
    return text;
}

uint8_t *fuzz_copy(struct bytes part)
{
    uint8_t *copy = malloc(part.size ? part.size : 1);
    fuzz_expect(copy, "memory for a copy");
    if (part.size > 0)
        memcpy(copy, part.data, part.size);
    return copy;
}

static char directory[DIRECTORY_MAX];

static int remove_one(const char *path, const struct stat *seen, int type, struct FTW *walk)
{
    (void)seen;
    (void)type;
    (void)walk;
    (void)remove(path);
    return 0;
}

void fuzz_remove(const char *path) { (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static void remove_directory(void) { fuzz_remove(directory); }

const char *fuzz_directory(void)
{
    if (*directory)
        return directory;
    const char *tmp = getenv("TMPDIR");
    snprintf(directory, sizeof(directory), "%.200s/kiln-fuzz-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    fuzz_expect(mkdtemp(directory), "a directory for files");
    fuzz_expect(atexit(remove_directory) == 0, "a handler for the end");
    return directory;
}

const char *fuzz_path(const char *name)
{
    static char paths[PATHS][DIRECTORY_MAX + 256];
    static unsigned at;
    char *path = paths[at++ % PATHS];
    snprintf(path, sizeof(paths[0]), "%s/%s", fuzz_directory(), name);
    return path;
}

const char *fuzz_file(const char *name, struct bytes content)
{
    struct kiln_err err = KILN_ERR_INIT;
    const char *path = fuzz_path(name);
    KILN_AUTO(fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_expect(fd >= 0, "a file");
    must(fs_write_all(fd, content, &err), &err);
    return path;
}

int fuzz_memfd(struct bytes content, bool sealed)
{
    struct kiln_err err = KILN_ERR_INIT;
    int fd = -1;
    must(fs_memfd("kiln-fuzz", &fd, &err), &err);
    must(fs_write_all(fd, content, &err), &err);
    if (sealed)
        must(fs_seal(fd, &err), &err);
    return fd;
}

unsigned fuzz_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < DESCRIPTORS_LOOKED_AT; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}
