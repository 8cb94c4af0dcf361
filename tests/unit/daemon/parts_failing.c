/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "daemon/config/engine_settings.h"
#include "daemon/host.h"
#include "daemon/loop/signals.h"
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"
#include "daemon/manager/inherited.h"
#include "daemon/manager/notify.h"
#include "daemon/server/account.h"
#include "daemon/server/closer.h"
#include "daemon/server/descriptors.h"
#include "daemon/server/server.h"
#include "tests/support/failing_calls.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct kiln_err err;

SET_UP_STATIC(clear_error) { kiln_err_init(&err); }

FIXTURE(clear, clear_error, NULL);

static enum kiln_code make_loop(void *context, struct kiln_err *ret_err)
{
    struct loop *loop = NULL;
    (void)context;
    enum kiln_code rc = loop_create(&loop, ret_err);
    loop_destroy(loop);
    return rc;
}

TEST(clear, a_loop_that_cannot_be_created_is_an_error)
{
    /* The first loop makes libuv open descriptors that it keeps for later loops. */
    must(make_loop(NULL, &err), err);
    expect_failures(make_loop, NULL, FAILING("eventfd", EMFILE), KILN_IO, "12 descriptors");
    expect_failures(make_loop, NULL, FAILING("calloc", ENOMEM), KILN_NO_MEMORY, "event loop");
    expect_failures(make_loop, NULL, FAILING("timerfd_create", EMFILE), KILN_IO, "timer");
}

static enum kiln_code make_work_queues(void *context, struct kiln_err *ret_err)
{
    struct loop *loop = NULL;
    struct work_queues *work_queues = NULL;
    (void)context;
    must(loop_create(&loop, &err), err);
    enum kiln_code rc = work_queues_create(loop, 1, &work_queues, ret_err);
    work_queues_destroy(work_queues);
    loop_destroy(loop);
    return rc;
}

/* The code must not be KILN_BUSY, which would make the caller retry in vain. */
TEST(clear, threads_that_cannot_be_created_are_an_error)
{
    for (unsigned which = 1; which <= 3; which++) {
        fail_call("pthread_create", which, EAGAIN);
        assert_int_equal(make_work_queues(NULL, &err), KILN_IO);
        assert_true(calls_failed());
        assert_says(err.text, "threads");
        assert_says(err.text, strerror(EAGAIN));
    }
    must(make_work_queues(NULL, &err), err);
}

static void on_ready(struct loop_watch *watch, unsigned events)
{
    (void)watch;
    (void)events;
}

static void on_signal(struct loop_signal *signal, int number)
{
    (void)signal;
    (void)number;
}

TEST(clear, a_descriptor_that_cannot_be_watched_is_an_error)
{
    struct loop *loop = NULL;
    struct loop_owner owner = { 0 };
    struct loop_watch watch = { .ready = on_ready };
    struct loop_signal signal = { .received = on_signal };
    must(loop_create(&loop, &err), err);
    KILN_AUTO(fd) int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    assert_int_not_equal(loop_watch_init(loop, &watch, &owner, file, &err), KILN_OK);
    assert_says(err.text, "watch");
    assert_int_equal(loop_signal_init(loop, &signal, &owner, 9999, &err), KILN_INVALID);
    assert_says(err.text, "signals");
    LOOP_TO_END(loop, "failed handles to close");
    assert_int_equal(owner.open, 0);
    loop_destroy(loop);
}

TEST(clear, a_server_without_memory_or_socket_is_refused)
{
    struct loop *loop = NULL;
    struct closer *closer = NULL;
    struct server *server = NULL;
    struct server_limits limits = SERVER_LIMITS_DEFAULT;
    KILN_AUTO(fd) int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    struct listener listener = { .fd = file, .lock_fd = -1, .path = "some.sock" };
    must(loop_create(&loop, &err), err);
    must(closer_create(&CLOSER_LIMITS_DEFAULT, &closer, &err), err);
    const struct server_options options = {
        .loop = loop, .listener = &listener, .closer = closer, .limits = &limits
    };
    fail_call("calloc", 1, ENOMEM);
    assert_int_equal(server_create(&options, &server, &err), KILN_NO_MEMORY);
    assert_true(calls_failed());
    assert_says(err.text, "server");
    assert_int_not_equal(server_create(&options, &server, &err), KILN_OK);
    assert_says(err.text, "'some.sock'");
    assert_null(server);
    closer_destroy(closer);
    loop_destroy(loop);
}

