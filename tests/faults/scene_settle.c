/* SPDX-License-Identifier: MIT */
#include "tests/faults/scene.h"

#include "common/base/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* during a lasting fault, the client is killed if kilnd does not answer for this long */
#define SILENT_MS 500
/* scene_settle polls every 5 ms. kilnd is idle after QUIET_POLLS polls in a row without a running
 * thread or a new call. */
#define QUIET_POLLS 3u
#define POLLS_MAX 2000u
#define ACT_SECONDS 100u

/* Returns whether the thread sleeps ('S' in /proc) or has ended ('Z', or not in /proc). */
static bool thread_sleeps(int task, const char *thread)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "%.20s/stat", thread);
    int fd = openat(task, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    return !name_end || name_end[2] == 'S' || name_end[2] == 'Z';
}

static bool process_sleeps(pid_t pid);

static bool children_sleep(int task, const char *thread)
{
    char path[64];
    unsigned pid = 0;
    bool sleep = true;
    snprintf(path, sizeof(path), "%.20s/children", thread);
    int fd = openat(task, path, O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "re");
    while (file && sleep && fscanf(file, "%u", &pid) == 1) // NOLINT(cert-err34-c): the kernel's
        sleep = process_sleeps((pid_t)pid);
    if (file)
        fclose(file);
    return sleep;
}

static bool process_sleeps(pid_t pid)
{
    char path[64];
    bool sleep = true;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return true;
    for (struct dirent *e = readdir(dir); e && sleep; e = readdir(dir))
        if (e->d_name[0] != '.')
            sleep = thread_sleeps(dirfd(dir), e->d_name) && children_sleep(dirfd(dir), e->d_name);
    closedir(dir);
    return sleep;
}

static unsigned calls_seen(const struct scene *s) { return atomic_load(&s->plan->seen); }

void scene_settle(struct scene *s)
{
    unsigned quiet = 0;
    for (unsigned polls = 0; quiet < QUIET_POLLS && polls < POLLS_MAX; polls++) {
        unsigned seen = calls_seen(s);
        poll(NULL, 0, 5);
        bool sleeps = s->daemon.pid == 0 || process_sleeps(s->daemon.pid);
        quiet = sleeps && calls_seen(s) == seen ? quiet + 1 : 0;
    }
}

static bool daemon_has_ended(const struct scene *s)
{
    siginfo_t info = { .si_pid = 0 };
    return s->daemon.pid > 0 &&
           waitid(P_PID, (id_t)s->daemon.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == s->daemon.pid;
}

static bool waits_in_vain(const struct scene *s, uint64_t *injected_ns)
{
    if (atomic_load(&s->plan->injected) == 0 || strcmp(s->program, "kilnd") != 0)
        return false;
    uint64_t now = clock_monotonic_ns();
    *injected_ns = *injected_ns ? *injected_ns : now;
    return fault_is_deadly(s->c->kind)
               ? daemon_has_ended(s)
               : s->c->kind->onwards && now - *injected_ns > SILENT_MS * UINT64_C(1000000);
}

bool scene_act_apart(struct scene *s, bool (*act)(struct scene *s), bool is_faulty)
{
    int status = 0;
    uint64_t injected_ns = 0;
    s->apart_done = false;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setpgid(0, 0);
        if (is_faulty)
            fault_plan_obey(s->plan);
        s->apart_done = act(s);
        _exit(0);
    }
    setpgid(child, child);
    uint64_t end = clock_monotonic_ns() + ACT_SECONDS * UINT64_C(1000000000);
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (clock_monotonic_ns() > end)
            fail_msg("waited %u s for the process that sends the requests", ACT_SECONDS);
        if (waits_in_vain(s, &injected_ns))
            kill(-child, SIGKILL);
        poll(NULL, 0, 2);
    }
    /* Kills the whole process group, because a kilnctl that the process started may still run. */
    kill(-child, SIGKILL);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (status && !killed)
        fail_msg("the process that sends the requests ended with wait status 0x%x",
                 (unsigned)status);
    return !killed && s->apart_done;
}
