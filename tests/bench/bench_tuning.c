/* SPDX-License-Identifier: MIT */

/* Measures tuning databases, with MIOpen's method and with kiln's: the import, the first answer to
 * a new process, and look-ups. */
#include "tests/bench/floor.h"
#include "tests/bench/tuning_phases.h"

#include <string.h>

#define DAEMON "tuning"
#define FLOOR_OBJECTS 16u

struct json *phase_result(const char *bench, const struct tuning_data *data)
{
    struct json *result = bench_result(bench);
    json_set_text(result, "kind", tuning_kind_name(data->kind));
    json_set_text(result, "file", data->name);
    json_set_bool(result, "genuine", data->genuine);
    json_set_u64(result, "records", data->records);
    json_set_u64(result, "rows", data->rows);
    json_set_u64(result, "bytes", data->bytes);
    return result;
}

struct plan {
    struct phase_first first_one[PHASE_WAYS_MAX], first_many[PHASE_WAYS_MAX];
    size_t first_one_count, first_many_count;
    const struct tuning_way *one[PHASE_WAYS_MAX + 1], *many[PHASE_WAYS_MAX + 1];
};

static const struct plan plans[] = {
    [TUNING_FIND] = {
        .first_one = { { &way_miopen_find, false }, { &way_engine, false }, { &way_kiln, false },
                       { &way_kiln, true } },
        .first_one_count = 4,
        .first_many = { { &way_miopen_find, false }, { &way_kiln, false }, { &way_kiln, true } },
        .first_many_count = 3,
        .one = { &way_miopen_find, &way_engine, &way_round_trip, &way_same_bytes, &way_event_loop,
                 &way_kiln },
        .many = { &way_miopen_find, &way_same_bytes, &way_event_loop, &way_kiln },
    },
    [TUNING_PERF] = {
        .first_one = { { &way_miopen_perf_kept, false }, { &way_engine, false },
                       { &way_kiln, false }, { &way_kiln, true } },
        .first_one_count = 4,
        .first_many = { { &way_miopen_perf_kept, false }, { &way_kiln, false },
                        { &way_kiln, true } },
        .first_many_count = 3,
        .one = { &way_miopen_perf_kept, &way_miopen_perf_fresh, &way_engine, &way_round_trip,
                 &way_same_bytes, &way_event_loop, &way_kiln },
        .many = { &way_miopen_perf_kept, &way_miopen_perf_fresh, &way_same_bytes, &way_event_loop,
                  &way_kiln },
    },
};

struct servers {
    struct server floor, kiln;
    char floor_socket[BENCH_PATH_MAX], epoll_socket[BENCH_PATH_MAX];
    char state[BENCH_PATH_MAX], daemon_state[BENCH_PATH_MAX];
};

static void servers_done(struct servers *s)
{
    server_stop(&s->floor);
    server_stop(&s->kiln);
}

static enum kiln_code start_servers(const struct bench_options *o, struct servers *s,
                                    struct way_place *place, struct kiln_err *err)
{
    const struct content content = { CONTENT_RANDOM, place->data->answer_size, FLOOR_OBJECTS, 0 };
    struct kilnd_options options = { .name = DAEMON, .workers = 1 };
    enum kiln_code rc = bench_path(o->work, "floor", s->floor_socket, err);
    if (!rc)
        rc = bench_path(o->work, "epoll", s->epoll_socket, err);
    if (!rc)
        rc = floor_start(&content, s->floor_socket, s->epoll_socket, &s->floor, err);
    if (!rc)
        rc = kilnd_start(o, &options, &s->kiln, err);
    place->floor_socket = s->floor_socket;
    place->epoll_socket = s->epoll_socket;
    place->floor_size = content.size;
    place->kiln_socket = s->kiln.socket;
    return rc;
}

static enum kiln_code pin_servers(const struct servers *s, unsigned cpu, struct kiln_err *err)
{
    enum kiln_code rc = server_pin(&s->floor, cpu, err);
    return rc ? rc : server_pin(&s->kiln, cpu, err);
}

struct warmup {
    enum tuning_kind kind;
    const char *work;
    struct tuning_data *data;
};

/* Runs in its own process. Otherwise, the processes that are measured later would inherit the
 * memory that this function allocates. */
