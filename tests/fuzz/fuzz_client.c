/* SPDX-License-Identifier: MIT */
/* Tests libkiln against a hostile daemon. The input selects libkiln's calls and contains the
 * daemon's replies. A reply always arrives as a whole frame; fuzz_transport.c tests frames in
 * pieces. */
#include "tests/fuzz/fuzz.h"

#include "common/protocol/messages.h"
#include "libclient/connection/transport_socket.h"
#include "libclient/plans/solutions.h"

#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 4
#define CONNECTIONS_MAX 3
#define CALLS_MAX 3
#define TIMEOUT_MS 1000
#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

struct daemon {
    struct reader input;
    unsigned connections;
    uint64_t request_id;
};

struct hostile {
    struct transport base;
    struct daemon *daemon;
    bool greeted, silent;
    struct buffer body;
    int files[FILES_MAX];
    uint8_t *copy; /* a copy of the frame's body, which libkiln reads; owned */
};

static struct daemon the_daemon;

static enum kiln_code send_frame(struct transport *base, struct bytes frame, struct kiln_err *err)
{
    struct hostile *h = (struct hostile *)base;
    struct frame_header header;
    fuzz_expect(frame.size >= FRAME_HEADER_SIZE &&
                    frame_header_read(frame.data, &header, err) == KILN_OK &&
                    header.body_size == frame.size - FRAME_HEADER_SIZE,
                "libkiln sends whole frames");
    if (header.type != MESSAGE_cancel)
        h->daemon->request_id = header.request_id;
    return KILN_OK;
}

static enum kiln_code send_with_files(struct transport *base, struct bytes frame, const int *files,
                                      size_t file_count, struct kiln_err *err)
{
    (void)files;
    (void)file_count;
    return send_frame(base, frame, err);
}

static bool sends(struct transport *base)
{
    (void)base;
    return false;
}

static void welcome(struct hostile *h)
{
    const struct message_welcome m = { .version = FRAME_VERSION,
                                       .capabilities = CAPABILITIES_HERE,
                                       .instance = 5,
                                       .pid = 1,
                                       .max_body = LIMIT_FRAME_BODY,
                                       .max_in_flight = 16,
                                       .software = bytes_of_text("kilnd") };
    message_welcome_write(&h->body, &m);
}

static void next_frame(struct hostile *h, struct frame_header *header)
{
    struct reader *r = &h->daemon->input;
    header->type = (uint16_t)(MESSAGE_welcome + reader_u8(r) % 12);
    unsigned how = reader_u8(r);
    header->flags = how & (FRAME_MORE | FRAME_STOPPING);
    header->request_id = h->daemon->request_id - (how >> 2 & 3);
    header->descriptors = (how >> 4) % (FILES_MAX + 1);
    for (unsigned i = 0; i < header->descriptors; i++) {
        unsigned kind = reader_u8(r);
        h->files[i] =
            fuzz_memfd(reader_take(r, (kind & 63) < reader_left(r) ? kind & 63 : 0), !(kind & 64));
    }
    struct bytes part = fuzz_part(r);
    buffer_put(&h->body, part.data, part.size);
}

static enum kiln_code receive(struct transport *base, uint64_t deadline_ns,
                              struct transport_frame *ret_frame, struct kiln_err *err)
{
    struct hostile *h = (struct hostile *)base;
    struct frame_header header = { .version = FRAME_VERSION };
    (void)deadline_ns;
    if (reader_left(&h->daemon->input) == 0 &&
        h->silent) /* otherwise a call without a time limit would wait forever */
        return kiln_fail(err, KILN_UNAVAILABLE, "it hung up");
    if (reader_left(&h->daemon->input) == 0) {
        h->silent = true;
        return kiln_fail(err, KILN_TIMED_OUT, "it says no more");
    }
    h->body.size = 0;
    bool is_honest = !h->greeted && reader_u8(&h->daemon->input) % 8 != 0;
    h->greeted = true;
    if (is_honest) {
        header.type = MESSAGE_welcome;
        header.request_id = h->daemon->request_id;
        welcome(h);
    } else {
        next_frame(h, &header);
    }
    free(h->copy);
    h->copy = fuzz_copy(buffer_view(&h->body));
    header.body_size = (uint32_t)h->body.size;
    *ret_frame = (struct transport_frame){ .header = header,
                                           .body = bytes_of(h->copy, h->body.size),
                                           .descriptors = h->files,
                                           .descriptor_count = header.descriptors };
    return KILN_OK;
}

