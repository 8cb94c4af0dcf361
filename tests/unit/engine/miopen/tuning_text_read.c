/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "engine/miopen/tuning_reader.h"
#include "tests/support/whole_tuning_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUTANTS 1000

struct fixture { /* results of the latest read */
    enum tuning_kind kind;
    struct bytes text;
    size_t records, entries, bad, progress;
    uint64_t record_lines, bad_lines; /* bit n: line n */
    uint64_t stop_at_record, stop_at_bad;
    uint64_t latest;
    char first_key[200], first_value[400], first_raw[600], why[600];
    struct kiln_err err;
};

/* Checks that the record has all bytes of its line, and that its value consists of its entries. */
static void assert_whole(const struct fixture *f, const struct tuning_record *r)
{
    BUFFER_AUTO struct buffer again;
    buffer_init(&again, 1u << 20);
    struct kiln_err err = KILN_ERR_INIT;
    struct bytes left = r->value;
    struct tuning_entry e;
    size_t count = 0;
    for (; left.size; count++) {
        must(tuning_entry_next(f->kind, &left, &e, &err), err);
        if (again.size)
            buffer_put_u8(&again, ';');
        buffer_put(&again, e.id.data, e.id.size);
        buffer_put_u8(&again, ':');
        buffer_put(&again, e.values.data, e.values.size);
    }
    assert_int_equal(count, r->entry_count);
    assert_true(bytes_equal(buffer_view(&again), r->value));
    assert_true(r->raw.data >= f->text.data &&
                r->raw.data + r->raw.size <= f->text.data + f->text.size);
    assert_true(r->key.data >= r->raw.data && r->key.data[r->key.size] == '=');
    assert_null(memchr(r->key.data, '=', r->key.size));
    assert_null(memchr(r->raw.data, '\n', r->raw.size));
}

static bool on_record(void *context, const struct tuning_record *r)
{
    struct fixture *f = context;
    assert_whole(f, r);
    assert_null(r->ids);
    assert_true(r->line > f->latest);
    f->latest = r->line;
    if (f->records++ == 0) {
        snprintf(f->first_key, sizeof(f->first_key), "%.*s", (int)r->key.size,
                 (const char *)r->key.data);
        snprintf(f->first_value, sizeof(f->first_value), "%.*s", (int)r->value.size,
                 (const char *)r->value.data);
        snprintf(f->first_raw, sizeof(f->first_raw), "%.*s", (int)r->raw.size,
                 (const char *)r->raw.data);
    }
    f->entries += r->entry_count;
    f->record_lines |= 1ull << r->line % 64;
    return f->records != f->stop_at_record;
}

static bool on_bad(void *context, uint64_t line, const char *why)
{
    struct fixture *f = context;
    f->bad_lines |= 1ull << line % 64;
    assert_true(line > 0 && why[0]);
    for (const char *c = why; *c; c++)
        assert_true(*c >= ' ' && *c <= '~');
    snprintf(f->why, sizeof(f->why), "%s", why);
    return ++f->bad != f->stop_at_bad;
}

static void on_progress(void *context, uint64_t done, uint64_t total)
{
    struct fixture *f = context;
    assert_true(done <= total && total == f->text.size);
    f->progress++;
}

static enum kiln_code read_bytes(struct fixture *f, struct bytes text)
{
    struct fixture fresh = { .kind = f->kind,
                             .text = text,
                             .stop_at_record = f->stop_at_record,
                             .stop_at_bad = f->stop_at_bad,
                             .err = KILN_ERR_INIT };
    *f = fresh;
    struct tuning_reader_events events = { on_record, on_bad, on_progress, f };
    return tuning_text_read(f->kind, text, &events, &f->err);
}

