/* SPDX-License-Identifier: MIT */
/* Real kiln-transfer processes download from a real nginx, through a proxy that cuts
 * connections. */
#include "daemon/workers/transfer.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/miopen/kern_db.h"
#include "engine/transfer/transfer_wire.h"
#include "tests/support/children.h"
#include "tests/support/daemon_process.h"
#include "tests/support/entries.h"
#include "tests/support/http_script.h"
#include "tests/support/nginx.h"
#include "tests/unit/daemon/loop_fixture.h"
#include "tests/unit/engine/transfer/package_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS 40
#define OBJECT_SIZE 20000

struct fixture {
    struct package_fixture p;
    struct nginx nginx;
    struct http_script line;
    unsigned cuts;
    size_t cut_after;
    struct loop *loop;
    struct work_queues *work_queues;
    struct transfers *transfers;
    struct loop_owner owner;
    struct loop_timer tick;
    bool closed;
    struct kiln_err err;
};

struct transfer {
    struct transfer_task task;
    unsigned ended, attempts, reported;
    char url[160], note[256];
};

SET_UP(set_up)
{
    package_fixture_open(&f->p);
    f->line.context = f;
    f->loop = open_ticking_loop(&f->tick, &f->owner);
    f->work_queues = open_work_queues(f->loop, 2);
    const struct transfers_options options = {
        .loop = f->loop,
        .work_queues = f->work_queues,
        .program = KILN_BIN "/kiln-transfer",
        /* transfers run as another user, who may not enter the test's directories */
        .user = { .uid = 65534, .gid = 65534, .other = geteuid() == 0 },
        .timeout_ms = 600000,
        .silence_ms = 600000,
        .exit_ms = 60000,
    };
    must(transfers_create(&options, &f->transfers, &f->err), f->err);
}

static void on_closed(void *context) { ((struct fixture *)context)->closed = true; }

TEAR_DOWN(tear_down)
{
    loop_timer_close(&f->tick);
    transfers_close(f->transfers, on_closed, f);
    LOOP_TO_END(f->loop, "the transfers to close");
    assert_true(f->closed);
    assert_is_empty(f->p.staging);
}

FIXTURE(transfer, set_up, tear_down);

static void on_progress(struct transfer_task *task, const struct transfer_progress *progress)
{
    struct transfer *t = (struct transfer *)(void *)task;
    t->reported++;
    t->attempts = progress->attempt > t->attempts ? progress->attempt : t->attempts;
    if (progress->note[0])
        snprintf(t->note, sizeof(t->note), "%s", progress->note);
}

static void on_done(struct transfer_task *task)
{
    ((struct transfer *)(void *)task)->ended++;
    free(task->result.manifest);
    task->result.manifest = NULL;
}

static void prepare_files(struct fixture *f, struct transfer *t, uint16_t port, const char *name)
{
    *t = (struct transfer){
        .task = { .job = package_job(&f->p), .progress = on_progress, .done = on_done }
    };
    snprintf(t->url, sizeof(t->url), "http://127.0.0.1:%u/%s", port, name);
    t->task.job.url = t->url;
}

static const struct transfer_result *run_transfer(struct fixture *f, struct transfer *t)
{
    transfers_start(f->transfers, &t->task);
    LOOP_UNTIL(f->loop, t->ended);
    http_script_stop(&f->line);
    return &t->task.result;
}

/* ---- cut connections ---- */

static void pass_on(struct fixture *f, int from, int to)
{
    char chunk[16384];
    size_t passed = 0;
    ssize_t got;
    while ((got = recv(from, chunk, sizeof(chunk), 0)) > 0) {
        size_t size = (size_t)got;
        if (f->cuts > 0 && passed + size >= f->cut_after) {
            f->cuts--;
            http_send(to, chunk, f->cut_after - passed);
            return;
        }
        if (!http_send(to, chunk, size))
            return;
        passed += size;
    }
}

static void answer_by_nginx(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    (void)number;
    int nginx = http_connect(f->nginx.port);
    char *end = strstr(s->request, "\r\n\r\n");
    if (nginx < 0 || !end)
        return;
    http_send(nginx, s->request, (size_t)(end - s->request));
    http_say(nginx, "\r\nConnection: close\r\n\r\n");
    pass_on(f, nginx, fd);
    close(nginx);
}

