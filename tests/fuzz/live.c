/* SPDX-License-Identifier: MIT */
/* Sends mutated requests to a real kilnd: fuzz_live [--rounds N] [--seconds N] [--seed N] [--from
 * N].
 *
 * Each round is one connection, whose bytes depend only on the seed and the round's number. At the
 * end, kilnd must still serve another client, must not have more descriptors or much more memory
 * than at the start, and must exit with 0. */
#include "common/base/clock.h"
#include "common/base/random.h"
#include "tests/support/entries.h"
#include "tests/support/raw_client.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define ROUNDS_STANDARD 300
/* Number of rounds before the measurement, in which kilnd opens readers and fills its pools. */
#define WARM_ROUNDS 100
#define FRAMES_MAX 8
#define BODY_MAX 4096
#define FILES_MAX 4
#define PIECE_MAX 512
#define CHECK_EVERY 64
/* While rounds run, kilnd may have this many descriptors more than at the start: descriptors that
 * it has received and not closed yet, and those of readers and compilers. */
#define DESCRIPTORS_WAITING 32
/* After all rounds, kilnd may have this many descriptors more than before, because it may be
 * replacing a compiler process. */
#define DESCRIPTORS_SLACK 4
#ifndef MEMORY_SLACK_KB
#define MEMORY_SLACK_KB 65536 /* allowed growth, because allocators keep freed memory */
#endif

static struct {
    uint64_t seed, from, rounds, seconds;
} wish = { .seed = 1, .rounds = ROUNDS_STANDARD };

struct fixture {
    struct daemon_process daemon;
    int bystander; /* a well-behaved client, which must always be served */
    uint64_t random, rounds;
    long at_start;
    long descriptors, memory;
};

static unsigned below(struct fixture *f, unsigned limit)
{
    return (unsigned)(random_next(&f->random) % limit);
}

static const struct problem problem = { .spatial_dims = 2,
                                        .n = 2,
                                        .c = 8,
                                        .k = 8,
                                        .groups = 1,
                                        .in = { 1, 8, 8 },
                                        .filter = { 1, 3, 3 },
                                        .stride = { 1, 1, 1 },
                                        .dilation = { 1, 1, 1 } };

/* No compiler supports this target, so the rounds do not compile anything and only test kilnd. */
#define NO_TARGET bytes_of_text("opencl:nowhere")

static void write_fetch(struct buffer *b)
{
    const struct message_fetch m = { .inline_limit = LIMIT_INLINE_OBJECT };
    message_fetch_write(b, &m);
}

static void write_source(struct buffer *b)
{
    const struct message_fetch_source m = { .target = NO_TARGET,
                                            .program = bytes_of_text("a.cl"),
                                            .options = bytes_of_text("-O3"),
                                            .source = bytes_of_text("kernel void a() {}") };
    message_fetch_source_write(b, &m);
}

static void write_name(struct buffer *b)
{
    const struct message_fetch_name m = { .database_id = bytes_of_text("gfx90a68"),
                                          .name = bytes_of_text("conv.s.o"),
                                          .args = bytes_of_text("-x") };
    message_fetch_name_write(b, &m);
}

static void write_batch(struct buffer *b)
{
    struct buffer items, body;
    buffer_init(&items, BODY_MAX);
    for (unsigned i = 0; i < 3; i++) {
        buffer_init(&body, BODY_MAX);
        if (i == 1)
            write_source(&body);
        else
            write_fetch(&body);
        const struct message_batch_item item = { .kind = i == 1, .request = buffer_view(&body) };
        message_batch_item_write(&items, &item);
        buffer_done(&body);
    }
    const struct message_batch m = { .count = 3, .items = buffer_view(&items) };
    message_batch_write(b, &m);
    buffer_done(&items);
}

static void write_plan(struct buffer *b)
{
    const struct message_plan m = { .problem = problem, .target = NO_TARGET };
    message_plan_write(b, &m);
}

static void write_solutions(struct buffer *b)
{
    const struct message_solutions m = { .problem = problem,
                                         .target = bytes_of_text("gfx90a"),
                                         .database_id = bytes_of_text("gfx90a68") };
    message_solutions_write(b, &m);
}

