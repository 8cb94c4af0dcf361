/* SPDX-License-Identifier: MIT */
/* The way into the engine in a job's process, by several threads and by children of fork: with a
 * host, folders and a leader that do what each case says. */
#include "daemon/embedded/host.h"
#include "daemon/embedded/leader.h"
#include "daemon/loop/quiet_thread.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOB_MOST_S 60 /* one that hangs ends then */
#define LONG_MS 3600000u
#define THREADS 4
#define THREAD_TIMES 1000
#define WORD "the job's"
#define FAILURE "the scene has it fail"

/* A step that waits in the middle, until it is let go on. */
struct stop {
    int says[2], hears[2];
    atomic_uint calls;
};

static struct {
    struct stop places, leader; /* the first call of each stops, where |stops| says so */
    bool places_stop, leader_stops;
    bool leader_fails;          /* also the call that stopped */
    enum kiln_code leader_says; /* of the other calls */
    struct stop end;            /* the host's, where |end_stops|: it does not end before */
    bool end_stops;
    bool has_own_table; /* the host does as if it had, and its end is to be there before */
    bool takes_number;  /* it also puts another file where its end was */
    int taken;
    atomic_uint threads_refused; /* the next that are to start */
    enum kiln_code fails;        /* the host, instead of serving; OK: it does not */
    bool fails_in_the_end;       /* it tells so once it was told to stop */
    bool fails_alone; /* it tells so, by |end|, with none of the two; and ends by |end| */
    int other; /* a socket of the job's that is at the number of a real host's end; 0: none is */
} scene;

static void make_stop(struct stop *stop)
{
    if (pipe2(stop->says, O_CLOEXEC) != 0 || pipe2(stop->hears, O_CLOEXEC) != 0)
        _exit(90);
}

static void stop_here(struct stop *stop)
{
    char word = 's';
    if (write(stop->says[1], &word, 1) != 1 || read(stop->hears[0], &word, 1) != 1)
        _exit(91);
}

static void await_stop(struct stop *stop)
{
    char word;
    if (read(stop->says[0], &word, 1) != 1)
        _exit(92);
}

static void let_go_on(struct stop *stop)
{
    if (write(stop->hears[1], "g", 1) != 1)
        _exit(93);
}

/* ---- what is wrapped ---- */

void __wrap_embedded_places_find(const struct embedded_options *options,
                                 struct embedded_places *ret_places);
void __wrap_embedded_places_find(const struct embedded_options *options,
                                 struct embedded_places *ret_places)
{
    (void)options;
    memset(ret_places, 0, sizeof(*ret_places));
    strcpy(ret_places->cache, "/the/store");
    strcpy(ret_places->socket, "/the/store/kiln.sock");
    if (atomic_fetch_add(&scene.places.calls, 1) == 0 && scene.places_stop)
        stop_here(&scene.places);
}

enum kiln_code __wrap_leader_connect(const char *path, uint64_t deadline_ns, int *ret_fd,
                                     struct kiln_err *err);
enum kiln_code __wrap_leader_connect(const char *path, uint64_t deadline_ns, int *ret_fd,
                                     struct kiln_err *err)
{
    (void)deadline_ns;
    if (atomic_fetch_add(&scene.leader.calls, 1) == 0 && scene.leader_stops) {
        stop_here(&scene.leader);
        if (scene.leader_fails)
            return kiln_fail(err, KILN_IO, "so the scene of '%s' has it", path);
        *ret_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        return KILN_OK;
    }
    return kiln_fail(err, scene.leader_says, "so the scene of '%s' has it", path);
}

int __real_quiet_thread_start(pthread_t *ret_thread, void *(*run)(void *context), void *context);
int __wrap_quiet_thread_start(pthread_t *ret_thread, void *(*run)(void *context), void *context);
int __wrap_quiet_thread_start(pthread_t *ret_thread, void *(*run)(void *context), void *context)
{
    if (atomic_load(&scene.threads_refused) == 0)
        return __real_quiet_thread_start(ret_thread, run, context);
    atomic_fetch_sub(&scene.threads_refused, 1);
    return EAGAIN;
}

/* Where a real one has a table of its own, and the job may take the number for another file. */
static int take_number(int control)
{
    int own = fcntl(control, F_DUPFD_CLOEXEC, control + 1);
    scene.taken = control;
    int file = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (own < 0 || file < 0 || dup2(file, control) != control)
        _exit(94);
    close(file);
    return own;
}

/* Its end in a table of its own, as far as others can tell. */
static int have_own_end(const struct embedded_host_options *options)
{
    sched_yield();
    if (!embedded_is_still(options->control, options->control_inode))
        _exit(95);
    return fcntl(options->control, F_DUPFD_CLOEXEC, 0);
}