static bool serve_files(struct fixture *f)
{
    if (!nginx_start(&f->nginx, f->p.directory, f->p.files, NULL, NULL))
        return false;
    f->line.answer = answer_by_nginx;
    http_script_start(&f->line);
    return true;
}

TEST_F(transfer, a_signed_package_arrives_though_the_line_is_cut_twice)
{
    struct transfer t;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_pack(&f->p, PACKAGE, PACKAGE ".bz2");
    package_sign(&f->p, PACKAGE ".bz2", "amd", true);
    f->cut_after = 200000;
    f->cuts = 2;
    SKIP_IF(!serve_files(f), "no nginx here");
    prepare_files(f, &t, f->line.port, PACKAGE ".bz2");
    t.task.job.require_signature = true;

    const struct transfer_result *o = run_transfer(f, &t);

    must(o->err.code, o->err);
    struct digest original = package_digest(package_path(&f->p, PACKAGE));
    struct digest arrived = package_digest(o->path);
    assert_true(digest_equal(&original, &arrived));
    assert_string_equal(o->name, PACKAGE);
    assert_string_equal(o->signer, "amd");
    assert_int_equal(o->rows, ROWS);
    assert_int_equal(t.attempts, 3);
    assert_true(t.note[0]);
    assert_int_equal(f->cuts, 0);
    assert_int_equal(nginx_answers(&f->nginx, 206, 2), 2);
    assert_int_equal(unlink(o->path), 0);
}

TEST_F(transfer, progress_comes_no_more_than_five_times_a_second)
{
    struct transfer t;
    package_write(&f->p, PACKAGE, 2000, 1000);
    prepare_files(f, &t, 0, PACKAGE);
    snprintf(t.url, sizeof(t.url), "file://%s", package_path(&f->p, PACKAGE));
    uint64_t begin = clock_monotonic_ns();

    const struct transfer_result *o = run_transfer(f, &t);

    must(o->err.code, o->err);
    uint64_t fifths = (clock_monotonic_ns() - begin) / 200000000;
    /* one report at the start of each of the two stages, then at most five a second */
    assert_in_range(t.reported, 2, 2 + fifths);
    assert_int_equal(unlink(o->path), 0);
}

TEST_F(transfer, a_flipped_bit_behind_a_signature_leaves_no_trace)
{
    struct transfer t;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_sign(&f->p, PACKAGE, "amd", true);
    package_damage(&f->p, PACKAGE);
    SKIP_IF(!serve_files(f), "no nginx here");
    prepare_files(f, &t, f->nginx.port, PACKAGE);

    const struct transfer_result *o = run_transfer(f, &t);

    assert_int_equal(o->err.code, KILN_CORRUPT);
    assert_says(o->err.text, "manifest");
}

TEST_F(transfer, a_missing_package_is_reported_with_its_url)
{
    struct transfer t;
    SKIP_IF(!serve_files(f), "no nginx here");
    prepare_files(f, &t, 0, PACKAGE);
    /* The URL has a host name instead of an address, so kiln-transfer must look the name up. For
     * this, it must be able to read files such as /etc/hosts. */
    snprintf(t.url, sizeof(t.url), "http://localhost:%u/" PACKAGE, f->nginx.port);

    const struct transfer_result *o = run_transfer(f, &t);

    assert_int_equal(o->err.code, KILN_NOT_FOUND);
    assert_says(o->err.text, t.url);
}

TEST_F(transfer, a_damaged_package_is_reported_by_name)
{
    struct transfer t;
    static const char page[] = "<html>Please log in</html>";
    char more[4096] = { 0 };
    FILE *file = fopen(package_path(&f->p, PACKAGE), "w");
    assert_non_null(file);
    fwrite(page, 1, sizeof(page), file);
    fwrite(more, 1, sizeof(more), file);
    fclose(file);
    prepare_files(f, &t, 0, PACKAGE);
    snprintf(t.url, sizeof(t.url), "file://%s", package_path(&f->p, PACKAGE));

    const struct transfer_result *o = run_transfer(f, &t);

    assert_int_equal(o->err.code, KILN_CORRUPT);
    assert_says(o->err.text, "'" PACKAGE "'");
}

/* ---- killed transfers ---- */