static void stop(struct transport *base) { (void)base; }

static void destroy(struct transport *base)
{
    struct hostile *h = (struct hostile *)base;
    buffer_done(&h->body);
    free(h->copy);
    free(h);
}

static const struct transport_ops ops = { .name = "hostile",
                                          .send = send_frame,
                                          .send_files = send_with_files,
                                          .is_sending = sends,
                                          .receive = receive,
                                          .stop = stop,
                                          .destroy = destroy };

/* The linker (--wrap) redirects calls of transport_socket_connect to this function, so that every
 * connection uses the fake transport. */
enum kiln_code __wrap_transport_socket_connect(const char *path, struct transport **ret_transport,
                                               struct kiln_err *err);
enum kiln_code __wrap_transport_socket_connect(const char *path, struct transport **ret_transport,
                                               struct kiln_err *err)
{
    (void)path;
    if (the_daemon.connections++ == CONNECTIONS_MAX || reader_left(&the_daemon.input) == 0)
        return kiln_fail(err, KILN_DENIED, "it lets nobody in");
    struct hostile *h = calloc(1, sizeof(*h));
    fuzz_expect(h, "memory for a connection");
    h->base.ops = &ops;
    h->daemon = &the_daemon;
    buffer_init(&h->body, LIMIT_FRAME_BODY);
    *ret_transport = &h->base;
    return KILN_OK;
}

static const struct kiln_problem problem = {
    .size = sizeof(problem),
    .spatial_dims = 2,
    .n = 1,
    .c = 8,
    .k = 8,
    .groups = 1,
    .in = { 1, 8, 8 },
    .filter = { 1, 3, 3 },
    .stride = { 1, 1, 1 },
    .dilation = { 1, 1, 1 },
};
static const struct kiln_plan_options plan_options = { .size = sizeof(plan_options),
                                                       .target = "sm_90a",
                                                       .database_id = "sm_90_132" };
static const struct kiln_tuning_options tuning_options = { .size = sizeof(tuning_options),
                                                           .database_id = "gfx90a68",
                                                           .measurements = 1 };
static const struct kiln_kernel_source source = {
    .size = sizeof(source), .target = "gfx90a", .program = "a.cl", .source = "kernel void a() {}"
};

static void use_kernel(struct kiln_kernel *kernel)
{
    const uint8_t *bytes = kernel ? kiln_kernel_data(kernel) : NULL;
    unsigned sum = 0;
    for (size_t i = 0; bytes && i < kiln_kernel_size(kernel); i++)
        sum += bytes[i];
    fuzz_expect(!kernel || sum + strlen(kiln_kernel_key(kernel)) >= 64, "a kernel has its key");
    kiln_kernel_unref(kernel);
}

static int on_ready(void *context, size_t index, struct kiln_kernel *kernel,
                    const struct kiln_error *err)
{
    (void)context;
    fuzz_expect(index < 2 && (kernel || err), "an answer to one of the questions");
    use_kernel(kernel ? kiln_kernel_ref(kernel) : NULL);
    return 0;
}

static void use_plan(struct kiln_plan *plan)
{
    struct kiln_error err;
    for (unsigned i = 0; i < kiln_plan_launch_count(plan); i++) {
        struct kiln_plan_launch launch = { .size = sizeof(launch) };
        fuzz_expect(kiln_plan_launch(plan, i, &launch, &err) == 0, "a launch of the plan");
        fuzz_expect(launch.object < kiln_plan_object_count(plan) && *launch.kernel, "names both");
    }
    for (unsigned i = 0; i < kiln_plan_object_count(plan); i++) {
        struct kiln_kernel *kernel = kiln_plan_object(plan, i);
        use_kernel(kernel ? kiln_kernel_ref(kernel) : NULL);
        fuzz_expect(strlen(kiln_plan_object_key(plan, i)) == 64, "an object has its key");
    }
    fuzz_expect(kiln_plan_solver(plan) && kiln_plan_config(plan), "a plan has its texts");
    kiln_plan_unref(plan);
}

static int on_plan(void *context, size_t index, struct kiln_plan *plan,
                   const struct kiln_error *err)
{
    (void)context;
    fuzz_expect(index < 2 && (plan || err), "an answer to one of the questions");
    return 0;
}

