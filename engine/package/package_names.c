/* SPDX-License-Identifier: MIT */
#include "engine/package/package_format.h"

#include <string.h>

static const struct {
    const char *suffix;
    const struct package_ops *ops;
} formats[] = {
    { ".kdb", &package_kdb_ops },
    { ".ukdb", &package_kdb_ops },
    { ".kpkg", &package_kiln_ops },
};

const struct package_ops *package_ops_of(const char *file_name)
{
    size_t size = strlen(file_name);
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        size_t suffix = strlen(formats[i].suffix);
        if (size > suffix && strcmp(file_name + size - suffix, formats[i].suffix) == 0)
            return formats[i].ops;
    }
    return NULL;
}

bool package_format_of(const char *file_name, enum package_format *ret_format)
{
    const struct package_ops *ops = package_ops_of(file_name);
    if (ops)
        *ret_format = ops->format;
    return ops;
}

const char *package_format_name(enum package_format format)
{
    return format == PACKAGE_KDB ? package_kdb_ops.name : package_kiln_ops.name;
}

enum kiln_code package_name_check(const char *file_name, struct database_id *ret_id,
                                  struct kiln_err *err)
{
    struct database_id id;
    if (!package_ops_of(file_name))
        return kiln_fail(err, KILN_INVALID,
                         "'%.200s' is not a package: the name of a package ends in .kdb, .ukdb or "
                         ".kpkg (with .bz2 if it is compressed), such as gfx90a68.kdb",
                         file_name);
    return database_id_of_file(file_name, ret_id ? ret_id : &id, err);
}

enum kiln_code package_names_agree(const char *signed_name, const char *name, struct kiln_err *err)
{
    struct database_id signed_id = { 0 }, id = { 0 };
    char signed_text[DATABASE_ID_MAX] = "", text[DATABASE_ID_MAX] = "";
    struct kiln_err ignored = KILN_ERR_INIT;
    const struct package_ops *signed_ops = package_ops_of(signed_name);
    bool known = signed_ops && database_id_of_file(signed_name, &signed_id, &ignored) == KILN_OK &&
                 database_id_write(&signed_id, signed_text);
    bool named =
        database_id_of_file(name, &id, &ignored) == KILN_OK && database_id_write(&id, text);
    if (known && named && signed_ops == package_ops_of(name) && strcmp(signed_text, text) == 0)
        return KILN_OK;
    return kiln_fail(
        err, KILN_DENIED,
        "the manifest signs this file as '%.100s', which is not what '%.100s' would be "
        "used for: install it under a name of the same database id and format, or "
        "have it signed as '%.100s'",
        signed_name, name, name);
}
