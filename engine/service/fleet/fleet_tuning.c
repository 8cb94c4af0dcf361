/* SPDX-License-Identifier: MIT */
#include "engine/service/fleet/fleet_tuning.h"

#include "common/base/fs.h"
#include "common/base/hex.h"
#include "engine/digest/sha256.h"
#include "engine/miopen/names/database_id.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define SERIES_FILE "fleet-series"
#define XNACK "_xnack"

static enum kiln_code make_random(const char *path, struct buffer *text, struct kiln_err *err)
{
    uint8_t random[16];
    char hex[2 * sizeof(random) + 1];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return kiln_fail(err, KILN_UNAVAILABLE, "the system has no random numbers");
    hex_write(random, sizeof(random), hex);
    buffer_clear(text);
    buffer_put(text, hex, strlen(hex));
    return fs_replace_file(path, buffer_view(text), 0600, err);
}

enum kiln_code fleet_tuning_series(const char *state_directory, char series[FLEET_SERIES_SIZE],
                                   struct kiln_err *err)
{
    char path[PATH_MAX], host[256] = "";
    struct sha256 s;
    BUFFER_AUTO struct buffer random;
    buffer_init(&random, 64);
    if (snprintf(path, sizeof(path), "%s/" SERIES_FILE, state_directory) >= (int)sizeof(path))
        return kiln_fail(err, KILN_INVALID, "the path of the state directory is too long");
    enum kiln_code rc = fs_read_file(path, 64, &random, err);
    if (rc == KILN_NOT_FOUND || (!rc && random.size == 0))
        rc = make_random(path, &random, err);
    if (rc)
        return rc;
    (void)gethostname(host, sizeof(host) - 1);
    sha256_init(&s);
    sha256_put_sized(&s, buffer_view(&random));
    sha256_put_sized(&s, bytes_of_text(host));
    struct digest digest = sha256_end(&s);
    hex_write(digest.bytes, (FLEET_SERIES_SIZE - 1) / 2, series);
    return KILN_OK;
}

bool fleet_tuning_shard_of(const char *database_id, struct fleet_tuning_shard *ret_shard)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct database_id id;
    if (database_id_parse(bytes_of_text(database_id), &id, &ignored))
        return false;
    size_t size = strlen(id.device), suffix = strlen(XNACK);
    if (size > suffix && strcmp(id.device + size - suffix, XNACK) == 0)
        size -= suffix;
    snprintf(ret_shard->target, sizeof(ret_shard->target), "%.*s", (int)size, id.device);
    ret_shard->shard = fleet_shard_named(bytes_of_text(ret_shard->target), FLEET_TUNING,
                                         bytes_of_text(database_id));
    return true;
}

enum kiln_code fleet_tuning_record(struct codec *codec, const struct fleet_tuning_claim *what,
                                   struct bytes block, struct buffer *ret_records,
                                   struct kiln_err *err)
{
    struct fleet_tuning_shard named;
    if (!fleet_tuning_shard_of(what->database_id, &named))
        return kiln_fail(err, KILN_INVALID, "'%.60s' is not a database id", what->database_id);
    const struct fleet_claim claim = { .key = sha256_of(block),
                                       .shard = named.shard,
                                       .program = bytes_of_text(what->database_id),
                                       .options = bytes_of_text(what->series),
                                       .version = bytes_of_text(KILN_VERSION),
                                       .time = what->time };
    return fleet_record_write(codec, &claim, block, ret_records, err);
}
