/* SPDX-License-Identifier: MIT */
/* A fake kiln-transfer --fleet. The name of the requested file selects what the program does. */
#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "engine/transfer/fleet_wire.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKET_FD 3
#define UNKNOWN_ID 999999999u

static struct fleet_setup setup;
static char added[64]; /* the content of the last file that was added */

static void answer(uint64_t id, enum fleet_end end, const char *content)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct fleet_answer answer = { .id = id, .end = end, .fd = -1 };
    if (content && (fs_memfd("fleet", &answer.fd, &err) ||
                    fs_write_all(answer.fd, bytes_of_text(content), &err)))
        _exit(80);
    if (fleet_send_answer(SOCKET_FD, &answer, &err))
        _exit(81);
    fd_close(&answer.fd);
}

static void answer_with_name(const struct fleet_request *request)
{
    answer(request->id, FLEET_END_DONE, request->name);
}

static void answer_absent(const struct fleet_request *request)
{
    answer(request->id, FLEET_END_ABSENT, NULL);
}

static void answer_without_a_file(const struct fleet_request *request)
{
    answer(request->id, FLEET_END_DONE, NULL);
}

static void answer_with_url(const struct fleet_request *request)
{
    answer(request->id, FLEET_END_DONE, setup.url);
}

static void answer_with_pid(const struct fleet_request *request)
{
    char text[32];
    snprintf(text, sizeof(text), "%d", (int)getpid());
    answer(request->id, FLEET_END_DONE, text);
}

static void answer_with_range(const struct fleet_request *request)
{
    char text[96];
    snprintf(text, sizeof(text), "%llu %llu %llu", (unsigned long long)request->offset,
             (unsigned long long)request->size, (unsigned long long)request->size_max);
    answer(request->id, FLEET_END_DONE, text);
}

static void answer_another_request_first(const struct fleet_request *request)
{
    answer(UNKNOWN_ID, FLEET_END_DONE, "nobody asked");
    answer_with_name(request);
}

static void add(const struct fleet_request *request)
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, sizeof(added) - 1);
    if (!setup.writes || fs_read_fd(request->fd, sizeof(added) - 1, &content, &err))
        _exit(82);
    close(request->fd);
    memset(added, 0, sizeof(added));
    memcpy(added, content.data, content.size);
    answer_without_a_file(request);
}

static void add_and_answer_with_a_file(const struct fleet_request *request)
{
    close(request->fd);
    answer_with_name(request);
}

static void answer_with_added(const struct fleet_request *request)
{
    answer(request->id, FLEET_END_DONE, added);
}

/* Answers with the first page of a list. */
static void answer_with_page(const struct fleet_request *request)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct fleet_answer page = { .id = request->id, .end = FLEET_END_DONE, .token = "next" };
    if (!request->is_list || fs_memfd("fleet", &page.fd, &err) ||
        fs_write_all(page.fd, bytes_of_text("one 1 0\n"), &err) ||
        fleet_send_answer(SOCKET_FD, &page, &err))
        _exit(86);
    fd_close(&page.fd);
}

static void say_nothing(const struct fleet_request *request) { (void)request; }

static void stop_reading(const struct fleet_request *request)
{
    (void)request;
    for (;;)
        pause();
}

static void babble(const struct fleet_request *request)
{
    if (send(SOCKET_FD, "babble", 6, 0) < 0)
        _exit(83);
    stop_reading(request);
}

static void die(const struct fleet_request *request)
{
    (void)request;
    raise(SIGKILL);
}

static void leave(const struct fleet_request *request)
{
    (void)request;
    _exit(0);
}

static void act(const struct fleet_request *request)
{
    static const struct {
        const char *name;
        void (*act)(const struct fleet_request *);
    } acts[] = {
        { "f/absent", answer_absent },
        { "f/no-file", answer_without_a_file },
        { "f/url", answer_with_url },
        { "f/pid", answer_with_pid },
        { "f/range", answer_with_range },
        { "f/unknown", answer_another_request_first },
        { "f/add", add },
        { "f/add-and-more", add_and_answer_with_a_file },
        { "f/added", answer_with_added },
        { "f/page", answer_with_page },
        { "f/silent", say_nothing },
        { "f/hangs", stop_reading },
        { "f/babbles", babble },
        { "f/dies", die },
        { "f/leaves", leave },
    };
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        if (strcmp(acts[i].name, request->name) == 0) {
            acts[i].act(request);
            return;
        }
    }
    answer_with_name(request);
}

int main(void)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct pollfd readable = { .fd = SOCKET_FD, .events = POLLIN };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fleet_receive_setup(SOCKET_FD, &setup, &err))
        return 84;
    for (;;) {
        struct fleet_request request;
        enum kiln_code rc = fleet_receive_request(SOCKET_FD, &request, &err);
        if (rc == KILN_BUSY)
            poll(&readable, 1, 60000);
        else if (rc)
            return rc == KILN_UNAVAILABLE ? 0 : 85;
        else
            act(&request);
    }
}