static enum kiln_code prepare_data(void *context, unsigned index, struct kiln_err *err)
{
    (void)index;
    const struct warmup *p = context;
    return data_prepare(p->kind, p->work, p->data, err);
}

static enum kiln_code run_firsts(const struct way_place *place, const struct plan *plan,
                                 unsigned rounds, struct kiln_err *err)
{
    struct phase_firsts one = { plan->first_one, plan->first_one_count, 1, rounds };
    struct phase_firsts many = { plan->first_many, plan->first_many_count, PHASE_PROCESSES_MAX,
                                 rounds };
    enum kiln_code rc = phase_first(place, &one, err);
    return rc ? rc : phase_first(place, &many, err);
}

static struct phase_setting setting_of(const struct bench_options *o,
                                       const struct tuning_way *const *ways, unsigned processes,
                                       enum bench_cpus cpus)
{
    struct phase_setting setting = {
        .processes = processes,
        .rounds = o->quick ? 4 : PHASE_ROUNDS_MAX,
        .cpus = cpus,
        .cpu = cpus == CPUS_TWO ? o->first_cpu : o->last_cpu,
    };
    memcpy(setting.ways, ways, sizeof(setting.ways));
    return setting;
}

static enum kiln_code run_one(const struct bench_options *o, const struct way_place *place,
                              const struct plan *plan, enum bench_cpus cpus, struct kiln_err *err)
{
    struct phase_setting one = setting_of(o, plan->one, 1, cpus);
    enum kiln_code rc = phase_look_up(place, &one, err);
    return rc ? rc : phase_batch(place, &one, err);
}

/* Measures many processes on any CPU. Then pins the servers to one CPU, and measures single
 * processes that are pinned to another CPU or to the same one. Pinned processes cannot be unpinned,
 * so their measurements come last. */
static enum kiln_code run_look_ups(const struct bench_options *o, const struct servers *s,
                                   const struct way_place *place, const struct plan *plan,
                                   struct kiln_err *err)
{
    struct phase_setting many = setting_of(o, plan->many, PHASE_PROCESSES_MAX, CPUS_ANY);
    enum kiln_code rc = phase_look_up(place, &many, err);
    if (!rc)
        rc = pin_servers(s, o->last_cpu, err);
    if (!rc && o->first_cpu != o->last_cpu)
        rc = run_one(o, place, plan, CPUS_TWO, err);
    return rc ? rc : run_one(o, place, plan, CPUS_ONE, err);
}

static enum kiln_code run_kind(const struct bench_options *o, const struct tuning_data *data,
                               struct kiln_err *err)
{
    const struct plan *plan = &plans[data->kind];
    unsigned rounds = o->quick ? 6 : PHASE_ROUNDS_MAX;
    __attribute__((cleanup(servers_done))) struct servers s = { .floor.pid = 0 };
    struct way_place place = { .data = data, .state = s.state };
    enum kiln_code rc = bench_path(o->work, "state", s.state, err);
    if (!rc)
        rc = kilnd_state_directory(o, DAEMON, s.daemon_state, err);
    if (!rc)
        rc = phase_import(&place, s.daemon_state, o->quick ? 2 : 5, err);
    if (!rc)
        rc = start_servers(o, &s, &place, err);
    if (!rc)
        rc = run_firsts(&place, plan, rounds, err);
    return rc ? rc : run_look_ups(o, &s, &place, plan, err);
}

static enum kiln_code run_bench(const struct bench_options *o, struct kiln_err *err)
{
    void *memory;
    enum kiln_code rc = bench_shared(sizeof(struct tuning_data), &memory, err);
    if (rc)
        return rc;
    for (enum tuning_kind kind = TUNING_FIND; kind <= TUNING_PERF && !rc; kind++) {
        struct warmup p = { .kind = kind, .work = o->work, .data = memory };
        memset(memory, 0, sizeof(struct tuning_data));
        rc = bench_fan_out(1, prepare_data, &p, err);
        if (!rc)
            rc = run_kind(o, memory, err);
    }
    bench_shared_done(memory, sizeof(struct tuning_data));
    return rc;
}

int main(int argc, char **argv) { return bench_main(argc, argv, "bench_tuning", run_bench); }
