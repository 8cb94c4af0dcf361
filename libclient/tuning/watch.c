/* SPDX-License-Identifier: MIT */
#include "libclient/tuning/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Reads of a file that can shrink may end the process (SIGBUS). */
static enum kiln_code check_file(int fd, struct kiln_err *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return kiln_fail(err, KILN_CORRUPT, "kilnd sent a counter that is not a sealed memfd");
    if (fstat(fd, &st) != 0 || st.st_size < (off_t)TUNING_WATCH_SIZE)
        return kiln_fail(err, KILN_CORRUPT, "kilnd sent a counter that is too short");
    return KILN_OK;
}

static enum kiln_code accept_watched(struct request *request, const struct reply *reply,
                                     struct failure *failure)
{
    struct watch *watch = request->context;
    struct kiln_err *err = &failure->err;
    struct reader r = reader_of(reply->body);
    const struct message_watched m = message_watched_read(&r);
    if (reply->header->type != MESSAGE_watched || r.failed || r.at != r.end ||
        m.size != TUNING_WATCH_SIZE || reply->descriptor_count != 1 || reply->descriptors[0] < 0)
        return kiln_fail(err, KILN_CORRUPT, "kilnd's answer about a counter is damaged");
    int fd = reply->descriptors[0]; /* stays in |reply|, which closes it */
    enum kiln_code rc = check_file(fd, err);
    if (rc)
        return rc;
    void *mapping = mmap(NULL, TUNING_WATCH_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot map kilnd's counter");
    watch_close(watch);
    watch->counter = mapping;
    return KILN_OK;
}

enum kiln_code watch_open(struct watch *watch, struct kiln_client *client, uint64_t deadline_ns,
                          struct failure *failure)
{
    uint8_t storage[FRAME_HEADER_SIZE + 1];
    const struct message_tuning_watch m = { .flags = 0 };
    struct buffer frame;
    WAITER_AUTO struct waiter waiter;
    struct request rq;
    client_frame_init_in(&frame, storage, sizeof(storage));
    message_tuning_watch_write(&frame, &m);
    waiter_init(&waiter);
    request_init(&rq);
    rq.type = MESSAGE_tuning_watch;
    rq.frame = &frame;
    rq.waiter = &waiter;
    rq.accept = accept_watched;
    rq.context = watch;
    enum kiln_code rc = multiplexer_call(client->multiplexer, &rq, deadline_ns);
    failure_done(failure);
    *failure = rq.failure;
    return rc;
}

void watch_close(struct watch *watch)
{
    if (watch->counter)
        (void)munmap((void *)(uintptr_t)watch->counter, TUNING_WATCH_SIZE);
    watch->counter = NULL;
}

uint64_t watch_read(const struct watch *watch)
{
    return watch->counter ? atomic_load_explicit(watch->counter, memory_order_acquire) : 0;
}