/* Each step gets an end time in the past, so it reads one line. Returns the number of steps. */
static unsigned read_in_steps(struct fixture *f, struct bytes text)
{
    const struct tuning_reader_events events = { on_record, on_bad, on_progress, f };
    KILN_AUTO(tuning_text_reader) struct tuning_text_reader *reader = NULL;
    unsigned steps = 0;
    *f = (struct fixture){ .kind = f->kind, .text = text, .err = KILN_ERR_INIT };
    must(tuning_text_reader_create(f->kind, text, &reader, &f->err), f->err);
    for (bool more = true; more; steps++)
        must(tuning_text_reader_step(reader, &events, /* end_ns= */ 0, &more, &f->err), f->err);
    return steps;
}

static void read_text(struct fixture *f, const char *text)
{
    must(read_bytes(f, bytes_of_text(text)), f->err);
}

SET_UP(setup) {}

FIXTURE(tuning_text_read, setup, NULL);

#define KEY "64-56-56-3x3-64-56-56-64-1x1-1x1-1x1-0-NCHW-FP32-F"

TEST_F(tuning_text_read, tuning_text_is_read_verbatim)
{
    read_text(f, "\n" KEY "=A:1.5,0,x;B:2,1,y\n\nk=A:1,0,x\n");
    assert_int_equal(f->records, 2);
    assert_int_equal(f->entries, 3);
    assert_int_equal(f->bad, 0);
    assert_int_equal(f->record_lines, 1u << 2 | 1u << 4);
    assert_string_equal(f->first_key, KEY);
    assert_string_equal(f->first_value, "A:1.5,0,x;B:2,1,y");
    assert_string_equal(f->first_raw, KEY "=A:1.5,0,x;B:2,1,y");
    assert_int_equal(f->progress, 1);
}

TEST_F(tuning_text_read, a_late_step_reads_one_line)
{
    assert_int_equal(read_in_steps(f, bytes_of_text(KEY "=A:1,0,x\nbad\nk=A:1,0,x\nk=B:2,0,x\n")),
                     4);
    assert_int_equal(f->records, 2);
    assert_int_equal(f->bad_lines, 1u << 2 | 1u << 4); /* line 4 has the same key as line 3 */
    assert_int_equal(f->progress, 1);
    assert_int_equal(read_in_steps(f, bytes_of_text("")), 1);
}

TEST_F(tuning_text_read, keys_of_perf_text_are_of_either_form)
{
    f->kind = TUNING_PERF;
    read_text(f,
              "2x64x56x56x1x3x3x1x64x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF=ConvAsm3x3U:7,8,4\n" KEY
              "=ConvAsm3x3U:7,8,4;Other:\n");
    assert_int_equal(f->records, 2);
    assert_int_equal(f->entries, 3);
    assert_int_equal(f->bad, 0);
}

TEST_F(tuning_text_read, a_byte_order_mark_and_carriage_returns_are_accepted)
{
    read_text(f, "\xef\xbb\xbfk=A:1,0,x\r\n\r\nl=A:1,0,x");
    assert_int_equal(f->records, 2);
    assert_int_equal(f->bad, 0);
    assert_string_equal(f->first_key, "k");
    assert_string_equal(f->first_value, "A:1,0,x");
    assert_string_equal(f->first_raw, "\xef\xbb\xbfk=A:1,0,x\r");
}

TEST_F(tuning_text_read, a_byte_order_mark_in_the_middle_is_content)
{
    read_text(f, "k=A:1,0,x\n\xef\xbb\xbfl=A:1,0,x\n");
    assert_int_equal(f->records, 1);
    assert_int_equal(f->bad_lines, 1u << 2);
}

TEST_F(tuning_text_read, the_first_of_two_equal_keys_counts)
{
    read_text(f, "k=A:1,0,x\nk=B:2,0,x\n");
    assert_int_equal(f->records, 1);
    assert_string_equal(f->first_value, "A:1,0,x");
    assert_int_equal(f->bad_lines, 1u << 2);
    assert_says(f->why, "'k'");
}

TEST_F(tuning_text_read, a_bad_line_does_not_occupy_its_key)
{
    read_text(f, "k=A:oops,0,x\nk=B:2,0,x\n");
    assert_int_equal(f->bad_lines, 1u << 1);
    assert_string_equal(f->first_value, "B:2,0,x");
}

