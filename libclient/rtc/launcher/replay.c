/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/launcher/replay.h"

#include "libclient/rtc/files.h"
#include "libclient/rtc/notes.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define WRITTEN_MAX 64

struct replay {
    const struct replay_paths *paths;
    const char *written[WRITTEN_MAX]; /* files that the compiler wrote */
    size_t written_count;
    unsigned begun, started; /* |begun| processes wrote notes; |started| processes were started */
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

/* Notes a file that the compiler wrote, because other programs can see it. Leaves out the output,
 * and files that the compiler has removed. */
static void note_written(const char *path, const struct replay_paths *paths)
{
    struct stat seen;
    if (strcmp(path, paths->output) != 0 && strcmp(path, "/dev/null") != 0 &&
        lstat(path, &seen) == 0)
        note(FILE_USE_OPEN, true, path);
}

static void find_written(struct replay *r, struct bytes notes)
{
    for (const char *one = next(&notes); one; one = next(&notes)) {
        r->begun += one[0] == NOTE_BEGIN;
        r->started += one[0] == NOTE_PROCESS;
        if (one[0] != NOTE_WRITE || is_written(r, one + 1))
            continue;
        note_written(one + 1, r->paths);
        if (r->written_count < WRITTEN_MAX)
            r->written[r->written_count++] = one + 1;
    }
}

static void replay_one(const struct replay *r, char kind, const char *path)
{
    bool is_input = strcmp(path, r->paths->input) == 0,
         is_output = strcmp(path, r->paths->output) == 0;
    switch (kind) {
    case NOTE_LOST:
        files_note_call((struct file_call){ NULL, -1, FILE_USE_OPEN, false }, "relative");
        break;
    case NOTE_CHDIR: files_note_chdir(); break;
    case FILE_USE_RUN: note(FILE_USE_RUN, false, path); break;
    case FILE_USE_STAT:
    case FILE_USE_OPEN:
    case FILE_USE_LIST:
        if (!is_input && !is_output && !is_written(r, path))
            note((enum file_use)kind, false, path);
        break;
    default: break;
    }
}

void replay_notes(struct bytes notes, const struct replay_paths *paths)
{
    struct replay r = { .paths = paths, .started = 1 };
    find_written(&r, notes);
    /* A process that wrote no notes, for example because it is statically linked, may have read any
     * file. */
    if (r.begun != r.started)
        files_note_process(NULL);
    for (const char *one = next(&notes); one; one = next(&notes))
        replay_one(&r, one[0], one + 1);
}
