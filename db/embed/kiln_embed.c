/* SPDX-License-Identifier: MIT */

/*
 * kiln-embed: a build tool that prepares the data for an embedded program.
 *
 *   index NAME FILE OUT     converts MIOpen's FindDb or PerfDb into the index that kilnd would
 *                           create (docs/formats/tuning-index.md).  NAME is the file's name in
 *                           MIOpen.  FILE may be compressed with bzip2, as for package
 *   package FILE OUT        converts a package into one file that needs no other file
 *   id TARGET               prints the database id of the OpenCL device with that target
 *   table OUT NAME:FILE...  writes C source with the bytes and the SHA-256 of all items
 *   report NAME:FILE...     prints the number of bytes by device and kind
 *
 * If a file FILE.name exists, the item's name is read from it.
 */
#include "common/miopen/device_database_id.h"
#include "common/base/fs.h"
#include "common/target/target.h"
#include "engine/data/engine_data.h"
#include "engine/codec/bzip2.h"
#include "engine/db/snapshot.h"
#include "engine/package/package.h"
#include "engine/package/package_file.h"
#include "engine/tuning/tuning.h"
#include "engine/tuning/tuning_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define UNPACKED_MAX (4ull << 30)
#define PATH_LENGTH_MAX 4096

static enum kiln_code unpack_file(const char *from, const char *to, struct kiln_err *err)
{
    KILN_AUTO(fd) int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", from);
    KILN_AUTO(fd) int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (out < 0)
        return kiln_fail_errno(err, errno, "cannot write '%s'", to);
    enum kiln_code rc = bzip2_unpack_file(in, out, UNPACKED_MAX, NULL, err);
    return rc ? kiln_while(err, "unpacking '%s'", from) : KILN_OK;
}

static enum kiln_code get_unpacked(const char *file, const char *directory,
                                   char path[PATH_LENGTH_MAX], struct kiln_err *err)
{
    bool packed = text_ends_with(file, ".bz2");
    int size = packed ? snprintf(path, PATH_LENGTH_MAX, "%s/plain", directory)
                      : snprintf(path, PATH_LENGTH_MAX, "%s", file);
    if (size < 0 || size >= PATH_LENGTH_MAX)
        return kiln_fail(err, KILN_INVALID, "the path '%.200s...' is too long", file);
    return packed ? unpack_file(file, path, err) : KILN_OK;
}

static enum kiln_code move_file(const char *from, const char *to, struct kiln_err *err)
{
    if (rename(from, to) == 0)
        return KILN_OK;
    return kiln_fail_errno(err, errno, "cannot move '%s' to '%s'", from, to);
}

#define NAME_LENGTH_MAX 256

static enum kiln_code read_name(const char *file, char name[NAME_LENGTH_MAX], struct kiln_err *err)
{
    char path[PATH_LENGTH_MAX + 8];
    snprintf(path, sizeof(path), "%s.name", file);
    FILE *stream = fopen(path, "re");
    if (!stream)
        return KILN_OK;
    bool is_read = fscanf(stream, "%255[a-z0-9_.]", name) == 1;
    fclose(stream);
    return is_read
               ? KILN_OK
               : kiln_fail(err, KILN_INVALID, "'%s' does not contain the name of a package", path);
}

struct import_notes {
    uint64_t bad;
    uint64_t first; /* number of the first one */
    char why[256]; /* reason for the first one */
};

static void on_bad_line(void *context, uint64_t line, const char *why)
{
    struct import_notes *notes = context;
    if (notes->bad++ > 0)
        return;
    notes->first = line;
    snprintf(notes->why, sizeof(notes->why), "%s", why);
}

/* Fails if there are bad lines, because nobody would see a report about them in built-in data. */
static enum kiln_code refuse_bad_lines(const struct import_notes *notes, const char *name,
                                       struct kiln_err *err)
{
    if (notes->bad == 0)
        return KILN_OK;
    return kiln_fail(err, KILN_CORRUPT, "%s, line %" PRIu64 ": %s (%" PRIu64 " bad lines in total)",
                     name, notes->first, notes->why, notes->bad);
}

static enum kiln_code run_import(struct tuning *tuning, const struct tuning_import *import,
                                 struct kiln_err *err)
{
    KILN_AUTO(tuning_job) struct tuning_job *job = NULL;
    struct import_notes notes = { .bad = 0 };
    const struct tuning_job_events events = { .bad = on_bad_line, .context = &notes };
    enum kiln_code rc = tuning_job_import(tuning, import, &job, err);
    bool has_more = true;
    while (!rc && has_more) {
        rc = tuning_job_work(job, &events, err);
        if (!rc)
            rc = refuse_bad_lines(&notes, import->source_name, err);
        while (!rc && !tuning_job_take(tuning, job)) {
        }
        has_more = !rc && tuning_job_has_more(job);
    }
    return rc;
}

