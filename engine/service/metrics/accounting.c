/* SPDX-License-Identifier: MIT */
#include "engine/service/metrics/accounting.h"

#include "common/base/bytes.h"
#include "common/target/target.h"
#include "engine/compile/toolchain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kiln_code accounting_create(struct accounting **ret_accounting, struct kiln_err *err)
{
    KILN_AUTO(accounting) struct accounting *accounting = calloc(1, sizeof(*accounting));
    if (accounting) {
        accounting->users = calloc(ACCOUNTING_USERS_MAX, sizeof(*accounting->users));
        accounting->kinds = calloc(ACCOUNTING_KINDS_MAX, sizeof(*accounting->kinds));
    }
    if (!accounting || !accounting->users || !accounting->kinds)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the usage accounting: out of memory");
    accounting->kind_count = 1;
    accounting->others.uid = UINT32_MAX;
    *ret_accounting = KILN_TAKE(accounting);
    return KILN_OK;
}

struct accounting *accounting_copy(const struct accounting *accounting)
{
    KILN_AUTO(accounting) struct accounting *copy = calloc(1, sizeof(*copy));
    if (!copy)
        return NULL;
    *copy = (struct accounting){ .user_count = accounting->user_count,
                                 .others = accounting->others,
                                 .kind_count = accounting->kind_count,
                                 .since = accounting->since };
    copy->users = malloc((accounting->user_count + 1) * sizeof(*accounting->users));
    copy->kinds = malloc(accounting->kind_count * sizeof(*accounting->kinds));
    if (!copy->users || !copy->kinds)
        return NULL;
    memcpy(copy->users, accounting->users, accounting->user_count * sizeof(*accounting->users));
    memcpy(copy->kinds, accounting->kinds, accounting->kind_count * sizeof(*accounting->kinds));
    return KILN_TAKE(copy);
}

void accounting_destroy(struct accounting *accounting)
{
    if (!accounting)
        return;
    hash_table_done(&accounting->by_uid);
    free(accounting->users);
    free(accounting->kinds);
    free(accounting);
}

static void add_saturated(uint64_t *sum, uint64_t more)
{
    *sum = more < KERNEL_SUM_MAX && *sum < KERNEL_SUM_MAX - more ? *sum + more : KERNEL_SUM_MAX;
}

void accounting_sums_add(struct kernel_sums *sums, const struct kernel_sums *more)
{
    add_saturated(&sums->saved_us, more->saved_us);
    add_saturated(&sums->hits, more->hits);
    add_saturated(&sums->compiles, more->compiles);
    add_saturated(&sums->compile_us, more->compile_us);
}

/* Returns whether |a| is replaced before |b|. Compares compile time first, because clients can fake
 * hits, but not compile time. */
static bool is_worth_less(const struct kernel_sums *a, const struct kernel_sums *b)
{
    return a->compile_us != b->compile_us ? a->compile_us < b->compile_us
                                          : a->saved_us < b->saved_us;
}

/* Moves the sums of the user with the least compile time to the row "others", and returns this
 * user's row, which is then free. */
static struct accounting_user *user_gives_way(struct accounting *accounting)
{
    struct accounting_user *least = accounting->users;
    for (unsigned i = 1; i < accounting->user_count; i++) {
        if (is_worth_less(&accounting->users[i].sums, &least->sums))
            least = &accounting->users[i];
    }
    accounting_sums_add(&accounting->others.sums, &least->sums);
    accounting->others.is_changed = accounting->rewrites_users = accounting->has_changed = true;
    hash_table_remove(&accounting->by_uid, &least->link);
    return least;
}

struct accounting_user *accounting_user_of(struct accounting *accounting, uint32_t uid)
{
    HASH_EACH (&accounting->by_uid, uid, struct accounting_user, link, user)
        if (user->uid == uid)
            return user;
    struct accounting_user *fresh = accounting->user_count < ACCOUNTING_USERS_MAX
                                        ? &accounting->users[accounting->user_count++]
                                        : user_gives_way(accounting);
    *fresh = (struct accounting_user){ .uid = uid };
    hash_table_add(&accounting->by_uid, &fresh->link, uid);
    return fresh;
}

static uint64_t hash_of(const struct object_origin *what)
{
    return bytes_hash(bytes_of_text(what->program), bytes_hash(bytes_of_text(what->target), 0));
}

static bool same_kind(const struct accounting_kind *kind, uint64_t hash,
                      const struct object_origin *what)
{
    return kind->hash == hash && strcmp(kind->what.program, what->program) == 0 &&
           strcmp(kind->what.target, what->target) == 0;
}

/* Adds the sums of the kind with the least compile time to "others". Returns its index in |kinds|,
 * which a new kind then takes; the replaced kind's number becomes invalid. A user who requests
 * thousands of made-up names only replaces kinds with little compile time. */
