/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/call_progress.h"
#include "cli/kilnctl/db_file.h"
#include "cli/kilnctl/db_send.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/new_file.h"
#include "cli/kilnctl/overlay_notes.h"
#include "cli/kilnctl/several.h"
#include "cli/kilnctl/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

struct harvest {
    const struct invocation *invocation; /* borrowed */
    const char *directory;               /* borrowed */
    struct overlay_notes notes;
    struct several several;
    struct json *files;     /* borrowed: of the answer */
    struct json *unchanged; /* likewise: names of files that were not read */
};

/* ---- records ---- */

static int make_file(struct bytes content, int *ret_fd, struct kiln_error *err)
{
    KILN_AUTO(fd) int fd = memfd_create("harvest", MFD_CLOEXEC);
    if (fd < 0)
        return cli_fail_errno(err, errno, "cannot make a memory file");
    while (content.size > 0) {
        ssize_t put = write(fd, content.data, content.size);
        if (put < 0 && errno != EINTR)
            return cli_fail_errno(err, errno, "cannot fill a memory file");
        if (put > 0)
            content = bytes_of(content.data + put, content.size - (size_t)put);
    }
    *ret_fd = fd;
    fd = -1;
    return KILN_E_OK;
}

/* By statistics: a job that other jobs of the same user outran does not undo their work. */
static int send_records(struct harvest *h, const char *name, const char *path, int fd,
                        struct json **ret_answer, struct kiln_error *err)
{
    struct db_sending sending = { .merges = true,
                                  .path = path,
                                  .name = new_file_name(name),
                                  .fd = fd,
                                  .tier = "user",
                                  .verbose_name = "--json" };
    int rc = db_send(h->invocation, &sending, ret_answer, err);
    if (rc)
        return cli_while(err, "%.200s", path);
    if (!h->invocation->common->json)
        db_send_print(&sending, *ret_answer);
    return db_send_judge(&sending, *ret_answer, err);
}

/* Only the lines that were not there.  |ret_answer| stays NULL where there are none. */
static int send_new_lines(struct harvest *h, const char *name, const char *path,
                          struct json **ret_answer, struct kiln_error *err)
{
    BUFFER_AUTO struct buffer text = { .size = 0 }, fresh = { .size = 0 };
    KILN_AUTO(fd) int fd = -1;
    struct overlay_file *file = NULL;
    int rc = overlay_notes_get(&h->notes, name, &file, err);
    if (!rc)
        rc = overlay_text_read(path, OVERLAY_TEXT_MAX, &text, err);
    if (rc)
        return rc;
    buffer_init(&fresh, OVERLAY_TEXT_MAX);
    size_t count = overlay_lines_new(&file->lines, buffer_view(&text), &fresh);
    if (fresh.failed)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the new lines of '%s'", path);
    if (count == 0)
        return KILN_E_OK;
    rc = make_file(buffer_view(&fresh), &fd, err);
    if (!rc)
        rc = send_records(h, name, path, fd, ret_answer, err);
    if (!*ret_answer)
        return rc;
    struct kiln_error why = { 0 };
    int noted = overlay_lines_add_all(&file->lines, buffer_view(&fresh), &why);
    if (!rc && noted)
        *err = why;
    return rc ? rc : noted;
}

/* All of a database that changed: kilnd leaves what it has as it is. */
static int send_database(struct harvest *h, const char *name, const char *path,
                         struct json **ret_answer, struct kiln_error *err)
{
    char note[DB_NOTE_MAX] = "";
    KILN_AUTO(fd) int fd = -1;
    int rc = db_file_open(path, &fd, note, err);
    if (!rc)
        rc = send_records(h, name, path, fd, ret_answer, err);
    return rc || !*note ? rc : cli_fail(err, KILN_E_CORRUPT, "'%.200s': %.500s", path, note);
}

/* ---- kernels ---- */

