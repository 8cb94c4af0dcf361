/* SPDX-License-Identifier: MIT */
/* Finds out who signed a package that kiln did not install. The result is only shown to users; no
 * look-up relies on it. */
#include "engine/package/package_set_parts.h"

#include "common/base/fs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MANIFEST_SUFFIX ".manifest"

static enum kiln_code check_content(struct package *package, const struct manifest_file *file,
                                    struct kiln_err *err)
{
    struct digest sha256;
    enum kiln_code rc = package_sha256(package, &sha256, err);
    if (rc || digest_equal(&sha256, &file->sha256))
        return rc;
    return kiln_fail(err, KILN_CORRUPT, "it is not the file that its manifest signs");
}

static enum kiln_code check_manifest(const struct package_set *set, struct package *package,
                                     const char *path, struct package_signature *ret_signature,
                                     struct kiln_err *err)
{
    const struct manifest_trust trust = { .directory = set->keys_directory };
    struct manifest_file file;
    BUFFER_AUTO struct buffer manifest;
    buffer_init(&manifest, MANIFEST_MAX);
    enum kiln_code rc = fs_read_file(path, MANIFEST_MAX, &manifest, err);
    if (!rc)
        rc =
            manifest_check(buffer_view(&manifest), &trust, package_info(package)->name, &file, err);
    if (!rc)
        rc = check_content(package, &file, err);
    if (rc)
        return rc;
    memcpy(ret_signature->signer, file.signer, sizeof(ret_signature->signer));
    ret_signature->edition = file.edition;
    return KILN_OK;
}

void package_set_signature(const struct package_set *set, struct package *package,
                           struct package_signature *ret_signature)
{
    const struct package_info *info = package_info(package);
    struct package_signature *s = ret_signature;
    *s = (struct package_signature){ .counts = package_is_trusted(package),
                                     .edition = info->edition };
    memcpy(s->signer, info->signer, sizeof(s->signer));
    char path[PATH_TEXT_MAX + sizeof(MANIFEST_SUFFIX)];
    struct kiln_err why = KILN_ERR_INIT;
    snprintf(path, sizeof(path), "%s" MANIFEST_SUFFIX, info->path);
    if (info->installed || s->counts || access(path, F_OK) != 0)
        return;
    if (check_manifest(set, package, path, s, &why))
        snprintf(s->refused, sizeof(s->refused), "%.255s", why.text);
}
