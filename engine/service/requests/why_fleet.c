/* SPDX-License-Identifier: MIT */
/* Looks in the fleet for a missing kernel. Also looks for its variants: the kernel for another
 * xnack mode, and the kernel made by another compiler of this host. */
#include "engine/compile/kernel_key.h"
#include "engine/service/fleet/fleet_tier.h"
#include "engine/service/kernels/program_job.h"
#include "engine/service/requests/why.h"

#include <stdio.h>
#include <string.h>

struct variant {
    struct target target;
    const struct toolchain *toolchain;
};

static enum fleet_presence look(struct why *w, const struct solution_program *program,
                                const struct variant *v)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    PROGRAM_JOB_AUTO struct program_job job = { 0 };
    if (program_job_make(program, &v->target, v->toolchain, &job, &ignored))
        return FLEET_LACKS_KERNEL;
    const struct digest key = kernel_key(&job.job, &v->toolchain->identity);
    const struct fleet_shard shard = { bytes_of_text(v->target.text),
                                       bytes_of_text(v->toolchain->name), v->toolchain->identity };
    return fleet_tier_look(w->base.engine, &shard, &key);
}

static void note_presence(struct why *w, struct wanted_program *p, const struct variant *v,
                          enum fleet_presence presence)
{
    bool is_same_target = strcmp(v->target.text, w->target.text) == 0;
    w->fleet_loads |= presence == FLEET_LOADS_INDEX;
    if (presence != FLEET_HAS_KERNEL)
        return;
    if (is_same_target && v->toolchain == &w->toolchain)
        p->is_in_fleet = true;
    else if (!p->fleet_variant[0] && is_same_target)
        snprintf(p->fleet_variant, sizeof(p->fleet_variant), "made by %s (%.100s)",
                 v->toolchain->name, v->toolchain->version);
    else if (!p->fleet_variant[0])
        snprintf(p->fleet_variant, sizeof(p->fleet_variant), "for %.150s", v->target.text);
}

static void look_for(struct why *w, const struct solution_program *program,
                     struct wanted_program *p, const struct variant *v)
{
    note_presence(w, p, v, look(w, program, v));
}

static void look_with_xnack(struct why *w, const struct solution_program *program,
                            struct wanted_program *p)
{
    static const char *const modes[] = { "", "-", "+" };
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct variant v = { .toolchain = &w->toolchain };
        if (target_with_xnack(&w->target, modes[i], &v.target))
            look_for(w, program, p, &v);
    }
}

static void look_with_toolchains(struct why *w, const struct solution_program *program,
                                 struct wanted_program *p)
{
    const struct toolchain_table *table = w->base.engine->toolchains;
    for (size_t i = 0; i < toolchain_table_count(table); i++) {
        const struct toolchain *tc = toolchain_table_at(table, i);
        if (tc->family == w->toolchain.family &&
            !digest_equal(&tc->identity, &w->toolchain.identity))
            look_for(w, program, p, &(struct variant){ w->target, tc });
    }
}

void why_look_in_fleet(struct why *w, const struct solution_program *program,
                       struct wanted_program *p)
{
    if (!fleet_tier_is_on(w->base.engine->fleet) || w->why_not_compile.code)
        return;
    look_for(w, program, p, &(struct variant){ w->target, &w->toolchain });
    look_with_xnack(w, program, p);
    look_with_toolchains(w, program, p);
}

void why_look_for_key_in_fleet(struct why *w)
{
    const char *target = fleet_tier_target_of(w->base.engine->fleet, &w->key);
    if (target)
        snprintf(w->fleet_target, sizeof(w->fleet_target), "%s", target);
}
