/* SPDX-License-Identifier: MIT */
#include "engine/package/package_set_parts.h"

#include "common/protocol/limits.h"

#include <stdio.h>
#include <string.h>

struct wanted {
    char exact[DATABASE_ID_MAX];
    char arch[DATABASE_ID_MAX]; /* "" if |exact| is the arch alone */
    char device[DATABASE_ID_MAX];
};

static bool parse_id(struct bytes database_id, struct wanted *ret_wanted)
{
    struct database_id id;
    struct kiln_err why = KILN_ERR_INIT;
    struct wanted w = { .arch = "" };
    if (database_id_parse(database_id, &id, &why) || !database_id_write(&id, w.exact))
        return false;
    memcpy(w.device, id.device, sizeof(w.device));
    if (id.compute_units)
        memcpy(w.arch, id.device, sizeof(w.arch));
    *ret_wanted = w;
    return true;
}

static enum package_fit fit_of_id(const char *id, const char *device, const struct wanted *wanted)
{
    if (strcmp(id, wanted->exact) == 0)
        return PACKAGE_FIT_EXACT;
    if (wanted->arch[0] && strcmp(id, wanted->arch) == 0)
        return PACKAGE_FIT_ARCH;
    return strcmp(device, wanted->device) == 0 ? PACKAGE_FIT_OTHER_CUS : PACKAGE_FIT_NONE;
}

static enum package_fit fit_of(const struct member *member, const struct wanted *wanted)
{
    return fit_of_id(member->id, package_info(member->package)->database_id.device, wanted);
}

bool package_set_covers(struct package_set *set, struct bytes database_id)
{
    struct wanted wanted;
    if (!parse_id(database_id, &wanted))
        return false;
    struct view *view = view_take(set);
    bool covers = false;
    for (size_t i = 0; !covers && i < view->count; i++)
        covers = fit_of(view->members[i], &wanted) <= PACKAGE_FIT_ARCH;
    view_return(set, view);
    return covers;
}

/* Searches the built-in data and not the open packages, because a package that is damaged as a
 * whole is not open. */
static const char *damaged_item(const struct package_set *set, const struct wanted *wanted)
{
    for (size_t i = 0; set->data && i < set->data->count; i++) {
        const struct engine_item *item = &set->data->items[i];
        struct kiln_err ignored = KILN_ERR_INIT;
        struct database_id id;
        char text[DATABASE_ID_MAX];
        struct bytes stem = bytes_of(item->name, strcspn(item->name, "."));
        if (item->kind == ENGINE_ITEM_PACKAGE && engine_item_is_damaged(item) &&
            !database_id_parse(stem, &id, &ignored) && database_id_write(&id, text) &&
            fit_of_id(text, id.device, wanted) <= PACKAGE_FIT_ARCH)
            return item->name;
    }
    return NULL;
}

bool package_set_built_in_is_damaged(struct package_set *set, struct bytes database_id,
                                     char ret_name[PACKAGE_NAME_MAX])
{
    struct wanted wanted;
    if (!parse_id(database_id, &wanted))
        return false;
    const char *name = damaged_item(set, &wanted);
    for (size_t i = 0; i < set->built_in_count && !name; i++) {
        struct member *member = set->built_in[i];
        if (fit_of(member, &wanted) <= PACKAGE_FIT_ARCH &&
            package_has_damaged_rows(member->package))
            name = package_info(member->package)->name;
    }
    if (name)
        snprintf(ret_name, PACKAGE_NAME_MAX, "%s", name);
    return name != NULL;
}

struct answer {
    enum kiln_code rc;
    bool damaged;
    struct kiln_err why;
};

/* Records one package's answer in |found|. Returns true if the search ends, because the package had
 * the object or this process failed. |row| is the kernel's name or key. */
static bool note_answer(const struct member *member, const struct answer *answer, struct bytes row,
                        struct package_found *found, struct kiln_err *err)
{
    const char *name = package_info(member->package)->name;
    if (answer->damaged && !found->damaged[0]) {
        snprintf(found->damaged, sizeof(found->damaged), "%s", name);
        snprintf(found->damage, sizeof(found->damage), "%.255s", answer->why.text);
        snprintf(found->damaged_row, sizeof(found->damaged_row), "%.*s",
                 (int)(row.size < PACKAGE_ROW_TEXT ? row.size : PACKAGE_ROW_TEXT - 1),
                 (const char *)row.data);
    }
    if (!answer->rc)
        snprintf(found->package, sizeof(found->package), "%s", name);
    else if (answer->rc != KILN_NOT_FOUND)
        *err = answer->why;
    return answer->rc != KILN_NOT_FOUND;
}

enum kiln_code package_set_find_named(struct package_set *set, const struct package_query *query,
                                      struct buffer *ret_raw, struct package_found *ret_found,
                                      struct kiln_err *err)
{
    *ret_found = (struct package_found){ 0 };
    struct wanted wanted;
    if (!parse_id(query->database_id, &wanted))
        return KILN_NOT_FOUND;
    struct view *view = view_take(set);
    enum kiln_code rc = KILN_NOT_FOUND;
    bool settled = false;
    for (int fit = PACKAGE_FIT_EXACT; fit <= PACKAGE_FIT_ARCH && !settled; fit++) {
        for (size_t i = 0; i < view->count && !settled; i++) {
            struct member *member = view->members[i];
            if ((int)fit_of(member, &wanted) != fit)
                continue;
            struct answer answer = { .why = KILN_ERR_INIT };
            answer.rc = package_find_named(member->package, &query->kernel, ret_raw,
                                           &answer.damaged, &answer.why);
            settled = note_answer(member, &answer, query->kernel.name, ret_found, err);
            rc = answer.rc;
        }
    }
    view_return(set, view);
    return rc;
}