static void use_tuned(struct kiln_tuned *tuned)
{
    struct kiln_error err;
    for (unsigned i = 0; tuned && i < kiln_tuned_count(tuned); i++) {
        struct kiln_tuned_entry entry = { .size = sizeof(entry) };
        fuzz_expect(kiln_tuned_entry(tuned, i, &entry, &err) == 0, "an entry");
        fuzz_expect(entry.solver && entry.algorithm && entry.params && entry.device, "its texts");
    }
    kiln_tuned_free(tuned);
}

static void fetch(struct kiln_client *client)
{
    struct kiln_error err;
    struct kiln_kernel *kernel = NULL;
    if (kiln_kernel_fetch(client, KEY, 0, &kernel, &err) == 0)
        use_kernel(kernel);
}

static void fetch_source(struct kiln_client *client)
{
    struct kiln_error err;
    struct kiln_kernel *kernel = NULL;
    if (kiln_kernel_fetch_source(client, &source, &kernel, &err) == 0)
        use_kernel(kernel);
}

static void fetch_named(struct kiln_client *client)
{
    struct kiln_error err;
    struct kiln_kernel *kernel = NULL;
    const struct kiln_kernel_name name = {
        .size = sizeof(name), .database_id = "gfx90a68", .name = "a.s.o", .args = "-x"
    };
    if (kiln_kernel_fetch_named(client, &name, &kernel, &err) == 0)
        use_kernel(kernel);
}

static void fetch_batch(struct kiln_client *client)
{
    static const char *const keys[2] = { KEY, NULL };
    const struct kiln_kernel_source sources[2] = { source, source };
    struct kiln_error err;
    struct kiln_kernel_batch batch = {
        .size = sizeof(batch), .sources = sources, .count = 2, .ready = on_ready
    };
    (void)!kiln_kernel_fetch_batch(client, &batch, &err);
    batch.sources = NULL;
    batch.keys = keys;
    (void)!kiln_kernel_fetch_batch(client, &batch, &err);
}

static void plan_get(struct kiln_client *client)
{
    struct kiln_error err;
    struct kiln_plan *plan = NULL;
    if (kiln_plan_get(client, &problem, &plan_options, &plan, &err) == 0)
        use_plan(plan);
}

static void plan_batch(struct kiln_client *client)
{
    const struct kiln_problem problems[2] = { problem, problem };
    struct kiln_error err;
    const struct kiln_plan_batch batch = { .size = sizeof(batch),
                                           .problems = problems,
                                           .count = 2,
                                           .options = &plan_options,
                                           .ready = on_plan };
    (void)!kiln_plan_batch(client, &batch, &err);
}

static void solutions_get(struct kiln_client *client)
{
    struct kiln_error err;
    struct kiln_solutions *solutions = NULL;
    if (kiln_solutions_get(client, &problem, &plan_options, &solutions, &err))
        return;
    for (unsigned i = 0; i < kiln_solutions_count(solutions); i++) {
        struct kiln_solution solution = { .size = sizeof(solution) };
        fuzz_expect(kiln_solutions_at(solutions, i, &solution, &err) == 0, "a solution");
        fuzz_expect(*solution.solver && solution.config && solution.best_config, "its texts");
    }
    kiln_solutions_free(solutions);
}

static void find_get(struct kiln_client *client)
{
    struct kiln_error err;
    struct kiln_tuned *tuned = NULL;
    if (kiln_find_get(client, &problem, &tuning_options, &tuned, &err) == 0)
        use_tuned(tuned);
}

static void perf_get(struct kiln_client *client)
{
    const struct kiln_problem problems[2] = { problem, problem };
    struct kiln_tuned *tuned[2] = { 0 };
    struct kiln_error err;
    const struct kiln_tuning_batch batch = {
        .size = sizeof(batch), .problems = problems, .count = 2, .options = &tuning_options
    };
    (void)!kiln_perf_get_batch(client, &batch, tuned, &err);
    use_tuned(tuned[0]);
    use_tuned(tuned[1]);
}

static void find_put(struct kiln_client *client)
{
    const struct kiln_measurement measured = { .size = sizeof(measured),
                                               .solver = "ConvA",
                                               .algorithm = "miopenConvolutionFwdAlgoDirect",
                                               .samples = 3,
                                               .median_ms = 1 };
    const struct kiln_recording recording = { .size = sizeof(recording),
                                              .database_id = "gfx90a68",
                                              .tier = KILN_TUNING_USER,
                                              .measurements = &measured,
                                              .measurement_count = 1 };
    struct kiln_error err;
    (void)!kiln_find_put(client, &problem, &recording, &err);
}

