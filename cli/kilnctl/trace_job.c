/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/trace_job.h"

#include "cli/output.h"
#include "common/base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* If a directory has more files, only the newest are read. libkiln keeps at most half as many
 * files. */
#define FILES_READ_MAX (2 * TRACE_FILES_MAX)

/* ---- names ---- */

struct names {
    char **list;
    size_t count;
};

static void names_done(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->list[i]);
    free(names->list);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool add_name(struct names *names, const char *name)
{
    char **grown = reallocarray(names->list, names->count + 1, sizeof(*grown));
    char *copy = grown ? strdup(name) : NULL;
    if (grown)
        names->list = grown;
    if (!copy)
        return false;
    grown[names->count++] = copy;
    return true;
}

/* Lists the names that end with |ending|, sorted.  A missing directory has no names. */
static int list_names(const char *directory, const char *ending, struct names *ret_names,
                      struct kiln_error *err)
{
    DIR *entries = opendir(directory);
    bool is_complete = true;
    if (!entries)
        return errno == ENOENT ? KILN_E_OK
                               : cli_fail_errno(err, errno, "cannot open '%s'", directory);
    const struct dirent *e = NULL;
    while (is_complete && (e = fs_next_entry(entries)))
        if (e->d_name[0] != '.' && text_ends_with(e->d_name, ending))
            is_complete = add_name(ret_names, e->d_name);
    int number = errno;
    closedir(entries);
    if (!is_complete)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the names in '%s'", directory);
    if (number)
        return cli_fail_errno(err, number, "cannot read the directory '%s'", directory);
    if (ret_names->count)
        qsort(ret_names->list, ret_names->count, sizeof(*ret_names->list), compare_names);
    return KILN_E_OK;
}

int trace_each_job(trace_visit *visit, void *context, struct kiln_error *err)
{
    char path[PATH_TEXT_MAX], job[TRACE_JOB_MAX];
    struct kiln_err why = KILN_ERR_INIT;
    __attribute__((cleanup(names_done))) struct names names = { 0 };
    if (trace_directory(NULL, path, &why))
        return cli_fail(err, (int)why.code, "%s", why.text);
    int rc = list_names(path, "", &names, err);
    for (size_t i = 0; !rc && i < names.count; i++)
        if (trace_job_name(names.list[i], job) && strcmp(job, names.list[i]) == 0)
            rc = visit(context, job, err);
    return rc;
}

/* ---- entries ---- */

/* Returns equal hashes for the same plan or kernel.  Two plans are the same if all words of their
 * lines are equal.  Two kernels are the same if their keys are equal. */
static uint64_t hash_line(const struct trace_line *line)
{
    const struct bytes words[] = { line->target, line->database_id, line->toolchain, line->solver,
                                   line->rest };
    uint64_t hash = 0;
    if (!trace_is_plan(line))
        return bytes_hash(line->key, 0);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        hash = bytes_hash(words[i], hash + 1);
    return hash;
}

static bool is_same(const struct trace_line *a, const struct trace_line *b)
{
    if (trace_is_plan(a) != trace_is_plan(b))
        return false;
    if (!trace_is_plan(a))
        return bytes_equal(a->key, b->key);
    return bytes_equal(a->target, b->target) && bytes_equal(a->database_id, b->database_id) &&
           bytes_equal(a->toolchain, b->toolchain) && bytes_equal(a->solver, b->solver) &&
           bytes_equal(a->rest, b->rest);
}

struct trace_entry *trace_job_find(const struct trace_job *job, const struct trace_line *line)
{
    HASH_EACH (&job->known, hash_line(line), struct trace_entry, link, known)
        if (is_same(&known->line, line))
            return known;
    return NULL;
}

static bool grow_entries(struct trace_job *job)
{
    size_t capacity = job->capacity ? 2 * job->capacity : 256;
    struct trace_entry **grown = reallocarray(job->entries, capacity, sizeof(struct trace_entry *));
    if (!grown)
        return false;
    job->entries = grown;
    job->capacity = capacity;
    return true;
}

