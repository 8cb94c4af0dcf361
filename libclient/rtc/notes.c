/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/notes.h"

#include "libclient/rtc/files.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNKNOWN -2

static _Atomic int descriptor = UNKNOWN; /* -1: no notes are wanted */
static _Atomic bool has_begun;
static unsigned long long loads; /* libraries loaded when they were last noted */

/* Returns the descriptor of the memory file, or -1 if there is none.  This process may have closed
 * the file, so the function checks that the number does not belong to another file now. */
static int find_file(void)
{
    struct stat seen;
    char *end;
    const char *value = getenv(NOTES_VARIABLE);
    long fd = value ? strtol(value, &end, 10) : -1;
    if (fd < 0 || fd > INT_MAX || *end != ':' || fstat((int)fd, &seen) ||
        strtoull(end + 1, &end, 10) != seen.st_dev || *end != ':' ||
        strtoull(end + 1, &end, 10) != seen.st_ino)
        return -1;
    return (int)fd;
}

bool notes_are_wanted(void)
{
    if (descriptor == UNKNOWN)
        descriptor = find_file();
    return descriptor >= 0;
}

static void write_note(char kind, const char *path)
{
    char text[PATH_MAX + 2] = { NOTE_LOST };
    size_t size = strlen(path);
    int file = find_file();
    if (size < PATH_MAX) {
        text[0] = kind;
        memcpy(text + 1, path, size + 1);
    } else {
        size = 0;
    }
    ssize_t ignored = file >= 0 ? write(file, text, size + 2) : 0;
    (void)ignored;
}

/* Leaves out libkiln-rtc itself, which does not change the output. */
static int note_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    loads = info->dlpi_adds;
    if (strchr(info->dlpi_name, '/') && !strstr(info->dlpi_name, "/libkiln-rtc.so"))
        write_note(FILE_USE_RUN, info->dlpi_name);
    return 0;
}

/* Notes this process's program and its libraries, which the dynamic linker has opened. */
static void begin(void)
{
    char program[PATH_MAX], process[16];
    ssize_t size = readlink("/proc/self/exe", program, sizeof(program) - 1);
    program[size > 0 ? size : 0] = '\0';
    snprintf(process, sizeof(process), "%d", (int)getpid());
    write_note(NOTE_BEGIN, process);
    write_note(FILE_USE_RUN, program);
    dl_iterate_phdr(note_object, NULL);
}

static int copy_counts(struct dl_phdr_info *info, size_t size, void *ret_info)
{
    (void)size;
    *(struct dl_phdr_info *)ret_info = *info;
    return 1;
}

/* Notes the libraries again if the process has loaded further ones, with dlopen.  The path of a
 * library that was closed again is not known any longer. */
__attribute__((destructor)) static void end(void)
{
    struct dl_phdr_info now = { .dlpi_adds = loads };
    if (!has_begun)
        return;
    dl_iterate_phdr(copy_counts, &now);
    if (now.dlpi_adds != loads)
        dl_iterate_phdr(note_object, NULL);
    if (now.dlpi_subs > 0)
        write_note(NOTE_LOST, "");
}

const char *notes_file(const struct stat *seen, char text[NOTES_FILE_SIZE])
{
    snprintf(text, NOTES_FILE_SIZE, "%llu:%llu", (unsigned long long)seen->st_dev,
             (unsigned long long)seen->st_ino);
    return text;
}

void notes_add(char kind, const char *text)
{
    int before = errno;
    if (!atomic_exchange(&has_begun, true))
        begin();
    write_note(kind, text);
    errno = before;
}
