/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/db_exported.h"

#include "cli/kilnctl/new_file.h"
#include "cli/kilnctl/snapshot.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

void db_exported_done(struct db_exported *exported)
{
    for (size_t i = 0; i < exported->count; i++)
        close(exported->fds[i]);
    json_destroy(exported->answer);
    *exported = (struct db_exported){ .count = 0 };
}

int db_exported_get(const struct invocation *invocation, const struct json *ask,
                    struct db_exported *ret_exported, struct kiln_error *err)
{
    DB_EXPORTED_AUTO struct db_exported exported = { .count = 0 };
    const struct admin_call call = { ADMIN_CALL_INIT,
                                     .request = "tuning_export",
                                     .arguments = ask,
                                     .ret_files = exported.fds,
                                     .ret_files_max = DB_EXPORTED_MAX,
                                     .ret_file_count = &exported.count };
    int rc = admin_call(invocation, &call, &exported.answer, err);
    if (rc)
        return rc;
    if (json_count(json_get(exported.answer, "files")) != exported.count)
        return cli_fail(err, KILN_E_CORRUPT,
                        "the list of files in kilnd's answer does not match the files it sent");
    if (exported.count == 0)
        return cli_fail(err, KILN_E_NOT_FOUND, "there are no records to write");
    *ret_exported = exported;
    exported = (struct db_exported){ .count = 0 };
    return KILN_E_OK;
}

const struct json *db_exported_entry(const struct db_exported *exported, size_t index)
{
    const struct json *entry = json_first(json_get(exported->answer, "files"));
    for (size_t i = 0; i < index && entry; i++)
        entry = json_next(entry);
    return entry;
}

int db_exported_path(const char *directory, const char *name, char ret_path[PATH_MAX],
                     struct kiln_error *err)
{
    size_t size = strlen(directory);
    const char *slash = size > 0 && directory[size - 1] == '/' ? "" : "/";
    if (!*name || *name == '.' || strchr(name, '/') || strlen(name) >= 128)
        return cli_fail(err, KILN_E_CORRUPT, "kilnd's answer has no valid file name");
    if (snprintf(ret_path, PATH_MAX, "%s%s%s", directory, slash, name) >= PATH_MAX)
        return cli_fail(err, KILN_E_INVALID, "the path '%s' is too long", directory);
    return KILN_E_OK;
}

int db_exported_write(const struct db_exported *exported, size_t index, const struct new_file *file,
                      struct kiln_error *err)
{
    struct new_file with_content = *file;
    with_content.from = exported->fds[index];
    return db_write(&with_content, err);
}

int db_write(const struct new_file *file, struct kiln_error *err)
{
    if (!file->replace && access(file->path, F_OK) == 0)
        return cli_fail(err, KILN_E_IO,
                        "'%s' exists already: choose another directory, or give --force to replace "
                        "it",
                        file->path);
    /* SQLite would apply the old database's log to the new database. */
    if (snapshot_has_log(file->path))
        return cli_fail(err, KILN_E_BUSY,
                        "'%s' is in use: there is a log next to it.  End the programs that use it, "
                        "or choose another directory; if a program left the log behind, remove "
                        "both files",
                        file->path);
    return new_file_write(file, err);
}

int db_make_directory(const char *directory, mode_t mode, struct kiln_error *err)
{
    if (mkdir(directory, mode) == 0 || errno == EEXIST)
        return KILN_E_OK;
    return cli_fail_errno(err, errno, "cannot create the directory '%s'", directory);
}