/* Adds |line| to |entry|.  A process may have two lines for an entry: a failure, and a use. */
static void merge_line(struct trace_entry *entry, const struct trace_line *line, size_t process)
{
    uint64_t wanted_us = entry->line.wanted_us;
    entry->processes += entry->last_process != process;
    entry->last_process = process;
    if (line->waited_us > entry->longest_us)
        entry->longest_us = line->waited_us;
    if (line->wanted_us < wanted_us || entry->line.tier == TRACE_FAILED)
        entry->line = *line;
    if (entry->line.wanted_us > wanted_us)
        entry->line.wanted_us = wanted_us;
}

static int add_line(struct trace_job *job, const struct trace_line *line, struct kiln_error *err)
{
    struct trace_entry *entry = trace_job_find(job, line);
    if (entry) {
        merge_line(entry, line, job->process_count);
        return KILN_E_OK;
    }
    bool has_space = job->count < job->capacity || grow_entries(job);
    entry = has_space ? malloc(sizeof(*entry)) : NULL;
    if (!entry)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory after %zu lines", job->count);
    *entry = (struct trace_entry){ .line = *line,
                                   .processes = 1,
                                   .last_process = job->process_count,
                                   .longest_us = line->waited_us,
                                   .order = job->count };
    hash_table_add(&job->known, &entry->link, hash_line(line));
    job->entries[job->count++] = entry;
    return KILN_E_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const struct trace_entry *x = *(struct trace_entry *const *)a;
    const struct trace_entry *y = *(struct trace_entry *const *)b;
    if (x->line.wanted_us != y->line.wanted_us)
        return x->line.wanted_us < y->line.wanted_us ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* ---- files ---- */

static int take_line(struct trace_job *job, struct trace_process *p, struct trace_line *line,
                     uint64_t *plan_us, struct kiln_error *err)
{
    switch (line->kind) {
    case TRACE_PROCESS: p->process = *line; return KILN_E_OK;
    case TRACE_CUT: p->is_cut = true; return KILN_E_OK;
    case TRACE_PLAN:
        *plan_us = line->wanted_us;
        p->plans++;
        break;
    case TRACE_OBJECT:
        line->wanted_us = *plan_us;
        p->kernels++;
        break;
    default: p->kernels++;
    }
    p->waited_us += line->waited_us;
    return add_line(job, line, err);
}

struct trace_reader trace_reader_of(const struct trace_process *process)
{
    struct trace_reader r = { .text = reader_of(buffer_view(&process->text)) };
    struct trace_line ignored;
    enum trace_verdict verdict = TRACE_DAMAGED;
    (void)trace_reader_next(&r, &ignored, &verdict);
    return r;
}

bool trace_reader_next(struct trace_reader *reader, struct trace_line *ret_line,
                       enum trace_verdict *ret_verdict)
{
    struct reader *r = &reader->text;
    size_t left = reader_left(r);
    const uint8_t *end = left ? memchr(r->at, '\n', left) : NULL;
    if (!left)
        return false;
    struct bytes line = reader_take(r, end ? (size_t)(end - r->at) : left);
    if (end)
        reader_u8(r);
    *ret_verdict = end ? trace_line_parse(line, ret_line) : TRACE_DAMAGED;
    return true;
}

static int read_lines(struct trace_job *job, struct trace_process *p, struct kiln_error *err)
{
    struct trace_reader r = trace_reader_of(p);
    struct trace_line line;
    enum trace_verdict verdict = TRACE_DAMAGED;
    uint64_t plan_us = 0;
    int rc = KILN_E_OK;
    while (!rc && trace_reader_next(&r, &line, &verdict)) {
        p->damaged += verdict == TRACE_DAMAGED;
        if (verdict == TRACE_VALID)
            rc = take_line(job, p, &line, &plan_us, err);
    }
    return rc;
}

static bool begins_a_trace(struct bytes text)
{
    static const char first[] = TRACE_FIRST_LINE "\n";
    return text.size >= sizeof(first) - 1 && memcmp(text.data, first, sizeof(first) - 1) == 0;
}

/* Reads a regular file.  Refuses other files, and does not wait until a FIFO has a writer. */
static int read_text(const char *path, struct buffer *ret_text, struct kiln_error *err)
{
    struct stat seen;
    struct kiln_err why = KILN_ERR_INIT;
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &seen) != 0)
        return cli_fail_errno(err, errno, "cannot open '%s'", path);
    if (!S_ISREG(seen.st_mode))
        return cli_fail(err, KILN_E_CORRUPT, "'%s' is not a file", path);
    if (fs_read_fd(fd, TRACE_FILE_BYTES_MAX, ret_text, &why) ||
        !begins_a_trace(buffer_view(ret_text)))
        return cli_fail(err, KILN_E_CORRUPT,
                        "'%s' is not a trace: it does not begin with '" TRACE_FIRST_LINE
                        "', or has more than %u bytes",
                        path, TRACE_FILE_BYTES_MAX);
    return KILN_E_OK;
}

