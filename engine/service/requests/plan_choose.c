/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/plan_choose.h"

#include "common/protocol/messages.h"

#include <stdio.h>
#include <string.h>

#define IDENTITY_DIGITS 12
/* Maximum length of a toolchain's version. The rest of PLAN_TOOLCHAIN_MAX is for name and
 * identity. */
#define VERSION_SHOWN 200

/* Returns whether the id names a device of the target. For example, gfx906_xnack_60 is a device of
 * gfx906, and sm_90_132 is a device of sm_90 and of sm_90a. An OpenCL id is a hash, perhaps of
 * another host's device, so an OpenCL id always matches. */
static bool is_of_target(const struct database_id *id, const struct target *target,
                         const char *arch)
{
    char own[DATABASE_ID_MAX], given[DATABASE_ID_MAX];
    size_t size = strlen(arch);
    const char *own_backend = target_backend(target->family);
    if (strcmp(database_id_backend(bytes_of_text(id->device)), own_backend) != 0)
        return false;
    if (target->family == TARGET_OPENCL)
        return true;
    if (strncmp(id->device, arch, size) == 0 &&
        (!id->device[size] || strcmp(id->device + size, "_xnack") == 0))
        return true;
    return database_id_of_device(target, id->compute_units, own) && database_id_write(id, given) &&
           strcmp(own, given) == 0;
}

enum kiln_code plan_target_take(uint64_t capabilities, struct bytes text, struct target *ret_target,
                                struct kiln_err *err)
{
    enum kiln_code rc = target_parse(text, ret_target, err);
    if (!rc)
        ret_target->has_tensor_maps = capabilities & CAPABILITY_TENSOR_MAPS;
    return rc;
}

enum kiln_code plan_ids_take(struct target *target, struct bytes given, struct plan_ids *ret_ids,
                             struct kiln_err *err)
{
    struct plan_ids ids = { .device = "" };
    char arch[LIMIT_TARGET_TEXT];
    struct database_id id = { .compute_units = 0 };
    target_arch(target, arch, sizeof(arch));
    if (given.size > 0 && database_id_parse(given, &id, err))
        return err->code;
    if (given.size > 0 && !database_id_write(&id, ids.device))
        return kiln_fail(err, KILN_INVALID, "the database id is too long");
    bool is_of_target = target->family == TARGET_NVIDIA && id.compute_units > 0;
    target->processors = id.compute_units;
    snprintf(ids.package, sizeof(ids.package), "%.*s", DATABASE_ID_MAX - 1,
             given.size == 0 || is_of_target ? arch : ids.device);
    *ret_ids = ids;
    return KILN_OK;
}

enum kiln_code plan_ids_check(const struct target *target, const struct plan_ids *ids,
                              struct kiln_err *err)
{
    char arch[LIMIT_TARGET_TEXT];
    struct database_id id;
    target_arch(target, arch, sizeof(arch));
    if (!ids->device[0])
        return KILN_OK;
    enum kiln_code rc = database_id_parse(bytes_of_text(ids->device), &id, err);
    if (rc || is_of_target(&id, target, arch))
        return rc;
    return kiln_fail(err, KILN_INVALID,
                     "the database id '%s' belongs to another device than the target '%s': an id "
                     "begins with the target's processor, as gfx90a68 begins with gfx90a",
                     ids->device, target->text);
}

void plan_toolchain_write(const struct toolchain *tc, char text[PLAN_TOOLCHAIN_MAX])
{
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(&tc->identity, hex);
    snprintf(text, PLAN_TOOLCHAIN_MAX, "%s %.*s %.*s", tc->name, VERSION_SHOWN, tc->version,
             IDENTITY_DIGITS, hex);
    for (char *at = text; *at; at++) /* records only contain printable ASCII */
        *at = *at < ' ' || *at > '~' ? '?' : *at;
}

static struct tuning_question question_of(const struct plan_options *options, enum tuning_kind kind)
{
    return (struct tuning_question){
        .kind = kind,
        .database_id = options->database_id,
        .backend = kind == TUNING_FIND ? target_backend(options->target->family) : "",
        .uid = options->uid,
        .problem = options->problem,
        .driver = options->driver,
        .toolchain = options->toolchain,
    };
}

static bool counts_records(const struct tuning *tuning, const struct plan_options *options)
{
    return tuning && options->database_id[0] && !options->by_heuristic;
}

static unsigned list_solvers(const struct plan_options *options, struct plan_known *known)
{
    unsigned count = 0;
    for (size_t i = 0; solvers[i] && count < PLAN_SOLVERS_MAX; i++) {
        bool is_wanted =
            options->solver.size == 0 || bytes_equal_text(options->solver, solvers[i]->name);
        if (is_wanted && solvers[i]->applies(options->problem, options->target))
            known[count++] = (struct plan_known){ .solver = solvers[i] };
    }
    return count;
}

static struct plan_known *find_known(struct plan_known *known, unsigned count, struct bytes name)
{
    for (unsigned i = 0; i < count; i++) {
        if (bytes_equal_text(name, known[i].solver->name))
            return &known[i];
    }
    return NULL;
}

/* Sets find_ms of the solvers in |known| to their times in the find record |value|. Returns false
 * if the record has none of them. */
static bool read_find(struct bytes value, struct plan_known *known, unsigned count)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct tuning_entry entry;
    bool has_any = false;
    while (tuning_entry_next(TUNING_FIND, &value, &entry, &ignored) == KILN_OK) {
        struct plan_known *k = find_known(known, count, entry.solver);
        if (!k || !(entry.time_ms > 0) || (k->find_ms > 0 && k->find_ms <= entry.time_ms))
            continue;
        k->find_ms = entry.time_ms;
        has_any = true;
    }
    return has_any;
}