static void answer_a_little(struct http_script *s, unsigned number, int fd)
{
    (void)number;
    if (strstr(s->request, ".manifest")) {
        http_say(fd, "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
        return;
    }
    http_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nSQLite format 3");
    http_wait_for_hang_up(fd);
}

static pid_t find_transfer_below(pid_t parent)
{
    pid_t children[16], found = 0;
    unsigned count = children_of(parent, children, 16);
    for (unsigned i = 0; i < count && !found; i++) {
        char path[64], exe[512] = "";
        snprintf(path, sizeof(path), "/proc/%d/exe", (int)children[i]);
        bool is_transfer =
            readlink(path, exe, sizeof(exe) - 1) > 0 && strstr(exe, "/kiln-transfer");
        found = is_transfer ? children[i] : find_transfer_below(children[i]);
    }
    return found;
}

static pid_t find_transfer(void) { return find_transfer_below(getpid()); }

static bool has_line(const char *text, const char *line) { return strstr(text, line); }

TEST_F(transfer, a_transfer_process_runs_as_a_user_without_privileges)
{
    struct transfer t;
    char path[64], status[4096] = "";
    NEED_ROOT();
    f->line.answer = answer_a_little;
    http_script_start(&f->line);
    prepare_files(f, &t, f->line.port, PACKAGE);
    transfers_start(f->transfers, &t.task);
    LOOP_UNTIL(f->loop, t.attempts);

    snprintf(path, sizeof(path), "/proc/%d/status", (int)find_transfer());
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(status, 1, sizeof(status) - 1, file) > 0);
    fclose(file);
    transfers_cancel(f->transfers, &t.task);
    LOOP_UNTIL(f->loop, t.ended);

    assert_true(has_line(status, "\nUid:\t65534\t65534\t65534\t65534\n"));
    assert_true(has_line(status, "\nGid:\t65534\t65534\t65534\t65534\n"));
    assert_true(has_line(status, "\nGroups:\t \n"));
    assert_true(has_line(status, "\nCapPrm:\t0000000000000000\n"));
    assert_true(has_line(status, "\nCapEff:\t0000000000000000\n"));
    assert_true(has_line(status, "\nNoNewPrivs:\t1\n"));
}

static unsigned cpu_limit(void)
{
    char path[64], line[256];
    unsigned seconds = 0;
    snprintf(path, sizeof(path), "/proc/%d/limits", (int)find_transfer());
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (!seconds && fgets(line, sizeof(line), file))
        (void)sscanf(line, "Max cpu time %u", &seconds);
    fclose(file);
    return seconds;
}

static void begin_transfer(struct fixture *f, struct transfer *t, bool is_of_user)
{
    f->line.answer = answer_a_little;
    http_script_start(&f->line);
    prepare_files(f, t, f->line.port, PACKAGE);
    t->task.job.of_user = is_of_user;
    transfers_start(f->transfers, &t->task);
    LOOP_UNTIL(f->loop, t->attempts);
}

static void end_transfer(struct fixture *f, struct transfer *t)
{
    transfers_cancel(f->transfers, &t->task);
    LOOP_UNTIL(f->loop, t->ended);
}

static void expect_cpu_limit(struct fixture *f, bool is_of_user, unsigned seconds)
{
    struct transfer t;
    begin_transfer(f, &t, is_of_user);
    unsigned limit = cpu_limit();
    end_transfer(f, &t);
    assert_int_equal(limit, seconds);
}

TEST_F(transfer, a_transfer_gives_way_to_kilnd_on_a_busy_processor)
{
    struct transfer t;
    begin_transfer(f, &t, /* is_of_user= */ true);
    int niceness = getpriority(PRIO_PROCESS, (id_t)find_transfer());
    end_transfer(f, &t);
    assert_int_equal(niceness, 10);
}

static int niceness_of_group(void)
{
    char path[64];
    int niceness = 0;
    snprintf(path, sizeof(path), "/proc/%d/autogroup", (int)find_transfer());
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "/autogroup-%*d nice %d", &niceness), 1);
    fclose(file);
    return niceness;
}

TEST_F(transfer, the_session_of_a_transfer_gives_way_to_kilnd)
{
    struct transfer t;
    /* Linux limits how often an ordinary user may change an autogroup's nice value. */
    NEED_ROOT();
    SKIP_IF(access("/proc/self/autogroup", F_OK) != 0, "sessions are no scheduling groups here");
    begin_transfer(f, &t, /* is_of_user= */ true);
    int niceness = niceness_of_group();
    end_transfer(f, &t);
    assert_int_equal(niceness, 10);
}

TEST_F(transfer, the_processor_time_of_a_transfer_is_limited)
{
    expect_cpu_limit(f, /* is_of_user= */ false, 1200);
}

