/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/built_name.h"
#include "cli/kilnctl/db_exported.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/miopen_installed.h"
#include "cli/kilnctl/miopen_version.h"
#include "cli/kilnctl/overlay.h"
#include "cli/output.h"
#include "common/base/fs.h"
#include "engine/miopen/names/miopen_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define DEVICES_MAX 16
#define ID_MAX 64

struct overlay_options {
    const char *database_id, *miopen, *dialect, *format;
    bool shared, force;
};

#define AT(field) offsetof(struct overlay_options, field)
static const struct option options[] = {
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID[,ID...]",
      "the devices, such as gfx90a68 (those of this host)", 0, 0 },
    { "miopen", 0, OPTION_TEXT, AT(miopen), "VERSION",
      "the job's MIOpen version, such as 2.17.0.a82233c22", 0, 0 },
    { "dialect", 0, OPTION_TEXT, AT(dialect), "old|new",
      "the dialect of FindDb (that of the version, else as recorded)", 0, 0 },
    { "format", 0, OPTION_TEXT, AT(format), "sqlite|text",
      "the format of PerfDb (that of the version, else both)", 0, 0 },
    { "shared", 0, OPTION_FLAG, AT(shared), NULL,
      "let other users read the files, as the umask allows (only you)", 0, 0 },
    { "force", 'f', OPTION_FLAG, AT(force), NULL, "replace the files of an older overlay", 0, 0 },
};
#undef AT

/* ---- the version of MIOpen ---- */

static bool is_version(const char *version)
{
    size_t size = strlen(version);
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)version[i]) && !strchr("._-", version[i]))
            return false;
    return size < sizeof(((struct overlay_manifest *)0)->version) && miopen_release(version) > 0;
}

static void choose_forms(struct overlay *o, const struct overlay_options *options_given)
{
    o->dialect = options_given->dialect ? options_given->dialect : db_dialect_of(o->version);
    o->format = options_given->format ? options_given->format : db_format_of(o->version);
}

static int check_options(const struct overlay_options *o, struct kiln_error *err)
{
    int rc = db_check_word("dialect", o->dialect, DB_DIALECTS, err);
    if (!rc)
        rc = db_check_word("format", o->format, DB_FORMATS, err);
    if (!rc && o->miopen && !is_version(o->miopen))
        rc = cli_fail(err, KILN_E_INVALID,
                      "'%.80s' of --miopen is not a version such as 2.17.0.a82233c22, the name of "
                      "MIOpen's directory in ~/.cache/miopen",
                      o->miopen);
    return rc;
}

/* ---- the devices ---- */

struct devices {
    char ids[DEVICES_MAX][ID_MAX];
    size_t count;
};

static int add_device(struct devices *devices, const char *id, size_t size, struct kiln_error *err)
{
    bool plain = size > 0 && size < ID_MAX;
    for (size_t i = 0; i < size && plain; i++)
        plain = isalnum((unsigned char)id[i]) || id[i] == '_' || id[i] == '-';
    if (!plain)
        return cli_fail(err, KILN_E_INVALID, "'%.*s' is not a database id such as gfx90a68",
                        (int)(size < ID_MAX ? size : ID_MAX), id);
    if (device_id_is_kilns(id, size))
        return cli_fail(err, KILN_E_INVALID,
                        "MIOpen does not know the device '%.*s' of --db-id: overlays are only for "
                        "AMD's GPUs, such as gfx90a68",
                        (int)size, id);
    for (size_t i = 0; i < devices->count; i++)
        if (strncmp(devices->ids[i], id, size) == 0 && !devices->ids[i][size])
            return KILN_E_OK;
    if (devices->count == DEVICES_MAX)
        return cli_fail(err, KILN_E_INVALID, "--db-id names more than %d devices", DEVICES_MAX);
    snprintf(devices->ids[devices->count++], ID_MAX, "%.*s", (int)size, id);
    return KILN_E_OK;
}

