/* SPDX-License-Identifier: MIT */
#include "common/base/trace_file.h"

#include "common/base/own_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define NAMES_TRIED 100u
/* bytes of the line that says which limit was reached */
#define CUT_BYTES 32u

/* ---- names ---- */

static bool is_kept(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("._+=-", c));
}

bool trace_job_name(const char *given, char ret_name[TRACE_JOB_MAX])
{
    size_t size = 0;
    for (; given[size] && size + 1 < TRACE_JOB_MAX; size++)
        ret_name[size] = is_kept(given[size]) ? given[size] : '_';
    ret_name[size] = '\0';
    if (ret_name[0] == '.' || ret_name[0] == '-')
        ret_name[0] = '_';
    return size > 0;
}

enum kiln_code trace_directory(const char *job, char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    enum kiln_code rc = paths_traces(path, err);
    size_t used = rc ? 0 : strlen(path);
    if (rc || !job)
        return rc;
    if (used + 1 + strlen(job) >= PATH_TEXT_MAX)
        return kiln_fail(err, KILN_INVALID, "path '%.100s...' is longer than %d bytes", path,
                         PATH_TEXT_MAX - 1);
    snprintf(path + used, PATH_TEXT_MAX - used, "/%s", job);
    return KILN_OK;
}

/* ---- creating ---- */

#define NAME_SIZE 256

/* Returns whether there are too many files for another one, and finds the oldest.  Names begin with
 * the time, so the first name in alphabetical order belongs to the oldest file. */
static bool find_oldest(const char *directory, const char *ending, char ret_oldest[NAME_SIZE])
{
    unsigned count = 0;
    DIR *entries = opendir(directory);
    *ret_oldest = '\0';
    for (const struct dirent *e; entries && (e = readdir(entries));) {
        if (!text_ends_with(e->d_name, ending))
            continue;
        count++;
        if (!*ret_oldest || strcmp(e->d_name, ret_oldest) < 0)
            snprintf(ret_oldest, NAME_SIZE, "%s", e->d_name);
    }
    if (entries)
        closedir(entries);
    return count >= TRACE_FILES_MAX;
}

/* Each ending has its own limit, so that the processes of a large job do not remove the prefetches
 * that --report needs.  Other processes may remove the same file at the same time, so this function
 * looks again after each removal. */
void trace_files_make_space(const char *directory, const char *ending)
{
    char oldest[NAME_SIZE];
    KILN_AUTO(fd) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (unsigned i = 0; i < TRACE_FILES_MAX && find_oldest(directory, ending, oldest); i++)
        if (unlinkat(fd, oldest, 0) != 0 && errno != ENOENT)
            return;
}

static int open_new(int directory_fd, const char *ending, const struct trace_line *process,
                    char name[NAME_SIZE])
{
    char again[16] = "";
    int fd = -1;
    for (unsigned i = 0; fd < 0 && i < NAMES_TRIED; i++) {
        if (i)
            snprintf(again, sizeof(again), "-%u", i);
        snprintf(name, NAME_SIZE, "%010llu-%.*s-%llu%s%s",
                 (unsigned long long)(process->start_us / 1000000u), (int)process->host.size,
                 (const char *)process->host.data, (unsigned long long)process->pid, again, ending);
        fd = openat(directory_fd, name,
                    O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

/* Returns how large a trace may become.  A write beyond RLIMIT_FSIZE would raise SIGXFSZ, which
 * ends the job. */
static size_t limit_bytes(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < TRACE_FILE_BYTES_MAX)
        return (size_t)limit.rlim_cur;
    return TRACE_FILE_BYTES_MAX;
}

static enum kiln_code begin_file(struct trace_file *file, const struct trace_line *process,
                                 struct kiln_err *err)
{
    static const char first[] = TRACE_FIRST_LINE "\n";
    if (limit_bytes() < sizeof(first) - 1)
        return kiln_fail(err, KILN_FULL, "the limit RLIMIT_FSIZE allows no trace");
    if (write(file->fd, first, sizeof(first) - 1) != (ssize_t)sizeof(first) - 1)
        return kiln_fail_errno(err, errno, "cannot write to a trace");
    file->bytes = sizeof(first) - 1;
    file->lines = 1;
    trace_file_add(file, process, 1);
    return file->fd >= 0 ? KILN_OK : kiln_fail(err, KILN_IO, "cannot write to a trace");
}

enum kiln_code trace_file_create(const char *job, const char *ending,
                                 const struct trace_line *process, struct trace_file *ret_file,
                                 struct kiln_err *err)
{
    char path[PATH_TEXT_MAX], name[NAME_SIZE];
    struct trace_file file = { .fd = -1 };
    enum kiln_code rc = trace_directory(job, path, err);
    if (!rc)
        rc = own_directory_make(path, err);
    if (rc)
        return rc;
    KILN_AUTO(fd) int directory_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory_fd < 0)
        return kiln_fail_errno(err, errno, "cannot open the directory '%s'", path);
    trace_files_make_space(path, ending);
    file.fd = open_new(directory_fd, ending, process, name);
    if (file.fd < 0)
        return kiln_fail_errno(err, errno, "cannot create a trace in '%s'", path);
    rc = begin_file(&file, process, err);
    if (!rc) {
        *ret_file = file;
        return KILN_OK;
    }
    trace_file_close(&file);
    unlinkat(directory_fd, name, 0); /* without its first lines, it is no trace */
    return rc;
}

/* ---- appending ---- */

static void write_text(struct trace_file *file, const struct buffer *text, size_t lines)
{
    ssize_t written = write(file->fd, text->data, text->size);
    if (written != (ssize_t)text->size) {
        trace_file_close(file);
        return;
    }
    file->bytes += text->size;
    file->lines += lines;
}

static void cut_file(struct trace_file *file, const char *limit)
{
    BUFFER_AUTO struct buffer text;
    const struct trace_line line = { .kind = TRACE_CUT, .rest = bytes_of_text(limit) };
    buffer_init(&text, CUT_BYTES);
    if (file->bytes + CUT_BYTES <= limit_bytes() && trace_line_write(&line, &text))
        write_text(file, &text, 1);
    trace_file_close(file);
}

void trace_file_add(struct trace_file *file, const struct trace_line *lines, size_t count)
{
    BUFFER_AUTO struct buffer text;
    bool is_fine = file->fd >= 0;
    buffer_init(&text, count * TRACE_LINE_MAX);
    for (size_t i = 0; is_fine && i < count; i++)
        is_fine = trace_line_write(&lines[i], &text);
    if (!is_fine)
        return;
    if (file->lines + count + 1 > TRACE_FILE_LINES_MAX)
        cut_file(file, "lines");
    else if (file->bytes + text.size + CUT_BYTES > limit_bytes())
        cut_file(file, "bytes");
    else
        write_text(file, &text, count);
}

void trace_file_close(struct trace_file *file) { fd_close(&file->fd); }
