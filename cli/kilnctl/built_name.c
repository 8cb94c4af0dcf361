/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/built_name.h"

#include "engine/miopen/names/database_id.h"

#include <string.h>

static bool is_device_of(const struct database_id *id, const char *text)
{
    struct target target;
    char given[DATABASE_ID_MAX], of_target[DATABASE_ID_MAX];
    struct kiln_err unused = KILN_ERR_INIT;
    return target_parse(bytes_of_text(text), &target, &unused) == KILN_OK &&
           database_id_write(id, given) &&
           database_id_of_device(&target, id->compute_units, of_target) &&
           strcmp(given, of_target) == 0;
}

int device_id_check(const char *database_id, const char *target, struct kiln_error *err)
{
    struct database_id id;
    struct kiln_err why = KILN_ERR_INIT;
    size_t arch = strcspn(target, ":");
    if (!database_id)
        return KILN_E_OK;
    if (database_id_parse(bytes_of_text(database_id), &id, &why))
        return cli_fail(err, KILN_E_INVALID, "--db-id: %s", why.text);
    if (strncmp(database_id, target, arch) == 0 || is_device_of(&id, target))
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID,
                    "--db-id '%s' and --target '%s' are different devices: an id begins with the "
                    "target's processor, as gfx90a68 begins with gfx90a",
                    database_id, target);
}

bool device_id_is_kilns(const char *database_id, size_t size)
{
    struct database_id id;
    struct kiln_err unused = KILN_ERR_INIT;
    return database_id_parse(bytes_of(database_id, size), &id, &unused) == KILN_OK &&
           !database_id_is_miopens(&id);
}

/* Returns whether |target| is an OpenCL device's. Such a device cannot use packages: its code
 * objects only work with one version of its driver, but file names do not contain driver versions.
 */
static bool is_for_opencl(const char *target)
{
    static const char OPENCLS[] = "opencl:";
    return strncmp(target, OPENCLS, strlen(OPENCLS)) == 0;
}

const char *built_name_stem(const char *database_id, const char *target)
{
    struct database_id id;
    struct kiln_err unused = KILN_ERR_INIT;
    bool is_parsed = database_id_parse(bytes_of_text(database_id), &id, &unused) == KILN_OK;
    if (is_for_opencl(target))
        return NULL;
    return is_parsed && !database_id_is_miopens(&id) ? target : database_id;
}

static int check_platform(const struct built_name *name, struct kiln_error *err)
{
    if (name->database_id || !is_for_opencl(name->target))
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID,
                    "packages work only on AMD's and NVIDIA's GPUs, not on OpenCL devices: use "
                    "'kilnctl prefetch' instead, or an embedded build with "
                    "KILN_DEVICE_TARGETS=opencl");
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
                    "packages in MIOpen's format, kdb, work only on AMD's GPUs: for '%s', use "
                    "--format kiln --output %.*s.kpkg",
                    name->target, (int)arch, name->target);
}

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
    bool reports = database_id_of_file(name->file, &id, &why) == KILN_OK;
    if (name->database_id || (reports && is_of_target(&id, name->target)))
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID,
                    "a package's name decides where it applies, and '%.80s' %s: name it %.*s.%s%s",
                    name->file,
                    reports ? "names another device than --target" : "names no known device", arch,
                    name->target, ending,
                    name->kilns ? ", or give --db-id"
                                : " (any number of compute units), or after a database id, such as "
                                  "gfx90a68.kdb for 104 compute units, or give --db-id");
}

int built_name_check(const struct built_name *name, struct kiln_error *err)
{
    int rc = device_id_check(name->database_id, name->target, err);
    if (!rc)
        rc = check_platform(name, err);
    if (!rc)
        rc = check_format(name, err);
    return rc ? rc : check_file(name, err);
}