static bool has_row(struct member *member, const struct kern_name *name)
{
    bool damaged = false;
    struct kiln_err ignored = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, LIMIT_CODE_OBJECT);
    return package_find_named(member->package, name, &raw, &damaged, &ignored) == KILN_OK;
}

enum kiln_code package_set_find_elsewhere(struct package_set *set,
                                          const struct package_query *query,
                                          char ret_package[PACKAGE_NAME_MAX],
                                          char ret_id[DATABASE_ID_MAX])
{
    struct wanted wanted;
    if (!parse_id(query->database_id, &wanted))
        return KILN_NOT_FOUND;
    struct view *view = view_take(set);
    bool found = false;
    for (size_t i = 0; i < view->count && !found; i++) {
        struct member *member = view->members[i];
        found = fit_of(member, &wanted) == PACKAGE_FIT_OTHER_CUS && has_row(member, &query->kernel);
        if (!found)
            continue;
        snprintf(ret_package, PACKAGE_NAME_MAX, "%s", package_info(member->package)->name);
        snprintf(ret_id, DATABASE_ID_MAX, "%s", member->id);
    }
    view_return(set, view);
    return found ? KILN_OK : KILN_NOT_FOUND;
}

enum kiln_code package_set_find_key(struct package_set *set, const struct digest *key,
                                    struct buffer *ret_raw, struct package_found *ret_found,
                                    struct kiln_err *err)
{
    *ret_found = (struct package_found){ 0 };
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(key, hex);
    struct view *view = view_take(set);
    enum kiln_code rc = KILN_NOT_FOUND;
    bool settled = false;
    for (size_t i = 0; i < view->count && !settled; i++) {
        struct member *member = view->members[i];
        struct answer answer = { .why = KILN_ERR_INIT };
        answer.rc = package_find_key(member->package, key, ret_raw, &answer.damaged, &answer.why);
        settled = note_answer(member, &answer, bytes_of_text(hex), ret_found, err);
        rc = answer.rc;
    }
    view_return(set, view);
    return rc;
}

void package_set_shun(struct package_set *set, const char *package, const struct kern_name *name)
{
    struct view *view = view_take(set);
    for (size_t i = 0; i < view->count; i++) {
        if (strcmp(package_info(view->members[i]->package)->name, package) == 0)
            package_shun(view->members[i]->package, name);
    }
    view_return(set, view);
}

const char *package_fit_name(enum package_fit fit)
{
    static const char *const names[] = {
        [PACKAGE_FIT_EXACT] = "exact",
        [PACKAGE_FIT_ARCH] = "arch",
        [PACKAGE_FIT_OTHER_CUS] = "other-cus",
        [PACKAGE_FIT_NONE] = "none",
    };
    return names[fit];
}

enum package_fit package_set_coverage(struct package_set *set, const char *database_id,
                                      void (*each)(void *context, enum package_fit fit,
                                                   const struct package_info *info),
                                      void *context)
{
    struct wanted wanted;
    if (!parse_id(bytes_of_text(database_id), &wanted))
        return PACKAGE_FIT_NONE;
    struct view *view = view_take(set);
    enum package_fit best = PACKAGE_FIT_NONE;
    for (int fit = PACKAGE_FIT_EXACT; fit < PACKAGE_FIT_NONE; fit++) {
        for (size_t i = 0; i < view->count; i++) {
            if ((int)fit_of(view->members[i], &wanted) != fit)
                continue;
            if (best == PACKAGE_FIT_NONE)
                best = (enum package_fit)fit;
            if (each)
                each(context, (enum package_fit)fit, package_info(view->members[i]->package));
        }
    }
    view_return(set, view);
    return best;
}

struct others {
    char text[160];
    size_t used;
};

static void note_other(void *context, enum package_fit fit, const struct package_info *info)
{
    struct others *others = context;
    if (fit != PACKAGE_FIT_OTHER_CUS || others->used >= sizeof(others->text) - 1)
        return;
    int put = snprintf(others->text + others->used, sizeof(others->text) - others->used, "%s%.40s",
                       others->used ? ", " : "", info->name);
    others->used += put > 0 ? (size_t)put : 0;
}

bool package_set_missing(struct package_set *set, const char *database_id,
                         char ret_text[PACKAGE_MISSING_TEXT])
{
    struct others others = { .used = 0 };
    if (package_set_coverage(set, database_id, note_other, &others) <= PACKAGE_FIT_ARCH)
        return false;
    snprintf(ret_text, PACKAGE_MISSING_TEXT,
             "Missing system database file: %.31s.kdb Performance may degrade. Please follow "
             "instructions to install: "
             "https://github.com/ROCm/MIOpen#installing-miopen-kernels-package (with kiln: "
             "scripts/install_precompiled_kernels.sh, or kilnctl pkg install PATH|URL)%s%s",
             database_id,
             others.used ? "; not used, because they are for other compute units: " : "",
             others.text);
    return true;
}
