/* SPDX-License-Identifier: MIT */
#pragma once

/* A fake libkiln, which answers administrative requests from a script, in order. Only one file
 * of a test may include this header. */
#include "tests/unit/cli/kilnctl_run.h"

#include <kiln/admin.h>

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define FAKE_MAX 16
#define FAKE_FILES 3

struct fake_answer {
    const char *reply; /* NULL if the request fails with |code| */
    int code;
    const char *text;              /* message of the failure; NULL: "the fake says no" */
    const char *progress[4];       /* progress messages before the reply; ends with NULL */
    const char *files[FAKE_FILES]; /* contents of the returned files; ends with NULL */
    size_t sizes[FAKE_FILES];      /* sizes of |files|; 0: the length of the text */
};

static struct fake {
    struct fake_answer answers[FAKE_MAX];
    unsigned asked;
    char requests[FAKE_MAX][2048]; /* each is "name arguments" */
    int timeouts[FAKE_MAX];
    size_t file_counts[FAKE_MAX];
    char sent[FAKE_MAX][2][8192]; /* contents of the files that were sent */
    size_t sent_sizes[FAKE_MAX][2];
    /* seals of the first file sent with each request; -1 if that is not a memory file */
    int seals[FAKE_MAX];
    /* the reply to package_coverage after an install; NULL if that request fails */
    const char *fits;
} fake;

/* Resets the fake. Returns the directory of the current test. */
static inline const char *fake_begin(void)
{
    memset(&fake, 0, sizeof(fake));
    return test_directory();
}

static const struct fake_answer *fake_next(const struct kiln_admin_call *call)
{
    assert_true(fake.asked < FAKE_MAX);
    assert_int_equal(call->size, sizeof(*call));
    snprintf(fake.requests[fake.asked], sizeof(fake.requests[0]), "%s %s", call->request,
             call->json ? call->json : "-");
    fake.timeouts[fake.asked] = call->timeout_ms;
    return &fake.answers[fake.asked++];
}

static int fake_end(const struct fake_answer *answer, char **ret_json, struct kiln_error *err)
{
    if (answer->reply) {
        *ret_json = strdup(answer->reply);
        return KILN_E_OK;
    }
    assert_int_not_equal(answer->code, KILN_E_OK);
    *err = (struct kiln_error){ .code = answer->code };
    snprintf(err->text, sizeof(err->text), "%s", answer->text ? answer->text : "the fake says no");
    return answer->code;
}

int kiln_admin(struct kiln_client *client, const struct kiln_admin_call *call, char **ret_json,
               struct kiln_error *err)
{
    (void)client;
    bool behind = fake.asked > 0 && strcmp(call->request, "package_coverage") == 0 &&
                  strncmp(fake.requests[fake.asked - 1], "package_install ", 16) == 0;
    const struct fake_answer fits = { .reply = fake.fits, .code = KILN_E_BUSY };
    return fake_end(behind ? &fits : fake_next(call), ret_json, err);
}

static int fake_file(const char *content, size_t size)
{
    int fd = memfd_create("fake", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, size), size);
    return fd;
}

int kiln_admin_call(struct kiln_client *client, const struct kiln_admin_call *call, char **ret_json,
                    struct kiln_error *err)
{
    unsigned at = fake.asked;
    const struct fake_answer *answer = fake_next(call);
    size_t count = 0;
    (void)client;
    assert_true(call->file_count <= 2);
    fake.file_counts[at] = call->file_count;
    for (size_t i = 0; i < call->file_count; i++) {
        ssize_t got = pread(call->files[i], fake.sent[at][i], sizeof(fake.sent[at][i]), 0);
        assert_true(got >= 0);
        fake.sent_sizes[at][i] = (size_t)got;
    }
    fake.seals[at] = call->file_count ? fcntl(call->files[0], F_GET_SEALS) : -1;
    for (size_t i = 0; answer->progress[i] && call->progress; i++)
        assert_int_equal(call->progress(call->context, answer->progress[i]), 0);
    for (; answer->reply && count < FAKE_FILES && answer->files[count]; count++) {
        assert_true(count < call->ret_files_max);
        size_t size = answer->sizes[count] ? answer->sizes[count] : strlen(answer->files[count]);
        call->ret_files[count] = fake_file(answer->files[count], size);
    }
    if (call->ret_file_count)
        *call->ret_file_count = count;
    return fake_end(answer, ret_json, err);
}

void kiln_free(void *pointer) { free(pointer); }

struct reported {
    int fd;
    FILE *captured;
    char text[16384];
};

static inline void reported_begin(struct reported *reported)
{
    fflush(stderr);
    reported->captured = tmpfile();
    reported->fd = dup(STDERR_FILENO);
    dup2(fileno(reported->captured), STDERR_FILENO);
}

static inline void reported_end(struct reported *reported)
{
    fflush(stderr);
    dup2(reported->fd, STDERR_FILENO);
    close(reported->fd);
    rewind(reported->captured);
    reported->text[fread(reported->text, 1, sizeof(reported->text) - 1, reported->captured)] = '\0';
    fclose(reported->captured);
}
