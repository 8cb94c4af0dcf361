/* SPDX-License-Identifier: MIT */
/* gpu_trials: verifies and times solvers on a real NVIDIA GPU.  It compiles with NVRTC on all
 * cores.  Before a kernel runs, its output and the guards around the output are filled with NaNs.
 * The result is compared with a double-precision reference, and times are measured with events.  A
 * bad kernel spoils only its own trial (watch.h). --help lists the options. */
#include "tests/gpu/judge.h"
#include "tests/gpu/problems.h"
#include "tests/gpu/report.h"
#include "tests/gpu/search.h"
#include "tests/kernels/random_problem.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX 16
#define REFERENCES_CHECKED 30u
/* A trial that takes this many times the best time of its problem is not timed exactly.
 * HOPELESS_IN_SEARCH is for a search. */
#define HOPELESS_IN_SEARCH 1.25
#define HOPELESS 2.0
#define ROUNDS 2u

struct options {
    const char *files[FILES_MAX], *chosen;
    unsigned file_count;
    unsigned random;
    struct problem_change change;
    const char *target;
    bool compile_only, untuned, list;
    struct trials_selection selection;
    struct watch_options watch;
    bool search;
    struct search_options searching; /* its |watch| is filled from the other options */
    const char *json;
};

/* ---- problems ---- */

struct adding {
    struct trials *trials;
    const struct trials_selection *selection;
    bool untuned;
};

static enum kiln_code add_problem(void *context, const struct problem *problem,
                                  struct kiln_err *err)
{
    struct adding *adding = context;
    struct trials_selection selection = *adding->selection;
    enum kiln_code rc = problem_check(problem, err);
    if (!rc && adding->untuned) {
        const struct solver *solver = solver_choose(problem, &adding->trials->target);
        if (!solver)
            return solver_none(problem, &adding->trials->target, err);
        selection.solver = solver->name;
    }
    return rc ? rc : trials_add(adding->trials, problem, &selection, err);
}

/* Adds a problem with a solver and a config from a file. If the line before has the same problem,
 * both use the same operands and reference. */
static enum kiln_code add_chosen_problem(void *context, const struct problem *problem,
                                         struct kiln_err *err)
{
    struct adding *adding = context;
    struct trials *t = adding->trials;
    const struct solver *solver = solver_find(bytes_of_text(adding->selection->solver));
    bool is_same = t->problem_count > 0 &&
                   memcmp(&t->problems[t->problem_count - 1], problem, sizeof(*problem)) == 0;
    return is_same && solver && solver->applies(problem, &t->target)
               ? trials_add_config(t, solver, adding->selection->config, err)
               : trials_add(t, problem, adding->selection, err);
}

static enum kiln_code add_chosen(struct trials *trials, const struct options *o, char *text,
                                 struct kiln_err *err)
{
    char *rest = NULL, *solver = strtok_r(text, "\t", &rest), *config = strtok_r(NULL, "\t", &rest);
    struct trials_selection selection = { .solver = solver };
    struct adding adding = { .trials = trials, .selection = &selection };
    if (!solver || !config)
        return kiln_fail(err, KILN_INVALID, "a line has no solver, config and command");
    selection.config = strcmp(config, "-") == 0 ? "" : config;
    return problems_take(rest, &o->change, add_chosen_problem, &adding, err);
}

static enum kiln_code add_all_chosen(struct trials *trials, const struct options *o,
                                     struct kiln_err *err)
{
    char text[2048];
    enum kiln_code rc = KILN_OK;
    FILE *file = fopen(o->chosen, "re");
    if (!file)
        return kiln_fail(err, KILN_NOT_FOUND, "cannot open '%s'", o->chosen);
    while (!rc && fgets(text, sizeof(text), file)) {
        text[strcspn(text, "\n")] = '\0';
        rc = add_chosen(trials, o, text, err);
    }
    fclose(file);
    return rc ? kiln_while(err, "reading '%s'", o->chosen) : KILN_OK;
}

/* For each solver, adds the same number of random problems to which the solver applies, in all
 * directions. */
static enum kiln_code add_random_problems(struct trials *trials, const struct options *o,
                                          struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t s = 0; solvers[s] && !rc; s++) {
        uint64_t state = o->watch.run.seed;
        struct trials_selection selection = o->selection;
        if (selection.solver && strcmp(selection.solver, solvers[s]->name) != 0)
            continue;
        selection.solver = solvers[s]->name;
        unsigned added = 0;
        for (unsigned tries = 0; added < o->random && tries < 1000u * o->random && !rc; tries++) {
            unsigned direction =
                o->change.direction >= 0 ? (unsigned)o->change.direction : tries % 3;
            struct problem p = random_problem(&state, (enum direction)direction);
            problem_change(&p, &o->change);
            struct kiln_err ignored = KILN_ERR_INIT;
            if (problem_check(&p, &ignored) || !solvers[s]->applies(&p, &trials->target))
                continue;
            rc = trials_add(trials, &p, &selection, err);
            added++;
        }
    }
    return rc;
}

