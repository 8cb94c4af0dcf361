/* SPDX-License-Identifier: MIT */
/* A service manager restarts kilnd while 16 clients are busy, and no request may fail.
 * Arguments: the number of restarts in the last test, and the tests to run. */
#include "common/base/clock.h"
#include "tests/support/daemon_client.h"
#include "tests/support/raw_client.h"
#include "tests/support/service_manager.h"
#include "tests/support/test_files.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLIENTS 16
#define KERNELS 3
/* a target for which clang compiles a source to the same bytes each time */
#define TARGET "gfx942"
#define REQUESTS_BETWEEN 2000

static unsigned restarts = 4;

struct load {
    atomic_bool over;
    atomic_ullong requests, slowest_ns;
    atomic_uint failures, ready;
    /* each kernel's size and hash; 0 until a client has received the kernel */
    atomic_ullong sizes[KERNELS], hashes[KERNELS];
};

struct fixture {
    struct daemon_process daemon;
    struct service_manager manager;
    struct program_result result;
    struct load *load;
};

SET_UP(setup)
{
    daemon_process_init(&f->daemon);
    assert_int_equal(chmod(f->daemon.directory, 0711), 0);
    f->daemon.keep_log = true;
    f->load = test_shared_memory(sizeof(*f->load));
}

TEAR_DOWN(teardown)
{
    if (f->daemon.pid)
        daemon_process_stop(&f->daemon);
    if (f->manager.daemon)
        service_manager_close(&f->manager);
}

FIXTURE(restart, setup, teardown);

static void start_with_flag(struct fixture *f, const char *name, const char *value)
{
    size_t count = 0;
    while (f->daemon.arguments[count])
        count++;
    f->daemon.arguments[count] = name;
    f->daemon.arguments[count + 1] = value;
}

static void start_kilnd(struct fixture *f, bool with_socket)
{
    start_with_flag(f, "--descriptor-store", "on");
    service_manager_open(&f->manager, &f->daemon, with_socket);
    service_manager_start(&f->manager);
}

static bool has_expected_bytes(struct load *load, unsigned n, struct kiln_kernel *kernel)
{
    unsigned long long none = 0, other = 0, size = kiln_kernel_size(kernel);
    unsigned long long hash =
        bytes_hash(bytes_of(kiln_kernel_data(kernel), kiln_kernel_size(kernel)), 1) | 1;
    bool same_size = atomic_compare_exchange_strong(&load->sizes[n], &none, size) || none == size;
    return same_size &&
           (atomic_compare_exchange_strong(&load->hashes[n], &other, hash) || other == hash);
}

static bool fetch_kernel(struct load *load, struct kiln_client *client, unsigned n,
                         struct kiln_error *err)
{
    char options[32];
    snprintf(options, sizeof(options), "-DN=%u", n);
    struct kiln_kernel_source source = {
        .size = sizeof(source),
        .target = TARGET,
        .toolchain = "clang",
        .program = "scale.hip",
        .options = options,
        .source = "extern \"C\" __attribute__((global))\n"
                  "void scale(float *x) { x[__builtin_amdgcn_workitem_id_x()] *= N; }\n",
    };
    struct kiln_kernel *kernel = NULL;
    if (kiln_kernel_fetch_source(client, &source, &kernel, err))
        return false;
    bool right = has_expected_bytes(load, n, kernel);
    kiln_kernel_unref(kernel);
    return right;
}

static void fetch_all(struct fixture *f)
{
    struct kiln_client *client = daemon_client(&f->daemon);
    struct kiln_error err = { 0 };
    for (unsigned n = 0; n < KERNELS; n++) {
        if (!fetch_kernel(f->load, client, n, &err))
            fail_msg("kernel %u: %s", n, err.text);
    }
    kiln_client_close(client);
}

static void note_time(struct load *load, uint64_t took)
{
    unsigned long long slowest = atomic_load(&load->slowest_ns);
    while (took > slowest && !atomic_compare_exchange_weak(&load->slowest_ns, &slowest, took)) {
    }
}

static int run_client(struct fixture *f)
{
    struct load *load = f->load;
    struct kiln_client *client = daemon_client(&f->daemon);
    struct kiln_error err = { 0 };
    bool good = !kiln_client_ping(client, 0, NULL, &err);
    atomic_fetch_add(&load->ready, 1);
    for (unsigned n = 0; good && !atomic_load(&load->over); n = (n + 1) % KERNELS) {
        uint64_t begun = clock_monotonic_ns();
        good = fetch_kernel(load, client, n, &err);
        note_time(load, clock_monotonic_ns() - begun);
        atomic_fetch_add(&load->requests, 1);
    }
    if (!good) {
        atomic_fetch_add(&load->failures, 1);
        fprintf(stderr, "client: %s\n", err.code ? err.text : "not the bytes that others have");
    }
    kiln_client_close(client);
    return good ? 0 : 1;
}

static void expect_ping(struct fixture *f)
{
    run_program(&f->daemon, &f->result, "kilnctl", "ping", NULL);
    assert_int_equal(f->result.status, 0);
}

