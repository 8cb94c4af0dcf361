/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/kernel_lookup.h"

#include "engine/compile/code_object.h"

#include <stdio.h>
#include <string.h>

static enum kiln_code parse_targets(struct bytes wanted, struct target *ret_target,
                                    struct target *ret_plain, struct kiln_err *err)
{
    char arch[LIMIT_TARGET_TEXT];
    enum kiln_code rc = target_parse(wanted, ret_target, err);
    if (rc)
        return rc;
    target_arch(ret_target, arch, sizeof(arch));
    return target_parse(bytes_of_text(arch), ret_plain, err);
}

/* Checks the object's target, because a package's name states an arch but no features. An object
 * for another arch is damage; an object for other features is only a miss. */
static enum kiln_code check_packaged(struct kernel_lookup *l, struct bytes raw)
{
    struct target target, plain;
    struct bytes wanted = l->name->target;
    struct package_found *p = &l->report->by_name;
    struct kiln_err why = KILN_ERR_INIT;
    if (wanted.size == 0)
        return KILN_OK;
    l->packaged = true;
    if (parse_targets(wanted, &target, &plain, &why) || code_object_check(raw, &plain, &why)) {
        memcpy(p->damaged, p->package, sizeof(p->damaged));
        snprintf(p->damage, sizeof(p->damage), "%.255s", why.text);
        return KILN_NOT_FOUND;
    }
    return code_object_suits(raw, &target) ? KILN_OK : KILN_NOT_FOUND;
}

/* Notes an error. An error of the store must not prevent looking in packages. */
static void note_trouble(struct kernel_lookup *l, const struct kiln_err *why)
{
    if (l->found && l->found != KILN_NOT_FOUND && !l->report->trouble.code)
        l->report->trouble = *why;
}

static void look_into_store(struct kernel_lookup *l, const struct digest *key, bool *ret_damaged)
{
    struct kiln_err why = KILN_ERR_INIT;
    l->found = kernel_store_get_as(l->store, &l->reader, key, &l->object, &why);
    *ret_damaged = l->reader.damaged;
    note_trouble(l, &why);
}

/* Returns whether the database id of the name has no version of MIOpen. */
static bool is_plain(const struct kernel_lookup *l)
{
    const struct kernel_name *n = l->name;
    struct digest plain = kernel_name_key(l->uid, n->database_id, n->name, n->args);
    return digest_equal(&plain, &l->asked);
}

/* If the store has the database id with only one version of MIOpen, looks the name up under this
 * version: first among the caller's private kernels, then among those of all users. */
static void look_into_version(struct kernel_lookup *l)
{
    const uint64_t scopes[] = { l->uid, KERNEL_SCOPE_EVERYONE };
    char id[VERSIONED_ID_MAX];
    const struct kernel_name *n = l->name;
    struct kiln_err why = KILN_ERR_INIT;
    if (kernel_store_only_version(l->store, l->uid, n->database_id, id, &why) != KILN_OK)
        return;
    for (size_t i = 0; i < 2 && l->found && !l->shared_damaged; i++) {
        l->shared_key = kernel_name_key(scopes[i], bytes_of_text(id), n->name, n->args);
        look_into_store(l, &l->shared_key, &l->shared_damaged);
        l->is_shared = !l->found;
    }
}

static void look_by_key(struct kernel_lookup *l)
{
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, LIMIT_CODE_OBJECT);
    struct kiln_err why = KILN_ERR_INIT;
    l->found = package_set_find_key(l->packages, &l->asked, &raw, &l->report->by_key, &why);
    if (!l->found)
        l->found = object_from_bytes(buffer_view(&raw), /* compile_ns= */ 0, &l->object, &why);
    note_trouble(l, &why);
}

static void look_by_name(struct kernel_lookup *l)
{
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, LIMIT_CODE_OBJECT);
    const struct kernel_name *n = l->name;
    struct kiln_err why = KILN_ERR_INIT;
    const struct package_query query = { n->database_id, { n->name, n->args } };
    l->found = package_set_find_named(l->packages, &query, &raw, &l->report->by_name, &why);
    if (!l->found)
        l->found = check_packaged(l, buffer_view(&raw));
    if (!l->found)
        l->found = object_from_bytes(buffer_view(&raw), /* compile_ns= */ 0, &l->object, &why);
    note_trouble(l, &why);
}

static void look_into_packages(struct kernel_lookup *l)
{
    l->tier = TIER_PACKAGE;
    look_by_key(l);
    if (l->found && l->name)
        look_by_name(l);
}

void kernel_lookup(struct kernel_lookup *l)
{
    l->tier = TIER_DISK;
    look_into_store(l, &l->asked, &l->damaged);
    if (l->found && l->has_shared_key) {
        look_into_store(l, &l->shared_key, &l->shared_damaged);
        l->is_shared = !l->found;
    }
    if (l->found && l->has_shared_key && l->name && is_plain(l))
        look_into_version(l);
    if (l->found)
        look_into_packages(l);
}
