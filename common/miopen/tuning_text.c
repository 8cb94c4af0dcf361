/* SPDX-License-Identifier: MIT */
#include "common/miopen/tuning_text.h"

#include "common/target/target.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

#define FIELDS_OLD 5u
#define FIELDS_NEW 3u
/* Maximum number of digits of a time.  MIOpen writes only six digits and an exponent. */
#define TIME_DIGITS_MAX 40u
/* Up to these bounds, a decimal's digits and its power of ten are both exact as doubles.  A single
 * multiplication or division then rounds correctly, as strtod(3) does (Clinger, "How to Read
 * Floating Point Numbers Accurately", 1990). */
#define EXACT_MANTISSA (1ull << 53)
#define EXACT_POWER 22

enum { PLAIN, COMMA, REFUSED };

#define R REFUSED
#define R16 R, R, R, R, R, R, R, R, R, R, R, R, R, R, R, R
static const uint8_t class_of[256] = {
    R16, R16, [','] = COMMA, [':'] = R, [';'] = R, ['='] = R, [0x7f] = R, R16,
    R16, R16, R16,           R16,       R16,       R16,       R16,
};
#undef R16
#undef R

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

const char *tuning_kind_name(enum tuning_kind kind)
{
    return kind == TUNING_FIND ? "find" : "perf";
}

#define SHOWN_MAX 60
#define SHOWN(b) ((b).size > SHOWN_MAX ? SHOWN_MAX : (int)(b).size), (const char *)(b).data

static enum kiln_code refuse_byte(const char *what, struct bytes word, size_t at,
                                  struct kiln_err *err)
{
    uint8_t c = word.data[at];
    if (c < ' ' || c > '~')
        return kiln_fail(err, KILN_INVALID,
                         "the %s contains the byte 0x%02x, which is not allowed in a record", what,
                         c);
    return kiln_fail(err, KILN_INVALID,
                     "the %s contains '%c', which separates the parts of a record", what, c);
}

#define BLOCK 16
typedef uint8_t block __attribute__((vector_size(BLOCK)));
typedef uint64_t block_halves __attribute__((vector_size(BLOCK)));

_Static_assert((':' & 0xfe) == ':' && (':' | 1) == ';', "one comparison finds both");

static block block_at(const uint8_t *from)
{
    block b;
    memcpy(&b, from, sizeof(b));
    return b;
}

static bool is_zero(block b)
{
    block_halves halves = (block_halves)b;
    return (halves[0] | halves[1]) == 0;
}

static block find_unprintable(block b) { return (block)(b - ' ' > '~' - ' '); }

bool tuning_is_printable(struct bytes text)
{
    size_t at = 0;
    for (; text.size - at >= BLOCK; at += BLOCK)
        if (!is_zero(find_unprintable(block_at(text.data + at))))
            return false;
    while (at < text.size && text.data[at] >= ' ' && text.data[at] <= '~')
        at++;
    return at == text.size;
}

static bool is_clean_block(const uint8_t *from, bool commas)
{
    block b = block_at(from);
    block bad = find_unprintable(b) | (block)((b & 0xfe) == ':') | (block)(b == '=');
    if (!commas)
        bad |= (block)(b == ',');
    return is_zero(bad);
}

static bool is_clean(struct bytes word, bool commas)
{
    size_t at = 0;
    if (word.size >= BLOCK) {
        for (; at + BLOCK <= word.size; at += BLOCK)
            if (!is_clean_block(word.data + at, commas))
                return false;
        return is_clean_block(word.data + word.size - BLOCK, commas);
    }
    uint8_t worst = PLAIN;
    for (; at < word.size; at++)
        worst |= class_of[word.data[at]];
    return worst <= (commas ? COMMA : PLAIN);
}

static enum kiln_code check_bytes(const char *what, struct bytes word, bool commas,
                                  struct kiln_err *err)
{
    uint8_t most = commas ? COMMA : PLAIN;
    if (is_clean(word, commas))
        return KILN_OK;
    size_t at = 0;
    while (class_of[word.data[at]] <= most)
        at++;
    return refuse_byte(what, word, at, err);
}

