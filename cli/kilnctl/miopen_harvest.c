/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/call_progress.h"
#include "cli/kilnctl/db_file.h"
#include "cli/kilnctl/db_send.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/miopen_version.h"
#include "cli/kilnctl/new_file.h"
#include "cli/kilnctl/overlay_manifest.h"
#include "cli/kilnctl/several.h"
#include "cli/kilnctl/upload_size.h"
#include "common/base/fs.h"
#include "engine/miopen/names/miopen_files.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct harvest {
    const struct invocation *invocation;
    const char *directory;
    struct overlay_manifest manifest;
    struct several several;
    struct json *files;
    struct json *unchanged;
    /* Names of files in the overlay that do not look like names of MIOpen's files. */
    struct json *unknown;
    /* |unknown_count| counts the names in |unknown|.  |likely_count| counts those that are similar
     * to MIOpen's. */
    uint64_t unknown_count, likely_count;
    /* Keys of the problems for which MIOpen measured solvers, because the overlay had no record of
     * them. */
    struct json *searched;
    uint64_t searched_count;
    uint64_t said;
};

#define FILES_PRINTED 100u
#define SEARCHED_LISTED 1000u
#define SEARCHED_PRINTED 10u

struct job_file;
/* Sends what is new in |file|.  |ret_answer| remains NULL if nothing was sent. */
typedef int send_fn(struct harvest *h, const struct job_file *file, struct json **ret_answer,
                    struct kiln_error *err);

/* A file that MIOpen uses in the overlay, and which the job may have changed. */
struct job_file {
    const char *name;
    const char *path;
    send_fn *send;
    /* the MIOpen version of the kernels; "" if not known */
    const char *version;
};

static bool prints_file(struct harvest *h)
{
    return !h->invocation->common->json && h->said++ < FILES_PRINTED;
}

/* ---- records ---- */

static int make_file(struct bytes content, int *ret_fd, struct kiln_error *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    KILN_AUTO(fd) int fd = memfd_create("harvest", MFD_CLOEXEC);
    if (fd < 0)
        return cli_fail_errno(err, errno, "cannot create a memory file");
    enum kiln_code rc = fs_write_all(fd, content, &why);
    if (rc)
        return cli_fail(err, (int)rc, "cannot fill a memory file: %s", why.text);
    *ret_fd = fd;
    fd = -1;
    return KILN_E_OK;
}

/* Sends a file's records. kilnd merges them with the recorded ones. The numbers of samples and the
 * spreads decide, so that a job that ends late does not undo the results of the user's other
 * jobs. */
static int send_records(struct harvest *h, const struct job_file *file, int fd,
                        struct json **ret_answer, struct kiln_error *err)
{
    struct db_sending sending = { .merges = true,
                                  .path = file->path,
                                  .name = new_file_name(file->name),
                                  .fd = fd,
                                  .tier = "user",
                                  .verbose_name = "--json" };
    int rc = db_send(h->invocation, &sending, ret_answer, err);
    if (rc)
        return cli_while(err, "%.200s", file->path);
    if (prints_file(h))
        db_send_print(&sending, *ret_answer);
    return db_send_judge(&sending, *ret_answer, err);
}

static void note_search(struct harvest *h, struct bytes line)
{
    char key[1024];
    const uint8_t *equals = line.size ? memchr(line.data, '=', line.size) : NULL;
    if (!equals)
        return;
    snprintf(key, sizeof(key), "%.*s", (int)(equals - line.data), (const char *)line.data);
    if (h->searched_count++ < SEARCHED_LISTED)
        json_append(h->searched, json_text(key));
}

/* Lists the problems of the new lines in the user's FindDb.  MIOpen adds a line only after it has
 * measured the solvers for a problem. */
static void note_searches(struct harvest *h, const struct job_file *file, struct bytes lines)
{
    struct db_file_name name;
    struct reader r = reader_of(lines);
    if (!db_file_name(file->name, &name) || strcmp(name.kind, "find") != 0)
        return;
    while (reader_left(&r)) {
        const uint8_t *end = memchr(r.at, '\n', reader_left(&r));
        note_search(h, reader_take(&r, end ? (size_t)(end - r.at) : reader_left(&r)));
        if (end)
            reader_u8(&r);
    }
}

