/* SPDX-License-Identifier: MIT */
#include "tests/faults/made_kernel.h"
#include "tests/load/crowd.h"
#include "tests/load/peer.h"
#include "tests/support/hostile_descriptors.h"

#include <kiln/kiln.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* requests that a STALLED client sends; kilnd allows more for one connection */
#define PIPELINE 1000u
#define PRIVATE_FIRST 10000000u
#define KILL_MOMENTS 5u

static struct kiln_client *open_client(struct crowd *c)
{
    const struct kiln_client_options options = { .size = sizeof(options),
                                                 .socket_path = c->socket,
                                                 .timeout_ms = CROWD_WAIT_MS,
                                                 .cache_entries = -1 };
    struct kiln_client *client = NULL;
    struct kiln_error err = { 0 };
    if (kiln_client_open(&options, &client, &err) || kiln_client_ping(client, 0, NULL, &err))
        crowd_fail(c, "a client cannot connect: %s", err.text);
    return client;
}

static struct kiln_kernel_source source_of(unsigned number, char text[64])
{
    made_source(number, text);
    return (struct kiln_kernel_source){ .size = sizeof(struct kiln_kernel_source),
                                        .target = MADE_TARGET,
                                        .toolchain = MADE_TOOLCHAIN,
                                        .program = "load.cl",
                                        .source = text };
}

static bool has_right_bytes(struct crowd *c, unsigned number, const struct kiln_kernel *kernel)
{
    struct bytes object = bytes_of(kiln_kernel_data(kernel), kiln_kernel_size(kernel));
    if (content_hash(object) == c->hashes[number - c->first])
        return true;
    crowd_fail(c, "kernel %u came with wrong bytes", number);
    return false;
}

static void fetch_kernel(struct crowd_member *m, struct kiln_client *client, unsigned i,
                         atomic_uint *counter)
{
    char text[64];
    struct kiln_kernel *kernel = NULL;
    struct kiln_error err = { 0 };
    unsigned number = crowd_kernel(m, i);
    struct kiln_kernel_source source = source_of(number, text);
    if (kiln_kernel_fetch_source(client, &source, &kernel, &err))
        crowd_fail(m->crowd, "kernel %u does not come: %s", number, err.text);
    else if (has_right_bytes(m->crowd, number, kernel))
        atomic_fetch_add(counter, 1);
    kiln_kernel_unref(kernel);
}

static int on_ready(void *context, size_t index, struct kiln_kernel *kernel,
                    const struct kiln_error *err)
{
    struct crowd_member *m = context;
    unsigned number = crowd_kernel(m, (unsigned)index);
    if (!kernel)
        crowd_fail(m->crowd, "kernel %u of a batch does not come: %s", number, err->text);
    else if (has_right_bytes(m->crowd, number, kernel))
        atomic_fetch_add(&m->crowd->counts->answered, 1);
    return 0;
}

static void fetch_batch(struct crowd_member *m, struct kiln_client *client)
{
    unsigned count = m->crowd->kernels;
    struct kiln_error err = { 0 };
    struct kiln_kernel_source *sources = calloc(count, sizeof(*sources));
    char(*texts)[64] = calloc(count, sizeof(*texts));
    for (unsigned i = 0; sources && texts && i < count; i++)
        sources[i] = source_of(crowd_kernel(m, i), texts[i]);
    const struct kiln_kernel_batch batch = {
        .size = sizeof(batch), .sources = sources, .count = count, .ready = on_ready, .context = m
    };
    if (!sources || !texts || kiln_kernel_fetch_batch(client, &batch, &err))
        crowd_fail(m->crowd, "a batch is not answered: %s", err.text);
    free(texts);
    free(sources);
}

static void run_behaving(struct crowd_member *m)
{
    struct kiln_client *client = open_client(m->crowd);
    crowd_wait_for_start(m->crowd);
    if (m->index % 2)
        fetch_batch(m, client);
    for (unsigned i = 0; i < m->crowd->kernels && m->index % 2 == 0; i++)
        fetch_kernel(m, client, i, &m->crowd->counts->answered);
    kiln_client_close(client);
}

static struct kiln_problem problem_of(unsigned index)
{
    return (struct kiln_problem){ .size = sizeof(struct kiln_problem),
                                  .spatial_dims = 2,
                                  .n = 1 + index,
                                  .c = 64,
                                  .k = 64,
                                  .groups = 1,
                                  .in = { 1, 56, 56 },
                                  .filter = { 1, 1, 1 },
                                  .stride = { 1, 1, 1 },
                                  .dilation = { 1, 1, 1 } };
}

