/* SPDX-License-Identifier: MIT */
#include "tests/support/engine_fixture.h"

#include "common/base/fs.h"
#include "engine/service/internal.h"
#include "engine/service/packages/packages_state.h"
#include "tests/support/entries.h"
#include "tests/support/test_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

static void keep_report(struct engine_host *host, const struct engine_report *reported)
{
    struct engine_fixture *f =
        (struct engine_fixture *)(void *)((char *)host - offsetof(struct engine_fixture, host));
    if (f->report_count == REPORTS_KEPT || strncmp(reported->event, "compile", 7) == 0)
        return;
    struct kept_report *report = &f->reports[f->report_count++];
    snprintf(report->event, sizeof(report->event), "%s", reported->event);
    snprintf(report->text, sizeof(report->text), "%s", reported->text);
    report->trouble = reported->trouble;
}

const char *engine_fixture_reported(const struct engine_fixture *f, const char *event)
{
    for (size_t i = f->report_count; i-- > 0;) {
        if (strcmp(f->reports[i].event, event) == 0)
            return f->reports[i].text;
    }
    return NULL;
}

static void fill_options(struct engine_fixture *f)
{
    f->host = (struct engine_host){ .config = no_settings,
                                    .add_status = add_nothing,
                                    .add_stats = add_nothing,
                                    .report = keep_report };
    f->options = (struct engine_options){
        .executor = &f->executor.base,
        .host = &f->host,
        .readers = 1,
        .cache_directory = f->directory,
        .store_limit_bytes = 64u << 20,
        .hot_limit_bytes = 1u << 20,
        .hot_limit_count = 100,
        .held_limit_bytes_uid = 1u << 30,
        .failure_ttl_s = 600,
        .queue_limit = 1000,
        .queue_limit_uid = 100,
        .queue_bytes = 64u << 20,
        .queue_bytes_uid = 16u << 20,
        .package_directory = f->packages,
        .state_directory = f->state,
        .tuning_records_per_uid = 1000,
        .tuning_stale = TUNING_WARN,
        .trusted_keys = f->keys,
        .package_limit = 16u << 20,
        .kfd_directory = f->gpus,
    };
}

static void stop_at_end(void *fixture)
{
    struct engine_fixture *f = fixture;
    if (f->engine)
        engine_fixture_stop(f);
}

void engine_fixture_open(struct engine_fixture *f, bool describe)
{
    memset(f, 0, sizeof(*f));
    f->directory = test_directory();
    test_at_end(stop_at_end, f);
    f->packages = test_path(f->directory, "packages");
    f->keys = test_subdirectory(f->directory, "keys");
    f->state = test_path(f->directory, "state");
    f->gpus = test_path(f->directory, "gpus");
    fake_executor_init(&f->executor, 1);
    fill_options(f);
    engine_fixture_start(f, describe);
}

void engine_fixture_describe_as(struct engine_fixture *f, const char *json)
{
    struct compile_task *task = fake_executor_next_compile(&f->executor);
    assert_non_null(task);
    assert_int_equal(task->job.kind, COMPILE_DESCRIBE);
    fake_executor_compile(&f->executor, bytes_of_text(json));
    fake_executor_run_tasks(&f->executor);
}

void engine_fixture_describe(struct engine_fixture *f)
{
    engine_fixture_describe_as(
        f, "{\"toolchains\":[{\"name\":\"opencl\",\"version\":\"test\",\"path\":\"/x\","
           "\"family\":\"opencl\",\"only_target\":\"" FIXTURE_TARGET "\",\"identity\":"
           "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}]}");
}

void engine_fixture_stop(struct engine_fixture *f)
{
    fake_executor_run_tasks(&f->executor);
    while (fake_executor_next_compile(&f->executor))
        fake_executor_fail(&f->executor, COMPILE_UNAVAILABLE, "the test is over", NULL);
    fake_executor_run_tasks(&f->executor);
    assert_true(engine_idle(f->engine)); /* the test has leaked no request, task, probe or caller */
    engine_close(f->engine);
    f->engine = NULL;
}

void engine_fixture_start(struct engine_fixture *f, bool describe)
{
    must(engine_open(&f->options, &f->engine, &f->err), f->err);
    engine_start(f->engine);
    if (describe)
        engine_fixture_describe(f);
}

void engine_fixture_rescan(struct engine_fixture *f)
{
    f->engine->package_service->rescan_at_ns = 0;
    engine_tick(f->engine);
    fake_executor_run_tasks(&f->executor);
}

unsigned engine_fixture_staged(const struct engine_fixture *f)
{
    return entry_count(packages_staging(f->engine), "");
}

