/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/name_key.h"

#include "engine/service/budget.h"
#include "engine/store/kernel_name.h"

#include <string.h>

#define SCOPE_PACKAGES (KERNEL_SCOPE_EVERYONE - 1) /* no user has this uid */

struct digest kernel_name_packaged(const struct kernel_name *name)
{
    struct digest plain =
        kernel_name_key(SCOPE_PACKAGES, name->database_id, name->name, name->args);
    return kernel_name_key(SCOPE_PACKAGES, name->target, bytes_of(plain.bytes, DIGEST_SIZE),
                           (struct bytes){ 0 });
}

static bool has_nul(struct bytes b) { return b.size && memchr(b.data, '\0', b.size); }

enum kiln_code kernel_name_take(struct bytes database_id, struct bytes name, struct bytes args,
                                struct kernel_name *ret_name, struct kiln_err *err)
{
    struct database_id id;
    struct bytes plain, version;
    enum kiln_code rc = database_id_split(database_id, &plain, &version, err);
    if (!rc)
        rc = database_id_parse(plain, &id, err);
    if (rc)
        return rc;
    if (name.size == 0 || name.size > LIMIT_NAMED_TEXT || args.size > LIMIT_NAMED_TEXT ||
        has_nul(name) || has_nul(args))
        return kiln_fail(err, KILN_INVALID,
                         "a kernel's name must have 1 to %u bytes, its arguments at most %u, and "
                         "neither may contain a NUL",
                         LIMIT_NAMED_TEXT, LIMIT_NAMED_TEXT);
    *ret_name = (struct kernel_name){ .database_id = plain, .name = name, .args = args };
    return KILN_OK;
}

static struct bytes copy_bytes(char **at, struct bytes b)
{
    char *start = *at;
    if (b.size)
        memcpy(start, b.data, b.size);
    *at += b.size;
    return bytes_of(start, b.size);
}

enum kiln_code name_key_copy(struct engine *e, uid_t uid, const struct kernel_name *name,
                             struct name_key **ret_name_key, struct kiln_err *err)
{
    size_t size = name->database_id.size + name->name.size + name->args.size + name->target.size;
    enum kiln_code rc = budget_take(e->budget, uid, size, err);
    if (rc)
        return rc;
    struct name_key *a = malloc(sizeof(*a) + size);
    if (!a) {
        budget_return(e->budget, uid, size);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep a kernel's name of %zu bytes", size);
    }
    char *at = a->storage;
    a->engine = e;
    a->uid = uid;
    a->size = size;
    a->name = (struct kernel_name){
        .database_id = copy_bytes(&at, name->database_id),
        .name = copy_bytes(&at, name->name),
        .args = copy_bytes(&at, name->args),
        .target = copy_bytes(&at, name->target),
    };
    *ret_name_key = a;
    return KILN_OK;
}

void name_key_destroy(struct name_key *a)
{
    if (!a)
        return;
    budget_return(a->engine->budget, a->uid, a->size);
    free(a);
}
