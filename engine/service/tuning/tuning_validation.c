/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_validation.h"

#include <math.h>
#include <string.h>

enum kiln_code tuning_text_take(const char *what, struct bytes text, size_t most, char *ret_text,
                                struct kiln_err *err)
{
    if (text.size >= most)
        return kiln_fail(err, KILN_INVALID, "the %s has %zu characters; the maximum is %zu", what,
                         text.size, most - 1);
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < ' ' || text.data[i] > '~')
            return kiln_fail(err, KILN_INVALID,
                             "the %s contains byte 0x%02x: only printable ASCII is allowed", what,
                             (unsigned)text.data[i]);
    }
    if (text.size > 0)
        memcpy(ret_text, text.data, text.size);
    ret_text[text.size] = '\0';
    return KILN_OK;
}

enum kiln_code tuning_kind_take(unsigned number, enum tuning_kind *ret_kind, struct kiln_err *err)
{
    if (number > TUNING_PERF)
        return kiln_fail(err, KILN_INVALID,
                         "there is no kind %u of tuning records: 0 is find, 1 is perf", number);
    *ret_kind = number ? TUNING_PERF : TUNING_FIND;
    return KILN_OK;
}

enum kiln_code tuning_database_id_take(struct bytes text, char ret_id[DATABASE_ID_MAX],
                                       struct kiln_err *err)
{
    struct database_id id;
    enum kiln_code rc = database_id_parse(text, &id, err);
    return rc ? rc : tuning_text_take("database id", text, DATABASE_ID_MAX, ret_id, err);
}

enum kiln_code tuning_backend_take(enum tuning_kind kind, const char *database_id,
                                   struct bytes text, char ret_backend[TUNING_BACKEND_TEXT],
                                   struct kiln_err *err)
{
    struct bytes id = bytes_of_text(database_id);
    if (kind == TUNING_PERF && text.size > 0 && !bytes_equal_text(text, TUNING_BATCHNORM))
        return kiln_fail(err, KILN_INVALID,
                         "records of perf have no backend but '" TUNING_BATCHNORM "': leave it "
                         "empty");
    if (kind == TUNING_FIND && text.size == 0)
        text = bytes_of_text(database_id_backend(id));
    if (kind == TUNING_FIND &&
        (tuning_backend_check(text, err) || database_id_backend_check(id, text, err)))
        return err->code;
    return tuning_text_take("backend", text, TUNING_BACKEND_TEXT, ret_backend, err);
}

enum kiln_code tuning_database_take(enum tuning_kind kind, struct bytes id, struct bytes backend,
                                    struct tuning_database *known, struct kiln_err *err)
{
    if (id.size > 0 && bytes_equal_text(id, known->id) && bytes_equal_text(backend, known->backend))
        return KILN_OK;
    struct tuning_database taken;
    enum kiln_code rc = tuning_database_id_take(id, taken.id, err);
    if (!rc)
        rc = tuning_backend_take(kind, taken.id, backend, taken.backend, err);
    if (!rc)
        *known = taken;
    return rc;
}

enum kiln_code tuning_key_of(enum tuning_kind kind, const struct problem *problem,
                             char text[PROBLEM_KEY_MAX], struct bytes *ret_key,
                             struct kiln_err *err)
{
    size_t size =
        kind == TUNING_FIND ? find_key_write(problem, text) : perf_key_write(problem, text);
    if (size == 0)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "a PerfDb has no key for a problem whose tensors differ in layout");
    *ret_key = bytes_of(text, size);
    return KILN_OK;
}

enum kiln_code tuning_origin_take(const struct origin_fields *fields, uint32_t clock_mhz,
                                  struct origin_texts *texts, struct tuning_origin *ret_origin,
                                  struct kiln_err *err)
{
    const struct {
        const char *what;
        struct bytes from;
        char *to;
    } all[] = {
        { "device's uuid", fields->device_uuid, texts->device_uuid },
        { "device", fields->device, texts->device },
        { "driver", fields->driver, texts->driver },
        { "toolchain", fields->toolchain, texts->toolchain },
        { "library", fields->library, texts->library },
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (tuning_text_take(all[i].what, all[i].from, TUNING_ORIGIN_TEXT, all[i].to, err))
            return err->code;
    }
    *ret_origin = (struct tuning_origin){ texts->device_uuid, texts->device,  texts->driver,
                                          texts->toolchain,   texts->library, clock_mhz };
    return KILN_OK;
}

double tuning_double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

uint64_t tuning_bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

enum kiln_code tuning_time_take(const char *what, uint64_t bits, double *ret_time,
                                struct kiln_err *err)
{
    double value = tuning_double_of(bits);
    if (!isfinite(value) || value < 0 || value > TUNING_FIGURE_MAX)
        return kiln_fail(err, KILN_INVALID,
                         "the %s is %g: it must be a finite number of milliseconds from 0 to %g",
                         what, value, TUNING_FIGURE_MAX);
    *ret_time = value;
    return KILN_OK;
}

