/* SPDX-License-Identifier: MIT */
/* Tests what libkiln-rtc does with its results if kilnd starts during the process's first compile.
 */
#include "libclient/rtc/answer.h"

#include "libclient/rtc/identity.h"
#include "tests/support/test.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <stdio.h>
#include <stdlib.h>

/* libkiln-rtc finds its compilers with these functions. This program has none. */
bool identity_holds(const struct rtc_library *library) { return library != NULL; }
bool rtc_is_compiler_code(const void *address) { return address == NULL; }

static atomic_uint stored, given_back;

/* Has no result yet, and stores those of others. */
static void store(struct fake_request *rq)
{
    switch (rq->header.type) {
    case MESSAGE_ping: fake_pong(rq); break;
    case MESSAGE_compile_begin: fake_reply_error(rq, KILN_NOT_FOUND, "", NULL); break;
    default:
        stored += rq->header.type == MESSAGE_compile_end && rq->file_count == 1;
        given_back += rq->header.type == MESSAGE_compile_end && rq->file_count == 0;
        fake_reply(rq, MESSAGE_recorded, 0, bytes_of(NULL, 0));
    }
}

static struct fake_daemon late = { .handle = store };

static int compile_until_kilnd_runs(struct rtc_program *program)
{
    (void)program;
    fake_daemon_start(&late);
    setenv("KILN_RTC_PATIENCE", "60000", 1);
    return 0;
}

static int compile(struct rtc_program *program)
{
    (void)program;
    return 0;
}

static bool collect(struct rtc_program *program, struct buffer *to)
{
    (void)program;
    buffer_put_u8(to, 'r');
    return true;
}

static void compile_by(int (*run)(struct rtc_program *program))
{
    static char source[] = "int k;", name[] = "k.cu";
    struct rtc_library library = { .kind = RTC_NVRTC, .name = "nvrtc" };
    struct rtc_program program = { .library = &library, .source = source, .name = name };
    const struct answer_calls calls = { .run = run, .collect = collect };
    assert_int_equal(answer_compile(&calls, &program, NULL), 0);
}

TEST(plain, a_result_is_stored_by_a_kilnd_that_starts_during_the_compile)
{
    snprintf(late.path, sizeof(late.path), "%s/kilnd.sock", test_directory());
    setenv("KILN_SOCKET", late.path, 1);
    setenv("KILN_FALLBACK", "off", 1);
    compile_by(compile_until_kilnd_runs);
    assert_int_equal(stored, 2); /* the result, and the list of files */
    assert_int_equal(given_back, 0);
    compile_by(compile);
    assert_int_equal(stored, 4);
}