TEST_F(tuning_text_read, the_first_of_two_equal_ids_counts)
{
    read_text(f, "k=A:1,0,x;B:2,0,x;A:3,0,x;C:4,0,x;B:5,0,x\n");
    assert_int_equal(f->records, 1);
    assert_string_equal(f->first_value, "A:1,0,x;B:2,0,x;C:4,0,x");
    assert_int_equal(f->bad, 2);
    assert_says(f->why, "'B'");
    assert_string_equal(f->first_raw, "k=A:1,0,x;B:2,0,x;A:3,0,x;C:4,0,x;B:5,0,x");
}

TEST_F(tuning_text_read, equal_keys_are_found_among_many)
{
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, 4u << 20);
    for (unsigned i = 0; i < 60000; i++) {
        char line[64];
        int size = snprintf(line, sizeof(line), "key-%u=A:1,0,x\n", i % 40000);
        buffer_put(&text, line, (size_t)size);
    }
    must(read_bytes(f, buffer_view(&text)), f->err);
    assert_int_equal(f->records, 40000);
    assert_int_equal(f->bad, 20000);
}

static const struct {
    const char *line, *says;
} malformed[] = {
    { "no record", "no '='" },   { "=A:1,0,x", "key is empty" }, { "k=", "nothing after" },
    { "k=A", "no ':'" },         { "k=A:1,0,x;", "last ';'" },   { "k=A:1,0", "2 fields" },
    { "k=A:x,0,x", "time 'x'" }, { "k=A:1,0,x\ry", "0x0d" },     { "k\t=A:1,0,x", "0x09" },
    { "k;l=A:1,0,x", "';'" },    { "k=l=A:1,0,x", "'='" },       { " ", "no '='" },
    { "k=A:1,0,x\r\r", "0x0d" },
};

TEST_F(tuning_text_read, a_bad_tuning_line_is_reported_and_skipped)
{
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        char text[200];
        snprintf(text, sizeof(text), "a=A:1,0,x\n%s\nb=A:1,0,x\n", malformed[i].line);
        read_text(f, text);
        assert_int_equal(f->bad_lines, 1u << 2);
        assert_int_equal(f->record_lines, 1u << 1 | 1u << 3);
        assert_says(f->why, malformed[i].says);
    }
}

TEST_F(tuning_text_read, a_nul_makes_a_tuning_line_bad)
{
    static const char text[] = "k=A:1,0,x\0\n\0=A:1,0,x\nb=A:1,0,x\n";
    must(read_bytes(f, bytes_of(text, sizeof(text) - 1)), f->err);
    assert_int_equal(f->bad_lines, 1u << 1 | 1u << 2);
    assert_int_equal(f->record_lines, 1u << 3);
}

TEST_F(tuning_text_read, an_empty_tuning_text_has_no_records)
{
    read_text(f, "");
    assert_int_equal(f->records + f->bad, 0);
    must(read_bytes(f, bytes_of(NULL, 0)), f->err);
}

TEST_F(tuning_text_read, the_caller_can_stop_at_a_record_and_at_a_bad_line)
{
    f->stop_at_record = 2;
    assert_int_equal(read_bytes(f, bytes_of_text("a=A:1,0,x\nb=A:1,0,x\nc=A:1,0,x\n")),
                     KILN_CANCELLED);
    assert_int_equal(f->records, 2);
    f->stop_at_record = 0;
    f->stop_at_bad = 1;
    assert_int_equal(read_bytes(f, bytes_of_text("a=A:1,0,x\nb\nc=A:1,0,x\n")), KILN_CANCELLED);
    assert_int_equal(f->records, 1);
    assert_int_equal(read_bytes(f, bytes_of_text("a=A:1,0,x;A:1,0,x\nb=A:1,0,x\n")),
                     KILN_CANCELLED);
    assert_int_equal(f->records, 0);
}

