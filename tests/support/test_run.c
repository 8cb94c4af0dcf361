/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TESTS_MAX 256

/* in seconds; a test's duration is printed if it is at least this long */
#define LONG_S 1.0

static struct {
    struct test_case *first;
    int (*setup)(void **state), (*teardown)(void **state);
    struct test_case *selected[TESTS_MAX];
    size_t count, begun;
    size_t kept; /* number of test_at_end functions that TEST_PROGRAM's set-up registered */
    double began;
} tests;

/* Sorts the tests of a file by line, because the constructors of a file run in any order.
 * Constructors of different files do not mix. */
void test_register(struct test_case *test)
{
    struct test_case **place = &tests.first;
    while (*place && strcmp((*place)->file, test->file) != 0)
        place = &(*place)->next;
    while (*place && strcmp((*place)->file, test->file) == 0 && (*place)->line <= test->line)
        place = &(*place)->next;
    test->next = *place;
    *place = test;
}

void test_program(int (*setup)(void **state), int (*teardown)(void **state))
{
    tests.setup = setup;
    tests.teardown = teardown;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* cmocka calls the set-up of each test once and in order, so the number of calls identifies the
 * test. */
static int set_up_next(void **state)
{
    const struct test_case *test = tests.selected[tests.begun++];
    /* cmocka calls no tear-down after a failed set-up, so the earlier test may have left objects */
    test_end(tests.kept);
    tests.began = seconds();
    return test->fixture->setup && !test->skip ? test->fixture->setup(state) : 0;
}

static int tear_down_last(void **state)
{
    const struct test_case *test = tests.selected[tests.begun - 1];
    int rc = test->fixture->teardown && !test->skip ? test->fixture->teardown(state) : 0;
    test_end(tests.kept);
    double took = seconds() - tests.began;
    if (took >= LONG_S)
        print_message("[     TOOK ] %.1f s\n", took);
    return rc;
}

static int set_up_program(void **state)
{
    int rc = tests.setup ? tests.setup(state) : 0;
    tests.kept = test_end_count();
    return rc;
}

static int tear_down_program(void **state)
{
    int rc = tests.teardown ? tests.teardown(state) : 0;
    test_end(/* kept= */ 0);
    return rc;
}

static void say_why_not(void **state)
{
    (void)state;
    print_message("[      WHY ] %s\n", tests.selected[tests.begun - 1]->skip);
    skip();
}

static struct CMUnitTest as_cmocka_test(const struct test_case *test)
{
    struct CMUnitTest made = { .name = test->name,
                               .test_func = test->skip ? say_why_not : test->run,
                               .setup_func = set_up_next,
                               .teardown_func = tear_down_last,
                               .initial_state = test->fixture->state };
    return made;
}

static void select_tests(const char *filter)
{
    tests.count = 0;
    tests.begun = 0;
    for (struct test_case *t = tests.first; t; t = t->next) {
        if (filter && !strstr(t->name, filter))
            continue;
        if (tests.count == TESTS_MAX) {
            fprintf(stderr, "more than %d tests in one program\n", TESTS_MAX);
            abort();
        }
        tests.selected[tests.count++] = t;
    }
}

int test_run(const char *filter)
{
    static struct CMUnitTest list[TESTS_MAX];
    select_tests(filter);
    if (tests.count == 0) {
        fprintf(stderr, "no test of this program has '%s' in its name\n", filter ? filter : "");
        return 2;
    }
    for (size_t i = 0; i < tests.count; i++)
        list[i] = as_cmocka_test(tests.selected[i]);
    return _cmocka_run_group_tests("tests", list, tests.count, set_up_program, tear_down_program);
}

int test_main(int argc, char **argv)
{
    if (argc > 2 || (argc == 2 && argv[1][0] == '-' && strcmp(argv[1], "--list") != 0)) {
        fprintf(stderr, "Usage: %s [--list | PART-OF-A-NAME]\n", argv[0]);
        return 2;
    }
    /* a proxy that this host requires must not be used for loopback */
    setenv("no_proxy", "127.0.0.1,localhost", 1);
    if (argc < 2 || strcmp(argv[1], "--list") != 0)
        return test_run(argv[1]);
    for (const struct test_case *t = tests.first; t; t = t->next)
        printf("%s\n", t->name);
    return 0;
}
