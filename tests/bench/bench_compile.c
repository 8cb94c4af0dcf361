/* SPDX-License-Identifier: MIT */

/* Measures a compile through kilnd, compared with a direct call of the same compiler. The two ways
 * alternate. */
#include "tests/bench/direct.h"
#include "tests/bench/server.h"

#define KERNELS_MAX 16u

static const char *const toolchains[] = { "hiprtc", "opencl" };

struct duel {
    const struct bench_options *options;
    const char *toolchain;
    struct server kilnd;
    struct kiln_client *client;
    struct direct direct;
    struct cold cold;
    unsigned count;
    double direct_ms[KERNELS_MAX], daemon_ms[KERNELS_MAX];
};

static void duel_done(struct duel *d)
{
    kiln_client_close(d->client);
    server_stop(&d->kilnd);
}

static double ms_since(uint64_t from) { return (double)(clock_monotonic_ns() - from) / 1e6; }

static enum kiln_code compile_both(struct duel *d, uint64_t id, double *direct_ms,
                                   double *daemon_ms, struct kiln_err *err)
{
    char options[COLD_OPTIONS_MAX];
    cold_options(id, options);
    uint64_t from = clock_monotonic_ns();
    enum kiln_code rc = d->direct.compile(&d->direct, &d->cold, options, err);
    *direct_ms = ms_since(from);
    if (rc)
        return rc;
    from = clock_monotonic_ns();
    rc = cold_fetch(d->client, &d->cold, id, 1, err);
    *daemon_ms = ms_since(from);
    return rc;
}

static enum kiln_code report_compile(const struct duel *d, struct kiln_err *err)
{
    struct json *direct = json_array(), *daemon = json_array();
    for (unsigned i = 0; i < d->count; i++) {
        json_append(direct, json_number(d->direct_ms[i]));
        json_append(daemon, json_number(d->daemon_ms[i]));
    }
    struct json *result = bench_result("compile");
    json_set_text(result, "toolchain", d->toolchain);
    json_set_text(result, "target", d->cold.target);
    json_set(result, "direct_ms", direct);
    json_set(result, "daemon_ms", daemon);
    return bench_print(result, err);
}

static enum kiln_code report_absent(const struct duel *d, const struct kiln_err *why,
                                    struct kiln_err *err)
{
    bench_say("not run: compile with %s: %s", d->toolchain, why->text);
    struct json *result = bench_result("compile");
    json_set_text(result, "toolchain", d->toolchain);
    json_set_text(result, "not_run", why->text);
    return bench_print(result, err);
}

static enum kiln_code alternate(struct duel *d, struct kiln_err *err)
{
    double first;
    d->count = d->options->quick ? 6 : 12;
    bench_say("compile: %u kernels through the daemon and directly (%s)", d->count, d->toolchain);
    enum kiln_code rc = compile_both(d, 0, &first, &first, err); /* only warms both ways up */
    for (unsigned i = 0; i < d->count && !rc; i++)
        rc = compile_both(d, i + 1, &d->direct_ms[i], &d->daemon_ms[i], err);
    return rc ? rc : report_compile(d, err);
}

static enum kiln_code open_both(struct duel *d, struct kiln_err *err)
{
    struct kilnd_options options = { .name = d->toolchain };
    enum kiln_code rc = direct_open(d->toolchain, d->options->work, &d->direct, err);
    if (!rc)
        rc = kilnd_start(d->options, &options, &d->kilnd, err);
    if (!rc)
        rc = cold_connect(d->kilnd.socket, &d->client, err);
    return rc ? rc : cold_find(d->client, d->toolchain, &d->cold, err);
}

static enum kiln_code in_child(void *context, unsigned index, struct kiln_err *err)
{
    (void)index;
    __attribute__((cleanup(duel_done))) struct duel d = *(struct duel *)context;
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = open_both(&d, &why);
    if (rc == KILN_UNAVAILABLE)
        return report_absent(&d, &why, err);
    if (rc)
        return kiln_fail(err, rc, "%s", why.text);
    return alternate(&d, err);
}

static enum kiln_code run_bench(const struct bench_options *o, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < sizeof(toolchains) / sizeof(toolchains[0]) && !rc; i++) {
        struct duel duel = { .options = o, .toolchain = toolchains[i] };
        rc = bench_fan_out(1, in_child, &duel, err);
    }
    return rc;
}

int main(int argc, char **argv) { return bench_main(argc, argv, "bench_compile", run_bench); }
