/* SPDX-License-Identifier: MIT */
/* Tests kilnd's whole engine with requests of three users with different rights, and of a stranger
 * who need not send a handshake first. Compiles, transfers and other tasks end in an order and with
 * results that the input selects. */
#include "tests/fuzz/fuzz.h"

#include "common/base/json.h"
#include "engine/engine.h"
#include "engine/service/service.h"
#include "tests/support/fake_executor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLERS 3
#define STEPS_MAX 24
#define STRANGER_FROM 240 /* the stranger does the steps whose first byte is at least this */
#define TASKS_MAX 100000  /* maximum number of tasks that the engine may add for one input */

struct visitor {
    struct caller base; /* first member */
    bool joined;
};

struct scene {
    struct fake_executor executor;
    struct engine_host host;
    struct engine *engine;
    struct visitor visitors[CALLERS];
    struct visitor stranger; /* need not send hello before other requests */
    uint64_t request_id;
    char cache[512], packages[600], state[600], gpus[600];
};

#define CHECK_BINARY(name)                                 \
    case MESSAGE_##name:                                   \
        message_##name##_read(&r);                         \
        rc = message_body_check(&r, MESSAGE_##name, &err); \
        break;
#define CHECK_JSON(name) \
    case MESSAGE_##name: rc = json_parse(body, "a reply", &json, &err); break;

static void check_body(enum message_type type, struct bytes body)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = KILN_INVALID;
    KILN_AUTO(json) struct json *json = NULL;
    struct reader r = reader_of(body);
    switch (type) {
#define KILN_REQUEST(name, number, role, body, purpose)
#define KILN_REPLY(name, number, body, purpose) CHECK_##body(name)
#include "common/protocol/messages.def"
#undef KILN_REQUEST
#undef KILN_REPLY
    default: break;
    }
    fuzz_expect(rc == KILN_OK, "a reply is what its type says");
}

static void on_reply(struct caller *caller, const struct reply *reply)
{
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 2 * LIMIT_FRAME_BODY);
    size_t at = 0;
    (void)caller;
    for (size_t i = 0; i < reply->segment_count; i++) {
        const struct segment *segment = &reply->segments[i];
        fuzz_expect(segment->at >= at && segment->at <= reply->body.size, "inlays are in order");
        buffer_put(&body, reply->body.data + at, segment->at - at);
        buffer_put(&body, segment->object->data, segment->object->size);
        at = segment->at;
    }
    if (reply->body.size > at)
        buffer_put(&body, reply->body.data + at, reply->body.size - at);
    fuzz_expect(!body.failed && body.size <= LIMIT_FRAME_BODY, "a reply fits into a frame");
    fuzz_expect(reply->object_count <= LIMIT_FRAME_DESCRIPTORS, "so do its descriptors");
    check_body(reply->type, buffer_view(&body));
}

static const struct caller_ops ops = { .reply = on_reply };

static struct json *no_settings(struct engine_host *host)
{
    (void)host;
    return json_object();
}

static void add_nothing(struct engine_host *host, struct json *answer)
{
    (void)host;
    (void)answer;
}

static void on_report(struct engine_host *host, const struct engine_report *report)
{
    (void)host;
    fuzz_expect(*report->event && report->text, "a report is a sentence");
}

static void describe(struct scene *s)
{
    static const char toolchains[] =
        "{\"toolchains\":[{\"name\":\"opencl\",\"version\":\"test\",\"path\":\"/x\","
        "\"family\":\"opencl\",\"only_target\":\"opencl:test\",\"identity\":"
        "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"},"
        "{\"name\":\"clang\",\"version\":\"19\",\"path\":\"/y\",\"family\":\"amdgpu\","
        "\"only_target\":\"\",\"identity\":"
        "\"ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}]}";
    if (fake_executor_next_compile(&s->executor))
        fake_executor_compile(&s->executor, bytes_of_text(toolchains));
    fake_executor_run_tasks(&s->executor);
}

static void open_scene(struct scene *s)
{
    struct kiln_err err = KILN_ERR_INIT;
    memset(s, 0, sizeof(*s));
    snprintf(s->cache, sizeof(s->cache), "%s", fuzz_path("cache"));
    snprintf(s->packages, sizeof(s->packages), "%s/packages", s->cache);
    snprintf(s->state, sizeof(s->state), "%s/state", s->cache);
    snprintf(s->gpus, sizeof(s->gpus), "%s/gpus", s->cache);
    fuzz_remove(s->cache);
    fake_executor_init(&s->executor, 2);
    s->host = (struct engine_host){ .config = no_settings,
                                    .add_status = add_nothing,
                                    .add_stats = add_nothing,
                                    .report = on_report };
    const struct engine_options options = { .executor = &s->executor.base,
                                            .host = &s->host,
                                            .readers = 1,
                                            .cache_directory = s->cache,
                                            .store_limit_bytes = 1u << 20,
                                            .hot_limit_bytes = 64u << 10,
                                            .hot_limit_count = 16,
                                            .failure_ttl_s = 600,
                                            .queue_limit = 100,
                                            .queue_limit_uid = 20,
                                            .queue_bytes = 4u << 20,
                                            .queue_bytes_uid = 1u << 20,
                                            .package_directory = s->packages,
                                            .state_directory = s->state,
                                            .tuning_records_per_uid = 100,
                                            .tuning_stale = TUNING_WARN,
                                            .trusted_keys = s->cache,
                                            .package_limit = 1u << 20,
                                            .kfd_directory = s->gpus };
    if (engine_open(&options, &s->engine, &err))
        fuzz_expect(false, err.text);
    engine_start(s->engine);
    describe(s);
}

