/* SPDX-License-Identifier: MIT */
#include "engine/compile/worker_log.h"
#include "common/protocol/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CUT_LINE_MAX 64
#define HALF ((LIMIT_COMPILE_LOG - CUT_LINE_MAX) / 2)
/* Number of bytes at the end of the log that are searched. Earlier lines are not searched, because
 * they may quote the source. */
#define LAST_WORDS 400
#define NO_MEMORY "the compiler used more memory than allowed (setting compile_memory)"
#define TOO_LARGE "the compiler wrote more than allowed (setting compile_output)"

static size_t read_at(int fd, char *to, size_t size, off_t from)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(fd, to + done, size - done, from + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

char *worker_log_read(int log_fd)
{
    struct stat seen;
    if (fstat(log_fd, &seen) != 0 || seen.st_size <= 0)
        return NULL;
    char *log = malloc(LIMIT_COMPILE_LOG + 1);
    if (!log)
        return NULL;
    size_t used;
    if (seen.st_size <= (off_t)LIMIT_COMPILE_LOG - CUT_LINE_MAX) {
        used = read_at(log_fd, log, (size_t)seen.st_size, 0);
    } else {
        used = read_at(log_fd, log, HALF, 0);
        used += (size_t)snprintf(log + used, CUT_LINE_MAX, "\n... %lld bytes omitted ...\n",
                                 (long long)seen.st_size - 2 * (long long)HALF);
        used += read_at(log_fd, log + used, HALF, seen.st_size - HALF);
    }
    log[used] = '\0';
    for (size_t i = 0; i < used; i++) {
        if (log[i] == '\0')
            log[i] = ' ';
    }
    char *fitting = realloc(log, used + 1);
    return fitting ? fitting : log;
}

static const char *llvm_error(const char *log)
{
    static const char word[] = "LLVM ERROR: ";
    for (const char *at = log; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, word, sizeof(word) - 1) == 0)
            return at;
    }
    return "";
}

static bool line_says(const char *line, const char *phrase)
{
    const char *found = strstr(line, phrase);
    return found && found < line + strcspn(line, "\n");
}

enum compile_end worker_log_cause(const char *log, enum compile_end end, const char **ret_text)
{
    static const struct {
        const char *phrase;
        enum compile_end end;
        const char *text;
    } causes[] = {
        { "bad_alloc", COMPILE_MEMORY, NO_MEMORY },
        { "out of memory", COMPILE_MEMORY, NO_MEMORY },
        { "Cannot allocate memory", COMPILE_MEMORY, NO_MEMORY },
        { "File too large", COMPILE_OUTPUT, TOO_LARGE },
        { "File size limit exceeded", COMPILE_OUTPUT, TOO_LARGE },
    };
    size_t length = log ? strlen(log) : 0;
    const char *last = log ? log + (length > LAST_WORDS ? length - LAST_WORDS : 0) : "";
    const char *error = llvm_error(log);
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        if (strstr(last, causes[i].phrase) || line_says(error, causes[i].phrase)) {
            *ret_text = causes[i].text;
            return causes[i].end;
        }
    }
    return end;
}
