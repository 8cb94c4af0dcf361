/* SPDX-License-Identifier: MIT */
/*
 * kilnd restarted by a service manager: what it is told, what it keeps, and that 16 clients at work
 * do not notice.  Arguments: how often the last test restarts kilnd, and which tests to run.
 */
#include "common/clock.h"
#include "common/fs.h"
#include "daemon/manager/parcel.h"
#include "engine/digest/sha256.h"
#include "engine/store/hot_image.h"
#include "tests/support/raw_client.h"
#include "tests/support/service_manager.h"

#include <kiln/kiln.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLIENTS 16
#define KERNELS 3
#define TARGET "gfx942" /* clang makes the same bytes of the same source each time */
/* Between two restarts. */
#define REQUESTS_BETWEEN 2000

static unsigned restarts = 4;

struct load { /* shared with the clients */
    atomic_bool over;
    atomic_ullong requests, slowest_ns;
    atomic_uint failures, ready;
    atomic_ullong sizes[KERNELS], hashes[KERNELS]; /* 0: nobody had it yet */
};

struct fixture {
    struct daemon_process daemon;
    struct service_manager manager;
    struct program_result result;
    struct load *load;
};

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    daemon_process_init(&f.daemon);
    assert_int_equal(chmod(f.daemon.folder, 0711), 0);
    f.daemon.keep_log = true;
    f.load = mmap(NULL, sizeof(*f.load), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(f.load, MAP_FAILED);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    if (f->daemon.pid)
        daemon_process_stop(&f->daemon);
    if (f->manager.daemon)
        service_manager_close(&f->manager);
    daemon_process_remove(&f->daemon);
    munmap(f->load, sizeof(*f->load));
    return 0;
}

FIXTURE(restart, setup, teardown);

static void argue(struct fixture *f, const char *name, const char *value)
{
    size_t count = 0;
    while (f->daemon.arguments[count])
        count++;
    f->daemon.arguments[count] = name;
    f->daemon.arguments[count + 1] = value;
}

static void start(struct fixture *f, bool with_socket)
{
    argue(f, "--descriptor-store", "on");
    service_manager_open(&f->manager, &f->daemon, with_socket);
    service_manager_start(&f->manager);
}

/* kilnd's log so far; owned by the caller. */
static char *read_log(const struct fixture *f)
{
    char path[256];
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer log;
    buffer_init(&log, 1u << 20);
    snprintf(path, sizeof(path), "%s/kilnd.log", f->daemon.folder);
    must(fs_read_file(path, 1u << 20, &log, &err), err);
    return bytes_to_text(buffer_view(&log));
}

/* ---- clients ---- */

static struct kiln_client *client_of(const struct fixture *f)
{
    struct kiln_client_options options = { .size = sizeof(options),
                                           .socket_path = f->daemon.socket,
                                           .timeout_ms = 120000,
                                           .table_entries = -1 };
    struct kiln_client *client = NULL;
    struct kiln_error err;
    if (kiln_client_open(&options, &client, &err))
        fail_msg("%s", err.text);
    return client;
}

/* All clients must have the same bytes, before and after. */
static bool is_right(struct load *load, unsigned n, struct kiln_kernel *kernel)
{
    unsigned long long none = 0, other = 0, size = kiln_kernel_size(kernel);
    unsigned long long hash =
        bytes_hash(bytes_of(kiln_kernel_data(kernel), kiln_kernel_size(kernel)), 1) | 1;
    bool same_size = atomic_compare_exchange_strong(&load->sizes[n], &none, size) || none == size;
    return same_size &&
           (atomic_compare_exchange_strong(&load->hashes[n], &other, hash) || other == hash);
}

static bool fetch(struct load *load, struct kiln_client *client, unsigned n, struct kiln_error *err)
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
    if (kiln_kernel_fetch_source(client, &source, 0, &kernel, err))
        return false;
    bool right = is_right(load, n, kernel);
    kiln_kernel_unref(kernel);
    return right;
}

