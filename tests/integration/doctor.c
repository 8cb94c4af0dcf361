/* SPDX-License-Identifier: MIT */
/* Each test follows doctor's advice, after which the failed check must pass. */
#include "tests/integration/steps.h"
#include "tests/support/test_files.h"

#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <poll.h>
#include <pty.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534
#define GROUP "games" /* a group that exists on every Debian system, and has no members */
#define MOUNTS_MAX 8

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
    char mounted[MOUNTS_MAX][160];
    size_t mount_count;
};

static void unmount_all(struct fixture *f)
{
    while (f->mount_count > 0)
        umount2(f->mounted[--f->mount_count], MNT_DETACH);
}

/* Hides all compilers except clang, because doctor runs every compiler that it finds. */
static void hide_libraries(void)
{
    test_setenv("KILN_ROCM_PATH", "/absent");
    test_setenv("KILN_CUDA_PATH", "/absent");
    test_setenv("OCL_ICD_VENDORS", "/absent");
}

SET_UP(setup)
{
    daemon_process_init(&f->daemon);
    hide_libraries();
}

TEAR_DOWN(teardown)
{
    if (f->daemon.pid)
        daemon_process_stop(&f->daemon);
    unmount_all(f);
}

FIXTURE(doctor, setup, teardown);

static void need_other_users(void)
{
    /* valgrind's log belongs to root, so a program of another user could not write to it */
    bool logs = getenv("KILN_TEST_VALGRIND");
    if (geteuid() == 0 && !logs)
        return;
    SKIP("%s",
         logs ? "valgrind cannot log what another user runs" : "only root can ask as another user");
}

static void need_mounts(void)
{
    SKIP_IF(unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0,
            "no filesystem can be mounted here");
}

static void mount_at(struct fixture *f, const char *path, const char *options)
{
    assert_true(f->mount_count < MOUNTS_MAX);
    SKIP_IF(mount("tmpfs", path, "tmpfs", 0, options) != 0, "no filesystem can be mounted at '%s'",
            path);
    snprintf(f->mounted[f->mount_count++], sizeof(f->mounted[0]), "%s", path);
}

static const char *in_directory(const struct fixture *f, const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", f->daemon.directory, name);
    return path;
}

static void doctor_ok(struct fixture *f)
{
    kilnctl(f, "doctor");
    if (f->result.status != 0)
        fail_msg("doctor is not content: %s", f->result.output);
}

static void doctor_fails(struct fixture *f, const char *what, const char *advice)
{
    kilnctl(f, "doctor");
    expect_status(&f->result, 1, what);
    assert_says(f->result.output, advice);
    assert_says(f->result.output, "fail  ");
}

TEST_F(doctor, a_missing_socket_is_fixed_by_the_advice_of_the_doctor)
{
    char advice[200];
    test_write_text(in_directory(f, "settings.json"), "{}");
    snprintf(advice, sizeof(advice), "kilnd --socket %s", f->daemon.socket);
    kilnctl(f, "doctor", "--config", in_directory(f, "settings.json"));
    expect_status(&f->result, 1, "not run");
    assert_says(f->result.output, advice);
    assert_says(f->result.output, "unseen");
    /* Without kilnd, doctor still checks the cache directory. */
    assert_says(f->result.output, "cache directory");

    daemon_process_start(&f->daemon);
    doctor_ok(f);
    assert_says(f->result.output, "may administer");
    assert_says(f->result.output, "compiles for");
    assert_says(f->result.output, "sound");
}

TEST_F(doctor, the_json_of_the_doctor_names_the_failed_checks)
{
    test_write_text(in_directory(f, "settings.json"), "{}");
    kilnctl(f, "doctor", "--json", "--config", in_directory(f, "settings.json"));
    assert_int_equal(f->result.status, 1);
    KILN_AUTO(json) struct json *all = printed_json(&f->result);
    assert_false(json_get_bool(all, "ok", true));
    assert_string_equal(json_get_text(json_get(all, "error"), "code", ""), "UNAVAILABLE");
    assert_string_equal(json_get_text(json_first(json_get(all, "checks")), "check", ""), "socket");
}

