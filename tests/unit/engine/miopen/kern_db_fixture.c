/* SPDX-License-Identifier: MIT */
#include "kern_db_fixture.h"

#include "tests/support/test_data.h"
#include "tests/support/test_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void end_rows(void *fixture)
{
    struct fixture *f = fixture;
    close_db(f);
    for (size_t i = 0; i < f->count; i++) {
        free(f->rows[i].name);
        free(f->rows[i].args);
    }
    free(f->rows);
}

void open_rows(struct fixture *f)
{
    *f = (struct fixture){ .directory = test_directory() };
    snprintf(f->path, sizeof(f->path), "%s/gfx906_60.ukdb", f->directory);
    test_at_end(end_rows, f);
}

void add_row(struct fixture *f, const char *name, const char *args, size_t raw_size, bool packed)
{
    f->rows = realloc(f->rows, (f->count + 1) * sizeof(*f->rows));
    assert_non_null(f->rows);
    f->rows[f->count++] = (struct row){
        .name = strdup(name), .args = strdup(args), .raw_size = raw_size, .packed = packed
    };
}

void add_rows(struct fixture *f, size_t count)
{
    static const char *const forms[] = {
        "-Wa,-defsym,N=%zu -mcpu=gfx906",
        " -DN=%zu -mcpu=gfx906",
        "  -DN=%zu  -DTWO=1 -mcpu=gfx906 ",
        " -DTEXT='it''s \"%zu\"' -mcpu=gfx906",
        " -DN=%zu -DBIG=1",
    };
    for (size_t i = 0; i < count; i++) {
        char name[64], args[2200];
        snprintf(name, sizeof(name), "%s%zu.s.o", i % 7 ? "conv" : "it's_conv", i % 5);
        size_t form = i % 5;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        int used = snprintf(args, sizeof(args), forms[form], i / 2 * 2 + i % 2);
#pragma GCC diagnostic pop
        for (size_t k = 0; form == 4 && used < 2000; k++)
            used += snprintf(args + used, sizeof(args) - (size_t)used, " -DMLO_%zu=%zu", k, k * i);
        add_row(f, name, args, 200 + i * 37 % 900, i % 6 != 3);
    }
}

void add_genuine_rows(struct fixture *f)
{
    char path[512], name[256], *rest = NULL;
    test_data_path(GENUINE_ROWS, path);
    KILN_AUTO(mem) char *rows = shell_text(f->directory, "gzip -dc %s | tail -n +2", path);
    for (char *row = strtok_r(rows, "\n", &rest); row; row = strtok_r(NULL, "\n", &rest)) {
        unsigned long raw_size = 0;
        int args = 0;
        assert_int_equal(
            sscanf(row, "%*u\t%255[^\t]\t%*u\t%lu\t%*[^\t]\t%n", name, &raw_size, &args), 2);
        add_row(f, name, row + args, raw_size / 4, true);
    }
}

/* Makes content that compresses like machine code: repeated words with varying bits in between. */
struct buffer object_of(const struct fixture *f, size_t at)
{
    struct buffer object;
    buffer_init(&object, OBJECT_LIMIT);
    uint32_t x = (uint32_t)(at * 2654435761u + 1);
    while (object.size < f->rows[at].raw_size) {
        x = x * 1664525u + 1013904223u;
        buffer_put_u8(&object, (uint8_t)(object.size % 4 ? object.size / 64 + at : x >> 24));
    }
    return object;
}

static void put_objects(const struct fixture *f)
{
    char path[PATH_LENGTH_MAX];
    for (size_t i = 0; i < f->count; i++) {
        BUFFER_AUTO struct buffer object = object_of(f, i);
        snprintf(path, sizeof(path), "%s/objects/%zu", f->directory, i);
        test_write(path, buffer_view(&object));
    }
}

static void put_list(const struct fixture *f)
{
    FILE *list = fopen(test_path(f->directory, "rows.tsv"), "we");
    assert_non_null(list);
    for (size_t i = 0; i < f->count; i++)
        fprintf(list, "%zu\t%s\t%s\t%s\n", i, f->rows[i].name, f->rows[i].args,
                f->rows[i].packed ? "packed" : "raw");
    assert_int_equal(fclose(list), 0);
}

void write_rows(struct fixture *f, const char *pragmas, const char *index)
{
    test_setenv("PRAGMAS", pragmas);
    test_setenv("INDEX", index);
    shell(f->directory, "mkdir -p objects");
    put_objects(f);
    put_list(f);
    shell(f->directory, "%s %s %s", KILN_MAKE_KERN_DB, f->directory, f->path);
}

void open_db(struct fixture *f)
{
    close_db(f);
    must(kern_db_open(f->path, &f->db, &f->err), f->err);
}

void close_db(struct fixture *f)
{
    kern_db_destroy(f->db);
    f->db = NULL;
}

enum kiln_code find_row(struct fixture *f, size_t at, bool *ret_damaged)
{
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, OBJECT_LIMIT);
    const struct row *row = &f->rows[at];
    enum kiln_code rc = kern_db_find(
        f->db, &(struct kern_name){ bytes_of_text(row->name), bytes_of_text(row->args) }, &raw,
        ret_damaged, &f->err);
    if (rc) {
        assert_int_equal(raw.size, 0);
        return rc;
    }
    BUFFER_AUTO struct buffer expected = object_of(f, at);
    assert_int_equal(raw.size, expected.size);
    assert_memory_equal(raw.data, expected.data, raw.size);
    return KILN_OK;
}

void assert_all_found(struct fixture *f)
{
    for (size_t i = 0; i < f->count; i++) {
        bool damaged = true;
        must(find_row(f, i, &damaged), f->err);
        assert_false(damaged);
    }
}

/* Returns the index of the test's row with the name and the arguments of |row|, or |count| if
 * there is none. */
static size_t index_of(const struct fixture *f, const struct kern_row *row)
{
    for (size_t i = 0; i < f->count; i++) {
        if (bytes_equal_text(row->name, f->rows[i].name) &&
            bytes_equal_text(row->args, f->rows[i].args))
            return i;
    }
    return f->count;
}

static bool on_row(void *context, const struct kern_row *row)
{
    struct listing *l = context;
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, OBJECT_LIMIT);
    struct kiln_err err = KILN_ERR_INIT;
    assert_true(row->id > l->latest);
    l->latest = row->id;
    l->given++;
    if (kern_row_unpack(row, &raw, &err) == KILN_OK) {
        size_t at = index_of(l->f, row);
        if (at == l->f->count)
            fail_msg("a row of a name or arguments that nobody put in: '%.*s' '%.*s'",
                     (int)row->name.size, (const char *)row->name.data, (int)row->args.size,
                     (const char *)row->args.data);
        BUFFER_AUTO struct buffer expected = object_of(l->f, at);
        assert_int_equal(raw.size, expected.size);
        assert_memory_equal(raw.data, expected.data, raw.size);
        l->good++;
    }
    return l->stop_after == 0 || l->given < l->stop_after;
}

struct listing list_rows(struct fixture *f, uint64_t after, uint64_t count)
{
    struct listing l = { .f = f, .latest = after };
    const struct kern_listing rows = {
        .after = after, .count = count, .each = on_row, .context = &l
    };
    l.rc = kern_db_each(f->db, &rows, &f->err);
    return l;
}