static void fetch_all(struct fixture *f)
{
    struct kiln_client *client = client_of(f);
    struct kiln_error err = { 0 };
    for (unsigned n = 0; n < KERNELS; n++) {
        if (!fetch(f->load, client, n, &err))
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

static int work(struct fixture *f)
{
    struct load *load = f->load;
    struct kiln_client *client = client_of(f);
    struct kiln_error err = { 0 };
    bool good = !kiln_client_ping(client, 0, NULL, &err);
    atomic_fetch_add(&load->ready, 1);
    for (unsigned n = 0; good && !atomic_load(&load->over); n = (n + 1) % KERNELS) {
        uint64_t begun = clock_monotonic_ns();
        good = fetch(load, client, n, &err);
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

/* ---- what the manager is told ---- */

static bool has_status(void *context)
{
    char text[256];
    service_manager_status(context, text);
    return strstr(text, "3 kernels asked for") != NULL;
}

static bool has_reloaded(void *context) { return service_manager_counts(context).ready == 2; }

TEST(restart, the_manager_is_told_of_start_work_reload_and_stop)
{
    struct fixture *f = *state;
    char text[256];
    argue(f, "--drain-timeout", "50s"); /* longer than the unit's TimeoutStopSec= */
    start(f, true);
    assert_int_equal(service_manager_counts(&f->manager).ready, 1);
    service_manager_status(&f->manager, text);
    assert_says(text, "0 kernels asked for");
    fetch_all(f);
    assert_true(wait_until(has_status, &f->manager));

    assert_int_equal(kill(f->daemon.pid, SIGHUP), 0);
    assert_true(wait_until(has_reloaded, &f->manager));
    assert_int_equal(service_manager_counts(&f->manager).reloading, 1);

    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    service_manager_settle(&f->manager);
    assert_int_equal(service_manager_counts(&f->manager).stopping, 1);
    assert_int_equal(service_manager_counts(&f->manager).extended_us, 65000000);
    assert_int_equal(service_manager_counts(&f->manager).watchdog, 0);
}

static bool is_fed(void *context) { return service_manager_counts(context).watchdog >= 3; }

TEST(restart, the_watchdog_is_fed_while_the_loop_turns)
{
    struct fixture *f = *state;
    service_manager_open(&f->manager, &f->daemon, true);
    f->manager.watchdog_us = "100000";
    service_manager_start(&f->manager);
    assert_true(wait_until(is_fed, &f->manager));

    assert_int_equal(kill(f->daemon.pid, SIGSTOP), 0); /* as one whose loop is stuck */
    service_manager_settle(&f->manager);
    unsigned fed = service_manager_counts(&f->manager).watchdog;
    service_manager_settle(&f->manager);
    assert_int_equal(service_manager_counts(&f->manager).watchdog, fed);
    assert_int_equal(kill(f->daemon.pid, SIGCONT), 0);
}

TEST(restart, a_watchdog_for_another_process_is_not_fed)
{
    struct fixture *f = *state;
    service_manager_open(&f->manager, &f->daemon, true);
    f->manager.watchdog_us = "1000";
    f->manager.watchdog_pid = "1";
    service_manager_start(&f->manager);
    expect_ping(f);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    service_manager_settle(&f->manager);
    assert_int_equal(service_manager_counts(&f->manager).watchdog, 0);
}

TEST(restart, a_watchdog_that_is_no_number_is_told)
{
    struct fixture *f = *state;
    service_manager_open(&f->manager, &f->daemon, true);
    f->manager.watchdog_us = "soon";
    service_manager_start(&f->manager);
    KILN_AUTO(mem) char *log = read_log(f);
    assert_says(log, "WATCHDOG_USEC 'soon'");
}

/* ---- what it keeps ---- */

static void expect_all_hot(struct fixture *f)
{
    assert_int_equal(daemon_stat(&f->daemon, "hot_objects"), KERNELS);
    fetch_all(f);
    assert_int_equal(daemon_stat(&f->daemon, "hits.hot"), KERNELS);
    assert_int_equal(daemon_stat(&f->daemon, "hits.disk"), 0);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);
}

TEST(restart, the_hot_set_comes_through_a_restart)
{
    struct fixture *f = *state;
    start(f, true);
    fetch_all(f);
    service_manager_restart(&f->manager, SIGTERM);
    expect_all_hot(f);
    service_manager_restart(&f->manager, SIGTERM); /* and through one more */
    expect_all_hot(f);
    assert_int_equal(service_manager_kept(&f->manager, "kiln-listen"), 0); /* it is the manager's */
}

static bool keeps_an_image(void *context)
{
    return service_manager_kept(context, "kiln-hot-") == 2;
}

TEST(restart, the_hot_set_comes_through_a_kill)
{
    struct fixture *f = *state;
    start(f, true);
    fetch_all(f);
    service_manager_restart(&f->manager, SIGTERM);
    assert_true(wait_until(keeps_an_image, &f->manager));
    service_manager_settle(&f->manager);
    service_manager_restart(&f->manager, SIGKILL);
    expect_all_hot(f);
}

/* What it took out to start with is given back before anybody is told that it serves. */
TEST(restart, the_hot_set_comes_through_a_kill_right_after_the_start)
{
    struct fixture *f = *state;
    start(f, true);
    fetch_all(f);
    service_manager_restart(&f->manager, SIGTERM);
    assert_true(keeps_an_image(&f->manager));
    service_manager_restart(&f->manager, SIGKILL);
    expect_all_hot(f);
}

TEST(restart, what_was_cleared_does_not_come_back_after_a_kill)
{
    struct fixture *f = *state;
    start(f, true);
    fetch_all(f);
    service_manager_restart(&f->manager, SIGTERM);
    run_program(&f->daemon, &f->result, "kilnctl", "clear", "--all", "--yes", NULL);
    assert_int_equal(f->result.status, 0);
    service_manager_restart(&f->manager, SIGKILL);
    assert_int_equal(daemon_stat(&f->daemon, "hot_objects"), 0);
    fetch_all(f);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), KERNELS);
}

struct removal {
    struct service_manager *manager;
    unsigned wanted;
};

static bool has_removed(void *context)
{
    const struct removal *r = context;
    return service_manager_counts(r->manager).removed >= r->wanted;
}

TEST(restart, a_manager_that_did_not_hear_what_was_cleared_is_told_again)
{
    struct fixture *f = *state;
    char aside[200];
    start(f, true);
    fetch_all(f);
    service_manager_restart(&f->manager, SIGTERM);
    struct removal removal = { &f->manager, service_manager_counts(&f->manager).removed + 2 };
    snprintf(aside, sizeof(aside), "%s.aside", f->manager.path);
    assert_int_equal(rename(f->manager.path, aside), 0); /* it cannot be reached */
    run_program(&f->daemon, &f->result, "kilnctl", "clear", "--all", "--yes", NULL);
    assert_int_equal(rename(aside, f->manager.path), 0);
    assert_int_equal(f->result.status, 0);
    assert_true(wait_until(has_removed, &removal));
    service_manager_restart(&f->manager, SIGKILL);
    assert_int_equal(daemon_stat(&f->daemon, "hot_objects"), 0);
}

TEST(restart, without_a_place_for_it_the_hot_set_is_not_given_away)
{
    struct fixture *f = *state;
    service_manager_open(&f->manager, &f->daemon, true); /* neither setting nor FDSTORE */
    service_manager_start(&f->manager);
    fetch_all(f);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    service_manager_settle(&f->manager);
    assert_int_equal(service_manager_counts(&f->manager).stored, 0);
}

TEST(restart, a_manager_that_says_it_keeps_descriptors_gets_them)
{
    struct fixture *f = *state;
    service_manager_open(&f->manager, &f->daemon, true);
    f->manager.store_size = "16";
    service_manager_start(&f->manager);
    fetch_all(f);
    service_manager_restart(&f->manager, SIGTERM);
    expect_all_hot(f);
}

static ino_t inode_of(const char *path)
{
    struct stat seen;
    assert_int_equal(stat(path, &seen), 0);
    return seen.st_ino;
}

TEST(restart, a_socket_that_kilnd_made_takes_connections_while_there_is_no_kilnd)
{
    struct fixture *f = *state;
    start(f, false);
    ino_t before = inode_of(f->daemon.socket);
    fetch_all(f);
    assert_int_equal(service_manager_kept(&f->manager, "kiln-listen-"), 1);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    service_manager_settle(&f->manager);

    KILN_AUTO(fd) int early = raw_connect(&f->daemon); /* nobody is there, and it is not refused */
    service_manager_start(&f->manager);

    assert_int_equal(inode_of(f->daemon.socket), before);
    assert_true(early >= 0);
    expect_all_hot(f);
}

TEST(restart, a_socket_that_nobody_kept_is_made_anew)
{
    struct fixture *f = *state;
    start(f, false);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    service_manager_settle(&f->manager);
    service_manager_forget(&f->manager); /* systemctl stop */
    assert_int_equal(access(f->daemon.socket, F_OK), 0);

    service_manager_start(&f->manager);

    expect_ping(f);
    assert_int_equal(service_manager_kept(&f->manager, "kiln-listen-"), 1);
}

TEST(restart, a_kept_socket_whose_file_is_gone_is_not_used)
{
    struct fixture *f = *state;
    start(f, false);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    service_manager_settle(&f->manager);
    assert_int_equal(unlink(f->daemon.socket), 0);

    service_manager_start(&f->manager);

    expect_ping(f);
    service_manager_settle(&f->manager);
    assert_int_equal(service_manager_kept(&f->manager, "kiln-listen-"), 1); /* the new one */
    KILN_AUTO(mem) char *log = read_log(f);
    assert_says(log, "is no more the file that leads to it");
}

/* ---- as many as kilnd keeps ---- */

#define MANY 8192u

static const struct object_origin *made_of_nothing(void *context, const struct object *object)
{
    static const struct object_origin nothing;
    (void)context;
    (void)object;
    return &nothing;
}

static void fill(struct hot_set *set, uint32_t count)
{
    struct kiln_err err = KILN_ERR_INIT;
    static uint8_t
        content[20000]; /* the mean of MIOpen's kernels; every fourth is sent in frames */
    for (uint32_t i = 0; i < count; i++) {
        struct digest key = { { 0 } };
        struct object *object = NULL;
        memcpy(key.bytes, &i, sizeof(i));
        memcpy(content, &i, sizeof(i));
        size_t size = i % 4 == 0 ? 4000 : sizeof(content);
        must(object_from_bytes(bytes_of(content, size), 1, &object, &err), err);
        hot_set_insert(set, &key, object);
        object_unref(object);
    }
}

/* As a kilnd without packages leaves it. */
static void leave_many(struct service_manager *m, uint32_t count)
{
    const struct hot_set_options options = { .limit_bytes = 1u << 30, .limit_count = count };
    const struct hot_image_books books = { .look_up = made_of_nothing };
    const struct hot_image_origin origin = { .uid = geteuid(),
                                             .sequence = 1,
                                             .packages = sha256_of(bytes_of("", 0)) };
    struct kiln_err err = KILN_ERR_INIT;
    struct hot_set *set = NULL;
    HOT_IMAGE_AUTO struct hot_image image = { 0 };
    int ends[2];
    must(hot_set_create(&options, &set, &err), err);
    fill(set, count);
    must(hot_image_write(set, &origin, &books, count, &image, &err), err);
    must(parcel_pack(buffer_view(&image.index), image.fds, image.count, ends, &err), err);
    hot_set_destroy(set);
    service_manager_put(m, ends[0], "kiln-hot-a");
    service_manager_put(m, ends[1], "kiln-hot-a");
}

/* What its threads had of processors so far, which other programs do not add to. */
static double cpu_ms(pid_t pid)
{
    char path[64];
    unsigned long long sum = 0, ns;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    assert_non_null(threads);
    for (struct dirent *e; (e = readdir(threads));) {
        char file[sizeof(path) + sizeof(e->d_name) + sizeof("//schedstat")];
        snprintf(file, sizeof(file), "%s/%s/schedstat", path, e->d_name);
        FILE *stat = e->d_name[0] == '.' ? NULL : fopen(file, "re");
        if (stat && fscanf(stat, "%llu", &ns) == 1)
            sum += ns;
        if (stat)
            fclose(stat);
    }
    closedir(threads);
    return (double)sum / 1e6;
}

TEST(restart, all_that_fits_in_memory_comes_through)
{
    struct fixture *f = *state;
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max / 20 * 9 < MANY)
        skip(); /* kilnd would keep fewer */
    argue(f, "--descriptor-store", "on");
    argue(f, "--package-path", "/nonexistent");
    service_manager_open(&f->manager, &f->daemon, true);
    leave_many(&f->manager, MANY);
    uint64_t begun = clock_monotonic_ns();
    service_manager_start(&f->manager);
    uint64_t took = service_manager_counts(&f->manager).ready_ns - begun;
    double worked_ms = cpu_ms(f->daemon.pid);
    assert_int_equal(daemon_stat(&f->daemon, "hot_objects"), MANY);
    service_manager_restart(&f->manager, SIGTERM);
    assert_int_equal(daemon_stat(&f->daemon, "hot_objects"), MANY);
    print_message("ready %.1f ms after the start, with %u code objects and %.1f ms of processors\n",
                  (double)took / 1e6, MANY, worked_ms);
}