/* Takes a tuning lease. When the client is killed, kilnd must end the lease. */
static void take_lease(struct crowd_member *m, struct kiln_client *client)
{
    const struct kiln_problem problem = problem_of(m->index);
    const struct kiln_lease_request request = { .size = sizeof(request),
                                                .database_id = "gfx90a68",
                                                .solver = "LoadSolver" };
    struct kiln_lease lease = { .size = sizeof(lease) };
    struct kiln_error err = { 0 };
    if (kiln_lease_take(client, &problem, &request, &lease, &err) ||
        lease.state != KILN_LEASE_GRANTED)
        crowd_fail(m->crowd, "lease %u is not granted: %s", m->index, err.text);
}

/* Requests kernels that no other client requests, but does not send the last |part| bytes of the
 * last request. */
static void send_and_stop(struct crowd_member *m, struct peer *peer, size_t part)
{
    for (unsigned i = 0; i < CROWD_PRIVATE_KERNELS; i++) {
        BUFFER_AUTO struct buffer body;
        uint8_t raw[FRAME_HEADER_SIZE + 1024];
        buffer_init(&body, 1000);
        peer_write_fetch(&body, PRIVATE_FIRST + m->index * CROWD_PRIVATE_KERNELS + i, 0);
        frame_header_write(raw, &(struct frame_header){ .version = FRAME_VERSION,
                                                        .type = MESSAGE_fetch_source,
                                                        .request_id = i + 1,
                                                        .body_size = (uint32_t)body.size });
        memcpy(raw + FRAME_HEADER_SIZE, body.data, body.size);
        size_t size = FRAME_HEADER_SIZE + body.size;
        peer_send(peer, raw, i + 1 < CROWD_PRIVATE_KERNELS ? size : size - part, false);
    }
}

static void run_killed(struct crowd_member *m)
{
    struct crowd *c = m->crowd;
    struct kiln_client *client = open_client(c);
    struct peer peer = { .fd = -1 };
    if (!peer_open(&peer, c->socket))
        crowd_fail(c, "a client that will be killed cannot connect");
    if (m->index % KILL_MOMENTS == 4)
        take_lease(m, client);
    crowd_wait_for_start(c);
    for (unsigned i = 0; i < c->kernels / 2; i++)
        fetch_kernel(m, client, i, &c->counts->early);
    switch (m->index % KILL_MOMENTS) {
    case 0: send_and_stop(m, &peer, 0); break;
    /* the last request has its header, but not its whole body */
    case 1: send_and_stop(m, &peer, 10); break;
    /* the last request stops in the header or soon after it */
    case 2: send_and_stop(m, &peer, 80); break;
    default: break;
    }
    atomic_fetch_add(&c->counts->ready, 1);
    /* calls libkiln until this client is killed */
    for (unsigned i = 0; m->index % KILL_MOMENTS == 3; i++)
        fetch_kernel(m, client, i, &c->counts->early);
    for (;;)
        pause();
}

static void check_answer(struct crowd *c, const struct peer_answer *a, atomic_uint *counter)
{
    if (a->is_malformed || a->code != KILN_OK)
        crowd_fail(c, "kernel %u does not come to a slow reader: code %d", a->number, (int)a->code);
    else if (a->number - c->first >= c->pool || a->hash != c->hashes[a->number - c->first])
        crowd_fail(c, "kernel %u came to a slow reader with wrong bytes", a->number);
    else
        atomic_fetch_add(counter, 1);
}

static bool send_request(struct crowd_member *m, struct peer *peer, unsigned i, bool at_once)
{
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 1000);
    unsigned number = crowd_kernel(m, i);
    peer_write_fetch(&body, number, m->index % 2 ? LIMIT_INLINE_OBJECT : 0);
    return peer_send_frame(peer, MESSAGE_fetch_source, number, buffer_view(&body), at_once);
}

static void run_slow(struct crowd_member *m)
{
    struct crowd *c = m->crowd;
    struct peer peer = { .fd = -1 };
    struct peer_answer answer;
    if (!peer_open(&peer, c->socket))
        crowd_fail(c, "a slow reader cannot connect");
    peer.read_max = 1;
    crowd_wait_for_start(c);
    for (unsigned i = 0; i < c->kernels; i++)
        send_request(m, &peer, i, false);
    for (unsigned i = 0; i < c->kernels; i++) {
        if (!peer_receive(&peer, &answer)) {
            crowd_fail(c, "a slow reader lost its connection after %u answers", i);
            break;
        }
        check_answer(c, &answer, &c->counts->answered);
    }
    peer_close(&peer);
}

/* Sends requests without reading the answers. kilnd may close the connection, but must not send a
 * wrong answer. */
static void run_stalled(struct crowd_member *m)
{
    struct crowd *c = m->crowd;
    struct peer peer = { .fd = -1 };
    struct peer_answer answer;
    unsigned asked = 0, came = 0;
    if (!peer_open(&peer, c->socket))
        crowd_fail(c, "a stalled client cannot connect");
    crowd_wait_for_start(c);
    while (asked < PIPELINE && send_request(m, &peer, asked, true))
        asked++;
    crowd_wait_for_close(c, c->late[0]);
    while (came < asked && peer_receive(&peer, &answer)) {
        check_answer(c, &answer, &c->counts->late);
        came++;
    }
    if (came < asked)
        atomic_fetch_add(&c->counts->cut_off, 1);
    peer_close(&peer);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void send_garbage(struct peer *peer, uint64_t *random)
{
    uint8_t bytes[512];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)next_random(random);
    peer_send(peer, bytes, sizeof(bytes), false);
}