/* Returns false for a damaged config and for a config of another solver. */
static bool config_fits(const struct solver *solver, const struct plan_options *options,
                        struct bytes params)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct perf_config config;
    struct perf_space space = solver_space(solver, options->problem, options->target);
    return space.count > 0 && params.size < PERF_CONFIG_TEXT_MAX &&
           perf_config_read(params, &space, &config, &ignored) == KILN_OK &&
           solver->config_is_valid(options->problem, options->target, &config);
}

/* Sets the configs of the solvers in |known| to those of the perf record |answer|. Does not replace
 * a config that is already set: it is from a more private tier. */
static void read_perf(const struct tuning_answer *answer, const struct plan_options *options,
                      struct plan_known *known, unsigned count)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct bytes value = answer->value;
    struct tuning_entry entry;
    for (size_t i = 0; tuning_entry_next(TUNING_PERF, &value, &entry, &ignored) == KILN_OK; i++) {
        struct plan_known *k = find_known(known, count, entry.solver);
        if (!k || k->config[0] || !config_fits(k->solver, options, entry.params))
            continue;
        memcpy(k->config, entry.params.data, entry.params.size);
        k->config_ms = i < answer->row_count ? answer->rows[i].measured.median_ms : 0;
    }
}

/* Uses the records of a similar problem. Its times only decide which solver is the fastest. */
static void use_nearest(struct tuning *tuning, const struct plan_options *options,
                        struct plan_known *known, unsigned count)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct tuning_question find = question_of(options, TUNING_FIND);
    struct tuning_question perf = question_of(options, TUNING_PERF);
    struct tuning_answer answer;
    find.nearest = perf.nearest = true;
    if (tuning_find(tuning, &find, &answer, &ignored) || !read_find(answer.value, known, count))
        return;
    if (tuning_find(tuning, &perf, &answer, &ignored) == KILN_OK)
        read_perf(&answer, options, known, count);
    for (unsigned i = 0; i < count; i++)
        known[i].is_near = true;
}

unsigned plan_known_of(struct tuning *tuning, const struct plan_options *options,
                       struct plan_known ret_known[PLAN_SOLVERS_MAX])
{
    unsigned count = list_solvers(options, ret_known);
    if (!counts_records(tuning, options) || count == 0)
        return count;
    const struct tuning_question find = question_of(options, TUNING_FIND);
    const struct tuning_question perf = question_of(options, TUNING_PERF);
    struct tuning_answer answer;
    bool has_find = false;
    for (enum tuning_tier tier = TUNING_TIER_USER; tier >= TUNING_TIER_SYSTEM; tier--) {
        if (!has_find && tuning_find_tier(tuning, &find, tier, &answer))
            has_find = read_find(answer.value, ret_known, count);
        if (tuning_find_tier(tuning, &perf, tier, &answer))
            read_perf(&answer, options, ret_known, count);
    }
    if (!has_find && options->nearest)
        use_nearest(tuning, options, ret_known, count);
    return count;
}

double plan_known_ms(const struct plan_known *known)
{
    return known->config_ms > 0 && !known->is_near ? known->config_ms : known->find_ms;
}

/* Returns the solver with the shortest time or, without find records, the one that the heuristic
 * picks. */
static const struct plan_known *find_fastest(const struct plan_known *known, unsigned count,
                                             const struct plan_options *options)
{
    const struct plan_known *best = NULL;
    const struct solver *chosen = solver_choose(options->problem, options->target);
    for (unsigned i = 0; i < count; i++) {
        if (known[i].find_ms > 0 && (!best || plan_known_ms(&known[i]) < plan_known_ms(best)))
            best = &known[i];
    }
    for (unsigned i = 0; !best && i < count; i++) {
        if (options->solver.size > 0 || known[i].solver == chosen)
            best = &known[i];
    }
    return best;
}

static void take_known(const struct plan_known *known, const struct plan_options *options,
                       struct plan_choice *choice)
{
    bool by_find = options->solver.size == 0 && known->find_ms > 0;
    if (by_find || known->config[0])
        choice->chosen.solver = bytes_of_text(known->solver->name);
    memcpy(choice->config, known->config, sizeof(choice->config));
    choice->chosen.config = bytes_of_text(choice->config);
    choice->expected_ms = known->is_near ? 0 : plan_known_ms(known);
    choice->source = known->is_near     ? PLAN_SOURCE_NEAREST
                     : by_find          ? PLAN_SOURCE_FIND
                     : known->config[0] ? PLAN_SOURCE_PERF
                                        : PLAN_SOURCE_HEURISTIC;
}

enum kiln_code plan_choose(struct tuning *tuning, const struct plan_options *options,
                           struct plan_choice *ret_choice, struct kiln_err *err)
{
    struct plan_known known[PLAN_SOLVERS_MAX];
    *ret_choice =
        (struct plan_choice){ .chosen = { .solver = options->solver, .config = options->config },
                              .source = PLAN_SOURCE_FORCED };
    if (options->config.size > 0 && options->solver.size == 0)
        return kiln_fail(err, KILN_INVALID, "a perf config needs the solver that it belongs to");
    if (options->config.size > 0)
        return KILN_OK;
    ret_choice->source = PLAN_SOURCE_HEURISTIC;
    if (!counts_records(tuning, options))
        return KILN_OK;
    const struct plan_known *best =
        find_fastest(known, plan_known_of(tuning, options, known), options);
    if (best)
        take_known(best, options, ret_choice);
    return KILN_OK;
}
