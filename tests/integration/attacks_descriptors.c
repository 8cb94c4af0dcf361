/* SPDX-License-Identifier: MIT */
#include "tests/integration/attack_steps.h"
#include "tests/support/hostile_descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct file_request {
    enum message_type type;
    const char *json;
    size_t zeros; /* if not 0, the body is this many zero bytes instead of |json| */
    /* kilnd accepts any file here, because it skips invalid lines or stores any bytes */
    bool is_text;
    bool by_admin;
    bool wants_seal;
} file_requests[] = {
    { MESSAGE_kernel_import, "{\"name\":\"" CACHE_NAME "\"}", .by_admin = false },
    { MESSAGE_package_install, "{\"name\":\"" DEVICE ".kdb\"}", .by_admin = true },
    { MESSAGE_package_build, "{\"target\":\"gfx90a\"}", .wants_seal = true },
    { MESSAGE_tuning_import, "{\"name\":\"" DEVICE ".HIP.fdb.txt\",\"tier\":\"user\"}",
      .is_text = true },
    { MESSAGE_tuning_merge, "{\"name\":\"" DEVICE ".HIP.fdb.txt\"}", .is_text = true },
    { MESSAGE_tuning_diff,
      "{\"kind\":\"find\",\"database_id\":\"" DEVICE "\",\"a_tier\":\"user\",\"b_name\":\"" DEVICE
      ".HIP.fdb.txt\"}",
      .is_text = true },
    { MESSAGE_compile_end, .zeros = 57, .is_text = true },
};
#define FILE_REQUEST_COUNT (sizeof(file_requests) / sizeof(file_requests[0]))

FIXTURE(attack, attack_connect, attack_disconnect);

struct count {
    const struct attack_setting *arena;
    unsigned count_max;
};

static bool has_at_most(void *context)
{
    const struct count *count = context;
    return attack_descriptors(count->arena) <= count->count_max;
}

/* Fails the test if kilnd keeps more than |count_max| descriptors open. Waits, because kilnd closes
 * descriptors in other threads. */
static void expect_descriptors_at_most(const struct attack_setting *a, unsigned count_max)
{
    struct count count = { .arena = a, .count_max = count_max };
    if (!holds_in_time(has_at_most, &count))
        fail_msg("kilnd has %u descriptors open, %u before", attack_descriptors(a), count_max);
    raw_expect_pong(a->victim);
}

static enum kiln_code send_hostile(struct attack_setting *a, const struct file_request *request,
                                   int file, char text[512])
{
    static struct raw_frame frame;
    static const uint8_t zeros[64];
    int fd = request->by_admin ? a->admin : a->attacker;
    struct bytes body =
        request->zeros ? bytes_of(zeros, request->zeros) : bytes_of_text(request->json);
    raw_send_files(fd, &(struct raw_message){ request->type, 5, body, 1 }, &file, 1);
    raw_receive_last(fd, &frame);
    raw_close_descriptors(&frame);
    return raw_refusal(&frame, text);
}

static void send_first(struct attack_setting *a)
{
    void *state = a;
    attack_connect(&state);
    /* makes kilnd look for its toolchain for gfx90a, which opens descriptors */
    attack_fetch_source(a->admin, 1);
    for (size_t i = 0; i < FILE_REQUEST_COUNT; i++) {
        char text[512];
        int file = hostile_descriptors[0].open();
        send_hostile(a, &file_requests[i], file, text);
        close(file);
    }
    attack_disconnect(&state);
}

static void send_each(struct attack_setting *a, const struct file_request *request)
{
    for (size_t i = 0; i < hostile_descriptor_count; i++) {
        const struct hostile_descriptor *hostile = &hostile_descriptors[i];
        char text[512];
        int file = hostile->open();
        if (file < 0) {
            print_message("left out, as this kernel has none or lets nobody send it: %s\n",
                          hostile->name);
            continue;
        }
        enum kiln_code code = send_hostile(a, request, file, text);
        close(file);
        bool may_do = request->is_text && hostile->is_regular;
        if (!code && !may_do)
            fail_msg("'%s' takes %s", message_name(request->type), hostile->name);
        if (code && !text[0])
            fail_msg("'%s' does not say what is wrong with %s", message_name(request->type),
                     hostile->name);
        if (code && request->wants_seal && !hostile->is_regular)
            assert_says(text, "sealed");
    }
}

TEST(attack, a_hostile_descriptor_in_place_of_a_file_is_refused_and_closed)
{
    struct attack_setting *a = *state;
    need_root();
    unsigned before = attack_descriptors(a);
    for (size_t i = 0; i < FILE_REQUEST_COUNT; i++)
        send_each(a, &file_requests[i]);
    expect_descriptors_at_most(a, before);
}