/* What lies with the manager is in flight, and counts for every process of the user. */
TEST(restart, a_limit_that_other_programs_have_too_bounds_what_is_kept)
{
    struct fixture *f = *state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    if (before.rlim_max < 4096)
        skip(); /* kilnd would not have room for them in memory */

    /* scripts/test-valgrind */
    if (getenv("KILN_TEST_VALGRIND")) {
        print_message("skipped: valgrind keeps the limit of open files to itself\n");
        skip();
    }
    const struct rlimit usual = { 1024, before.rlim_max };
    argue(f, "--descriptor-store", "on");
    argue(f, "--package-path", "/nonexistent");
    service_manager_open(&f->manager, &f->daemon, true);
    leave_many(&f->manager, 300);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    service_manager_start(&f->manager);
    unsigned long long taken = daemon_stat(&f->daemon, "hot_objects");
    service_manager_restart(&f->manager, SIGTERM);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(taken, 300);
    assert_int_equal(daemon_stat(&f->daemon, "hot_objects"), 256);
}

/* ---- what nobody should give us ---- */

static int pipe_end(void)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[1]);
    return ends[0];
}

static int parcel_end(struct bytes index)
{
    int ends[2];
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(fd) int file = -1;
    must(fs_memfd("not-sealed", &file, &err), err);
    must(parcel_pack(index, &file, 1, ends, &err), err);
    close(ends[1]);
    return ends[0];
}