TEST(clear, a_user_without_an_account_is_refused)
{
    struct accounts accounts;
    const struct account_limits limits = { .connections_uid = 2, .bytes_uid = 100, .bytes = 1000 };
    accounts_init(&accounts, &limits);
    fail_call("calloc", 1, ENOMEM);
    assert_null(account_join(&accounts, 1000));
    assert_true(calls_failed());
    struct account *other = account_join(&accounts, 1001), *one = account_join(&accounts, 1000);
    assert_non_null(other);
    assert_ptr_equal(account_join(&accounts, 1000), one);
    assert_null(account_join(&accounts, 1000));
    account_leave(other);
    account_leave(one);
    account_leave(one);
    assert_true(list_is_empty(&accounts.list));
    accounts.limits.connections_uid = 0;
    assert_null(account_join(&accounts, 1000));
}

static enum kiln_code make_closer(void *context, struct kiln_err *ret_err)
{
    struct closer *closer = NULL;
    (void)context;
    enum kiln_code rc = closer_create(&CLOSER_LIMITS_DEFAULT, &closer, ret_err);
    if (!rc)
        rc = closer_join(closer, 1000, ret_err);
    closer_destroy(closer);
    return rc;
}

TEST(clear, a_closer_that_cannot_be_created_is_an_error)
{
    expect_failures(make_closer, NULL, FAILING("calloc", ENOMEM), KILN_NO_MEMORY, "");
    expect_failures(make_closer, NULL, FAILING("pthread_mutex_init", ENOMEM), KILN_NO_MEMORY,
                    "closes");
    fail_call("calloc", 4, ENOMEM);
    assert_int_equal(make_closer(NULL, &err), KILN_NO_MEMORY);
    assert_true(calls_failed());
    assert_says(err.text, "connection");
}

/* Returns a socket with unread data, whose other end is |ret_far|. The caller closes both. */
static int unread_socket(int *ret_far)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(send(ends[1], "unread", 6, 0), 6);
    *ret_far = ends[1];
    return ends[0];
}

static void wait_until_closed(int fd) { WAIT_FOR(fcntl(fd, F_GETFD) < 0); }

TEST(clear, connections_are_closed_although_there_is_no_memory_to_queue_them)
{
    struct closer *closer = NULL;
    must(closer_create(&CLOSER_LIMITS_DEFAULT, &closer, &err), err);
    for (unsigned nth = 1; nth <= 3; nth++) {
        int far, near = unread_socket(&far);
        fail_call("calloc", nth, ENOMEM);
        closer_take_socket(closer, 1000, near);
        assert_true(calls_failed());
        wait_until_closed(near);
        close(far);
    }
    closer_destroy(closer);
}

TEST(clear, a_file_of_a_joined_user_is_closed_without_more_memory)
{
    struct closer *closer = NULL;
    must(closer_create(&CLOSER_LIMITS_DEFAULT, &closer, &err), err);
    must(closer_join(closer, 1000, &err), err);
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    closer_charge(closer, 1000, 1);
    fail_calls("calloc", ENOMEM);
    closer_take(closer, 1000, file);
    wait_until_closed(file);
    assert_false(calls_failed());
    closer_leave(closer, 1000);
    closer_destroy(closer);
}

TEST(clear, connections_are_closed_when_a_thread_can_be_started)
{
    static const char *const calls[] = { "pthread_create", "pthread_attr_init" };
    for (size_t i = 0; i < 2; i++) {
        struct closer *closer = NULL; /* the thread of the previous closer may still be ending */
        int far, near = unread_socket(&far);
        must(closer_create(&CLOSER_LIMITS_DEFAULT, &closer, &err), err);
        must(closer_join(closer, 1000, &err), err);
        fail_calls(calls[i], EAGAIN);
        closer_take_socket(closer, 1000, near);
        assert_true(calls_failed());
        assert_true(fcntl(near, F_GETFD) >= 0);
        closer_leave(closer, 1000);
        wait_until_closed(near);
        close(far);
        closer_destroy(closer);
    }
}

/* These sockets need no thread: Linux closes them when kilnd ends. */
TEST(clear, sockets_that_still_wait_to_be_closed_at_the_end_are_left_open)
{
    struct closer *closer = NULL;
    int far, near = unread_socket(&far);
    must(closer_create(&CLOSER_LIMITS_DEFAULT, &closer, &err), err);
    must(closer_join(closer, 1001, &err), err);
    fail_calls("pthread_create", EAGAIN);
    closer_take_socket(closer, 1000, near);
    closer_destroy(closer);
    assert_true(calls_failed());
    assert_true(fcntl(near, F_GETFD) >= 0);
    close(near);
    close(far);
}