static void keep_body(struct kept_reply *kept, const struct reply *reply)
{
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, LIMIT_FRAME_BODY);
    size_t at = 0;
    for (size_t i = 0; i < reply->segment_count; i++) {
        const struct segment *segment = &reply->segments[i];
        buffer_put(&body, reply->body.data + at, segment->at - at);
        buffer_put(&body, segment->object->data, segment->object->size);
        at = segment->at;
    }
    buffer_put(&body, reply->body.data + at, reply->body.size - at);
    kept->body = bytes_of(bytes_to_text(buffer_view(&body)), body.size);
}

static bool is_progress_of_import(const struct reply *reply)
{
    static const char stage[] = "\"stage\":\"importing\"";
    return (reply->flags & FRAME_MORE) &&
           memmem(reply->body.data, reply->body.size, stage, sizeof(stage) - 1);
}

static void keep_reply(struct caller *caller, const struct reply *reply)
{
    struct test_caller *c = (struct test_caller *)caller;
    if (is_progress_of_import(reply)) {
        c->import_progress_count++;
        return;
    }
    assert_true(c->reply_count < REPLIES_KEPT);
    struct kept_reply *kept = &c->replies[c->reply_count++];
    *kept = (struct kept_reply){ .type = reply->type,
                                 .request_id = reply->request_id,
                                 .flags = reply->flags,
                                 .object_count = reply->object_count };
    keep_body(kept, reply);
    if (reply->object_count == 0)
        return;
    kept->first_object_size = reply->objects[0]->size;
    kept->objects = calloc(reply->object_count, sizeof(struct object *));
    assert_non_null(kept->objects);
    for (size_t i = 0; i < reply->object_count; i++)
        kept->objects[i] = object_ref(reply->objects[i]);
}

static const struct caller_ops ops = { .reply = keep_reply };

void test_caller_join(struct test_caller *c, struct engine_fixture *f, uid_t uid, enum role role)
{
    memset(c, 0, sizeof(*c));
    c->base.ops = &ops;
    c->base.uid = uid;
    c->base.role = role;
    c->fixture = f;
    service_join(f->engine, &c->base);
}

void test_caller_forget_replies(struct test_caller *c)
{
    for (size_t i = 0; i < c->reply_count; i++) {
        struct kept_reply *kept = &c->replies[i];
        free((void *)(uintptr_t)kept->body.data);
        for (size_t k = 0; kept->objects && k < kept->object_count; k++)
            object_unref(kept->objects[k]);
        free(kept->objects);
    }
    c->reply_count = 0;
}

void test_caller_leave(struct test_caller *c)
{
    if (!c->fixture)
        return;
    service_leave(c->fixture->engine, &c->base);
    test_caller_forget_replies(c);
    c->fixture = NULL;
}

enum kiln_code test_caller_try_send(struct test_caller *c, enum message_type type, uint64_t id,
                                    struct bytes body)
{
    struct frame_header header = { .version = FRAME_VERSION,
                                   .type = (uint16_t)type,
                                   .request_id = id,
                                   .body_size = (uint32_t)body.size };
    return service_handle(c->fixture->engine, &c->base, &header, body, &c->fixture->err);
}

void test_caller_send(struct test_caller *c, enum message_type type, uint64_t id, struct bytes body)
{
    must(test_caller_try_send(c, type, id, body), c->fixture->err);
}

void test_caller_connect(struct test_caller *c, struct engine_fixture *f, uid_t uid, enum role role)
{
    struct message_hello m = { .oldest_version = 1,
                               .newest_version = 1,
                               .capabilities = CAPABILITIES_HERE };
    test_caller_join(c, f, uid, role);
    SEND_MESSAGE(c, hello, 0, &m);
    test_caller_forget_replies(c);
}

void test_caller_send_files(struct test_caller *c, enum message_type type, const char *json,
                            const int *files, unsigned file_count)
{
    assert_true(file_count <= LIMIT_REQUEST_FILES);
    for (unsigned i = 0; i < file_count; i++)
        c->base.files[i] = files[i];
    c->base.file_count = file_count;
    test_caller_send(c, type, 3, bytes_of_text(json));
    for (unsigned i = 0; i < file_count; i++) {
        if (c->base.files[i] >= 0)
            close(c->base.files[i]);
    }
    c->base.file_count = 0;
}

struct json *test_caller_ask(struct test_caller *c, enum message_type type, const char *json)
{
    test_caller_forget_replies(c);
    test_caller_send(c, type, 5, bytes_of_text(json ? json : ""));
    fake_executor_run_tasks(&c->fixture->executor);
    assert_true(c->reply_count > 0);
    return reply_json(c, c->reply_count - 1);
}

