/* SPDX-License-Identifier: MIT */
#include "common/miopen/tuning_text.h"
#include "tests/support/test.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tuning_entry only_entry(enum tuning_kind kind, const char *text)
{
    struct tuning_entry e = { 0 };
    struct kiln_err err = KILN_ERR_INIT;
    struct bytes left = bytes_of_text(text);
    must(tuning_entry_next(kind, &left, &e, &err), err);
    assert_int_equal(left.size, 0);
    assert_int_equal(tuning_entry_next(kind, &left, &e, &err), KILN_NOT_FOUND);
    return e;
}

#define assert_bytes(bytes, text) assert_true(bytes_equal_text(bytes, text))

TEST(plain, a_tuning_entry_of_the_new_dialect_is_read)
{
    struct tuning_entry e =
        only_entry(TUNING_FIND, "GemmBwdRest:3.19093,32768,miopenConvolutionBwdDataAlgoGEMM");
    assert_int_equal(e.dialect, FIND_NEW);
    assert_bytes(e.id, "GemmBwdRest");
    assert_bytes(e.solver, "GemmBwdRest");
    assert_bytes(e.algorithm, "miopenConvolutionBwdDataAlgoGEMM");
    assert_bytes(e.values, "3.19093,32768,miopenConvolutionBwdDataAlgoGEMM");
    assert_true(e.time_ms == 3.19093);
    assert_int_equal(e.workspace, 32768);
}

TEST(plain, a_tuning_entry_of_the_old_dialect_keeps_its_opencl_fields)
{
    struct tuning_entry e = only_entry(TUNING_FIND, "miopenConvolutionBwdDataAlgoGEMM:GemmBwdRest,"
                                                    "220.513,14450688,MIOpenGEMM,0_1_3136_36");
    assert_int_equal(e.dialect, FIND_OLD);
    assert_bytes(e.id, "miopenConvolutionBwdDataAlgoGEMM");
    assert_bytes(e.solver, "GemmBwdRest");
    assert_bytes(e.algorithm, "miopenConvolutionBwdDataAlgoGEMM");
    assert_bytes(e.values, "GemmBwdRest,220.513,14450688,MIOpenGEMM,0_1_3136_36");
    assert_true(e.time_ms == 220.513);
    assert_int_equal(e.workspace, 14450688);
}

TEST(plain, a_tuning_entry_is_read_from_its_id_and_values)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_entry e = { 0 };
    const struct bytes id = bytes_of_text("miopenConvolutionBwdDataAlgoGEMM");
    must(tuning_entry_of(TUNING_FIND, id, bytes_of_text("GemmBwdRest,2,0,MIOpenGEMM,x"), &e, &err),
         err);
    assert_int_equal(e.dialect, FIND_OLD);
    assert_bytes(e.solver, "GemmBwdRest");
    assert_bytes(e.algorithm, "miopenConvolutionBwdDataAlgoGEMM");
    static const char *const none[] = { "2,0,a;B:2,0,a", "", "2,0", "2,0,a=b" };
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_int_equal(tuning_entry_of(TUNING_FIND, id, bytes_of_text(none[i]), &e, &err),
                         KILN_INVALID);
    assert_int_equal(tuning_entry_of(TUNING_PERF, (struct bytes){ 0 }, id, &e, &err), KILN_INVALID);
}

TEST(plain, tuning_entries_are_read_in_order)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_entry e;
    struct bytes left = bytes_of_text("ConvAsm3x3U:7,8,4;Empty:;Igemm<16>:bwd,nhwc,152[2]");
    must(tuning_entry_next(TUNING_PERF, &left, &e, &err), err);
    assert_bytes(e.solver, "ConvAsm3x3U");
    assert_bytes(e.params, "7,8,4");
    must(tuning_entry_next(TUNING_PERF, &left, &e, &err), err);
    assert_bytes(e.solver, "Empty");
    assert_bytes(e.params, "");
    must(tuning_entry_next(TUNING_PERF, &left, &e, &err), err);
    assert_bytes(e.solver, "Igemm<16>");
    assert_bytes(e.params, "bwd,nhwc,152[2]");
    assert_int_equal(tuning_entry_next(TUNING_PERF, &left, &e, &err), KILN_NOT_FOUND);
}

