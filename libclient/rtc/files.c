/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/files.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "libclient/rtc/preload.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MANIFEST_MAX (1u << 20)
#define FILE_MAX (64u << 20)

enum entry_kind { ENTRY_FILE = 1, ENTRY_DIRECTORY, ENTRY_ABSENT };

/* What was noted about the compile that a thread runs. */
struct recording {
    const struct rtc_library *library; /* NULL: nothing is noted now */
    struct buffer paths;               /* the paths: sized texts, each with its NUL */
    uint64_t began_ns;                 /* start of the compile, by the clock that stamps files */
    const char *trouble;               /* why the compile cannot be stored; NULL: it can */
};

static __thread struct recording recording;

/* ---- noting ---- */

static bool is_known(const char *path, size_t size)
{
    struct reader r = reader_of(buffer_view(&recording.paths));
    while (reader_left(&r)) {
        struct bytes seen = reader_sized(&r);
        if (seen.size == size && memcmp(seen.data, path, size) == 0)
            return true;
    }
    return false;
}

/* Returns whether to note a call from the address |caller|.  Drivers and libc also open files, but
 * those do not influence the output. */
static bool is_noted(const void *caller)
{
    const struct rtc_library *l = recording.library;
    return l && (!l->end || (caller >= l->base && caller < l->end));
}

static void note_path(const char *path)
{
    size_t size = strlen(path) + 1;
    if (!is_known(path, size))
        buffer_put_sized(&recording.paths, bytes_of(path, size));
}

static void note_open(const void *caller, int directory, const char *path, bool writes)
{
    if (!is_noted(caller) || !path || !*path)
        return;
    int before = errno;
    if (writes)
        recording.trouble = "it writes a file";
    else if (directory != AT_FDCWD && path[0] != '/')
        recording.trouble = "it opens a file relative to a directory's descriptor";
    else
        note_path(path);
    errno = before;
}

static uint64_t nanoseconds(struct timespec t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void files_begin(const struct rtc_library *library)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    recording = (struct recording){ .library = library, .began_ns = nanoseconds(now) };
    buffer_init(&recording.paths, MANIFEST_MAX);
}

/* ---- the manifest ---- */

static bool digest_content(const char *path, struct digest *ret_digest)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && sha256_of_file(fd, ret_digest, NULL, &ignored) == KILN_OK;
}

static void put_kind(struct buffer *to, enum entry_kind kind, struct bytes path)
{
    buffer_put_u8(to, (uint8_t)kind);
    buffer_put_sized(to, path);
}

/* Appends the entry of a file.  Returns NULL, or why the compile cannot be stored.  A file that was
 * changed after the compile had begun may have been read before the change. */
static const char *put_file(struct buffer *to, struct bytes path, const struct stat *seen)
{
    struct digest digest;
    if (nanoseconds(seen->st_mtim) >= recording.began_ns ||
        nanoseconds(seen->st_ctim) >= recording.began_ns)
        return "a file that it read changed meanwhile";
    if (seen->st_size > FILE_MAX || !digest_content((const char *)path.data, &digest))
        return "a file that it read cannot be read again";
    put_kind(to, ENTRY_FILE, path);
    buffer_put_u64(to, (uint64_t)seen->st_size);
    buffer_put_u64(to, nanoseconds(seen->st_mtim));
    buffer_put_u64(to, nanoseconds(seen->st_ctim));
    buffer_put(to, digest.bytes, DIGEST_SIZE);
    return NULL;
}

static const char *put_entry(struct buffer *to, struct bytes path)
{
    struct stat seen;
    if (stat((const char *)path.data, &seen)) {
        put_kind(to, ENTRY_ABSENT, path);
        return errno == ENOENT || errno == ENOTDIR ? NULL : "a file cannot be examined";
    }
    if (S_ISREG(seen.st_mode))
        return put_file(to, path, &seen);
    put_kind(to, ENTRY_DIRECTORY, path);
    return S_ISDIR(seen.st_mode) ? NULL : "it reads a device or a socket";
}

