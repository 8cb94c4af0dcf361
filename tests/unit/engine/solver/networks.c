/* SPDX-License-Identifier: MIT */
/* Solvers of the layers in scripts/networks/, chosen without measurements: ConvDirectNaive must be
 * neither the choice nor the only solver that applies, on any target, in any type and layout.
 *
 *     test_unit_engine_solver_networks [FILE]...
 *
 * FILEs are other lists of MIOpenDriver command lines. */
#include "common/miopen/driver_line.h"
#include "engine/solver/solver.h"
#include "tests/support/test.h"
#include "tests/support/test_files.h"

#include <glob.h>
#include <string.h>

#define NAIVE "ConvDirectNaive"
/* Batch sizes: a large one, and the smallest one. */
#define BATCHES 2u
#define TYPES 4u /* fp32, fp16, bf16, and fp32 with TF32 allowed */
#define LAYOUTS 2u
#define PRINTED_MAX 20u
#define PROBLEMS_MIN 1000u

static const struct {
    const char *text;
    bool has_tensor_maps;
} targets[] = {
    { "sm_75", false },   { "sm_80", false },       { "sm_90", false },   { "sm_90a", false },
    { "sm_90a", true },   { "sm_120", false },      { "gfx906", false },  { "gfx908", false },
    { "gfx90a", false },  { "gfx942", false },      { "gfx1030", false }, { "gfx1100", false },
    { "gfx1201", false }, { "opencl:test", false },
};
#define TARGETS (sizeof(targets) / sizeof(targets[0]))

static struct target parsed[TARGETS];
static unsigned problems_seen, naive_choices;
static char **files;

static bool only_naive_applies(const struct problem *p, const struct target *target)
{
    for (size_t i = 0; solvers[i]; i++)
        if (strcmp(solvers[i]->name, NAIVE) != 0 && solvers[i]->applies(p, target))
            return false;
    return true;
}

static void check_choice(const struct problem *p, const struct target *target)
{
    char line[384];
    const struct solver *chosen = solver_choose(p, target);
    assert_non_null(chosen);
    if (strcmp(chosen->name, NAIVE) != 0)
        return;
    problem_to_driver(p, line, sizeof(line));
    if (naive_choices++ < PRINTED_MAX)
        print_error("%s, layout %u%s: %s %s\n", target->text, (unsigned)p->x_layout,
                    p->allow_tf32 ? ", tf32" : "", line,
                    only_naive_applies(p, target) ? "(nothing else applies)" : "");
}

static void check_in_every_way(struct problem p)
{
    for (unsigned way = 0; way < BATCHES * TYPES * LAYOUTS; way++) {
        unsigned type = way / BATCHES % TYPES;
        p.n = way % BATCHES ? 64 : 1;
        p.allow_tf32 = type == 3;
        p.type = p.allow_tf32 ? TYPE_FLOAT32 : type;
        p.x_layout = p.w_layout = p.y_layout = way / BATCHES / TYPES;
        for (size_t i = 0; i < TARGETS; i++)
            check_choice(&p, &parsed[i]);
    }
}

static void check_line(const char *text)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct driver_line line;
    struct problem p;
    enum kiln_code rc = driver_line_parse(bytes_of_text(text), &line, &err);
    if (rc == KILN_NOT_FOUND)
        return;
    must(rc, err);
    for (unsigned i = 0; driver_line_problem(&line, i, &p); i++) {
        problems_seen++;
        check_in_every_way(p);
    }
}

static void check_list(const char *path)
{
    char *rest = NULL;
    for (char *line = strtok_r(test_read_text(path), "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest))
        check_line(line);
}

SET_UP_STATIC(parse_targets)
{
    struct kiln_err err = KILN_ERR_INIT;
    for (size_t i = 0; i < TARGETS; i++) {
        must(target_parse(bytes_of_text(targets[i].text), &parsed[i], &err), err);
        parsed[i].has_tensor_maps = targets[i].has_tensor_maps;
    }
    problems_seen = naive_choices = 0;
}

FIXTURE(targets, parse_targets, NULL);

TEST(targets, no_layer_of_a_network_is_left_to_the_naive_solver)
{
    glob_t found = { 0 };
    assert_int_equal(glob(KILN_SOURCE "/scripts/networks/*.txt", 0, NULL, &found), 0);
    for (char **path = files && *files ? files : found.gl_pathv; *path; path++)
        check_list(*path);
    globfree(&found);
    assert_true((files && *files) || problems_seen >= PROBLEMS_MIN);
    if (naive_choices)
        fail_msg("%u choices are naive", naive_choices);
}

int main(int argc, char **argv)
{
    (void)argc;
    files = argv + 1;
    return test_run(NULL);
}