static void put_other_there(const struct embedded_host_options *options)
{
    if (dup2(scene.other, options->control) != options->control)
        _exit(96);
    scene.taken = options->control;
}

static void tell_failure(const struct embedded_host_options *options, enum kiln_code code)
{
    const struct embedded_news news = { .what = HOST_FAILED, .why = FAILURE, .code = code };
    options->tell(&news);
}

static void serve_until_told(const struct embedded_host_options *options, int control)
{
    char word = 0;
    if (scene.fails_alone) {
        stop_here(&scene.end);
        tell_failure(options, KILN_IO);
        stop_here(&scene.end);
        return;
    }
    while (recv(control, &word, 1, 0) == 1 && word != EMBEDDED_WORD_STOP) {
    }
    if (scene.fails_in_the_end)
        tell_failure(options, KILN_IO);
    if (scene.end_stops)
        stop_here(&scene.end);
}

void __real_embedded_host_run(const struct embedded_host_options *options);
void __wrap_embedded_host_run(const struct embedded_host_options *options);
void __wrap_embedded_host_run(const struct embedded_host_options *options)
{
    const struct embedded_news news = { .what = HOST_LEADS,
                                        .own_files = scene.takes_number || scene.has_own_table,
                                        .why = "" };
    int control = options->control;
    if (scene.fails) {
        tell_failure(options, scene.fails);
        close(control);
        return;
    }
    if (scene.other > 0) {
        put_other_there(options);
        __real_embedded_host_run(options);
        return;
    }
    if (scene.takes_number)
        control = take_number(control);
    else if (scene.has_own_table)
        control = have_own_end(options);
    options->tell(&news);
    serve_until_told(options, control);
    close(control);
}

/* ---- a job ---- */

static enum kiln_code connect_once(void)
{
    const struct embedded_options options = { .leader_ms = LONG_MS };
    struct kiln_err err = KILN_ERR_INIT;
    int fd = -1;
    enum kiln_code rc = kiln_embedded_entry.connect(&options, &fd, &err);
    if (fd >= 0)
        close(fd);
    return rc;
}

static void *connect_in_a_thread(void *ret_code)
{
    *(enum kiln_code *)ret_code = connect_once();
    return NULL;
}

static void let_go_and_settle(unsigned connections)
{
    for (unsigned i = 0; i < connections; i++)
        kiln_embedded_entry.let_go();
    kiln_embedded_entry.settle();
}

/* Of an engine that nobody was in before.  The body's step that failed is its exit status. */
static void as_a_job(int (*body)(void))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(JOB_MOST_S);
        scene.leader_says = KILN_UNAVAILABLE;
        make_stop(&scene.places);
        make_stop(&scene.leader);
        make_stop(&scene.end);
        _exit(body());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status)
        fail_msg("step %d failed, by signal %d", WEXITSTATUS(status), WTERMSIG(status));
}

#define NEED(step, condition) \
    do {                      \
        if (!(condition))     \
            return (step);    \
    } while (0)

/* ---- the cases ---- */

/* Its parent's folders are being looked for by another thread, who will never be in the child. */
static int fork_during_the_first_connect(void)
{
    int status;
    pthread_t other;
    enum kiln_code rc = KILN_OK;
    scene.places_stop = true;
    scene.leader_says = KILN_TIMED_OUT;
    NEED(1, pthread_create(&other, NULL, connect_in_a_thread, &rc) == 0);
    await_stop(&scene.places);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(JOB_MOST_S);
        _exit(connect_once() == KILN_TIMED_OUT && atomic_load(&scene.places.calls) == 2 ? 0 : 11);
    }
    NEED(2, waitpid(pid, &status, 0) == pid);
    kiln_embedded_entry.let_go(); /* nor does anybody here wait for the folders */
    let_go_on(&scene.places);
    pthread_join(other, NULL);
    NEED(3, status == 0);
    NEED(4, rc == KILN_TIMED_OUT);
    return 0;
}

TEST(plain, a_child_forked_during_the_first_connect_has_its_own)
{
    as_a_job(fork_during_the_first_connect);
}

static enum kiln_code connected_before_fork = KILN_NOT_FOUND;
static void connect_before_fork(void) { connected_before_fork = connect_once(); }

/* What runs at fork is settled when a fork begins; this one is to be the first, and slow. */
static int begin_while_a_fork_begins(void)
{
    int status;
    NEED(1, pthread_atfork(connect_before_fork, NULL, NULL) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(JOB_MOST_S);
        scene.leader_says = KILN_TIMED_OUT;
        _exit(connect_once() == KILN_TIMED_OUT ? 0 : 11); /* it asks for a leader of its own */
    }
    NEED(2, connected_before_fork == KILN_OK);
    NEED(3, waitpid(pid, &status, 0) == pid && status == 0);
    let_go_and_settle(1);
    return 0;
}