/* Returns when the process started, according to the second line; 0 if that line is damaged. */
static uint64_t start_of(struct bytes text)
{
    struct trace_line line = { 0 };
    const size_t first = sizeof(TRACE_FIRST_LINE "\n") - 1;
    const uint8_t *second = text.data + first;
    const uint8_t *end = memchr(second, '\n', text.size - first);
    bool is_fine =
        end && trace_line_parse(bytes_of(second, (size_t)(end - second)), &line) == TRACE_VALID;
    return is_fine && line.kind == TRACE_PROCESS ? line.start_us : 0;
}

static bool is_asked(const struct trace_question *q, struct bytes text)
{
    uint64_t start_us = start_of(text);
    return start_us >= q->from_us && (q->until_us == 0 || start_us < q->until_us);
}

static int read_file(struct trace_job *job, const struct trace_question *q, const char *path,
                     struct kiln_error *err)
{
    struct trace_process *grown =
        reallocarray(job->processes, job->process_count + 1, sizeof(*grown));
    struct trace_process p = { .path = strdup(path) };
    buffer_init(&p.text, TRACE_FILE_BYTES_MAX);
    if (grown)
        job->processes = grown;
    int rc = grown && p.path ? read_text(path, &p.text, err)
                             : cli_fail(err, KILN_E_NO_MEMORY, "out of memory for '%s'", path);
    if (rc || !is_asked(q, buffer_view(&p.text))) {
        buffer_done(&p.text);
        free(p.path);
        return rc;
    }
    struct trace_process *kept = &job->processes[job->process_count++];
    *kept = p;
    return read_lines(job, kept, err);
}

static int read_directory(struct trace_job *job, const struct trace_question *q,
                          const char *directory, const char *ending, struct kiln_error *err)
{
    __attribute__((cleanup(names_done))) struct names names = { 0 };
    int rc = list_names(directory, ending, &names, err);
    size_t first = names.count > FILES_READ_MAX ? names.count - FILES_READ_MAX : 0;
    for (size_t i = first; !rc && i < names.count; i++) {
        char path[PATH_MAX];
        struct kiln_error why = { 0 };
        snprintf(path, sizeof(path), "%s/%s", directory, names.list[i]);
        rc = read_file(job, q, path, &why);
        job->refused += rc == KILN_E_CORRUPT || rc == KILN_E_DENIED || rc == KILN_E_IO;
        if (rc == KILN_E_NO_MEMORY)
            *err = why;
        else
            rc = KILN_E_OK;
    }
    return rc;
}

