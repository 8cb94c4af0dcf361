/* SPDX-License-Identifier: MIT */
/* Compiles hostile sources with a real kilnd. System call filters simulate hosts that lack a
 * layer of the sandbox. */
#include "tests/integration/host.h"
#include "tests/support/raw_client.h"
#include "tests/support/test_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KERNEL "extern \"C\" __attribute__((global)) void k(int *y) { y[0] = VALUE; }\n"
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* a sanitizer reserves terabytes of addresses, more than any limit allows */
#define ADDRESSES_ARE_LIMITED false
#else
#define ADDRESSES_ARE_LIMITED true
#endif
/* number of landlock_create_ruleset, the same on every architecture */
#define LANDLOCK_FIRST_CALL 444
#define NO_CALL 0x7fffffff
/* offset of the low 32 bits of a system call's first argument */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ARGUMENT_LOW offsetof(struct seccomp_data, args)
#else
#define ARGUMENT_LOW (offsetof(struct seccomp_data, args) + sizeof(uint32_t))
#endif

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
    int fd;
};

SET_UP(setup)
{
    daemon_process_init(&f->daemon);
    f->daemon.keep_log = true;
    f->fd = -1;
}

TEAR_DOWN(teardown) { fd_auto(&f->fd); }

FIXTURE(sandbox, setup, teardown);

static void start_kilnd(struct fixture *f)
{
    daemon_process_start(&f->daemon);
    f->fd = raw_greeted(&f->daemon);
}

static enum kiln_code receive_answer(struct fixture *f, char text[512])
{
    static struct raw_frame frame;
    assert_true(raw_receive(f->fd, &frame));
    text[0] = '\0';
    enum kiln_code code = raw_refusal(&frame, text);
    raw_close_descriptors(&frame);
    return code;
}

static enum kiln_code compile_source(struct fixture *f, const char *options, const char *source,
                                     char text[512])
{
    raw_send_source(f->fd, 5, "gfx90a", options, bytes_of_text(source));
    return receive_answer(f, text);
}

static void send_to(struct fixture *f, const char *toolchain, const char *target,
                    const char *source)
{
    const struct message_fetch_source m = { .target = bytes_of_text(target),
                                            .toolchain = bytes_of_text(toolchain),
                                            .program = bytes_of_text("k"),
                                            .source = bytes_of_text(source) };
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 4096);
    message_fetch_source_write(&body, &m);
    assert_false(body.failed);
    raw_send_frame(f->fd, MESSAGE_fetch_source, 6, buffer_view(&body));
}

static void need_compiler(struct fixture *f)
{
    run_program(&f->daemon, &f->result, "kilnctl", "toolchain", "ls", "--json", NULL);
    if (f->result.status == 0 && strstr(f->result.output, "\"amdgpu\""))
        return;
    SKIP("no compiler for AMD GPUs here");
}

static void still_compiles(struct fixture *f)
{
    static int number;
    char options[32], text[512];
    snprintf(options, sizeof(options), "-DVALUE=%d", ++number);
    enum kiln_code code = compile_source(f, options, KERNEL, text);
    if (code)
        fail_msg("no kernel is made any more: %s", text);
}

/* ---- inherited state ---- */

#define LEFT_OPEN 77

/* Opens a file before kilnd starts, as a shell or a batch system may do. */
static void leave_a_file_open(void *context)
{
    const struct fixture *f = context;
    char path[160];
    snprintf(path, sizeof(path), "%s/left-open", f->daemon.directory);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    dup2(fd, LEFT_OPEN);
}

struct open_file {
    int fd;
    const char *path;
};

/* Returns true if only kilnd has the file open. A child that kilnd has forked also has the file
 * open until the child calls exec. */
static bool only_kilnd_has(void *context)
{
    const struct open_file *file = context;
    unsigned count = 0;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (const struct dirent *entry; (entry = readdir(processes));) {
        char place[300], target[300];
        snprintf(place, sizeof(place), "/proc/%s/fd/%d", entry->d_name, file->fd);
        ssize_t size = readlink(place, target, sizeof(target) - 1);
        target[size > 0 ? size : 0] = '\0';
        count += strcmp(target, file->path) == 0;
    }
    closedir(processes);
    assert_true(count > 0);
    return count == 1;
}

