/* SPDX-License-Identifier: MIT */
/* Tests of the search for a vendor library. Below the build directory, several directories contain
 * a library of the same name. Each library reports its directory. */
#include "libclient/device/dynamic_library.h"

#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIRECTORY(name) KILN_TRIAL_DIRECTORY "/" name
#define FILE_OF(name) DIRECTORY(name) "/libkiln_trial.so.1"

struct answer_cache {
    int (*number)(void);
    int (*more)(void);
};

static const struct dynamic_symbol symbols[] = {
    { "trial_number", offsetof(struct answer_cache, number), true },
    { "trial_more", offsetof(struct answer_cache, more), false },
};
static const struct dynamic_symbol wants_more[] = {
    { "trial_number", offsetof(struct answer_cache, number), true },
    { "trial_more", offsetof(struct answer_cache, more), true },
};
/* libkiln tries these names in this order, so the newest version comes first. The last name is a
 * path. */
static const char *const names[] = { "libkiln_trial.so.2", "libkiln_trial.so.1",
                                     "/nonexistent/libkiln_trial.so", NULL };

struct fixture {
    struct dynamic_library library;
    struct answer_cache table;
    struct kiln_err err;
};

SET_UP(set_up)
{
    f->library = (struct dynamic_library){ .kind = "trial",
                                           .what = "the trial library",
                                           .file_variable = "KILN_TRIAL_LIBRARY",
                                           .path_variable = "KILN_TRIAL_LIBRARY_PATH",
                                           .names = names,
                                           .symbols = symbols,
                                           .symbol_count = 2,
                                           .table = &f->table };
    test_unsetenv("KILN_TRIAL_LIBRARY", "KILN_TRIAL_LIBRARY_PATH");
}

/* Closes the library, because the next test must start without an open one. libkiln itself never
 * closes a library. */
static void close_for_good(const char *file)
{
    void *dl = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(dl);
    while (dl) {
        dlclose(dl);
        dl = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
        if (dl)
            dlclose(dl);
    }
}

TEAR_DOWN(tear_down)
{
    if (f->library.file)
        close_for_good(f->library.file);
    free(f->library.file);
    free(f->library.path);
}

FIXTURE(dynamic_library, set_up, tear_down);

static void expect(struct fixture *f, int number, const char *directory)
{
    must(dynamic_library_use(&f->library, &f->err), f->err);
    assert_int_equal(f->table.number(), number);
    assert_memory_equal(dynamic_library_file(&f->library), directory, strlen(directory));
}

TEST_F(dynamic_library, the_directories_given_come_first_in_their_order)
{
    setenv("KILN_TRIAL_LIBRARY_PATH", DIRECTORY("c"), 1);
    must(dynamic_library_set_path(
             &f->library, DIRECTORY("none") ":" DIRECTORY("b") "::" DIRECTORY("a"), &f->err),
         f->err);
    assert_null(dynamic_library_file(&f->library));
    expect(f, 2, DIRECTORY("b"));
}

TEST_F(dynamic_library, directories_of_the_variable_come_after_those_that_were_set)
{
    setenv("KILN_TRIAL_LIBRARY_PATH", DIRECTORY("none") ":" DIRECTORY("c"), 1);
    must(dynamic_library_set_path(&f->library, DIRECTORY("none"), &f->err), f->err);
    expect(f, 3, DIRECTORY("c"));
}

TEST_F(dynamic_library, in_a_directory_the_newest_name_goes_first)
{
    must(dynamic_library_set_path(&f->library, DIRECTORY("d"), &f->err), f->err);
    expect(f, 42, DIRECTORY("d"));
}

