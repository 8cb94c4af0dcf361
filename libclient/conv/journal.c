/* SPDX-License-Identifier: MIT */
#include "libclient/conv/journal.h"

#include "common/base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Maximum bytes of a line, and of a file.  Each line is written with one call.  The journal of a
 * whole tuning space has a few megabytes. */
#define LINE_MAX 2048u
#define FILE_MAX (64u << 20)
#define PATH_BYTES 4096u
#define ENDED_DURING_RUN "the process that ran it ended during the run"
/* lines for the whole search */
#define UNFINISHED ".\tunfinished"
#define FINISHED ".\tfinished"

#define OWNER_BYTES 320u

struct journal {
    int fd;
    bool is_unfinished;
    char first_line[LINE_MAX];
    char path[PATH_BYTES + 32];
};

/* Returns false in a setuid program, because its caller controls the environment. */
static bool user_directory(char directory[PATH_BYTES])
{
    const char *state = secure_getenv("XDG_STATE_HOME"), *home = secure_getenv("HOME");
    int size = -1;
    if (state && state[0] == '/')
        size = snprintf(directory, PATH_BYTES, "%s/kiln/tune", state);
    else if (home && home[0] == '/')
        size = snprintf(directory, PATH_BYTES, "%s/.local/state/kiln/tune", home);
    return size > 0 && (size_t)size < PATH_BYTES;
}

static void write_first_line(const struct journal_subject *s, char line[LINE_MAX])
{
    snprintf(line, LINE_MAX, "kiln-tune 2\t%s\t%s\t%s\t%s\t%s\t%s", s->version, s->database_id,
             s->driver, s->toolchain, s->solver, s->problem);
    for (char *at = line; *at; at++)
        *at = *at == '\n' ? ' ' : *at;
}

static void write_line(const struct journal *j, const char *line)
{
    ssize_t ignored = write(j->fd, line, strlen(line));
    (void)ignored;
}

/* Writes the first line of a new file.  In an old file, adds a line end if the last line is
 * incomplete, for example because the disk was full. */
static void begin_lines(const struct journal *j)
{
    char line[LINE_MAX + 1], last = '\n';
    off_t size = lseek(j->fd, 0, SEEK_END);
    snprintf(line, sizeof(line), "%s\n", j->first_line);
    if (size == 0)
        write_line(j, line);
    else if (pread(j->fd, &last, 1, size - 1) == 1 && last != '\n')
        write_line(j, "\n");
}

