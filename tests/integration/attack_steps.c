/* SPDX-License-Identifier: MIT */
#include "tests/integration/attack_steps.h"

#include "tests/support/entries.h"
#include "tests/support/test_problem.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TARGET "gfx90a"
#define SOURCE "extern \"C\" __attribute__((global)) void k(float *y) { *y = N; }\n"
#define CANDIDATES 64u
#define LARGE_KERNEL 700000u

static struct raw_frame frame;

static void write_cache(struct fixture *cache, const char *name, const char *args, size_t size)
{
    open_rows(cache);
    add_row(cache, name, args, size, /* packed= */ true);
    write_rows(cache, NULL, NULL);
}

void attack_begin(struct attack_setting *a, const char *const *arguments)
{
    *a = (struct attack_setting){ .victim = -1, .attacker = -1, .admin = -1 };
    if (geteuid() != 0)
        return;
    write_cache(&a->own, SECRET_PROGRAM, SECRET_ARGS, 20000);
    write_cache(&a->forged, SECRET_PROGRAM, SECRET_ARGS, 21000);
    write_cache(&a->large, "large.cl.o", "", LARGE_KERNEL);
    daemon_process_open(&a->daemon, arguments);
    admit_all_users(&a->daemon);
}

int attack_connect(void **state)
{
    struct attack_setting *a = *state;
    if (!a->daemon.pid)
        return 0;
    a->victim = raw_greeted_as(&a->daemon, VICTIM);
    a->attacker = raw_greeted_as(&a->daemon, ATTACKER);
    a->admin = raw_greeted(&a->daemon);
    return 0;
}

int attack_disconnect(void **state)
{
    struct attack_setting *a = *state;
    fd_close(&a->victim);
    fd_close(&a->attacker);
    fd_close(&a->admin);
    return 0;
}

unsigned attack_descriptors(const struct attack_setting *a)
{
    return descriptor_count(a->daemon.pid);
}

static enum kiln_code receive_answer(int fd, char ret_text[512])
{
    char text[512];
    raw_receive_last(fd, &frame);
    raw_close_descriptors(&frame);
    enum kiln_code code = raw_refusal(&frame, text);
    if (!code && frame.header.type == MESSAGE_json)
        snprintf(text, sizeof(text), "%.*s", (int)frame.header.body_size, (const char *)frame.body);
    if (ret_text)
        memcpy(ret_text, text, sizeof(text));
    return code;
}

enum kiln_code attack_ask(int fd, enum message_type type, const char *json, char ret_text[512])
{
    raw_send_frame(fd, type, 7, bytes_of_text(json));
    return receive_answer(fd, ret_text);
}

enum kiln_code attack_ask_file(int fd, enum message_type type, const char *json, const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    raw_send_files(fd, &(struct raw_message){ type, 7, bytes_of_text(json), 1 }, &file, 1);
    close(file);
    return receive_answer(fd, NULL);
}

enum kiln_code attack_import(int fd, const struct fixture *cache)
{
    return attack_ask_file(fd, MESSAGE_kernel_import, "{\"name\":\"" CACHE_NAME "\"}", cache->path);
}

char *attack_answer(int fd, enum message_type type, const char *json, size_t *ret_size)
{
    char *all = NULL;
    size_t size = 0;
    raw_send_frame(fd, type, 7, bytes_of_text(json));
    do {
        assert_true(raw_receive(fd, &frame));
        raw_close_descriptors(&frame);
        char *longer = realloc(all, size + frame.header.body_size + 1);
        assert_non_null(longer);
        all = longer;
        memcpy(all + size, frame.body, frame.header.body_size);
        size += frame.header.body_size;
    } while (frame.header.flags & FRAME_MORE);
    all[size] = '\0';
    *ret_size = size;
    return all;
}

static struct attack_result receive_result(int fd)
{
    raw_receive_last(fd, &frame);
    raw_close_descriptors(&frame);
    struct attack_result result = { .answer_size = frame.header.body_size };
    struct reader r = reader_of(bytes_of(frame.body, frame.header.body_size));
    char text[512];
    result.code = raw_refusal(&frame, text);
    if (frame.header.type != MESSAGE_kernels)
        return result;
    struct message_kernels m = message_kernels_read(&r);
    struct reader list = reader_of(m.results);
    struct message_result o = message_result_read(&list);
    assert_false(r.failed || list.failed);
    result.tier = o.tier;
    result.size = o.size;
    result.object = o.object;
    digest_to_hex(&o.key, result.key);
    return result;
}

struct attack_result attack_fetch(int fd, const char *key)
{
    struct message_fetch m = { .inline_limit = 0 };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    assert_true(digest_from_hex(key, &m.key));
    message_fetch_write(&b, &m);
    raw_send_frame(fd, MESSAGE_fetch, 8, buffer_view(&b));
    return receive_result(fd);
}