TEST(restart, descriptors_that_are_not_what_their_names_say_are_dropped)
{
    struct fixture *f = *state;
    static const uint8_t other_version[64] = "kilnhot\0\x63";
    argue(f, "--descriptor-store", "on");
    service_manager_open(&f->manager, &f->daemon, true);
    service_manager_put(&f->manager, pipe_end(), "kiln-hot-a");
    service_manager_put(&f->manager, parcel_end(bytes_of_text("nonsense")), "kiln-hot-a");
    service_manager_put(&f->manager, parcel_end(bytes_of(other_version, sizeof(other_version))),
                        "kiln-hot-b");
    service_manager_put(&f->manager, pipe_end(), "kiln-listen-1-1");

    service_manager_start(&f->manager);

    service_manager_settle(&f->manager);
    assert_int_equal(service_manager_kept(&f->manager, "kiln-"), 0);
    expect_ping(f);
    KILN_AUTO(mem) char *log = read_log(f);
    assert_says(log, "'kiln-hot-a', which the service manager kept, is not used");
    assert_says(log, "'kiln-hot-b', which the service manager kept, is not used");
}

TEST(restart, two_sockets_are_refused)
{
    struct fixture *f = *state;
    service_manager_open(&f->manager, &f->daemon, true);
    service_manager_put(&f->manager, fcntl(f->manager.listener, F_DUPFD_CLOEXEC, 3), "another");
    f->daemon.pid = fork();
    assert_true(f->daemon.pid >= 0);
    if (f->daemon.pid == 0) {
        char path[256];
        snprintf(path, sizeof(path), "%s/kilnd.log", f->daemon.folder);
        int log = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        dup2(log, STDERR_FILENO);
        f->daemon.prepare(f->daemon.context);
        execl(KILN_BIN "/kilnd", "kilnd", NULL);
        _exit(127);
    }
    assert_int_equal(daemon_process_wait(&f->daemon), 1);
    KILN_AUTO(mem) char *log = read_log(f);
    assert_says(log, "LISTEN_FDS: 2 sockets, kilnd takes exactly one");
}

/* ---- at work ---- */

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

TEST(restart, sixteen_clients_at_work_do_not_notice_restarts)
{
    struct fixture *f = *state;
    struct load *load = f->load;
    pid_t pids[CLIENTS];
    start(f, true);
    fetch_all(f); /* so that each later one is hot, or the hot set was lost */
    for (int i = 0; i < CLIENTS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(work(f));
    }
    assert_true(wait_until(all_ready, load));
    for (unsigned i = 0; i < restarts; i++) {
        struct progress progress = { load, atomic_load(&load->requests) + REQUESTS_BETWEEN };
        assert_true(wait_until(has_come_so_far, &progress));
        service_manager_restart(&f->manager, SIGTERM);
        assert_int_equal(daemon_stat(&f->daemon, "hot_objects"), KERNELS);
    }
    struct progress progress = { load, atomic_load(&load->requests) + REQUESTS_BETWEEN };
    assert_true(wait_until(has_come_so_far, &progress));
    atomic_store(&load->over, true);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(wait_program(pids[i]), 0);
    assert_int_equal(atomic_load(&load->failures), 0);
    assert_int_equal(daemon_stat(&f->daemon, "hits.disk"), 0);
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