TEST_F(sandbox, descriptors_inherited_by_kilnd_do_not_reach_other_programs)
{
    char path[160];
    f->daemon.prepare = leave_a_file_open;
    f->daemon.context = f;
    start_kilnd(f);
    need_compiler(f);
    still_compiles(f);

    snprintf(path, sizeof(path), "%s/left-open", f->daemon.directory);
    wait_until("only kilnd to have the file", only_kilnd_has,
               &(struct open_file){ LEFT_OPEN, path });
    wait_until("only kilnd to have the log as its stderr", only_kilnd_has,
               &(struct open_file){ STDERR_FILENO, f->daemon.log });
}

/* ---- hostile sources ---- */

TEST_F(sandbox, options_that_load_code_or_name_files_are_refused)
{
    static const char *const bad[] = {
        "-fplugin=/tmp/fork-bomb.so",
        "-Xclang -load -Xclang /tmp/fork-bomb.so",
        "-fpass-plugin=/tmp/fork-bomb.so",
        "-mllvm -load=/tmp/fork-bomb.so",
        "-B/tmp",
        "-fuse-ld=/tmp/fork-bomb",
        "--embed-dir=/etc",
        "-save-temps",
    };
    char text[512];
    start_kilnd(f);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (compile_source(f, bad[i], KERNEL, text) != KILN_DENIED)
            fail_msg("'%s' was not refused: %s", bad[i], text);
    }
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);
}

/* Each level contains the next one a dozen times, so a few kilobytes expand to 100 GB. */
static char *bomb_source(void)
{
    static char source[8192];
    size_t used =
        (size_t)snprintf(source, sizeof(source),
                         "template <int N, class... T> struct Bomb {\n"
                         "  using type = typename Bomb<N - 1, T..., T..., int[N]>::type;\n"
                         "};\n"
                         "template <class... T> struct Bomb<0, T...> { using type = int; };\n"
                         "Bomb<60, int, char>::type x;\n");
    snprintf(source + used, sizeof(source) - used, "%s", KERNEL);
    return source;
}

TEST_F(sandbox, a_template_bomb_ends_at_the_memory_limit)
{
    char text[512];
    SKIP_IF(!ADDRESSES_ARE_LIMITED, "sanitizers need more addresses than a limit allows");
    f->daemon.arguments[0] = "--compile-memory";
    f->daemon.arguments[1] = "1GiB";
    start_kilnd(f);
    need_compiler(f);
    assert_int_equal(compile_source(f, "-DVALUE=1", bomb_source(), text), KILN_COMPILE_FAILED);
    assert_says(text, "memory");
    still_compiles(f);
}

static bool all_are_idle(void *context)
{
    struct fixture *f = context;
    run_program(&f->daemon, &f->result, "kilnctl", "status", "--json", NULL);
    assert_int_equal(f->result.status, 0);
    KILN_AUTO(json) struct json *status = result_json(&f->result);
    const struct json *workers = json_get(status, "workers");
    return json_get_u64(workers, "idle", 0) == json_get_u64(workers, "total", 1);
}

/* Each level doubles the number of types, so the compile takes forever, but little memory. */
static const char endless_source[] =
    "template <unsigned long N, int D> struct Walk {\n"
    "  static constexpr unsigned long value =\n"
    "      Walk<N * 2, D - 1>::value ^ Walk<N * 2 + 1, D - 1>::value;\n"
    "};\n"
    "template <unsigned long N> struct Walk<N, 0> { static constexpr unsigned long value = N; };\n"
    "static_assert(Walk<1, 60>::value != 1, \"\");\n" KERNEL;

static bool log_says_reloaded(void *context)
{
    struct fixture *f = context;
    KILN_AUTO(mem) char *log = daemon_process_log(&f->daemon);
    return strstr(log, "read again") != NULL;
}

/* The time limit begins only before the last compile, because on a busy machine the compile that
 * tests the target may take longer. */