enum kiln_code tuning_word_check(const char *what, struct bytes word, bool commas,
                                 struct kiln_err *err)
{
    if (word.size == 0)
        return kiln_fail(err, KILN_INVALID, "the %s is empty", what);
    if (word.size > TUNING_WORD_MAX)
        return kiln_fail(err, KILN_INVALID, "the %s has %zu bytes, at most %u are allowed", what,
                         word.size, TUNING_WORD_MAX);
    return check_bytes(what, word, commas, err);
}

struct decimal {
    uint64_t mantissa; /* exact while |digits| is below 19 */
    int digits;
    int power;
};

static const uint8_t *take_digits(const uint8_t *at, const uint8_t *end, struct decimal *d)
{
    const uint8_t *begin = at;
    for (; at < end && is_digit(*at); at++)
        d->mantissa = d->mantissa * 10 + (*at - '0');
    d->digits += (int)(at - begin);
    return at;
}

static const uint8_t *take_exponent(const uint8_t *at, const uint8_t *end, struct decimal *d)
{
    bool negative = at < end && *at == '-';
    int exponent = 0;
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    if (at == end)
        return NULL;
    for (; at < end && is_digit(*at); at++)
        exponent = exponent < 10000 ? exponent * 10 + (*at - '0') : exponent;
    d->power += negative ? -exponent : exponent;
    return at;
}

static bool scan_decimal(struct bytes text, struct decimal *d)
{
    const uint8_t *at = text.data, *end = text.data + text.size;
    at = take_digits(at, end, d);
    if (at < end && *at == '.') {
        int whole = d->digits;
        at = take_digits(at + 1, end, d);
        d->power = whole - d->digits;
    }
    if (d->digits == 0)
        return false;
    if (at < end && (*at == 'e' || *at == 'E'))
        at = take_exponent(at + 1, end, d);
    return at == end;
}

static double parse_with_strtod(struct bytes text)
{
    char copy[TIME_DIGITS_MAX + 1];
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    locale_t plain = newlocale(LC_ALL_MASK, "C", NULL);
    double value = plain ? strtod_l(copy, NULL, plain) : -1;
    if (plain)
        freelocale(plain);
    return value;
}

static bool parse_time(struct bytes text, double *ret_time)
{
    static const double tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    struct decimal d = { .mantissa = 0 };
    if (text.size > TIME_DIGITS_MAX || !scan_decimal(text, &d))
        return false;
    double value = (double)d.mantissa;
    if (d.digits > 18 || d.mantissa > EXACT_MANTISSA || d.power > EXACT_POWER ||
        d.power < -EXACT_POWER)
        value = parse_with_strtod(text);
    else
        value = d.power < 0 ? value / tens[-d.power] : value * tens[d.power];
    if (!(value >= 0 && value <= __DBL_MAX__))
        return false;
    *ret_time = value;
    return true;
}

static bool parse_bytes(struct bytes text, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (!is_digit(text.data[i]) || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, text.data[i] - '0', &number))
            return false;
    }
    *ret_number = number;
    return text.size > 0;
}

static unsigned split_fields(struct bytes values, struct bytes fields[FIELDS_OLD])
{
    const uint8_t *at = values.data, *end = at + values.size;
    unsigned count = 0;
    for (;; count++) {
        const uint8_t *comma = at < end ? memchr(at, ',', (size_t)(end - at)) : NULL;
        if (count < FIELDS_OLD)
            fields[count] = bytes_of(at, (size_t)((comma ? comma : end) - at));
        if (!comma)
            return count + 1;
        at = comma + 1;
    }
}

static enum kiln_code take_measure(struct bytes time, struct bytes workspace,
                                   struct tuning_entry *e, struct kiln_err *err)
{
    if (!parse_time(time, &e->time_ms))
        return kiln_fail(err, KILN_INVALID,
                         "the time '%.*s' of '%.*s' is not a finite decimal number of milliseconds",
                         SHOWN(time), SHOWN(e->id));
    if (!parse_bytes(workspace, &e->workspace))
        return kiln_fail(err, KILN_INVALID,
                         "the workspace '%.*s' of '%.*s' is not a number of bytes",
                         SHOWN(workspace), SHOWN(e->id));
    return KILN_OK;
}

