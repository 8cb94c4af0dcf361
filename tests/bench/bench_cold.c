/* SPDX-License-Identifier: MIT */

/* Measures kernels that must be compiled. Stampede: eight processes request the same kernels at the
 * same time, compared with one process. Scaling: kilnd has one compiler process for each CPU. This
 * is compared with a kilnd that has a single compiler process. It is also compared with processes,
 * one for each CPU, that call the compiler directly. */
#include "tests/bench/direct_team.h"
#include "tests/bench/server.h"

#define KERNELS 24u
#define CROWD 8u
#define ROUNDS_MAX 8u

struct stampede {
    const char *socket;
    const struct cold *cold;
    uint64_t first_id;
    struct bench_gate *gate;
    struct span {
        uint64_t begin_ns, end_ns;
    } * spans;
};

static enum kiln_code request_all(void *context, unsigned index, struct kiln_err *err)
{
    const struct stampede *s = context;
    struct kiln_client *client;
    enum kiln_code rc = cold_connect(s->socket, &client, err);
    if (rc)
        return rc;
    bench_gate_pass(s->gate);
    s->spans[index].begin_ns = clock_monotonic_ns();
    rc = cold_fetch(client, s->cold, s->first_id, KERNELS, err);
    s->spans[index].end_ns = clock_monotonic_ns();
    kiln_client_close(client);
    return rc;
}

static double wall_of(const struct stampede *s, unsigned clients)
{
    uint64_t begin = UINT64_MAX, end = 0;
    for (unsigned i = 0; i < clients; i++) {
        begin = s->spans[i].begin_ns < begin ? s->spans[i].begin_ns : begin;
        end = s->spans[i].end_ns > end ? s->spans[i].end_ns : end;
    }
    return (double)(end - begin) / 1e9;
}

static enum kiln_code count_compiles(const char *socket, uint64_t *ret_count, struct kiln_err *err)
{
    struct kiln_client *client;
    enum kiln_code rc = cold_connect(socket, &client, err);
    if (rc)
        return rc;
    rc = cold_counter(client, "compiles", ret_count, err);
    kiln_client_close(client);
    return rc;
}

static enum kiln_code run_crowd(struct stampede *s, unsigned clients, double *ret_wall,
                                uint64_t *ret_compiles, struct kiln_err *err)
{
    uint64_t before = 0, after = 0;
    enum kiln_code rc = count_compiles(s->socket, &before, err);
    if (!rc)
        rc = bench_gate_init(s->gate, clients, err);
    if (!rc)
        rc = bench_fan_out(clients, request_all, s, err);
    if (!rc)
        rc = count_compiles(s->socket, &after, err);
    if (rc)
        return rc;
    *ret_wall = wall_of(s, clients);
    *ret_compiles = after - before;
    s->first_id += KERNELS;
    return KILN_OK;
}

static enum kiln_code report_stampede(const struct stampede *s, unsigned rounds, double wall[][2],
                                      uint64_t compiles[][2], struct kiln_err *err)
{
    struct json *one = json_array(), *many = json_array(), *count = json_array();
    for (unsigned i = 1; i < rounds; i++) { /* round 0 only warmed the compilers up */
        json_append(one, json_number(wall[i][0]));
        json_append(many, json_number(wall[i][1]));
        json_append(count, json_number((double)compiles[i][1]));
    }
    struct json *result = bench_result("stampede");
    json_set_text(result, "toolchain", s->cold->toolchain);
    json_set_u64(result, "kernels", KERNELS);
    json_set_u64(result, "clients", CROWD);
    json_set(result, "one_s", one);
    json_set(result, "many_s", many);
    json_set(result, "compiles", count);
    return bench_print(result, err);
}

static enum kiln_code run_stampede(const struct bench_options *o, const struct server *kilnd,
                                   const struct cold *cold, void *shared, struct kiln_err *err)
{
    double wall[ROUNDS_MAX][2];
    uint64_t compiles[ROUNDS_MAX][2];
    struct stampede s = { .socket = kilnd->socket, .cold = cold, .gate = shared };
    s.spans = (struct span *)(s.gate + 1);
    unsigned rounds = o->quick ? 3 : 6;
    enum kiln_code rc = KILN_OK;
    bench_say("stampede: %u clients on %u cold kernels (%s)", CROWD, KERNELS, cold->toolchain);
    for (unsigned i = 0; i < rounds && !rc; i++) {
        rc = run_crowd(&s, 1, &wall[i][0], &compiles[i][0], err);
        if (!rc)
            rc = run_crowd(&s, CROWD, &wall[i][1], &compiles[i][1], err);
    }
    return rc ? rc : report_stampede(&s, rounds, wall, compiles, err);
}

static enum kiln_code time_batch(const char *socket, const struct cold *cold, uint64_t *id,
                                 double *ret_wall, struct kiln_err *err)
{
    struct kiln_client *client;
    enum kiln_code rc = cold_connect(socket, &client, err);
    if (rc)
        return rc;
    uint64_t from = clock_monotonic_ns();
    rc = cold_fetch(client, cold, *id, KERNELS, err);
    *ret_wall = (double)(clock_monotonic_ns() - from) / 1e9;
    *id += KERNELS;
    kiln_client_close(client);
    return rc;
}