static void write_configs(struct buffer *b)
{
    const struct message_configs m = { .problem = problem,
                                       .target = bytes_of_text("gfx90a"),
                                       .solver = bytes_of_text("ConvImplicitGemm"),
                                       .count = 16 };
    message_configs_write(b, &m);
}

static void write_tuning_get(struct buffer *b)
{
    struct buffer problems;
    buffer_init(&problems, BODY_MAX);
    problem_write(&problems, &problem);
    const struct message_tuning_get m = { .flags = TUNING_NEAREST | TUNING_MEASUREMENTS,
                                          .database_id = bytes_of_text("gfx90a68"),
                                          .count = 1,
                                          .problems = buffer_view(&problems) };
    message_tuning_get_write(b, &m);
    buffer_done(&problems);
}

static void write_tuning_put(struct buffer *b)
{
    struct buffer entries;
    buffer_init(&entries, BODY_MAX);
    const struct message_tuning_entry entry = { .solver = bytes_of_text("ConvA"),
                                                .algorithm =
                                                    bytes_of_text("miopenConvolutionFwdAlgoDirect"),
                                                .samples = 1 };
    message_tuning_entry_write(&entries, &entry);
    const struct message_tuning_put m = { .tier = 3,
                                          .problem = problem,
                                          .database_id = bytes_of_text("gfx90a68"),
                                          .count = 1,
                                          .entries = buffer_view(&entries) };
    message_tuning_put_write(b, &m);
    buffer_done(&entries);
}

static void write_lease(struct buffer *b)
{
    const struct message_tuning_lease m = { .problem = problem,
                                            .database_id = bytes_of_text("gfx90a68"),
                                            .solver = bytes_of_text("ConvA"),
                                            .candidates = 10,
                                            .flags = LEASE_SHARE };
    message_tuning_lease_write(b, &m);
}

static void write_watch(struct buffer *b)
{
    const struct message_tuning_watch m = { .flags = 0 };
    message_tuning_watch_write(b, &m);
}

static void write_ping(struct buffer *b)
{
    const struct message_ping m = { .payload = bytes_of_text("are you there") };
    message_ping_write(b, &m);
}

static void write_hello(struct buffer *b)
{
    const struct message_hello m = { .oldest_version = FRAME_VERSION_OLDEST,
                                     .newest_version = FRAME_VERSION,
                                     .capabilities = CAPABILITIES_HERE,
                                     .software = bytes_of_text("fuzz_live") };
    message_hello_write(b, &m);
}

static void write_json(struct buffer *b) { buffer_put(b, "{}", 2); }

static const struct {
    enum message_type type;
    void (*write)(struct buffer *b);
} requests[] = {
    { MESSAGE_hello, write_hello },           { MESSAGE_fetch, write_fetch },
    { MESSAGE_fetch_source, write_source },   { MESSAGE_fetch_name, write_name },
    { MESSAGE_batch, write_batch },           { MESSAGE_plan, write_plan },
    { MESSAGE_solutions, write_solutions },   { MESSAGE_configs, write_configs },
    { MESSAGE_tuning_get, write_tuning_get }, { MESSAGE_tuning_put, write_tuning_put },
    { MESSAGE_tuning_lease, write_lease },    { MESSAGE_ping, write_ping },
    { MESSAGE_tuning_watch, write_watch },
#define ROW_BINARY(name)
#define ROW_BINARY_FILES(name)
#define ROW_JSON(name) { MESSAGE_##name, write_json },
#define ROW_JSON_FILES(name) ROW_JSON(name)
#define KILN_REQUEST(name, number, who, body, purpose) ROW_##body(name)
#define KILN_REPLY(name, number, body, purpose)
#include "common/protocol/messages.def"
#undef KILN_REQUEST
#undef KILN_REPLY
};
#define REQUESTS (sizeof(requests) / sizeof(requests[0]))
#define HELLO 0u

struct piece {
    uint8_t bytes[FRAME_HEADER_SIZE + BODY_MAX];
    size_t size;
    unsigned files;
};

static void flip_bytes(struct fixture *f, struct piece *p, size_t from)
{
    for (unsigned i = 1 + below(f, 4); i > 0 && p->size > from; i--)
        p->bytes[from + below(f, (unsigned)(p->size - from))] = (uint8_t)random_next(&f->random);
}

/* Overwrites 4 bytes somewhere in the body with a special number. Lengths and counts have this
 * size. */
