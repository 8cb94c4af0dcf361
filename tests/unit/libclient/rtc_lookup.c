/* SPDX-License-Identifier: MIT */
/* Tests what libkiln-rtc does if kilnd refuses its requests: the program must compile by itself. */
#include "libclient/rtc/lookup.h"

#include "libclient/rtc/identity.h"
#include "tests/support/test.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <stdlib.h>

/* libkiln-rtc finds its compilers with these functions. This program has none. */
bool identity_holds(const struct rtc_library *library) { return library != NULL; }
bool rtc_is_compiler_code(const void *address) { return address == NULL; }

static void refuse(struct fake_request *rq)
{
    const enum kiln_code *code = rq->daemon->context;
    if (rq->header.type == MESSAGE_ping)
        fake_pong(rq);
    else
        fake_reply_error(rq, *code, "no", NULL);
}

static void assert_reason(const char *reason)
{
    static char source[] = "int k;", name[] = "k.cu";
    struct rtc_library library = { .kind = RTC_NVRTC, .name = "nvrtc" };
    const struct rtc_program program = { .library = &library, .source = source, .name = name };
    struct lookup lookup;
    assert_int_equal(lookup_begin(&lookup, &program, NULL), LOOKUP_NONE);
    assert_string_equal(lookup.reason, reason);
    lookup_done(&lookup);
}

TEST(plain, a_program_that_kilnd_refuses_compiles_by_itself)
{
    static enum kiln_code code = KILN_BUSY;
    static struct fake_daemon daemon = { .handle = refuse, .context = &code };
    fake_daemon_start(&daemon);
    setenv("KILN_SOCKET", daemon.path, 1);
    setenv("KILN_RTC_PATIENCE", "60000", 1);
    assert_reason("another process still compiles it, or kilnd is at a limit");
    const unsigned before = daemon.requests;
    assert_reason("another process still compiles it, or kilnd is at a limit");
    assert_int_equal(daemon.requests, before + 2); /* the second request is the one that waits */
    lookup_waited_in_vain();
    assert_reason("another process still compiles it, or kilnd is at a limit");
    assert_int_equal(daemon.requests, before + 3);
    code = KILN_DENIED;
    assert_reason("kilnd refuses this user");
    code = KILN_UNSUPPORTED;
    assert_reason("kilnd is older than libkiln-rtc");

    const unsigned requests = daemon.requests;
    assert_reason("no kilnd can be reached");
    assert_int_equal(daemon.requests, requests); /* it is not asked for 10 seconds */
}
