/* SPDX-License-Identifier: MIT */
#include "daemon/config/directories.h"

#include "common/base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static enum kiln_code make_checked_directory(const char *path, mode_t mode, struct kiln_err *err)
{
    struct stat seen;
    enum kiln_code rc = fs_make_directories_mode(path, mode, err);
    if (rc)
        return rc;
    if (faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) != 0)
        return kiln_fail_errno(err, errno, "cannot write to '%s'", path);
    if (stat(path, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot read the attributes of '%s'", path);
    if ((seen.st_mode & S_IWOTH) && !(seen.st_mode & S_ISVTX))
        return kiln_fail(err, KILN_DENIED, "every user may write to '%s' (chmod o-w)", path);
    return KILN_OK;
}

enum kiln_code directory_make(const char *path, mode_t mode, const char *what, const char *advice,
                              struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = make_checked_directory(path, mode, &why);
    return rc ? kiln_fail(err, rc, "%s: %s; set another with %s", what, why.text, advice) : KILN_OK;
}