/* A user can open a file with O_PATH although they may not read it. */
TEST(attack, an_o_path_descriptor_is_not_reopened_for_reading)
{
    struct attack_setting *a = *state;
    char text[512];
    need_root();
    int file = open(a->own.path, O_PATH | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(send_hostile(a, &file_requests[0], file, text), KILN_IO);
    assert_says(text, "cannot read");
    close(file);
    assert_int_equal(attack_fetch_name(a->attacker, SECRET_PROGRAM, SECRET_ARGS).code,
                     KILN_NOT_FOUND);
}

#define CHANGING_SIZE (6u << 20)

struct changing {
    int file;
    atomic_bool stop;
};

static void *change_file(void *context)
{
    struct changing *c = context;
    while (!atomic_load(&c->stop)) {
        if (ftruncate(c->file, 0) == 0 && ftruncate(c->file, CHANGING_SIZE) == 0)
            continue;
        if (errno != EPERM) /* EPERM: kilnd has sealed the file, so it cannot change any more */
            abort();
        return NULL;
    }
    return NULL;
}

TEST(attack, a_file_that_shrinks_and_grows_while_it_is_read_harms_nobody)
{
    struct attack_setting *a = *state;
    struct changing c = { .file = -1 };
    pthread_t thread;
    need_root();
    c.file = memfd_create("changing", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    unsigned before = attack_descriptors(a);
    assert_int_equal(ftruncate(c.file, CHANGING_SIZE), 0);
    assert_int_equal(pthread_create(&thread, NULL, change_file, &c), 0);
    for (size_t i = 0; i < FILE_REQUEST_COUNT; i++) {
        char text[512];
        enum kiln_code code = send_hostile(a, &file_requests[i], c.file, text);
        if (!code && !file_requests[i].is_text)
            fail_msg("'%s' takes a file that changes", message_name(file_requests[i].type));
    }
    atomic_store(&c.stop, true);
    await_thread(thread, NULL);
    close(c.file);
    expect_descriptors_at_most(a, before);
}

static bool takes_files(unsigned type)
{
    for (size_t i = 0; i < FILE_REQUEST_COUNT; i++) {
        if (file_requests[i].type == type)
            return true;
    }
    return false;
}

TEST(attack, a_request_that_takes_no_file_refuses_one)
{
    static const unsigned types[] = {
#define KILN_REQUEST(name, number, role, body, purpose) number,
#define KILN_REPLY(name, number, body, purpose)
#include "common/protocol/messages.def"
#include "tests/support/wait.h"
#undef KILN_REQUEST
#undef KILN_REPLY
    };
    struct attack_setting *a = *state;
    need_root();
    unsigned before = attack_descriptors(a);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        int files[2] = { hostile_descriptors[1].open(), hostile_descriptors[6].open() };
        if (takes_files(types[i]))
            continue;
        raw_send_files(a->admin, &(struct raw_message){ types[i], 6, (struct bytes){ 0 }, 2 },
                       files, 2);
        raw_expect_error(a->admin, KILN_INVALID, "descriptors");
        close(files[0]);
        close(files[1]);
    }
    raw_expect_pong(a->admin);
    expect_descriptors_at_most(a, before);
}

TEST(attack, a_wrong_number_of_descriptors_is_refused_and_closed)
{
    static const struct {
        unsigned announced, sent;
        /* the connection stays usable, because kilnd only closes the unannounced descriptors */
        bool lives;
    } cases[] = {
        { 2, 1, false }, { 1, 0, false },  { 1, 2, false },     { 2, 3, false },
        { 0, 1, true },  { 0, 253, true }, { 253, 253, false }, { 0xffff, 1, false },
    };
    struct attack_setting *a = *state;
    int files[LIMIT_FRAME_DESCRIPTORS];
    need_root();
    unsigned before = attack_descriptors(a);
    for (size_t i = 0; i < LIMIT_FRAME_DESCRIPTORS; i++)
        files[i] = hostile_descriptors[i % 2 ? 8 : 0].open();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        static struct raw_frame frame;
        int fd = raw_greeted_as(&a->daemon, ATTACKER);
        raw_send_files(fd,
                       &(struct raw_message){ MESSAGE_tuning_merge, 6, (struct bytes){ 0 },
                                              cases[i].announced },
                       files, cases[i].sent);
        assert_true(raw_receive(fd, &frame));
        assert_int_equal(raw_refusal(&frame, text), KILN_INVALID);
        if (cases[i].lives)
            raw_expect_pong(fd);
        else
            raw_expect_closed(fd);
        close(fd);
    }
    for (size_t i = 0; i < LIMIT_FRAME_DESCRIPTORS; i++)
        close(files[i]);
    expect_descriptors_at_most(a, before);
}

SET_UP_OF(set_up_group, struct attack_setting)
{
    attack_begin(f, NULL);
    if (f->daemon.pid)
        send_first(f);
}

TEST_PROGRAM(set_up_group, NULL)