static int split_ids(const char *given, struct devices *devices, struct kiln_error *err)
{
    int rc = KILN_E_OK;
    for (const char *at = given; !rc; at++) {
        size_t size = strcspn(at, ",");
        rc = add_device(devices, at, size, err);
        at += size;
        if (!*at)
            break;
    }
    return rc;
}

static int ask_devices(const struct invocation *invocation, struct devices *devices,
                       struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "package_coverage", admin_no_arguments, &reply, err);
    const struct json *gpus = json_get(reply, "gpus");
    for (const struct json *j = json_first(gpus); j && !rc; j = json_next(j)) {
        const char *id = json_get_text(j, "database_id", "");
        rc = add_device(devices, id, strlen(id), err);
    }
    if (!rc && devices->count == 0)
        rc = cli_fail(err, KILN_E_INVALID,
                      "this host has no AMD GPU, or its driver does not show it: name the device "
                      "with --db-id");
    return rc;
}

/* ---- the directory ---- */

/* Creates a directory in the overlay. The directory will contain the user's records and the job's
 * results, so even an existing directory is made private, unless the overlay is shared. */
static int make_part(const struct overlay *o, const char *path, struct kiln_error *err)
{
    bool is_private = !o->manifest.is_shared;
    int rc = db_make_directory(path, is_private ? 0700 : 0777, err);
    if (rc || !is_private)
        return rc;
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0700) != 0)
        return cli_fail_errno(err, errno, "cannot make the directory '%s' private", path);
    return KILN_E_OK;
}

/* Creates |directory| and the directories in it. An existing |directory| keeps its mode, because it
 * may contain other files. */
static int make_directories(struct overlay *o, const char *directory, struct kiln_error *err)
{
    static const char *const parts[] = { "system", "user", "cache" };
    char path[PATH_MAX];
    int rc = db_make_directory(directory, o->manifest.is_shared ? 0777 : 0700, err);
    if (!rc && !realpath(directory, o->directory))
        rc = cli_fail_errno(err, errno, "cannot find the directory '%s'", directory);
    for (size_t i = 0; i < 3 && !rc; i++) {
        rc = overlay_path(o->directory, parts[i], path, sizeof(path), err);
        if (!rc)
            rc = make_part(o, path, err);
    }
    return rc;
}

static int check_free(const struct overlay *o, struct kiln_error *err)
{
    char path[PATH_MAX];
    int rc = overlay_path(o->directory, OVERLAY_MANIFEST, path, sizeof(path), err);
    if (!rc && !o->replace && access(path, F_OK) == 0)
        rc = cli_fail(err, KILN_E_IO,
                      "'%s' already contains an overlay: 'kilnctl miopen harvest' imports what is "
                      "new in it; then remove it, or give --force to replace it",
                      o->directory);
    return rc;
}

