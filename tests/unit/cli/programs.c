/* SPDX-License-Identifier: MIT */

#include "common/base/json.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_SOCKET "/nonexistent/kiln/kilnd.sock"

struct fixture {
    FILE *out, *err;
    char printed[32768];
    char complained[8192];
};

SET_UP(set_up) { assert_int_equal(setenv("KILN_SOCKET", NO_SOCKET, 1), 0); }

FIXTURE(programs, set_up, NULL);

static void read_back(FILE *file, char *text, size_t size)
{
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

/* NULL ends |words|. */
static int run_program(struct fixture *f, const char *program, const char *const *words)
{
    char *argv[24] = { (char *)(uintptr_t)program };
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    for (size_t i = 0; words[i]; i++)
        argv[i + 1] = (char *)(uintptr_t)words[i];
    f->out = tmpfile();
    f->err = tmpfile();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
    posix_spawn_file_actions_adddup2(&actions, fileno(f->out), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(f->err), STDERR_FILENO);
    assert_int_equal(posix_spawn(&pid, program, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    int status = await_child(pid);
    read_back(f->out, f->printed, sizeof(f->printed));
    read_back(f->err, f->complained, sizeof(f->complained));
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define KILNCTL(f, ...) run_program((f), KILNCTL_PATH, (const char *[]){ __VA_ARGS__, NULL })
#define DRIVER(f, ...) run_program((f), DRIVER_PATH, (const char *[]){ __VA_ARGS__, NULL })

TEST_F(programs, every_command_says_that_there_is_no_daemon_with_status_3)
{
    static const char *const commands[][3] = {
        { "status" },
        { "stats" },
        { "config" },
        { "ping" },
        { "events" },
        { "toolchain", "ls" },
        { "device", "ls" },
        { "kernel", "ls" },
        { "clear", "--all", "--yes" },
        { "pkg", "ls" },
        { "pkg", "show", "x" },
        { "pkg", "verify", "x" },
        { "pkg", "rm", "x" },
        { "pkg", "coverage" },
        { "pkg", "install", "http://h/a.kdb" },
        { "gc", "--yes" },
        { "kernel", "pin", "ab" },
        { "kernel", "unpin", "ab" },
        { "kernel", "import", SMOKE_PATH },
        { "kernel", "export", "/nonexistent" },
        { "why-miss", "ab" },
    };
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        int status =
            run_program(f, KILNCTL_PATH,
                        (const char *[]){ commands[i][0], commands[i][1], commands[i][2], NULL });
        assert_int_equal(status, 3);
        assert_int_equal(strncmp(f->complained, "kilnctl: ", 9), 0);
        assert_non_null(strstr(f->complained, NO_SOCKET));
        assert_string_equal(f->printed, "");
    }
}

/* The program must have printed one JSON object with an "error" of this |code|. */
static void expect_error(const struct fixture *f, const char *code)
{
    struct kiln_err why = KILN_ERR_INIT;
    KILN_AUTO(json) struct json *json = NULL;
    if (json_parse(bytes_of_text(f->printed), "what was printed", &json, &why))
        fail_msg("%s: %s", why.text, f->printed);
    const struct json *error = json_get(json, "error");
    assert_string_equal(json_get_text(error, "code", "none"), code);
    assert_true(*json_get_text(error, "text", ""));
    assert_non_null(strstr(f->complained, json_get_text(error, "text", "")));
}

struct call {
    const char *words[8];
    int status;
    const char *code;
};

static void expect_errors(struct fixture *f, const char *program, const struct call *calls,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        print_message("%s %s\n", program, calls[i].words[0]);
        assert_int_equal(run_program(f, program, calls[i].words), calls[i].status);
        expect_error(f, calls[i].code);
    }
}

TEST(programs, every_command_of_kilnctl_has_its_error_in_json_too)
{
    static const char network[] = SMOKE_PATH;
    static const struct call calls[] = {
        { { "status", "--json" }, 3, "UNAVAILABLE" },
        { { "stats", "--json" }, 3, "UNAVAILABLE" },
        { { "config", "--json" }, 3, "UNAVAILABLE" },
        { { "ping", "--json" }, 3, "UNAVAILABLE" },
        { { "events", "--json" }, 3, "UNAVAILABLE" },
        { { "toolchain", "ls", "--json" }, 3, "UNAVAILABLE" },
        { { "prefetch", network, "--target", "gfx90a", "--json" }, 3, "UNAVAILABLE" },
        { { "kernel", "ls", "--json" }, 3, "UNAVAILABLE" },
        { { "kernel", "show", "ab", "--json" }, 3, "UNAVAILABLE" },
        { { "kernel", "rm", "ab", "cd", "--json" }, 3, "UNAVAILABLE" },
        { { "clear", "--all", "--yes", "--json" }, 3, "UNAVAILABLE" },
        { { "gc", "--yes", "--json" }, 3, "UNAVAILABLE" },
        { { "why-miss", "ab", "--json" }, 3, "UNAVAILABLE" },
        { { "kernel", "fetch", "ab", "-o", "/nonexistent/x", "--json" }, 3, "UNAVAILABLE" },
        { { "kernel", "import", network, "--json" }, 3, "UNAVAILABLE" },
        { { "kernel", "export", "/nonexistent", "--json" }, 3, "UNAVAILABLE" },
        { { "kernel", "pin", "ab", "--json" }, 3, "UNAVAILABLE" },
        { { "kernel", "unpin", "ab", "--json" }, 3, "UNAVAILABLE" },
        { { "pkg", "install", network, "--json" }, 3, "UNAVAILABLE" },
        { { "pkg", "ls", "--json" }, 3, "UNAVAILABLE" },
        { { "pkg", "show", "a.kdb", "--json" }, 3, "UNAVAILABLE" },
        { { "pkg", "verify", "a.kdb", "--json" }, 3, "UNAVAILABLE" },
        { { "pkg", "rm", "a.kdb", "b.kdb", "--json" }, 3, "UNAVAILABLE" },
        { { "pkg", "coverage", "--json" }, 3, "UNAVAILABLE" },
        { { "pkg", "build", "-tgfx90a", "--problems", network, "-o/nonexistent/gfx90a.kdb",
            "--json" },
          3,
          "UNAVAILABLE" },
        { { "pkg", "sign", network, "--key", "/nonexistent/x", "--json" }, 5, "NOT_FOUND" },
        { { "pkg", "keygen", "..", "--json" }, 2, "INVALID" },
        { { "pkg", "install", "/nonexistent/x", "--json" }, 5, "NOT_FOUND" },
        { { "gc", "--json" }, 2, "INVALID" },
        { { "clear", "--json" }, 2, "INVALID" },
        { { "stats", "--jsno", "--json" }, 2, "INVALID" },
        { { "--json", "frob\xff" }, 2, "INVALID" },
        { { "kernel", "--json" }, 2, "INVALID" },
        { { "--json" }, 2, "INVALID" },
    };
    expect_errors(*state, KILNCTL_PATH, calls, sizeof(calls) / sizeof(calls[0]));
}

TEST(programs, every_command_of_the_driver_has_its_error_in_json_too)
{
    static const struct call calls[] = {
        { { "conv", "-n", "many", "--json" }, 2, "INVALID" },
        { { "conv", "--find-mode", "slow", "--json" }, 2, "INVALID" },
        { { "conv", "--enforce", "6", "--json" }, 2, "INVALID" },
        { { "conv", "--budget", "soon", "--json" }, 2, "INVALID" },
        { { "conv", "-n", "1", "--device", "abacus:0", "--json" }, 2, "INVALID" },
        { { "run", "/nonexistent/file", "--json" }, 1, "IO" },
        { { "run", "--json" }, 2, "INVALID" },
        { { "devices", "more", "--json" }, 2, "INVALID" },
        { { "pool", "--json" }, 2, "INVALID" },
        { { "--json" }, 2, "INVALID" },
    };
    expect_errors(*state, DRIVER_PATH, calls, sizeof(calls) / sizeof(calls[0]));
}

TEST_F(programs, a_listing_of_no_devices_is_json_with_the_reasons_and_the_error)
{
    setenv("KILN_HIP_LIBRARY", "/nonexistent", 1);
    setenv("KILN_CUDA_LIBRARY", "/nonexistent", 1);
    setenv("KILN_OPENCL_LIBRARY", "/nonexistent", 1);
    int status = DRIVER(f, "devices", "--json");
    unsetenv("KILN_HIP_LIBRARY");
    unsetenv("KILN_CUDA_LIBRARY");
    unsetenv("KILN_OPENCL_LIBRARY");
    assert_int_equal(status, 1);
    assert_non_null(strstr(f->printed, "\"unavailable\":[{"));
    expect_error(f, "UNSUPPORTED");
}

/* Lists devices while no runtime but a fake HIP runtime (tests/support/fake_gpu) can be loaded. */
static int list_hip(struct fixture *f, const char *directory, const char *json)
{
    setenv("KILN_CUDA_LIBRARY", "/nonexistent", 1);
    setenv("KILN_OPENCL_LIBRARY", "/nonexistent", 1);
    int status = DRIVER(f, "devices", "--hip-library-path", directory, json);
    unsetenv("KILN_CUDA_LIBRARY");
    unsetenv("KILN_OPENCL_LIBRARY");
    return status;
}

TEST_F(programs, devices_of_a_runtime_in_the_directory_given_are_reported_with_all_there_is)
{
    struct kiln_err why = KILN_ERR_INIT;
    KILN_AUTO(json) struct json *json = NULL;
    assert_int_equal(list_hip(f, "/nonexistent:" FAKE_HIP, "--json"), 0);
    assert_int_equal(json_parse(bytes_of_text(f->printed), "what was printed", &json, &why), 0);
    const struct json *device = json_first(json_get(json, "devices"));
    assert_int_equal(json_count(json_get(json, "devices")), 3);
    assert_string_equal(json_get_text(device, "name", ""), "hip:0");
    assert_string_equal(json_get_text(device, "model", ""), "Fake GPU 0");
    assert_string_equal(json_get_text(device, "target", ""), "gfx90a:sramecc+:xnack-");
    assert_string_equal(json_get_text(device, "database_id", ""), "gfx90a68");
    assert_string_equal(json_get_text(device, "uuid", ""), "GPU-1901ead3a2ecd400");
    assert_string_equal(json_get_text(device, "pci", ""), "0000:43:00.0");
    assert_true(strncmp(json_get_text(device, "driver", ""), "HIP 6.2.41133", 13) == 0);
    assert_int_equal(json_get_u64(device, "compute_units", 0), 104);
    assert_int_equal(json_get_u64(device, "clock_mhz", 0), 1700);
    assert_true(json_get_u64(device, "memory", 0) == (uint64_t)1 << 40);
    const struct json *absent = json_first(json_get(json, "unavailable"));
    assert_string_equal(json_get_text(absent, "name", ""), "cuda");
    assert_true(*json_get_text(absent, "reason", ""));
}

TEST_F(programs, a_device_list_ends_with_the_unavailable_runtimes)
{
    assert_int_equal(list_hip(f, FAKE_HIP, NULL), 0);
    const char *first = "DEVICE  MODEL       TARGET                  UUID\n"
                        "hip:0   Fake GPU 0  gfx90a:sramecc+:xnack-  GPU-1901ead3a2ecd400\n";
    assert_int_equal(strncmp(f->printed, first, strlen(first)), 0);
    assert_says(f->printed, "cuda");
    assert_says(f->printed, "opencl");
}

TEST_F(programs, the_directory_of_a_runtime_must_be_absolute)
{
    assert_int_equal(DRIVER(f, "devices", "--hip-library-path", "lib"), 2);
    assert_says(f->complained, "--hip-library-path:");
}

TEST_F(programs, doctor_checks_the_socket_of_the_option)
{
    assert_int_equal(KILNCTL(f, "status", "--socket", "/nonexistent/other.sock"), 3);
    assert_non_null(strstr(f->complained, "/nonexistent/other.sock"));
    assert_int_equal(KILNCTL(f, "--socket", "/nonexistent/third.sock", "status", "--json"), 3);
    assert_non_null(strstr(f->complained, "/nonexistent/third.sock"));
}

TEST_F(programs, an_invalid_command_line_has_status_2)
{
    assert_int_equal(KILNCTL(f, "frobnicate"), 2);
    assert_says(f->complained, "'frobnicate'");
    assert_null(strstr(f->complained, "did you mean"));
    assert_int_equal(KILNCTL(f, "statsu"), 2);
    assert_says(f->complained, "'stats'");
    assert_int_equal(KILNCTL(f, "stauts"), 2);
    assert_says(f->complained, "did you mean 'status' or 'stats'?");
    assert_int_equal(KILNCTL(f, "pkg", "instal", "x"), 2);
    assert_says(f->complained, "'pkg install'");
    assert_int_equal(KILNCTL(f, "stats", "--jsno"), 2);
    assert_says(f->complained, "--json");
    assert_int_equal(KILNCTL(f, "stats", "more"), 2);
    assert_int_equal(KILNCTL(f, "kernel", "show"), 2);
    assert_int_equal(KILNCTL(f, "prefetch", "file"), 2);
    assert_int_equal(KILNCTL(f, "clear"), 2);
    assert_int_equal(run_program(f, KILNCTL_PATH, (const char *[]){ NULL }), 2);
}

TEST_F(programs, clear_without_a_terminal_needs_yes)
{
    assert_int_equal(KILNCTL(f, "clear", "--all"), 2);
    assert_non_null(strstr(f->complained, "--yes"));
}

TEST_F(programs, help_of_a_group_lists_its_commands_alone)
{
    static const char *const groups[] = { "pkg", "kernel", "db", "miopen", "toolchain" };
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        assert_int_equal(KILNCTL(f, groups[i], "--help"), 0);
        assert_non_null(strstr(f->printed, groups[i]));
        assert_string_equal(f->complained, "");
    }
    assert_int_equal(KILNCTL(f, "pkg", "-h"), 0);
    assert_says(f->printed, "pkg coverage");
    assert_null(strstr(f->printed, "kernel rm"));
    assert_says(f->printed, "pkg COMMAND");
    assert_int_equal(KILNCTL(f, "help", "kernel"), 0);
    assert_says(f->printed, "kernel rm");
    assert_int_equal(KILNCTL(f, "--help", "kernel"), 0);
    assert_says(f->printed, "kernel rm");
    assert_int_equal(KILNCTL(f, "kernel"), 2);
    assert_int_equal(KILNCTL(f, "frob", "--help"), 2);
    assert_int_equal(KILNCTL(f, "kernel", "frob", "--help"), 2);
}

TEST_F(programs, help_lists_commands_and_exit_statuses)
{
    assert_int_equal(KILNCTL(f, "--help"), 0);
    assert_non_null(strstr(f->printed, "toolchain ls"));
    assert_says(f->printed, "no daemon");
    assert_int_equal(KILNCTL(f, "help", "kernel", "rm"), 0);
    assert_says(f->printed, "kernel rm");
    assert_int_equal(KILNCTL(f, "clear", "--help"), 0);
    assert_non_null(strstr(f->printed, "--older-than TIME"));
    assert_int_equal(KILNCTL(f, "--help", "clear"), 0);
    assert_non_null(strstr(f->printed, "--older-than TIME"));
    assert_int_equal(KILNCTL(f, "--version"), 0);
    assert_int_equal(strncmp(f->printed, "kilnctl ", 8), 0);
    assert_int_equal(KILNCTL(f, "prefetch", "--version", "--json"), 0);
    assert_int_equal(strncmp(f->printed, "{\"program\":\"kilnctl\"", 20), 0);
}

TEST_F(programs, kiln_driver_needs_a_known_command)
{
    assert_int_equal(run_program(f, DRIVER_PATH, (const char *[]){ NULL }), 2);
    assert_int_equal(DRIVER(f, "pool"), 2);
    assert_int_equal(DRIVER(f, "run"), 2);
    assert_int_equal(DRIVER(f, "--help"), 0);
    assert_says(f->printed, "--forw");
    assert_says(f->printed, "(10)");
    assert_int_equal(DRIVER(f, "--version"), 0);
}

TEST_F(programs, a_bad_command_line_is_reported_before_devices_are_opened)
{
    assert_int_equal(DRIVER(f, "conv", "-n", "many", "--device", "abacus:0"), 2);
    assert_says(f->complained, "'many'");
    assert_says(f->complained, "--batchsize");
    assert_int_equal(DRIVER(f, "conv", "--enforce", "6", "--device", "abacus:0"), 2);
    assert_says(f->complained, "'6'");
    assert_says(f->complained, "--enforce");
    assert_int_equal(DRIVER(f, "run", "/nonexistent/file", "--device", "abacus:0"), 1);
    assert_non_null(strstr(f->complained, "/nonexistent/file"));
}

TEST_F(programs, kiln_driver_names_the_device_that_it_cannot_open)
{
    assert_int_equal(DRIVER(f, "conv", "-n", "1", "--device", "abacus:0"), 2);
    assert_non_null(strstr(f->complained, "abacus"));
}
