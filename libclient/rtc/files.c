/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/files.h"

#include "common/base/cleanup.h"
#include "common/base/hash_table.h"
#include "engine/digest/sha256.h"
#include "libclient/rtc/contents.h"
#include "libclient/rtc/notes.h"
#include "libclient/rtc/words.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define MANIFEST_MAX (1u << 20)

enum entry_kind {
    ENTRY_FILE = 1,  /* a file that was read */
    ENTRY_DIRECTORY, /* a directory that was looked for, and exists */
    ENTRY_ABSENT,
    ENTRY_PRESENT, /* a file that was looked for, and exists */
    ENTRY_LISTING, /* a directory whose entries were listed */
    /* a file that is absent from the program's directory; the path is relative to that directory */
    ENTRY_ABSENT_BESIDE,
    ENTRY_NULL, /* /dev/null, which is always empty */
};

struct seen {
    struct hash_link link;
    size_t at, size;
};

struct directory {
    dev_t device;
    ino_t inode;
};

struct recording {
    const struct rtc_library *library; /* NULL if nothing is noted now */
    /* sized texts: a file_use, then the path including its NUL */
    struct buffer paths;
    struct hash_table seen;
    struct buffer created; /* directories that the compile made: sized texts */
    /* start of the compile, by the clock that Linux uses for the times of files */
    uint64_t began_ns;
    unsigned others;
    struct directory directory; /* the current directory when the compile began */
    unsigned chdirs;
    const char *trouble; /* why the compile cannot be stored, or NULL */
    const char *source;
    bool expands_name;
};

static __thread struct recording recording;

static _Atomic unsigned recording_count;
/* How often a compiler used a file, or started a process, on a thread that records nothing. */
static _Atomic unsigned used_by_others;
static _Atomic unsigned chdirs;

/* ---- noting ---- */

static uint64_t hash_of(struct bytes text)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < text.size; i++)
        hash = (hash ^ text.data[i]) * 1099511628211u;
    return hash;
}

/* Returns whether |text| was noted.  A compile examines hundreds of paths, many of them more than
 * once, so this function compares texts only if their hashes are equal. */
static bool is_in_paths(struct bytes text, uint64_t hash)
{
    HASH_EACH (&recording.seen, hash, struct seen, link, one)
        if (one->size == text.size &&
            memcmp(recording.paths.data + one->at, text.data, text.size) == 0)
            return true;
    return false;
}

/* Returns whether to note a call from the address |caller|.  NVRTC opens its files itself, so only
 * calls from its own code count: drivers and libc also open files on this thread, but these files
 * do not influence the output. comgr, with which hiprtc compiles, opens files through any library,
 * so all calls count. */
static bool is_noted(const void *caller)
{
    if (!recording.library) {
        if (recording_count && rtc_is_compiler_code(caller))
            used_by_others++;
        return false;
    }
    return recording.library->kind != RTC_NVRTC || rtc_is_compiler_code(caller);
}

/* Returns whether |path| is in a directory that this compile made.  The manifest needs no entry for
 * such a file, because the compiler itself wrote it. */
static bool is_own_file(const char *path)
{
    struct reader r = reader_of(buffer_view(&recording.created));
    while (reader_left(&r)) {
        struct bytes directory = reader_sized(&r);
        if (strncmp(path, (const char *)directory.data, directory.size) == 0 &&
            (path[directory.size] == '/' || path[directory.size] == '\0'))
            return true;
    }
    return false;
}

/* Returns whether |path| is in /proc or /sys, whose files describe this process or this host.  The
 * manifest needs no entry for them, because it is only used for compiles on this host. */
static bool is_kernels_file(const char *path)
{
    return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0;
}

/* Returns whether |path| is a file of the cache in which comgr 3 keeps its results.  LLVM gives
 * these files their names.  The manifest needs no entry for them, because they do not change a
 * result. */