bool files_end(struct buffer *to, const char **ret_reason)
{
    struct reader r = reader_of(buffer_view(&recording.paths));
    recording.library = NULL;
    const char *trouble = recording.paths.failed ? "it reads too many files" : recording.trouble;
    while (!trouble && reader_left(&r))
        trouble = put_entry(to, reader_sized(&r));
    buffer_done(&recording.paths);
    *ret_reason = trouble;
    return !trouble;
}

struct entry {
    enum entry_kind kind;
    struct bytes path; /* with its NUL */
    uint64_t size, mtime_ns, ctime_ns;
    struct digest digest;
};

/* Returns false if the entry is damaged. */
static bool read_entry(struct reader *r, struct entry *ret_entry)
{
    struct entry e = { .kind = (enum entry_kind)reader_u8(r), .path = reader_sized(r) };
    if (e.kind == ENTRY_FILE) {
        e.size = reader_u64(r);
        e.mtime_ns = reader_u64(r);
        e.ctime_ns = reader_u64(r);
        struct bytes digest = reader_take(r, DIGEST_SIZE);
        if (digest.size)
            memcpy(e.digest.bytes, digest.data, DIGEST_SIZE);
    }
    *ret_entry = e;
    return !r->failed && e.kind >= ENTRY_FILE && e.kind <= ENTRY_ABSENT && e.path.size &&
           e.path.size <= PATH_MAX && e.path.data[e.path.size - 1] == '\0';
}

static bool is_same(const struct entry *e)
{
    struct stat seen;
    struct digest digest;
    const char *path = (const char *)e->path.data;
    if (stat(path, &seen))
        return e->kind == ENTRY_ABSENT && (errno == ENOENT || errno == ENOTDIR);
    if (e->kind == ENTRY_DIRECTORY)
        return S_ISDIR(seen.st_mode);
    if (e->kind != ENTRY_FILE || !S_ISREG(seen.st_mode) || (uint64_t)seen.st_size != e->size)
        return false;
    return (nanoseconds(seen.st_mtim) == e->mtime_ns && nanoseconds(seen.st_ctim) == e->ctime_ns) ||
           (digest_content(path, &digest) && digest_equal(&digest, &e->digest));
}

bool files_are_same(struct bytes manifest)
{
    struct reader r = reader_of(manifest);
    struct entry e;
    while (reader_left(&r))
        if (!read_entry(&r, &e) || !is_same(&e))
            return false;
    return true;
}

bool files_digest(struct bytes manifest, struct sha256 *digest)
{
    struct reader r = reader_of(manifest);
    struct entry e;
    while (reader_left(&r)) {
        if (!read_entry(&r, &e))
            return false;
        uint8_t kind = (uint8_t)e.kind;
        sha256_put(digest, bytes_of(&kind, 1));
        sha256_put_sized(digest, e.path);
        sha256_put(digest, bytes_of(e.digest.bytes, DIGEST_SIZE));
    }
    return true;
}

/* ---- libc's functions ---- */

// NOLINTBEGIN(readability-*-declaration*): libc's own declarations, but with default visibility

#define EXPORTED __attribute__((visibility("default")))

/* Declares |next| and sets it to libc's function |name|. */
#define NEXT(type, name) \
    static type *next;   \
    preload_find_next((name), &next);
#define CALLER __builtin_return_address(0)

static bool writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT); }

typedef int open_fn(const char *path, int flags, ...);
typedef int openat_fn(int directory, const char *path, int flags, ...);
typedef FILE *fopen_fn(const char *path, const char *mode);
typedef int xstat_fn(int version, const char *path, struct stat *ret_stat);
typedef int access_fn(const char *path, int mode);
typedef DIR *opendir_fn(const char *path);

/* Declares |mode| and sets it to the argument after |flags|, which exists only with some flags. */
#define MODE_OF(flags, mode)               \
    mode_t mode = 0;                       \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list list;                      \
        va_start(list, flags);             \
        mode = va_arg(list, mode_t);       \
        va_end(list);                      \
    }

