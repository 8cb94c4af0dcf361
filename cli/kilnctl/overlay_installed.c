/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/overlay.h"
#include "common/base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static bool is_file(const char *path)
{
    struct stat seen;
    return stat(path, &seen) == 0 && S_ISREG(seen.st_mode);
}

/* Links one of MIOpen's files into system/. If the name exists, keeps it: kiln has written that
 * file, or has linked a package. */
static int link_file(const struct overlay *o, const char *name, bool *ret_linked,
                     struct kiln_error *err)
{
    char target[PATH_MAX], path[PATH_MAX], below[300];
    snprintf(below, sizeof(below), "system/%.255s", name);
    int rc = overlay_path(o->installed, name, target, sizeof(target), err);
    if (!rc)
        rc = overlay_path(o->directory, below, path, sizeof(path), err);
    if (rc || *name == '.' || !is_file(target))
        return rc;
    *ret_linked = symlink(target, path) == 0;
    return *ret_linked || errno == EEXIST
               ? KILN_E_OK
               : cli_fail_errno(err, errno, "cannot create the link '%s'", path);
}

static void report_links(struct overlay *o, size_t count)
{
    char counted[DB_NAME_MAX];
    struct json *json = json_object();
    json_set_text(json, "file", "system");
    json_set_u64(json, "links", count);
    json_set_text(json, "to", o->installed);
    json_append(o->files, json);
    if (!o->invocation->common->json)
        fprintf(stderr, "%s/system: %s to the installed MIOpen's '%s'\n", o->directory,
                db_count(count, "link", counted), o->installed);
}

int overlay_link_installed(struct overlay *overlay, struct kiln_error *err)
{
    size_t count = 0;
    int rc = KILN_E_OK;
    DIR *open = overlay->is_installed ? opendir(overlay->installed) : NULL;
    if (!open) {
        if (!overlay->needs_installed)
            return KILN_E_OK;
        overlay->has_system = false;
        overlay_remark(
            overlay,
            "MIOpen's own files were not found in '%s'.  MIOPEN_SYSTEM_DB_PATH is not "
            "set, because MIOpen 2.20 and later fail without their models: set it to "
            "the directory of MIOpen's files, or ROCM_PATH, and create the overlay again "
            "with --force",
            overlay->installed);
        return KILN_E_OK;
    }
    struct dirent *e = NULL;
    while (!rc && (e = fs_next_entry(open))) {
        bool linked = false;
        rc = link_file(overlay, e->d_name, &linked, err);
        count += linked;
    }
    if (!rc && errno)
        rc = cli_fail_errno(err, errno, "cannot read the directory '%s'", overlay->installed);
    closedir(open);
    if (!rc)
        report_links(overlay, count);
    return rc;
}
