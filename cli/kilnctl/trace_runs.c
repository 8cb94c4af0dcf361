/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/trace_runs.h"

/* Maximum time between the last answer to a run without compiles and the start of its next
 * process. */
#define START_GAP_US 5000000u

const char *trace_cause_name(enum trace_cause cause)
{
    static const char *const names[CAUSES] = {
        [CAUSE_COMPILED] = "compiled", [CAUSE_JOINED] = "joined",   [CAUSE_OWN] = "own",
        [CAUSE_FLEET] = "fleet",       [CAUSE_PACKAGE] = "package", [CAUSE_LOOKUP] = "look_up",
        [CAUSE_FAILED] = "failed",
    };
    return names[cause];
}

double trace_run_waited(const struct trace_run *run)
{
    double seconds = 0;
    for (int i = 0; i < CAUSES; i++)
        seconds += run->waits[i].seconds;
    return seconds;
}

bool trace_run_is_cold(const struct trace_run *run)
{
    return run->waits[CAUSE_COMPILED].count + run->waits[CAUSE_JOINED].count +
               run->waits[CAUSE_OWN].count >
           0;
}

static void add_wait(struct trace_wait *wait, uint64_t us)
{
    wait->seconds += (double)us / 1e6;
    wait->count++;
}

static bool read_valid_line(struct trace_reader *reader, struct trace_line *line)
{
    enum trace_verdict verdict = TRACE_DAMAGED;
    while (trace_reader_next(reader, line, &verdict))
        if (verdict == TRACE_VALID)
            return true;
    return false;
}

/* ---- which processes are a run ---- */

struct activity {      /* of one process, or of a run */
    uint64_t last_us;  /* time of the last answer, since the epoch */
    size_t first, end; /* which processes of the job; |end| is not among them */
    bool is_cold;
};

static struct activity activity_of(const struct trace_job *job, size_t index)
{
    const struct trace_process *process = &job->processes[index];
    struct trace_reader reader = trace_reader_of(process);
    struct trace_line line;
    struct activity a = { process->process.start_us, index, index + 1, false };
    while (read_valid_line(&reader, &line)) {
        if (line.kind == TRACE_PROCESS || line.kind == TRACE_CUT)
            continue;
        a.is_cold |= line.tier == TRACE_COMPILED || line.tier == TRACE_OWN;
        uint64_t us = process->process.start_us + line.wanted_us + line.waited_us;
        if (line.kind != TRACE_OBJECT && us > a.last_us)
            a.last_us = us;
    }
    return a;
}

/* Returns the start of the first prefetch after |after_us| and before |until_us|; 0 if there is
 * none. */
static uint64_t first_prefetch(const struct trace_job *prefetches, uint64_t after_us,
                               uint64_t until_us)
{
    for (size_t i = 0; i < prefetches->process_count; i++) {
        uint64_t us = prefetches->processes[i].process.start_us;
        if (us > after_us)
            return us < until_us ? us : 0;
    }
    return 0;
}

/* Returns whether a prefetch began after the last answer to |run|, before |start_us|, on a host of
 * |run|.  On another host, it may be for a further process of the same run. */
static bool has_new_prefetch(const struct trace_job *job, const struct trace_job *prefetches,
                             const struct activity *run, uint64_t start_us)
{
    for (size_t i = 0; i < prefetches->process_count; i++) {
        const struct trace_line *prefetch = &prefetches->processes[i].process;
        if (prefetch->start_us <= run->last_us || prefetch->start_us >= start_us)
            continue;
        for (size_t k = run->first; k < run->end; k++)
            if (bytes_equal(job->processes[k].process.host, prefetch->host))
                return true;
    }
    return false;
}

static bool continues_run(const struct activity *run, uint64_t start_us)
{
    return start_us <= run->last_us + (run->is_cold ? 0 : START_GAP_US);
}