static void run_as(const struct fixture *f, bool with_groups, const char *settings)
{
    const struct passwd *user = getpwuid(NOBODY);
    if (!user ||
        (with_groups ? initgroups(user->pw_name, user->pw_gid) : setgroups(0, NULL)) != 0 ||
        setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)
        _exit(126);
    setenv("KILN_SOCKET", f->daemon.socket, 1);
    execl(KILN_BIN "/kilnctl", "kilnctl", "doctor", settings ? "--config" : NULL, settings, NULL);
    _exit(127);
}

/* Runs doctor as user nobody, with all groups of the account if |is_new_login|, otherwise
 * without groups. |settings| may be NULL. */
static void doctor_as_nobody(struct fixture *f, bool is_new_login, const char *settings)
{
    int ends[2];
    size_t used = 0;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        run_as(f, is_new_login, settings);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0; used += got > 0 ? (size_t)got : 0)
        got = read(ends[0], f->result.output + used, sizeof(f->result.output) - 1 - used);
    close(ends[0]);
    f->result.output[used] = '\0';
    f->result.status = wait_program(pid);
}

TEST_F(doctor, a_user_outside_the_group_is_advised_to_join_it_and_log_in_again)
{
    static const char *const arguments[] = { "--socket-group", GROUP };
    need_other_users();
    need_mounts();
    assert_int_equal(chmod(f->daemon.directory, 0755), 0);
    memcpy(f->daemon.arguments, arguments, sizeof(arguments));
    daemon_process_start(&f->daemon);

    doctor_as_nobody(f, true, NULL);
    SKIP_IF(f->result.status == 127, "other users cannot run what is in '%s'", KILN_BIN);
    expect_status(&f->result, 1, "group " GROUP);
    assert_says(f->result.output, "usermod -aG " GROUP " nobody");

    /* Adds nobody to the group, as usermod would, but in a copy of /etc/group that only this
     * test sees. */
    shell(f->daemon.directory,
          "sed '/^" GROUP ":/s/$/nobody/' /etc/group >group && chmod 644 group");
    assert_int_equal(mount(in_directory(f, "group"), "/etc/group", "none", MS_BIND, NULL), 0);
    snprintf(f->mounted[f->mount_count++], sizeof(f->mounted[0]), "/etc/group");
    doctor_as_nobody(f, false, NULL);
    expect_status(&f->result, 1, "logged in");
    assert_says(f->result.output, "log in");

    doctor_as_nobody(f, true, NULL);
    expect_status(&f->result, 0, "user nobody");
    assert_says(f->result.output, "may use");
}

TEST(doctor, unreadable_settings_do_not_hide_the_directories)
{
    struct fixture *f = *state;
    need_other_users();
    assert_int_equal(chmod(f->daemon.directory, 0755), 0);
    test_write_text(in_directory(f, "settings.json"), "{}");
    assert_int_equal(chmod(in_directory(f, "settings.json"), 0600), 0);
    doctor_as_nobody(f, true, in_directory(f, "settings.json"));
    SKIP_IF(f->result.status == 127, "other users cannot run what is in '%s'", KILN_BIN);
    expect_status(&f->result, 1, "unseen  settings");
    assert_says(f->result.output, "cache directory");
    assert_says(f->result.output, "state directory");
    assert_null(strstr(f->result.output, "fail    settings"));
}

TEST(doctor, moving_a_cache_from_nfs_as_advised_fixes_it)
{
    struct fixture *f = *state;
    char settings[512], advice[300];
    const char *file = in_directory(f, "settings.json"), *nfs = in_directory(f, "nfs");
    fake_filesystem_type("0x6969", nfs);
    snprintf(settings, sizeof(settings), "{\"cache_dir\":\"%s\",\"state_dir\":\"%s/state\"}", nfs,
             f->daemon.directory);
    test_write_text(file, settings);
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, "--config", file,
                NULL);
    assert_int_equal(f->result.status, 1);
    kilnctl(f, "doctor", "--config", file);
    expect_status(&f->result, 1, "nfs");
    snprintf(advice, sizeof(advice), "set cache_dir in %s to a directory on a local disk", file);
    assert_says(f->result.output, advice);
    const char *effect = strstr(f->result.output, "fail    socket");
    assert_non_null(effect);
    assert_true(strstr(f->result.output, "fail    cache directory") < effect);

    snprintf(settings, sizeof(settings), "{\"cache_dir\":\"%s/cache\"}", f->daemon.directory);
    test_write_text(file, settings);
    f->daemon.arguments[0] = "--config";
    f->daemon.arguments[1] = file;
    daemon_process_start(&f->daemon);
    doctor_ok(f);
}

