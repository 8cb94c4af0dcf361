/* SPDX-License-Identifier: MIT */
#pragma once

/* Every cmocka test includes this header first. A test file defines its tests like this:
 *
 *     struct fixture {
 *         struct kernel_store *store;
 *     };
 *
 *     SET_UP(set_up) { f->store = ... test_directory() ... }
 *     TEAR_DOWN(tear_down) { kernel_store_destroy(f->store); }
 *
 *     FIXTURE(store, set_up, tear_down);
 *
 *     TEST_F(store, evicts_the_least_recently_used_kernel_first)
 *     {
 *         ... f->store ...
 *     }
 *
 * Each test registers itself.  kiln_test() links a main() that runs the tests of a program in the
 * order of its files (test_main.c). A program that must prepare something has its own main() and
 * calls test_main() or test_run(). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

/* The set-up and tear-down of a test. Either may be NULL. |state| is the initial *state of tests
 * without a set-up. */
struct test_fixture {
    int (*setup)(void **state);
    int (*teardown)(void **state);
    void *state;
};

/* A test, in static memory. |skip| is the reason why it cannot run here, or NULL. */
struct test_case {
    const char *name, *file;
    unsigned line;
    void (*run)(void **state);
    const struct test_fixture *fixture;
    const char *skip;
    struct test_case *next;
};

/* Defines a set-up whose *state is a |type|. The body follows. Its parameter 'type *f' is
 * zeroed, and exists until the next test's set-up. */
