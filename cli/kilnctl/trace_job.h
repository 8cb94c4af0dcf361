/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The traces of a job, read and merged: what its processes used, in the order of first use.
 * docs/formats/trace.md describes the files.
 *
 * Role       reads the files that libkiln wrote; skips and counts what is damaged
 * Ownership  a trace_job owns its entries and the texts that their words borrow
 * Threading  one thread for each trace_job
 */
#include "cli/fail.h"
#include "common/base/hash_table.h"
#include "common/base/trace_file.h"

struct trace_entry { /* one plan or one kernel */
    struct hash_link link;
    /* The first use.  |wanted_us| of an object is the |wanted_us| of its plan, and |waited_us| is
     * 0. */
    struct trace_line line;
    unsigned processes;  /* how many processes used it */
    size_t last_process; /* index of the last process that used it */
    uint64_t longest_us; /* the longest time that a process waited */
    size_t order;        /* position in the files; orders entries with equal times */
};

struct trace_process { /* one file */
    char *path;        /* owned */
    struct buffer text;
    struct trace_line process; /* the line TRACE_PROCESS */
    size_t plans, kernels, damaged;
    uint64_t waited_us;
    bool is_cut;
};

struct trace_job {
    struct trace_entry **entries; /* sorted by the time of the first use */
    size_t count, capacity;
    struct hash_table known;
    struct trace_process *processes; /* in the order of their starts */
    size_t process_count;
    size_t refused; /* number of files that are not traces */
};

struct trace_question {
    const char *word;   /* the name of a job or, if it contains '/', the path of one file */
    const char *ending; /* how the names of the job's files end */
    /* Also read pulled traces.  They belong to no run of the job on this host: their processes ran
     * on hosts with other clocks. */
    bool with_pulled;
    /* A process counts if it started at |from_us| or later and before |until_us|. If |until_us| is
     * 0, there is no upper limit. */
    uint64_t from_us, until_us;
};

/* Reads the files that |question| selects.  Returns KILN_E_NOT_FOUND if a job has none.  The caller
 * releases |ret_job| after a failure, too. */
CLI_MUST_CHECK int trace_job_ask(const struct trace_question *question, struct trace_job *ret_job,
                                 struct kiln_error *err);
/* Reads all traces of a job, including pulled ones, or one file. */
CLI_MUST_CHECK int trace_job_read(const char *word, struct trace_job *ret_job,
                                  struct kiln_error *err);
void trace_job_done(struct trace_job *job);
#define TRACE_JOB_AUTO __attribute__((cleanup(trace_job_done)))

struct trace_reader { /* reads the lines of a process, one after the other */
    struct reader text;
};
/* Starts behind the file's first line. */
struct trace_reader trace_reader_of(const struct trace_process *process);
/* Returns false at the end.  Sets |ret_line| only if |ret_verdict| is TRACE_VALID.  The words of
 * |ret_line| are borrowed from the process.  A last line without a line end is damaged, because it
 * was not written completely. */
bool trace_reader_next(struct trace_reader *reader, struct trace_line *ret_line,
                       enum trace_verdict *ret_verdict);

/* Returns the job's entry for the same plan or kernel, or NULL. */
struct trace_entry *trace_job_find(const struct trace_job *job, const struct trace_line *line);
static inline bool trace_is_plan(const struct trace_line *line) { return line->kind == TRACE_PLAN; }

struct trace_totals {
    size_t plans, kernels, failed, damaged, cut;
    uint64_t waited_us; /* the sum of all processes' waits */
    uint64_t last_us;   /* the start of the newest process */
};
struct trace_totals trace_job_totals(const struct trace_job *job);

/* Calls |visit| with the name of each job, in alphabetical order, until |visit| returns an
 * error. */
typedef int trace_visit(void *context, const char *job, struct kiln_error *err);
CLI_MUST_CHECK int trace_each_job(trace_visit *visit, void *context, struct kiln_error *err);

/* Prints a note on standard error if something was not read. */
void trace_job_print_damage(const struct trace_job *job);