TEST_F(doctor, settings_that_are_not_json_are_reported)
{
    test_write_text(in_directory(f, "settings.json"), "{\"cache_dir\":");
    kilnctl(f, "doctor", "--config", in_directory(f, "settings.json"));
    expect_status(&f->result, 1, "settings.json");
    assert_says(f->result.output, "kilnd --check-config");
    test_write_text(in_directory(f, "settings.json"), "{\"cache_limt\":\"3G\"}");
    kilnctl(f, "doctor", "--config", in_directory(f, "settings.json"));
    expect_status(&f->result, 1, "'cache_limt'");
    assert_says(f->result.output, "settings");
}

static void hide_compilers(struct fixture *f)
{
    glob_t directories;
    if (glob("/usr/lib/llvm-*/bin", 0, NULL, &directories) != 0)
        return;
    for (size_t i = 0; i < directories.gl_pathc; i++)
        mount_at(f, directories.gl_pathv[i], "size=64k");
    globfree(&directories);
}

static void show_compilers(struct fixture *f)
{
    test_unsetenv("KILN_ROCM_PATH", "KILN_CUDA_PATH", "OCL_ICD_VENDORS");
    unmount_all(f);
}

TEST_F(doctor, installing_a_compiler_fixes_a_host_without_one)
{
    need_mounts();
    hide_compilers(f);
    daemon_process_start(&f->daemon);
    doctor_fails(f, "fail    toolchain", "apt install libamdhip64-5");

    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    show_compilers(f);
    daemon_process_start(&f->daemon);
    doctor_ok(f);
}

static void damage_page(const struct fixture *f, unsigned page)
{
    static const uint8_t noise[4096] = { 0xa5, 0x5a };
    char path[160];
    snprintf(path, sizeof(path), "%s/kernels.db", f->daemon.cache);
    KILN_AUTO(fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, noise, sizeof(noise), (off_t)(page - 1) * (off_t)sizeof(noise)),
                     sizeof(noise));
}

TEST_F(doctor, the_printed_command_repairs_a_damaged_kernels_db)
{
    char cure[64];
    test_write_text(in_directory(f, "one.txt"), "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n");
    for (unsigned page = 3; page <= 7; page += 2) {
        daemon_process_start(&f->daemon);
        kilnctl_ok(f, "prefetch", in_directory(f, "one.txt"), "--target", "gfx90a");
        assert_int_equal(daemon_process_stop(&f->daemon), 0);
        damage_page(f, page);
        daemon_process_start(&f->daemon);
        doctor_fails(f, "damaged", "empty it: kilnctl ");

        const char *printed = strstr(f->result.output, "empty it: kilnctl ") + strlen("empty it: ");
        snprintf(cure, sizeof(cure), "%.*s", (int)strcspn(printed, "("), printed);
        shell(f->daemon.directory, "KILN_SOCKET='%s' " KILN_BIN "/%s", f->daemon.socket, cure);
        doctor_ok(f);
        assert_int_equal(daemon_process_stop(&f->daemon), 0);
    }
}

TEST_F(doctor, compilers_that_are_switched_off_need_no_installing)
{
    static const char *const arguments[] = { "--workers", "0" };
    memcpy(f->daemon.arguments, arguments, sizeof(arguments));
    daemon_process_start(&f->daemon);
    doctor_ok(f);
    assert_says(f->result.output, "toolchain");
    assert_null(strstr(f->result.output, "apt install"));
}

static bool is_content(void *context)
{
    struct fixture *f = context;
    kilnctl(f, "doctor");
    return f->result.status == 0;
}

