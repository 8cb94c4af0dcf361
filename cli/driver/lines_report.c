/* SPDX-License-Identifier: MIT */
#include "cli/driver/lines_report.h"

#include "cli/driver/find.h"
#include "cli/exit_status.h"
#include "cli/output.h"
#include "cli/tiers.h"
#include "common/base/units.h"

#include <string.h>

static const struct {
    const char *message, *name, *stats;
} directions[] = {
    [KILN_FORWARD] = { "Forward Convolution", "Forward Conv.", "fwd" },
    [KILN_BACKWARD_DATA] = { "Backward Convolution Data", "Backward Data Conv.", "bwdd" },
    [KILN_BACKWARD_WEIGHTS] = { "Backward Convolution Weights", "Backward Weights Conv.", "bwdw" },
};

static void print_kernels(const struct measurement *m, FILE *out)
{
    char size[UNITS_TEXT_MAX], time[UNITS_TEXT_MAX];
    fprintf(out, "solver %s, ", m->solver);
    if (m->config[0])
        fprintf(out, "config %s, ", m->config);
    fprintf(out, "toolchain %s, workspace %s\n", m->toolchain, units_size(m->workspace, size));
    for (unsigned i = 0; i < m->object_count; i++) {
        const struct measured_object *o = &m->objects[i];
        fprintf(out, "kernel %.12s, %s, %s", o->key, units_size(o->size, size), tier_name(o->tier));
        if (o->compile_s > 0)
            fprintf(out, ", compile %s", units_seconds(o->compile_s, time));
        fputc('\n', out);
    }
}

static void print_phase(FILE *out, const char *before, const char *name, double seconds)
{
    char text[UNITS_TEXT_MAX];
    fprintf(out, "%s%s %s", before, name, units_seconds(seconds, text));
}

static void print_phases(const struct measurement *m, FILE *out)
{
    const struct phases *t = &m->time;
    if (t->find > 0)
        print_phase(out, "time: ", "find", t->find);
    print_phase(out, t->find > 0 ? ", " : "time: ", "plan", t->plan);
    print_phase(out, ", ", "fetch", t->fetch);
    if (t->compile > 0)
        print_phase(out, " (", "compilers' time", t->compile);
    print_phase(out, t->compile > 0 ? "), " : ", ", "load", t->load);
    print_phase(out, ", ", "first launch", t->first);
    if (strncmp(m->toolchain, "opencl", 6) == 0)
        fputs(" (the OpenCL driver's own compiling included)", out);
    if (t->steady > 0)
        print_phase(out, ", ", "steady", t->steady);
    fputc('\n', out);
}

static void print_elapsed(const struct measurement *m, FILE *out)
{
    const char *name = directions[m->problem.direction % 3].name;
    if (m->time.steady > 0)
        fprintf(out, "GPU Kernel Time %s Elapsed: %.6f ms (median of %u)\n", name,
                m->time.steady * 1e3, m->iterations);
    if (m->time.wall > 0)
        fprintf(out, "Wall-clock Time %s Elapsed: %.6f ms (average of %u)\n", name,
                m->time.wall * 1e3, m->iterations);
}

static void print_stats(const struct measurement *m, FILE *out)
{
    const struct kiln_problem *p = &m->problem;
    uint32_t y[3] = { 0 };
    struct kiln_error unused = { 0 };
    if (m->time.steady <= 0 || kiln_problem_output(p, y, &unused))
        return;
    double seconds = m->time.steady;
    fprintf(
        out,
        "stats: name, n, c, do, ho, wo, z, y, x, k, flopCnt, bytesRead, bytesWritten, GFLOPs, "
        "GB/s, timeMs\n"
        "stats: %s-conv%ux%ux%uu%u, %u, %u, %u, %u, %u, %u, %u, %u, %u, %.0f, %llu, %llu, %.1f, "
        "%.1f, %.6f\n",
        directions[p->direction % 3].stats, p->filter[0], p->filter[1], p->filter[2], p->stride[1],
        p->n, p->c, y[0], y[1], y[2], p->filter[0], p->filter[1], p->filter[2], p->k, m->flops,
        (unsigned long long)m->bytes_read, (unsigned long long)m->bytes_written,
        m->flops / seconds / 1e9, (double)(m->bytes_read + m->bytes_written) / seconds / 1e9,
        seconds * 1e3);
}

static void print_provisional(const struct measurement *m, FILE *out)
{
    fprintf(out, "The first plan was %s %s; %u better plans replaced it%s\n", m->first_solver,
            m->first_config, m->improvements, m->tuned ? "; it is tuned" : "");
}

static void print_verdict(const struct measurement *m, FILE *out)
{
    const char *name = directions[m->problem.direction % 3].message;
    if (m->err.code == KILN_E_OK && m->checked)
        fprintf(out, "%s Verifies OK on CPU reference (%llu elements, largest error %.3g)\n", name,
                (unsigned long long)m->elements, m->largest_error);
    else if (m->err.code == KILN_E_OK)
        fprintf(out, "%s done, not verified\n", name);
}

void lines_report_failure(const struct report_place *place, const struct kiln_error *err, FILE *out)
{
    char program[64] = "kiln-driver";
    if (place->line > 0)
        snprintf(program, sizeof(program), "kiln-driver: line %u", place->line);
    output_error(out, program, err, exit_status_advice(err->code));
}

void lines_report_print(const struct report_place *place, const struct measurement *m, FILE *out)
{
    const char *name = directions[m->problem.direction % 3].message;
    char text[512];
    snprintf(text, sizeof(text), "%s", place->command);
    output_clean(text, false);
    fprintf(out, "%s\n", text);
    if (m->transposed)
        fprintf(out,
                "transposed (-m trans): the requested %s is the %s of the line above, with x and y "
                "exchanged\n",
                directions[measure_asked_direction(m)].message, name);
    fprintf(out, "%s: seed %llu\n", name, (unsigned long long)m->seed);
    struct kiln_error unprinted = { 0 };
    if (m->found && find_print(m->found, out, &unprinted))
        output_error(stderr, "kiln-driver", &unprinted, NULL);
    if (m->found)
        find_warn(m->found, stderr);
    if (m->provisional)
        print_provisional(m, out);
    if (m->object_count > 0) {
        print_kernels(m, out);
        print_phases(m, out);
        print_stats(m, out);
        print_elapsed(m, out);
    }
    print_verdict(m, out);
    if (m->err.code != KILN_E_OK) {
        fprintf(out, "%s FAILED\n", name);
        fflush(out);
        lines_report_failure(place, &m->err, stderr);
    }
    fputc('\n', out);
    fflush(out);
}