static int send_new_lines(struct harvest *h, const struct job_file *file, struct json **ret_answer,
                          struct kiln_error *err)
{
    BUFFER_AUTO struct buffer text = { .size = 0 }, fresh = { .size = 0 };
    KILN_AUTO(fd) int fd = -1;
    struct overlay_file *recorded = NULL;
    int rc = overlay_manifest_get(&h->manifest, file->name, &recorded, err);
    if (!rc)
        rc = overlay_text_read(file->path, OVERLAY_TEXT_MAX, &text, err);
    if (rc)
        return rc;
    buffer_init(&fresh, OVERLAY_TEXT_MAX);
    size_t count = overlay_lines_new(&recorded->lines, buffer_view(&text), &fresh);
    if (fresh.failed)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the new lines of '%s'",
                        file->path);
    if (count == 0)
        return KILN_E_OK;
    rc = make_file(buffer_view(&fresh), &fd, err);
    if (!rc)
        rc = send_records(h, file, fd, ret_answer, err);
    if (!*ret_answer)
        return rc;
    note_searches(h, file, buffer_view(&fresh));
    struct kiln_error why = { 0 };
    int added = overlay_lines_add_all(&recorded->lines, buffer_view(&fresh), &why);
    if (!rc && added)
        *err = why;
    return rc ? rc : added;
}

/* Sends all records of a database. kilnd ignores those that it has already. */
static int send_database(struct harvest *h, const struct job_file *file, struct json **ret_answer,
                         struct kiln_error *err)
{
    char note[DB_NOTE_MAX] = "";
    KILN_AUTO(fd) int fd = -1;
    int rc = db_file_open(h->invocation, file->path, &fd, note, err);
    if (!rc)
        rc = send_records(h, file, fd, ret_answer, err);
    return rc || !*note ? rc : cli_fail(err, KILN_E_CORRUPT, "'%.200s': %.500s", file->path, note);
}

/* ---- kernels ---- */

static int send_snapshot(struct harvest *h, const struct job_file *file,
                         const struct snapshot *snapshot, struct json **ret_answer,
                         struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    struct call_progress progress;
    json_set_text(ask, "name", new_file_name(file->name));
    json_set_text(ask, "source", file->path);
    if (*file->version)
        json_set_text(ask, "version", file->version);
    call_progress_init(&progress, new_file_name(file->name));
    const struct admin_call call = { .request = "kernel_import",
                                     .arguments = ask,
                                     .file = snapshot->fd,
                                     .second_file = -1,
                                     .progress = &progress };
    return admin_call(h->invocation, &call, ret_answer, err);
}

static int send_cache(struct harvest *h, const struct job_file *file, struct json **ret_answer,
                      struct kiln_error *err)
{
    struct snapshot snapshot;
    char count[DB_NAME_MAX];
    int rc = snapshot_open(file->path, SNAPSHOT_CACHE, session_deadline_ns(h->invocation->common),
                           &snapshot, err);
    if (rc)
        return rc;
    rc = send_snapshot(h, file, &snapshot, ret_answer, err);
    close(snapshot.fd);
    if (rc)
        return cli_while(err, "%.200s", file->path);
    uint64_t imported = json_get_u64(*ret_answer, "imported", 0);
    uint64_t damaged = json_get_u64(*ret_answer, "damaged", 0);
    if (prints_file(h))
        db_say("%.900s: %s", file->path, db_count(imported, "kernel", count));
    if (damaged == 0)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_CORRUPT,
                    "'%.200s': %llu kernels were imported, %llu others are damaged", file->path,
                    (unsigned long long)imported, (unsigned long long)damaged);
}

/* ---- the directory ---- */

/* Returns the function that sends the file |name|, or NULL if the file must not be sent.
 * |ret_known| says whether MIOpen has files with such a name. */