void test_caller_refused(struct test_caller *c, enum message_type type, const char *json,
                         enum kiln_code code, const char *words)
{
    test_caller_forget_replies(c);
    test_caller_send(c, type, 5, bytes_of_text(json));
    fake_executor_run_tasks(&c->fixture->executor);
    assert_int_equal(c->reply_count, 1);
    assert_reply_refuses(c, 0, code, words);
}

uint64_t test_caller_metric(struct test_caller *c, const char *series)
{
    KILN_AUTO(json) struct json *answer = test_caller_ask(c, MESSAGE_metrics, NULL);
    char start[200];
    snprintf(start, sizeof(start), "\n%s ", series);
    const char *line = strstr(json_get_text(answer, "text", ""), start);
    if (!line)
        fail_msg("there is no '%s'", series);
    return strtoull(line + strlen(start), NULL, 10);
}

void test_caller_cancel(struct test_caller *c, uint64_t id)
{
    struct message_cancel m = { .cancelled_id = id };
    SEND_MESSAGE(c, cancel, id + 1000, &m);
}

void test_caller_fetch_name(struct test_caller *c, const char *database_id, const char *name,
                            const char *args)
{
    struct message_fetch_name m = { .inline_limit = LIMIT_INLINE_OBJECT,
                                    .database_id = bytes_of_text(database_id),
                                    .name = bytes_of_text(name),
                                    .args = bytes_of_text(args) };
    SEND_MESSAGE(c, fetch_name, 7, &m);
    fake_executor_run_tasks(&c->fixture->executor);
}

void test_caller_fetch_source(struct test_caller *c, uint64_t id, const char *program,
                              enum priority priority)
{
    struct message_fetch_source m = {
        .priority = (uint8_t)priority,
        .target = bytes_of_text(FIXTURE_TARGET),
        .program = bytes_of_text(program),
        .source = bytes_of_text("kernel void k() {}"),
    };
    SEND_MESSAGE(c, fetch_source, id, &m);
}

struct message_result reply_result(const struct test_caller *c, size_t index)
{
    assert_true(index < c->reply_count);
    assert_int_equal(c->replies[index].type, MESSAGE_kernels);
    struct reader r = reader_of(c->replies[index].body);
    struct message_kernels m = message_kernels_read(&r);
    assert_int_equal(m.count, 1);
    struct reader list = reader_of(m.results);
    struct message_result result = message_result_read(&list);
    assert_false(list.failed);
    return result;
}

struct message_error reply_error(const struct test_caller *c, size_t index)
{
    assert_true(index < c->reply_count);
    assert_int_equal(c->replies[index].type, MESSAGE_error);
    struct reader r = reader_of(c->replies[index].body);
    struct message_error m = message_error_read(&r);
    assert_false(r.failed);
    return m;
}

struct message_result last_result(const struct test_caller *c)
{
    assert_true(c->reply_count > 0);
    return reply_result(c, c->reply_count - 1);
}

void assert_reply_refuses(const struct test_caller *c, size_t index, enum kiln_code code,
                          const char *words)
{
    struct message_error e = reply_error(c, index);
    KILN_AUTO(mem) char *text = bytes_to_text(e.text);
    if (e.code != code)
        fail_msg("code %d, not %d: '%s'", e.code, (int)code, text);
    assert_says(text, words);
}

struct json *reply_json(const struct test_caller *c, size_t index)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct json *json = NULL;
    assert_true(index < c->reply_count);
    if (c->replies[index].type == MESSAGE_error) {
        KILN_AUTO(mem) char *text = bytes_to_text(reply_error(c, index).text);
        fail_msg("refused: '%s'", text);
    }
    assert_int_equal(c->replies[index].type, MESSAGE_json);
    must(json_parse(c->replies[index].body, "reply", &json, &err), err);
    return json;
}

void reply_object(const struct test_caller *c, size_t index, size_t number,
                  struct buffer *ret_content)
{
    struct kiln_err err = KILN_ERR_INIT;
    assert_true(index < c->reply_count && number < c->replies[index].object_count);
    const struct object *object = c->replies[index].objects[number];
    must(fs_read_fd(object->fd, object->size, ret_content, &err), err);
}

uint64_t engine_fixture_stat(struct engine_fixture *f, const char *name)
{
    struct test_caller c;
    test_caller_connect(&c, f, 0, ROLE_USE);
    KILN_AUTO(json) struct json *stats = test_caller_ask(&c, MESSAGE_stats, NULL);
    const struct json *from = strncmp(name, "hits.", 5) == 0 ? json_get(stats, "hits") : stats;
    const char *member = from == stats ? name : name + 5;
    assert_non_null(json_get(from, member));
    uint64_t value = json_get_u64(from, member, 0);
    test_caller_leave(&c);
    return value;
}