TEST_F(sandbox, a_compile_without_end_is_ended)
{
    char text[512];
    const char *file = test_path(f->daemon.directory, "kilnd.json");
    test_write_text(file, "{}");
    f->daemon.arguments[0] = "--config";
    f->daemon.arguments[1] = file;
    start_kilnd(f);
    need_compiler(f);
    still_compiles(f);
    test_write_text(file, "{\"compile_timeout\": \"1s\"}");
    assert_int_equal(kill(f->daemon.pid, SIGHUP), 0);
    wait_until("kilnd to apply the limit", log_says_reloaded, f);
    assert_int_equal(compile_source(f, "-DVALUE=1", endless_source, text), KILN_COMPILE_FAILED);
    assert_says(text, "compile_timeout");
    assert_int_equal(daemon_stat(&f->daemon, "worker_timeouts"), 1);
    wait_until("all compilers to become idle", all_are_idle, f);
}

/* ---- one process, one source ---- */

#define ALICE 45001

/* Returns the pid of kilnd's compiler, or 0 unless kilnd has exactly one child. */
static int only_compiler(const struct fixture *f)
{
    int found = 0;
    unsigned count = 0;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (const struct dirent *entry; (entry = readdir(processes));) {
        char path[300], state = 'Z';
        int pid = atoi(entry->d_name), parent = 0;
        snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
        FILE *file = pid > 0 ? fopen(path, "re") : NULL;
        if (file && fscanf(file, "%*d (%*[^)]) %c %d", &state, &parent) == 2 && state != 'Z' &&
            parent == f->daemon.pid) {
            found = pid;
            count++;
        }
        if (file)
            fclose(file);
    }
    closedir(processes);
    return count == 1 ? found : 0;
}

static bool has_one_compiler(void *context) { return only_compiler(context) != 0; }

struct successor {
    const struct fixture *f;
    int before, after;
};

static bool has_come(void *context)
{
    struct successor *s = context;
    s->after = only_compiler(s->f);
    return s->after != 0 && s->after != s->before;
}

/* Compiles a source, and waits until kilnd has replaced the only compiler. */
static void use_up_compiler(struct fixture *f, int fd)
{
    static int number = 1000;
    static struct raw_frame frame;
    char options[32], text[512];
    wait_until("exactly one compiler", has_one_compiler, f);
    struct successor s = { .f = f, .before = only_compiler(f) };
    snprintf(options, sizeof(options), "-DVALUE=%d", ++number);
    raw_send_source(fd, 5, "gfx90a", options, bytes_of_text(KERNEL));
    assert_true(raw_receive(fd, &frame));
    enum kiln_code code = raw_refusal(&frame, text);
    raw_close_descriptors(&frame);
    if (code)
        fail_msg("no kernel: %s", text);
    wait_until("the next compiler", has_come, &s);
}

static void start_one_compiler(struct fixture *f)
{
    f->daemon.arguments[0] = "--workers";
    f->daemon.arguments[1] = "1";
    start_kilnd(f);
    need_compiler(f);
}

TEST_F(sandbox, two_sources_of_one_client_are_compiled_by_two_processes)
{
    start_one_compiler(f);
    use_up_compiler(f, f->fd);
    unsigned long long before = daemon_stat(&f->daemon, "worker_starts");
    use_up_compiler(f, f->fd);
    use_up_compiler(f, f->fd);
    assert_int_equal(daemon_stat(&f->daemon, "worker_starts"), before + 2);
    assert_int_equal(daemon_stat(&f->daemon, "worker_crashes"), 0);
}

TEST_F(sandbox, a_process_that_compiled_a_source_does_not_serve_another_user)
{
    need_root();
    start_one_compiler(f);
    admit_all_users(&f->daemon);
    int alice = raw_greeted_as(&f->daemon, ALICE);
    use_up_compiler(f, alice);
    use_up_compiler(f, f->fd);
    close(alice);
}

TEST_F(sandbox, kilns_own_sources_are_compiled_by_one_process)
{
    start_one_compiler(f);
    wait_until("exactly one compiler", has_one_compiler, f);
    struct successor s = { .f = f, .before = only_compiler(f) };
    run_program(&f->daemon, &f->result, "kilnctl", "prefetch",
                KILN_SOURCE "/scripts/networks/smoke.txt", "--target", "gfx90a", "--solver",
                "ConvDirectNaive", NULL);
    assert_int_equal(f->result.status, 0);
    assert_true(daemon_stat(&f->daemon, "compiles") > 1);
    wait_until("the next compiler", has_come, &s);
    assert_int_equal(daemon_stat(&f->daemon, "worker_starts"),
                     1 + daemon_stat(&f->daemon, "probes"));
    use_up_compiler(f, f->fd);
}

