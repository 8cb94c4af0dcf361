/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/launcher/replay.h"

#include "libclient/rtc/files.h"
#include "libclient/rtc/notes.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define WRITTEN_MAX 64

struct replay {
    const struct replay_paths *paths;
    const char *written[WRITTEN_MAX]; /* files that the compiler wrote */
    size_t written_count;
    unsigned begun, started; /* |begun| processes wrote notes; |started| processes were started */
    bool has_exec;           /* a process became another program (exec) without fork */
};

static void note(enum file_use use, bool writes, const char *path)
{
    files_note_call((struct file_call){ NULL, AT_FDCWD, use, writes }, path);
}

/* Removes the first note from |notes| and returns it. Its first character is its kind. Returns NULL
 * if no note is left. */
static const char *next(struct bytes *notes)
{
    const char *one = (const char *)notes->data;
    const char *end = notes->size ? memchr(one, '\0', notes->size) : NULL;
    if (!end || end == one)
        return NULL;
    size_t size = (size_t)(end - one) + 1;
    *notes = bytes_of(notes->data + size, notes->size - size);
    return one;
}

static bool is_written(const struct replay *r, const char *path)
{
    for (size_t i = 0; i < r->written_count; i++)
        if (strcmp(r->written[i], path) == 0)
            return true;
    return false;
}

static bool is_output(const char *path, const struct replay_paths *paths)
{
    return strcmp(path, paths->output) == 0 || strcmp(path, paths->dependencies) == 0;
}

static bool is_empty_directory(const char *path, const struct stat *seen)
{
    bool is_empty = true;
    DIR *directory = S_ISDIR(seen->st_mode) ? opendir(path) : NULL;
    if (!directory)
        return false;
    for (const struct dirent *one = readdir(directory); one; one = readdir(directory))
        is_empty &= strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0;
    closedir(directory);
    return is_empty;
}

/* Notes a file that the compiler wrote, because other programs can see it. Leaves out the outputs,
 * files that the compiler has removed, and empty directories: clang 14 leaves its directory of
 * temporary files behind, and nothing needs it. */
static void note_written(const char *path, const struct replay_paths *paths)
{
    struct stat seen;
    if (!is_output(path, paths) && strcmp(path, "/dev/null") != 0 && lstat(path, &seen) == 0 &&
        !is_empty_directory(path, &seen))
        note(FILE_USE_OPEN, true, path);
}

/* Returns whether the first program that wrote notes is |compiler|.  Another program may have
 * become |compiler| without a note, and may have read files before. */
static bool begins_with(struct bytes notes, const char *compiler)
{
    const char *begin = next(&notes), *program = next(&notes);
    return begin && begin[0] == NOTE_BEGIN && program && program[0] == FILE_USE_RUN &&
           strcmp(program + 1, compiler) == 0;
}

/* Returns whether |notes| has the note |begin| of the same process before. */
static bool begins_again(struct bytes notes, const char *begin)
{
    for (const char *one = next(&notes); one && one != begin; one = next(&notes))
        if (strcmp(one, begin) == 0)
            return true;
    return false;
}

static void find_written(struct replay *r, struct bytes notes)
{
    const struct bytes all = notes;
    for (const char *one = next(&notes); one; one = next(&notes)) {
        r->begun += one[0] == NOTE_BEGIN;
        r->has_exec |= one[0] == NOTE_BEGIN && begins_again(all, one);
        r->started += one[0] == NOTE_PROCESS;
        if (one[0] != NOTE_WRITE || is_written(r, one + 1))
            continue;
        note_written(one + 1, r->paths);
        if (r->written_count < WRITTEN_MAX)
            r->written[r->written_count++] = one + 1;
    }
}

/* Returns whether |path| is a precompiled header or module.  For such a file, clang examines the
 * times of further files, which the manifest does not have. */
static bool is_precompiled(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot &&
           (strcmp(dot, ".pch") == 0 || strcmp(dot, ".gch") == 0 || strcmp(dot, ".pcm") == 0);
}

static void replay_one(const struct replay *r, char kind, const char *path)
{
    if (kind == FILE_USE_OPEN && is_precompiled(path) && access(path, F_OK) == 0)
        files_refuse("it reads a precompiled header or module");
    switch (kind) {
    case NOTE_LOST: files_refuse("it opens a file or library whose path is not known"); break;
    case NOTE_CHDIR: files_note_chdir(); break;
    case FILE_USE_RUN: note(FILE_USE_RUN, false, path); break;
    case FILE_USE_STAT:
    case FILE_USE_OPEN:
    case FILE_USE_LIST:
        if (strcmp(path, r->paths->input) != 0 && !is_output(path, r->paths) &&
            !is_written(r, path))
            note((enum file_use)kind, false, path);
        break;
    default: break;
    }
}

void replay_notes(struct bytes notes, const struct replay_paths *paths)
{
    struct replay r = { .paths = paths, .started = 1 };
    find_written(&r, notes);
    if (!begins_with(notes, paths->compiler))
        files_refuse("another program than the named compiler was started");
    /* A process that wrote no notes, for example because it is statically linked, may have read any
     * file. After an exec without fork, the numbers may be equal even so. */
    if (r.begun != r.started || r.has_exec)
        files_note_process(NULL);
    for (const char *one = next(&notes); one; one = next(&notes))
        replay_one(&r, one[0], one + 1);
}

bool replay_has_written(struct bytes notes, const struct stat *file)
{
    char wanted[NOTES_FILE_SIZE];
    notes_file(file, wanted);
    for (const char *one = next(&notes); one; one = next(&notes))
        if (one[0] == NOTE_FILE && strcmp(one + 1, wanted) == 0)
            return true;
    return false;
}