bool tuning_may_publish(enum role role) { return role == ROLE_PUBLISH || role == ROLE_ADMIN; }

enum kiln_code tuning_publisher_check(enum role role, enum tuning_tier tier, struct kiln_err *err)
{
    if (tier == TUNING_TIER_USER || tuning_may_publish(role))
        return KILN_OK;
    return kiln_fail(err, KILN_DENIED,
                     "only publishers (the group of the setting publish_group) and administrators "
                     "may change the %s records, which all users share: give --tier user, or ask "
                     "an administrator",
                     tuning_tier_name(tier));
}

enum kiln_code tuning_tier_of_question(const struct json *question, const char *name,
                                       enum tuning_tier otherwise, enum tuning_tier *ret_tier,
                                       struct kiln_err *err)
{
    const char *text = json_get_text(question, name, NULL);
    *ret_tier = otherwise;
    if (!text)
        return KILN_OK;
    for (enum tuning_tier tier = TUNING_TIER_SYSTEM; tier <= TUNING_TIER_USER; tier++) {
        if (strcmp(text, tuning_tier_name(tier)) == 0) {
            *ret_tier = tier;
            return KILN_OK;
        }
    }
    return kiln_fail(err, KILN_INVALID, "'%s' must be 'system', 'host' or 'user', not '%.40s'",
                     name, text);
}

enum kiln_code tuning_kind_of_question(const struct json *question, enum tuning_kind *ret_kind,
                                       bool *ret_has, struct kiln_err *err)
{
    const char *text = json_get_text(question, "kind", NULL);
    *ret_has = text != NULL;
    *ret_kind = TUNING_FIND;
    if (!text || strcmp(text, tuning_kind_name(TUNING_FIND)) == 0)
        return KILN_OK;
    *ret_kind = TUNING_PERF;
    if (strcmp(text, tuning_kind_name(TUNING_PERF)) == 0)
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID, "'kind' must be 'find' or 'perf', not '%.40s'", text);
}

enum kiln_code tuning_database_id_of_question(const struct json *question,
                                              char ret_id[DATABASE_ID_MAX], struct kiln_err *err)
{
    const char *text = json_get_text(question, "database_id", "");
    ret_id[0] = '\0';
    return *text ? tuning_database_id_take(bytes_of_text(text), ret_id, err) : KILN_OK;
}

enum kiln_code tuning_backend_of_question(const struct json *question,
                                          char ret_backend[TUNING_BACKEND_TEXT],
                                          struct kiln_err *err)
{
    struct bytes text = bytes_of_text(json_get_text(question, "backend", ""));
    if (text.size > 0 && tuning_backend_check(text, err))
        return err->code;
    return tuning_text_take("backend", text, TUNING_BACKEND_TEXT, ret_backend, err);
}

enum kiln_code tuning_keys_of(const char *text, struct tuning_keys *ret_keys, struct kiln_err *err)
{
    *ret_keys = (struct tuning_keys){ .count = 0 };
    struct bytes name = bytes_of_text(text);
    if (name.size == 0 || name.size > TUNING_KEY_MAX * 4)
        return kiln_fail(err, KILN_INVALID,
                         "a problem's name has 1 to %u characters: a MIOpenDriver command line, or "
                         "a key of a FindDb or PerfDb",
                         TUNING_KEY_MAX * 4);
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = problem_named(name, ret_keys->problems, &ret_keys->count, &why);
    if (rc && (rc == KILN_UNSUPPORTED || rc == KILN_INVALID) && name.size <= TUNING_KEY_MAX) {
        ret_keys->count = 0; /* a record may have this key verbatim */
        ret_keys->verbatim = name;
        if (rc == KILN_INVALID)
            ret_keys->why = why;
        return KILN_OK;
    }
    if (rc)
        *err = why;
    for (unsigned i = 0; !rc && i < ret_keys->count; i++) {
        find_key_write(&ret_keys->problems[i], ret_keys->find[i]);
        perf_key_write(&ret_keys->problems[i], ret_keys->perf[i]);
    }
    return rc;
}

unsigned tuning_keys_count(const struct tuning_keys *keys)
{
    return keys->count > 0 ? keys->count : 1;
}

struct bytes tuning_keys_at(const struct tuning_keys *keys, enum tuning_kind kind, unsigned index)
{
    if (keys->count == 0)
        return keys->verbatim;
    bool has_perf = keys->perf[index][0] != '\0';
    return bytes_of_text(kind == TUNING_PERF && has_perf ? keys->perf[index] : keys->find[index]);
}