static unsigned kind_gives_way(struct accounting *accounting)
{
    unsigned least = 1;
    for (unsigned i = 2; i < ACCOUNTING_KINDS_MAX; i++) {
        if (is_worth_less(&accounting->kinds[i].sums, &accounting->kinds[least].sums))
            least = i;
    }
    accounting_sums_add(&accounting->kinds[0].sums, &accounting->kinds[least].sums);
    accounting->kinds[0].is_changed = true;
    accounting->rewrites_kinds = accounting->has_changed = true;
    return least;
}

void accounting_clean(char *name)
{
    for (; *name; name++) {
        if (*name < ' ' || *name > '~')
            *name = '?';
    }
}

static bool is_known_arch(const struct target *target)
{
    char arch[LIMIT_TARGET_TEXT];
    target_arch(target, arch, sizeof(arch));
    for (const char *const *known = toolchain_known_targets; *known; known++)
        if (strcmp(arch, *known) == 0)
            return true;
    return false;
}

/* Replaces an unknown target by ACCOUNTING_OTHER_TARGET, because clients choose the targets of
 * their own compiles. NVRTC also accepts compute_90 in place of sm_90, so compute_90 counts as
 * known. */
static void limit_target(char text[LIMIT_TARGET_TEXT])
{
    struct target target;
    struct kiln_err ignored = KILN_ERR_INIT;
    const bool is_virtual = strncmp(text, "compute_", 8) == 0;
    char real[2 * LIMIT_TARGET_TEXT];
    snprintf(real, sizeof(real), "%s%s", is_virtual ? "sm_" : "", text + (is_virtual ? 8 : 0));
    if (target_parse(bytes_of_text(real), &target, &ignored) || !is_known_arch(&target))
        snprintf(text, LIMIT_TARGET_TEXT, "%s", ACCOUNTING_OTHER_TARGET);
    else if (!is_virtual)
        snprintf(text, LIMIT_TARGET_TEXT, "%s", target.text);
}

uint32_t accounting_kind_of(struct accounting *accounting, const struct object_origin *what)
{
    struct object_origin name = *what;
    accounting_clean(name.target);
    accounting_clean(name.program);
    if (strcmp(name.program, ACCOUNTING_RTC) == 0)
        limit_target(name.target);
    if (!name.target[0] && !name.program[0])
        return 0;
    uint64_t hash = hash_of(&name);
    for (unsigned i = 1; i < accounting->kind_count; i++) {
        if (same_kind(&accounting->kinds[i], hash, &name))
            return accounting->kinds[i].number;
    }
    bool is_new = accounting->kind_count < ACCOUNTING_KINDS_MAX;
    unsigned place = is_new ? accounting->kind_count++ : kind_gives_way(accounting);
    struct accounting_kind *kind = &accounting->kinds[place];
    uint32_t number = is_new ? place : kind->number + ACCOUNTING_KINDS_MAX;
    *kind = (struct accounting_kind){ .number = number, .hash = hash, .what = name };
    return number;
}

static void add_compile(struct kernel_sums *sums, uint64_t compile_us)
{
    sums->compiles++;
    sums->compile_us += compile_us;
}

void accounting_compiled(struct accounting *accounting, uint32_t uid, uint32_t number,
                         uint64_t compile_us)
{
    struct accounting_user *user = accounting_user_of(accounting, uid);
    struct accounting_kind *kind = accounting_kind_at(accounting, number);
    add_compile(&user->sums, compile_us);
    add_compile(&kind->sums, compile_us);
    user->is_changed = kind->is_changed = accounting->has_changed = true;
}

void accounting_take(struct accounting *accounting, const struct kernel_accounting_row *row)
{
    struct kernel_sums *sums;
    if (row->is_user && row->uid == KERNEL_ACCOUNTING_OTHERS) {
        sums = &accounting->others.sums;
    } else if (row->is_user) {
        sums = &accounting_user_of(accounting, (uint32_t)row->uid)->sums;
    } else {
        struct object_origin what = { { 0 }, { 0 } };
        snprintf(what.target, sizeof(what.target), "%s", row->target);
        snprintf(what.program, sizeof(what.program), "%s", row->program);
        sums = &accounting_kind_at(accounting, accounting_kind_of(accounting, &what))->sums;
    }
    accounting_sums_add(sums, &row->sums);
}

void accounting_touch_all(struct accounting *accounting)
{
    for (unsigned i = 0; i < accounting->user_count; i++)
        accounting->users[i].is_changed = true;
    for (unsigned i = 0; i < accounting->kind_count; i++)
        accounting->kinds[i].is_changed = true;
    accounting->others.is_changed = true;
    accounting->has_changed = true;
}

struct kernel_sums accounting_total(const struct accounting *accounting)
{
    struct kernel_sums total = accounting->others.sums;
    for (unsigned i = 0; i < accounting->user_count; i++)
        accounting_sums_add(&total, &accounting->users[i].sums);
    return total;
}