TEST(plain, fields_that_a_kind_of_tuning_entry_lacks_are_empty)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_entry e;
    memset(&e, 0xff, sizeof(e));
    struct bytes find = bytes_of_text("a:1,2,b"), perf = bytes_of_text("a:1,2");
    must(tuning_entry_next(TUNING_FIND, &find, &e, &err), err);
    assert_int_equal(e.params.size, 0);
    memset(&e, 0xff, sizeof(e));
    must(tuning_entry_next(TUNING_PERF, &perf, &e, &err), err);
    assert_int_equal(e.algorithm.size, 0);
    assert_true(e.time_ms == 0);
    assert_int_equal(e.workspace, 0);
    assert_int_equal(e.dialect, FIND_NEW);
}

/* tuning_is_printable tests sixteen bytes at a time, then the remaining bytes one by one. */
TEST(plain, an_unprintable_byte_in_tuning_text_is_found_at_any_position)
{
    uint8_t text[40];
    for (size_t size = 0; size <= sizeof(text); size++) {
        memset(text, '~', sizeof(text));
        assert_true(tuning_is_printable(bytes_of(text, size)));
        for (size_t at = 0; at < size; at++) {
            for (unsigned byte = 0; byte < 256; byte++) {
                text[at] = (uint8_t)byte;
                assert_int_equal(tuning_is_printable(bytes_of(text, size)),
                                 byte >= ' ' && byte <= '~');
            }
            text[at] = ' ';
        }
    }
    assert_true(tuning_is_printable((struct bytes){ 0 }));
}

static const struct {
    enum tuning_kind kind;
    const char *text, *says;
} malformed[] = {
    { TUNING_FIND, ";", "follows" },
    { TUNING_FIND, ";a:1,2,b", "empty" },
    { TUNING_FIND, "a:1,2,b;", "nothing follows the last ';'" },
    { TUNING_FIND, "a", "':'" },
    { TUNING_FIND, ":1,2,b", "id of an entry" },
    { TUNING_FIND, "a,b:1,2,b", "id of an entry" },
    { TUNING_FIND, "a:", "1 fields" },
    { TUNING_FIND, "a:1,2", "2 fields" },
    { TUNING_FIND, "a:1,2,b,c", "4 fields" },
    { TUNING_FIND, "a:s,1,2,b,c,d", "6 fields" },
    { TUNING_FIND, "a:1,2,", "no algorithm" },
    { TUNING_FIND, "a:,1,2,b,c", "no solver" },
    { TUNING_FIND, "a:,2,b", "the time ''" },
    { TUNING_FIND, "a:-1,2,b", "the time '-1'" },
    { TUNING_FIND, "a:+1,2,b", "the time '+1'" },
    { TUNING_FIND, "a:nan,2,b", "the time 'nan'" },
    { TUNING_FIND, "a:inf,2,b", "the time 'inf'" },
    { TUNING_FIND, "a:1e999,2,b", "the time '1e999'" },
    { TUNING_FIND, "a:1e99999999999,2,b", "finite" },
    { TUNING_FIND, "a:0x10,2,b", "the time '0x10'" },
    { TUNING_FIND, "a: 1,2,b", "the time ' 1'" },
    { TUNING_FIND, "a:1.2.3,2,b", "the time '1.2.3'" },
    { TUNING_FIND, "a:.,2,b", "the time '.'" },
    { TUNING_FIND, "a:1e,2,b", "the time '1e'" },
    { TUNING_FIND, "a:1e+,2,b", "the time '1e+'" },
    { TUNING_FIND, "a:00000000000000000000000000000000000000001,2,b", "finite" },
    { TUNING_FIND, "a:1,,b", "the workspace ''" },
    { TUNING_FIND, "a:1,-2,b", "the workspace '-2'" },
    { TUNING_FIND, "a:1,2.0,b", "the workspace '2.0'" },
    { TUNING_FIND, "a:1,18446744073709551616,b", "the workspace '18446744073709551616'" },
    { TUNING_FIND, "a:1,2,b=c", "'='" },
    { TUNING_FIND, "a:1,2,b:c", "':'" },
    { TUNING_FIND, "a\x01:1,2,b", "0x01" },
    { TUNING_FIND, "a:1,2,b\x7f", "0x7f" },
    { TUNING_FIND, "a:1,2,\xc3\xa4", "0xc3" },
    { TUNING_PERF, "a", "':'" },
    { TUNING_PERF, ":1,2", "id of an entry" },
    { TUNING_PERF, "a:1:2", "':'" },
    { TUNING_PERF, "a:1\t2", "0x09" },
};

