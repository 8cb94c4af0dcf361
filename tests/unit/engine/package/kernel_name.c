/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"

#include "common/protocol/messages.h"
#include "engine/digest/sha256.h"
#include "engine/package/kernel_name.h"

#include <stdio.h>
#include <string.h>

struct fixture {
    struct package_source source;
    struct buffer headers, text;
    struct kiln_err err;
};

SET_UP(setup)
{
    test_buffer(&f->headers, 1 << 20);
    test_buffer(&f->text, 1 << 20);
    f->source = (struct package_source){
        .program = bytes_of_text("ConvDirectNaive.cl"),
        .options = bytes_of_text("-O3 -DBLOCK=256"),
        .source = bytes_of_text("void f() {}"),
        .abi = 1,
    };
}

FIXTURE(kernel_name, setup, NULL);

static void add_header(struct fixture *f, const char *name, const char *text)
{
    struct message_header h = { .name = bytes_of_text(name), .text = bytes_of_text(text) };
    message_header_write(&f->headers, &h);
    f->source.headers = buffer_view(&f->headers);
    f->source.header_count++;
}

static void drop_headers(struct fixture *f)
{
    f->headers.size = 0;
    f->source.headers = bytes_of(NULL, 0);
    f->source.header_count = 0;
}

/* Returns the name in static memory, which the eighth later call overwrites. */
static const char *name(struct fixture *f)
{
    static char names[8][300];
    static unsigned at;
    f->text.size = 0;
    must(package_kernel_name(&f->source, &f->text, &f->err), f->err);
    char *text = names[at++ % 8];
    snprintf(text, sizeof(names[0]), "%.*s", (int)f->text.size, (const char *)f->text.data);
    return text;
}

static const char *args(struct fixture *f, const char *target_text)
{
    static char text[300];
    struct target target;
    f->text.size = 0;
    must(target_parse(bytes_of_text(target_text), &target, &f->err), f->err);
    must(package_kernel_args(&f->source, &target, &f->text, &f->err), f->err);
    snprintf(text, sizeof(text), "%.*s", (int)f->text.size, (const char *)f->text.data);
    return text;
}

TEST_F(kernel_name, kernel_name_has_program_and_source_hash)
{
    add_header(f, "kiln/prelude.h", "#define X 1\n");

    const char *text = name(f);

    assert_int_equal(strlen(text), strlen("ConvDirectNaive.cl") + 1 + 12 + 2);
    assert_int_equal(strncmp(text, "ConvDirectNaive.cl.", 19), 0);
    assert_int_equal(strspn(text + 19, "0123456789abcdef"), 12);
    assert_string_equal(text + 31, ".o");
}

/* If this name changes, kiln no longer finds kernels in packages that were built earlier. */
TEST_F(kernel_name, kernel_names_are_stable_between_versions)
{
    add_header(f, "kiln/prelude.h", "#define X 1\n");
    struct sha256 s;
    sha256_init(&s);
    static const char expected[] = "\x12\0\0\0\0\0\0\0kiln-kernel-name-1"
                                   "\x0b\0\0\0\0\0\0\0void f() {}"
                                   "\x04\0\0\0\0\0\0\0\1\0\0\0"
                                   "\x0e\0\0\0\0\0\0\0kiln/prelude.h"
                                   "\x0c\0\0\0\0\0\0\0#define X 1\n"
                                   "\x04\0\0\0\0\0\0\0\1\0\0";
    sha256_put(&s, bytes_of(expected, sizeof(expected))); /* the array ends with a NUL */
    struct digest digest = sha256_end(&s);
    char hex[DIGEST_HEX_SIZE], wanted[300];
    digest_to_hex(&digest, hex);
    snprintf(wanted, sizeof(wanted), "ConvDirectNaive.cl.%.12s.o", hex);

    assert_string_equal(name(f), wanted);
}

