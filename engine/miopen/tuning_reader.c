/* SPDX-License-Identifier: MIT */
#include "engine/miopen/tuning_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct tuning_reader { /* has either |text| or |perf|; neither for an empty text file */
    struct bytes map;
    struct tuning_text_reader *text;
    struct perf_db_reader *perf;
};

void tuning_reader_destroy(struct tuning_reader *reader)
{
    if (!reader)
        return;
    tuning_text_reader_destroy(reader->text);
    perf_db_reader_destroy(reader->perf);
    if (reader->map.data)
        munmap((void *)(uintptr_t)reader->map.data, reader->map.size);
    free(reader);
}

uint64_t tuning_reader_bytes(const struct tuning_reader *reader)
{
    if (!reader)
        return 0;
    uint64_t bytes = reader->map.size;
    bytes += reader->text ? tuning_text_reader_bytes(reader->text) : 0;
    return bytes + (reader->perf ? perf_db_reader_bytes(reader->perf) : 0);
}

static enum kiln_code map_file(const char *path, struct bytes *ret_map, struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat seen;
    if (fd < 0 || fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot open it");
    if (seen.st_size == 0)
        return KILN_OK;
    size_t size = (size_t)seen.st_size;
    void *map =
        /* Cannot raise SIGBUS, because no other process can truncate the file. */
        mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot map it");
    (void)madvise(map, size, MADV_SEQUENTIAL);
    *ret_map = bytes_of(map, size);
    return KILN_OK;
}

enum kiln_code tuning_reader_open(const char *path, enum tuning_kind kind,
                                  enum tuning_format format, struct tuning_reader **ret_reader,
                                  struct kiln_err *err)
{
    KILN_AUTO(tuning_reader) struct tuning_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read a tuning file");
    enum kiln_code rc = format == TUNING_TEXT ? map_file(path, &reader->map, err)
                                              : perf_db_reader_open(path, &reader->perf, err);
    if (!rc && reader->map.size > 0)
        rc = tuning_text_reader_create(kind, reader->map, &reader->text, err);
    if (!rc)
        *ret_reader = KILN_TAKE(reader);
    return rc;
}

enum kiln_code tuning_reader_step(struct tuning_reader *reader,
                                  const struct tuning_reader_events *events, uint64_t end_ns,
                                  bool *ret_more, struct kiln_err *err)
{
    *ret_more = false;
    if (reader->text)
        return tuning_text_reader_step(reader->text, events, end_ns, ret_more, err);
    return reader->perf ? perf_db_reader_step(reader->perf, events, end_ns, ret_more, err)
                        : KILN_OK;
}
