/* SPDX-License-Identifier: MIT */
#include "common/protocol/program_inputs.h"
#include "common/protocol/messages.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#define OPTIONS "--gpu-architecture=sm_90 -DNDEBUG"

static const char *obstacle(const char *options, const char *source)
{
    const struct program_inputs inputs = { .options = bytes_of_text(options),
                                           .name = bytes_of_text("k.cu"),
                                           .source = bytes_of_text(source) };
    return program_inputs_obstacle(&inputs);
}

TEST(plain, plain_programs_depend_on_their_inputs_alone)
{
    static const char *const sources[] = {
        "",
        "extern \"C\" __global__ void k() {}",
        "// this is included\nint x;",
        "#define A(x) do { \\\n x; } while (0)\nA(int i)",
        "int important, embedded;",
        "#define include_all 1",
        "#pragma unroll\n",
        "/* files that we include */ int x;",
        "#define C(a, b) a##b\ntemplate <class __T> int C(e, _)(__T TIMES);",
    };
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
        if (obstacle(OPTIONS, sources[i]))
            fail_msg("'%s' is refused: %s", sources[i], obstacle(OPTIONS, sources[i]));
}

TEST(plain, programs_that_may_read_files_are_refused)
{
    static const char *const sources[] = {
        "#include <a.h>",
        "#include \"a.h\"",
        "  #  include <a.h>",
        "#/* */include <a.h>",
        "# /* */ include <a.h>",
        "%:include <a.h>",
        "%: include <a.h>",
        "?\?=include <a.h>",
        "#\\\ninclude <a.h>",
        "#\\\r\ninclude <a.h>",
        "#inc\\\nlude <a.h>",
        "#inc\\ \nlude <a.h>",
        "#include_next <a.h>",
        "#define H <a.h>\n#include H",
        "#if __has_include(<a.h>)\n#endif",
        "#define C(a, b) a##b\n#if C(__has_, include)(<a.h>)\n#endif",
        "#import <a.h>",
        "#embed \"a\"",
        "#if __has_embed(\"a\")\n#endif",
        "const char *t = __TIME__;",
        "#define C(a, b) a##b\nconst char *t = C(__TI, ME__);",
        "#define C(a, b, c) a#\\\n#b#\\\n#c\nconst char *t = C(__, TIME, __);",
        "#define C(a) __##a##__\nconst char *t = C(DATE);",
        "#define C(a, b) a##b\n#if C(__has_inc, lude)(<a.h>)\n#endif",
    };
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
        if (!obstacle(OPTIONS, sources[i]))
            fail_msg("'%s' is not refused", sources[i]);
}

static const char *with_header(const char *source, const char *text)
{
    BUFFER_AUTO struct buffer headers;
    buffer_init(&headers, 4096);
    message_header_write(&headers, &(struct message_header){ .name = bytes_of_text("a/b.h"),
                                                             .text = bytes_of_text(text) });
    const struct program_inputs inputs = { .options = bytes_of_text(OPTIONS),
                                           .source = bytes_of_text(source),
                                           .header_count = 1,
                                           .headers = buffer_view(&headers) };
    return program_inputs_obstacle(&inputs);
}

/* Searching a larger program would take kilnd too long. */
TEST(plain, large_programs_are_refused)
{
    BUFFER_AUTO struct buffer source, headers;
    struct program_inputs inputs = { .options = bytes_of_text(OPTIONS) };
    buffer_init(&source, 2u << 20);
    buffer_init(&headers, 1u << 16);
    while (source.size < 1u << 20)
        buffer_put_u8(&source, 'x');
    inputs.source = buffer_view(&source);
    assert_null(program_inputs_obstacle(&inputs));
    buffer_put_u8(&source, 'x');
    inputs.source = buffer_view(&source);
    assert_non_null(program_inputs_obstacle(&inputs));

    const struct message_header header = { .name = bytes_of_text("a"), .text = bytes_of_text("") };
    for (inputs.header_count = 0; inputs.header_count < 256; inputs.header_count++)
        message_header_write(&headers, &header);
    inputs.headers = buffer_view(&headers);
    buffer_clear(&source);
    for (unsigned count = 0; count < 4096; count++)
        buffer_put(&source, "#include<a>\n", 12);
    inputs.source = buffer_view(&source);
    assert_null(program_inputs_obstacle(&inputs));
    buffer_put(&source, "#include<a>\n", 12);
    inputs.source = buffer_view(&source);
    assert_non_null(program_inputs_obstacle(&inputs));
}