TEST(plain, a_malformed_tuning_entry_is_refused_with_its_fault)
{
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        struct kiln_err err = KILN_ERR_INIT;
        struct tuning_entry e;
        struct bytes text = bytes_of_text(malformed[i].text), left = text;
        if (tuning_entry_next(malformed[i].kind, &left, &e, &err) == KILN_OK)
            fail_msg("'%s' was taken", malformed[i].text);
        assert_int_equal(left.size, text.size);
        assert_says(err.text, malformed[i].says);
    }
}

TEST(plain, a_nul_in_a_tuning_entry_does_not_end_it)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_entry e;
    struct bytes left = bytes_of("a:1,2,b\0c", 9);
    assert_int_equal(tuning_entry_next(TUNING_FIND, &left, &e, &err), KILN_INVALID);
    assert_says(err.text, "0x00");
}

static void assert_time(const char *digits)
{
    char text[100];
    snprintf(text, sizeof(text), "a:%s,0,b", digits);
    struct tuning_entry e = only_entry(TUNING_FIND, text);
    if (e.time_ms != strtod(digits, NULL))
        fail_msg("'%s' was read as %a", digits, e.time_ms);
}

TEST(plain, tuning_times_are_read_exactly)
{
    static const char *const times[] = { "0",
                                         "1.",
                                         ".5",
                                         "0.0128",
                                         "1e-05",
                                         "1.5e+06",
                                         "4.9e-324",
                                         "1.7976931348623157e308",
                                         "9007199254740993",
                                         "123456789012345678901234567890",
                                         "0.1000000000000000055511151231257827",
                                         "000000000000000000000000000000000.3",
                                         "0.00000000000000000000000123456789",
                                         "0.123456789012345678",
                                         "0.1234567890123456789",
                                         "1e-22",
                                         "1e23",
                                         "8.41e21" };
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        assert_time(times[i]);
    uint64_t x = 1;
    for (unsigned i = 0; i < 20000; i++) {
        char text[64];
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        snprintf(text, sizeof(text), "%.*g", (int)(1 + (x >> 60)),
                 (double)(x >> 20) / (double)(1ull << (x >> 8) % 50));
        assert_time(text);
    }
}

/* If the host has no locale with a decimal comma, the test runs in the default locale. */
TEST(plain, the_locale_does_not_change_tuning_text)
{
    bool comma = setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "fr_FR.UTF-8");
    if (!comma)
        print_message("no locale with a decimal comma is here\n");
    struct tuning_entry e = only_entry(TUNING_FIND, "a:0.1000000000000000055511151231257827,7,b");
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, 1000);
    tuning_entry_write_find(&text, FIND_NEW, &e);
    assert_non_null(setlocale(LC_ALL, "C"));
    assert_true(e.time_ms == 0.1);
    assert_bytes(buffer_view(&text), "a:0.1,7,b");
}