static enum kiln_code parse_find(struct tuning_entry *e, struct kiln_err *err)
{
    struct bytes f[FIELDS_OLD];
    unsigned count = split_fields(e->values, f);
    if (count != FIELDS_OLD && count != FIELDS_NEW)
        return kiln_fail(err, KILN_INVALID,
                         "'%.*s' has %u fields; it is %u in the old dialect and %u in the new",
                         SHOWN(e->id), count, FIELDS_OLD, FIELDS_NEW);
    bool old = count == FIELDS_OLD;
    e->params = (struct bytes){ 0 };
    e->dialect = old ? FIND_OLD : FIND_NEW;
    e->solver = old ? f[0] : e->id;
    e->algorithm = old ? e->id : f[2];
    if (e->solver.size == 0 || e->algorithm.size == 0)
        return kiln_fail(err, KILN_INVALID, "'%.*s' has no %s", SHOWN(e->id),
                         e->solver.size ? "algorithm" : "solver");
    if (e->solver.size > TUNING_WORD_MAX || e->algorithm.size > TUNING_WORD_MAX)
        return kiln_fail(err, KILN_INVALID, "'%.*s' has a name of more than %u bytes", SHOWN(e->id),
                         TUNING_WORD_MAX);
    return old ? take_measure(f[1], f[2], e, err) : take_measure(f[0], f[1], e, err);
}

static enum kiln_code parse_perf(struct tuning_entry *e)
{
    e->solver = e->id;
    e->params = e->values;
    e->algorithm = (struct bytes){ 0 };
    e->time_ms = 0;
    e->workspace = 0;
    e->dialect = FIND_NEW;
    return KILN_OK;
}

enum kiln_code tuning_entry_of(enum tuning_kind kind, struct bytes id, struct bytes values,
                               struct tuning_entry *ret_entry, struct kiln_err *err)
{
    struct tuning_entry e = { .id = id, .values = values };
    enum kiln_code rc = tuning_word_check("id of an entry", id, false, err);
    if (!rc)
        rc = check_bytes("text of an entry", values, true, err);
    if (!rc)
        rc = kind == TUNING_FIND ? parse_find(&e, err) : parse_perf(&e);
    if (!rc)
        *ret_entry = e;
    return rc;
}

static enum kiln_code parse_entry(enum tuning_kind kind, struct bytes text, struct tuning_entry *e,
                                  struct kiln_err *err)
{
    const uint8_t *colon = text.size ? memchr(text.data, ':', text.size) : NULL;
    if (!colon)
        return kiln_fail(err, KILN_INVALID,
                         text.size ? "an entry has no ':'" : "an entry is empty");
    size_t id = (size_t)(colon - text.data);
    return tuning_entry_of(kind, bytes_of(text.data, id), bytes_of(colon + 1, text.size - id - 1),
                           e, err);
}

enum kiln_code tuning_entry_next(enum tuning_kind kind, struct bytes *text,
                                 struct tuning_entry *ret_entry, struct kiln_err *err)
{
    if (text->size == 0)
        return KILN_NOT_FOUND;
    struct tuning_entry e;
    const uint8_t *semicolon = memchr(text->data, ';', text->size);
    size_t size = semicolon ? (size_t)(semicolon - text->data) : text->size;
    if (size + 1 == text->size)
        return kiln_fail(err, KILN_INVALID, "nothing follows the last ';'");
    enum kiln_code rc = parse_entry(kind, bytes_of(text->data, size), &e, err);
    if (rc)
        return rc;
    if (semicolon)
        *text = bytes_of(semicolon + 1, text->size - size - 1);
    else
        *text = bytes_of(text->data + size, 0);
    *ret_entry = e;
    return KILN_OK;
}

static void put_bytes(struct buffer *to, struct bytes part)
{
    buffer_put(to, part.data, part.size);
}

static void put_text(struct buffer *to, const char *text) { buffer_put(to, text, strlen(text)); }

static void begin_entry(struct buffer *to, struct bytes id)
{
    if (to->size)
        put_text(to, ";");
    put_bytes(to, id);
    put_text(to, ":");
}