static send_fn *sender_of(enum miopen_place place, const char *name, bool *ret_known)
{
    struct db_file_name parsed;
    const struct miopen_file *file = miopen_file_find(place, name);
    *ret_known = file;
    if (file && file->content == MIOPEN_KERNELS)
        return send_cache;
    if (file && file->content == MIOPEN_TRANSIENT)
        return NULL;
    *ret_known = place == MIOPEN_USER && !strstr(name, ".bz2") && db_file_name(name, &parsed) &&
                 parsed.is_miopens;
    if (!*ret_known)
        return NULL;
    return parsed.is_sqlite ? send_database : send_new_lines;
}

/* Returns whether |file| is unchanged since 'miopen overlay' or the last harvest.  Text files need
 * no digest, because each of their lines has one. */
static int is_unchanged(struct harvest *h, const struct job_file *file,
                        struct overlay_fingerprint *now, bool *ret_unchanged,
                        struct kiln_error *err)
{
    const struct overlay_file *recorded = overlay_manifest_find(&h->manifest, file->name);
    *ret_unchanged = recorded && overlay_fingerprint_same(&recorded->fingerprint, now);
    if (file->send == send_new_lines)
        return KILN_E_OK;
    if (*ret_unchanged) {
        memcpy(now->digest, recorded->fingerprint.digest, sizeof(now->digest));
        return KILN_E_OK;
    }
    int rc = upload_size_check(h->invocation, file->path,
                               file->send == send_cache ? SNAPSHOT_CACHE : SNAPSHOT_TUNING, err);
    if (!rc)
        rc = overlay_fingerprint_read(file->path, session_deadline_ns(h->invocation->common), now,
                                      err);
    *ret_unchanged =
        !rc && recorded && overlay_fingerprint_same_content(&recorded->fingerprint, now);
    return rc;
}

static void report_unchanged(struct harvest *h, const struct job_file *file)
{
    json_append(h->unchanged, json_text(file->name));
    if (prints_file(h))
        db_say("%.900s: unchanged", file->path);
}

static int record_fingerprint(struct harvest *h, const char *name,
                              const struct overlay_fingerprint *now, struct kiln_error *err)
{
    struct overlay_file *recorded = NULL;
    int rc = overlay_manifest_get(&h->manifest, name, &recorded, err);
    if (!rc)
        recorded->fingerprint = *now;
    return rc;
}

static int send_changed(struct harvest *h, const struct job_file *file, struct json **ret_answer,
                        struct kiln_error *err)
{
    struct overlay_fingerprint now;
    bool unchanged = false;
    /* The fingerprint is taken before the file is read.  So everything that the job writes during
     * this harvest counts as a change for the
     * next harvest. */
    int rc = overlay_fingerprint_stat(file->path, &now, err);
    if (!rc)
        rc = is_unchanged(h, file, &now, &unchanged, err);
    if (rc)
        return rc;
    if (unchanged)
        report_unchanged(h, file);
    else
        rc = file->send(h, file, ret_answer, err);
    if (rc && !*ret_answer)
        return rc;
    struct kiln_error why = { 0 };
    int recorded = record_fingerprint(h, file->name, &now, &why);
    if (!rc && recorded)
        *err = why;
    return rc ? rc : recorded;
}

static void harvest_file(struct harvest *h, struct job_file *file)
{
    char path[PATH_MAX];
    struct json *answer = NULL;
    struct kiln_error why = { 0 };
    int rc = overlay_path(h->directory, file->name, path, sizeof(path), &why);
    file->path = path;
    if (!rc)
        rc = send_changed(h, file, &answer, &why);
    several_note(&h->several, path, rc, &why);
    if (!answer)
        return;
    json_set_text(answer, "file", file->name);
    json_append(h->files, answer);
}

#define UNKNOWN_LISTED 20u

static void report_unknown(struct harvest *h, const char *name, bool is_likely)
{
    h->likely_count += is_likely;
    if (h->unknown_count++ >= UNKNOWN_LISTED)
        return;
    json_append(h->unknown, json_text(name));
    if (!h->invocation->common->json)
        db_say("%.900s/%.150s: not read: no MIOpen that kiln knows has files of this name",
               h->directory, name);
}

