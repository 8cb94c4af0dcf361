/* SPDX-License-Identifier: MIT */
#include "engine/miopen/names/tuning_file_name.h"

#include "common/target/target.h"
#include "engine/miopen/names/miopen_files.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static bool is_tuning_file(const struct miopen_file *file)
{
    return file->content == MIOPEN_FIND || file->content == MIOPEN_PERF_TEXT ||
           file->content == MIOPEN_PERF_SQLITE;
}

static bool copy_word(struct bytes text, char *to, size_t capacity)
{
    if (text.size >= capacity)
        return false;
    if (text.size > 0)
        memcpy(to, text.data, text.size);
    to[text.size] = '\0';
    return true;
}

/* Sets the backend of |n|. Fusion and batch normalisation have databases of their own, which kiln
 * distinguishes by the backend: "HIP.fusion", "batchnorm". */
static bool set_backend(const struct miopen_file *file, struct bytes backend,
                        struct tuning_file_name *n)
{
    if (n->kind == TUNING_PERF)
        return copy_word(bytes_of_text(file->part), n->backend, sizeof(n->backend));
    if (!target_is_backend(backend))
        return false;
    int size = snprintf(n->backend, sizeof(n->backend), "%.*s%s%s", (int)backend.size,
                        (const char *)backend.data, *file->part ? "." : "", file->part);
    return size < (int)sizeof(n->backend);
}

static enum kiln_code refuse_name(const char *name, const char *why, struct kiln_err *err)
{
    char shown[121];
    size_t size = 0;
    for (; size < sizeof(shown) - 1 && name[size]; size++)
        shown[size] = (char)(name[size] < ' ' || name[size] > '~' ? '?' : name[size]);
    shown[size] = '\0';
    return kiln_fail(err, KILN_INVALID, "'%s' is not the name of a tuning file: %s", shown, why);
}

static enum kiln_code refuse_form(const char *name, enum miopen_content content,
                                  struct kiln_err *err)
{
    return refuse_name(
        name,
        content == MIOPEN_FIND
            ? "before the ending, it needs a database id, a backend (HIP, CUDA or OpenCL) and, if "
              "it is a user file, a version: gfx906_60.HIP.2_17_0_a82233c22.ufdb.txt"
            : "before the ending, it needs a database id and, if it is a user file, a version: "
              "gfx906_60_1.1.0.udb, gfx90a68.HIP.3_2_0_36bb7fd4a.udb.txt",
        err);
}

static enum kiln_code check_backend(const struct tuning_file_name *n, struct kiln_err *err)
{
    return n->kind == TUNING_FIND ? database_id_backend_check(bytes_of_text(n->database_id),
                                                              bytes_of_text(n->backend), err)
                                  : KILN_OK;
}

static enum kiln_code read_words(const char *name, const struct miopen_file *file,
                                 const struct miopen_words *words, struct tuning_file_name *n,
                                 struct kiln_err *err)
{
    struct database_id id;
    struct kiln_err why = KILN_ERR_INIT;
    n->kind = file->content == MIOPEN_FIND ? TUNING_FIND : TUNING_PERF;
    n->format = file->content == MIOPEN_PERF_SQLITE ? TUNING_SQLITE : TUNING_TEXT;
    n->is_user = file->place == MIOPEN_USER;
    if (!set_backend(file, words->backend, n) ||
        !copy_word(words->version, n->version, sizeof(n->version)))
        return refuse_form(name, file->content, err);
    if (database_id_parse(words->id, &id, &why) || !database_id_write(&id, n->database_id))
        return refuse_name(name,
                           "it does not begin with a database id like gfx906_60, gfx90a68, "
                           "sm_90_132 or opencl_1a2b3c4d; give the id with --db-id",
                           err);
    return check_backend(n, &why) ? refuse_name(name, why.text, err) : KILN_OK;
}

static enum kiln_code refuse_unknown(const char *name, struct bytes stem, struct kiln_err *err)
{
    for (size_t i = 0; i < miopen_file_count; i++)
        if (is_tuning_file(&miopen_files[i]) && miopen_file_has_ending(&miopen_files[i], stem))
            return refuse_form(name, miopen_files[i].content, err);
    return refuse_name(
        name,
        "its ending is not one of .fdb.txt, .ufdb.txt, .db, .udb, .db.txt, .udb.txt, "
        ".cd.pdb.txt and .cd.updb.txt, with or without .bz2",
        err);
}

bool tuning_file_name_is_miopens(const struct tuning_file_name *name)
{
    struct database_id id;
    struct kiln_err ignored = KILN_ERR_INIT;
    return database_id_parse(bytes_of_text(name->database_id), &id, &ignored) == KILN_OK &&
           database_id_is_miopens(&id);
}

enum kiln_code tuning_file_name_parse(const char *name, struct tuning_file_name *ret_name,
                                      struct kiln_err *err)
{
    struct tuning_file_name n = { .kind = TUNING_FIND };
    struct bytes stem = bytes_of_text(name);
    struct miopen_words words;
    if (strchr(name, '/'))
        return refuse_name(name, "it is a path", err);
    if (stem.size > 4 && memcmp(stem.data + stem.size - 4, ".bz2", 4) == 0)
        stem.size -= 4;
    for (size_t i = 0; i < miopen_file_count; i++) {
        const struct miopen_file *file = &miopen_files[i];
        if (!is_tuning_file(file) || !miopen_file_matches(file, stem, &words))
            continue;
        enum kiln_code rc = read_words(name, file, &words, &n, err);
        if (!rc)
            *ret_name = n;
        return rc;
    }
    return refuse_unknown(name, stem, err);
}

static bool is_for(const struct miopen_file *file, const struct tuning_file_name *name,
                   const char *part)
{
    enum miopen_content content = name->kind == TUNING_FIND       ? MIOPEN_FIND
                                  : name->format == TUNING_SQLITE ? MIOPEN_PERF_SQLITE
                                                                  : MIOPEN_PERF_TEXT;
    bool has_schema = strstr(file->name, "SCHEMA"), has_version = strstr(file->name, "VERSION");
    bool is_schema = strchr(name->version, '.');
    unsigned release = miopen_release(name->version);
    return file->content == content && (file->place == MIOPEN_USER) == name->is_user &&
           strcmp(file->part, part) == 0 && has_schema == (name->is_user && is_schema) &&
           has_version == (name->is_user && name->version[0] && !is_schema) &&
           (!has_version || miopen_file_is_of(file, release ? release : UINT_MAX));
}

void tuning_file_name_write(const struct tuning_file_name *name, char text[128])
{
    const char *dot = strchr(name->backend, '.');
    const char *part = name->kind == TUNING_PERF ? name->backend : dot ? dot + 1 : "";
    struct bytes id = bytes_of_text(name->database_id);
    struct bytes backend = name->kind == TUNING_PERF
                               ? bytes_of_text(database_id_backend(id))
                               : bytes_of(name->backend, strcspn(name->backend, "."));
    const struct miopen_words words = { id, backend, bytes_of_text(name->version) };
    text[0] = '\0';
    for (size_t i = 0; i < miopen_file_count && !text[0]; i++)
        if (is_for(&miopen_files[i], name, part))
            miopen_file_write(&miopen_files[i], &words, text);
}