TEST_F(transfer, the_processor_time_of_a_users_transfer_is_limited_more)
{
    expect_cpu_limit(f, /* is_of_user= */ true, 300);
}

TEST_F(transfer, a_process_killed_in_the_middle_leaves_no_trace)
{
    struct transfer t;
    f->line.answer = answer_a_little;
    http_script_start(&f->line);
    prepare_files(f, &t, f->line.port, PACKAGE);
    transfers_start(f->transfers, &t.task);
    LOOP_UNTIL(f->loop, t.attempts);
    assert_int_equal(entry_count(f->p.staging, ""), 1);

    assert_int_equal(kill(find_transfer(), SIGKILL), 0);
    LOOP_UNTIL(f->loop, t.ended);

    assert_int_equal(t.task.result.err.code, KILN_IO);
    assert_says(t.task.result.err.text, "SIGKILL");
}

TEST_F(transfer, a_cancelled_transfer_leaves_no_trace)
{
    struct transfer t;
    f->line.answer = answer_a_little;
    http_script_start(&f->line);
    prepare_files(f, &t, f->line.port, PACKAGE);
    transfers_start(f->transfers, &t.task);
    LOOP_UNTIL(f->loop, t.attempts);

    transfers_cancel(f->transfers, &t.task);
    LOOP_UNTIL(f->loop, t.ended);

    assert_int_equal(t.task.result.err.code, KILN_CANCELLED);
}

/* Starts kiln-transfer without a kilnd. Returns the socket on which it expects its job. */
static int start_alone(pid_t *ret_pid, const char *const *arguments)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    *ret_pid = fork();
    assert_true(*ret_pid >= 0);
    if (*ret_pid == 0) {
        /* moves pair[1], which may be 3: dup2(3, 3) would leave it close-on-exec */
        int socket = fcntl(pair[1], F_DUPFD, 10);
        if (dup2(socket, 3) != 3)
            _exit(126);
        execv(KILN_BIN "/kiln-transfer", (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    close(pair[1]);
    return pair[0];
}

static pid_t start_fetching(struct fixture *f, char directory[160])
{
    static const char *const arguments[] = { "kiln-transfer", NULL };
    pid_t pid;
    char url[160], progress[1024];
    ssize_t got;
    snprintf(directory, 160, "%s/alone", f->p.staging);
    assert_int_equal(mkdir(directory, 0700), 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/" PACKAGE, f->line.port);
    const struct transfer_job job = { .url = url,
                                      .content_fd = -1,
                                      .manifest_fd = -1,
                                      .staging = directory,
                                      .trusted_keys = f->p.keys,
                                      .size_limit = 1 << 20 };
    int socket = start_alone(&pid, arguments);
    must(transfer_send_job(socket, &job, &f->err), f->err);
    IN_TIME(got = recv(socket, progress, sizeof(progress), 0));
    assert_true(got > 0);
    assert_int_equal(entry_count(directory, ""), 1);
    return pid;
}

static bool is_empty(void *context) { return entry_count(context, "") == 0; }

TEST_F(transfer, a_terminated_transfer_process_leaves_nothing)
{
    char directory[160];
    f->line.answer = answer_a_little;
    http_script_start(&f->line);
    pid_t pid = start_fetching(f, directory);

    assert_int_equal(kill(pid, SIGTERM), 0);

    assert_int_equal(wait_program(pid), 128 + SIGTERM);
    assert_true(is_empty(directory));
    assert_int_equal(rmdir(directory), 0);
}

TEST_F(transfer, a_transfer_process_whose_kilnd_dies_leaves_nothing)
{
    char directory[160];
    f->line.answer = answer_a_little;
    http_script_start(&f->line);
    snprintf(directory, sizeof(directory), "%s/alone", f->p.staging);
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        char unused[160];
        start_fetching(f, unused);
        kill(getpid(), SIGKILL);
    }

    assert_int_equal(wait_program(parent), 128 + SIGKILL);

    wait_until("the staging directory to become empty", is_empty, directory);
    assert_int_equal(rmdir(directory), 0);
}

/* ---- a full disk ---- */

/* Mounts a full disk in a new mount namespace, and lets kiln-transfer copy a file to it. Returns
 * 77 if this host allows no new mount namespace. */
static int copy_to_a_full_disk(const struct fixture *f, const char *name)
{
    struct transfer_result result;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", f->p.staging, "tmpfs", 0, "size=256k") != 0)
        return 77;
    int fd = open(package_path(&f->p, name), O_RDONLY | O_CLOEXEC);
    const struct transfer_job job = { .content_fd = fd,
                                      .manifest_fd = -1,
                                      .name = name,
                                      .staging = f->p.staging,
                                      .trusted_keys = f->p.keys,
                                      .size_limit = 64 << 20 };
    static const char *const arguments[] = { "kiln-transfer", NULL };
    pid_t pid;
    struct kiln_err err = KILN_ERR_INIT;
    int socket = start_alone(&pid, arguments);
    if (transfer_send_job(socket, &job, &err))
        return 1;
    memset(&result, 0, sizeof(result));
    for (bool ended = false; !ended;) {
        static struct transfer_report report;
        char first;
        if (recv(socket, &first, 1, MSG_PEEK) <= 0 ||
            transfer_receive_report(socket, &report, &err))
            return 2;
        ended = report.ended;
        result = report.result;
    }
    if (result.err.code != KILN_FULL || !strstr(result.err.text, "No space"))
        return 3;
    return entry_count(f->p.staging, "") > 0 ? 4 : 0;
}

static void expect_full_disk(struct fixture *f, const char *name)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(copy_to_a_full_disk(f, name));
    int status = wait_program(pid);
    SKIP_IF(status == 77, "no mount namespace can be made here");
    assert_int_equal(status, 0);
}

TEST_F(transfer, a_full_disk_is_reported_and_left_as_it_was)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);

    expect_full_disk(f, PACKAGE);
}