struct attack_result attack_fetch_name(int fd, const char *name, const char *args)
{
    const struct message_fetch_name m = { .database_id = bytes_of_text(DEVICE),
                                          .name = bytes_of_text(name),
                                          .args = bytes_of_text(args) };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 1000);
    message_fetch_name_write(&b, &m);
    raw_send_frame(fd, MESSAGE_fetch_name, 8, buffer_view(&b));
    return receive_result(fd);
}

struct attack_result attack_fetch_source(int fd, unsigned number)
{
    char options[32];
    snprintf(options, sizeof(options), "-DN=%u", number);
    raw_send_source(fd, 8, TARGET, options, bytes_of_text(SOURCE));
    return receive_result(fd);
}

static uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return bits;
}

enum kiln_code attack_put(int fd, uint32_t n, unsigned tier, const char *solver, double ms)
{
    const struct message_tuning_entry entry = {
        .solver = bytes_of_text(solver),
        .algorithm = bytes_of_text("miopenConvolutionFwdAlgoDirect"),
        .samples = 9,
        .median_ms = bits_of(ms),
        .spread_ms = bits_of(ms / 100),
    };
    BUFFER_AUTO struct buffer entries, body;
    buffer_init(&entries, 1000);
    buffer_init(&body, 4000);
    message_tuning_entry_write(&entries, &entry);
    const struct message_tuning_put m = { .tier = (uint8_t)tier,
                                          .problem = test_problem(n),
                                          .database_id = bytes_of_text(DEVICE),
                                          .driver = bytes_of_text("6.2.4"),
                                          .count = 1,
                                          .entries = buffer_view(&entries) };
    message_tuning_put_write(&body, &m);
    raw_send_frame(fd, MESSAGE_tuning_put, 9, buffer_view(&body));
    return receive_answer(fd, NULL);
}

void attack_get(int fd, uint32_t n, char ret_value[256])
{
    struct problem wanted = test_problem(n);
    BUFFER_AUTO struct buffer one, body;
    buffer_init(&one, PROBLEM_WIRE_SIZE);
    buffer_init(&body, 1000);
    problem_write(&one, &wanted);
    const struct message_tuning_get m = { .database_id = bytes_of_text(DEVICE),
                                          .count = 1,
                                          .problems = buffer_view(&one) };
    message_tuning_get_write(&body, &m);
    raw_send_frame(fd, MESSAGE_tuning_get, 9, buffer_view(&body));
    assert_true(raw_receive(fd, &frame));
    assert_int_equal(frame.header.type, MESSAGE_tuned);
    struct reader r = reader_of(bytes_of(frame.body, frame.header.body_size));
    struct message_tuned tuned = message_tuned_read(&r);
    struct reader list = reader_of(tuned.answers);
    struct message_tuning_answer answer = message_tuning_answer_read(&list);
    assert_false(r.failed || list.failed);
    snprintf(ret_value, 256, "%.*s", (int)answer.value.size, (const char *)answer.value.data);
}

static struct attack_lease receive_lease(int fd)
{
    struct attack_lease lease = { .code = receive_answer(fd, NULL) };
    struct reader r = reader_of(bytes_of(frame.body, frame.header.body_size));
    if (lease.code)
        return lease;
    assert_int_equal(frame.header.type, MESSAGE_leased);
    struct message_leased m = message_leased_read(&r);
    lease.state = m.state;
    lease.id = m.lease;
    lease.first = m.first;
    lease.count = m.count;
    return lease;
}

struct attack_lease attack_lease_take(int fd, uint32_t n)
{
    const struct message_tuning_lease m = { .problem = test_problem(n),
                                            .database_id = bytes_of_text(DEVICE),
                                            .solver = bytes_of_text("SolverC"),
                                            .candidates = CANDIDATES,
                                            .flags = LEASE_SHARE };
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 1000);
    message_tuning_lease_write(&body, &m);
    raw_send_frame(fd, MESSAGE_tuning_lease, 10, buffer_view(&body));
    return receive_lease(fd);
}

struct attack_lease attack_lease_report(int fd, const struct attack_lease *held)
{
    const struct message_tuning_report m = { .lease = held->id,
                                             .first = held->first,
                                             .params = bytes_of_text("1,2"),
                                             .median_ms = bits_of(0.001),
                                             .spread_ms = bits_of(0.0001),
                                             .samples = 9 };
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 1000);
    message_tuning_report_write(&body, &m);
    raw_send_frame(fd, MESSAGE_tuning_report, 10, buffer_view(&body));
    return receive_lease(fd);
}