static enum kiln_code open_file(const char *directory, struct journal *j, struct kiln_err *err)
{
    enum kiln_code rc = fs_make_directories(directory, err);
    if (rc)
        return rc;
    snprintf(j->path, sizeof(j->path), "%s/%016llx.tune", directory,
             (unsigned long long)bytes_hash(bytes_of_text(j->first_line), 0));
    j->fd = open(j->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (j->fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", j->path);
    begin_lines(j);
    return KILN_OK;
}

enum kiln_code journal_open(const char *directory, const struct journal_subject *subject,
                            struct journal **ret_journal, struct kiln_err *err)
{
    char by_default[PATH_BYTES];
    struct kiln_err why = KILN_ERR_INIT;
    *ret_journal = NULL;
    if (!directory && !user_directory(by_default))
        return KILN_OK;
    struct journal *j = calloc(1, sizeof(*j));
    if (!j)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a journal");
    j->fd = -1;
    write_first_line(subject, j->first_line);
    enum kiln_code rc = open_file(directory ? directory : by_default, j, &why);
    if (!rc) {
        *ret_journal = j;
        return KILN_OK;
    }
    journal_close(j);
    return directory ? kiln_fail(err, rc, "opening the journal of a search: %s", why.text)
                     : KILN_OK;
}

void journal_close(struct journal *journal)
{
    if (!journal)
        return;
    if (journal->fd >= 0)
        close(journal->fd);
    free(journal);
}

struct fields {
    char *list[7];
    unsigned count;
};

static struct fields split_fields(char *line)
{
    struct fields f = { .count = 0 };
    for (char *at = line; at && f.count < 7; at = strchr(at, '\t')) {
        if (f.count > 0)
            *at++ = '\0';
        f.list[f.count++] = at;
    }
    return f;
}

static bool read_number(const char *text, double *ret_number)
{
    char *end;
    *ret_number = strtod(text, &end);
    return end != text && *end == '\0' && *ret_number >= 0 && *ret_number <= __DBL_MAX__;
}

static bool read_result(const struct fields *f, struct search_trial *t)
{
    double state, samples;
    if (f->count < 6 || !read_number(f->list[2], &state) ||
        !read_number(f->list[3], &t->timing.median_ms) ||
        !read_number(f->list[4], &t->timing.spread_ms) || !read_number(f->list[5], &samples) ||
        state > KILN_CONV_NOT_RUN || samples > TIMING_SAMPLES_MAX)
        return false;
    t->state = (int)state;
    t->timing.samples = (unsigned)samples;
    t->timing.is_cut_short = t->state == KILN_CONV_CUT_SHORT;
    free(t->reason);
    t->reason = f->count > 6 && f->list[6][0] ? strdup(f->list[6]) : NULL;
    return true;
}

/* Writes "host:pid:start", where |start| is the time in /proc at which the process began.  Returns
 * false if there is no such process, or no /proc. */
static bool name_process(pid_t pid, char text[OWNER_BYTES])
{
    char path[64], stat[1024] = "", host[256] = "";
    unsigned long long start;
    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
    if (fd >= 0)
        close(fd);
    const char *end = size > 0 ? strrchr(stat, ')') : NULL; /* of the program's name */
    (void)gethostname(host, sizeof(host) - 1);
    if (!end || sscanf(end + 1,
                       " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                       "%*s %llu",
                       &start) != 1)
        return false;
    snprintf(text, OWNER_BYTES, "%s:%ld:%llu", host, (long)pid, start);
    return true;
}

/* Returns whether another process, which lives, wrote a line with |owner|. */
static bool is_of_living(const char *owner)
{
    char text[OWNER_BYTES];
    const char *at = strchr(owner, ':');
    long pid = at ? strtol(at + 1, NULL, 10) : 0;
    return pid > 0 && pid != getpid() && name_process((pid_t)pid, text) && strcmp(text, owner) == 0;
}

/* Returns false for a trial that was begun but has no result. */
static bool has_result(const struct search_trial *t)
{
    return t->place == TRIAL_DONE && !(t->reason && strcmp(t->reason, ENDED_DURING_RUN) == 0);
}

static enum kiln_code read_line(char *line, struct search *search, struct kiln_err *err)
{
    struct fields f = split_fields(line);
    size_t index;
    bool is_begun = (f.count == 2 || f.count == 3) && strcmp(f.list[0], ">") == 0;
    bool has_survived = f.count == 2 && strcmp(f.list[0], "<") == 0;
    bool has_ended = f.count > 2 && strcmp(f.list[0], "=") == 0;
    if ((!is_begun && !has_survived && !has_ended) || f.list[1][0] == '\0')
        return KILN_OK;
    enum kiln_code rc = search_add(search, f.list[1], &index, err);
    if (rc)
        return rc;
    struct search_trial *t = &search->trials[index];
    bool runs_elsewhere = is_begun && f.count == 3 && is_of_living(f.list[2]);
    if (is_begun && t->place == TRIAL_UNTRIED && !runs_elsewhere) {
        t->state = KILN_CONV_NOT_RUN;
        t->reason = strdup(ENDED_DURING_RUN);
        t->place = TRIAL_DONE;
    } else if (has_survived && !has_result(t)) {
        t->state = KILN_CONV_UNTIMED;
        t->place = TRIAL_UNTRIED;
        free(KILN_TAKE(t->reason));
    } else if (has_ended && read_result(&f, t)) {
        t->place = TRIAL_DONE;
    }
    return KILN_OK;
}

enum kiln_code journal_read(struct journal *journal, struct search *search, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer content;
    char *rest = NULL;
    buffer_init(&content, FILE_MAX + 1);
    if (!journal)
        return KILN_OK;
    enum kiln_code rc = fs_read_fd(journal->fd, FILE_MAX, &content, err);
    if (!rc)
        buffer_put(&content, "", 1);
    if (!rc && content.failed)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu bytes", content.size + 1);
    if (rc)
        return kiln_while(err, "reading the journal of a search, '%s' (it is safe to delete)",
                          journal->path);
    char *line = strtok_r((char *)content.data, "\n", &rest);
    if (!line || strcmp(line, journal->first_line) != 0)
        return KILN_OK; /* the file belongs to another search with the same hash */
    while (!rc && (line = strtok_r(NULL, "\n", &rest))) {
        if (strcmp(line, UNFINISHED) == 0 || strcmp(line, FINISHED) == 0)
            journal->is_unfinished = strcmp(line, UNFINISHED) == 0;
        else
            rc = read_line(line, search, err);
    }
    return rc;
}

void journal_leave(struct journal *journal, bool is_unfinished)
{
    if (!journal || journal->is_unfinished == is_unfinished)
        return;
    write_line(journal, is_unfinished ? UNFINISHED "\n" : FINISHED "\n");
    journal->is_unfinished = is_unfinished;
}

bool journal_is_unfinished(const struct journal *journal)
{
    return journal && journal->is_unfinished;
}

void journal_begin(struct journal *journal, const char *config)
{
    char line[LINE_MAX], owner[OWNER_BYTES];
    if (!journal)
        return;
    bool has_owner = name_process(getpid(), owner);
    snprintf(line, sizeof(line), ">\t%.1000s%s%s\n", config, has_owner ? "\t" : "",
             has_owner ? owner : "");
    write_line(journal, line);
}

void journal_survive(struct journal *journal, const char *config)
{
    char line[LINE_MAX];
    if (!journal)
        return;
    snprintf(line, sizeof(line), "<\t%.1000s\n", config);
    write_line(journal, line);
}

void journal_end(struct journal *journal, const struct search_trial *trial)
{
    char line[LINE_MAX], reason[512];
    if (!journal)
        return;
    snprintf(reason, sizeof(reason), "%s", trial->reason ? trial->reason : "");
    for (char *at = reason; *at; at++)
        *at = *at == '\n' || *at == '\t' ? ' ' : *at;
    snprintf(line, sizeof(line), "=\t%.1000s\t%d\t%.9g\t%.9g\t%u\t%s\n", trial->config,
             trial->state, trial->timing.median_ms, trial->timing.spread_ms, trial->timing.samples,
             reason);
    write_line(journal, line);
}