TEST(clear, limits_that_cannot_be_read_or_raised_have_defaults)
{
    struct rlimit before;
    const struct descriptor_shares wanted = { .connections = 5000, .hot_count = 5000 };
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    fail_call("getrlimit", 1, EPERM);
    struct descriptor_shares got = descriptors_share(wanted);
    assert_true(calls_failed());
    assert_int_equal(got.connections, 256);
    assert_int_equal(got.hot_count, 256);
    const struct rlimit low = { .rlim_cur = 700, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    fail_call("setrlimit", 1, EPERM);
    got = descriptors_share(wanted);
    assert_true(calls_failed());
    assert_int_equal(got.connections + got.hot_count, 188);
    const struct rlimit lower = { .rlim_cur = 600, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &lower), 0);
    fail_call("setrlimit", 1, EPERM);
    got = descriptors_share(wanted);
    assert_true(calls_failed());
    assert_int_equal(got.connections + got.hot_count, 128);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(clear, a_missing_passed_descriptor_is_reported)
{
    struct inherited in = { 0 };
    char pid[32];
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "1", 1);
    fail_call("fcntl", 1, EBADF);
    assert_int_equal(inherited_take(&in, &err), KILN_IO);
    assert_true(calls_failed());
    assert_says(err.text, "descriptor 3");
    assert_int_equal(in.count, 0);
    assert_null(getenv("LISTEN_FDS"));
}

TEST(clear, a_service_manager_that_cannot_be_notified_is_reported)
{
    setenv("NOTIFY_SOCKET", "@kiln-test-nobody", 1);
    notify_adopt();
    assert_true(notify_is_on());
    fail_call("socket", 1, EMFILE);
    assert_false(notify_manager("READY=1", NULL, NOTIFY_MUST_ARRIVE));
    assert_true(calls_failed());
    fail_call("socket", 1, EMFILE);
    assert_false(notify_manager("READY=1", NULL, NOTIFY_MAY_BE_LOST));
    assert_true(calls_failed());
    notify_adopt();
    assert_false(notify_is_on());
    assert_true(notify_manager("READY=1", NULL, NOTIFY_MUST_ARRIVE));
}

static struct config config;

static void load_config(const char *flag)
{
    const char *const with[] = { "kilnd", "--compiler=/bin/true", "--transfer=/bin/true", flag,
                                 NULL };
    const char *const environment[] = { NULL };
    must(config_load(4, with, environment, &config, &err), err);
}

TEST(clear, enumerated_settings_reach_the_engine)
{
    struct engine_settings s;
    static const struct {
        const char *flag;
        enum kernel_store_mode mode;
        enum tuning_stale stale;
    } cases[] = {
        { "--cache=on", KERNEL_STORE_ON, TUNING_WARN },
        { "--cache=off", KERNEL_STORE_OFF, TUNING_WARN },
        { "--cache=read-only", KERNEL_STORE_READ_ONLY, TUNING_WARN },
        { "--tuning-stale=trust", KERNEL_STORE_ON, TUNING_TRUST },
        { "--tuning-stale=ignore", KERNEL_STORE_ON, TUNING_IGNORE },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        load_config(cases[i].flag);
        engine_settings_of(&config, 7, &s);
        assert_int_equal(s.options.store_mode, cases[i].mode);
        assert_int_equal(s.options.tuning_stale, cases[i].stale);
        assert_int_equal(s.options.hot_limit_count, 7);
    }
    char directories[400] = "--package-path=/f", more[] = ":/f";
    for (size_t i = 0; i < PACKAGE_DIRECTORIES_MAX + 3; i++)
        strcat(directories, more);
    load_config(directories);
    engine_settings_of(&config, 7, &s);
    for (size_t i = 0; i < PACKAGE_DIRECTORIES_MAX; i++)
        assert_string_equal(s.directories[i], "/f");
    assert_null(s.directories[PACKAGE_DIRECTORIES_MAX]);
}

TEST(clear, status_and_stats_omit_parts_that_do_not_exist_yet)
{
    struct host host;
    struct listener listener = { .fd = -1, .path = "some.sock" };
    static const struct reload reload;
    load_config("--cache=on");
    host_init(&host, &config, &listener, &reload);
    KILN_AUTO(json) struct json *status = json_object();
    KILN_AUTO(json) struct json *stats = json_object();
    host.base.add_status(&host.base, status);
    host.base.add_stats(&host.base, stats);
    assert_string_equal(json_get_text(status, "socket", ""), "some.sock");
    assert_null(json_get(status, "workers"));
    assert_null(json_get(status, "reload_refused"));
    assert_int_equal(json_count(stats), 1); /* only config_last_reload_successful */
}
