/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/trace_groups.h"

#include "cli/lines.h"

#include <stdio.h>
#include <string.h>

static void copy_word(char to[TRACE_WORD_MAX + 1], struct bytes word)
{
    snprintf(to, TRACE_WORD_MAX + 1, "%.*s", (int)word.size, (const char *)word.data);
}

/* Takes the target, database id, toolchain and solver of a request from |line| and |change|.  If
 * |change| has another target, leaves out the database id and the toolchain of |line|, because they
 * belong to the target of |line|. */
static void choose_words(const struct trace_line *line, const struct trace_change *change,
                         struct trace_group *ret_words)
{
    bool is_other = change->target && !bytes_equal_text(line->target, change->target);
    *ret_words = (struct trace_group){ .target = "" };
    copy_word(ret_words->target, change->target ? bytes_of_text(change->target) : line->target);
    if (change->database_id)
        copy_word(ret_words->database_id, bytes_of_text(change->database_id));
    else if (!is_other)
        copy_word(ret_words->database_id, line->database_id);
    if (change->any_solver)
        return;
    copy_word(ret_words->solver, line->solver);
    if (!is_other)
        copy_word(ret_words->toolchain, line->toolchain);
}

static bool has_words(const struct trace_group *group, const struct trace_group *words)
{
    return strcmp(group->target, words->target) == 0 &&
           strcmp(group->database_id, words->database_id) == 0 &&
           strcmp(group->toolchain, words->toolchain) == 0 &&
           strcmp(group->solver, words->solver) == 0;
}

static struct trace_group *find_group(const struct trace_groups *groups,
                                      const struct trace_group *words)
{
    for (size_t i = groups->window; i < groups->count; i++)
        if (has_words(groups->list[i], words))
            return groups->list[i];
    return NULL;
}

/* Returns whether a group of an earlier window has the problem.  With another target or batch size,
 * requests of the trace may become equal. */
static bool is_repeated(const struct trace_groups *groups, const struct trace_group *words,
                        const struct kiln_problem *problem)
{
    for (size_t i = 0; i < groups->window; i++)
        if (has_words(groups->list[i], words) &&
            problem_set_has(&groups->list[i]->problems, problem))
            return true;
    return false;
}

static struct trace_group *add_group(struct trace_groups *groups, const struct trace_group *words)
{
    struct trace_group **grown =
        reallocarray(groups->list, groups->count + 1, sizeof(struct trace_group *));
    struct trace_group *group = grown ? malloc(sizeof(*group)) : NULL;
    if (grown)
        groups->list = grown;
    if (!group)
        return NULL;
    *group = *words;
    grown[groups->count++] = group;
    return group;
}

static bool read_problem(const struct trace_line *line, uint32_t batch,
                         struct kiln_problem *ret_problem)
{
    char text[TRACE_LINE_MAX];
    unsigned count = 0;
    struct kiln_problem problems[3];
    struct kiln_error unused = { 0 };
    snprintf(text, sizeof(text), "%.*s", (int)line->rest.size, (const char *)line->rest.data);
    if (kiln_problem_from_driver(text, problems, &count, &unused) || count != 1)
        return false;
    if (batch)
        problems[0].n = batch;
    *ret_problem = problems[0];
    return kiln_problem_check(ret_problem, &unused) == KILN_E_OK;
}

/* Begins new groups if the present ones have enough problems.  Does so only for the first half of
 * TRACE_GROUPS_MAX, so that groups are left for later problems with other options. */
static void begin_window(struct trace_groups *groups)
{
    if (groups->problems - groups->window_problems < TRACE_WINDOW ||
        groups->count - groups->window < 2 || groups->count > TRACE_GROUPS_MAX / 2)
        return;
    groups->window = groups->count;
    groups->window_problems = groups->problems;
}

static int add_plan(struct trace_groups *groups, const struct trace_line *line,
                    const struct trace_change *change, struct kiln_error *err)
{
    struct kiln_problem problem;
    struct trace_group words;
    if (!read_problem(line, change->batch, &problem)) {
        groups->unreadable++;
        return KILN_E_OK;
    }
    choose_words(line, change, &words);
    if (is_repeated(groups, &words, &problem))
        return KILN_E_OK;
    if (change->in_order)
        begin_window(groups);
    struct trace_group *group = find_group(groups, &words);
    if (!group && groups->count == TRACE_GROUPS_MAX) {
        groups->unreadable++;
        return KILN_E_OK;
    }
    if (!group)
        group = add_group(groups, &words);
    if (!group)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory after %zu problems",
                        groups->problems);
    size_t before = group->problems.count;
    int rc = problem_set_add(&group->problems, &problem, (unsigned)groups->problems + 1, err);
    groups->problems += group->problems.count - before;
    return rc;
}

int trace_groups_make(const struct trace_job *job, const struct trace_change *change,
                      struct trace_groups *ret_groups, struct kiln_error *err)
{
    int rc = KILN_E_OK;
    *ret_groups = (struct trace_groups){ 0 };
    for (size_t i = 0; !rc && i < job->count; i++)
        if (trace_is_plan(&job->entries[i]->line))
            rc = add_plan(ret_groups, &job->entries[i]->line, change, err);
    return rc;
}

/* ---- logged command lines ---- */

/* Returns whether a line is a command of MIOpenDriver.  A job's log has other lines, too. */
static bool is_command(const char *text)
{
    return strstr(text, "MIOpenDriver") || strncmp(text, "conv", 4) == 0;
}

static int add_command(struct trace_groups *groups, struct trace_group *group,
                       const struct line *line, const struct trace_change *change,
                       struct kiln_error *err)
{
    struct kiln_problem problems[3];
    struct kiln_error unused = { 0 };
    unsigned count = 0;
    int rc = KILN_E_OK;
    if (kiln_problem_from_driver(line->text, problems, &count, &unused))
        groups->unreadable += is_command(line->text);
    for (unsigned i = 0; i < count && !rc; i++) {
        if (change->batch)
            problems[i].n = change->batch;
        rc = problem_set_add(&group->problems, &problems[i], line->number, err);
    }
    groups->problems = group->problems.count;
    return rc;
}

int trace_groups_read_log(const char *path, const struct trace_change *change,
                          struct trace_groups *ret_groups, struct kiln_error *err)
{
    LINE_FILE_AUTO struct line_file file = { 0 };
    const struct trace_line none = { .kind = TRACE_PLAN };
    struct trace_group words;
    *ret_groups = (struct trace_groups){ 0 };
    choose_words(&none, change, &words);
    int rc = line_file_read(path, &file, err);
    if (rc)
        return rc;
    struct trace_group *group = add_group(ret_groups, &words);
    if (!group)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the problems of '%s'", path);
    for (size_t i = 0; i < file.count && !rc; i++)
        rc = add_command(ret_groups, group, &file.lines[i], change, err);
    if (!rc && ret_groups->problems == 0)
        rc = cli_fail(err, KILN_E_INVALID,
                      "'%s' is neither a trace, nor has it MIOpenDriver "
                      "command lines of convolutions",
                      path);
    return rc;
}

void trace_groups_done(struct trace_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        problem_set_done(&groups->list[i]->problems);
        free(groups->list[i]);
    }
    free(groups->list);
    *groups = (struct trace_groups){ 0 };
}