static void put_text(struct buffer *to, const char *text) { buffer_put(to, text, strlen(text)); }

static void put_many(struct buffer *to, char c, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buffer_put_u8(to, (uint8_t)c);
}

TEST_F(tuning_text_read, keys_values_and_counts_have_bounds)
{
    f->kind = TUNING_PERF;
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, 1u << 20);
    for (unsigned more = 0; more < 2; more++) {
        put_many(&text, more ? 'l' : 'k', TUNING_KEY_MAX + more);
        put_text(&text, "=A:1\n");
    }
    for (unsigned more = 0; more < 2; more++) {
        put_text(&text, more ? "v=A:" : "w=A:");
        put_many(&text, '1', TUNING_VALUE_MAX - 2 + more);
        put_text(&text, "\n");
    }
    for (unsigned more = 0; more < 2; more++) {
        put_text(&text, more ? "x=0:1" : "y=0:1");
        for (unsigned i = 1; i < TUNING_ENTRIES_MAX + more; i++) {
            char entry[32];
            snprintf(entry, sizeof(entry), ";%u:1", i);
            put_text(&text, entry);
        }
        put_text(&text, "\n");
    }
    must(read_bytes(f, buffer_view(&text)), f->err);
    assert_int_equal(f->record_lines, 1u << 1 | 1u << 3 | 1u << 5);
    assert_int_equal(f->bad_lines, 1u << 2 | 1u << 4 | 1u << 6);
}

TEST_F(tuning_text_read, a_line_of_100_mb_is_one_bad_line)
{
    size_t size = 100u << 20;
    KILN_AUTO(mem) char *line = malloc(size + 20);
    assert_non_null(line);
    memset(line, 'a', size);
    struct bytes begin = bytes_of_text("k=A:1,0,"), end = bytes_of_text("\nb=A:1,0,x\n");
    memcpy(line, begin.data, begin.size);
    memcpy(line + size, end.data, end.size);
    must(read_bytes(f, bytes_of(line, size + 11)), f->err);
    assert_int_equal(f->bad_lines, 1u << 1);
    assert_int_equal(f->record_lines, 1u << 2);
    assert_says(f->why, "104857600");
}

static const char *const lines[] = {
    KEY "=miopenConvolutionFwdAlgoDirect:ConvAsm1x1U,3.3694,0,miopenConvolutionFwdAlgoDirect,"
        "<unused>;miopenConvolutionFwdAlgoWinograd:ConvBinWinogradRxSf3x2,11.8808,0,"
        "miopenConvolutionFwdAlgoWinograd,<unused>",
    "1-1-1-1-1x4x4-512-1-4-4-128-0x0x0-1x1x1-1x1x1-0-NCDHW-FP32-B=ConvDirectNaiveConvBwd:0.771373,"
    "0,"
    "miopenConvolutionBwdDataAlgoDirect;GemmBwdRest:3.19093,32768,miopenConvolutionBwdDataAlgoGEMM",
    "128-56-56-3x3-128-56-56-32-1x1-1x1-1x1-0-NCHW-FP32-B_g32=miopenConvolutionBwdDataAlgoGEMM:"
    "GemmBwdRest,220.513,14450688,MIOpenGEMM,0_1_3136_36_3136_3136_36_4",
    "2x64x56x56x1x3x3x1x64x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF=ConvAsm3x3U:7,8,4;"
    "ConvOclBwdWrW2<16>:1,2,3",
};

static uint32_t random_number(uint64_t *x)
{
    *x = *x * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*x >> 33);
}

