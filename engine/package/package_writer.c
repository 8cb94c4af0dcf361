/* SPDX-License-Identifier: MIT */
#include "engine/package/package_writer.h"

#include "common/protocol/limits.h"
#include "engine/miopen/kern_db.h"
#include "engine/package/kpkg_writer.h"

#include <string.h>

/* Maximum lengths of a kernel's name and arguments. MIOpen's have less than 2200 bytes. In kiln's
 * packages, a name contains a program's name, and arguments contain the options. */
#define NAME_LENGTH_MAX 4096
#define ARGS_MAX (LIMIT_OPTIONS_TEXT + 4096)

struct package_writer {
    struct kern_db_writer *kdb;
    struct kpkg_writer *kpkg;
    struct buffer name, args;
};

enum kiln_code package_writer_create(const char *path, enum package_format format,
                                     struct package_writer **ret_writer, struct kiln_err *err)
{
    KILN_AUTO(package_writer) struct package_writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to write '%s'", path);
    buffer_init(&writer->name, NAME_LENGTH_MAX);
    buffer_init(&writer->args, ARGS_MAX);
    enum kiln_code rc = format == PACKAGE_KDB ? kern_db_create(path, &writer->kdb, err)
                                              : kpkg_writer_create(path, &writer->kpkg, err);
    if (!rc)
        *ret_writer = KILN_TAKE(writer);
    return rc;
}

void package_writer_destroy(struct package_writer *writer)
{
    if (!writer)
        return;
    kern_db_writer_destroy(writer->kdb);
    kpkg_writer_destroy(writer->kpkg);
    buffer_done(&writer->name);
    buffer_done(&writer->args);
    free(writer);
}

static bool has_nul(struct bytes text) { return text.size && memchr(text.data, '\0', text.size); }

static enum kiln_code check_entry(const struct package_entry *entry, struct kiln_err *err)
{
    if (entry->name.size == 0 || entry->name.size > NAME_LENGTH_MAX || entry->args.size > ARGS_MAX)
        return kiln_fail(err, KILN_INVALID,
                         "a kernel's name has 1 to %u bytes and its arguments at most %u, not %zu "
                         "and %zu",
                         NAME_LENGTH_MAX, ARGS_MAX, entry->name.size, entry->args.size);
    if (entry->raw.size == 0 || entry->raw.size > LIMIT_CODE_OBJECT)
        return kiln_fail(err, KILN_INVALID, "a code object has 1 to %u bytes, not %zu",
                         LIMIT_CODE_OBJECT, entry->raw.size);
    const struct bytes texts[] = { entry->name,      entry->args,    entry->target,
                                   entry->toolchain, entry->program, entry->options };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (has_nul(texts[i]))
            return kiln_fail(err, KILN_INVALID, "one of its texts contains a NUL");
    }
    return KILN_OK;
}

static enum kiln_code check_order(const struct package_writer *writer,
                                  const struct package_entry *entry, struct kiln_err *err)
{
    int order = bytes_compare(buffer_view(&writer->name), entry->name);
    if (order == 0)
        order = bytes_compare(buffer_view(&writer->args), entry->args);
    if (order == 0)
        return kiln_fail(err, KILN_INVALID, "it was added before");
    return order < 0 ? KILN_OK
                     : kiln_fail(err, KILN_INVALID, "entries are not in the order of their names");
}

static void copy_text(struct buffer *text, struct bytes value)
{
    text->size = 0;
    buffer_put(text, value.data, value.size);
}

enum kiln_code package_writer_add(struct package_writer *writer, const struct package_entry *entry,
                                  struct kiln_err *err)
{
    enum kiln_code rc = check_entry(entry, err);
    if (!rc)
        rc = check_order(writer, entry, err);
    if (!rc && writer->kdb)
        rc = kern_db_writer_add(writer->kdb, entry->name, entry->args, entry->raw, err);
    else if (!rc)
        rc = kpkg_writer_add(writer->kpkg, entry, err);
    copy_text(&writer->name, entry->name);
    copy_text(&writer->args, entry->args);
    if (!rc && (writer->name.failed || writer->args.failed))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory to write packages");
    int shown = entry->name.size > 120 ? 120 : (int)entry->name.size;
    return rc ? kiln_while(err, "packing '%.*s'", shown, (const char *)entry->name.data) : KILN_OK;
}

enum kiln_code package_writer_finish(struct package_writer *writer, struct kiln_err *err)
{
    return writer->kdb ? kern_db_writer_finish(writer->kdb, err)
                       : kpkg_writer_finish(writer->kpkg, err);
}
