/* SPDX-License-Identifier: MIT */
#include "daemon/name_service.h"

#include "common/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Time limit of a look-up.  A name service in the network may be slow, and each look-up occupies a
 * thread of a work queue and has a child process with copies of kilnd's descriptors and file
 * locks. */
#define ANSWER_MS 30000

struct question {
    enum { USER, USER_OF_UID, GROUP } kind;
    const char *name;
    uid_t uid;
};

struct answer { /* small enough for one atomic write to a pipe */
    bool is_found;
    int errnum; /* 0: the name service answered */
    struct name_service_user user;
};

static bool means_absent(int errnum)
{
    return errnum == 0 || errnum == ENOENT || errnum == ESRCH || errnum == EBADF || errnum == EPERM;
}

static void note_absence(struct answer *answer)
{
    answer->errnum = means_absent(errno) ? 0 : errno;
}

static void look_up_user(const struct question *question, struct answer *answer)
{
    errno = 0;
    const struct passwd *entry =
        question->kind == USER ? getpwnam(question->name) : getpwuid(question->uid);
    answer->is_found = entry != NULL;
    if (!entry) {
        note_absence(answer);
        return;
    }
    answer->user.uid = entry->pw_uid;
    answer->user.gid = entry->pw_gid;
    snprintf(answer->user.name, sizeof(answer->user.name), "%s", entry->pw_name);
}

static void look_up_group(const struct question *question, struct answer *answer)
{
    errno = 0;
    const struct group *entry = getgrnam(question->name);
    answer->is_found = entry != NULL;
    if (entry)
        answer->user.gid = entry->gr_gid;
    else
        note_absence(answer);
}

_Noreturn static void run_child(const struct question *question, int to)
{
    struct answer answer = { 0 };
    (question->kind == GROUP ? look_up_group : look_up_user)(question, &answer);
    _exit(write(to, &answer, sizeof(answer)) == (ssize_t)sizeof(answer) ? 0 : 1);
}

static enum kiln_code fail_question(const struct question *question, const char *why,
                                    struct kiln_err *err)
{
    char uid[24];
    snprintf(uid, sizeof(uid), "%u", (unsigned)question->uid);
    return kiln_fail(err, KILN_UNAVAILABLE, "cannot look up the %s '%s': %s",
                     question->kind == GROUP ? "group" : "user",
                     question->kind == USER_OF_UID ? uid : question->name, why);
}

static bool wait_for_answer(int from)
{
    struct pollfd waiting = { .fd = from, .events = POLLIN };
    int rc;
    do
        rc = poll(&waiting, 1, ANSWER_MS);
    while (rc < 0 && errno == EINTR);
    return rc > 0;
}

static bool read_answer(int from, struct answer *ret_answer)
{
    ssize_t got;
    do
        got = read(from, ret_answer, sizeof(*ret_answer));
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof(*ret_answer);
}

static int wait_for_child(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static enum kiln_code check_answer(const struct question *question, bool is_whole, int status,
                                   const struct answer *answer, struct kiln_err *err)
{
    char why[64];
    if (is_whole && answer->errnum == 0)
        return answer->is_found ? KILN_OK : (err->code = KILN_NOT_FOUND);
    if (is_whole)
        return fail_question(question, strerror(answer->errnum), err);
    if (WIFSIGNALED(status))
        snprintf(why, sizeof(why), "the name service ended with signal %d", WTERMSIG(status));
    else
        snprintf(why, sizeof(why), "the name service gave no answer");
    return fail_question(question, why, err);
}

static enum kiln_code ask_child(const struct question *question, struct answer *ret_answer,
                                struct kiln_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return fail_question(question, strerror(errno), err);
    KILN_AUTO(fd) int from = ends[0];
    KILN_AUTO(fd) int to = ends[1];
    pid_t child = fork();
    if (child < 0)
        return fail_question(question, strerror(errno), err);
    if (child == 0)
        run_child(question, to);
    fd_auto(&to);
    to = -1;
    if (!wait_for_answer(from)) {
        kill(child, SIGKILL);
        (void)wait_for_child(child);
        return fail_question(question, "the name service did not answer within 30 s", err);
    }
    bool is_whole = read_answer(from, ret_answer);
    return check_answer(question, is_whole, wait_for_child(child), ret_answer, err);
}

enum kiln_code name_service_user(const char *name, struct name_service_user *ret_user,
                                 struct kiln_err *err)
{
    struct answer answer = { 0 };
    const struct question question = { .kind = USER, .name = name };
    enum kiln_code rc = ask_child(&question, &answer, err);
    if (!rc)
        *ret_user = answer.user;
    return rc;
}

enum kiln_code name_service_user_of_uid(uid_t uid, struct name_service_user *ret_user,
                                        struct kiln_err *err)
{
    struct answer answer = { 0 };
    const struct question question = { .kind = USER_OF_UID, .uid = uid };
    enum kiln_code rc = ask_child(&question, &answer, err);
    if (!rc)
        *ret_user = answer.user;
    return rc;
}

enum kiln_code name_service_group(const char *name, gid_t *ret_gid, struct kiln_err *err)
{
    struct answer answer = { 0 };
    const struct question question = { .kind = GROUP, .name = name };
    enum kiln_code rc = ask_child(&question, &answer, err);
    if (!rc)
        *ret_gid = answer.user.gid;
    return rc;
}