static void mutate(struct buffer *b, uint64_t *x)
{
    static const char special[] = ";:=,\n\r .eE+-x<>\x1b\xff";
    size_t at = random_number(x) % b->size;
    switch (random_number(x) % 7) {
    case 0: b->data[at] = (uint8_t)random_number(x); break;
    case 1: b->data[at] = (uint8_t)special[random_number(x) % (sizeof(special))]; break;
    case 2: b->size = at + 1; break;
    case 3: b->data[at] ^= (uint8_t)(1u << random_number(x) % 8); break;
    case 4: memmove(b->data + at, b->data + at + 1, --b->size - at); break;
    case 5: buffer_put_u8(b, (uint8_t)special[at % 8]); break;
    default: memmove(b->data, b->data + at, b->size -= at);
    }
    if (b->size == 0)
        buffer_put_u8(b, '=');
}

/* Each line must be a record, reported as bad, or blank. assert_whole has already checked the
 * records. */
static void assert_every_line_reported(const struct fixture *f, struct bytes text)
{
    size_t at = 0;
    for (unsigned line = 1; at < text.size; line++) {
        const uint8_t *stop = memchr(text.data + at, '\n', text.size - at);
        size_t size = stop ? (size_t)(stop - text.data) - at : text.size - at;
        bool blank = size == 0 || (size == 1 && text.data[at] == '\r');
        bool given = f->record_lines >> line % 64 & 1, bad = f->bad_lines >> line % 64 & 1;
        if (!blank && !given && !bad)
            fail_msg("line %u of '%.*s' was lost", line, (int)text.size, (const char *)text.data);
        assert_false(blank && (given || bad));
        at += size + 1;
    }
}

TEST_F(tuning_text_read, a_mutated_line_is_either_read_or_reported)
{
    uint64_t x = 42;
    size_t reported = 0;
    for (unsigned i = 0; i < MUTANTS || reported < MUTANTS; i++) {
        BUFFER_AUTO struct buffer text;
        buffer_init(&text, 1u << 16);
        put_text(&text, lines[i % 4]);
        for (unsigned k = 0; k < 1 + i % 3; k++)
            mutate(&text, &x);
        f->kind = i % 4 == 3 ? TUNING_PERF : TUNING_FIND;
        must(read_bytes(f, buffer_view(&text)), f->err);
        assert_every_line_reported(f, buffer_view(&text));
        reported += f->bad > 0;
    }
}

TEST_F(tuning_text_read, random_bytes_give_no_records)
{
    uint64_t x = 7;
    KILN_AUTO(mem) uint8_t *noise = malloc(1u << 20);
    assert_non_null(noise);
    for (size_t i = 0; i < 1u << 20; i++)
        noise[i] = (uint8_t)random_number(&x);
    for (unsigned kind = 0; kind < 2; kind++) {
        f->kind = kind ? TUNING_PERF : TUNING_FIND;
        must(read_bytes(f, bytes_of(noise, 1u << 20)), f->err);
        assert_true(f->bad > 1000);
    }
}

static size_t comparisons;

WRAP(bool, bytes_equal, struct bytes a, struct bytes b)
{
    comparisons++;
    return __real_bytes_equal(a, b);
}

/* The record has the largest allowed number of ids, and then 10,000 entries that repeat ids. */
TEST_F(tuning_text_read, repeated_ids_are_found_in_constant_time)
{
    const size_t again = 10000;
    f->kind = TUNING_PERF;
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, 1u << 20);
    put_text(&text, "k=0:");
    for (size_t i = 1; i < TUNING_ENTRIES_MAX; i++) {
        char entry[32];
        snprintf(entry, sizeof(entry), ";%zu:", i);
        put_text(&text, entry);
    }
    for (size_t i = 0; i < again; i++) {
        char entry[32];
        snprintf(entry, sizeof(entry), ";%zu:", i % TUNING_ENTRIES_MAX);
        put_text(&text, entry);
    }
    put_text(&text, "\n");
    comparisons = 0;

    must(read_bytes(f, buffer_view(&text)), f->err);

    /* comparing each id with those before it would take about 128 comparisons for each entry */
    assert_true(comparisons < 16 * again);
    assert_int_equal(f->records, 1);
    assert_int_equal(f->entries, TUNING_ENTRIES_MAX);
    assert_int_equal(f->bad, again);
}
