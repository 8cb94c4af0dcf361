/* SPDX-License-Identifier: MIT */
#include "tests/support/engine_fixture.h"

#include <stdio.h>
#include <string.h>

#include <dirent.h>
#include <sys/stat.h>

static void open_engine(struct engine_fixture *f)
{
    struct engine_options options = {
        .executor = &f->executor.base,
        .readers = 1,
        .cache_directory = f->folder,
        .store_limit_bytes = 64u << 20,
        .hot_limit_bytes = 1u << 20,
        .hot_limit_count = 100,
        .failure_ttl_s = 600,
        .queue_limit = 1000,
        .queue_limit_uid = 100,
        .queue_bytes = 1u << 20,
        .queue_bytes_uid = 100u << 10,
    };
    must(engine_open(&options, &f->engine, &f->err), f->err);
    engine_start(f->engine);
}

void engine_fixture_open(struct engine_fixture *f, bool describe)
{
    memset(f, 0, sizeof(*f));
    f->err = KILN_ERR_INIT;
    snprintf(f->folder, sizeof(f->folder), "/tmp/kiln-test-engine-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    fake_executor_init(&f->executor, 1);
    open_engine(f);
    if (describe)
        engine_fixture_describe(f);
}

void engine_fixture_describe(struct engine_fixture *f)
{
    struct compile_task *task = fake_executor_next_compile(&f->executor);
    assert_non_null(task);
    assert_int_equal(task->job.kind, COMPILE_DESCRIBE);
    fake_executor_compile(
        &f->executor,
        bytes_of_text("{\"toolchains\":[{\"name\":\"opencl\",\"version\":\"test\",\"path\":\"/x\","
                      "\"family\":\"opencl\",\"only_target\":\"" FIXTURE_TARGET "\",\"identity\":"
                      "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}]}"));
    fake_executor_run_tasks(&f->executor);
}

static void close_engine(struct engine_fixture *f)
{
    fake_executor_run_tasks(&f->executor);
    assert_true(engine_idle(f->engine)); /* nothing leaked: no flight, task, probe or caller */
    engine_close(f->engine);
    f->engine = NULL;
}

void engine_fixture_reopen(struct engine_fixture *f)
{
    close_engine(f);
    open_engine(f);
    engine_fixture_describe(f);
}

void engine_fixture_close(struct engine_fixture *f)
{
    close_engine(f);
    DIR *dir = opendir(f->folder);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
    assert_int_equal(rmdir(f->folder), 0);
}

/* ---- callers ---- */

static void keep_body(struct kept_reply *kept, const struct reply *reply)
{
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, LIMIT_FRAME_BODY);
    size_t at = 0;
    for (size_t i = 0; i < reply->inlay_count; i++) {
        const struct inlay *inlay = &reply->inlays[i];
        buffer_put(&body, reply->body.data + at, inlay->at - at);
        buffer_put(&body, inlay->object->data, inlay->object->size);
        at = inlay->at;
    }
    buffer_put(&body, reply->body.data + at, reply->body.size - at);
    kept->body = bytes_of(bytes_to_text(buffer_view(&body)), body.size);
}

static void keep(struct caller *caller, const struct reply *reply)
{
    struct test_caller *c = (struct test_caller *)caller;
    assert_true(c->reply_count < REPLIES_KEPT);
    struct kept_reply *kept = &c->replies[c->reply_count++];
    *kept = (struct kept_reply){ .type = reply->type,
                                 .request_id = reply->request_id,
                                 .flags = reply->flags,
                                 .object_count = reply->object_count };
    keep_body(kept, reply);
    if (reply->object_count)
        kept->first_object_size = reply->objects[0]->size;
}

static const struct caller_ops ops = { .reply = keep };

void test_caller_join(struct test_caller *c, struct engine_fixture *f, uid_t uid, enum role role)
{
    memset(c, 0, sizeof(*c));
    c->base.ops = &ops;
    c->base.uid = uid;
    c->base.role = role;
    service_join(f->engine, &c->base);
}

void test_caller_forget_replies(struct test_caller *c)
{
    for (size_t i = 0; i < c->reply_count; i++)
        free((void *)(uintptr_t)c->replies[i].body.data);
    c->reply_count = 0;
}

void test_caller_leave(struct test_caller *c, struct engine_fixture *f)
{
    service_leave(f->engine, &c->base);
    test_caller_forget_replies(c);
}

enum kiln_code test_caller_send(struct test_caller *c, struct engine_fixture *f,
                                enum message_type type, uint64_t id, struct bytes body)
{
    struct frame_header header = { .version = FRAME_VERSION,
                                   .type = (uint16_t)type,
                                   .request_id = id,
                                   .body_size = (uint32_t)body.size };
    return service_handle(f->engine, &c->base, &header, body, &f->err);
}

enum kiln_code test_caller_hello(struct test_caller *c, struct engine_fixture *f)
{
    struct message_hello m = { .oldest_version = 1,
                               .newest_version = 1,
                               .capabilities = CAPABILITIES_HERE };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 1000);
    message_hello_write(&b, &m);
    enum kiln_code rc = test_caller_send(c, f, MESSAGE_hello, 0, buffer_view(&b));
    test_caller_forget_replies(c);
    return rc;
}

void test_caller_want(struct test_caller *c, struct engine_fixture *f, uint64_t id,
                      const char *program, enum priority priority)
{
    struct message_fetch_source m = {
        .priority = (uint8_t)priority,
        .target = bytes_of_text(FIXTURE_TARGET),
        .program = bytes_of_text(program),
        .source = bytes_of_text("kernel void k() {}"),
    };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 10000);
    message_fetch_source_write(&b, &m);
    must(test_caller_send(c, f, MESSAGE_fetch_source, id, buffer_view(&b)), f->err);
}

struct message_outcome reply_outcome(const struct test_caller *c, size_t index)
{
    assert_true(index < c->reply_count);
    assert_int_equal(c->replies[index].type, MESSAGE_kernels);
    struct reader r = reader_of(c->replies[index].body);
    struct message_kernels m = message_kernels_read(&r);
    assert_int_equal(m.count, 1);
    struct reader list = reader_of(m.outcomes);
    struct message_outcome outcome = message_outcome_read(&list);
    assert_false(list.failed);
    return outcome;
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

uint64_t engine_fixture_stat(struct engine_fixture *f, const char *name)
{
    struct test_caller c;
    test_caller_join(&c, f, 0, ROLE_USE);
    must(test_caller_hello(&c, f), f->err);
    must(test_caller_send(&c, f, MESSAGE_stats, 1, (struct bytes){ 0 }), f->err);
    fake_executor_run_tasks(&f->executor);
    assert_int_equal(c.reply_count, 1);
    KILN_AUTO(json) struct json *stats = NULL;
    must(json_parse(c.replies[0].body, "stats", &stats, &f->err), f->err);
    const struct json *from = strncmp(name, "hits.", 5) == 0 ? json_get(stats, "hits") : stats;
    const char *member = from == stats ? name : name + 5;
    assert_non_null(json_get(from, member));
    uint64_t value = json_get_u64(from, member, 0);
    test_caller_leave(&c, f);
    return value;
}