TEST_F(transfer, a_disk_that_fills_up_during_unpacking_is_reported)
{
    int fd = open(package_path(&f->p, "zeros"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, 4 << 20), 0);
    close(fd);
    package_pack(&f->p, "zeros", PACKAGE ".bz2");

    expect_full_disk(f, PACKAGE ".bz2");
}

/* ---- TLS ---- */

static void exec_openssl(const char *certificate, const char *key)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
        _exit(126);
    execlp("openssl", "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
           "-subj", "/CN=kiln", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
           certificate, (char *)NULL);
    _exit(127);
}

static bool make_certificate(struct fixture *f, char certificate[256], char key[256])
{
    snprintf(certificate, 256, "%s/certificate.pem", f->p.directory);
    snprintf(key, 256, "%s/key.pem", f->p.directory);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        exec_openssl(certificate, key);
    if (wait_program(pid) == 0)
        return true;
    print_message("there is no openssl program here to make a certificate\n");
    return false;
}

static void serve_by_tls(struct fixture *f, struct transfer *t, const char *path,
                         char certificate[256])
{
    char key[256];
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    SKIP_IF(!make_certificate(f, certificate, key) ||
                !nginx_start(&f->nginx, f->p.directory, f->p.files, certificate, key),
            "no server with TLS here");
    prepare_files(f, t, 0, PACKAGE);
    snprintf(t->url, sizeof(t->url), "https://127.0.0.1:%u/%s" PACKAGE, f->nginx.tls_port, path);
}

/* Opening a FIFO may block, and opening a device may have side effects. */
TEST_F(transfer, a_source_that_is_not_a_regular_file_is_not_opened)
{
    struct transfer t;
    prepare_files(f, &t, 0, "");
    assert_int_equal(mkfifo(package_path(&f->p, PACKAGE), 0600), 0);
    snprintf(t.url, sizeof(t.url), "file://%s", package_path(&f->p, PACKAGE));

    const struct transfer_result *o = run_transfer(f, &t);

    assert_int_equal(o->err.code, KILN_INVALID);
    assert_says(o->err.text, "regular");
    assert_int_equal(entry_count(f->p.staging, ""), 0);
}

TEST_F(transfer, a_server_with_an_unknown_certificate_authority_is_refused)
{
    struct transfer t;
    char certificate[256];
    serve_by_tls(f, &t, "", certificate);

    const struct transfer_result *o = run_transfer(f, &t);

    assert_int_equal(o->err.code, KILN_DENIED);
    assert_says(o->err.text, "certificate");
    assert_says(o->err.text, "SSL_CERT_FILE");
    /* the manifest, which is downloaded first, failed, so the package was not tried */
    assert_int_equal(t.attempts, 0);
}

