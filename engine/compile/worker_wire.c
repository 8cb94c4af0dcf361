/* SPDX-License-Identifier: MIT */
#include "engine/compile/worker_wire.h"
#include "common/base/fd_message.h"
#include "common/base/fs.h"
#include "engine/compile/worker_log.h"
#include "engine/compile/worker_packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static enum kiln_code job_file(const struct compile_job *job, int *ret_fd, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, WORKER_JOB_MAX);
    worker_job_write(&content, job);
    if (content.failed)
        return kiln_fail(err, KILN_INVALID, "the job exceeds %u bytes or the available memory",
                         WORKER_JOB_MAX);
    KILN_AUTO(fd) int fd = -1;
    enum kiln_code rc = fs_memfd("kiln-job", &fd, err);
    if (!rc)
        rc = fs_write_all(fd, buffer_view(&content), err);
    if (!rc)
        rc = fs_seal(fd, err);
    if (rc)
        return rc;
    *ret_fd = fd;
    fd = -1;
    return KILN_OK;
}

_Static_assert(WORKER_JOB_FILES <= FD_MESSAGE_MAX, "they fit in one message");

static enum kiln_code send_files(int socket_fd, const int fds[WORKER_JOB_FILES],
                                 struct kiln_err *err)
{
    uint8_t packet = WORKER_JOB;
    ssize_t sent = fd_message_send(socket_fd, bytes_of(&packet, 1), fds, WORKER_JOB_FILES, 0);
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
        return kiln_fail(err, KILN_UNAVAILABLE, "the compiler process has ended");
    if (sent < 0)
        return kiln_fail_errno(err, errno, "cannot send the job to the compiler process");
    return KILN_OK;
}

enum kiln_code worker_send_job(int socket_fd, const struct compile_job *job,
                               struct worker_files *ret_files, struct kiln_err *err)
{
    KILN_AUTO(fd) int job_fd = -1;
    KILN_AUTO(fd) int object_fd = -1;
    KILN_AUTO(fd) int log_fd = -1;
    enum kiln_code rc = job_file(job, &job_fd, err);
    if (!rc)
        rc = fs_memfd("kiln-object", &object_fd, err);
    if (!rc)
        rc = fs_memfd("kiln-compile-log", &log_fd, err);
    if (!rc)
        rc = send_files(socket_fd, (int[]){ job_fd, object_fd, log_fd }, err);
    if (rc)
        return rc;
    *ret_files = (struct worker_files){ .object_fd = object_fd, .log_fd = log_fd };
    object_fd = log_fd = -1;
    return KILN_OK;
}

enum kiln_code worker_receive(int socket_fd, enum worker_message *ret_message,
                              struct worker_result *ret_result, struct kiln_err *err)
{
    uint8_t packet[WORKER_PACKET_MAX];
    ssize_t got;
    do
        got = recv(socket_fd, packet, sizeof(packet), MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return KILN_BUSY;
    if (got == 0 || (got < 0 && errno == ECONNRESET))
        return kiln_fail(err, KILN_UNAVAILABLE, "the compiler process closed its end");
    if (got < 0)
        return kiln_fail_errno(err, errno, "cannot read from the compiler process");
    struct reader r = reader_of(bytes_of(packet, (size_t)got));
    uint8_t message = reader_u8(&r);
    enum kiln_code rc;
    if (message == WORKER_RESULT)
        rc = worker_result_read(&r, ret_result, err);
    else if (message == WORKER_READY)
        rc = worker_ready_read(&r, ret_result, err);
    else
        rc =
            kiln_fail(err, KILN_INVALID, "a compiler process sent the unknown message %u", message);
    if (rc)
        return rc;
    *ret_message = (enum worker_message)message;
    return KILN_OK;
}

static enum kiln_code code_of(enum compile_end end)
{
    if (end == COMPILE_DONE)
        return KILN_OK;
    return end >= COMPILE_UNAVAILABLE ? KILN_UNAVAILABLE : KILN_COMPILE_FAILED;
}

static void fail_result(struct compile_result *result, enum compile_end end, const char *text)
{
    result->end = end;
    kiln_fail(&result->err, code_of(end), "%s", text);
}

static void take_object(struct compile_result *result, struct worker_files *files)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct stat seen;
    if (fs_seal(files->object_fd, &err) || fstat(files->object_fd, &seen) != 0) {
        kiln_while(&err, "the compiler process can still change the object");
        fail_result(result, COMPILE_CRASHED, err.text);
        return;
    }
    if ((uint64_t)seen.st_size > LIMIT_CODE_OBJECT) {
        fail_result(result, COMPILE_OUTPUT,
                    "the code object exceeds 256 MiB, which is the maximum");
        return;
    }
    result->end = COMPILE_DONE;
    result->object_fd = files->object_fd;
    files->object_fd = -1;
}

void worker_collect(struct worker_files *files, enum compile_end end, const char *text,
                    const struct worker_result *result, struct compile_result *ret_result)
{
    *ret_result = COMPILE_RESULT_INIT;
    ret_result->log = worker_log_read(files->log_fd);
    if (result) {
        end = result->end;
        text = result->text;
        ret_result->cpu_ns = result->cpu_ns;
        ret_result->peak_rss = result->peak_rss;
    }
    if (end == COMPILE_CRASHED)
        end = worker_log_cause(ret_result->log, end, &text);
    if (end == COMPILE_DONE)
        take_object(ret_result, files);
    else
        fail_result(ret_result, end, text ? text : compile_end_name(end));
    if (files->object_fd >= 0)
        close(files->object_fd);
    close(files->log_fd);
    *files = (struct worker_files){ .object_fd = -1, .log_fd = -1 };
}