static bool has_status(void *context)
{
    char text[256];
    service_manager_status(context, text);
    return strstr(text, "3 kernels") != NULL;
}

static bool has_refused(void *context)
{
    char text[256];
    service_manager_status(context, text);
    return strstr(text, "kilnctl doctor") != NULL;
}

static bool has_reloaded(void *context) { return service_manager_counts(context).ready == 2; }

TEST_F(restart, the_service_manager_is_notified_of_start_reload_and_stop)
{
    char text[256];
    /* longer than the unit's TimeoutStopSec=, so kilnd must extend that time */
    start_with_flag(f, "--drain-timeout", "50s");
    start_kilnd(f, true);
    assert_int_equal(service_manager_counts(&f->manager).ready, 1);
    service_manager_status(&f->manager, text);
    assert_says(text, "0 kernels");
    fetch_all(f);
    wait_until("the status to count 3 kernels", has_status, &f->manager);

    assert_int_equal(kill(f->daemon.pid, SIGHUP), 0);
    wait_until("the second READY=1", has_reloaded, &f->manager);
    assert_int_equal(service_manager_counts(&f->manager).reloading, 1);

    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    service_manager_settle(&f->manager);
    assert_int_equal(service_manager_counts(&f->manager).stopping, 1);
    assert_int_equal(service_manager_counts(&f->manager).extended_us, 65000000);
    assert_int_equal(service_manager_counts(&f->manager).watchdog, 0);
}

/* `systemctl status` shows this text above the log. */
TEST_F(restart, after_a_refused_reload_the_status_names_the_command_that_explains_it)
{
    const char *path = test_path(f->daemon.directory, "kilnd.json");
    test_write_text(path, "{}");
    start_with_flag(f, "--config", path);
    start_kilnd(f, true);
    test_write_text(path, "{\"hot_limit\": \"much\"}");
    assert_int_equal(kill(f->daemon.pid, SIGHUP), 0);
    wait_until("a status that names kilnctl doctor", has_refused, &f->manager);
}

static bool is_fed(void *context) { return service_manager_counts(context).watchdog >= 3; }

TEST_F(restart, the_watchdog_is_notified_while_the_loop_runs)
{
    service_manager_open(&f->manager, &f->daemon, true);
    f->manager.watchdog_us = "100000";
    service_manager_start(&f->manager);
    wait_until("three WATCHDOG=1", is_fed, &f->manager);

    assert_int_equal(kill(f->daemon.pid, SIGSTOP), 0);
    service_manager_settle(&f->manager);
    unsigned fed = service_manager_counts(&f->manager).watchdog;
    service_manager_settle(&f->manager);
    assert_int_equal(service_manager_counts(&f->manager).watchdog, fed);
    assert_int_equal(kill(f->daemon.pid, SIGCONT), 0);
}

TEST_F(restart, a_watchdog_for_another_process_is_not_fed)
{
    service_manager_open(&f->manager, &f->daemon, true);
    f->manager.watchdog_us = "1000";
    f->manager.watchdog_pid = "1";
    service_manager_start(&f->manager);
    expect_ping(f);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    service_manager_settle(&f->manager);
    assert_int_equal(service_manager_counts(&f->manager).watchdog, 0);
}

TEST_F(restart, an_invalid_watchdog_interval_is_reported)
{
    service_manager_open(&f->manager, &f->daemon, true);
    f->manager.watchdog_us = "soon";
    service_manager_start(&f->manager);
    KILN_AUTO(mem) char *log = daemon_process_log(&f->daemon);
    assert_says(log, "WATCHDOG_USEC 'soon'");
}

static void expect_nothing_compiled(struct fixture *f)
{
    fetch_all(f);
    assert_int_equal(daemon_stat(&f->daemon, "hits.disk"), KERNELS);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);
}

TEST_F(restart, the_socket_of_the_manager_is_not_stored_with_it)
{
    start_kilnd(f, true);
    fetch_all(f);
    service_manager_restart(&f->manager, SIGTERM);
    expect_nothing_compiled(f);
    assert_int_equal(service_manager_counts(&f->manager).stored, 0);
}

TEST_F(restart, a_manager_without_a_descriptor_store_is_not_given_the_socket)
{
    service_manager_open(&f->manager, &f->daemon, false);
    service_manager_start(&f->manager);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    service_manager_settle(&f->manager);
    assert_int_equal(service_manager_counts(&f->manager).stored, 0);
}

TEST_F(restart, a_manager_that_announces_a_descriptor_store_gets_the_socket)
{
    service_manager_open(&f->manager, &f->daemon, false);
    f->manager.store_size = "16";
    service_manager_start(&f->manager);
    service_manager_settle(&f->manager);
    assert_int_equal(service_manager_kept(&f->manager, "kiln-listen-"), 1);
}

