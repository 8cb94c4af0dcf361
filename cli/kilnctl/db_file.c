/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/db_file.h"

#include "cli/kilnctl/new_file.h"
#include "cli/kilnctl/upload_size.h"
#include "cli/output.h"
#include "common/base/fs.h"
#include "engine/miopen/names/miopen_files.h"
#include "engine/miopen/names/tuning_file_name.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool parse_name(const char *path, struct tuning_file_name *ret_name)
{
    struct kiln_err unused = KILN_ERR_INIT;
    return tuning_file_name_parse(new_file_name(path), ret_name, &unused) == KILN_OK;
}

bool db_file_name(const char *name, struct db_file_name *ret_name)
{
    struct tuning_file_name parsed;
    if (!parse_name(name, &parsed))
        return false;
    *ret_name = (struct db_file_name){ .is_user = parsed.is_user,
                                       .is_sqlite = parsed.format == TUNING_SQLITE,
                                       .is_miopens = tuning_file_name_is_miopens(&parsed) };
    snprintf(ret_name->kind, sizeof(ret_name->kind), "%s", tuning_kind_name(parsed.kind));
    snprintf(ret_name->database_id, sizeof(ret_name->database_id), "%s", parsed.database_id);
    snprintf(ret_name->backend, sizeof(ret_name->backend), "%s", parsed.backend);
    return true;
}

bool db_file_system_name(const char *name, char ret_name[128])
{
    struct tuning_file_name parsed;
    if (!parse_name(name, &parsed))
        return false;
    parsed.is_user = false;
    parsed.version[0] = '\0';
    tuning_file_name_write(&parsed, ret_name);
    return true;
}

bool db_file_device(const char *id, char ret_device[64])
{
    struct database_id parsed;
    struct kiln_err unused = KILN_ERR_INIT;
    if (database_id_parse(bytes_of_text(id), &parsed, &unused))
        return false;
    snprintf(ret_device, 64, "%s", parsed.device);
    return true;
}

void db_files_done(struct db_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->paths[i]);
    free(files->paths);
    *files = (struct db_files){ .paths = NULL };
}

static int add_path(struct db_files *files, const char *directory, const char *name,
                    struct kiln_error *err)
{
    char **grown = realloc(files->paths, (files->count + 1) * sizeof(*grown));
    char *path = NULL;
    bool slash = *directory && directory[strlen(directory) - 1] != '/';
    if (grown)
        files->paths = grown;
    if (!grown || asprintf(&path, "%s%s%s", directory, slash ? "/" : "", name) < 0)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the names in '%s'", directory);
    files->paths[files->count++] = path;
    return KILN_E_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has_no_records(const char *name)
{
    for (enum miopen_place place = MIOPEN_SYSTEM; place <= MIOPEN_CACHE; place++) {
        const struct miopen_file *file = miopen_file_find(place, name);
        if (file && file->content >= MIOPEN_KERNELS)
            return true;
    }
    return false;
}

#define SKIPPED_LISTED 20u

static void report_skipped(const char *directory, const char *name, unsigned *count)
{
    char line[900];
    struct tuning_file_name unused;
    struct kiln_err why = KILN_ERR_INIT;
    if (*name == '.' || has_no_records(name) || !miopen_file_is_likely(name) ||
        tuning_file_name_parse(name, &unused, &why) == KILN_OK)
        return;
    if (++*count > SKIPPED_LISTED)
        return;
    snprintf(line, sizeof(line), "kilnctl: skipped '%.200s/%.200s': %.400s", directory, name,
             why.text);
    output_clean(line, false);
    fprintf(stderr, "%s\n", line);
}

static int list_directory(const char *directory, struct db_files *files, struct kiln_error *err)
{
    struct tuning_file_name unused;
    unsigned skipped = 0;
    int rc = KILN_E_OK;
    DIR *open = opendir(directory);
    if (!open)
        return cli_fail_errno(err, errno, "cannot read the directory '%s'", directory);
    struct dirent *e = NULL;
    while (!rc && (e = fs_next_entry(open))) {
        if (parse_name(e->d_name, &unused))
            rc = add_path(files, directory, e->d_name, err);
        else
            report_skipped(directory, e->d_name, &skipped);
    }
    if (!rc && errno)
        rc = cli_fail_errno(err, errno, "cannot read the directory '%s'", directory);
    closedir(open);
    if (skipped > SKIPPED_LISTED)
        fprintf(stderr, "kilnctl: skipped %u more\n", skipped - SKIPPED_LISTED);
    if (!rc && files->count == 0)
        rc = cli_fail(err, KILN_E_NOT_FOUND,
                      "there is no tuning file in '%s'; a tuning file has a name such as "
                      "gfx90a68.HIP.fdb.txt or gfx90a68.db",
                      directory);
    if (files->count > 0)
        qsort(files->paths, files->count, sizeof(*files->paths), by_name);
    return rc;
}

int db_files_of(const char *word, struct db_files *ret_files, struct kiln_error *err)
{
    struct db_files files = { .paths = NULL };
    struct stat seen;
    bool is_directory = stat(word, &seen) == 0 && S_ISDIR(seen.st_mode);
    int rc = is_directory ? list_directory(word, &files, err) : add_path(&files, "", word, err);
    if (rc)
        db_files_done(&files);
    else
        *ret_files = files;
    return rc;
}

int db_file_open(const struct invocation *invocation, const char *path, int *ret_fd,
                 char ret_note[DB_NOTE_MAX], struct kiln_error *err)
{
    struct tuning_file_name name;
    struct snapshot snapshot;
    bool miopens = parse_name(path, &name) && name.format == TUNING_SQLITE && name.is_user &&
                   !strstr(new_file_name(path), ".bz2");
    *ret_note = '\0';
    int rc = upload_size_check(invocation, path, SNAPSHOT_TUNING, err);
    if (rc)
        return rc;
    if (!miopens && !snapshot_has_log(path))
        return snapshot_open_plain(path, ret_fd, err);
    rc = snapshot_open(path, SNAPSHOT_TUNING, session_deadline_ns(invocation->common), &snapshot,
                       err);
    if (rc)
        return rc;
    snprintf(ret_note, DB_NOTE_MAX, "%s", snapshot.note);
    *ret_fd = snapshot.fd;
    return KILN_E_OK;
}
