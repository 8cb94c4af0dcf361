/* SPDX-License-Identifier: MIT */
#include "engine/compile/kernel_key.h"
#include "common/protocol/messages.h"
#include "common/target/opencl_target.h"
#include "engine/digest/sha256.h"
#include "tests/support/test.h"

#include <string.h>

static struct digest identity_of(uint8_t n) { return (struct digest){ { n } }; }

struct fixture {
    struct compile_job job;
    struct buffer headers;
};

SET_UP(make_job)
{
    buffer_init(&f->headers, 4096);
    f->job = (struct compile_job){ .toolchain = bytes_of_text("hiprtc"),
                                   .target = bytes_of_text("gfx90a"),
                                   .program = bytes_of_text("k.cl"),
                                   .options = bytes_of_text("-DA=1"),
                                   .source = bytes_of_text("source") };
}

TEAR_DOWN(free_job) { buffer_done(&f->headers); }

FIXTURE(job, make_job, free_job);

static void add_header(struct fixture *f, const char *name, const char *text)
{
    struct message_header h = { .name = bytes_of_text(name), .text = bytes_of_text(text) };
    message_header_write(&f->headers, &h);
    f->job.headers = buffer_view(&f->headers);
    f->job.header_count++;
}

static struct digest key(const struct fixture *f)
{
    struct digest id = identity_of(1);
    return kernel_key(&f->job, &id);
}

static bool differs(struct digest a, struct digest b) { return !digest_equal(&a, &b); }

TEST(plain, sha256_agrees_with_the_standard)
{
    char hex[DIGEST_HEX_SIZE];
    struct digest d = sha256_of(bytes_of_text("abc"));
    digest_to_hex(&d, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    d = sha256_of(bytes_of(NULL, 0));
    digest_to_hex(&d, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(plain, sha256_in_parts_equals_sha256_at_once)
{
    struct sha256 s;
    sha256_init(&s);
    sha256_put(&s, bytes_of_text("ab"));
    sha256_put(&s, bytes_of(NULL, 0));
    sha256_put(&s, bytes_of_text("c"));
    assert_false(differs(sha256_end(&s), sha256_of(bytes_of_text("abc"))));
}

TEST_F(job, the_same_job_has_the_same_key)
{
    add_header(f, "a.h", "A");
    assert_false(differs(key(f), key(f)));
}

TEST_F(job, every_part_of_a_job_decides_its_key)
{
    struct digest before = key(f), other = identity_of(2);
    struct bytes *parts[] = { &f->job.toolchain, &f->job.target, &f->job.program, &f->job.options,
                              &f->job.source };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct bytes kept = *parts[i];
        *parts[i] = bytes_of_text("other");
        assert_true(differs(key(f), before));
        *parts[i] = kept;
    }
    assert_true(differs(kernel_key(&f->job, &other), before));
    add_header(f, "a.h", "A");
    assert_true(differs(key(f), before));
}

TEST_F(job, text_does_not_flow_from_one_part_into_the_next)
{
    f->job.options = bytes_of_text("ab");
    f->job.source = bytes_of_text("c");
    struct digest before = key(f);
    f->job.options = bytes_of_text("a");
    f->job.source = bytes_of_text("bc");
    assert_true(differs(key(f), before));
}

TEST_F(job, the_order_in_which_headers_come_does_not_matter)
{
    add_header(f, "b.h", "B");
    add_header(f, "a.h", "A");
    add_header(f, "a.hpp", "C");
    struct digest one = key(f);
    f->headers.size = 0;
    f->job.header_count = 0;
    add_header(f, "a.hpp", "C");
    add_header(f, "a.h", "A");
    add_header(f, "b.h", "B");
    assert_false(differs(key(f), one));
}

static enum kiln_code check(const struct fixture *f, struct kiln_err *err)
{
    *err = KILN_ERR_INIT;
    return headers_check(f->job.headers, f->job.header_count, err);
}

TEST_F(job, headers_with_plain_relative_names_pass)
{
    struct kiln_err err;
    must(check(f, &err), err);
    add_header(f, "kiln/prelude.h", "A");
    add_header(f, "conv-2d_x+y.hpp", "");
    must(check(f, &err), err);
}

TEST(plain, headers_that_could_leave_the_directory_are_named)
{
    static const char *const names[] = { "../a.h", "/etc/passwd", "a/../b.h", "a//b.h",
                                         "a/",     "./a.h",       "-a.h",     "a b.h",
                                         "",       "a\\b.h",      "a/.b/c.h" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *again = NULL;
        struct kiln_err err;
        make_job(&again);
        add_header(again, names[i], "A");
        assert_int_equal(check(again, &err), KILN_INVALID);
        assert_says(err.text, names[i]);
        free_job(&again);
    }
}

TEST_F(job, a_header_that_comes_twice_is_named)
{
    struct kiln_err err;
    add_header(f, "a.h", "A");
    add_header(f, "b.h", "A");
    add_header(f, "a.h", "B");
    assert_int_equal(check(f, &err), KILN_INVALID);
    assert_says(err.text, "'a.h'");
}

TEST_F(job, headers_cut_short_or_with_a_rest_are_refused)
{
    struct kiln_err err;
    add_header(f, "a.h", "A");
    f->job.headers.size--;
    assert_int_equal(check(f, &err), KILN_INVALID);
    assert_says(err.text, "truncated");
    f->job.headers.size++;
    f->job.header_count = 0;
    assert_int_equal(check(f, &err), KILN_INVALID);
    assert_says(err.text, "0 headers");
    f->job.header_count = LIMIT_HEADERS + 1;
    assert_int_equal(check(f, &err), KILN_INVALID);
    assert_says(err.text, "257 headers");
}

TEST(plain, a_program_name_is_no_path)
{
    struct kiln_err err = KILN_ERR_INIT;
    must(program_name_check(bytes_of_text("ConvDirectNaive.cl"), &err), err);
    assert_int_equal(program_name_check(bytes_of_text("a/b.cl"), &err), KILN_INVALID);
    assert_int_equal(program_name_check(bytes_of_text("-o"), &err), KILN_INVALID);
    assert_int_equal(program_name_check(bytes_of(NULL, 0), &err), KILN_INVALID);
}

TEST(plain, an_opencl_target_is_canonical_and_covers_all_names)
{
    struct opencl_names names = { .platform_name = "Portable Computing Language",
                                  .platform_version = "OpenCL 3.0 PoCL 3.1",
                                  .device_name = "pthread-AMD EPYC (7763): 64",
                                  .device_version = "OpenCL 3.0",
                                  .driver_version = "3.1" };
    char one[LIMIT_TARGET_TEXT], two[LIMIT_TARGET_TEXT];
    opencl_target_text(&names, one);
    assert_int_equal(
        strncmp(one, "opencl:pthread-AMD-EPYC-7763-64:Portable-Computing-Language-3.1-", 64), 0);
    assert_int_equal(strspn(one, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                 "_.:+-"),
                     strlen(one));
    names.driver_version = "3.2";
    opencl_target_text(&names, two);
    assert_string_not_equal(one, two);
    opencl_target_text(&(struct opencl_names){ 0 }, two);
    assert_int_equal(strncmp(two, "opencl:-:--", 11), 0);
}

TEST(plain, an_opencl_target_stays_within_its_limit)
{
    char longest[600], text[LIMIT_TARGET_TEXT];
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    struct opencl_names names = { longest, longest, longest, longest, longest };
    opencl_target_text(&names, text);
    assert_int_equal(strlen(text), strlen("opencl:") + 72 + 1 + 40 + 1 + 16 + 1 + 16);
}