enum { DIRECT_ONE, DIRECT_MANY, KILN_ONE, KILN_MANY, WAYS };

static const char *const way_names[WAYS] = { "direct_one_s", "direct_many_s", "one_s", "many_s" };

struct scaling {
    const struct bench_options *options;
    const struct cold *cold;
    /* kilnd's socket for each way; NULL if the way calls the compiler directly */
    const char *sockets[WAYS];
    unsigned compilers[WAYS];
    struct kiln_err why_not_direct;
    double wall[ROUNDS_MAX][WAYS];
};

static enum kiln_code report_scaling(const struct scaling *s, unsigned rounds, struct kiln_err *err)
{
    struct json *result = bench_result("scaling");
    json_set_text(result, "toolchain", s->cold->toolchain);
    json_set_u64(result, "kernels", KERNELS);
    json_set_u64(result, "workers", s->options->cpus);
    if (s->why_not_direct.code)
        json_set_text(result, "direct_not_run", s->why_not_direct.text);
    for (size_t way = s->why_not_direct.code ? KILN_ONE : DIRECT_ONE; way < WAYS; way++) {
        struct json *walls = json_array();
        /* round 0 only warmed the compilers up */
        for (unsigned i = 1; i < rounds; i++)
            json_append(walls, json_number(s->wall[i][way]));
        json_set(result, way_names[way], walls);
    }
    return bench_print(result, err);
}

static enum kiln_code time_direct(struct scaling *s, size_t way, uint64_t *id, double *ret_wall,
                                  struct kiln_err *err)
{
    const struct direct_team team = { s->options, s->cold, s->compilers[way], KERNELS };
    if (s->why_not_direct.code)
        return KILN_OK;
    enum kiln_code rc = direct_team_run(&team, *id, ret_wall, &s->why_not_direct);
    *id += KERNELS;
    if (!rc || rc == KILN_UNAVAILABLE)
        return KILN_OK;
    *err = s->why_not_direct;
    return rc;
}

static enum kiln_code time_way(struct scaling *s, unsigned round, uint64_t *id,
                               struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t way = 0; way < WAYS && !rc; way++) {
        double *wall = &s->wall[round][way];
        rc = s->sockets[way] ? time_batch(s->sockets[way], s->cold, id, wall, err)
                             : time_direct(s, way, id, wall, err);
    }
    return rc;
}

static enum kiln_code run_scaling(const struct bench_options *o, const struct server *many,
                                  const struct cold *cold, struct kiln_err *err)
{
    struct kilnd_options options = { .name = "cold1", .workers = 1 };
    SERVER_AUTO struct server one = { 0 };
    enum kiln_code rc = kilnd_start(o, &options, &one, err);
    struct scaling s = { .options = o,
                         .cold = cold,
                         .sockets = { NULL, NULL, one.socket, many->socket },
                         .compilers = { 1, o->cpus, 1, o->cpus },
                         .why_not_direct = KILN_ERR_INIT };
    uint64_t id = 1000000; /* the first kernel's id, above those of the stampede */
    unsigned rounds = o->quick ? 3 : 6;
    bench_say("scaling: %u cold kernels on %u compilers and on 1, and by direct calls (%s)",
              KERNELS, o->cpus, cold->toolchain);
    for (unsigned i = 0; i < rounds && !rc; i++)
        rc = time_way(&s, i, &id, err);
    return rc ? rc : report_scaling(&s, rounds, err);
}

static enum kiln_code choose(const struct server *kilnd, struct cold *ret_cold,
                             struct kiln_err *err)
{
    struct kiln_client *client;
    enum kiln_code rc = cold_connect(kilnd->socket, &client, err);
    if (rc)
        return rc;
    rc = cold_find_any(client, ret_cold, err);
    kiln_client_close(client);
    return rc;
}

static enum kiln_code run_bench(const struct bench_options *o, struct kiln_err *err)
{
    size_t size = sizeof(struct bench_gate) + CROWD * sizeof(struct span);
    struct kilnd_options options = { .name = "cold", .workers = o->cpus };
    SERVER_AUTO struct server kilnd = { 0 };
    struct cold cold;
    void *shared = NULL;
    enum kiln_code rc = kilnd_start(o, &options, &kilnd, err);
    if (!rc)
        rc = choose(&kilnd, &cold, err);
    if (!rc)
        rc = bench_shared(size, &shared, err);
    if (!rc)
        rc = run_stampede(o, &kilnd, &cold, shared, err);
    if (!rc)
        rc = run_scaling(o, &kilnd, &cold, err);
    bench_shared_done(shared, size);
    return rc;
}

int main(int argc, char **argv) { return bench_main(argc, argv, "bench_cold", run_bench); }
