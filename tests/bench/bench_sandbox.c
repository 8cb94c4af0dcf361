/* SPDX-License-Identifier: MIT */

/* Measures how much longer a compiler process takes to start in the sandbox, from fork until it is
 * ready. Starts processes alternately with all sandbox layers that this host has and without any
 * layer. The processes do not load a compiler. */
#include "engine/compile/confine.h"
#include "engine/sandbox/capabilities.h"
#include "engine/sandbox/change_user.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STARTS_MAX 150u
#define NOBODY 65534

struct start {
    const char *directory;
    bool confined;
    int ready; /* pipe to which the child writes when it is ready */
};

static bool become_nobody(void *context)
{
    struct kiln_err err = KILN_ERR_INIT;
    (void)context;
    if (geteuid() == 0 && change_user(NOBODY, NOBODY, "user", &err))
        return false;
    return give_up_capabilities();
}

/* The child's main function. Enters the sandbox if |confined| is set. Then writes the sandbox's
 * layers to |ready|, as bits. */
static _Noreturn void run_start(const struct start *s)
{
    static struct confinement c;
    struct kiln_err err = KILN_ERR_INIT;
    uint32_t has = 0;
    const struct confine_options options = { .directory = s->directory,
                                             .is_workers_user = geteuid() == 0,
                                             .give_up = become_nobody };
    if (s->confined && confine_begin(&c, &options, &err))
        _exit(1);
    if (!become_nobody(NULL) || chdir(s->directory) != 0)
        _exit(1);
    if (s->confined) {
        if (confine_finish(&c, &err))
            _exit(1);
        has = c.report.has;
    }
    _exit(write(s->ready, &has, sizeof(has)) == sizeof(has) ? 0 : 1);
}

static enum kiln_code time_start(struct start *s, uint64_t *ret_ns, uint32_t *ret_has,
                                 struct kiln_err *err)
{
    int ends[2], status = 0;
    if (pipe(ends) != 0)
        return kiln_fail(err, KILN_IO, "cannot make a pipe");
    s->ready = ends[1];
    uint64_t from = clock_monotonic_ns();
    pid_t child = fork();
    if (child == 0)
        run_start(s);
    close(ends[1]);
    bool is_ready = child > 0 && read(ends[0], ret_has, sizeof(*ret_has)) == sizeof(*ret_has);
    *ret_ns = clock_monotonic_ns() - from;
    close(ends[0]);
    if (child > 0)
        waitpid(child, &status, 0);
    return is_ready && status == 0 ? KILN_OK
                                   : kiln_fail(err, KILN_IO, "a process did not get ready");
}

static double ms(uint64_t *samples, unsigned count, double fraction)
{
    return (double)bench_percentile(samples, count, fraction) / 1e6;
}

static enum kiln_code run_bench(const struct bench_options *o, struct kiln_err *err)
{
    static uint64_t took[2][STARTS_MAX];
    unsigned count = o->quick ? STARTS_MAX / 5 : STARTS_MAX;
    struct start start = { .directory = o->work };
    uint32_t has[2] = { 0 };
    enum kiln_code rc = KILN_OK;
    /* the sandboxed process runs as another user, who must enter the directory */
    if (chmod(o->work, 0755) != 0)
        return kiln_fail(err, KILN_IO, "cannot set the mode of '%s'", o->work);
    bench_say("sandbox: %u starts with it, %u without", count, count);
    for (unsigned i = 0; i < 2 * count && !rc; i++) {
        start.confined = i % 2;
        rc = time_start(&start, &took[i % 2][i / 2], &has[i % 2], err);
    }
    if (rc)
        return rc;
    char missing[LAYERS_TEXT_MAX];
    report_missing(&(struct sandbox_report){ .has = has[1] }, missing);
    struct json *result = bench_result("sandbox");
    json_set_u64(result, "starts", count);
    json_set_text(result, "missing", missing);
    json_set_number(result, "bare_p10_ms", ms(took[0], count, 0.1));
    json_set_number(result, "bare_p50_ms", ms(took[0], count, 0.5));
    json_set_number(result, "confined_p10_ms", ms(took[1], count, 0.1));
    json_set_number(result, "confined_p50_ms", ms(took[1], count, 0.5));
    return bench_print(result, err);
}

int main(int argc, char **argv) { return bench_main(argc, argv, "bench_sandbox", run_bench); }