static int send_kernels(struct harvest *h, const char *name, const char *path,
                        const struct snapshot *snapshot, struct json **ret_answer,
                        struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    struct call_progress progress;
    json_set_text(ask, "name", new_file_name(name));
    json_set_text(ask, "source", path);
    if (*h->notes.version)
        json_set_text(ask, "version", h->notes.version);
    call_progress_init(&progress, new_file_name(name));
    const struct admin_call call = { .request = "kernel_import",
                                     .arguments = ask,
                                     .file = snapshot->fd,
                                     .second_file = -1,
                                     .progress = &progress };
    return admin_call(h->invocation, &call, ret_answer, err);
}

static int send_cache(struct harvest *h, const char *name, const char *path,
                      struct json **ret_answer, struct kiln_error *err)
{
    struct snapshot snapshot;
    char count[DB_WHO_MAX];
    int rc = snapshot_open(path, &snapshot, err);
    if (rc)
        return rc;
    rc = send_kernels(h, name, path, &snapshot, ret_answer, err);
    close(snapshot.fd);
    if (rc)
        return cli_while(err, "%.200s", path);
    uint64_t imported = json_get_u64(*ret_answer, "imported", 0);
    uint64_t damaged =
        json_get_u64(*ret_answer, "damaged", 0) + json_get_u64(*ret_answer, "lost", 0);
    if (!h->invocation->common->json)
        db_say("%.900s: %s", path, db_count(imported, "kernel", count));
    if (damaged == 0 && !json_get_bool(*ret_answer, "lost_at_least", false) && !*snapshot.note)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_CORRUPT,
                    "'%.200s': %llu kernels taken, some are damaged or lost%s%.300s", path,
                    (unsigned long long)imported, *snapshot.note ? "; " : "", snapshot.note);
}

/* ---- the directory ---- */

typedef int take_fn(struct harvest *h, const char *name, const char *path, struct json **ret_answer,
                    struct kiln_error *err);

/* NULL: none of MIOpen's files. */
static take_fn *taker_of(const char *part, const char *name)
{
    struct db_file_name parsed;
    const char *ending = strrchr(name, '.');
    if (strcmp(part, "cache") == 0)
        return ending && strcmp(ending, ".ukdb") == 0 ? send_cache : NULL;
    if (!db_file_name(name, &parsed) || !parsed.is_miopens || strstr(name, ".bz2"))
        return NULL;
    return parsed.is_sqlite ? send_database : send_new_lines;
}

/* As it was written or harvested last.  The lines of text tell by themselves. */
static int is_unchanged(const struct overlay_file *file, const char *path, take_fn *taker,
                        struct overlay_stamp *now, bool *ret_unchanged, struct kiln_error *err)
{
    *ret_unchanged = file && overlay_stamp_same(&file->stamp, now);
    if (taker == send_new_lines)
        return KILN_E_OK;
    if (*ret_unchanged) {
        memcpy(now->digest, file->stamp.digest, sizeof(now->digest));
        return KILN_E_OK;
    }
    int rc = overlay_stamp_read(path, now, err);
    *ret_unchanged = !rc && file && overlay_stamp_same_content(&file->stamp, now);
    return rc;
}

static void say_unchanged(struct harvest *h, const char *name, const char *path)
{
    json_append(h->unchanged, json_text(name));
    if (!h->invocation->common->json)
        db_say("%.900s: unchanged", path);
}

static int note_stamp(struct harvest *h, const char *name, const struct overlay_stamp *now,
                      struct kiln_error *err)
{
    struct overlay_file *file = NULL;
    int rc = overlay_notes_get(&h->notes, name, &file, err);
    if (!rc)
        file->stamp = *now;
    return rc;
}