TEST_F(transfer, a_private_certificate_authority_can_be_named)
{
    struct transfer t;
    char certificate[256];
    serve_by_tls(f, &t, "", certificate);
    setenv("SSL_CERT_FILE", certificate, 1);

    const struct transfer_result *o = run_transfer(f, &t);
    unsetenv("SSL_CERT_FILE");

    must(o->err.code, o->err);
    assert_int_equal(o->rows, ROWS);
    assert_int_equal(unlink(o->path), 0);
}

TEST_F(transfer, a_redirect_from_https_to_http_is_not_followed)
{
    struct transfer t;
    char certificate[256];
    serve_by_tls(f, &t, "plain/", certificate);
    setenv("SSL_CERT_FILE", certificate, 1);

    const struct transfer_result *o = run_transfer(f, &t);
    unsetenv("SSL_CERT_FILE");

    assert_int_equal(o->err.code, KILN_DENIED);
    assert_says(o->err.text, "redirect");
}

/* ---- snapshots ---- */

static int receive_snapshot(int socket, struct json **ret_json)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    char text[2048];
    struct iovec part = { .iov_base = text, .iov_len = sizeof(text) };
    struct msghdr message = { .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = &control,
                              .msg_controllen = sizeof(control) };
    struct kiln_err err = KILN_ERR_INIT;
    ssize_t size;
    IN_TIME(size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC));
    assert_true(size > 0);
    must(json_parse(bytes_of(text, (size_t)size), "snapshot", ret_json, &err), err);
    int fd = -1;
    if (CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

static int take_snapshot(struct fixture *f, const char *path, struct json **ret_json, int *ret_fd)
{
    const char *const arguments[] = { "kiln-transfer", "--snapshot", path, NULL };
    pid_t pid;
    setenv("TMPDIR", f->p.staging, 1);
    int socket = start_alone(&pid, arguments);
    unsetenv("TMPDIR");
    *ret_fd = receive_snapshot(socket, ret_json);
    close(socket);
    return wait_program(pid);
}

TEST_F(transfer, a_snapshot_of_a_users_cache_is_passed_on)
{
    KILN_AUTO(json) struct json *json = NULL;
    KILN_AUTO(fd) int fd = -1;
    package_write(&f->p, "gfx90a68.ukdb", 3, 1000);
    char path[FIXTURE_PATH_MAX];
    snprintf(path, sizeof(path), "%s", package_path(&f->p, "gfx90a68.ukdb"));
    uint8_t wal[2] = { 2, 2 }; /* WAL mode, in which MIOpen leaves its databases */
    int file = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(file, wal, 2, 18), 2);
    close(file);

    int status = take_snapshot(f, path, &json, &fd);

    assert_int_equal(status, 0);
    assert_int_equal(json_get_u64(json, "code", 99), 0);
    assert_string_equal(json_get_text(json, "name", ""), "gfx90a68.ukdb");
    assert_true(json_get_bool(json, "merged", false));
    assert_true(fd >= 0);
    struct transfer t;
    prepare_files(f, &t, 0, "");
    t.task.job.url = NULL;
    t.task.job.content_fd = fd;
    t.task.job.name = "gfx90a68.ukdb";
    t.task.job.of_user = true;
    const struct transfer_result *o = run_transfer(f, &t);
    must(o->err.code, o->err);
    assert_int_equal(o->rows, 3);
    assert_int_equal(unlink(o->path), 0);
}

TEST_F(transfer, a_snapshot_that_fails_is_reported)
{
    KILN_AUTO(json) struct json *json = NULL;
    KILN_AUTO(fd) int fd = -1;

    int status = take_snapshot(f, "/nonexistent/gfx90a68.ukdb", &json, &fd);

    assert_int_equal(status, 1);
    assert_int_equal(json_get_u64(json, "code", 99), KILN_NOT_FOUND);
    assert_says(json_get_text(json, "text", ""), "/nonexistent/gfx90a68.ukdb");
    assert_int_equal(fd, -1);
}

/* ---- processes started by hand ---- */

TEST(transfer, kiln_transfer_started_by_hand_explains_itself)
{
    static struct daemon_process d;
    struct program_result result;
    daemon_process_init(&d);

    run_program(&d, &result, "kiln-transfer", NULL);
    assert_int_equal(result.status, 2);
    assert_says(result.output, "kilnd");
    run_program(&d, &result, "kiln-transfer", "--nonsense", NULL);
    assert_int_equal(result.status, 2);
    run_program(&d, &result, "kiln-transfer", "--version", NULL);
    assert_int_equal(result.status, 0);

    daemon_process_remove(&d);
}