static bool each_job_had_a_process(void *context)
{
    struct fixture *f = context;
    return daemon_stat(&f->daemon, "worker_starts") ==
           1 + daemon_stat(&f->daemon, "probes") + daemon_stat(&f->daemon, "compiles");
}

/* Each toolchain needs one process for its probe. No compile follows, because no toolchain knows
 * the target. */
TEST_F(sandbox, probes_of_an_unknown_target_need_a_process_each)
{
    start_one_compiler(f);
    /* Unlike other compilers, clang refuses the target without ending its process. */
    bool clang = strstr(f->result.output, "\"clang\"") != NULL;
    run_program(&f->daemon, &f->result, "kilnctl", "prefetch",
                KILN_SOURCE "/scripts/networks/smoke.txt", "--target", "gfx90a1b2c3", "--toolchain",
                clang ? "clang" : "hiprtc", "--solver", "ConvDirectNaive", NULL);
    assert_int_not_equal(f->result.status, 0);
    assert_true(daemon_stat(&f->daemon, "probes") > 0);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);
    wait_until("one compiler start for each job", each_job_had_a_process, f);
}

TEST_F(sandbox, a_queue_of_sources_gets_a_process_for_each)
{
    enum { SOURCES = 12 };
    static struct raw_frame frame;
    char options[32], text[512];
    start_kilnd(f);
    need_compiler(f);
    for (uint64_t i = 0; i < SOURCES; i++) {
        snprintf(options, sizeof(options), "-DVALUE=%u", 2000 + (unsigned)i);
        raw_send_source(f->fd, 10 + i, "gfx90a", options, bytes_of_text(KERNEL));
    }
    for (unsigned i = 0; i < SOURCES; i++) {
        assert_true(raw_receive(f->fd, &frame));
        if (raw_refusal(&frame, text))
            fail_msg("no kernel: %s", text);
        raw_close_descriptors(&frame);
    }
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), SOURCES);
    assert_true(daemon_stat(&f->daemon, "worker_starts") >= SOURCES);
    assert_int_equal(daemon_stat(&f->daemon, "worker_crashes"), 0);
    wait_until("all compilers to become idle", all_are_idle, f);
}

/* ---- hosts without every layer ---- */