TEST(plain, so_it_has_where_that_connect_came_while_the_fork_began)
{
#if !__GLIBC_PREREQ(2, 36)
    print_message("skipped: this C library lets nothing be registered while it forks\n");
    skip();
#endif
    as_a_job(begin_while_a_fork_begins);
}

/* While one asks for a leader, which it then reaches, another has found none and leads. */
static int lead_while_another_asks(void)
{
    struct embedded_status status;
    pthread_t other;
    enum kiln_code rc = KILN_OK;
    scene.leader_stops = true;
    NEED(1, pthread_create(&other, NULL, connect_in_a_thread, &rc) == 0);
    await_stop(&scene.leader);
    NEED(2, connect_once() == KILN_OK);
    let_go_on(&scene.leader);
    pthread_join(other, NULL);
    NEED(3, rc == KILN_OK);
    kiln_embedded_entry.status(&status);
    NEED(4, status.role == EMBEDDED_LEADS);
    let_go_and_settle(2);
    kiln_embedded_entry.status(&status);
    NEED(5, status.role == EMBEDDED_UNUSED);
    return 0;
}

TEST(plain, who_leads_is_not_told_that_it_follows) { as_a_job(lead_while_another_asks); }

/* The leader that it asks may be this very process by now. */
static int go_while_another_asks(void)
{
    struct embedded_status status;
    pthread_t other;
    enum kiln_code rc = KILN_OK;
    scene.leader_stops = true;
    NEED(1, pthread_create(&other, NULL, connect_in_a_thread, &rc) == 0);
    await_stop(&scene.leader);
    NEED(2, connect_once() == KILN_OK);
    let_go_and_settle(1);
    kiln_embedded_entry.status(&status);
    NEED(3, status.role == EMBEDDED_LEADS);
    let_go_on(&scene.leader);
    pthread_join(other, NULL);
    NEED(4, rc == KILN_OK);
    let_go_and_settle(1);
    kiln_embedded_entry.status(&status);
    NEED(5, status.role == EMBEDDED_UNUSED);
    return 0;
}

TEST(plain, an_engine_does_not_end_while_a_call_is_to_have_it) { as_a_job(go_while_another_asks); }

static int go_while_another_asks_in_vain(void)
{
    pthread_t other;
    enum kiln_code rc = KILN_OK;
    scene.leader_stops = scene.leader_fails = scene.end_stops = true;
    NEED(1, pthread_create(&other, NULL, connect_in_a_thread, &rc) == 0);
    await_stop(&scene.leader);
    NEED(2, connect_once() == KILN_OK);
    kiln_embedded_entry.let_go();
    let_go_on(&scene.leader);
    pthread_join(other, NULL);
    NEED(3, rc == KILN_IO);
    await_stop(&scene.end);
    let_go_on(&scene.end);
    let_go_and_settle(0);
    return 0;
}

TEST(plain, it_ends_once_that_call_has_failed) { as_a_job(go_while_another_asks_in_vain); }

static int take_the_number_of_the_hosts_end(void)
{
    struct stat now, null;
    scene.takes_number = true;
    NEED(1, connect_once() == KILN_OK);
    NEED(2, stat("/dev/null", &null) == 0);
    NEED(3, fstat(scene.taken, &now) == 0 && now.st_ino == null.st_ino);
    let_go_and_settle(1);
    NEED(4, fstat(scene.taken, &now) == 0 && now.st_ino == null.st_ino);
    return 0;
}

TEST(plain, a_file_of_the_jobs_at_the_hosts_number_stays_open)
{
    as_a_job(take_the_number_of_the_hosts_end);
}