static bool is_in_comgrs_cache(const char *path)
{
    static const char *const beginnings[] = { "/llvmcache-", "/llvmcache.timestamp",
                                              "/amdgpu-compiler-" };
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; slash && i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
        if (strncmp(slash, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

static void note_use(enum file_use use, const char *path)
{
    char text[PATH_MAX + 1];
    size_t size = strlen(path) + 1;
    if (size > PATH_MAX) {
        recording.trouble = "a path is too long";
        return;
    }
    text[0] = (char)use;
    memcpy(text + 1, path, size);
    struct bytes noted = bytes_of(text, size + 1);
    uint64_t hash = hash_of(noted);
    if (is_in_paths(noted, hash))
        return;
    buffer_put_sized(&recording.paths, noted);
    struct seen *one = recording.paths.failed ? NULL : malloc(sizeof(*one));
    recording.paths.failed |= !one;
    if (!one)
        return;
    *one = (struct seen){ .at = recording.paths.size - noted.size, .size = noted.size };
    hash_table_add(&recording.seen, &one->link, hash);
}

static void note_for_launcher(const struct file_call *call, const char *path)
{
    if (!path || !*path || is_kernels_file(path))
        return;
    if (call->directory != AT_FDCWD && path[0] != '/')
        notes_add(NOTE_LOST, "");
    else
        notes_add(call->writes ? NOTE_WRITE : (char)call->use, path);
}

void files_note_call(struct file_call call, const char *path)
{
    if (notes_are_wanted()) {
        note_for_launcher(&call, path);
        return;
    }
    if (!is_noted(call.caller) || !path || !*path)
        return;
    int before = errno;
    if (call.directory != AT_FDCWD && path[0] != '/')
        recording.trouble = "it opens a file relative to a directory's descriptor";
    else if (is_own_file(path) || is_kernels_file(path) || is_in_comgrs_cache(path))
        ;
    else if (call.writes)
        recording.trouble = "it writes a file";
    else
        note_use(call.use, path);
    errno = before;
}

void files_note_process(const void *caller)
{
    if (notes_are_wanted())
        notes_add(NOTE_PROCESS, "");
    else if (is_noted(caller))
        recording.trouble = "it starts a process, whose files are not seen";
}

void files_note_written(int file)
{
    char text[NOTES_FILE_SIZE];
    struct stat seen;
    int before = errno;
    if (notes_are_wanted() && fstat(file, &seen) == 0)
        notes_add(NOTE_FILE, notes_file(&seen, text));
    errno = before;
}

void files_refuse(const char *reason) { recording.trouble = reason; }

void files_note_created(const void *caller, const char *directory)
{
    if (notes_are_wanted())
        notes_add(NOTE_WRITE, directory);
    if (notes_are_wanted() || !is_noted(caller))
        return;
    buffer_put_sized(&recording.created, bytes_of(directory, strlen(directory)));
    recording.paths.failed |= recording.created.failed;
}

void files_note_chdir(void)
{
    if (notes_are_wanted())
        notes_add(NOTE_CHDIR, "");
    chdirs++;
}

static uint64_t nanoseconds(struct timespec t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct directory current_directory(void)
{
    struct stat seen;
    if (stat(".", &seen))
        return (struct directory){ 0 };
    return (struct directory){ seen.st_dev, seen.st_ino };
}

static bool is_same_directory(struct directory a, struct directory b)
{
    return a.device == b.device && a.inode == b.inode;
}

void files_begin(const struct rtc_library *library, const char *source)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    recording = (struct recording){ .library = library,
                                    .began_ns = nanoseconds(now),
                                    .others = used_by_others,
                                    .chdirs = chdirs,
                                    .directory = current_directory(),
                                    .source = source };
    buffer_init(&recording.paths, MANIFEST_MAX);
    buffer_init(&recording.created, MANIFEST_MAX);
    recording_count++;
}

bool files_are_noted(void) { return recording.library != NULL; }

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

/* Returns whether a file or directory was changed after the compile had begun.  Then the compile
 * may have used an older state than |seen|. */
static bool changed_meanwhile(const struct stat *seen)
{
    return nanoseconds(seen->st_mtim) >= recording.began_ns ||
           nanoseconds(seen->st_ctim) >= recording.began_ns;
}

static void put_times(struct buffer *to, const struct stat *seen)
{
    buffer_put_u64(to, nanoseconds(seen->st_mtim));
    buffer_put_u64(to, nanoseconds(seen->st_ctim));
}

static bool expands_name(const char *path)
{
    BUFFER_AUTO struct buffer content;
    return !contents_read(path, &content) ||
           words_expand_name(buffer_view(&content), recording.source);
}

/* Returns NULL, or why the compile that has read the file cannot be stored. */
static const char *examine_content(const char *path, const struct stat *seen,
                                   struct digest *ret_digest)
{
    struct contents contents;
    if (!contents_of(path, seen, &contents))
        return "a file that it read cannot be read again";
    if (contents.has_time)
        return "a file that it read contains the time of its compile, or may contain it";
    if (contents.has_name && !recording.expands_name)
        recording.expands_name = expands_name(path);
    *ret_digest = contents.digest;
    return NULL;
}

/* Identifies a program or library by its inode number, size and times, because reading it may take
 * longer than a compile. */
static struct digest digest_state(const struct stat *seen)
{
    BUFFER_AUTO struct buffer state;
    buffer_init(&state, 4 * sizeof(uint64_t));
    buffer_put_u64(&state, seen->st_ino);
    buffer_put_u64(&state, (uint64_t)seen->st_size);
    put_times(&state, seen);
    return sha256_of(buffer_view(&state));
}

static const char *put_file(struct buffer *to, enum file_use use, struct bytes path,
                            const struct stat *seen)
{
    struct digest digest;
    const char *trouble = NULL;
    if (changed_meanwhile(seen))
        return "a file that it read changed meanwhile";
    if (use == FILE_USE_RUN)
        digest = digest_state(seen);
    else
        trouble = examine_content((const char *)path.data, seen, &digest);
    if (trouble)
        return trouble;
    put_kind(to, ENTRY_FILE, path);
    buffer_put_u64(to, (uint64_t)seen->st_size);
    put_times(to, seen);
    buffer_put(to, digest.bytes, DIGEST_SIZE);
    return NULL;
}

static bool is_null_device(const struct stat *seen)
{
    return S_ISCHR(seen->st_mode) && seen->st_rdev == makedev(1, 3);
}

static const char *put_existing(struct buffer *to, enum file_use use, struct bytes path,
                                const struct stat *seen)
{
    if (use == FILE_USE_LIST && changed_meanwhile(seen))
        return "a directory that it listed changed meanwhile";
    if (use == FILE_USE_LIST) {
        put_kind(to, ENTRY_LISTING, path);
        put_times(to, seen);
    } else if (S_ISDIR(seen->st_mode)) {
        put_kind(to, ENTRY_DIRECTORY, path);
    } else if (use == FILE_USE_STAT) {
        put_kind(to, ENTRY_PRESENT, path);
    } else if (S_ISREG(seen->st_mode)) {
        return put_file(to, use, path, seen);
    } else if (is_null_device(seen)) {
        put_kind(to, ENTRY_NULL, path);
    } else {
        return "it reads a device or a socket";
    }
    return NULL;
}

static const char *put_entry(struct buffer *to, enum file_use use, struct bytes path)
{
    struct stat seen;
    if (stat((const char *)path.data, &seen) == 0)
        return put_existing(to, use, path, &seen);
    if (use == FILE_USE_RUN)
        return "a program or library of the compiler cannot be examined";
    put_kind(to, ENTRY_ABSENT, path);
    return errno == ENOENT || errno == ENOTDIR ? NULL : "a file cannot be examined";
}

/* Appends the entry of a noted path.  Appends nothing for a path that was examined (stat) if the
 * compile also opened it. */
static const char *put_noted(struct buffer *to, struct bytes noted)
{
    char text[PATH_MAX + 1];
    struct bytes path = bytes_of(noted.data + 1, noted.size - 1);
    struct bytes opened = bytes_of(text, noted.size);
    memcpy(text, noted.data, noted.size);
    text[0] = FILE_USE_OPEN;
    bool is_covered = noted.data[0] == FILE_USE_STAT && is_in_paths(opened, hash_of(opened));
    return is_covered ? NULL : put_entry(to, (enum file_use)noted.data[0], path);
}

static void forget_seen(void)
{
    HASH_ALL (&recording.seen, struct seen, link, one) {
        hash_table_remove(&recording.seen, &one->link);
        free(one);
    }
    hash_table_done(&recording.seen);
}

struct files_outcome files_end(struct buffer *to)
{
    struct reader r = reader_of(buffer_view(&recording.paths));
    recording.library = NULL;
    recording_count--;
    const char *trouble = recording.paths.failed ? "it reads too many files" : recording.trouble;
    if (!trouble && recording.others != used_by_others)
        trouble = "it opens files or starts a process on another thread";
    /* The noted paths may be relative to the current directory, so it must not have changed.
     * |chdirs| alone does not show this, because a direct system call can change the directory
     * without being counted. */
    if (!trouble && (recording.chdirs != chdirs ||
                     !is_same_directory(recording.directory, current_directory())))
        trouble = "the current directory changed meanwhile";
    while (!trouble && reader_left(&r))
        trouble = put_noted(to, reader_sized(&r));
    buffer_done(&recording.paths);
    forget_seen();
    buffer_done(&recording.created);
    return (struct files_outcome){ .reason = trouble, .expands_name = recording.expands_name };
}

struct entry {
    enum entry_kind kind;
    struct bytes path; /* including its NUL */
    uint64_t size, mtime_ns, ctime_ns;
    struct digest digest;
};

static bool read_entry(struct reader *r, struct entry *ret_entry)
{
    struct entry e = { .kind = (enum entry_kind)reader_u8(r), .path = reader_sized(r) };
    if (e.kind == ENTRY_FILE)
        e.size = reader_u64(r);
    if (e.kind == ENTRY_FILE || e.kind == ENTRY_LISTING) {
        e.mtime_ns = reader_u64(r);
        e.ctime_ns = reader_u64(r);
    }
    if (e.kind == ENTRY_FILE) {
        struct bytes digest = reader_take(r, DIGEST_SIZE);
        if (digest.size)
            memcpy(e.digest.bytes, digest.data, DIGEST_SIZE);
    }
    *ret_entry = e;
    return !r->failed && e.kind >= ENTRY_FILE && e.kind <= ENTRY_NULL && e.path.size &&
           e.path.size <= PATH_MAX && e.path.data[e.path.size - 1] == '\0';
}

static bool has_same_times(const struct entry *e, const struct stat *seen)
{
    return nanoseconds(seen->st_mtim) == e->mtime_ns && nanoseconds(seen->st_ctim) == e->ctime_ns;
}

static bool is_same_file(const struct entry *e, const struct stat *seen)
{
    struct digest digest;
    if (!S_ISREG(seen->st_mode) || (uint64_t)seen->st_size != e->size)
        return false;
    return has_same_times(e, seen) || (digest_content((const char *)e->path.data, &digest) &&
                                       digest_equal(&digest, &e->digest));
}

static bool is_absent(const char *path)
{
    struct stat seen;
    return stat(path, &seen) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

static size_t directory_size(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? (size_t)(slash - name) + 1 : 0;
}

static bool is_absent_beside(const char *path, const char *name)
{
    char joined[2 * PATH_MAX];
    int size = snprintf(joined, sizeof(joined), "%.*s%s", (int)directory_size(name), name, path);
    return size > 0 && size < (int)sizeof(joined) && is_absent(joined);
}

static bool is_same(const struct entry *e, const char *name)
{
    struct stat seen;
    const char *path = (const char *)e->path.data;
    if (e->kind == ENTRY_ABSENT)
        return is_absent(path);
    if (e->kind == ENTRY_ABSENT_BESIDE)
        return is_absent_beside(path, name);
    if (stat(path, &seen))
        return false;
    switch (e->kind) {
    case ENTRY_FILE: return is_same_file(e, &seen);
    case ENTRY_DIRECTORY: return S_ISDIR(seen.st_mode);
    case ENTRY_PRESENT: return !S_ISDIR(seen.st_mode);
    case ENTRY_LISTING: return S_ISDIR(seen.st_mode) && has_same_times(e, &seen);
    case ENTRY_NULL: return is_null_device(&seen);
    case ENTRY_ABSENT:
    case ENTRY_ABSENT_BESIDE: break;
    }
    return false;
}

bool files_are_same(struct bytes manifest, const char *name)
{
    struct reader r = reader_of(manifest);
    struct entry e;
    while (reader_left(&r))
        if (!read_entry(&r, &e) || !is_same(&e, name))
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
        /* the directory's mtime changes whenever an entry is added or removed */
        if (e.kind == ENTRY_LISTING)
            sha256_put(digest, bytes_of(&e.mtime_ns, sizeof(e.mtime_ns)));
    }
    return true;
}

/* ---- the program's name ---- */

static bool begins_with(const char *path, const char *beginning, size_t size)
{
    return strncmp(path, beginning, size) == 0;
}

/* Returns whether |path| is in the directory of the program |name|, but is not the program itself.
 * Files "__nv_..." in the current directory do not count, because NVRTC looks there for two of its
 * own files. */
static bool is_beside(const char *path, const char *name)
{
    size_t size = directory_size(name);
    if (strcmp(path, name) == 0)
        return false;
    if (!size)
        return path[0] != '/' && !begins_with(path, "__nv_", 5);
    return begins_with(path, name, size);
}

static bool is_missing_beside(const struct entry *e, const char *name)
{
    return e->kind == ENTRY_ABSENT && directory_size(name) &&
           is_beside((const char *)e->path.data, name);
}

bool files_use_directory(struct bytes manifest, const char *name)
{
    struct reader r = reader_of(manifest);
    struct entry e;
    while (reader_left(&r))
        if (!read_entry(&r, &e) ||
            (is_beside((const char *)e.path.data, name) && !is_missing_beside(&e, name)))
            return true;
    return false;
}

static bool is_prefix(const char *path, const char *whole)
{
    size_t size = strlen(path);
    return begins_with(whole, path, size) && (whole[size] == '/' || whole[size] == '\0');
}

struct place {
    const char *name, *environment;
    char directory[PATH_MAX], path[2 * PATH_MAX];
};

static void find_place(const char *name, struct place *ret_place)
{
    ret_place->name = name;
    ret_place->environment = getenv("PWD");
    if (!getcwd(ret_place->directory, sizeof(ret_place->directory)))
        ret_place->directory[0] = '\0';
    snprintf(ret_place->path, sizeof(ret_place->path), "%s/%s",
             name[0] == '/' ? "" : ret_place->directory, name[0] == '/' ? name + 1 : name);
}

static bool is_of_place(const struct entry *e, const struct place *place)
{
    const char *path = (const char *)e->path.data;
    if (e->kind == ENTRY_FILE || e->kind == ENTRY_LISTING || e->kind == ENTRY_NULL)
        return false;
    return strcmp(path, place->name) == 0 || strcmp(path, ".") == 0 ||
           is_prefix(path, place->path) || strcmp(path, place->directory) == 0 ||
           (place->environment && strcmp(path, place->environment) == 0);
}

static void put_missing_beside(struct buffer *to, const struct entry *e, const char *name)
{
    size_t size = directory_size(name);
    put_kind(to, ENTRY_ABSENT_BESIDE, bytes_of(e->path.data + size, e->path.size - size));
}

bool files_for_any_name(struct bytes manifest, const char *name, struct buffer *to)
{
    struct place place;
    struct reader r = reader_of(manifest);
    struct entry e;
    find_place(name, &place);
    while (reader_left(&r)) {
        const uint8_t *begin = manifest.data + (manifest.size - reader_left(&r));
        if (!read_entry(&r, &e))
            return false;
        const uint8_t *end = manifest.data + (manifest.size - reader_left(&r));
        if (is_missing_beside(&e, name))
            put_missing_beside(to, &e, name);
        else if (!is_of_place(&e, &place))
            buffer_put(to, begin, (size_t)(end - begin));
    }
    return !to->failed;
}