static void come_in(struct scene *s, struct visitor *v, uid_t uid, enum role role)
{
    *v = (struct visitor){ .base = { .ops = &ops, .uid = uid, .gid = uid, .role = role } };
    service_join(s->engine, &v->base);
    v->joined = true;
}

static void join(struct scene *s, struct visitor *v, uid_t uid, enum role role)
{
    struct kiln_err err = KILN_ERR_INIT;
    const struct message_hello hello = { .oldest_version = 1,
                                         .newest_version = 1,
                                         .capabilities = CAPABILITIES_HERE };
    const struct frame_header header = { .version = FRAME_VERSION, .type = MESSAGE_hello };
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 1000);
    message_hello_write(&body, &hello);
    come_in(s, v, uid, role);
    fuzz_expect(service_handle(s->engine, &v->base, &header, buffer_view(&body), &err) == KILN_OK,
                "a good hello is welcome");
}

static void join_all(struct scene *s)
{
    static const enum role roles[CALLERS] = { ROLE_ADMIN, ROLE_PUBLISH, ROLE_USE };
    for (unsigned i = 0; i < CALLERS; i++) {
        if (!s->visitors[i].joined)
            join(s, &s->visitors[i], i ? 1000 + i : 0, roles[i]);
    }
    if (!s->stranger.joined)
        come_in(s, &s->stranger, 1000 + CALLERS, ROLE_ADMIN);
}

static void leave(struct scene *s, struct visitor *v)
{
    if (v->joined)
        service_leave(s->engine, &v->base);
    v->joined = false;
}

static void settle(struct scene *s)
{
    for (unsigned i = 0; i < TASKS_MAX && !engine_idle(s->engine); i++) {
        fake_executor_run_tasks(&s->executor);
        if (fake_executor_next_compile(&s->executor))
            fake_executor_fail(&s->executor, COMPILE_UNAVAILABLE, "it ends", NULL);
        if (fake_executor_next_transfer(&s->executor))
            fake_executor_transfer_fail(&s->executor, KILN_IO, "it ends");
    }
    fake_executor_run_tasks(&s->executor);
    fuzz_expect(engine_idle(s->engine), "no flight, task or caller stays behind");
}

static void close_scene(struct scene *s)
{
    for (unsigned i = 0; i < CALLERS; i++)
        leave(s, &s->visitors[i]);
    leave(s, &s->stranger);
    settle(s);
    engine_close(s->engine);
}

/* Reads a request from the input: u8 type, u8 number of files, the files, the body. */
static void request(struct scene *s, struct visitor *v, struct reader *r)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct frame_header header = { .version = FRAME_VERSION,
                                   .type = reader_u8(r),
                                   .request_id = ++s->request_id };
    unsigned how = reader_u8(r);
    v->base.file_count = how % (LIMIT_REQUEST_FILES + 1);
    for (unsigned i = 0; i < v->base.file_count; i++)
        v->base.files[i] = fuzz_memfd(fuzz_part(r), how & 8);
    struct bytes part = fuzz_part(r);
    uint8_t *body = fuzz_copy(part);
    header.body_size = (uint32_t)part.size;
    enum kiln_code rc =
        service_handle(s->engine, &v->base, &header, bytes_of(body, part.size), &err);
    fuzz_expect(rc == KILN_OK || (rc == KILN_INVALID && !v->base.greeted),
                "whatever it is is answered, once hello was said");
    for (unsigned i = 0; i < v->base.file_count; i++) {
        if (v->base.files[i] >= 0)
            close(v->base.files[i]);
    }
    v->base.file_count = 0;
    free(body);
    if (rc) { /* kilnd closes the connection after this error */
        leave(s, v);
        join_all(s);
    }
}

static void end_compile(struct scene *s, struct reader *r)
{
    unsigned how = reader_u8(r);
    struct bytes content = fuzz_part(r);
    if (!fake_executor_next_compile(&s->executor))
        return;
    enum compile_end end = (enum compile_end)(1 + how % COMPILE_OUTDATED);
    if (how & 128)
        fake_executor_fail(&s->executor, end, "it went badly", how & 64 ? "log" : NULL);
    else
        fake_executor_compile(&s->executor, content);
}

static void end_transfer(struct scene *s, struct reader *r)
{
    static const char *const names[] = { "gfx90a68.kdb",    "gfx90a68.HIP.fdb.txt", "gfx90a68.db",
                                         "gfx90a68.db.txt", "gfx90a68.kpkg",        "user.ukdb" };
    unsigned how = reader_u8(r);
    struct bytes content = fuzz_part(r);
    if (!fake_executor_next_transfer(&s->executor))
        return;
    if (how & 128)
        fake_executor_transfer_fail(&s->executor, KILN_IO, "it went badly");
    else if (how & 64)
        fake_executor_transfer_progress(&s->executor, "fetching", how, 100);
    else
        fake_executor_transfer(&s->executor, fuzz_file("arriving", content),
                               names[how % (sizeof(names) / sizeof(names[0]))], "");
}

static void step(struct scene *s, struct reader *r)
{
    unsigned what = reader_u8(r);
    struct visitor *v = what >= STRANGER_FROM ? &s->stranger : &s->visitors[what / 8 % CALLERS];
    switch (what % 8) {
    case 0: fake_executor_run_task(&s->executor); break;
    case 1: fake_executor_run_tasks(&s->executor); break;
    case 2: end_compile(s, r); break;
    case 3: end_transfer(s, r); break;
    case 4: engine_tick(s->engine); break;
    case 5:
        leave(s, v);
        join_all(s);
        break;
    default: request(s, v, r); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct scene scene;
    struct reader r = reader_of(bytes_of(data, size));
    open_scene(&scene);
    join_all(&scene);
    for (unsigned i = 0; i < STEPS_MAX && reader_left(&r) > 0; i++)
        step(&scene, &r);
    close_scene(&scene);
    return 0;
}