static void split_runs(const struct trace_job *job, const struct trace_job *prefetches,
                       struct trace_runs *runs)
{
    struct activity run = { 0 };
    uint64_t before_us = 0;
    for (size_t i = 0; i < job->process_count; i++) {
        const struct activity a = activity_of(job, i);
        uint64_t start_us = job->processes[i].process.start_us;
        if (i == 0 || has_new_prefetch(job, prefetches, &run, start_us) ||
            !continues_run(&run, start_us)) {
            uint64_t prefetch_us = first_prefetch(prefetches, before_us, start_us);
            runs->list[runs->count++] =
                (struct trace_run){ .start_us = start_us, .prefetch_us = prefetch_us, .first = i };
            run = a;
        }
        run.end = a.end;
        run.last_us = a.last_us > run.last_us ? a.last_us : run.last_us;
        run.is_cold |= a.is_cold;
        runs->list[runs->count - 1].count++;
        before_us = start_us;
    }
}

static void count_hosts(const struct trace_job *job, struct trace_run *run)
{
    const struct trace_process *p = &job->processes[run->first];
    for (size_t i = 0; i < run->count; i++) {
        size_t same = 0;
        while (same < i && !bytes_equal(p[same].process.host, p[i].process.host))
            same++;
        run->hosts += same == i;
    }
}

/* ---- who started a compile ---- */

/* The process of a run that first requested a kernel which kilnd of |host| then compiled.  The
 * other processes of the host waited for the same compile. */
struct compile {
    struct hash_link link;
    struct bytes key, host;
    uint64_t wanted_us; /* since the epoch */
    size_t process;
};

static struct compile *find_compile(const struct hash_table *compiles, struct bytes key,
                                    struct bytes host)
{
    HASH_EACH (compiles, bytes_hash(key, 0), struct compile, link, c)
        if (bytes_equal(c->key, key) && bytes_equal(c->host, host))
            return c;
    return NULL;
}

static bool note_compile(struct hash_table *compiles, const struct compile *seen)
{
    struct compile *known = find_compile(compiles, seen->key, seen->host);
    if (known && seen->wanted_us >= known->wanted_us)
        return true;
    if (known) {
        known->wanted_us = seen->wanted_us;
        known->process = seen->process;
        return true;
    }
    known = malloc(sizeof(*known));
    if (!known)
        return false;
    *known = *seen;
    hash_table_add(compiles, &known->link, bytes_hash(known->key, 0));
    return true;
}

static bool note_compiles(struct hash_table *compiles, const struct trace_process *p, size_t index)
{
    struct trace_reader reader = trace_reader_of(p);
    struct trace_line line;
    uint64_t plan_us = 0;
    bool has_memory = true;
    while (has_memory && read_valid_line(&reader, &line)) {
        if (line.kind == TRACE_PLAN)
            plan_us = line.wanted_us;
        if (!line.key.size || line.tier != TRACE_COMPILED)
            continue;
        const struct compile seen = {
            .key = line.key,
            .host = p->process.host,
            .wanted_us =
                p->process.start_us + (line.kind == TRACE_OBJECT ? plan_us : line.wanted_us),
            .process = index,
        };
        has_memory = note_compile(compiles, &seen);
    }
    return has_memory;
}

static void forget_compiles(struct hash_table *compiles)
{
    HASH_ALL (compiles, struct compile, link, c)
        free(c);
    hash_table_done(compiles);
}

/* ---- waits by cause ---- */

struct process_waits { /* the process that is being read */
    struct trace_run *run;
    const struct hash_table *compiles;
    const struct trace_process *process;
    size_t index;
    struct trace_line plan;   /* the last plan, while its objects are being read */
    struct trace_line object; /* of the compiled objects of |plan|, the one that took longest */
    bool has_plan, has_object;
};

/* Returns whether another request had started the compile that |line| waited for.  |compiled| is
 * the slowest compiled object of |line|, or NULL if the process had requested each of them before,
 * from another thread. */
static bool is_joined(const struct process_waits *w, const struct trace_line *line,
                      const struct trace_line *compiled)
{
    if (!compiled || line->waited_us < compiled->compile_us)
        return true;
    const struct compile *c = find_compile(w->compiles, compiled->key, w->process->process.host);
    return c && c->process != w->index;
}

static enum trace_cause cause_of(const struct process_waits *w, const struct trace_line *line,
                                 const struct trace_line *compiled)
{
    switch (line->tier) {
    case TRACE_COMPILED: return is_joined(w, line, compiled) ? CAUSE_JOINED : CAUSE_COMPILED;
    case TRACE_OWN: return CAUSE_OWN;
    case TRACE_FLEET: return CAUSE_FLEET;
    case TRACE_PACKAGE: return CAUSE_PACKAGE;
    case TRACE_FAILED: return CAUSE_FAILED;
    default: return CAUSE_LOOKUP;
    }
}

