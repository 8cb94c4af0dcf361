/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that nobody should be sent, with every request: each is answered, kilnd lives, others
 * are served, and none stays open.
 */
#include "tests/integration/attack_steps.h"
#include "tests/support/hostile_descriptors.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct taker { /* a request that takes a file */
    enum message_type type;
    const char *json;
    bool is_text;    /* lines that make no sense are left out, so that any file may do */
    bool by_admin;   /* from an administrator alone */
    bool wants_seal; /* nothing but a sealed memfd will do */
} takers[] = {
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
};
#define TAKER_COUNT (sizeof(takers) / sizeof(takers[0]))

static int end(void **state)
{
    attack_end(*state);
    return 0;
}

static int set_up(void **state)
{
    attack_connect(*state);
    return 0;
}

static int tear_down(void **state)
{
    attack_disconnect(*state);
    return 0;
}

FIXTURE(attack, set_up, tear_down);

/* ---- descriptors of kilnd ---- */

struct count {
    const struct arena *arena;
    unsigned most;
};

static bool is_as_few(void *context)
{
    const struct count *count = context;
    return attack_descriptors(count->arena) <= count->most;
}

/* They are closed by threads of their own, so that may take a moment. */
static void no_more_than(const struct arena *a, unsigned most)
{
    struct count count = { .arena = a, .most = most };
    if (!holds_in_time(is_as_few, &count))
        fail_msg("kilnd has %u descriptors open, %u before", attack_descriptors(a), most);
    raw_expect_pong(a->victim);
}

/* ---- what is sent ---- */

static enum kiln_code give(struct arena *a, const struct taker *taker, int file, char text[512])
{
    static struct raw_frame frame;
    int fd = taker->by_admin ? a->admin : a->attacker;
    raw_send_files(fd, taker->type, 5, bytes_of_text(taker->json), 1, &file, 1);
    raw_receive_last(fd, &frame);
    raw_close_descriptors(&frame);
    return raw_refusal(&frame, text);
}

/* The first of each kind opens what stays open. */
static void give_first(struct arena *a)
{
    attack_connect(a);
    attack_fetch_source(a->admin, 1); /* a toolchain for gfx90a is known then */
    for (size_t i = 0; i < TAKER_COUNT; i++) {
        char text[512];
        int file = hostile_descriptors[0].open();
        give(a, &takers[i], file, text);
        close(file);
    }
    attack_disconnect(a);
}

static void give_each(struct arena *a, const struct taker *taker)
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
        enum kiln_code code = give(a, taker, file, text);
        close(file);
        bool may_do = taker->is_text && hostile->is_regular;
        if (!code && !may_do)
            fail_msg("'%s' takes %s", message_name(taker->type), hostile->name);
        if (code && !text[0])
            fail_msg("'%s' does not say what is wrong with %s", message_name(taker->type),
                     hostile->name);
        if (code && taker->wants_seal && !hostile->is_regular)
            assert_says(text, "sealed");
    }
}

TEST(attack, whatever_comes_in_place_of_a_file_is_refused_and_closed)
{
    struct arena *a = *state;
    attack_need_root();
    unsigned before = attack_descriptors(a);
    for (size_t i = 0; i < TAKER_COUNT; i++)
        give_each(a, &takers[i]);
    no_more_than(a, before);
}

/* With O_PATH anybody may open what he may not read: nobody opens it anew with more rights. */
TEST(attack, a_descriptor_that_may_not_read_does_not_get_its_file_read)
{
    struct arena *a = *state;
    char text[512];
    attack_need_root();
    int file = open(a->own->path, O_PATH | O_CLOEXEC); /* a whole cache, and root may read it */
    assert_true(file >= 0);
    assert_int_equal(give(a, &takers[0], file, text), KILN_IO);
    assert_says(text, "cannot read");
    close(file);
    assert_int_equal(attack_fetch_name(a->attacker, SECRET_PROGRAM, SECRET_ARGS).code,
                     KILN_NOT_FOUND);
}

