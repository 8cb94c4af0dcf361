/* SPDX-License-Identifier: MIT */
#include "tests/faults/trial.h"

#include "common/base/fs.h"
#include "tests/faults/descriptors.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

void trial_mark(struct trial *t)
{
    fault_plan_obey(t->plan);
    fault_plan_arm(t->plan);
}

void trial_over(struct trial *t)
{
    fault_plan_disarm(t->plan);
    t->end->over = true;
}

bool trial_step(struct trial *t, enum kiln_code rc, const struct kiln_err *err)
{
    if (!rc) {
        t->end->done++;
        return true;
    }
    t->end->rc = rc;
    memcpy(t->end->text, err->text, sizeof(t->end->text) - 1);
    return false;
}

static void copy_file(int from_directory, int to_directory, const char *name,
                      const struct stat *seen)
{
    int from = openat(from_directory, name, O_RDONLY | O_CLOEXEC);
    int to = openat(to_directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(from >= 0 && to >= 0);
    for (off_t left = seen->st_size; left > 0;) {
        ssize_t sent = sendfile(to, from, NULL, (size_t)left);
        assert_true(sent > 0);
        left -= sent;
    }
    assert_int_equal(fchmod(to, seen->st_mode & 07777), 0);
    const struct timespec times[2] = { seen->st_atim, seen->st_mtim };
    assert_int_equal(futimens(to, times), 0);
    close(from);
    close(to);
}

static void copy_directory(int from, int to)
{
    DIR *dir = fdopendir(from);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        struct stat seen;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        assert_int_equal(fstatat(from, e->d_name, &seen, AT_SYMLINK_NOFOLLOW), 0);
        if (!S_ISDIR(seen.st_mode)) {
            copy_file(from, to, e->d_name, &seen);
            continue;
        }
        assert_int_equal(mkdirat(to, e->d_name, seen.st_mode & 07777), 0);
        int below = openat(to, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        copy_directory(openat(from, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), below);
        close(below);
    }
    closedir(dir);
}

static void make_directory(char path[96])
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, 96, "%.70s/kiln-fault-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(path));
}

static void copy_to(const char *from, char to[96])
{
    make_directory(to);
    int target = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    copy_directory(open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC), target);
    close(target);
}

#define LEFT_OPEN 4 /* exit status: descriptors were left open */

static _Noreturn void run_trial_steps(const struct trial_steps *steps, struct trial *t)
{
    struct descriptors before, after;
    char difference[512];
    descriptors_list(getpid(), &before);
    steps->act(t);
    descriptors_list(getpid(), &after);
    if (!descriptors_equal(&after, &before, difference)) {
        print_message("descriptors were left open: %s\n", difference);
        exit(LEFT_OPEN);
    }
    exit(0); /* The leak sanitizer runs at exit, but not at _exit. */
}

static bool was_ended_by_plan(const struct trial *t, int status)
{
    bool deadly = t->plan->action == FAULT_KILL || t->plan->action == FAULT_TEAR;
    return deadly && t->injected && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* nettle uses GMP to verify signatures. GMP calls abort if it gets no memory. */
static bool was_ended_by_gmp(const struct trial *t, int status)
{
    return t->injected && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
           strstr(t->plan->where, "libgmp");
}

static void run_trial(const struct fault_case *c, const struct trial_steps *steps, struct trial *t)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        run_trial_steps(steps, t);
    int status = await_child(child);
    t->injected = fault_plan_disarm(t->plan);
    t->killed = was_ended_by_plan(t, status) || was_ended_by_gmp(t, status);
    if (!t->killed && status)
        fail_msg("the operation ended with wait status 0x%x", (unsigned)status);
    if (!t->killed)
        assert_true(t->end->over);
    if (t->end->rc && t->end->rc != KILN_NOT_FOUND && !*t->end->text)
        fail_msg("the operation failed with code %d and without a message", (int)t->end->rc);
    if (t->end->rc && (!t->injected || fault_is_harmless(c->kind)))
        fail_msg("the operation fails without a reason: code %d, '%s'", (int)t->end->rc,
                 t->end->text);
}

static bool try_place(const struct fault_case *c, const char *template, unsigned at,
                      struct trial *t)
{
    const struct trial_steps *steps = c->operation->context;
    copy_to(template, t->directory);
    snprintf(c->report->directory, sizeof(c->report->directory), "%s", t->directory);
    memset(t->end, 0, sizeof(*t->end));
    fault_case_plan(c, at, t->plan);
    t->plan->no_sync = true;
    run_trial(c, steps, t);
    snprintf(c->report->where, sizeof(c->report->where), "%s", t->plan->where);
    steps->check(t);
    fs_remove_tree(AT_FDCWD, t->directory);
    t->version++;
    return t->injected;
}

void trial_run(const struct fault_case *c)
{
    const struct trial_steps *steps = c->operation->context;
    char template[96];
    struct trial t = { .version = 2 };
    make_directory(template);
    t.plan = mmap(NULL, sizeof(*t.plan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    t.end = mmap(NULL, sizeof(*t.end), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true((void *)t.plan != MAP_FAILED && (void *)t.end != MAP_FAILED);
    /* The syncs are skipped, because these cases do not simulate a power failure. */
    t.plan->no_sync = true;
    fault_plan_obey(t.plan);
    steps->prepare(template);
    unsigned at = c->first;
    while (fault_case_next(c, t.plan, try_place(c, template, at, &t)))
        at += c->every;
    fs_remove_tree(AT_FDCWD, template);
}