TEST(plain, headers_in_memory_may_be_included)
{
    assert_null(with_header("#include <a/b.h>\nint x;", "#pragma once\nint y;"));
    assert_null(with_header("# include \t\"a/b.h\"", ""));
    assert_non_null(with_header("#include <b.h>", ""));
    assert_non_null(with_header("#include <a/b.h", ""));
    assert_non_null(with_header("#include <a/b.h>", "#include <c.h>"));
    assert_non_null(with_header("#include <a/b.h>\n#include <c.h>", ""));
    assert_non_null(with_header("#import <a/b.h>", ""));
}

TEST(plain, a_damaged_header_is_refused)
{
    const struct program_inputs inputs = { .source = bytes_of_text("int x;"),
                                           .header_count = 1,
                                           .headers = bytes_of_text("x") };
    assert_non_null(program_inputs_obstacle(&inputs));
}

TEST(plain, options_that_name_files_or_bring_paths_in_are_refused)
{
    static const char *const refused[] = {
        "-I/usr/include",
        "--include-path=/x",
        "-include=a.h",
        "--pre-include=a.h",
        "-lineinfo",
        "-G",
        "-dlto",
        "-rdc=true",
        "--time=f",
        "--create-pch=f",
        "-arch sm_90",
        "sm_90",
        "-DA=__TIME__",
        "-DA=__has_include",
        "-Xptxas=-o=f",
        "--ptxas-options=-o=f",
        "-DA=\x01",
        "--fdevice-time-trace=f",
        "",
        NULL,
    };
    for (size_t i = 0; refused[i] && *refused[i]; i++)
        if (!obstacle(refused[i], "int x;"))
            fail_msg("'%s' is not refused", refused[i]);
    assert_null(
        obstacle("--std=c++17 -default-device --use_fast_math -UX -w --fmad=false", "int x;"));
    assert_null(obstacle("", "int x;"));
}

#define AMD_OPTIONS "--offload-arch=gfx90a -O3 "

TEST(plain, hiprtc_takes_options_of_clang)
{
    static const char *const refused[] = {
        "-I/x",     "-include=a.h",    "-g",           "-fgpu-rdc",
        "-mllvm",   "--rocm-path=/x",  "-Wl,-q",       "-Wp,-MD,f",
        "-Wa,-o,f", "--use_fast_math", "--save-temps", "-fplugin=f",
        "-DA=asm",  "-DA=__FILE__",    "-W",           NULL,
    };
    assert_null(obstacle(AMD_OPTIONS "-Wno-unused -Wall -std=c++17 -ffp-contract=off -DA=1", ""));
    assert_null(obstacle("--gpu-architecture=gfx90a:sramecc+:xnack- -mcumode", "int x;"));
    for (size_t i = 0; refused[i]; i++) {
        char options[100];
        snprintf(options, sizeof(options), AMD_OPTIONS "%s", refused[i]);
        if (!obstacle(options, "int x;"))
            fail_msg("'%s' is not refused", refused[i]);
    }
    assert_non_null(obstacle(OPTIONS " -O3", "int x;"));
}

/* In kilnd's sandbox, hiprtc would see the source under another path than in the client. */
TEST(plain, sources_for_hiprtc_that_depend_on_a_path_are_refused)
{
    static const char *const sources[] = {
        "const char *f = __FILE__;",
        "const char *f = __BASE_FILE__;",
        "const char *f = __builtin_FILE();",
        "auto f = std::source_location::current();",
        "void f() { asm(\".incbin \\\"f\\\"\"); }",
        "void f() { asm(\".inc\" \"bin \\\"f\\\"\"); }",
        "#define JOIN(a, b) a##b\nJOIN(as, m)(\"x\");",
        "#define JOIN(a, b) a %:%: b\nJOIN(as, m)(\"x\");",
        "#pragma clang  dependency \"f\"",
    };
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
        if (!obstacle(AMD_OPTIONS, sources[i]))
            fail_msg("'%s' is not refused", sources[i]);
    assert_null(obstacle(OPTIONS, sources[0]));
}

static bool is_target(const char *options, const char *target)
{
    const struct program_inputs inputs = { .options = bytes_of_text(options) };
    return bytes_equal_text(program_inputs_target(&inputs), target);
}

TEST(plain, the_target_comes_from_the_options)
{
    assert_true(is_target("--std=c++17 --gpu-architecture=sm_90 -DN", "sm_90"));
    assert_true(is_target("-arch=sm_80", "sm_80"));
    assert_true(is_target("-O3 --offload-arch=gfx90a:xnack-", "gfx90a:xnack-"));
    assert_true(is_target("-DA=1", ""));
    assert_true(is_target("", ""));
}