/* ---- options ---- */

static const char usage[] =
    "Usage: gpu_trials [OPTION]...\n"
    "  --problems FILE   MIOpenDriver command lines; may be given several times\n"
    "  --chosen FILE     lines of solver, config ('-': none) and one command line, with tabs "
    "between\n"
    "  --random N        N random problems for each solver\n"
    "  --batch N, --type fp32|fp16|bf16|tf32, --layout NCHW|NHWC, --direction F|B|W\n"
    "                    instead of what the lines and the random problems say\n"
    "  --untuned         for each problem only what kiln chooses without measurements\n"
    "  --list            print the trials as lines for --chosen; needs no GPU, but --target\n"
    "  --solver NAME     this one instead of all that apply\n"
    "  --without NAME    all but this one\n"
    "  --configs TEXT    default, random:N (beside the default), all, or one config\n"
    "  --search N        after these: N random configs of each solver near the best, then\n"
    "                    neighbours of the best; --rounds N times (2)\n"
    "  --seed S          of random problems, configs and data\n"
    "  --target TEXT     instead of the GPU's own, as sm_90a\n"
    "  --no-time         verify only         --no-verify  time only\n"
    "  --compile-only    see that all of it compiles; needs no GPU, but --target\n"
    "  --check-references N  random problems to compare the GPU's reference with the CPU's on\n"
    "  --seconds S       begin nothing later than that\n"
    "  --compilers N     processes         --json FILE  one object a line\n"
    "  --quiet           print only what is not right, and the best of each problem\n"
    "Ends 0 when everything that ran was right.\n";

static int which(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    fprintf(stderr, "gpu_trials: '%s' is not understood\n%s", text, usage);
    exit(2);
}

static void take_configs(struct options *o, const char *text)
{
    if (strcmp(text, "default") == 0)
        o->selection.random = 0;
    else if (strcmp(text, "all") == 0)
        o->selection.random = CONFIGS_ALL;
    else if (strncmp(text, "random:", 7) == 0)
        o->selection.random = (uint32_t)strtoul(text + 7, NULL, 10);
    else
        o->selection.config = text;
}

static void take_option(struct options *o, int letter, char *value)
{
    static const char *const layouts[] = { "NCHW", "NHWC" };
    static const char *const directions[] = { "F", "B", "W" };
    switch (letter) {
    case 'p':
        if (o->file_count < FILES_MAX)
            o->files[o->file_count++] = value;
        break;
    case 'H': o->chosen = value; break;
    case 'r': o->random = (unsigned)strtoul(value, NULL, 10); break;
    case 'n': o->change.batch = (uint32_t)strtoul(value, NULL, 10); break;
    case 't': o->change.type = which(value, problem_types, PROBLEM_TYPES); break;
    case 'l': o->change.layout = which(value, layouts, 2); break;
    case 'd': o->change.direction = which(value, directions, 3); break;
    case 's': o->selection.solver = value; break;
    case 'w': o->selection.without = value; break;
    case 'c': take_configs(o, value); break;
    case 'S': o->watch.run.seed = o->selection.seed = strtoull(value, NULL, 10); break;
    case 'T': o->target = value; break;
    case 'V': o->watch.run.verify = false; break;
    case 'M': o->watch.run.time = false; break;
    case 'e': o->watch.seconds = strtod(value, NULL); break;
    case 'j': o->watch.compilers = (unsigned)strtoul(value, NULL, 10); break;
    case 'J': o->json = value; break;
    case 'A': o->search = true, o->searching.random = (uint32_t)strtoul(value, NULL, 10); break;
    case 'B': o->searching.rounds = (uint32_t)strtoul(value, NULL, 10); break;
    case 'R': o->watch.run.check_references = (unsigned)strtoul(value, NULL, 10); break;
    case 'q': o->watch.quiet = true; break;
    case 'C': o->compile_only = true; break;
    case 'U': o->untuned = true; break;
    case 'L': o->list = true; break;
    case 'h': fputs(usage, stdout); exit(0);
    default: fputs(usage, stderr); exit(2);
    }
}