static void send_header(struct peer *peer, unsigned type, uint32_t body_size, unsigned descriptors)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    frame_header_write(raw, &(struct frame_header){ .version = FRAME_VERSION,
                                                    .type = (uint16_t)type,
                                                    .request_id = 1,
                                                    .body_size = body_size,
                                                    .descriptors = (uint16_t)descriptors });
    peer_send(peer, raw, sizeof(raw), false);
}

static void send_descriptor(struct peer *peer, unsigned number)
{
    static const struct {
        enum message_type type;
        const char *body;
    } requests[] = {
        { MESSAGE_kernel_import, "{\"name\":\"gfx90a68.ukdb\"}" },
        { MESSAGE_tuning_import, "{\"name\":\"gfx90a68.HIP.fdb.txt\"}" },
        { MESSAGE_package_install, "{\"name\":\"gfx90a68.kdb\"}" },
        { MESSAGE_fetch_source, "no request at all" },
        { MESSAGE_ping, "" },
    };
    size_t which = number % (sizeof(requests) / sizeof(requests[0]));
    const struct hostile_descriptor *kind = &hostile_descriptors[number % hostile_descriptor_count];
    int file = kind->open();
    const struct peer_descriptors descriptors = { .announced = 1 + number % 3,
                                                  .files = &file,
                                                  .count = file >= 0 };
    peer_send_files(peer, requests[which].type, bytes_of_text(requests[which].body), &descriptors);
    if (file >= 0)
        close(file);
}

static void send_nonsense(struct peer *peer, uint64_t *random)
{
    uint8_t body[200];
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (uint8_t)next_random(random);
    for (unsigned i = 0; i < 20; i++)
        peer_send_frame(peer, (unsigned)next_random(random) % 160, i, bytes_of(body, sizeof(body)),
                        false);
}

static void attack_once(struct crowd_member *m, unsigned number, uint64_t *random)
{
    struct peer peer = { .fd = -1 };
    bool greeted = number % 8 > 2;
    if (!(greeted ? peer_open : peer_connect)(&peer, m->crowd->socket))
        return; /* kilnd may refuse the connection */
    switch (number % 8) {
    case 0: send_garbage(&peer, random); break;
    case 1: send_header(&peer, MESSAGE_hello, UINT32_MAX, 0); break;
    case 2: send_header(&peer, MESSAGE_stats, 2, 0); break; /* before the handshake */
    case 3: send_header(&peer, MESSAGE_batch, LIMIT_FRAME_BODY, LIMIT_FRAME_DESCRIPTORS); break;
    case 4: send_garbage(&peer, random); break;
    case 5: send_nonsense(&peer, random); break;
    case 6: send_header(&peer, MESSAGE_fetch, LIMIT_FRAME_BODY + 1, 0); break;
    default: send_descriptor(&peer, number / 8 + m->index); break;
    }
    peer_close(&peer);
    atomic_fetch_add(&m->crowd->counts->attacks, 1);
}

/* Root may do almost anything, so its attacks would prove nothing. This thread changes to the user
 * CROWD_HOSTILE by system calls, because libc's functions would change the user of all threads. */
static bool become_another_user(void)
{
    if (geteuid() != 0)
        return true;
    return syscall(SYS_setgroups, 0, NULL) == 0 &&
           syscall(SYS_setresgid, CROWD_HOSTILE, CROWD_HOSTILE, CROWD_HOSTILE) == 0 &&
           syscall(SYS_setresuid, CROWD_HOSTILE, CROWD_HOSTILE, CROWD_HOSTILE) == 0;
}

static void run_hostile(struct crowd_member *m)
{
    struct peer peer = { .fd = -1 };
    uint64_t random = m->index;
    if (!become_another_user())
        crowd_fail(m->crowd, "a hostile client cannot be another user");
    if (!peer_open(&peer, m->crowd->socket))
        crowd_fail(m->crowd, "a hostile client cannot connect");
    crowd_wait_for_start(m->crowd);
    peer_close(&peer);
    for (unsigned i = 0; i < m->crowd->kernels; i++)
        attack_once(m, m->index + i, &random);
}

void crowd_run_member(struct crowd_member *m)
{
    static void (*const bodies[CLIENT_KINDS])(struct crowd_member *
                                              m) = { [BEHAVING] = run_behaving,
                                                     [KILLED] = run_killed,
                                                     [SLOW] = run_slow,
                                                     [STALLED] = run_stalled,
                                                     [HOSTILE] = run_hostile };
    bodies[m->kind](m);
}