/* |ret_answer| stays NULL where there was nothing to take. */
static int take_changed(struct harvest *h, const char *name, const char *path, take_fn *taker,
                        struct json **ret_answer, struct kiln_error *err)
{
    struct overlay_stamp now;
    bool unchanged = false;
    /* Looked at before it is read: what is written meanwhile is another change. */
    int rc = overlay_stamp_look(path, &now, err);
    if (!rc)
        rc = is_unchanged(overlay_notes_find(&h->notes, name), path, taker, &now, &unchanged, err);
    if (rc)
        return rc;
    if (unchanged)
        say_unchanged(h, name, path);
    else
        rc = taker(h, name, path, ret_answer, err);
    if (rc && !*ret_answer)
        return rc;
    struct kiln_error why = { 0 };
    int noted = note_stamp(h, name, &now, &why);
    if (!rc && noted)
        *err = why;
    return rc ? rc : noted;
}

static void harvest_file(struct harvest *h, const char *name, take_fn *taker)
{
    char path[PATH_MAX];
    struct json *answer = NULL;
    struct kiln_error why = { 0 };
    int rc = overlay_path(h->directory, name, path, sizeof(path), &why);
    if (!rc)
        rc = take_changed(h, name, path, taker, &answer, &why);
    several_note(&h->several, path, rc, &why);
    if (!answer)
        return;
    json_set_text(answer, "file", name);
    json_append(h->files, answer);
}

static void harvest_part(struct harvest *h, const char *part)
{
    char directory[PATH_MAX], name[160];
    struct kiln_error why = { 0 };
    DIR *open = overlay_path(h->directory, part, directory, sizeof(directory), &why)
                    ? NULL
                    : opendir(directory);
    if (!open) {
        int rc = why.code ? why.code : cli_fail_errno(&why, errno, "cannot read '%s'", directory);
        several_note(&h->several, directory, rc, &why);
        return;
    }
    for (struct dirent *e = readdir(open); e && !h->several.over; e = readdir(open)) {
        take_fn *taker = taker_of(part, e->d_name);
        if (taker && snprintf(name, sizeof(name), "%s/%s", part, e->d_name) < (int)sizeof(name))
            harvest_file(h, name, taker);
    }
    closedir(open);
}

static int harvest_parts(struct harvest *h, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    h->files = json_array();
    json_set(json, "files", h->files);
    h->unchanged = json_array();
    json_set(json, "unchanged", h->unchanged);
    harvest_part(h, "user");
    if (!h->several.over)
        harvest_part(h, "cache");
    struct kiln_error why = { 0 };
    int rc = overlay_notes_write(h->directory, &h->notes, &why);
    if (rc)
        several_note(&h->several, h->directory, rc, &why);
    if (!h->invocation->common->json && json_count(h->files) == 0 && !h->several.first.code)
        db_say("%.900s: nothing new", h->directory);
    return several_end(&h->several, json, err);
}

static int run_miopen_harvest(const struct invocation *invocation, struct kiln_error *err)
{
    struct harvest h = { .invocation = invocation, .directory = invocation->words[0] };
    KILN_AUTO(fd) int lock = -1;
    int rc = overlay_lock(h.directory, &lock, err);
    if (!rc)
        rc = overlay_notes_read(h.directory, &h.notes, err);
    if (rc == KILN_E_NOT_FOUND)
        return cli_fail(err, rc,
                        "there is no overlay in '%.300s'; 'kilnctl miopen overlay' makes one",
                        h.directory);
    if (rc)
        return rc;
    several_init(&h.several, invocation, "file");
    rc = harvest_parts(&h, err);
    several_release(&h.several);
    overlay_notes_done(&h.notes);
    return rc;
}

const struct command command_miopen_harvest = {
    .name = "miopen harvest",
    .words = "FOLDER",
    .summary = "take back what a job found and compiled in an overlay",
    .help =
        "Takes from FOLDER, which 'miopen overlay' made, what MIOpen put there since: FindDb and "
        "PerfDb\n"
        "records into your own tier, by statistics as 'db merge' does, and kernels into the "
        "store.  What\n"
        "was harvested once is not taken again, and a database that did not change is not sent; "
        "while the\n"
        "job runs, it takes what there is so far.",
    .least_words = 1,
    .most_words = 1,
    .run = run_miopen_harvest,
};