static void put_number(struct fixture *f, struct piece *p)
{
    static const uint32_t numbers[] = {
        0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe, 4096
    };
    if (p->size < FRAME_HEADER_SIZE + 4)
        return;
    size_t at = FRAME_HEADER_SIZE + below(f, (unsigned)(p->size - FRAME_HEADER_SIZE - 3));
    memcpy(p->bytes + at, &numbers[below(f, sizeof(numbers) / sizeof(numbers[0]))], 4);
}

static void mutate(struct fixture *f, struct piece *p)
{
    switch (below(f, 12)) {
    case 0: flip_bytes(f, p, 0); break;
    case 1: flip_bytes(f, p, FRAME_HEADER_SIZE); break;
    case 2: put_number(f, p); break;
    case 3:
        p->size = below(f, (unsigned)p->size + 1);
        break; /* cuts this frame, so that kilnd reads the next frame as the rest of this one */
    case 4: p->bytes[6] = (uint8_t)random_next(&f->random); break;
    /* sends more or fewer descriptors than the header says */
    case 5: p->files = below(f, FILES_MAX + 1); break;
    case 6:
        p->files = below(f, FILES_MAX + 1);
        p->bytes[20] = (uint8_t)p->files;
        break;
    default: break;
    }
}

static void make_request(struct fixture *f, struct piece *p, unsigned which, uint64_t id)
{
    struct buffer body;
    buffer_init(&body, BODY_MAX);
    requests[which].write(&body);
    assert_false(body.failed);
    struct frame_header header = { .version = FRAME_VERSION,
                                   .type = (uint16_t)requests[which].type,
                                   .request_id = below(f, 8) ? id : 2,
                                   .body_size = (uint32_t)body.size };
    frame_header_write(p->bytes, &header);
    memcpy(p->bytes + FRAME_HEADER_SIZE, body.data, body.size);
    p->size = FRAME_HEADER_SIZE + body.size;
    p->files = 0;
    buffer_done(&body);
    mutate(f, p);
}

static int some_file(struct fixture *f)
{
    switch (below(f, 4)) {
    case 0: return open("/dev/zero", O_RDONLY | O_CLOEXEC);
    case 1: return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 2: return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    default: break;
    }
    int fd = memfd_create("live", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(write(fd, "conv -n 1", 9), 9);
    return fd;
}

/* Sends |part| in one message together with |file_count| descriptors. Returns false if kilnd closed
 * the connection or reads nothing. */
static bool send_bytes(struct fixture *f, int socket_fd, struct bytes part, unsigned file_count)
{
    int files[FILES_MAX];
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(files))];
    } control = { 0 };
    struct iovec iov = { (void *)(uintptr_t)part.data, part.size };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    for (unsigned i = 0; i < file_count; i++)
        files[i] = some_file(f);
    if (file_count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(file_count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(file_count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), files, file_count * sizeof(int));
    }
    ssize_t sent = sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (unsigned i = 0; i < file_count; i++)
        close(files[i]);
    return sent == (ssize_t)part.size;
}

static bool send_piece(struct fixture *f, int socket_fd, const struct piece *p)
{
    size_t at = 0;
    unsigned files = p->files;
    bool whole = below(f, 3) != 0;
    while (at < p->size) {
        size_t size = whole ? p->size : 1 + below(f, PIECE_MAX);
        size = size < p->size - at ? size : p->size - at;
        if (!send_bytes(f, socket_fd, bytes_of(p->bytes + at, size), files))
            return false;
        at += size;
        files = 0;
    }
    return true;
}

static void drain(int socket_fd)
{
    uint8_t room[4096];
    char control[CMSG_SPACE(LIMIT_FRAME_DESCRIPTORS * sizeof(int))];
    for (;;) {
        struct iovec iov = { room, sizeof(room) };
        struct msghdr message = { .msg_iov = &iov,
                                  .msg_iovlen = 1,
                                  .msg_control = control,
                                  .msg_controllen = sizeof(control) };
        if (recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
            return;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
            for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len; i++) {
                int fd;
                memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
                close(fd);
            }
        }
    }
}