static int fail_unknown(const struct trace_job *found, const struct trace_question *q,
                        struct kiln_error *err)
{
    const char *job = q->word;
    struct stat seen;
    bool is_file = stat(job, &seen) == 0 && S_ISREG(seen.st_mode);
    return cli_fail(
        err, KILN_E_NOT_FOUND,
        "there is no %strace of a job '%.120s'%s; 'kilnctl trace ls' lists the jobs%s%.120s",
        found->refused ? "readable " : "", job, q->with_pulled ? "" : " that ran here",
        is_file ? "; for the file, write ./" : "", is_file ? job : "");
}

static int read_job(struct trace_job *job, const struct trace_question *q, struct kiln_error *err)
{
    char path[PATH_TEXT_MAX], word[TRACE_JOB_MAX];
    struct kiln_err why = KILN_ERR_INIT;
    if (!trace_job_name(q->word, word))
        return cli_fail(err, KILN_E_INVALID, "the name of a job is empty");
    if (trace_directory(word, path, &why))
        return cli_fail(err, (int)why.code, "%s", why.text);
    int rc = read_directory(job, q, path, q->ending, err);
    if (!rc && q->with_pulled)
        rc = read_directory(job, q, path, TRACE_PULLED_ENDING, err);
    return rc || job->process_count ? rc : fail_unknown(job, q, err);
}

static int compare_processes(const void *a, const void *b)
{
    const struct trace_process *x = a, *y = b;
    if (x->process.start_us != y->process.start_us)
        return x->process.start_us < y->process.start_us ? -1 : 1;
    return strcmp(x->path, y->path);
}

int trace_job_ask(const struct trace_question *question, struct trace_job *ret_job,
                  struct kiln_error *err)
{
    struct trace_job *job = ret_job;
    *job = (struct trace_job){ 0 };
    int rc = strchr(question->word, '/') ? read_file(job, question, question->word, err)
                                         : read_job(job, question, err);
    if (!rc && job->count)
        qsort(job->entries, job->count, sizeof(struct trace_entry *), compare_entries);
    if (!rc && job->process_count)
        qsort(job->processes, job->process_count, sizeof(*job->processes), compare_processes);
    return rc;
}

int trace_job_read(const char *word, struct trace_job *ret_job, struct kiln_error *err)
{
    const struct trace_question question = { .word = word,
                                             .ending = TRACE_ENDING,
                                             .with_pulled = true };
    return trace_job_ask(&question, ret_job, err);
}

void trace_job_done(struct trace_job *job)
{
    hash_table_done(&job->known);
    for (size_t i = 0; i < job->count; i++)
        free(job->entries[i]);
    for (size_t i = 0; i < job->process_count; i++) {
        buffer_done(&job->processes[i].text);
        free(job->processes[i].path);
    }
    free(job->entries);
    free(job->processes);
    *job = (struct trace_job){ 0 };
}

struct trace_totals trace_job_totals(const struct trace_job *job)
{
    struct trace_totals t = { 0 };
    for (size_t i = 0; i < job->count; i++) {
        const struct trace_line *line = &job->entries[i]->line;
        t.plans += trace_is_plan(line);
        t.kernels += !trace_is_plan(line);
        t.failed += line->tier == TRACE_FAILED;
    }
    for (size_t i = 0; i < job->process_count; i++) {
        const struct trace_process *p = &job->processes[i];
        t.waited_us += p->waited_us;
        t.damaged += p->damaged;
        t.cut += p->is_cut;
        if (p->process.start_us > t.last_us)
            t.last_us = p->process.start_us;
    }
    return t;
}

void trace_job_print_damage(const struct trace_job *job)
{
    const struct trace_totals t = trace_job_totals(job);
    if (t.damaged)
        fprintf(stderr, "kilnctl: %zu damaged lines were skipped\n", t.damaged);
    if (job->refused)
        fprintf(stderr, "kilnctl: %zu files were skipped: they are no traces\n", job->refused);
    if (t.cut)
        fprintf(stderr,
                "kilnctl: %zu processes used more than their traces have: see 'cut' in "
                "docs/formats/trace.md\n",
                t.cut);
}
