/* SPDX-License-Identifier: MIT */
/* Tests kilnd with a hostile compiler process, which sends hello, results, files and a sandbox
 * report. Also tests the compiler's reader of the job message. */
#include "tests/fuzz/fuzz.h"

#include "common/base/fs.h"
#include "engine/compile/toolchain.h"
#include "engine/compile/worker_packet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void check_packet(struct bytes packet)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum worker_message message;
    struct worker_result collected;
    int ends[2];
    fuzz_expect(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "a socket pair");
    if (send(ends[0], packet.data, packet.size, 0) >= 0 &&
        worker_receive(ends[1], &message, &collected, &err) == KILN_OK) {
        fuzz_expect(message == WORKER_READY || message == WORKER_RESULT, "a message there is");
        fuzz_expect(memchr(collected.text, '\0', sizeof(collected.text)), "its text is terminated");
    }
    close(ends[0]);
    close(ends[1]);
}

static void check_files(struct bytes part)
{
    struct reader r = reader_of(part);
    struct worker_result collected = { .end = (enum compile_end)(reader_u8(&r) % 8u) };
    unsigned how = reader_u8(&r);
    struct bytes object = fuzz_part(&r);
    struct worker_files files = { .object_fd = fuzz_memfd(object, how & 1),
                                  .log_fd = fuzz_memfd(fuzz_rest(&r), how & 2) };
    struct compile_result result = COMPILE_RESULT_INIT;
    worker_collect(&files, collected.end, "it ended", how & 4 ? NULL : &collected, &result);
    fuzz_expect((result.end == COMPILE_DONE) == (result.object_fd >= 0),
                "an object where it ended well, and only there");
    fuzz_expect(result.object_fd < 0 || fs_is_sealed(result.object_fd), "a sealed one");
    fuzz_expect(!result.log || strlen(result.log) <= LIMIT_COMPILE_LOG, "a log within its limit");
    compile_result_done(&result);
}

static void check_description(struct bytes json)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(toolchain_table) struct toolchain_table *table = NULL;
    const struct toolchain *chosen;
    struct target target;
    fuzz_expect(toolchain_table_create(&table, &err) == KILN_OK, "a table");
    (void)!toolchain_table_describe(table, json, &err);
    fuzz_expect(toolchain_table_count(table) <= TOOLCHAINS_MAX, "as many as there may be");
    fuzz_expect(target_parse(bytes_of_text("gfx90a"), &target, &err) == KILN_OK, "a target");
    while (toolchain_choose(table, &target, (struct bytes){ 0 }, &chosen, &err) == KILN_BUSY)
        toolchain_probe_learn(table, chosen, &target, PROBE_FAILS, "it does not");
}

static void check_job(struct bytes part)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct compile_job job;
    if (worker_job_read(part, &job, &err))
        return;
    BUFFER_AUTO struct buffer again;
    buffer_init(&again, part.size + 1);
    worker_job_write(&again, &job);
    fuzz_expect(bytes_equal(part, buffer_view(&again)), "a job is written as it was read");
}

static void (*const checks[])(struct bytes) = { check_packet, check_files, check_description,
                                                check_job };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader r = reader_of(bytes_of(data, size));
    unsigned which = reader_u8(&r), before = fuzz_descriptors();
    struct bytes part = fuzz_rest(&r);
    uint8_t *copy = fuzz_copy(part);
    checks[which % (sizeof(checks) / sizeof(checks[0]))](bytes_of(copy, part.size));
    free(copy);
    fuzz_expect(fuzz_descriptors() == before, "no descriptor stays open");
    return 0;
}