struct found_index {
    char file[256];
};

static bool note_index(void *context, const struct tuning_system *system)
{
    struct found_index *found = context;
    snprintf(found->file, sizeof(found->file), "%s", system->file->index_file);
    return false;
}

static enum kiln_code import_into(const char *directory, const char *name, const char *path,
                                  char ret_index[PATH_LENGTH_MAX], struct kiln_err *err)
{
    KILN_AUTO(tuning) struct tuning *tuning = NULL;
    const struct tuning_options options = { .directory = directory, .allow_network_fs = true };
    struct tuning_import import = {
        .path = path, .source_name = name, .tier = TUNING_TIER_SYSTEM, .library = ""
    };
    struct found_index found = { "" };
    char notice[512];
    enum kiln_code rc = tuning_file_name_parse(name, &import.name, err);
    if (!rc)
        rc = tuning_open(&options, &tuning, notice, err);
    if (!rc)
        rc = run_import(tuning, &import, err);
    if (rc)
        return rc;
    tuning_each_system(tuning, note_index, &found);
    snprintf(ret_index, PATH_LENGTH_MAX, "%s/%s", directory, found.file);
    return KILN_OK;
}

static enum kiln_code make_index(const char *directory, char **words, struct kiln_err *err)
{
    char path[PATH_LENGTH_MAX], index[PATH_LENGTH_MAX];
    enum kiln_code rc = get_unpacked(words[1], directory, path, err);
    if (!rc)
        rc = import_into(directory, words[0], path, index, err);
    if (!rc)
        rc = move_file(index, words[2], err);
    return rc ? kiln_while(err, "creating an index of '%s'", words[1]) : KILN_OK;
}

static enum kiln_code copy_file(const char *from, const char *to, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, UNPACKED_MAX);
    enum kiln_code rc = fs_read_file(from, UNPACKED_MAX, &content, err);
    return rc ? rc : fs_replace_file(to, buffer_view(&content), 0644, err);
}

static enum kiln_code check_package(const char *path, const char *name, struct kiln_err *err)
{
    KILN_AUTO(package) struct package *package = NULL;
    BUFFER_AUTO struct buffer content;
    struct package_report report;
    buffer_init(&content, UNPACKED_MAX);
    enum kiln_code rc = fs_read_file(path, UNPACKED_MAX, &content, err);
    if (rc)
        return rc;
    const unsigned long size = content.size;
    struct engine_item item = { .kind = ENGINE_ITEM_PACKAGE,
                                .name = name,
                                .bytes = content.data,
                                .size = &size,
                                .digest = sha256_of(buffer_view(&content)) };
    const struct package_options options = { .item = &item, .path = name, .readers = 1 };
    rc = package_open(&options, &package, err);
    if (!rc)
        rc = package_check(package, NULL, NULL, &report, err);
    package_destroy(package);
    package = NULL; /* destroyed before |content|, from which it borrows */
    if (!rc && report.damaged > 0)
        rc = kiln_fail(err, KILN_CORRUPT, "%" PRIu64 " of %" PRIu64 " kernels are damaged: %s",
                       report.damaged, report.rows, report.first);
    return rc;
}

/* A kernel database of MIOpen may be in WAL mode and have a write-ahead log.  The copy has no
 * log. */
static enum kiln_code make_package(const char *directory, char **words, struct kiln_err *err)
{
    char path[PATH_LENGTH_MAX], copy[PATH_LENGTH_MAX + 8];
    const char *slash = strrchr(words[1], '/');
    char name[NAME_LENGTH_MAX];
    snprintf(name, sizeof(name), "%s", slash ? slash + 1 : words[1]);
    bool is_kilns = text_ends_with(name, ".kpkg");
    enum kiln_code rc = read_name(words[1], name, err);
    if (!rc)
        rc = get_unpacked(words[0], directory, path, err);
    snprintf(copy, sizeof(copy), "%s/copy", directory);
    if (!rc && !is_kilns)
        rc = db_snapshot(path, copy, false, err);
    else if (!rc)
        rc = copy_file(path, copy, err);
    if (!rc && !is_kilns)
        rc = db_snapshot_merge(copy, err);
    if (!rc)
        rc = check_package(copy, name, err);
    if (!rc)
        rc = move_file(copy, words[1], err);
    return rc ? kiln_while(err, "converting the package '%s'", words[0]) : KILN_OK;
}

struct entry {
    char name[NAME_LENGTH_MAX];
    char path[PATH_LENGTH_MAX];
    struct digest digest;
    uint64_t size;
    const char *kind;
};