TEST_F(doctor, a_full_disk_is_reported_ok_once_it_has_free_space)
{
    const char *cache = f->daemon.cache;
    need_mounts();
    shell(f->daemon.directory, "mkdir -p -m 0700 '%s'", cache);
    mount_at(f, cache, "size=64m,mode=0700");
    daemon_process_start(&f->daemon);
    shell(cache, "cat /dev/zero >filler 2>/dev/null; test -s filler");
    doctor_fails(f, "disk is", "df -h");

    shell(cache, "rm filler");
    /* kilnd notices the free space without any request of a client */
    if (!holds_in_time(is_content, f))
        fail_msg("doctor is not content: %s", f->result.output);
}

static void pretend_gpu(struct fixture *f)
{
    mount_at(f, "/sys/class", "size=1m,mode=0755");
    shell("/sys/class", "mkdir -p kfd/kfd/topology/nodes/1");
    test_write_text("/sys/class/kfd/kfd/topology/nodes/1/properties",
                    "cpu_cores_count 0\nsimd_count 416\nsimd_per_cu 4\ngfx_target_version 90010\n"
                    "vendor_id 4098\ndevice_id 29711\nunique_id 81985529216486895\n");
}

TEST_F(doctor, a_package_for_another_gpu_is_joined_by_the_right_one)
{
    need_mounts();
    pretend_gpu(f);
    daemon_process_start(&f->daemon);
    test_write_text(in_directory(f, "one.txt"), "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n");
    kilnctl_ok(f, "pkg", "build", "--target", "gfx906", "--db-id", "gfx906_60", "--problems",
               in_directory(f, "one.txt"), "-o", in_directory(f, "gfx906_60.kdb"));
    kilnctl_ok(f, "pkg", "install", in_directory(f, "gfx906_60.kdb"));
    assert_says(f->result.output, "no GPU");
    doctor_fails(f, "host's gfx90a68", "(gfx90a68.kdb)");

    kilnctl_ok(f, "pkg", "build", "--target", "gfx90a", "--db-id", "gfx90a68", "--problems",
               in_directory(f, "one.txt"), "-o", in_directory(f, "gfx90a68.kdb"));
    kilnctl_ok(f, "pkg", "install", in_directory(f, "gfx90a68.kdb"));
    doctor_ok(f);
    assert_says(f->result.output, "host's gfx90a68");
    assert_says(f->result.output, "for gfx90a");
}

static void put_systemctl(struct fixture *f, const char *state)
{
    char script[700];
    snprintf(script, sizeof(script),
             "#!/bin/sh\n[ \"$1 $2\" = '--user show' ] || exit 3\n"
             "printf 'Id=kilnd.socket\\nLoadState=loaded\\nActiveState=active\\n"
             "UnitFileState=enabled\\n\\nId=kilnd.service\\nLoadState=loaded\\n"
             "ActiveState=%s\\nResult=watchdog\\n'\n",
             state);
    test_write_text(in_directory(f, "bin/systemctl"), script);
    assert_int_equal(chmod(in_directory(f, "bin/systemctl"), 0755), 0);
}

TEST_F(doctor, the_doctor_asks_systemd)
{
    char path[4096], *before = strdup(getenv("PATH"));
    need_mounts();
    mount_at(f, "/run", "size=1m,mode=0755");
    shell("/run", "mkdir -p systemd/system");
    assert_int_equal(mkdir(in_directory(f, "bin"), 0755), 0);
    snprintf(path, sizeof(path), "%s:%s", in_directory(f, "bin"), before);
    daemon_process_start(&f->daemon);
    setenv("PATH", path, 1);
    put_systemctl(f, "failed");
    doctor_fails(f, "watchdog", "journalctl --user -u kilnd.service");
    put_systemctl(f, "active");
    doctor_ok(f);
    test_write_text(in_directory(f, "bin/systemctl"), "#!/bin/sh\nexit 1\n");
    doctor_ok(f);
    assert_says(f->result.output, "systemctl");
    setenv("PATH", before, 1);
    free(before);
}

struct terminal {
    int fd;
    pid_t pid;
    char text[1 << 18];
    size_t used;
    const char *wanted;
};

