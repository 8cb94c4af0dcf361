/* SPDX-License-Identifier: MIT */
/* The way into the engine in a job's process, by several threads and by children of fork: with a
 * host, folders and a leader that do what each case says. */
#include "daemon/embedded/host.h"
#include "daemon/embedded/leader.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOB_MOST_S 60 /* one that hangs ends then */
#define LONG_MS 3600000u

/* A step that waits in the middle, until it is let go on. */
struct stop {
    int says[2], hears[2];
    atomic_uint calls;
};

static struct {
    struct stop places, leader; /* the first call of each stops, where |stops| says so */
    bool places_stop, leader_stops;
    enum kiln_code leader_says; /* of the other calls */
    bool takes_number;          /* the host puts another file where its end was */
    int taken;
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
        *ret_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        return KILN_OK;
    }
    return kiln_fail(err, scene.leader_says, "so the scene of '%s' has it", path);
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

void __wrap_embedded_host_run(const struct embedded_host_options *options);
void __wrap_embedded_host_run(const struct embedded_host_options *options)
{
    const struct embedded_news news = { .what = HOST_LEADS,
                                        .own_files = scene.takes_number,
                                        .why = "" };
    char word = 0;
    int control = scene.takes_number ? take_number(options->control) : options->control;
    options->tell(&news);
    while (recv(control, &word, 1, 0) == 1 && word != EMBEDDED_WORD_STOP) {
    }
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

static void a_child_forked_during_the_first_connect_has_its_own(void **state)
{
    (void)state;
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

static void so_it_has_where_that_connect_came_while_the_fork_began(void **state)
{
    (void)state;
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

static void who_leads_is_not_told_that_it_follows(void **state)
{
    (void)state;
    as_a_job(lead_while_another_asks);
}

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

static void a_file_of_the_jobs_at_the_hosts_number_stays_open(void **state)
{
    (void)state;
    as_a_job(take_the_number_of_the_hosts_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_forked_during_the_first_connect_has_its_own),
        cmocka_unit_test(so_it_has_where_that_connect_came_while_the_fork_began),
        cmocka_unit_test(who_leads_is_not_told_that_it_follows),
        cmocka_unit_test(a_file_of_the_jobs_at_the_hosts_number_stays_open),
    };
    return cmocka_run_group_tests_name("embedded_entry", tests, NULL, NULL);
}
