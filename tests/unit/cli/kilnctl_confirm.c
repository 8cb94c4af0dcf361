/* SPDX-License-Identifier: MIT */

#include "cli/kilnctl/confirm.h"
#include "tests/support/test.h"
#include "tests/unit/cli/kilnctl_fake.h"

#include <pty.h>
#include <termios.h>

struct fixture {
    struct command_run run;
    int terminal; /* the test's end of the terminal */
    int old_in, old_err;
    char asked[512];
};

SET_UP(set_up)
{
    memset(&fake, 0, sizeof(fake));
    int theirs;
    struct termios settings;
    assert_int_equal(openpty(&f->terminal, &theirs, NULL, NULL, NULL), 0);
    assert_int_equal(tcgetattr(theirs, &settings), 0);
    settings.c_lflag &= ~(tcflag_t)ECHO;
    settings.c_oflag &= ~(tcflag_t)OPOST;
    assert_int_equal(tcsetattr(theirs, TCSANOW, &settings), 0);
    fflush(stderr);
    f->old_in = dup(STDIN_FILENO);
    f->old_err = dup(STDERR_FILENO);
    dup2(theirs, STDIN_FILENO);
    dup2(theirs, STDERR_FILENO);
    close(theirs);
    clearerr(stdin);
}

TEAR_DOWN(tear_down)
{
    dup2(f->old_in, STDIN_FILENO);
    dup2(f->old_err, STDERR_FILENO);
    close(f->old_in);
    close(f->old_err);
    close(f->terminal);
}

FIXTURE(kilnctl_confirm, set_up, tear_down);

static int gc_with(struct fixture *f, const char *answer)
{
    assert_int_equal(write(f->terminal, answer, strlen(answer)), strlen(answer));
    int rc = RUN(&f->run, "gc", "--stale");
    fcntl(f->terminal, F_SETFL, O_NONBLOCK);
    ssize_t got = read(f->terminal, f->asked, sizeof(f->asked) - 1);
    f->asked[got > 0 ? got : 0] = '\0';
    return rc;
}

TEST_F(kilnctl_confirm, a_yes_on_the_terminal_drops_the_selection)
{
    fake.answers[0].reply = "{\"kernels\":3,\"bytes\":4096,\"dry_run\":true}";
    fake.answers[1].reply = "{\"kernels\":3,\"bytes\":4096,\"store_bytes\":0}";
    assert_int_equal(gc_with(f, "yes\n"), KILN_E_OK);
    assert_says(f->asked, "3 kernels");
    assert_says(f->asked, "4.0 KiB");
    assert_says(f->asked, "[y/N]");
    assert_string_equal(fake.requests[0], "gc {\"stale\":true,\"dry_run\":true}");
    assert_string_equal(fake.requests[1], "gc {\"stale\":true,\"dry_run\":false}");
}

TEST_F(kilnctl_confirm, an_answer_other_than_yes_drops_nothing)
{
    fake.answers[0].reply = fake.answers[1].reply = fake.answers[2].reply = "{\"kernels\":3}";
    assert_int_equal(gc_with(f, "\n"), KILN_E_CANCELLED);
    assert_says(f->run.err.text, "dropped");
    assert_int_equal(gc_with(f, "no\n"), KILN_E_CANCELLED);
    assert_int_equal(gc_with(f, "\004"), KILN_E_CANCELLED); /* Ctrl-D, which ends the input */
    assert_int_equal(fake.asked, 3);
}

TEST_F(kilnctl_confirm, an_empty_selection_needs_no_confirmation)
{
    fake.answers[0].reply = "{\"kernels\":0}";
    fake.answers[1].reply = "{\"kernels\":0,\"store_bytes\":0}";
    assert_int_equal(gc_with(f, ""), KILN_E_OK);
    assert_string_equal(f->asked, "");
}

TEST_F(kilnctl_confirm, a_failed_count_ends_gc_without_a_second_request)
{
    fake.answers[0].code = KILN_E_DENIED;
    assert_int_equal(gc_with(f, ""), KILN_E_DENIED);
    assert_int_equal(fake.asked, 1);
}

TEST_F(kilnctl_confirm, without_a_terminal_yes_or_a_dry_run_must_be_given)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_int_equal(confirm_possible(false, false, &f->run.err), KILN_E_OK);
    dup2(null, STDIN_FILENO);
    close(null);
    assert_int_equal(confirm_possible(false, false, &f->run.err), KILN_E_INVALID);
    assert_says(f->run.err.text, "--yes");
    assert_int_equal(confirm_possible(true, false, &f->run.err), KILN_E_OK);
    assert_int_equal(confirm_possible(false, true, &f->run.err), KILN_E_OK);
}