/* The job has closed what it does not know, and opened a socket of its own. */
static int have_another_at_the_hosts_number(void)
{
    const struct embedded_options options = { .leader_ms = LONG_MS };
    struct kiln_err err = KILN_ERR_INIT;
    char word[sizeof(WORD)] = "";
    int fd = -1, ends[2];
    NEED(1, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    NEED(2, send(ends[0], WORD, sizeof(WORD), 0) == sizeof(WORD));
    scene.other = ends[1];
    NEED(3, kiln_embedded_entry.connect(&options, &fd, &err) == KILN_UNAVAILABLE && fd < 0);
    NEED(4, strcmp(err.text, "the job closed the engine's descriptors while it began") == 0);
    NEED(5, (fcntl(scene.taken, F_GETFL) & O_NONBLOCK) == 0);
    NEED(6, recv(scene.taken, word, sizeof(word), MSG_DONTWAIT) == sizeof(word));
    NEED(7, strcmp(word, WORD) == 0);
    scene.other = 0;
    NEED(8, connect_once() == KILN_OK); /* who asks again has another */
    let_go_and_settle(1);
    return 0;
}

TEST(plain, a_host_takes_no_socket_of_the_jobs_for_its_end)
{
    as_a_job(have_another_at_the_hosts_number);
}

/* ---- failures ---- */

static bool fails_with(enum kiln_code code, const char *text)
{
    const struct embedded_options options = { .leader_ms = LONG_MS };
    struct kiln_err err = KILN_ERR_INIT;
    int fd = -1;
    enum kiln_code rc = kiln_embedded_entry.connect(&options, &fd, &err);
    return rc == code && err.code == code && fd < 0 && strcmp(err.text, text) == 0;
}

static bool leads_now(void)
{
    struct embedded_status status;
    if (connect_once() != KILN_OK)
        return false;
    kiln_embedded_entry.status(&status);
    return status.role == EMBEDDED_LEADS;
}

static int connect_short_of_threads(void)
{
    char text[EMBEDDED_TEXT_MOST];
    snprintf(text, sizeof(text), "cannot start a thread: %s", strerror(EAGAIN));
    atomic_store(&scene.threads_refused, 1);
    NEED(1, fails_with(KILN_IO, text));
    NEED(2, leads_now());
    let_go_and_settle(1);
    return 0;
}

/* By a limit of the job's (RLIMIT_NPROC): another that leads is not waited for. */
TEST(plain, who_is_short_of_threads_is_told_at_once_and_leads_later)
{
    as_a_job(connect_short_of_threads);
}

static int have_a_host_that_is_busy(void)
{
    scene.fails = KILN_BUSY;
    NEED(1, fails_with(KILN_IO, FAILURE));
    scene.fails = KILN_OK;
    NEED(2, leads_now());
    let_go_and_settle(1);
    return 0;
}

TEST(plain, a_host_that_fails_as_busy_is_not_one_that_is_led)
{
    as_a_job(have_a_host_that_is_busy);
}

static int connect_after_one_that_failed_in_the_end(void)
{
    scene.fails_in_the_end = true;
    NEED(1, connect_once() == KILN_OK);
    let_go_and_settle(1);
    NEED(2, connect_once() == KILN_OK);
    let_go_and_settle(1);
    return 0;
}

TEST(plain, what_fails_once_it_was_told_to_stop_is_nobodys_failure)
{
    as_a_job(connect_after_one_that_failed_in_the_end);
}

static int fork_after_a_failure(void)
{
    int status;
    scene.fails_alone = true;
    NEED(1, connect_once() == KILN_OK);
    await_stop(&scene.end);
    let_go_on(&scene.end);
    await_stop(&scene.end); /* it has told */
    scene.fails_alone = false;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(JOB_MOST_S);
        _exit(connect_once() == KILN_OK ? 0 : 11);
    }
    NEED(2, waitpid(pid, &status, 0) == pid && status == 0);
    let_go_on(&scene.end);
    NEED(3, fails_with(KILN_IO, FAILURE));
    NEED(4, leads_now());
    let_go_and_settle(2);
    return 0;
}

TEST(plain, a_failure_is_told_to_its_own_process_alone)
{
#ifdef __SANITIZE_THREAD__
    print_message("skipped: the sanitizer starts no threads after fork\n");
    skip();
#endif
    as_a_job(fork_after_a_failure);
}

static void *connect_and_settle_in_a_thread(void *ret_code)
{
    enum kiln_code *rc = ret_code;
    for (unsigned n = 0; *rc == KILN_OK && n < THREAD_TIMES; n++) {
        *rc = connect_once();
        let_go_and_settle(*rc == KILN_OK);
    }
    return NULL;
}

static int connect_and_settle_in_threads(void)
{
    pthread_t threads[THREADS];
    enum kiln_code codes[THREADS] = { KILN_OK };
    struct embedded_status status;
    int lowest = dup(STDIN_FILENO);
    scene.has_own_table = true;
    NEED(6, lowest >= 0 && close(lowest) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        NEED(1, pthread_create(&threads[i], NULL, connect_and_settle_in_a_thread, &codes[i]) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        NEED(2, pthread_join(threads[i], NULL) == 0);
        NEED(3, codes[i] == KILN_OK);
    }
    kiln_embedded_entry.status(&status);
    NEED(4, status.role == EMBEDDED_UNUSED);
    NEED(5, dup(STDIN_FILENO) == lowest); /* all descriptors are closed, and no other */
    return 0;
}

/* A host ends while several wait for that, and one of them starts the next. */
TEST(plain, threads_that_come_and_go_are_each_served) { as_a_job(connect_and_settle_in_threads); }