struct part {
    enum miopen_place place;
    const char *name; /* path below the overlay, such as "cache" or "cache/3.5.0.1a2b3c4d5" */
    const char *version;
};

static void harvest_part(struct harvest *h, const struct part *part);

static void note_unreadable(struct harvest *h, const char *path)
{
    struct kiln_error why = { 0 };
    int rc = cli_fail_errno(&why, errno, "cannot read '%s'", path);
    several_note(&h->several, path, rc, &why);
}

/* Harvests or reports the directory |name|.  MIOpen 3.5 and later store kernels in cache/VERSION.
 * 'miopen overlay' makes cache/VERSION a link to cache/ for the version that it knows.  So if
 * cache/VERSION is a real directory, the job used another version, and this function harvests the
 * directory.  It reports other unknown directories, such as those that builds of MIOpen without
 * SQLite make for each kernel, because kiln cannot read them. */
static void harvest_directory(struct harvest *h, const struct part *part, const char *name)
{
    char version[MIOPEN_VERSION_MAX], path[PATH_MAX];
    struct kiln_error ignored = { 0 };
    const struct part below = { .place = part->place, .name = name, .version = version };
    bool is_version = part->place == MIOPEN_CACHE && !strchr(name + strlen("cache/"), '/') &&
                      !overlay_path(h->directory, name, path, sizeof(path) - 2, &ignored) &&
                      miopen_version_of_path(strcat(path, "/"), version);
    if (is_version)
        harvest_part(h, &below);
    else if (!miopen_file_find(part->place, new_file_name(name)))
        report_unknown(h, name, part->place == MIOPEN_CACHE);
}

static void harvest_entry(struct harvest *h, const struct part *part, const char *entry)
{
    char name[160], path[PATH_MAX];
    struct kiln_error ignored = { 0 };
    struct stat seen = { .st_mode = 0 };
    bool is_known = false;
    if (snprintf(name, sizeof(name), "%s/%s", part->name, entry) >= (int)sizeof(name) ||
        overlay_path(h->directory, name, path, sizeof(path), &ignored)) {
        report_unknown(h, entry, miopen_file_is_likely(entry));
        return;
    }
    if (lstat(path, &seen) != 0 && errno != ENOENT) {
        note_unreadable(h, path);
        return;
    }
    send_fn *sender = sender_of(part->place, entry, &is_known);
    if (S_ISDIR(seen.st_mode))
        harvest_directory(h, part, name);
    else if (sender)
        harvest_file(h,
                     &(struct job_file){ .name = name, .send = sender, .version = part->version });
    else if (!is_known && !miopen_version_is_link(path))
        report_unknown(h, name, miopen_file_is_likely(entry));
}

static void harvest_part(struct harvest *h, const struct part *part)
{
    char directory[PATH_MAX];
    struct kiln_error why = { 0 };
    struct dirent *e = NULL;
    int rc = overlay_path(h->directory, part->name, directory, sizeof(directory), &why);
    DIR *open = rc ? NULL : opendir(directory);
    while (open && !h->several.over && (e = fs_next_entry(open)))
        if (*e->d_name != '.')
            harvest_entry(h, part, e->d_name);
    if (rc)
        several_note(&h->several, directory, rc, &why);
    else if (!h->several.over && errno)
        note_unreadable(h, directory);
    if (open)
        closedir(open);
}

/* Reports files with unknown names.  Records a failure if some names are similar to MIOpen's.  Such
 * files may be the job's only results, and the overlay is usually removed after the job. */
static void judge_unknown(struct harvest *h, struct json *json)
{
    char count[DB_NAME_MAX];
    struct kiln_error why = { 0 };
    json_set_u64(json, "unknown_count", h->unknown_count);
    if (h->unknown_count > UNKNOWN_LISTED && !h->invocation->common->json)
        db_say("%.900s: %s more were not read", h->directory,
               db_count(h->unknown_count - UNKNOWN_LISTED, "name", count));
    if (h->likely_count == 0)
        return;
    int rc = cli_fail(&why, KILN_E_UNSUPPORTED,
                      "'%.300s': %s like MIOpen's %s not read, and may have results of the job: "
                      "keep a copy before you remove the directory",
                      h->directory, db_count(h->likely_count, "name", count),
                      h->likely_count == 1 ? "was" : "were");
    several_note(&h->several, h->directory, rc, &why);
}