static bool is_plain_name(const char *name)
{
    return name[strspn(
               name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-")] == '\0';
}

static enum kiln_code read_entry(const char *word, struct entry *ret_entry, struct kiln_err *err)
{
    struct entry e = { .size = 0 };
    struct stat seen;
    if (sscanf(word, "%255[^:]:%4095[^\n]", e.name, e.path) != 2)
        return kiln_fail(err, KILN_INVALID, "'%s' is not of the form NAME:FILE", word);
    if (!is_plain_name(e.name) || strpbrk(e.path, "\"\\"))
        return kiln_fail(err, KILN_INVALID,
                         "'%s': a name may contain only letters, digits and \". _ -\", and a path "
                         "no quote or backslash",
                         word);
    KILN_AUTO(fd) int fd = open(e.path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", e.path);
    e.size = (uint64_t)seen.st_size;
    if (read_name(e.path, e.name, err))
        return err->code;
    e.kind = text_ends_with(e.name, ".kpkg") || text_ends_with(e.name, "kdb") ? "kernels"
             : strstr(e.name, ".fdb.txt") || strstr(e.name, ".ufdb.t")        ? "FindDb"
                                                                              : "PerfDb";
    enum kiln_code rc = sha256_of_file(fd, &e.digest, /* ret_size= */ NULL, err);
    *ret_entry = e;
    return rc;
}

static enum kiln_code open_entry(const struct entry *e, struct bytes image, struct kiln_err *err)
{
    if (strcmp(e->kind, "kernels") == 0) {
        KILN_AUTO(package) struct package *package = NULL;
        const unsigned long size = image.size;
        struct engine_item item = {
            .kind = ENGINE_ITEM_PACKAGE, .name = e->name, .bytes = image.data, .size = &size
        };
        const struct package_options options = { .item = &item, .path = e->name, .readers = 1 };
        return package_open(&options, &package, err);
    }
    KILN_AUTO(tuning_index) struct tuning_index *index = NULL;
    struct tuning_file_name name;
    enum kiln_code rc = tuning_file_name_parse(e->name, &name, err);
    if (!rc)
        rc = tuning_index_open_image(image, e->name, &index, err);
    if (!rc && tuning_index_kind(index) != name.kind)
        rc = kiln_fail(err, KILN_INVALID, "the database's kind does not match its name");
    return rc;
}

static enum kiln_code check_entry(const struct entry *e, struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(e->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", e->path);
    if (e->size == 0)
        return kiln_fail(err, KILN_INVALID, "'%s' (for %s) is empty", e->path, e->name);
    void *map = mmap(NULL, e->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot read '%s'", e->path);
    enum kiln_code rc = open_entry(e, bytes_of(map, e->size), err);
    munmap(map, e->size);
    return rc ? kiln_while(err, "checking '%s' (for %s)", e->path, e->name) : KILN_OK;
}

/* On x86-64, .lrodata may be more than 2 GiB away from the code; clang supports this from version
 * 18 on.  Elsewhere, the whole program must be within the range of its addressing. */
#if defined(__x86_64__) && defined(__LP64__) && !(defined(__clang__) && __clang_major__ < 18)
#define SECTION ".lrodata.embedded, \\\"al\\\", %%progbits"
#define ALL_MAX UINT64_MAX
#else
#define SECTION ".rodata.embedded, \\\"a\\\", %%progbits"
#define ALL_MAX (2000ull << 20)
#endif

static enum kiln_code check_sizes(const struct entry *entries, size_t count, struct kiln_err *err)
{
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++) {
        if (entries[i].size > ALL_MAX - all)
            return kiln_fail(err, KILN_FULL,
                             "with '%s', the built-in data exceeds %" PRIu64 " bytes, the "
                             "maximum for this compiler: leave out some items",
                             entries[i].name, (uint64_t)ALL_MAX);
        all += entries[i].size;
    }
    return KILN_OK;
}

static void write_entry(FILE *out, const struct entry *e, size_t number)
{
    bool is_package = strcmp(e->kind, "kernels") == 0;
    fprintf(out, "    { .kind = %s,\n      .name = \"%s\",\n",
            is_package ? "ENGINE_ITEM_PACKAGE" : "ENGINE_ITEM_TUNING", e->name);
    fprintf(out, "      .bytes = item_%zu,\n      .size = &item_%zu_size,\n", number, number);
    fprintf(out, "      .digest = { { ");
    for (size_t i = 0; i < DIGEST_SIZE; i++)
        fprintf(out, "%u, ", e->digest.bytes[i]);
    fprintf(out, "} } },\n");
}

static void write_bytes(FILE *out, const struct entry *e, size_t number)
{
    static const char text[] =
        "__asm__(\".pushsection " SECTION "\\n\"\n"
        "        \".balign 16\\nitem_%zu:\\n.incbin \\\"%s\\\"\\n\"\n"
        "        \".Lend_%zu: .byte 0\\n.balign 8\\n\"\n"
        "        \"item_%zu_size: .quad .Lend_%zu - item_%zu\\n.popsection\");\n"
        "extern const unsigned char item_%zu[];\n"
        "extern const unsigned long item_%zu_size;\n\n";
    fprintf(out, text, number, e->path, number, number, number, number, number, number);
}

static void write_source(FILE *out, const struct entry *entries, size_t count)
{
    fprintf(out, "/* Generated by kiln-embed: the data built into this program. */\n"
                 "#include \"common/protocol/embed.h\"\n#include \"engine/data/engine_data.h\"\n\n");
    for (size_t i = 0; i < count; i++)
        write_bytes(out, &entries[i], i);
    if (count > 0)
        fprintf(out, "static struct engine_item items[] = {\n");
    for (size_t i = 0; i < count; i++)
        write_entry(out, &entries[i], i);
    if (count > 0)
        fprintf(out, "};\n\n");
    fprintf(out, "const struct engine_data kiln_built_in = { .items = %s, .count = %zu };\n",
            count > 0 ? "items" : "NULL", count);
}

static void print_report(const struct entry *entries, size_t count)
{
    uint64_t total = 0;
    printf("%-24s %-8s %12s\n", "built in for", "kind", "bytes");
    for (size_t i = 0; i < count; i++) {
        printf("%-24.*s %-8s %12" PRIu64 "\n", (int)strcspn(entries[i].name, "."), entries[i].name,
               entries[i].kind, entries[i].size);
        total += entries[i].size;
    }
    printf("%-24s %-8s %12" PRIu64 "\n", "all", "", total);
}

static enum kiln_code write_table(const char *path, const struct entry *entries, size_t count,
                                  struct kiln_err *err)
{
    FILE *out = fopen(path, "we");
    if (!out)
        return kiln_fail_errno(err, errno, "cannot write '%s'", path);
    write_source(out, entries, count);
    if (fclose(out) != 0)
        return kiln_fail_errno(err, errno, "cannot write '%s'", path);
    return KILN_OK;
}

static enum kiln_code list_items(const char *path, char **words, size_t count, struct kiln_err *err)
{
    KILN_AUTO(mem) struct entry *entries = calloc(count + 1, sizeof(*entries));
    if (!entries)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot write the table: out of memory");
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; !rc && i < count; i++)
        rc = read_entry(words[i], &entries[i], err);
    if (!path) {
        if (!rc)
            print_report(entries, count);
        return rc;
    }
    for (size_t i = 0; !rc && i < count; i++)
        rc = check_entry(&entries[i], err);
    if (!rc)
        rc = check_sizes(entries, count, err);
    return rc ? rc : write_table(path, entries, count, err);
}

static enum kiln_code print_id(const char *text, struct kiln_err *err)
{
    struct target target;
    char id[DATABASE_ID_MAX];
    enum kiln_code rc = target_parse(bytes_of_text(text), &target, err);
    if (!rc && !database_id_of_device(&target, /* compute_units= */ 0, id))
        rc = kiln_fail(err, KILN_INVALID, "'%s' is too long", text);
    if (!rc)
        puts(id);
    return rc;
}

static enum kiln_code with_directory(const char *out,
                                     enum kiln_code (*make)(const char *directory, char **words,
                                                            struct kiln_err *err),
                                     char **words, struct kiln_err *err)
{
    char directory[PATH_LENGTH_MAX];
    int size = snprintf(directory, sizeof(directory), "%s.XXXXXX", out);
    if (size < 0 || (size_t)size >= sizeof(directory) || !mkdtemp(directory))
        return kiln_fail_errno(err, errno, "cannot create a temporary directory for '%s'", out);
    enum kiln_code rc = make(directory, words, err);
    fs_remove_tree(AT_FDCWD, directory);
    return rc;
}

int main(int argc, char **argv)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = KILN_INVALID;
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "index") == 0 && argc == 5)
        rc = with_directory(argv[4], make_index, &argv[2], &err);
    else if (strcmp(what, "package") == 0 && argc == 4)
        rc = with_directory(argv[3], make_package, &argv[2], &err);
    else if (strcmp(what, "table") == 0 && argc > 2)
        rc = list_items(argv[2], &argv[3], (size_t)argc - 3, &err);
    else if (strcmp(what, "report") == 0)
        rc = list_items(NULL, &argv[2], (size_t)argc - 2, &err);
    else if (strcmp(what, "id") == 0 && argc == 3)
        rc = print_id(argv[2], &err);
    else
        kiln_fail(
            &err, rc,
            "usage: kiln-embed index NAME FILE OUT | package FILE OUT | id TARGET | table OUT "
            "NAME:FILE... | report NAME:FILE...");
    if (rc)
        fprintf(stderr, "kiln-embed: %s\n", err.text);
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
