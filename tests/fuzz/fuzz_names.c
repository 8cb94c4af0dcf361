/* SPDX-License-Identifier: MIT */
/* Tests parsers of short texts: targets, database ids, file names, compile options, URLs and device
 * names. If a parser accepts a text, printing the result must give the same text. */
#include "tests/fuzz/fuzz.h"

#include "common/target/target.h"
#include "engine/compile/headers.h"
#include "engine/compile/options.h"
#include "engine/miopen/names/tuning_file_name.h"
#include "engine/package/kernel_name.h"
#include "engine/package/package.h"
#include "engine/transfer/transfer_wire.h"
#include "engine/transfer/url.h"
#include "libclient/device/uri.h"

#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX (1u << 20)

static void check_target(struct bytes part)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct target target, again;
    char arch[LIMIT_TARGET_TEXT], id[DATABASE_ID_MAX];
    if (target_parse(part, &target, &err))
        return;
    fuzz_expect(target_parse(bytes_of_text(target.text), &again, &err) == KILN_OK &&
                    strcmp(target.text, again.text) == 0,
                "a canonical target stays as it is");
    target_arch(&target, arch, sizeof(arch));
    target_capability(&target);
    struct database_id parsed;
    if (database_id_of_device(&target, 304, id))
        (void)!database_id_parse(bytes_of_text(id), &parsed,
                                 &err); /* may fail, because the architecture may be unknown */
}

static void check_database_id(struct bytes part)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct database_id id;
    struct bytes stem, version;
    char text[DATABASE_ID_MAX], joined[VERSIONED_ID_MAX];
    if (database_id_parse(part, &id, &err) == KILN_OK) {
        fuzz_expect(database_id_write(&id, text) && bytes_equal_text(part, text),
                    "a database id is written as it was parsed");
        database_id_is_miopens(&id);
        database_id_backend(part);
        (void)!database_id_backend_check(part, bytes_of_text("HIP"), &err);
    }
    if (database_id_split(part, &stem, &version, &err) || stem.size >= DATABASE_ID_MAX)
        return;
    KILN_AUTO(mem) char *stem_text = fuzz_text(stem);
    KILN_AUTO(mem) char *version_text = fuzz_text(version);
    database_id_join(stem_text, version_text, joined);
    fuzz_expect(strlen(stem_text) < stem.size || bytes_equal_text(part, joined),
                "an id with a version is joined as it was split");
}

static void check_file_name(struct bytes part)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_file_name name, again;
    struct database_id id;
    enum package_format format;
    char written[128];
    KILN_AUTO(mem) char *text = fuzz_text(part);
    transfer_is_file_name(text);
    (void)!database_id_of_file(text, &id, &err);
    package_format_of(text, &format);
    (void)!package_names_agree("gfx90a68.kpkg", text, &err);
    if (tuning_file_name_parse(text, &name, &err))
        return;
    tuning_file_name_write(&name, written);
    fuzz_expect(tuning_file_name_parse(written, &again, &err) == KILN_OK,
                "a tuning file's name can be written");
    fuzz_expect(strcmp(name.database_id, again.database_id) == 0 && name.kind == again.kind &&
                    strcmp(name.backend, again.backend) == 0 && name.is_user == again.is_user,
                "and names the same");
}

static void check_options(struct bytes part)
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer once, twice;
    buffer_init(&once, OPTIONS_MAX);
    buffer_init(&twice, OPTIONS_MAX);
    if (options_canonicalise(part, &once, &err))
        return;
    fuzz_expect(options_canonicalise(buffer_view(&once), &twice, &err) == KILN_OK &&
                    bytes_equal(buffer_view(&once), buffer_view(&twice)),
                "canonical options stay as they are");
}

static void check_headers(struct bytes part)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct reader r = reader_of(part);
    struct package_source source = { .program = fuzz_part(&r), .options = fuzz_part(&r) };
    source.header_count = reader_u8(&r);
    source.headers = fuzz_rest(&r);
    header_name_is_fine(source.program);
    (void)!program_name_check(source.program, &err);
    bool fine = headers_check(source.headers, source.header_count, &err) == KILN_OK;
    BUFFER_AUTO struct buffer name;
    buffer_init(&name, OPTIONS_MAX);
    enum kiln_code rc = package_kernel_name(&source, &name, &err);
    fuzz_expect(!fine || rc == KILN_OK || source.program.size == 0 ||
                    source.program.size > LIMIT_PROGRAM_NAME ||
                    memchr(source.program.data, '\0', source.program.size),
                "headers that are fine can be named");
}

static void check_url(struct bytes part)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(mem) char *text = fuzz_text(part);
    struct url url = { 0 }, beside = { 0 };
    if (url_parse(text, &url, &err) == KILN_OK) {
        fuzz_expect(strlen(url.shown) < sizeof(url.shown), "what is shown is terminated");
        if (url_beside(&url, ".manifest", &beside, &err) == KILN_OK)
            url_done(&beside);
    }
    url_done(&url);
}

static void check_device(struct bytes part)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct device_uri uri;
    char name[DEVICE_NAME_MAX];
    KILN_AUTO(mem) char *text = fuzz_text(part);
    for (const char *at = text; device_uri_next(&at, name);)
        (void)!device_uri_parse(name, &uri, &err);
}

static void (*const checks[])(struct bytes) = {
    check_target,  check_database_id, check_file_name, check_options,
    check_headers, check_url,         check_device,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader r = reader_of(bytes_of(data, size));
    unsigned which = reader_u8(&r);
    struct bytes part = fuzz_rest(&r);
    uint8_t *copy = fuzz_copy(part);
    checks[which % (sizeof(checks) / sizeof(checks[0]))](bytes_of(copy, part.size));
    free(copy);
    return 0;
}