static void terminal_start(struct terminal *t, const struct fixture *f)
{
    const struct winsize size = { .ws_row = 30, .ws_col = 100 };
    t->used = 0;
    t->pid = forkpty(&t->fd, NULL, NULL, &size);
    assert_true(t->pid >= 0);
    if (t->pid > 0)
        return;
    setenv("TERM", "xterm", 1);
    setenv("KILN_SOCKET", f->daemon.socket, 1);
    execl(KILN_BIN "/kilnctl", "kilnctl", "top", NULL);
    _exit(127);
}

/* Reads all pending output. When |text| is half full, drops the older half of it. */
static void terminal_read(struct terminal *t)
{
    struct pollfd ready = { .fd = t->fd, .events = POLLIN };
    while (poll(&ready, 1, 0) > 0) {
        if (t->used > sizeof(t->text) / 2) {
            t->used /= 2;
            memmove(t->text, t->text + t->used, t->used);
        }
        ssize_t got = read(t->fd, t->text + t->used, sizeof(t->text) / 4);
        if (got <= 0)
            break;
        t->used += (size_t)got;
    }
    t->text[t->used] = '\0';
}

/* Returns whether the screen shows |wanted|. Changes the window's size first, because otherwise
 * ncurses sends only the parts that have changed. */
static bool screen_shows(void *context)
{
    struct terminal *t = context;
    static unsigned short width = 100;
    const struct winsize size = { .ws_row = 30, .ws_col = width++ % 20 + 90 };
    ioctl(t->fd, TIOCSWINSZ, &size);
    terminal_read(t);
    return strstr(t->text, t->wanted) != NULL;
}

static void expect_shown(struct terminal *t, const char *words)
{
    t->wanted = words;
    if (!holds_in_time(screen_shows, t))
        fail_msg("top does not show '%s' in %zu bytes", words, t->used);
    t->used = 0;
}

static bool has_ended(void *context)
{
    struct terminal *t = context;
    terminal_read(t); /* the program cannot end before its output is read */
    return kill(t->pid, 0) != 0 || strstr(t->text, "\x1b[?1049l") != NULL;
}

TEST_F(doctor, top_sorts_resizes_outlives_a_restart_and_quits)
{
    static struct terminal t;
    char pid[64];
    daemon_process_start(&f->daemon);
    terminal_start(&t, f);
    expect_shown(&t, "at once, by age");
    assert_int_equal(write(t.fd, "s", 1), 1);
    expect_shown(&t, "at once, by program");

    daemon_process_stop(&f->daemon);
    expect_shown(&t, "no daemon, retrying");
    daemon_process_start(&f->daemon);
    snprintf(pid, sizeof(pid), "pid %d ", (int)f->daemon.pid);
    expect_shown(&t, pid);

    assert_int_equal(write(t.fd, "q", 1), 1);
    wait_until("top to end", has_ended, &t);
    close(t.fd);
    assert_int_equal(wait_program(t.pid), 0);
}

TEST_F(doctor, top_prints_one_page_without_a_terminal)
{
    daemon_process_start(&f->daemon);
    kilnctl_fails(f, 2, "--once", "top");
    kilnctl_ok(f, "top", "--once");
    assert_says(f->result.output, "Kernels found");
    kilnctl_ok(f, "top", "--json");
    KILN_AUTO(json) struct json *j = printed_json(&f->result);
    assert_true(json_get_number(json_get(j, "rates"), "requests_per_s", 0) > 0);
}

TEST_F(doctor, a_report_of_a_fresh_kilnd_is_one_file)
{
    const char *page = in_directory(f, "kiln.html");
    daemon_process_start(&f->daemon);
    kilnctl_ok(f, "report", "-o", page);
    kilnctl_ok(f, "report", "-o", page);
    shell(f->daemon.directory,
          "head -1 kiln.html | grep -q 'kilnctl report' && grep -q '</html>' kiln.html");
    shell_says("kiln.html", f->daemon.directory, "ls -A | grep html");
    test_write_text(page, "other");
    kilnctl_fails(f, 2, page, "report", "-o", page);
}
