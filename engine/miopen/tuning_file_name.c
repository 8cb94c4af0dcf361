/* SPDX-License-Identifier: MIT */
#include "engine/miopen/tuning_file.h"

#include <stdio.h>
#include <string.h>

/* The longer of two endings that match comes first. */
static const struct {
    const char *text;
    enum tuning_kind kind;
    enum tuning_format format;
    bool is_user;
} endings[] = {
    { ".ufdb.txt", TUNING_FIND, TUNING_TEXT, true },
    { ".fdb.txt", TUNING_FIND, TUNING_TEXT, false },
    { ".cd.updb.txt", TUNING_PERF, TUNING_TEXT, true },
    { ".cd.pdb.txt", TUNING_PERF, TUNING_TEXT, false },
    { ".udb.txt", TUNING_PERF, TUNING_TEXT, true },
    { ".db.txt", TUNING_PERF, TUNING_TEXT, false },
    { ".udb", TUNING_PERF, TUNING_SQLITE, true },
    { ".db", TUNING_PERF, TUNING_SQLITE, false },
};
#define ENDINGS (sizeof(endings) / sizeof(endings[0]))

static bool cut_ending(struct bytes *name, const char *ending)
{
    size_t size = strlen(ending);
    if (name->size <= size || memcmp(name->data + name->size - size, ending, size) != 0)
        return false;
    name->size -= size;
    return true;
}

static bool is_word(struct bytes text, size_t capacity, const char *others)
{
    if (text.size == 0 || text.size >= capacity)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i], letter = c | 0x20;
        bool usual = (letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9');
        if (!usual && (c == '\0' || !strchr(others, c)))
            return false;
    }
    return true;
}

static bool copy_word(struct bytes text, char *to, size_t capacity, const char *others)
{
    if (!is_word(text, capacity, others))
        return false;
    memcpy(to, text.data, text.size);
    to[text.size] = '\0';
    return true;
}

/* Cuts |text| at |mark|, a position in it, and returns the part after it; empty if |mark| is NULL.
 */
static struct bytes cut_after(struct bytes *text, const uint8_t *mark)
{
    if (!mark)
        return bytes_of(NULL, 0);
    struct bytes rest = bytes_of(mark + 1, text->size - (size_t)(mark - text->data) - 1);
    text->size = (size_t)(mark - text->data);
    return rest;
}

/* Parses "gfx906_60.HIP" or "gfx906_60.HIP.2_17_0_a82233c22". */
static bool read_find(struct bytes *stem, struct tuning_file_name *n)
{
    struct bytes backend = cut_after(stem, memchr(stem->data, '.', stem->size));
    if (backend.size == 0)
        return false;
    const uint8_t *dot = n->is_user ? memchr(backend.data, '.', backend.size) : NULL;
    struct bytes version = cut_after(&backend, dot);
    return target_is_backend(backend) && copy_word(backend, n->backend, sizeof(n->backend), "") &&
           (!dot || copy_word(version, n->version, sizeof(n->version), "._-"));
}

/* Parses "gfx906_60" or "gfx906_60_1.1.0". A version contains a '.', an id does not. */
static bool read_perf(struct bytes *stem, struct tuning_file_name *n)
{
    if (!n->is_user || !memchr(stem->data, '.', stem->size))
        return true;
    struct bytes version = cut_after(stem, memrchr(stem->data, '_', stem->size));
    return copy_word(version, n->version, sizeof(n->version), ".-");
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

static enum kiln_code read_stem(const char *name, struct bytes stem, struct tuning_file_name *n,
                                struct kiln_err *err)
{
    struct database_id id;
    struct kiln_err why = KILN_ERR_INIT;
    bool shaped = n->kind == TUNING_FIND ? read_find(&stem, n) : read_perf(&stem, n);
    if (!shaped)
        return refuse_name(
            name,
            n->kind == TUNING_FIND
                ? "before the ending, it needs a database id, a backend (HIP, CUDA or OpenCL) "
                  "and, if it is a user file, a version: gfx906_60.HIP.2_17_0_a82233c22.ufdb.txt"
                : "before the ending, it needs a database id and, if it is a user file, a "
                  "version: gfx906_60_1.1.0.udb",
            err);
    if (database_id_parse(stem, &id, &why) || !database_id_write(&id, n->database_id))
        return refuse_name(name,
                           "it does not begin with a database id like gfx906_60, gfx90a68, "
                           "sm_90_132 or opencl_1a2b3c4d; give the id with --db-id",
                           err);
    if (n->kind == TUNING_FIND &&
        database_id_backend_check(stem, bytes_of_text(n->backend), &why) != KILN_OK)
        return refuse_name(name, why.text, err);
    return KILN_OK;
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
    if (strchr(name, '/'))
        return refuse_name(name, "it is a path", err);
    cut_ending(&stem, ".bz2");
    size_t at = 0;
    while (at < ENDINGS && !cut_ending(&stem, endings[at].text))
        at++;
    if (at == ENDINGS)
        return refuse_name(
            name,
            "its ending is none of .fdb.txt, .ufdb.txt, .db, .udb, .db.txt, .udb.txt, "
            ".cd.pdb.txt and .cd.updb.txt, with or without .bz2",
            err);
    n.kind = endings[at].kind;
    n.format = endings[at].format;
    n.is_user = endings[at].is_user;
    enum kiln_code rc = read_stem(name, stem, &n, err);
    if (!rc)
        *ret_name = n;
    return rc;
}

void tuning_file_name_write(const struct tuning_file_name *name, char text[128])
{
    const char *user = name->is_user ? "u" : "";
    if (name->kind == TUNING_FIND)
        snprintf(text, 128, "%s.%s%s%s.%sfdb.txt", name->database_id, name->backend,
                 name->version[0] ? "." : "", name->version, user);
    else
        snprintf(text, 128, "%s%s%s.%sdb%s", name->database_id, name->version[0] ? "_" : "",
                 name->version, user, name->format == TUNING_TEXT ? ".txt" : "");
}