static void read_options(struct options *o, int argc, char **argv)
{
    static const struct option table[] = {
        { "problems", required_argument, NULL, 'p' },
        { "chosen", required_argument, NULL, 'H' },
        { "random", required_argument, NULL, 'r' },
        { "batch", required_argument, NULL, 'n' },
        { "type", required_argument, NULL, 't' },
        { "layout", required_argument, NULL, 'l' },
        { "direction", required_argument, NULL, 'd' },
        { "solver", required_argument, NULL, 's' },
        { "configs", required_argument, NULL, 'c' },
        { "seed", required_argument, NULL, 'S' },
        { "target", required_argument, NULL, 'T' },
        { "no-verify", no_argument, NULL, 'V' },
        { "no-time", no_argument, NULL, 'M' },
        { "seconds", required_argument, NULL, 'e' },
        { "compilers", required_argument, NULL, 'j' },
        { "json", required_argument, NULL, 'J' },
        { "quiet", no_argument, NULL, 'q' },
        { "compile-only", no_argument, NULL, 'C' },
        { "check-references", required_argument, NULL, 'R' },
        { "without", required_argument, NULL, 'w' },
        { "search", required_argument, NULL, 'A' },
        { "untuned", no_argument, NULL, 'U' },
        { "list", no_argument, NULL, 'L' },
        { "rounds", required_argument, NULL, 'B' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int letter;
    while ((letter = getopt_long(argc, argv, "", table, NULL)) != -1)
        take_option(o, letter, optarg);
}

static enum kiln_code make_list(struct trials *trials, const struct options *o,
                                struct kiln_err *err)
{
    struct solution_program judge = judge_program();
    struct adding adding = { trials, &o->selection, o->untuned };
    enum kiln_code rc = o->target ? target_parse(bytes_of_text(o->target), &trials->target, err)
                                  : watch_target(&trials->target, err);
    trials->target.has_tensor_maps = true;
    if (!rc && nvrtc_pool_add(&trials->pool, &judge, trials->target.text) == SIZE_MAX)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the reference's program");
    for (unsigned i = 0; i < o->file_count && !rc; i++)
        rc = problems_read(o->files[i], &o->change, add_problem, &adding, err);
    if (!rc && o->chosen)
        rc = add_all_chosen(trials, o, err);
    if (!rc && o->random)
        rc = add_random_problems(trials, o, err);
    if (!rc && trials->count == 0)
        rc = kiln_fail(err, KILN_INVALID, "there is nothing to try; see --help");
    return rc ? rc : trials_share(trials, err);
}

static int print_list(const struct trials *trials)
{
    for (size_t i = 0; i < trials->count; i++) {
        const struct gpu_trial *trial = &trials->trials[i];
        char line[512];
        problem_to_driver(&trials->problems[trial->problem], line, sizeof(line));
        printf("%s\t%s\t%s\n", trial->solver->name, trial->config[0] ? trial->config : "-", line);
    }
    return 0;
}

static int run(struct trials *trials, struct options *o)
{
    int status;
    o->watch.json = o->json ? fopen(o->json, "we") : NULL;
    if (o->json && !o->watch.json) {
        perror(o->json);
        return 2;
    }
    o->watch.run.hopeless = o->search ? HOPELESS_IN_SEARCH : HOPELESS;
    o->searching.watch = o->watch;
    o->searching.seed = o->selection.seed;
    if (o->compile_only)
        status = watch_compilers(trials, &o->watch);
    else if (o->search)
        status = search_best(trials, &o->searching);
    else {
        status = watch_trials(trials, &o->watch);
        printf("-- the best of each problem\n");
        report_best(trials);
    }
    if (o->watch.json && fclose(o->watch.json)) {
        perror(o->json);
        status = 2;
    }
    return status;
}

int main(int argc, char **argv)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct options o = { .change = PROBLEM_UNCHANGED,
                         .selection = { .seed = 1 },
                         .searching = { .rounds = ROUNDS },
                         .watch = { .compilers = cores > 1 ? (unsigned)cores : 1,
                                    .run = { .verify = true,
                                             .time = true,
                                             .seed = 1,
                                             .check_references = REFERENCES_CHECKED } } };
    struct trials trials = { .count = 0 };
    struct kiln_err err = KILN_ERR_INIT;
    read_options(&o, argc, argv);
    enum kiln_code rc = make_list(&trials, &o, &err);
    if (rc)
        fprintf(stderr, "gpu_trials: %s\n", err.text);
    int status = rc ? 2 : o.list ? print_list(&trials) : run(&trials, &o);
    trials_done(&trials);
    return status;
}
