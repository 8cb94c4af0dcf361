/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/manifest.h"

#include "engine/digest/sha256.h"
#include "libclient/rtc/contents.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define OPENED_MAX (1u << 20)

enum entry_kind {
    ENTRY_FILE = 1,  /* a file that was read */
    ENTRY_DIRECTORY, /* a directory that was looked for, and exists */
    ENTRY_ABSENT,
    ENTRY_PRESENT, /* a file that was looked for, and exists */
    ENTRY_LISTING, /* a directory whose entries were listed */
    /* a file that is absent from the program's directory; the path is relative to that directory */
    ENTRY_ABSENT_BESIDE,
    ENTRY_NULL, /* /dev/null, which is always empty */
    /* Another name of a file that was read: a link.  With #pragma once, a compiler does not read
     * the file again under this name. */
    ENTRY_LINK,
};

struct opened { /* a file that was read, and the place of its path in the manifest */
    uint64_t device, inode, path, path_size;
};

/* ---- writing ---- */

void manifest_begin(struct manifest_writer *w, struct buffer *to, uint64_t began_ns)
{
    *w = (struct manifest_writer){ .to = to, .began_ns = began_ns };
    buffer_init(&w->opened, OPENED_MAX);
    buffer_init(&w->names, OPENED_MAX);
}

void manifest_end(struct manifest_writer *w) { buffer_done(&w->opened); }

static void put_kind(struct buffer *to, enum entry_kind kind, struct bytes path)
{
    buffer_put_u8(to, (uint8_t)kind);
    buffer_put_sized(to, path);
}

/* Returns whether a file or directory was changed after the compile had begun.  Then the compile
 * may have used an older state. */
static bool changed_meanwhile(const struct manifest_writer *w, const struct file_state *state)
{
    return file_state_is_since(state, w->began_ns);
}

static void put_state(struct buffer *to, const struct file_state *state)
{
    buffer_put_u64(to, state->device);
    buffer_put_u64(to, state->inode);
    buffer_put_u64(to, state->size);
    buffer_put_u64(to, state->mtime_ns);
    buffer_put_u64(to, state->ctime_ns);
}

/* Returns NULL, or why the compile that has read the file cannot be stored. */
static const char *examine_content(struct manifest_writer *w, const char *path,
                                   const struct file_state *state, struct digest *ret_digest)
{
    struct contents contents;
    if (!contents_of(path, state, &contents))
        return "a file that it read cannot be read again";
    if (contents.has_time)
        return "a file that it read contains the time of its compile, or may contain it";
    if (contents.names)
        buffer_put(&w->names, &contents.names, sizeof(contents.names));
    w->has_unknown_names |= !contents.names || w->names.failed;
    *ret_digest = contents.digest;
    return NULL;
}

/* Identifies a program or library without its content, because reading it may take longer than a
 * compile.  Leaves out the device's number, which differs between containers. */
static struct digest digest_state(const struct file_state *state)
{
    struct file_state same = *state;
    same.device = 0;
    return sha256_of(bytes_of(&same, sizeof(same)));
}

/* Makes a digest of the names and kinds of the entries, in any order. */
static bool digest_listing(const char *path, struct digest *ret_digest)
{
    const struct dirent *entry;
    DIR *directory = opendir(path);
    *ret_digest = (struct digest){ .bytes = { 0 } };
    if (!directory)
        return false;
    errno = 0;
    while ((entry = readdir(directory))) {
        struct sha256 s;
        sha256_init(&s);
        sha256_put(&s, bytes_of(&entry->d_type, sizeof(entry->d_type)));
        sha256_put_sized(&s, bytes_of_text(entry->d_name));
        const struct digest one = sha256_end(&s);
        for (size_t i = 0; i < DIGEST_SIZE; i++)
            ret_digest->bytes[i] ^= one.bytes[i];
    }
    bool is_whole = errno == 0;
    closedir(directory);
    return is_whole;
}