TEST_F(restart, the_socket_comes_through_a_kill)
{
    struct stat before, after;
    start_kilnd(f, false);
    fetch_all(f);
    assert_int_equal(stat(f->daemon.socket, &before), 0);
    service_manager_settle(&f->manager);
    service_manager_restart(&f->manager, SIGKILL);
    assert_int_equal(stat(f->daemon.socket, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    expect_ping(f);
}

static ino_t inode_of(const char *path)
{
    struct stat seen;
    assert_int_equal(stat(path, &seen), 0);
    return seen.st_ino;
}

TEST_F(restart, a_socket_that_kilnd_made_takes_connections_while_there_is_no_kilnd)
{
    start_kilnd(f, false);
    ino_t before = inode_of(f->daemon.socket);
    fetch_all(f);
    assert_int_equal(service_manager_kept(&f->manager, "kiln-listen-"), 1);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    service_manager_settle(&f->manager);

    /* No kilnd runs, but the service manager keeps the socket open, so connecting succeeds. */
    KILN_AUTO(fd)
    int early = raw_connect(&f->daemon);
    service_manager_start(&f->manager);

    assert_int_equal(inode_of(f->daemon.socket), before);
    assert_true(early >= 0);
    expect_nothing_compiled(f);
}

TEST_F(restart, a_socket_that_was_not_kept_is_created_again)
{
    start_kilnd(f, false);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    service_manager_settle(&f->manager);
    service_manager_forget(&f->manager);
    assert_int_equal(access(f->daemon.socket, F_OK), 0);

    service_manager_start(&f->manager);

    expect_ping(f);
    assert_int_equal(service_manager_kept(&f->manager, "kiln-listen-"), 1);
}

TEST_F(restart, a_kept_socket_whose_file_was_removed_is_not_used)
{
    start_kilnd(f, false);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    service_manager_settle(&f->manager);
    assert_int_equal(unlink(f->daemon.socket), 0);

    service_manager_start(&f->manager);

    expect_ping(f);
    service_manager_settle(&f->manager);
    assert_int_equal(service_manager_kept(&f->manager, "kiln-listen-"), 1);
    KILN_AUTO(mem) char *log = daemon_process_log(&f->daemon);
    assert_says(log, "another file");
}

static int pipe_end(void)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[1]);
    return ends[0];
}

TEST_F(restart, descriptors_that_kilnd_does_not_use_are_closed)
{
    start_with_flag(f, "--descriptor-store", "on");
    service_manager_open(&f->manager, &f->daemon, true);
    /* An earlier version of kilnd stored descriptors under the name "kiln-hot-a". */
    service_manager_put(&f->manager, pipe_end(), "kiln-hot-a");
    service_manager_put(&f->manager, pipe_end(), "kiln-listen-1-1");

    service_manager_start(&f->manager);

    service_manager_settle(&f->manager);
    assert_int_equal(service_manager_kept(&f->manager, "kiln-"), 0);
    expect_ping(f);
}

TEST_F(restart, two_sockets_are_refused)
{
    service_manager_open(&f->manager, &f->daemon, true);
    service_manager_put(&f->manager, fcntl(f->manager.listener, F_DUPFD_CLOEXEC, 3), "another");
    f->daemon.pid = fork();
    assert_true(f->daemon.pid >= 0);
    if (f->daemon.pid == 0) {
        int log = open(f->daemon.log, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        dup2(log, STDERR_FILENO);
        f->daemon.prepare(f->daemon.context);
        execl(KILN_BIN "/kilnd", "kilnd", NULL);
        _exit(127);
    }
    assert_int_equal(daemon_process_wait(&f->daemon), 1);
    KILN_AUTO(mem) char *log = daemon_process_log(&f->daemon);
    assert_says(log, "LISTEN_FDS");
    assert_says(log, " 2 ");
}

struct progress {
    struct load *load;
    unsigned long long wanted;
};

static bool has_come_so_far(void *context)
{
    struct progress *p = context;
    return atomic_load(&p->load->requests) >= p->wanted || atomic_load(&p->load->failures) > 0;
}

static bool all_ready(void *context)
{
    return atomic_load(&((struct load *)context)->ready) == CLIENTS;
}

TEST_F(restart, sixteen_clients_at_work_do_not_notice_restarts)
{
    struct load *load = f->load;
    pid_t pids[CLIENTS];
    start_kilnd(f, true);
    fetch_all(f);
    for (int i = 0; i < CLIENTS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(run_client(f));
    }
    wait_until("all clients to connect", all_ready, load);
    for (unsigned i = 0; i < restarts; i++) {
        struct progress progress = { load, atomic_load(&load->requests) + REQUESTS_BETWEEN };
        wait_until("more requests to be answered", has_come_so_far, &progress);
        service_manager_restart(&f->manager, SIGTERM);
    }
    struct progress progress = { load, atomic_load(&load->requests) + REQUESTS_BETWEEN };
    wait_until("more requests to be answered", has_come_so_far, &progress);
    atomic_store(&load->over, true);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(wait_program(pids[i]), 0);
    assert_int_equal(atomic_load(&load->failures), 0);
    assert_int_equal(daemon_stat(&f->daemon, "misses"), 0);
    print_message("%u restarts, %llu requests, the slowest took %.0f ms\n", restarts,
                  (unsigned long long)atomic_load(&load->requests),
                  (double)atomic_load(&load->slowest_ns) / 1e6);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        restarts = (unsigned)strtoul(argv[1], NULL, 10);
    return test_run(argc > 2 ? argv[2] : NULL);
}