TEST(plain, tuning_entries_are_written_in_both_dialects_of_miopen)
{
    struct tuning_entry e = { .solver = bytes_of_text("ConvAsm1x1U"),
                              .algorithm = bytes_of_text("miopenConvolutionFwdAlgoDirect"),
                              .time_ms = 1.7947211,
                              .workspace = 6422528 };
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, 1000);
    tuning_entry_write_find(&text, FIND_NEW, &e);
    e.time_ms = 0.00001;
    tuning_entry_write_find(&text, FIND_OLD, &e);
    assert_bytes(buffer_view(&text), "ConvAsm1x1U:1.79472,6422528,miopenConvolutionFwdAlgoDirect;"
                                     "miopenConvolutionFwdAlgoDirect:ConvAsm1x1U,1e-05,6422528,"
                                     "miopenConvolutionFwdAlgoDirect,<unused>");
}

TEST(plain, perf_entries_are_written_in_miopens_form)
{
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, 1000);
    tuning_entry_write_perf(&text, bytes_of_text("A"), bytes_of_text("1,2"));
    tuning_entry_write_perf(&text, bytes_of_text("B"), bytes_of_text(""));
    assert_bytes(buffer_view(&text), "A:1,2;B:");
}

TEST(plain, a_word_of_a_tuning_record_cannot_contain_separators)
{
    static const char *const bad[] = { "", "a;b", "a:b", "a=b", "a,b", "a\nb", "a\rb", "\x1b[m" };
    struct kiln_err err = KILN_ERR_INIT;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(tuning_word_check("solver", bytes_of_text(bad[i]), false, &err),
                         KILN_INVALID);
        assert_says(err.text, "solver");
    }
    must(tuning_word_check("params", bytes_of_text("a,b"), true, &err), err);
    must(tuning_word_check("solver", bytes_of_text("ConvOclBwdWrW2<16>"), false, &err), err);
    char longest[TUNING_WORD_MAX + 1];
    memset(longest, 'a', sizeof(longest));
    must(tuning_word_check("solver", bytes_of(longest, TUNING_WORD_MAX), false, &err), err);
    assert_int_equal(tuning_word_check("solver", bytes_of(longest, sizeof(longest)), false, &err),
                     KILN_INVALID);
    assert_says(err.text, "1025 bytes");
}

#define DIRECT "miopenConvolutionFwdAlgoDirect"

TEST(plain, solver_and_algorithm_names_of_miopen_are_accepted)
{
    static const struct {
        enum tuning_kind kind;
        char direction;
        const char *text;
    } good[] = {
        { TUNING_FIND, 'F', "ConvOclBwdWrW2<16>:1,0," DIRECT },
        { TUNING_FIND, 'B', "GemmBwd1x1_stride2:1,0,miopenConvolutionBwdDataAlgoGEMM" },
        { TUNING_FIND, 'W', "Conv-W:1,0,miopenConvolutionBwdWeightsAlgoImplicitGEMM" },
        { TUNING_FIND, 0, "A:1,0,miopenConvolutionBwdWeightsAlgoFFT" },
        { TUNING_FIND, 'F', DIRECT ":ConvA,1,0,MIOpenGEMM,not used" },
        { TUNING_PERF, 'F', "ConvMPBidirectWinograd<3-3>:1,[2]" },
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct kiln_err err = KILN_ERR_INIT;
        struct tuning_entry e = only_entry(good[i].kind, good[i].text);
        must(tuning_entry_check(good[i].kind, &e, good[i].direction, &err), err);
    }
}