static bool find_opened(const struct manifest_writer *w, const struct file_state *state,
                        struct opened *ret_opened)
{
    for (size_t at = 0; at < w->opened.size; at += sizeof(*ret_opened)) {
        memcpy(ret_opened, w->opened.data + at, sizeof(*ret_opened));
        if (ret_opened->device == state->device && ret_opened->inode == state->inode)
            return true;
    }
    return false;
}

/* If the file was read under another name before, says so and returns true. */
static bool put_link(struct manifest_writer *w, struct bytes path, const struct file_state *state)
{
    struct opened other;
    if (!find_opened(w, state, &other) || w->to->failed)
        return false;
    char *name = strdup((const char *)w->to->data + other.path);
    put_kind(w->to, ENTRY_LINK, path);
    buffer_put_sized(w->to, bytes_of(name, name ? other.path_size : 0));
    w->to->failed |= !name;
    free(name);
    return true;
}

static void note_opened(struct manifest_writer *w, struct bytes path,
                        const struct file_state *state)
{
    const struct opened opened = { state->device, state->inode, w->to->size - path.size,
                                   path.size };
    buffer_put(&w->opened, &opened, sizeof(opened));
}

static const char *put_read(struct manifest_writer *w, enum file_use use, struct bytes path,
                            const struct file_state *state)
{
    struct buffer *to = w->to;
    struct digest digest;
    const char *trouble = NULL;
    if (changed_meanwhile(w, state))
        return use == FILE_USE_LIST ? "a directory that it listed changed meanwhile"
                                    : "a file that it read changed meanwhile";
    if (use == FILE_USE_RUN)
        digest = digest_state(state);
    else if (use == FILE_USE_OPEN)
        trouble = examine_content(w, (const char *)path.data, state, &digest);
    else if (!digest_listing((const char *)path.data, &digest))
        trouble = "a directory that it listed cannot be listed again";
    if (trouble)
        return trouble;
    const bool is_link = use == FILE_USE_OPEN && put_link(w, path, state);
    put_kind(to, use == FILE_USE_LIST ? ENTRY_LISTING : ENTRY_FILE, path);
    if (use == FILE_USE_OPEN && !is_link)
        note_opened(w, path, state);
    put_state(to, state);
    buffer_put(to, digest.bytes, DIGEST_SIZE);
    return w->opened.failed ? "it reads too many files" : NULL;
}

/* Appends the entry of a file that the compiler looked for and did not open. */
static void put_present(struct manifest_writer *w, struct bytes path,
                        const struct file_state *state)
{
    if (!put_link(w, path, state))
        put_kind(w->to, ENTRY_PRESENT, path);
}

static bool is_null_device(const struct stat *seen)
{
    return S_ISCHR(seen->st_mode) && seen->st_rdev == makedev(1, 3);
}

static const char *put_existing(struct manifest_writer *w, enum file_use use, struct bytes path,
                                const struct stat *seen)
{
    const struct file_state state = file_state_of(seen);
    if (use == FILE_USE_LIST)
        return put_read(w, use, path, &state);
    if (S_ISDIR(seen->st_mode))
        put_kind(w->to, ENTRY_DIRECTORY, path);
    else if (use == FILE_USE_STAT)
        put_present(w, path, &state);
    else if (S_ISREG(seen->st_mode))
        return put_read(w, use, path, &state);
    else if (is_null_device(seen))
        put_kind(w->to, ENTRY_NULL, path);
    else
        return "it reads a device or a socket";
    return NULL;
}

const char *manifest_put(struct manifest_writer *w, enum file_use use, struct bytes path)
{
    struct stat seen;
    if (stat((const char *)path.data, &seen) == 0)
        return put_existing(w, use, path, &seen);
    if (use == FILE_USE_RUN)
        return "a program or library of the compiler cannot be examined";
    put_kind(w->to, ENTRY_ABSENT, path);
    return errno == ENOENT || errno == ENOTDIR ? NULL : "a file cannot be examined";
}

/* ---- reading ---- */