TEST_F(kernel_name, another_source_header_or_abi_gives_another_kernel_name)
{
    add_header(f, "a.h", "1");
    const char *before = name(f);

    f->source.source = bytes_of_text("void g() {}");
    assert_string_not_equal(name(f), before);
    f->source.source = bytes_of_text("void f() {}");
    assert_string_equal(name(f), before);
    f->source.abi = 2;
    assert_string_not_equal(name(f), before);
    f->source.abi = 1;
    add_header(f, "b.h", "");
    assert_string_not_equal(name(f), before);
    drop_headers(f);
    add_header(f, "a.h", "2");
    assert_string_not_equal(name(f), before);
    drop_headers(f);
    add_header(f, "a.", "h1");
    assert_string_not_equal(name(f), before);
}

TEST_F(kernel_name, options_are_part_of_kernel_arguments_not_of_the_name)
{
    const char *before = name(f);
    f->source.options = bytes_of_text("-O2");

    assert_string_equal(name(f), before);
    assert_string_equal(args(f, "gfx90a"), "-O2 -mcpu=gfx90a");
}

TEST_F(kernel_name, header_order_does_not_change_the_kernel_name)
{
    add_header(f, "a.h", "1");
    add_header(f, "b.h", "2");
    const char *before = name(f);
    drop_headers(f);
    add_header(f, "b.h", "2");
    add_header(f, "a.h", "1");

    assert_string_equal(name(f), before);
}

TEST_F(kernel_name, kernel_arguments_have_miopens_form)
{
    assert_string_equal(args(f, "gfx90a:sramecc+:xnack-"), "-O3 -DBLOCK=256 -mcpu=gfx90a");
    assert_string_equal(args(f, "sm_90"), "-O3 -DBLOCK=256");
    f->source.options = bytes_of_text(" -Wa,-defsym,A=1  -b");
    assert_string_equal(args(f, "gfx906"), " -Wa,-defsym,A=1  -b -mcpu=gfx906");
    f->source.options = bytes_of(NULL, 0);
    assert_string_equal(args(f, "gfx906"), " -mcpu=gfx906");
}

TEST_F(kernel_name, an_invalid_program_name_is_refused)
{
    char long_name[300];
    memset(long_name, 'n', sizeof(long_name));
    struct bytes names[] = { bytes_of(NULL, 0), bytes_of("a\0b", 3), bytes_of(long_name, 256) };
    for (unsigned i = 0; i < 3; i++) {
        f->source.program = names[i];
        assert_int_equal(package_kernel_name(&f->source, &f->text, &f->err), KILN_INVALID);
        assert_says(f->err.text, "program's");
    }
    struct target target;
    must(target_parse(bytes_of_text("gfx906"), &target, &f->err), f->err);
    f->source.program = bytes_of_text("p");
    f->source.options = bytes_of("a\0b", 3);
    assert_int_equal(package_kernel_args(&f->source, &target, &f->text, &f->err), KILN_INVALID);
    assert_says(f->err.text, "NUL");
    assert_int_equal(f->text.size, 0);
}

TEST_F(kernel_name, truncated_headers_are_refused)
{
    add_header(f, "a.h", "text");

    f->source.headers.size--;
    assert_int_equal(package_kernel_name(&f->source, &f->text, &f->err), KILN_INVALID);
    assert_says(f->err.text, "headers");
    f->source.headers.size++;
    f->source.header_count = 0;
    assert_int_equal(package_kernel_name(&f->source, &f->text, &f->err), KILN_INVALID);
    f->source.header_count = LIMIT_HEADERS + 1;
    assert_int_equal(package_kernel_name(&f->source, &f->text, &f->err), KILN_INVALID);
}

TEST_F(kernel_name, a_full_name_buffer_is_reported)
{
    BUFFER_AUTO struct buffer small;
    buffer_init(&small, 8);
    struct target target;
    must(target_parse(bytes_of_text("gfx906"), &target, &f->err), f->err);

    assert_int_equal(package_kernel_name(&f->source, &small, &f->err), KILN_NO_MEMORY);
    buffer_done(&small);
    buffer_init(&small, 8);
    assert_int_equal(package_kernel_args(&f->source, &target, &small, &f->err), KILN_NO_MEMORY);
}