static void print_searches(const struct harvest *h)
{
    char count[DB_NAME_MAX];
    size_t printed = 0;
    if (h->searched_count == 0)
        return;
    db_say("MIOpen searched for %s without a find record:",
           db_count(h->searched_count, "problem", count));
    for (const struct json *j = json_first(h->searched); j && printed < SEARCHED_PRINTED;
         j = json_next(j), printed++)
        db_say("    %.900s", json_as_text(j, "?"));
    if (h->searched_count > printed)
        db_say("    and %s more; --json lists %u",
               db_count(h->searched_count - printed, "problem", count), SEARCHED_LISTED);
}

static int harvest_parts(struct harvest *h, struct kiln_error *err)
{
    char count[DB_NAME_MAX];
    KILN_AUTO(json) struct json *json = json_object();
    h->files = json_set_array(json, "files");
    h->unchanged = json_set_array(json, "unchanged");
    h->unknown = json_set_array(json, "unknown");
    h->searched = json_set_array(json, "searched");
    const struct part user = { MIOPEN_USER, "user", "" },
                      cache = { MIOPEN_CACHE, "cache", h->manifest.version };
    harvest_part(h, &user);
    if (!h->several.over)
        harvest_part(h, &cache);
    if (h->said > FILES_PRINTED)
        db_say("%.900s: %s more; --json lists all", h->directory,
               db_count(h->said - FILES_PRINTED, "file", count));
    json_set_u64(json, "searched_count", h->searched_count);
    if (!h->invocation->common->json)
        print_searches(h);
    judge_unknown(h, json);
    struct kiln_error why = { 0 };
    int rc = overlay_manifest_write(h->directory, &h->manifest, &why);
    if (rc)
        several_note(&h->several, h->directory, rc, &why);
    if (!h->invocation->common->json && json_count(h->files) == 0 && h->unknown_count == 0 &&
        !h->several.first.code)
        db_say("%.900s: nothing new", h->directory);
    return several_end(&h->several, json, err);
}

static int run_miopen_harvest(const struct invocation *invocation, struct kiln_error *err)
{
    struct harvest h = { .invocation = invocation, .directory = invocation->words[0] };
    KILN_AUTO(fd) int lock = -1;
    int rc = overlay_lock(h.directory, &lock, err);
    if (!rc)
        rc = overlay_manifest_read(h.directory, &h.manifest, err);
    if (rc == KILN_E_NOT_FOUND)
        return cli_fail(err, rc,
                        "there is no overlay in '%.300s'; 'kilnctl miopen overlay' makes one",
                        h.directory);
    if (rc)
        return rc;
    several_init(&h.several, invocation, "file");
    rc = harvest_parts(&h, err);
    several_release(&h.several);
    overlay_manifest_done(&h.manifest);
    return rc;
}

const struct command command_miopen_harvest = {
    .name = "miopen harvest",
    .words = "DIR",
    .summary = "import what a job found and compiled in an overlay",
    .help =
        "Imports what MIOpen has written since 'miopen overlay' created DIR.  FindDb and PerfDb\n"
        "records are merged into your own tier by statistics, as 'db merge' does; kernels go into\n"
        "the store.  Records that were harvested before and databases that have not changed are\n"
        "skipped.  While the job runs, harvests what is there so far.\n"
        "\n"
        "With --timeout, each request may take that long, and so may reading a file.  A database "
        "or\n"
        "cache that is larger than kilnd accepts is not read at all.\n"
        "\n"
        "Names that no known MIOpen uses are listed and counted.  If they look like MIOpen's, the\n"
        "exit status is 1, because their content would be lost with the directory.\n"
        "\n"
        "Lists the keys of the problems that MIOpen searched for, because it had no find record.",
    .least_words = 1,
    .most_words = 1,
    .run = run_miopen_harvest,
};