struct entry {
    enum entry_kind kind;
    struct bytes path;   /* including its NUL */
    struct bytes target; /* of a link: the name under which the file was read, including its NUL */
    struct file_state state;
    struct digest digest;
};

static struct file_state read_state(struct reader *r)
{
    struct file_state state = { .device = reader_u64(r) };
    state.inode = reader_u64(r);
    state.size = reader_u64(r);
    state.mtime_ns = reader_u64(r);
    state.ctime_ns = reader_u64(r);
    return state;
}

static bool is_path(struct bytes path)
{
    return path.size && path.size <= PATH_MAX && path.data[path.size - 1] == '\0';
}

static bool read_entry(struct reader *r, struct entry *ret_entry)
{
    struct entry e = { .kind = (enum entry_kind)reader_u8(r), .path = reader_sized(r) };
    if (e.kind == ENTRY_LINK)
        e.target = reader_sized(r);
    if (e.kind == ENTRY_FILE || e.kind == ENTRY_LISTING) {
        e.state = read_state(r);
        struct bytes digest = reader_take(r, DIGEST_SIZE);
        if (digest.size)
            memcpy(e.digest.bytes, digest.data, DIGEST_SIZE);
    }
    *ret_entry = e;
    return !r->failed && e.kind >= ENTRY_FILE && e.kind <= ENTRY_LINK && is_path(e.path) &&
           (e.kind != ENTRY_LINK || is_path(e.target));
}

static bool is_same_content(const struct entry *e, const struct file_state *now)
{
    struct contents contents;
    struct digest digest = digest_state(now);
    return now->size == e->state.size &&
           (digest_equal(&digest, &e->digest) ||
            (contents_of((const char *)e->path.data, now, &contents) &&
             digest_equal(&contents.digest, &e->digest)));
}

static bool is_same_listing(const struct entry *e)
{
    struct digest digest;
    return digest_listing((const char *)e->path.data, &digest) && digest_equal(&digest, &e->digest);
}

/* Does not compare with numbers of the compile, because each container may have others. */
static bool is_same_link(const struct entry *e, const struct stat *now)
{
    struct stat target;
    return stat((const char *)e->target.data, &target) == 0 && target.st_dev == now->st_dev &&
           target.st_ino == now->st_ino;
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
    const struct file_state now = file_state_of(&seen);
    const bool is_same_state = file_state_equal(&now, &e->state);
    switch (e->kind) {
    case ENTRY_FILE: return S_ISREG(seen.st_mode) && (is_same_state || is_same_content(e, &now));
    case ENTRY_DIRECTORY: return S_ISDIR(seen.st_mode);
    case ENTRY_PRESENT: return !S_ISDIR(seen.st_mode);
    case ENTRY_LISTING: return S_ISDIR(seen.st_mode) && (is_same_state || is_same_listing(e));
    case ENTRY_LINK: return is_same_link(e, &seen);
    case ENTRY_NULL: return is_null_device(&seen);
    case ENTRY_ABSENT:
    case ENTRY_ABSENT_BESIDE: break;
    }
    return false;
}

bool manifest_is_current(struct bytes manifest, const char *name)
{
    struct reader r = reader_of(manifest);
    struct entry e;
    while (reader_left(&r))
        if (!read_entry(&r, &e) || !is_same(&e, name))
            return false;
    return true;
}

bool manifest_digest(struct bytes manifest, struct sha256 *digest)
{
    struct reader r = reader_of(manifest);
    struct entry e;
    while (reader_left(&r)) {
        if (!read_entry(&r, &e))
            return false;
        uint8_t kind = (uint8_t)e.kind;
        sha256_put(digest, bytes_of(&kind, 1));
        sha256_put_sized(digest, e.path);
        sha256_put_sized(digest, e.target);
        sha256_put(digest, bytes_of(e.digest.bytes, DIGEST_SIZE));
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

bool manifest_uses_directory(struct bytes manifest, const char *name)
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

bool manifest_for_any_name(struct bytes manifest, const char *name, struct buffer *to)
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
