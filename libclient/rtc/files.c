/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/files.h"

#include "common/base/cleanup.h"
#include "common/base/hash_table.h"
#include "engine/digest/sha256.h"
#include "libclient/rtc/contents.h"
#include "libclient/rtc/notes.h"

#include <dirent.h>
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

struct seen {
    struct hash_link link;
    size_t at, size;
};

struct node { /* identifies a file or directory */
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
    struct node directory; /* the current directory when the compile began */
    unsigned chdirs;
    const char *trouble; /* why the compile cannot be stored, or NULL */
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
 * manifest needs no entry for them, because it is only used for compiles on this host.  A few names
 * in /proc lead to other files, and ".." leads out of /proc and /sys. */
static bool is_kernels_file(const char *path)
{
    static const char *const exits[] = { "/../", "/fd/", "/cwd/", "/root/", "/map_files/" };
    if (strncmp(path, "/sys/", 5) != 0 && strncmp(path, "/proc/", 6) != 0)
        return false;
    for (size_t i = 0; i < sizeof(exits) / sizeof(exits[0]); i++)
        if (strstr(path, exits[i]))
            return false;
    return true;
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

static struct node current_directory(void)
{
    struct stat seen;
    if (stat(".", &seen))
        return (struct node){ 0 };
    return (struct node){ seen.st_dev, seen.st_ino };
}

static bool is_same_node(struct node a, struct node b)
{
    return a.device == b.device && a.inode == b.inode;
}

void files_begin(const struct rtc_library *library)
{
    recording = (struct recording){ .library = library,
                                    .began_ns = file_clock_ns(),
                                    .others = used_by_others,
                                    .chdirs = chdirs,
                                    .directory = current_directory() };
    buffer_init(&recording.paths, MANIFEST_MAX);
    buffer_init(&recording.created, MANIFEST_MAX);
    recording_count++;
}

bool files_are_noted(void) { return recording.library != NULL; }

/* Appends the entry of a noted path.  Appends nothing for a path that was examined (stat) if the
 * compile also opened it. */
static const char *put_noted(struct manifest_writer *w, struct bytes noted)
{
    char text[PATH_MAX + 1];
    struct bytes path = bytes_of(noted.data + 1, noted.size - 1);
    struct bytes opened = bytes_of(text, noted.size);
    memcpy(text, noted.data, noted.size);
    text[0] = FILE_USE_OPEN;
    bool is_covered = noted.data[0] == FILE_USE_STAT && is_in_paths(opened, hash_of(opened));
    return is_covered ? NULL : manifest_put(w, (enum file_use)noted.data[0], path);
}

/* Appends the files that were only looked for last, because manifest_put needs to know those that
 * were read. */
static const char *put_all_noted(struct manifest_writer *w)
{
    const char *trouble = NULL;
    for (unsigned round = 0; round < 2; round++) {
        struct reader r = reader_of(buffer_view(&recording.paths));
        while (!trouble && reader_left(&r)) {
            struct bytes noted = reader_sized(&r);
            if ((noted.data[0] == FILE_USE_STAT) == (round == 1))
                trouble = put_noted(w, noted);
        }
    }
    return trouble;
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
    recording.library = NULL;
    recording_count--;
    const char *trouble = recording.paths.failed ? "it reads too many files" : recording.trouble;
    if (!trouble && recording.others != used_by_others)
        trouble = "it opens files or starts a process on another thread";
    /* The noted paths may be relative to the current directory, so it must not have changed.
     * |chdirs| alone does not show this, because a direct system call can change the directory
     * without being counted. */
    if (!trouble &&
        (recording.chdirs != chdirs || !is_same_node(recording.directory, current_directory())))
        trouble = "the current directory changed meanwhile";
    struct manifest_writer w;
    manifest_begin(&w, to, recording.began_ns);
    if (!trouble)
        trouble = put_all_noted(&w);
    manifest_end(&w);
    buffer_done(&recording.paths);
    forget_seen();
    buffer_done(&recording.created);
    return (struct files_outcome){ .reason = trouble,
                                   .names = w.names,
                                   .has_unknown_names = w.has_unknown_names };
}
