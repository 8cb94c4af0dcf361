/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/built_name.h"

#include "engine/miopen/database_id.h"

#include <string.h>

static int check_id(const struct built_name *name, struct kiln_error *err)
{
    struct database_id id;
    struct kiln_err why = KILN_ERR_INIT;
    size_t arch = strcspn(name->target, ":");
    if (!name->database_id)
        return KILN_E_OK;
    if (database_id_parse(bytes_of_text(name->database_id), &id, &why))
        return cli_fail(err, KILN_E_INVALID, "--db-id: %s", why.text);
    if (strncmp(name->database_id, name->target, arch) == 0)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID,
                    "--db-id '%s' is another device's than --target '%s': an id begins with the "
                    "target's processor, as gfx90a68 does with gfx90a",
                    name->database_id, name->target);
}

static int check_format(const struct built_name *name, struct kiln_error *err)
{
    struct database_id id;
    struct kiln_err unused = KILN_ERR_INIT;
    size_t arch = strcspn(name->target, ":");
    if (name->kilns || database_id_parse(bytes_of(name->target, arch), &id, &unused) ||
        database_id_is_miopens(&id))
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID,
                    "packages of MIOpen's format, kdb, are for AMD's GPUs only: for '%s' give "
                    "--format kiln --output %.*s.kpkg",
                    name->target, (int)arch, name->target);
}

/* "gfx906_xnack" is one of gfx906's, gfx90a none of gfx90's. */
static bool is_of_target(const struct database_id *id, const char *target)
{
    size_t arch = strcspn(target, ":");
    return strncmp(id->device, target, arch) == 0 &&
           (id->device[arch] == '\0' || id->device[arch] == '_');
}

static int check_file(const struct built_name *name, struct kiln_error *err)
{
    struct database_id id;
    struct kiln_err why = KILN_ERR_INIT;
    const char *ending = name->kilns ? "kpkg" : "kdb";
    int arch = (int)strcspn(name->target, ":");
    bool tells = database_id_of_file(name->file, &id, &why) == KILN_OK;
    if (name->database_id || (tells && is_of_target(&id, name->target)))
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID,
                    "a package applies by its name, and '%.80s' %s: call it %.*s.%s%s", name->file,
                    tells ? "names another device than --target" : "names none that kiln knows",
                    arch, name->target, ending,
                    name->kilns ? ", or give --db-id"
                                : " (every one of them), or as its database id, such as "
                                  "gfx90a68.kdb for 104 compute units, or give --db-id");
}

int built_name_check(const struct built_name *name, struct kiln_error *err)
{
    int rc = check_id(name, err);
    if (!rc)
        rc = check_format(name, err);
    return rc ? rc : check_file(name, err);
}