static void put_measure(struct buffer *to, const struct tuning_entry *e)
{
    char text[64];
    locale_t plain = newlocale(LC_ALL_MASK, "C", NULL);
    if (!plain) {
        to->failed = true;
        return;
    }
    locale_t before = uselocale(plain);
    snprintf(text, sizeof(text), "%.6g,%llu,", e->time_ms, (unsigned long long)e->workspace);
    uselocale(before);
    freelocale(plain);
    put_text(to, text);
}

void tuning_entry_write_find(struct buffer *to, enum find_dialect dialect,
                             const struct tuning_entry *e)
{
    begin_entry(to, dialect == FIND_OLD ? e->algorithm : e->solver);
    if (dialect == FIND_OLD) {
        put_bytes(to, e->solver);
        put_text(to, ",");
    }
    put_measure(to, e);
    put_bytes(to, e->algorithm);
    if (dialect == FIND_OLD)
        put_text(to, ",<unused>");
}

void tuning_entry_write_perf(struct buffer *to, struct bytes solver, struct bytes params)
{
    begin_entry(to, solver);
    put_bytes(to, params);
}

static bool is_name(struct bytes text, const char *more)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_plain && (c == '\0' || !strchr(more, c)))
            return false;
    }
    return text.size > 0;
}

static bool begins_with(struct bytes text, const char *word)
{
    size_t size = strlen(word);
    return text.size > size && memcmp(text.data, word, size) == 0;
}

static bool is_algorithm(struct bytes text, char direction)
{
    static const struct {
        char direction;
        const char *begin;
    } known[] = { { 'F', "miopenConvolutionFwdAlgo" },
                  { 'B', "miopenConvolutionBwdDataAlgo" },
                  { 'W', "miopenConvolutionBwdWeightsAlgo" } };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if ((!direction || known[i].direction == direction) && begins_with(text, known[i].begin))
            return text.size <= TUNING_WORD_MAX && is_name(text, "");
    }
    return false;
}

enum kiln_code tuning_solver_check(struct bytes solver, struct kiln_err *err)
{
    if (solver.size <= TUNING_WORD_MAX && is_name(solver, "_<>-"))
        return KILN_OK;
    enum kiln_code rc = tuning_word_check("solver", solver, /* commas= */ false, err);
    return rc ? rc
              : kiln_fail(err, KILN_INVALID, "'%.*s' is not the name of a solver",
                          (int)(solver.size < 80 ? solver.size : 80), (const char *)solver.data);
}

enum kiln_code tuning_entry_check(enum tuning_kind kind, const struct tuning_entry *e,
                                  char direction, struct kiln_err *err)
{
    enum kiln_code rc = tuning_solver_check(e->solver, err);
    if (rc || kind != TUNING_FIND || is_algorithm(e->algorithm, direction))
        return rc;
    rc = tuning_word_check("algorithm", e->algorithm, /* commas= */ false, err);
    return rc ? rc
              : kiln_fail(err, KILN_INVALID, "'%.*s' is not an algorithm of MIOpen%s",
                          (int)(e->algorithm.size < 80 ? e->algorithm.size : 80),
                          (const char *)e->algorithm.data, direction ? " for this direction" : "");
}

struct bytes tuning_backend_base(struct bytes backend)
{
    size_t size = strlen(TUNING_FUSION);
    bool is_fusion =
        backend.size > size && memcmp(backend.data + backend.size - size, TUNING_FUSION, size) == 0;
    return bytes_of(backend.data, backend.size - (is_fusion ? size : 0));
}

enum kiln_code tuning_backend_check(struct bytes backend, struct kiln_err *err)
{
    if (target_is_backend(tuning_backend_base(backend)) ||
        bytes_equal_text(backend, TUNING_BATCHNORM))
        return KILN_OK;
    enum kiln_code rc = tuning_word_check("backend", backend, /* commas= */ false, err);
    return rc ? rc
              : kiln_fail(err, KILN_INVALID, "'%.*s' is not a backend: use HIP, CUDA or OpenCL",
                          (int)(backend.size < 40 ? backend.size : 40), (const char *)backend.data);
}