/* Installs a system call filter in this process, which becomes kilnd. Children inherit it. */
static void install_filter(const struct sock_filter *steps, size_t count)
{
    const struct sock_fprog program = { .len = (unsigned short)count,
                                        .filter = (struct sock_filter *)(uintptr_t)steps };
    /* Root can install a filter without PR_SET_NO_NEW_PRIVS, and must do so, because the filter
     * may forbid that call. */
    if ((geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(125);
}

static void forbid_call(long number, int error)
{
    const struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install_filter(steps, sizeof(steps) / sizeof(steps[0]));
}

static void forbid_prctl(unsigned option, long number)
{
    const struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT_LOW),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, option, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install_filter(steps, sizeof(steps) / sizeof(steps[0]));
}

static void forbid_seccomp(void *context)
{
    (void)context;
    forbid_prctl(PR_SET_SECCOMP, SYS_seccomp);
}

/* Without PR_CAPBSET_DROP, a program that root executes gets all capabilities again. */
static void forbid_giving_up_capabilities(void *context)
{
    (void)context;
    forbid_prctl(PR_CAPBSET_DROP, NO_CALL);
}

static void forbid_no_new_privileges(void *context)
{
    (void)context;
    forbid_prctl(PR_SET_NO_NEW_PRIVS, NO_CALL);
}

static void pretend_to_change_user(void *context)
{
    (void)context;
    forbid_call(SYS_setresuid, 0);
}

static void forbid_namespaces(void *context)
{
    (void)context;
    forbid_call(SYS_unshare, EPERM);
}

static void forbid_landlock(void *context)
{
    (void)context;
    forbid_call(LANDLOCK_FIRST_CALL, ENOSYS);
}

static const struct json *sandbox_of(struct fixture *f, struct json **ret_status)
{
    run_program(&f->daemon, &f->result, "kilnctl", "status", "--json", NULL);
    assert_int_equal(f->result.status, 0);
    *ret_status = result_json(&f->result);
    return json_get(json_get(*ret_status, "workers"), "sandbox");
}

static bool has_said(void *context)
{
    struct fixture *f = context;
    KILN_AUTO(json) struct json *status = NULL;
    return json_get(sandbox_of(f, &status), "layers") != NULL;
}

static unsigned lines_about(const struct fixture *f, const char *what)
{
    unsigned count = 0;
    KILN_AUTO(mem) char *log = daemon_process_log(&f->daemon);
    for (const char *at = log; (at = strstr(at, what)); at++)
        count++;
    return count;
}

static void expect_lines(const struct fixture *f, const char *what, unsigned count)
{
    assert_int_equal(lines_about(f, what), count);
}

struct saying {
    const struct fixture *f;
    const char *what;
};

static bool is_in_log(void *context)
{
    const struct saying *s = context;
    return lines_about(s->f, s->what) > 0;
}

static void expect_warned(const struct fixture *f, const char *what)
{
    struct saying saying = { f, what };
    wait_until(what, is_in_log, &saying);
}

static void expect_missing(struct fixture *f, const char *layer)
{
    KILN_AUTO(json) struct json *status = NULL;
    wait_until("the report of the sandbox", has_said, f);
    const struct json *sandbox = sandbox_of(f, &status);
    assert_false(json_get_bool(json_get(sandbox, "layers"), layer, true));
    assert_says(json_get_text(sandbox, "missing", ""), layer);
    assert_says(json_get_text(sandbox, "why", ""), layer);
    assert_true(*json_get_text(sandbox, "to_do", ""));
}

static void expect_doctor_fails(struct fixture *f, const char *says)
{
    run_program(&f->daemon, &f->result, "kilnctl", "doctor", NULL);
    assert_says(f->result.output, says);
    assert_int_not_equal(f->result.status, 0);
}

/* Asks several times, so that a leak sanitizer finds each leaked answer. */
TEST_F(sandbox, no_sandbox_is_claimed_before_a_compiler_has_reported_it)
{
    enum { QUESTIONS = 16 };
    f->daemon.arguments[0] = "--compiler";
    f->daemon.arguments[1] = "/bin/false";
    start_kilnd(f);
    for (unsigned i = 0; i < QUESTIONS; i++) {
        KILN_AUTO(json) struct json *status = NULL;
        const struct json *sandbox = sandbox_of(f, &status);
        assert_string_equal(json_get_text(sandbox, "policy", ""), "warn");
        assert_null(json_get(sandbox, "layers"));
    }
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
}

TEST_F(sandbox, the_sandbox_layers_of_this_host_are_shown)
{
    KILN_AUTO(json) struct json *status = NULL;
    start_kilnd(f);
    wait_until("the report of the sandbox", has_said, f);
    const struct json *sandbox = sandbox_of(f, &status);
    assert_string_equal(json_get_text(sandbox, "policy", ""), "warn");
    assert_true(json_get_bool(json_get(sandbox, "layers"), "no_new_privileges", false));
    expect_lines(f, "without these layers", json_get(sandbox, "missing") ? 1 : 0);
    run_program(&f->daemon, &f->result, "kilnctl", "status", NULL);
    assert_says(f->result.output, "workers.sandbox.layers.seccomp");
}

TEST_F(sandbox, without_namespaces_compilers_run_and_one_line_says_so)
{
    f->daemon.prepare = forbid_namespaces;
    f->daemon.arguments[0] = "--workers";
    f->daemon.arguments[1] = "3";
    start_kilnd(f);
    need_compiler(f);
    still_compiles(f);
    expect_missing(f, "network");
    expect_missing(f, "processes");
    expect_lines(f, "without these layers of their sandbox", 1);
    expect_lines(f, "CAP_SYS_ADMIN", 1);
}

static void expect_no_compiler(struct fixture *f, void (*prepare)(void *context), char text[512])
{
    f->daemon.prepare = prepare;
    f->daemon.arguments[0] = "--sandbox";
    f->daemon.arguments[1] = "require";
    start_kilnd(f);
    assert_int_equal(compile_source(f, "-DVALUE=1", KERNEL, text), KILN_UNAVAILABLE);
}

TEST_F(sandbox, without_namespaces_no_compiler_starts_where_they_are_required)
{
    char text[512];
    expect_no_compiler(f, forbid_namespaces, text);
    assert_says(text, "missing: ");
    assert_says(text, "network");
    assert_says(text, "sandbox");
    expect_missing(f, "network");
    expect_doctor_fails(f, "not start");
    assert_int_equal(daemon_stat(&f->daemon, "worker_crashes"), 0);
}

TEST_F(sandbox, without_landlock_no_compiler_starts_where_it_is_required)
{
    char text[512];
    expect_no_compiler(f, forbid_landlock, text);
    assert_says(text, "landlock");
    expect_missing(f, "landlock");
}

TEST_F(sandbox, without_a_filter_of_calls_no_compiler_starts_where_it_is_required)
{
    char text[512];
    expect_no_compiler(f, forbid_seccomp, text);
    assert_says(text, "missing: ");
    assert_says(text, "seccomp");
    expect_missing(f, "seccomp");
    expect_warned(f, "missing: seccomp;");
    expect_doctor_fails(f, "not start");
}

/* Starts kilnd as root after |prepare| has taken |layer| of the sandbox away. Compilers must
 * still work, and kilnd must report that |layer| is missing. */
static void expect_layer_missing(struct fixture *f, void (*prepare)(void *context),
                                 const char *layer)
{
    char line[96];
    SKIP_IF(geteuid() != 0, "only root's kilnd can be kept from having '%s'", layer);
    f->daemon.prepare = prepare;
    start_kilnd(f);
    expect_missing(f, layer);
    snprintf(line, sizeof(line), "without these layers of their sandbox: %s", layer);
    expect_lines(f, line, 1);
    need_compiler(f);
    still_compiles(f);
}

TEST(sandbox, capabilities_that_can_be_regained_are_reported)
{
    expect_layer_missing(*state, forbid_giving_up_capabilities, "capabilities");
}

TEST(sandbox, privileges_that_can_be_gained_are_reported)
{
    expect_layer_missing(*state, forbid_no_new_privileges, "no_new_privileges");
}

TEST_F(sandbox, a_compiler_that_stays_root_is_rejected)
{
    char text[512];
    SKIP_IF(geteuid() != 0, "only root's kilnd changes its compilers' user");
    f->daemon.prepare = pretend_to_change_user;
    start_kilnd(f);
    assert_int_equal(compile_source(f, "-DVALUE=1", KERNEL, text), KILN_UNAVAILABLE);
    assert_says(text, "ready");
    expect_warned(f, "compiler_user");
}

static void every_toolchain_compiles(struct fixture *f)
{
    static const struct {
        const char *family, *target, *source;
    } rows[] = {
        { "amdgpu", "gfx90a", "extern \"C\" __attribute__((global)) void k(int *y) { y[0] = 1; }" },
        { "nvidia", "sm_90", "extern \"C\" __global__ void k(int *y) { y[0] = 1; }" },
        { "opencl", NULL, "__kernel void k(__global int *y) { y[0] = 1; }" },
    };
    unsigned seen = 0;
    run_program(&f->daemon, &f->result, "kilnctl", "toolchain", "ls", "--json", NULL);
    KILN_AUTO(json) struct json *answer = result_json(&f->result);
    const struct json *toolchain = json_first(json_get(answer, "toolchains"));
    for (; toolchain; toolchain = json_next(toolchain)) {
        const struct json *only = json_first(json_get(toolchain, "targets"));
        const char *name = json_get_text(toolchain, "name", "");
        char text[512];
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            if (strcmp(json_get_text(toolchain, "family", ""), rows[i].family) != 0)
                continue;
            send_to(f, name, rows[i].target ? rows[i].target : json_get_text(only, "target", ""),
                    rows[i].source);
            if (receive_answer(f, text))
                fail_msg("%s makes no kernel: %s", name, text);
            print_message("%s compiles with every layer\n", name);
            seen++;
        }
    }
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), seen);
    assert_true(seen > 0);
}

TEST_F(sandbox, compilers_work_where_every_layer_is_required_and_present)
{
    KILN_AUTO(json) struct json *status = NULL;
    f->daemon.arguments[0] = "--sandbox";
    f->daemon.arguments[1] = "require";
    start_kilnd(f);
    wait_until("the report of the sandbox", has_said, f);
    if (json_get(sandbox_of(f, &status), "missing")) {
        json_auto(&status);
        status = NULL;
        SKIP("this host does not give all layers");
    }
    need_compiler(f);
    every_toolchain_compiles(f);
}