#define SET_UP_OF(name, type)                                               \
    static void name##_body(type *f);                                       \
    static int name(void **state)                                           \
    {                                                                       \
        static type fixture_of_##name;                                      \
        __builtin_memset(&fixture_of_##name, 0, sizeof(fixture_of_##name)); \
        *state = &fixture_of_##name;                                        \
        name##_body(&fixture_of_##name);                                    \
        return 0;                                                           \
    }                                                                       \
    static void name##_body(type *f __attribute__((unused)))
#define SET_UP(name) SET_UP_OF(name, struct fixture)

#define TEAR_DOWN_OF(name, type)      \
    static void name##_body(type *f); \
    static int name(void **state)     \
    {                                 \
        name##_body(*state);          \
        return 0;                     \
    }                                 \
    static void name##_body(type *f __attribute__((unused)))
#define TEAR_DOWN(name) TEAR_DOWN_OF(name, struct fixture)

/* Like SET_UP, for tests whose state is in static variables. */
#define SET_UP_STATIC(name)        \
    static void name##_body(void); \
    static int name(void **state)  \
    {                              \
        (void)state;               \
        name##_body();             \
        return 0;                  \
    }                              \
    static void name##_body(void)
#define TEAR_DOWN_STATIC(name) SET_UP_STATIC(name)

/* Declares the fixture |name|: its set-up and tear-down, and the |type| of its *state. Use it
 * once for each fixture, after both functions are declared. */
#define FIXTURE_OF(name, type, setup_, teardown_)   \
    typedef type name##_fixture_type;               \
    static const struct test_fixture name##_fixture \
        __attribute__((unused)) = { .setup = (setup_), .teardown = (teardown_) }

#define FIXTURE(name, setup_, teardown_) FIXTURE_OF(name, struct fixture, setup_, teardown_)

/* For tests that need no fixture: TEST(plain, ...). */
FIXTURE(plain, NULL, NULL);

#define TEST_REGISTERED(fixture_, run_, case_, name_)                   \
    static struct test_case case_ = { .name = (name_),                  \
                                      .file = __FILE__,                 \
                                      .line = __LINE__,                 \
                                      .run = (run_),                    \
                                      .fixture = &fixture_##_fixture }; \
    static void __attribute__((constructor)) register_##case_(void) { test_register(&case_); }

/* Begins the definition of a test. The body follows, and has the parameter 'void **state'. */
#define TEST(fixture, name)                            \
    static void name(void **state);                    \
    TEST_REGISTERED(fixture, name, name##_case, #name) \
    static void name(void **state __attribute__((unused)))

/* Like TEST. The body has the parameter 'struct fixture *f', or a pointer to the type of
 * FIXTURE_OF. */
#define TEST_F(fixture_, name)                              \
    static void name##_body(fixture_##_fixture_type *f);    \
    static void name(void **state) { name##_body(*state); } \
    TEST_REGISTERED(fixture_, name, name##_case, #name)     \
    static void name##_body(fixture_##_fixture_type *f)

/* Adds a further run, with another fixture, of a test that TEST or TEST_F has already defined. */
#define TEST_ALSO(fixture, name) \
    TEST_REGISTERED(fixture, name, fixture##_##name##_case, #name " (" #fixture ")")

/* Declares functions that run before the first and after the last test of the program. Use it at
 * most once. If |setup_| sets *state, every test begins with that *state. */
#define TEST_PROGRAM(setup_, teardown_)                             \
    static void __attribute__((constructor)) register_program(void) \
    {                                                               \
        test_program((setup_), (teardown_));                        \
    }

void test_register(struct test_case *test);
void test_program(int (*setup)(void **state), int (*teardown)(void **state));
/* Runs the tests whose names contain |filter| (NULL: all). Returns the number of failed tests,
 * or 2 if no name contains |filter|. May be called again. */
int test_run(const char *filter);
int test_main(int argc, char **argv);

/* Registers |end|, which is called with |object| after the test's tear-down, or after the last
 * test if TEST_PROGRAM's set-up registers it. Functions are called in reverse order of their
 * registration. |object| must exist until then, so it must not be a local variable. A fixture
 * needs no tear-down for an object whose opening function calls test_at_end. */
void test_at_end(void (*end)(void *object), void *object);
/* Cancels test_at_end for these arguments, for a caller that has already closed |object|. */
void test_not_at_end(void (*end)(void *object), void *object);
/* Makes a directory in $TMPDIR or /tmp that only this user may enter. The end of the test
 * removes it with its contents, and frees the path. */
const char *test_directory(void);
/* Like test_directory, but the test fails if the directory is not empty at its end. */
const char *test_empty_directory(void);
/* Opens an empty file without a name, which the end of the test closes. */
FILE *test_file(void);
/* Sets a variable, or removes it if |value| is NULL. The end of the test restores its earlier
 * value. */
void test_setenv(const char *name, const char *value);
/* Calls test_setenv with NULL for each named variable. */
#define test_unsetenv(...) test_unset_variables((const char *const[]){ __VA_ARGS__, NULL })
void test_unset_variables(const char *const *names);
/* Returns zeroed memory that this process shares with its later children. The end of the test
 * frees it. */
void *test_shared_memory(size_t size);
/* For test_run: test_end_count returns the number of functions registered with test_at_end, and
 * test_end calls all of them except the first |kept|. */
size_t test_end_count(void);
void test_end(size_t kept);

#define must(call, err)                                                 \
    do {                                                                \
        int must_rc_ = (int)(call);                                     \
        if (must_rc_)                                                   \
            fail_msg("%s: code %d, '%s'", #call, must_rc_, (err).text); \
    } while (0)

/* Defines a function that the linker calls in place of |name| (--wrap). The body follows, and
 * may call __real_NAME(). An attribute may precede the macro. */
#define WRAP(type, name, ...)        \
    type __wrap_##name(__VA_ARGS__); \
    type __real_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__)

/* Skips the rest of a test and prints the reason (a format with arguments). The tear-down still
 * runs. */
#define SKIP(...)                   \
    do {                            \
        print_message("skipped: "); \
        print_message(__VA_ARGS__); \
        print_message("\n");        \
        skip();                     \
    } while (0)
#define SKIP_IF(condition, ...) \
    do {                        \
        if (condition)          \
            SKIP(__VA_ARGS__);  \
    } while (0)

#define NEED_ROOT() SKIP_IF(geteuid() != 0, "needs root")

#define assert_says(text, part)                               \
    do {                                                      \
        if (!strstr((text), (part)))                          \
            fail_msg("'%s' does not say '%s'", (text), part); \
    } while (0)