TEST(plain, names_unknown_to_miopen_are_refused)
{
    static const struct {
        enum tuning_kind kind;
        char direction;
        const char *text, *says;
    } bad[] = {
        { TUNING_FIND, 'F', "Conv A:1,0," DIRECT, "'Conv A'" },
        { TUNING_FIND, 0, "Conv/A:1,0," DIRECT, "'Conv/A'" },
        { TUNING_FIND, 'F', DIRECT ":Conv.A,1,0," DIRECT ",x", "'Conv.A'" },
        { TUNING_PERF, 'F', "Conv$A:1", "'Conv$A'" },
        { TUNING_FIND, 'B', "A:1,0," DIRECT, DIRECT "'" },
        { TUNING_FIND, 'W', DIRECT ":A,1,0," DIRECT ",x", "direction" },
        { TUNING_FIND, 'F', "A:1,0,miopenConvolutionBwdDataAlgoGEMM", "direction" },
        { TUNING_FIND, 0, "A:1,0,direct", "'direct'" },
        { TUNING_FIND, 0, "A:1,0,miopenConvolutionFwdAlgo", "algorithm" },
        { TUNING_FIND, 0, "A:1,0," DIRECT "_2", "algorithm" },
        { TUNING_FIND, 0, "A:1,0,x" DIRECT, "algorithm" },
        { TUNING_FIND, 0, "direct:A,1,0," DIRECT ",x", "'direct'" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct kiln_err err = KILN_ERR_INIT;
        struct tuning_entry e = only_entry(bad[i].kind, bad[i].text);
        if (tuning_entry_check(bad[i].kind, &e, bad[i].direction, &err) != KILN_INVALID)
            fail_msg("'%s' was taken", bad[i].text);
        assert_says(err.text, bad[i].says);
    }
}

TEST(plain, a_solver_name_with_a_nul_is_refused)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_entry e = { .solver = bytes_of("ConvA\0", 6) };
    assert_int_equal(tuning_entry_check(TUNING_PERF, &e, 0, &err), KILN_INVALID);
    e.solver = bytes_of_text("");
    assert_int_equal(tuning_entry_check(TUNING_PERF, &e, 0, &err), KILN_INVALID);
}

TEST(plain, solver_names_follow_the_same_rule_in_every_check)
{
    struct kiln_err err = KILN_ERR_INIT;
    char longest[TUNING_WORD_MAX + 1];
    static const struct {
        const char *name, *says;
    } bad[] = { { "", "empty" },
                { "Conv A", "'Conv A'" },
                { "Conv.A", "'Conv.A'" },
                { "A;B", "';'" },
                { "A\n", "0x0a" } };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct tuning_entry entry = { .solver = bytes_of_text(bad[i].name) };
        assert_int_equal(tuning_solver_check(entry.solver, &err), KILN_INVALID);
        assert_says(err.text, bad[i].says);
        assert_int_equal(tuning_entry_check(TUNING_PERF, &entry, 0, &err), KILN_INVALID);
    }
    memset(longest, 'x', sizeof(longest));
    must(tuning_solver_check(bytes_of(longest, TUNING_WORD_MAX), &err), err);
    assert_int_equal(tuning_solver_check(bytes_of(longest, sizeof(longest)), &err), KILN_INVALID);
    must(tuning_solver_check(bytes_of_text("ConvOclBwdWrW2<16>"), &err), err);
}

TEST(plain, an_algorithm_name_that_is_too_long_is_refused)
{
    struct kiln_err err = KILN_ERR_INIT;
    char longest[TUNING_WORD_MAX + 1];
    static const char begin[] = "miopenConvolutionFwdAlgo";
    memset(longest, 'x', sizeof(longest));
    memcpy(longest, begin, sizeof(begin) - 1);
    struct tuning_entry entry = { .solver = bytes_of_text("A"),
                                  .algorithm = bytes_of(longest, TUNING_WORD_MAX) };
    must(tuning_entry_check(TUNING_FIND, &entry, 'F', &err), err);
    entry.algorithm.size++;
    assert_int_equal(tuning_entry_check(TUNING_FIND, &entry, 'F', &err), KILN_INVALID);
}

TEST(plain, only_known_backends_are_accepted)
{
    struct kiln_err err = KILN_ERR_INIT;
    static const char *const bad[] = { "", "hip", "Metal", "HIPx", "a:b", "OpenCL " };
    must(tuning_backend_check(bytes_of_text("HIP"), &err), err);
    must(tuning_backend_check(bytes_of_text("OpenCL"), &err), err);
    must(tuning_backend_check(bytes_of_text("CUDA"), &err), err);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(tuning_backend_check(bytes_of_text(bad[i]), &err), KILN_INVALID);
    assert_says(err.text, "'OpenCL '");
}