static void run_round(struct fixture *f, uint64_t number)
{
    static struct piece piece;
    f->random = wish.seed * 0x100000001b3u + number;
    bool greets = below(f, 8) == 0; /* one in eight rounds mutates the handshake, too */
    int fd = greets ? raw_connect(&f->daemon) : raw_greeted(&f->daemon);
    bool goes_on = true;
    unsigned frames = 1 + below(f, FRAMES_MAX);
    for (unsigned i = 0; i < frames && goes_on; i++) {
        bool is_hello = greets && i == 0 && below(f, 4) > 0;
        make_request(f, &piece, is_hello ? HELLO : below(f, REQUESTS), 2 + i);
        goes_on = send_piece(f, fd, &piece);
        if (below(f, 2))
            drain(fd);
    }
    if (goes_on && below(f, 2)) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        (void)poll(&wait, 1, 2);
        drain(fd);
    }
    close(fd);
}

static bool descriptors_are_back(void *context)
{
    struct fixture *f = context;
    return descriptor_count(f->daemon.pid) <= f->descriptors + DESCRIPTORS_SLACK;
}

/* Returns whether kilnd has closed most received descriptors. kilnd closes received descriptors on
 * other threads, and delays the requests of a user who sent many. All connections have the same
 * user, so kilnd would also delay the bystander. */
static bool most_is_closed(void *context)
{
    struct fixture *f = context;
    return descriptor_count(f->daemon.pid) <= f->at_start + DESCRIPTORS_WAITING;
}

static bool nobody_is_left(void *context)
{
    struct fixture *f = context;
    struct json *stats = raw_ask(f->bystander, MESSAGE_stats, "{}");
    uint64_t clients = json_get_u64(stats, "clients", 0);
    json_destroy(stats);
    return clients == 1;
}

static void run_rounds(struct fixture *f, uint64_t from, uint64_t count, uint64_t until_ns)
{
    for (uint64_t i = from; i - from < count || clock_monotonic_ns() < until_ns; i++) {
        wait_until("kilnd to close most descriptors", most_is_closed, f);
        run_round(f, i);
        f->rounds++;
        if (i % CHECK_EVERY == 0)
            raw_expect_pong(f->bystander);
    }
}

TEST_F(plain, serves_others_and_keeps_nothing_after_mutated_conversations)
{
    run_rounds(f, wish.from, WARM_ROUNDS, 0);
    wait_until("the last client to leave", nobody_is_left, f);
    f->descriptors = descriptor_count(f->daemon.pid);
    f->memory = daemon_process_memory(&f->daemon, "VmRSS");
    printf("descriptors: %ld at the start, %ld after the warm rounds\n", f->at_start,
           f->descriptors);
    uint64_t until_ns = wish.seconds ? clock_monotonic_ns() + wish.seconds * 1000000000u : 0;

    run_rounds(f, wish.from + WARM_ROUNDS, wish.seconds ? 0 : wish.rounds, until_ns);

    wait_until("the last client to leave", nobody_is_left, f);
    wait_until("kilnd to close all descriptors", descriptors_are_back, f);
    assert_in_range(daemon_process_memory(&f->daemon, "VmRSS"), 0, f->memory + MEMORY_SLACK_KB);
    int other = raw_greeted(&f->daemon);
    raw_expect_pong(other);
    close(other);
    printf("stat::number_of_executed_units: %llu\n", (unsigned long long)f->rounds);
}

SET_UP(set_up)
{
    raw_serve(&f->daemon, NULL, &f->bystander);
    f->at_start = descriptor_count(f->daemon.pid);
}

TEST_PROGRAM(set_up, NULL)

static void read_arguments(int argc, char **argv)
{
    const struct {
        const char *name;
        uint64_t *to;
    } options[] = { { "--rounds", &wish.rounds },
                    { "--seconds", &wish.seconds },
                    { "--seed", &wish.seed },
                    { "--from", &wish.from } };
    for (int i = 1; i < argc; i += 2) {
        bool known = false;
        for (size_t k = 0; k < sizeof(options) / sizeof(options[0]) && i + 1 < argc; k++) {
            if (strcmp(argv[i], options[k].name) != 0)
                continue;
            *options[k].to = strtoull(argv[i + 1], NULL, 10);
            known = true;
        }
        if (!known) {
            fprintf(stderr, "usage: %s [--rounds N] [--seconds N] [--seed N] [--from N]\n",
                    argv[0]);
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    read_arguments(argc, argv);
    printf("seed %llu\n", (unsigned long long)wish.seed);
    return test_run(NULL);
}