/* `trace prefetch` requests plans again, and kernels by their keys.  It cannot compile the latter,
 * because a trace has no sources. */
static bool is_avoidable(const struct trace_line *line, enum trace_cause cause)
{
    if (cause == CAUSE_FLEET || cause == CAUSE_PACKAGE)
        return line->kind == TRACE_PLAN || line->kind == TRACE_KERNEL;
    return line->kind == TRACE_PLAN && (cause == CAUSE_COMPILED || cause == CAUSE_JOINED);
}

/* Ignores all for which the process did not wait, such as plans that were requested with the
 * priority of a prefetch by the thread that looks for better ones, even if they failed. */
static void add_line(struct process_waits *w, const struct trace_line *line,
                     const struct trace_line *compiled)
{
    if (line->waited_us == 0)
        return;
    const enum trace_cause cause = cause_of(w, line, compiled);
    add_wait(&w->run->waits[cause], line->waited_us);
    if (line->kind == TRACE_PLAN && line->tier == TRACE_HOT)
        add_wait(&w->run->hot, line->waited_us);
    if (is_avoidable(line, cause))
        add_wait(&w->run->avoidable, line->waited_us);
}

static void end_plan(struct process_waits *w)
{
    if (w->has_plan)
        add_line(w, &w->plan, w->has_object ? &w->object : NULL);
    w->has_plan = w->has_object = false;
}

static void take_object(struct process_waits *w, const struct trace_line *line)
{
    if (line->tier != TRACE_COMPILED || (w->has_object && line->compile_us <= w->object.compile_us))
        return;
    w->object = *line;
    w->has_object = true;
}

static void take_line(struct process_waits *w, const struct trace_line *line)
{
    if (line->kind == TRACE_OBJECT) {
        take_object(w, line);
        return;
    }
    end_plan(w);
    if (line->kind == TRACE_PLAN) {
        w->plan = *line;
        w->has_plan = true;
    } else if (line->kind == TRACE_KERNEL || line->kind == TRACE_COMPILE) {
        add_line(w, line, line);
    }
}

static void read_waits(struct trace_run *run, const struct hash_table *compiles,
                       const struct trace_process *process, size_t index)
{
    struct process_waits w = {
        .run = run, .compiles = compiles, .process = process, .index = index
    };
    struct trace_reader reader = trace_reader_of(process);
    struct trace_line line;
    double before_s = trace_run_waited(run);
    while (read_valid_line(&reader, &line))
        take_line(&w, &line);
    end_plan(&w);
    double waited_s = trace_run_waited(run) - before_s;
    run->longest_s = waited_s > run->longest_s ? waited_s : run->longest_s;
}

static bool read_run(const struct trace_job *job, struct trace_run *run)
{
    struct hash_table compiles = { 0 };
    const size_t end = run->first + run->count;
    bool has_memory = true;
    for (size_t i = run->first; has_memory && i < end; i++)
        has_memory = note_compiles(&compiles, &job->processes[i], i);
    for (size_t i = run->first; has_memory && i < end; i++)
        read_waits(run, &compiles, &job->processes[i], i);
    count_hosts(job, run);
    forget_compiles(&compiles);
    return has_memory;
}

int trace_runs_make(const struct trace_job *job, const struct trace_job *prefetches,
                    struct trace_runs *ret_runs, struct kiln_error *err)
{
    struct trace_runs *runs = ret_runs;
    *runs = (struct trace_runs){ .list = calloc(job->process_count + 1, sizeof(*runs->list)) };
    bool has_memory = runs->list;
    if (has_memory)
        split_runs(job, prefetches, runs);
    for (size_t i = 0; has_memory && i < runs->count; i++)
        has_memory = read_run(job, &runs->list[i]);
    return has_memory ? KILN_E_OK
                      : cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the runs of a job");
}

void trace_runs_done(struct trace_runs *runs)
{
    free(runs->list);
    *runs = (struct trace_runs){ 0 };
}