/* ---- files that change ---- */

#define CHANGING_SIZE (6u << 20)

struct changing {
    int file;
    atomic_bool stop;
};

static void *change(void *context)
{
    struct changing *c = context;
    while (!atomic_load(&c->stop)) {
        if (ftruncate(c->file, 0) != 0 || ftruncate(c->file, CHANGING_SIZE) != 0)
            abort();
    }
    return NULL;
}

TEST(attack, a_file_that_shrinks_and_grows_while_it_is_read_harms_nobody)
{
    struct arena *a = *state;
    struct changing c = { .file = -1 };
    pthread_t thread;
    attack_need_root();
    c.file = memfd_create("changing", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    unsigned before = attack_descriptors(a);
    assert_int_equal(ftruncate(c.file, CHANGING_SIZE), 0);
    assert_int_equal(pthread_create(&thread, NULL, change, &c), 0);
    for (size_t i = 0; i < TAKER_COUNT; i++) {
        char text[512];
        enum kiln_code code = give(a, &takers[i], c.file, text);
        if (!code && !takers[i].is_text)
            fail_msg("'%s' takes a file that changes", message_name(takers[i].type));
    }
    atomic_store(&c.stop, true);
    pthread_join(thread, NULL);
    close(c.file);
    no_more_than(a, before);
}

/* ---- where none are wanted, and other numbers than announced ---- */

static bool takes_files(unsigned type)
{
    for (size_t i = 0; i < TAKER_COUNT; i++) {
        if (takers[i].type == type)
            return true;
    }
    return false;
}

TEST(attack, a_request_that_takes_no_file_refuses_one)
{
    static const unsigned types[] = {
#define KILN_REQUEST(name, number, who, body, purpose) number,
#define KILN_REPLY(name, number, body, purpose)
#include "common/messages.def"
#undef KILN_REQUEST
#undef KILN_REPLY
    };
    struct arena *a = *state;
    attack_need_root();
    unsigned before = attack_descriptors(a);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        int files[2] = { hostile_descriptors[1].open(), hostile_descriptors[6].open() };
        if (takes_files(types[i]))
            continue;
        raw_send_files(a->admin, types[i], 6, (struct bytes){ 0 }, 2, files, 2);
        raw_expect_error(a->admin, KILN_INVALID, "descriptors");
        close(files[0]);
        close(files[1]);
    }
    raw_expect_pong(a->admin);
    no_more_than(a, before);
}

TEST(attack, other_numbers_than_announced_are_refused_and_closed)
{
    static const struct {
        unsigned announced, sent;
        bool lives; /* the connection, for what was not announced is closed unseen */
    } cases[] = {
        { 2, 1, false }, { 1, 0, false },  { 1, 2, false },     { 2, 3, false },
        { 0, 1, true },  { 0, 253, true }, { 253, 253, false }, { 0xffff, 1, false },
    };
    struct arena *a = *state;
    int files[LIMIT_FRAME_DESCRIPTORS];
    attack_need_root();
    unsigned before = attack_descriptors(a);
    for (size_t i = 0; i < LIMIT_FRAME_DESCRIPTORS; i++)
        files[i] = hostile_descriptors[i % 2 ? 8 : 0].open();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        static struct raw_frame frame;
        int fd = raw_greeted_as(&a->daemon, ATTACKER);
        raw_send_files(fd, MESSAGE_tuning_merge, 6, (struct bytes){ 0 }, cases[i].announced, files,
                       cases[i].sent);
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
    no_more_than(a, before);
}

static int begin(void **state)
{
    static struct arena a;
    static const char *const none[] = { NULL };
    *state = &a;
    attack_begin(&a, none);
    if (a.daemon.pid)
        give_first(&a);
    return 0;
}

TEST_PROGRAM(begin, end)