#define HOOK_OPEN(name)                                   \
    EXPORTED int name(const char *path, int flags, ...);  \
    int name(const char *path, int flags, ...)            \
    {                                                     \
        MODE_OF(flags, mode)                              \
        NEXT(open_fn, #name)                              \
        note_open(CALLER, AT_FDCWD, path, writes(flags)); \
        return next(path, flags, mode);                   \
    }
#define HOOK_OPENAT(name)                                               \
    EXPORTED int name(int directory, const char *path, int flags, ...); \
    int name(int directory, const char *path, int flags, ...)           \
    {                                                                   \
        MODE_OF(flags, mode)                                            \
        NEXT(openat_fn, #name)                                          \
        note_open(CALLER, directory, path, writes(flags));              \
        return next(directory, path, flags, mode);                      \
    }
#define HOOK_FOPEN(name)                                                        \
    EXPORTED FILE *name(const char *path, const char *mode);                    \
    FILE *name(const char *path, const char *mode)                              \
    {                                                                           \
        NEXT(fopen_fn, #name)                                                   \
        note_open(CALLER, AT_FDCWD, path, mode[0] != 'r' || strchr(mode, '+')); \
        return next(path, mode);                                                \
    }
#define HOOK_STAT(name, type)                               \
    EXPORTED int name(const char *path, struct type *seen); \
    int name(const char *path, struct type *seen)           \
    {                                                       \
        static int (*next)(const char *, struct type *);    \
        preload_find_next(#name, &next);                    \
        note_open(CALLER, AT_FDCWD, path, false);           \
        return next(path, seen);                            \
    }
#define HOOK_STATAT(name, type)                                                       \
    EXPORTED int name(int directory, const char *path, struct type *seen, int flags); \
    int name(int directory, const char *path, struct type *seen, int flags)           \
    {                                                                                 \
        static int (*next)(int, const char *, struct type *, int);                    \
        preload_find_next(#name, &next);                                              \
        note_open(CALLER, directory, path, false);                                    \
        return next(directory, path, seen, flags);                                    \
    }
#define HOOK_XSTAT(name)                                                 \
    EXPORTED int name(int version, const char *path, struct stat *seen); \
    int name(int version, const char *path, struct stat *seen)           \
    {                                                                    \
        NEXT(xstat_fn, #name)                                            \
        note_open(CALLER, AT_FDCWD, path, false);                        \
        return next(version, path, seen);                                \
    }

#undef open
#undef open64
#undef openat
#undef openat64
#undef fopen
#undef fopen64
#undef stat
#undef stat64
#undef lstat
#undef lstat64
#undef fstatat
#undef fstatat64
HOOK_OPEN(open)
HOOK_OPEN(open64)
HOOK_OPENAT(openat)
HOOK_OPENAT(openat64)
HOOK_FOPEN(fopen)
HOOK_FOPEN(fopen64)
HOOK_XSTAT(__xstat)
HOOK_XSTAT(__lxstat)
HOOK_STAT(stat, stat)
HOOK_STAT(stat64, stat64)
HOOK_STAT(lstat, stat)
HOOK_STAT(lstat64, stat64)
HOOK_STATAT(fstatat, stat)
HOOK_STATAT(fstatat64, stat64)

EXPORTED int statx(int directory, const char *path, int flags, unsigned mask, struct statx *seen);
int statx(int directory, const char *path, int flags, unsigned mask, struct statx *seen)
{
    static int (*next)(int, const char *, int, unsigned, struct statx *);
    preload_find_next("statx", &next);
    note_open(CALLER, directory, path, false);
    return next(directory, path, flags, mask, seen);
}

EXPORTED int access(const char *path, int mode);
int access(const char *path, int mode)
{
    NEXT(access_fn, "access")
    note_open(CALLER, AT_FDCWD, path, (mode & W_OK) != 0);
    return next(path, mode);
}

EXPORTED DIR *opendir(const char *path);
DIR *opendir(const char *path)
{
    NEXT(opendir_fn, "opendir")
    if (is_noted(CALLER))
        recording.trouble = "it lists a directory";
    return next(path);
}
// NOLINTEND(readability-*-declaration*)