static void lease(struct kiln_client *client)
{
    const struct kiln_lease_request request = { .size = sizeof(request),
                                                .database_id = "gfx90a68",
                                                .solver = "ConvA",
                                                .candidates = 100,
                                                .share = 1 };
    const struct kiln_recording recording = { .size = sizeof(recording),
                                              .database_id = "gfx90a68",
                                              .tier = KILN_TUNING_USER };
    struct kiln_lease taken = { .size = sizeof(taken) };
    struct kiln_error err;
    if (kiln_lease_take(client, &problem, &request, &taken, &err))
        return;
    fuzz_expect(memchr(taken.best_params, '\0', sizeof(taken.best_params)), "a terminated text");
    if (taken.state == KILN_LEASE_GRANTED)
        (void)!kiln_lease_report(client, &taken, &recording, &taken, &err);
}

static int on_text(void *context, const char *json)
{
    (void)context;
    return strlen(json) > 1000;
}

static void admin(struct kiln_client *client)
{
    struct kiln_error err;
    char *json = NULL;
    int files[FILES_MAX];
    size_t count = 0;
    struct kiln_admin_call call = { .size = sizeof(call),
                                    .request = "kernel_export",
                                    .progress = on_text,
                                    .ret_files = files,
                                    .ret_files_max = 2,
                                    .ret_file_count = &count };
    const struct kiln_admin_call stats = { .size = sizeof(stats), .request = "stats" };
    if (kiln_admin(client, &stats, &json, &err) == 0)
        kiln_free(json);
    json = NULL;
    if (kiln_admin_call(client, &call, &json, &err) == 0) {
        kiln_free(json);
        for (size_t i = 0; i < count; i++)
            close(files[i]);
    }
}

static void events(struct kiln_client *client)
{
    struct kiln_error err;
    (void)!kiln_events(client, TIMEOUT_MS, on_text, NULL, &err);
}

static void configs(struct kiln_client *client)
{
    const struct problem asked = { .spatial_dims = 2,
                                   .n = 1,
                                   .c = 8,
                                   .k = 8,
                                   .groups = 1,
                                   .in = { 1, 8, 8 },
                                   .filter = { 1, 3, 3 },
                                   .stride = { 1, 1, 1 },
                                   .dilation = { 1, 1, 1 } };
    const struct configs_question question = { .problem = &asked,
                                               .target = bytes_of_text("gfx90a"),
                                               .solver = bytes_of_text("ConvA"),
                                               .count = 50 };
    CONFIG_LIST_AUTO struct config_list list = { 0 };
    struct failure failure;
    failure_init(&failure);
    if (configs_ask(client, &question, UINT64_MAX, &list, &failure) == KILN_OK) {
        for (uint32_t i = 0; i < list.count; i++)
            fuzz_expect(list.configs[i].candidate < 50 && strlen(config_text(&list, i)) < 4096,
                        "a config within the range");
    }
    failure_done(&failure);
}

static void (*const calls[])(struct kiln_client *) = {
    fetch,    fetch_source, fetch_named, fetch_batch, plan_get, plan_batch, solutions_get,
    find_get, perf_get,     find_put,    lease,       admin,    events,     configs,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct kiln_client_options options = { .size = sizeof(options),
                                                 .socket_path = "/nonexistent",
                                                 /* libkiln must not start another daemon */
                                                 .fallback = "off",
                                                 .timeout_ms = TIMEOUT_MS };
    struct kiln_client *client = NULL;
    struct kiln_error err;
    unsigned chosen[CALLS_MAX];
    the_daemon = (struct daemon){ .input = reader_of(bytes_of(data, size)) };
    unsigned count = 1 + reader_u8(&the_daemon.input) % CALLS_MAX;
    for (unsigned i = 0; i < count; i++)
        chosen[i] = reader_u8(&the_daemon.input) % (sizeof(calls) / sizeof(calls[0]));
    unsigned before = fuzz_descriptors();
    fuzz_expect(kiln_client_open(&options, &client, &err) == 0, "a client");
    for (unsigned i = 0; i < count; i++)
        calls[chosen[i]](client);
    kiln_client_close(client);
    fuzz_expect(fuzz_descriptors() == before, "no descriptor stays open");
    return 0;
}