TEST_F(dynamic_library, a_library_the_process_has_open_precedes_every_directory)
{
    void *jobs = dlopen(FILE_OF("a"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(jobs);
    must(dynamic_library_set_path(&f->library, DIRECTORY("b"), &f->err), f->err);
    expect(f, 1, DIRECTORY("a"));
}

TEST_F(dynamic_library, the_file_of_the_variable_is_the_only_one)
{
    void *jobs = dlopen(FILE_OF("a"), RTLD_NOW | RTLD_LOCAL);
    setenv("KILN_TRIAL_LIBRARY", FILE_OF("c"), 1);
    must(dynamic_library_set_path(&f->library, DIRECTORY("b"), &f->err), f->err);
    expect(f, 3, DIRECTORY("c"));
    dlclose(jobs);

    free(f->library.file);
    f->library.file = NULL;
    close_for_good(FILE_OF("c"));
    setenv("KILN_TRIAL_LIBRARY", FILE_OF("none"), 1);
    assert_int_equal(dynamic_library_use(&f->library, &f->err), KILN_UNAVAILABLE);
    assert_says(f->err.text, FILE_OF("none"));
    assert_says(f->err.text, "KILN_TRIAL_LIBRARY_PATH");
}

TEST_F(dynamic_library, an_empty_variable_counts_as_unset)
{
    setenv("KILN_TRIAL_LIBRARY", "", 1);
    setenv("KILN_TRIAL_LIBRARY_PATH", "", 1);
    must(dynamic_library_set_path(&f->library, "", &f->err), f->err);
    assert_null(f->library.path);
    must(dynamic_library_set_path(&f->library, DIRECTORY("a"), &f->err), f->err);
    must(dynamic_library_set_path(&f->library, DIRECTORY("b"), &f->err), f->err);
    expect(f, 2, DIRECTORY("b"));
}

TEST_F(dynamic_library, a_library_that_is_not_found_names_every_file_tried)
{
    must(dynamic_library_set_path(&f->library, "/nonexistent/x", &f->err), f->err);
    assert_int_equal(dynamic_library_use(&f->library, &f->err), KILN_UNAVAILABLE);
    assert_says(f->err.text, "/nonexistent/x/libkiln_trial.so.2, "
                             "/nonexistent/x/libkiln_trial.so.1, libkiln_trial.so.2, "
                             "libkiln_trial.so.1, /nonexistent/libkiln_trial.so)");
    assert_null(strstr(f->err.text, "/nonexistent/x//nonexistent"));
    assert_null(dynamic_library_file(&f->library));
}

TEST_F(dynamic_library, a_file_that_cannot_be_loaded_is_named_with_the_reason)
{
    setenv("KILN_TRIAL_LIBRARY", "/proc/self/status", 1);
    assert_int_equal(dynamic_library_use(&f->library, &f->err), KILN_UNAVAILABLE);
    assert_says(f->err.text, "/proc/self/status");
}

TEST_F(dynamic_library, a_required_symbol_that_is_missing_is_named_with_the_file)
{
    f->library.symbols = wants_more;
    must(dynamic_library_set_path(&f->library, DIRECTORY("a"), &f->err), f->err);
    assert_int_equal(dynamic_library_use(&f->library, &f->err), KILN_UNAVAILABLE);
    assert_says(f->err.text, FILE_OF("a"));
    assert_says(f->err.text, "'trial_more'");
    assert_null(dlopen(FILE_OF("a"), RTLD_NOW | RTLD_NOLOAD));

    /* a library in another directory may have the missing symbol */
    must(dynamic_library_set_path(&f->library, DIRECTORY("d"), &f->err), f->err);
    expect(f, 42, DIRECTORY("d"));
    assert_int_equal(f->table.more(), 1);
}

TEST_F(dynamic_library, an_optional_symbol_that_is_missing_is_null)
{
    must(dynamic_library_set_path(&f->library, DIRECTORY("a"), &f->err), f->err);
    expect(f, 1, DIRECTORY("a"));
    assert_null(f->table.more);
}

TEST_F(dynamic_library, a_directory_that_is_not_absolute_is_refused)
{
    assert_int_equal(dynamic_library_set_path(&f->library, "/usr/lib:lib", &f->err), KILN_INVALID);
    assert_says(f->err.text, "'lib'");
    setenv("KILN_TRIAL_LIBRARY_PATH", "./lib:/usr/lib", 1);
    assert_int_equal(dynamic_library_use(&f->library, &f->err), KILN_INVALID);
    assert_says(f->err.text, "KILN_TRIAL_LIBRARY_PATH");
}

TEST_F(dynamic_library, a_path_after_the_library_was_opened_is_refused)
{
    must(dynamic_library_set_path(&f->library, DIRECTORY("a"), &f->err), f->err);
    expect(f, 1, DIRECTORY("a"));
    assert_int_equal(dynamic_library_set_path(&f->library, DIRECTORY("b"), &f->err), KILN_INVALID);
    assert_says(f->err.text, FILE_OF("a"));
    expect(f, 1, DIRECTORY("a"));
}

TEST_F(dynamic_library, a_path_of_any_length_does_no_harm)
{
    size_t size = 20000;
    char *path = malloc(size + 1);
    memset(path, 'x', size);
    path[0] = '/';
    path[size] = '\0';
    path[10000] = ':';
    path[10001] = '/';
    must(dynamic_library_set_path(&f->library, path, &f->err), f->err);
    assert_int_equal(dynamic_library_use(&f->library, &f->err), KILN_UNAVAILABLE);
    path[10001] = 'x';
    assert_int_equal(dynamic_library_set_path(&f->library, path, &f->err), KILN_INVALID);
    free(path);
}

static void *use(void *context)
{
    struct fixture *f = context;
    struct kiln_err err = KILN_ERR_INIT;
    bool fine = dynamic_library_use(&f->library, &err) == KILN_OK && f->table.number() == 1 &&
                strcmp(dynamic_library_file(&f->library), FILE_OF("a")) == 0;
    return fine ? NULL : f;
}

TEST_F(dynamic_library, threads_may_open_a_library_at_once)
{
    pthread_t threads[4];
    must(dynamic_library_set_path(&f->library, DIRECTORY("a"), &f->err), f->err);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, f), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        await_thread(threads[i], &failed);
        assert_null(failed);
    }
}
