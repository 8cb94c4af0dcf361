/* SPDX-License-Identifier: MIT */
#include "tests/faults/scene.h"

#include <string.h>

#define DAY_NS INT64_C(86400000000000)
#define YEAR_NS (365 * DAY_NS)

static struct case_report report;
static const struct fault_case quiet = { .kind = &fault_kinds[KIND_MEMORY], .report = &report };

SET_UP_OF(set_up, struct scene)
{
    scene_open(f, &quiet, "kilnd");
    scene_start(f);
}

TEAR_DOWN_OF(tear_down, struct scene) { scene_close(f); }

FIXTURE_OF(clocks, struct scene, set_up, tear_down);

static void use_all_times(struct scene *s)
{
    static const char *const questions[][5] = {
        { "status", "--json", NULL },
        { "stats", "--json", NULL },
        { "stats", "--by", "uid", NULL },
        { "gc", "--yes", NULL },
        { "db", "verify", "--json", NULL },
        { "db", "stats", NULL },
        { "metrics", NULL },
        { "kernel", "ls", NULL },
    };
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
        if (!scene_asks(s, questions[i]))
            fail_msg("kilnctl %s: '%s'", questions[i][0], s->result.output);
}

/* Fails if the clock's jump makes kilnd keep the earlier measurement instead of the new one. */
static void records_newer_measurement(struct scene *s)
{
    struct kiln_client *client = scene_client(s);
    for (unsigned i = 0; i < SCENE_RECORDS; i++)
        assert_true(scene_put(s, client, i));
    kiln_client_close(client);
}

static void jump_clocks(struct scene *s, int64_t realtime_ns)
{
    s->plan->realtime_ns = realtime_ns;
    scene_serves(s);
    records_newer_measurement(s);
    scene_serves(s);
    use_all_times(s);
    scene_is_sound(s);
}

TEST_F(clocks, serves_on_when_the_wall_clock_jumps)
{
    jump_clocks(f, DAY_NS);
    jump_clocks(f, -DAY_NS);
    jump_clocks(f, 20 * YEAR_NS);
    jump_clocks(f, -20 * YEAR_NS);
    scene_stop(f);
    scene_survives(f);
}

TEST_F(clocks, starts_again_in_another_year)
{
    static const int64_t jumps_ns[] = { 20 * YEAR_NS, -40 * YEAR_NS, DAY_NS };
    for (size_t i = 0; i < sizeof(jumps_ns) / sizeof(jumps_ns[0]); i++) {
        scene_stop(f);
        f->plan->realtime_ns = jumps_ns[i];
        scene_survives(f);
        scene_start(f);
    }
    scene_stop(f);
}

/* The clocks jump after a machine was suspended or migrated. */
TEST_F(clocks, serves_on_when_all_clocks_are_a_day_ahead)
{
    f->plan->monotonic_ns = DAY_NS;
    jump_clocks(f, DAY_NS);
    scene_stop(f);
    f->plan->monotonic_ns = 0;
    scene_survives(f);
}
