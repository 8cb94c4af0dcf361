/* SPDX-License-Identifier: MIT */

/* A fake kiln-transfer: receives a job and does what its URL says. First it makes a file in its
 * staging directory, so that tests can see kilnd remove it. */
#include "common/base/fs.h"
#include "engine/transfer/transfer_wire.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define SOCKET_FD 3
#define SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static struct received_job received;
static const char *reported_user = "nobody";
static struct transfer_result result = { .sha256 = SHA256, .signer = "amd", .rows = 3 };

static void put_file(const char *name, const char *content)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", received.job.staging, name);
    FILE *file = fopen(path, "w");
    if (!file || fputs(content, file) < 0 || fclose(file) != 0)
        _exit(80);
}

static void leave_text(const char *text)
{
    put_file(received.job.name, text);
    transfer_send_result(SOCKET_FD, &result, "");
}

static void report_progress(const char *stage)
{
    const struct transfer_progress progress = {
        .stage = stage, .done = 1, .total = 2, .attempt = 1, .note = ""
    };
    transfer_send_progress(SOCKET_FD, &progress);
}

static void leave_package(void)
{
    put_file(received.job.name, "package");
    report_progress("checking");
    transfer_send_result(SOCKET_FD, &result, "");
}

static void report_failure(void)
{
    kiln_fail(&result.err, KILN_CORRUPT, "row 7 is damaged");
    transfer_send_result(SOCKET_FD, &result, "look here");
}

static void report_and_hang(void)
{
    report_progress("fetching");
    for (;;)
        pause();
}

static void report_on(void)
{
    for (;;) {
        report_progress("fetching");
        usleep(20000);
    }
}

static void send_invalid_message(void)
{
    if (send(SOCKET_FD, "babble", 6, 0) < 0)
        _exit(81);
    for (;;)
        pause();
}

static void succeed_with_a_link(void)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", received.job.staging, received.job.name);
    if (symlink("/etc/passwd", path) < 0)
        _exit(82);
    transfer_send_result(SOCKET_FD, &result, "");
}

static void succeed_without_a_file(void) { transfer_send_result(SOCKET_FD, &result, ""); }

static void name_outside_file(void)
{
    strcpy(result.name, "../escaped");
    transfer_send_result(SOCKET_FD, &result, "");
}

static void succeed_and_die(void)
{
    leave_package();
    abort();
}

static void succeed_with_a_manifest(void)
{
    put_file(TRANSFER_MANIFEST, "manifest");
    leave_package();
}

static void succeed_with_a_link_for_a_manifest(void)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/" TRANSFER_MANIFEST, received.job.staging);
    if (symlink("/etc/passwd", path) < 0)
        _exit(87);
    leave_package();
}

static void succeed_and_stay(void)
{
    leave_package();
    for (;;)
        pause();
}

static void report_two_results(void)
{
    leave_package();
    report_failure();
}

static void leave_a_process(void)
{
    char text[32];
    pid_t child = fork();
    if (child == 0) {
        for (;;)
            pause();
    }
    snprintf(text, sizeof(text), "%d", (int)child);
    leave_text(text);
}

static void copy_content(void)
{
    char text[64] = "";
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, sizeof(text) - 1);
    if (fs_read_fd(received.job.content_fd, sizeof(text) - 1, &content, &err))
        _exit(83);
    memcpy(text, content.data, content.size);
    leave_text(text);
}

static void leave_user(void)
{
    char text[64];
    struct stat seen;
    if (stat(received.job.staging, &seen) != 0)
        _exit(84);
    snprintf(text, sizeof(text), "%s directory of %u:%u", reported_user, (unsigned)seen.st_uid,
             (unsigned)seen.st_gid);
    put_file(received.job.name, text);
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", received.job.staging, received.job.name);
    if (chown(path, seen.st_uid, seen.st_gid) != 0)
        _exit(85);
    transfer_send_result(SOCKET_FD, &result, "");
}

static void leave_staging(void)
{
    char text[64];
    struct stat seen;
    if (stat(received.job.staging, &seen) != 0)
        _exit(88);
    snprintf(text, sizeof(text), "%s of mode %04o", received.job.staging,
             (unsigned)seen.st_mode & 07777);
    leave_text(text);
}

static void succeed_with_two_names(void)
{
    char path[1024], other[1100];
    put_file(received.job.name, "package");
    snprintf(path, sizeof(path), "%s/%s", received.job.staging, received.job.name);
    snprintf(other, sizeof(other), "%s/../kept", received.job.staging);
    if (link(path, other) != 0)
        _exit(86);
    transfer_send_result(SOCKET_FD, &result, "");
}

static void exit_with_seven(void) { _exit(7); }

int main(int argc, char **argv)
{
    static const struct {
        const char *url;
        void (*act)(void);
    } acts[] = {
        { "good", leave_package },
        { "damaged", report_failure },
        { "dies", abort },
        { "leaves", exit_with_seven },
        { "hangs", report_and_hang },
        { "reports on", report_on },
        { "babbles", send_invalid_message },
        { "links", succeed_with_a_link },
        { "no file", succeed_without_a_file },
        { "escapes", name_outside_file },
        { "good, then dies", succeed_and_die },
        { "signed", succeed_with_a_manifest },
        { "signed by a link", succeed_with_a_link_for_a_manifest },
        { "good, then stays", succeed_and_stay },
        { "says two things", report_two_results },
        { "leaves a process", leave_a_process },
        { "copy", copy_content },
        { "whose", leave_user },
        { "staging", leave_staging },
        { "two names", succeed_with_two_names },
    };
    struct kiln_err err = KILN_ERR_INIT;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc > 2 && strcmp(argv[1], "--user") == 0)
        reported_user = argv[2];
    if (transfer_receive_job(SOCKET_FD, &received, &err))
        return 84;
    snprintf(result.name, sizeof(result.name), "%s", received.job.name);
    put_file("litter", "litter");
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        if (strcmp(acts[i].url, received.job.url ? received.job.url : "copy") == 0)
            acts[i].act();
    }
    received_job_done(&received);
    return 0;
}