/* Removes the links of an earlier overlay, because their targets may no longer be right. */
static int remove_links(const struct overlay *o, struct kiln_error *err)
{
    struct stat seen;
    char path[PATH_MAX];
    struct dirent *e = NULL;
    int rc = overlay_path(o->directory, "system", path, sizeof(path), err);
    DIR *open = rc ? NULL : opendir(path);
    while (open && (e = fs_next_entry(open)))
        if (fstatat(dirfd(open), e->d_name, &seen, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(seen.st_mode))
            unlinkat(dirfd(open), e->d_name, 0);
    if (!rc && errno)
        rc = cli_fail_errno(err, errno, "cannot read the directory '%s'", path);
    if (open)
        closedir(open);
    return rc;
}

static int fill_overlay(struct overlay *o, const struct devices *devices, struct kiln_error *err)
{
    KILN_AUTO(fd) int lock = -1;
    o->is_installed = miopen_installed_find(o->installed);
    o->needs_installed = !o->version || miopen_release(o->version) >= MIOPEN_WITH_MODELS;
    int rc = overlay_lock(o->directory, &lock, err);
    if (!rc)
        rc = check_free(o, err);
    if (!rc && o->replace)
        rc = remove_links(o, err);
    for (size_t i = 0; i < devices->count && !rc; i++) {
        rc = overlay_fill(o, devices->ids[i], err);
        if (!rc)
            rc = overlay_fill_kernels(o, devices->ids[i], err);
    }
    if (!rc && o->has_system)
        rc = overlay_link_installed(o, err);
    return rc ? rc : overlay_manifest_write(o->directory, &o->manifest, err);
}

/* ---- environment variables ---- */

static const struct {
    const char *name, *directory;
} variables[] = {
    { "MIOPEN_SYSTEM_DB_PATH", "system" },
    { "MIOPEN_USER_DB_PATH", "user" },
    { "MIOPEN_CUSTOM_CACHE_DIR", "cache" },
};

/* Returns whether to set variable |index|. If system/ is not used, MIOPEN_SYSTEM_DB_PATH is not
 * set, because it would hide MIOpen's own databases. */
static bool is_variable_set(const struct overlay *o, size_t index)
{
    return index > 0 || o->has_system;
}

static int report_overlay(struct overlay *o, struct kiln_error *err)
{
    char value[PATH_MAX + 16];
    KILN_AUTO(json) struct json *json = json_object();
    struct json *set = json_object();
    json_set_text(json, "directory", o->directory);
    for (size_t i = 0; i < 3; i++) {
        if (!is_variable_set(o, i))
            continue;
        snprintf(value, sizeof(value), "%s/%s", o->directory, variables[i].directory);
        json_set_text(set, variables[i].name, value);
        if (!o->invocation->common->json) {
            printf("export %s=", variables[i].name);
            output_shell_word(value);
            putchar('\n');
        }
    }
    json_set(json, "variables", set);
    json_set(json, "files", KILN_TAKE(o->files));
    json_set(json, "remarks", KILN_TAKE(o->remarks));
    return o->invocation->common->json ? output_json(json, err) : KILN_E_OK;
}

static void overlay_done(struct overlay *o)
{
    overlay_manifest_done(&o->manifest);
    json_destroy(o->files);
    json_destroy(o->remarks);
}

static int run_miopen_overlay(const struct invocation *invocation, struct kiln_error *err)
{
    const struct overlay_options *o = invocation->options;
    struct devices devices = { .count = 0 };
    __attribute__((cleanup(overlay_done))) struct overlay overlay = {
        .invocation = invocation,
        .replace = o->force,
        .files = json_array(),
        .remarks = json_array(),
    };
    int rc = check_options(o, err);
    if (!rc)
        rc = o->database_id ? split_ids(o->database_id, &devices, err)
                            : ask_devices(invocation, &devices, err);
    if (rc)
        return rc;
    if (o->miopen) {
        miopen_version_take(o->miopen, overlay.manifest.version);
        overlay.version = overlay.manifest.version;
    }
    choose_forms(&overlay, o);
    overlay.manifest.is_shared = o->shared;
    rc = make_directories(&overlay, invocation->words[0], err);
    if (!rc)
        rc = fill_overlay(&overlay, &devices, err);
    return rc ? rc : report_overlay(&overlay, err);
}

const struct command command_miopen_overlay = {
    .name = "miopen overlay",
    .words = "DIR",
    .summary = "create a directory in which an unmodified MIOpen uses kiln's data",
    .help =
        "Writes kiln's data for the devices into DIR: FindDb and PerfDb of the host, your own\n"
        "records, imported kernels, and links to installed packages and to the other files of the\n"
        "installed MIOpen, such as its models.  Prints the environment variables for the job, so\n"
        "that a shell can run\n"
        "\n"
        "    eval \"$(kilnctl miopen overlay DIR --db-id gfx90a68)\"\n"
        "\n"
        "MIOpen writes what it finds and compiles into DIR; 'miopen harvest' imports that.  With\n"
        "--miopen, the files have the formats that this version reads, and your records have\n"
        "files of their own.  Only you can read the files in DIR, unless --shared is given.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct overlay_options),
    .run = run_miopen_overlay,
};
