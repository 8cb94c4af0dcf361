/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/fleet_key_file.h"
#include "cli/kilnctl/new_file.h"
#include "cli/output.h"
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/hex.h"
#include "common/base/units.h"
#include "engine/manifest/manifest_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_DIGITS (2 * FLEET_KEY_ID_SIZE)
#define PACKAGE_MAX 64
#define SHOWN_MAX 100u

struct revoke_options {
    const char *directory;
    bool remove;
};

#define AT(field) offsetof(struct revoke_options, field)
static const struct option options[] = {
    { "remove", 0, OPTION_FLAG, AT(remove), NULL,
      "also remove the key's kernels from this host's store", 0, 0 },
    { "directory", 0, OPTION_TEXT, AT(directory), "DIR",
      "the directory of the setting fleet_keys (/etc/kiln/fleet-keys.d)", 0, 0 },
};
#undef AT

struct revocation {
    const char *directory;
    uint8_t id[FLEET_KEY_ID_SIZE];
    char digits[ID_DIGITS + 1], name[128], path[PATH_MAX];
    bool is_known;     /* the directory has the key's own file */
    struct json *json; /* owned; the result */
};

static bool is_id(const char *word)
{
    return strlen(word) == ID_DIGITS && strspn(word, "0123456789abcdef") == ID_DIGITS;
}

static bool note_key(void *context, const struct public_key *key)
{
    struct revocation *r = context;
    uint8_t id[FLEET_KEY_ID_SIZE];
    if (!hex_read(key->id, id, sizeof(id)) || memcmp(id, r->id, sizeof(id)) != 0)
        return true;
    r->is_known = true;
    snprintf(r->name, sizeof(r->name), "%s", key->name);
    return true;
}

/* Looks for the key in the directory, to notice an id with a typing error. */
static void look_up_key(struct revocation *r)
{
    struct trusted_keys files;
    struct kiln_err ignored = KILN_ERR_INIT;
    (void)!keys_each(r->directory, note_key, r, &files, &ignored);
}

/* Finds the key's id. |word| is this id, the path of a .pub file, or the name of a key in the
 * directory. */
static int find_key(struct revocation *r, const char *word, struct kiln_error *err)
{
    char path[PATH_MAX];
    KILN_AUTO(json) struct json *key = NULL;
    if (is_id(word)) {
        (void)hex_read(word, r->id, sizeof(r->id));
        return KILN_E_OK;
    }
    bool is_file = strchr(word, '/') || strstr(word, ".pub");
    int size = is_file ? snprintf(path, sizeof(path), "%s", word)
                       : snprintf(path, sizeof(path), "%s/%s.pub", r->directory, word);
    if (size >= PATH_MAX)
        return cli_fail(err, KILN_E_INVALID, "'%.80s' is too long for the name of a key", word);
    int rc = fleet_key_read(path, &key, err);
    if (rc == KILN_E_NOT_FOUND && !is_file)
        return cli_fail(err, rc,
                        "there is no key '%.80s' in '%.200s': give its id (16 digits, 'key_id' in "
                        "its file), its file NAME.pub, or --directory",
                        word, r->directory);
    if (rc)
        return rc;
    if (!fleet_key_id(key, r->id))
        return cli_fail(err, KILN_E_INVALID, "the key in '%s' has no valid id", path);
    snprintf(r->name, sizeof(r->name), "%s", json_get_text(key, "name", ""));
    return KILN_E_OK;
}

static int write_mark(struct revocation *r, struct kiln_error *err)
{
    char name[FLEET_REVOKED_NAME_MAX];
    struct kiln_err why = KILN_ERR_INIT;
    fleet_revoked_name(r->id, name);
    if (snprintf(r->path, sizeof(r->path), "%s/%s", r->directory, name) >= PATH_MAX)
        return cli_fail(err, KILN_E_INVALID, "the directory's path is too long");
    KILN_AUTO(json) struct json *json = json_object();
    json_set_text(json, "key_id", r->digits);
    if (r->name[0])
        json_set_text(json, "name", r->name);
    json_set_u64(json, "revoked", clock_wall_s());
    KILN_AUTO(mem) char *text = json_print(json, /* indent= */ true);
    if (!text)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for a key");
    if (fs_make_directories_mode(r->directory, 0755, &why))
        return cli_fail(err, why.code, "%s", why.text);
    const struct new_file file = { .path = r->path,
                                   .replace = true,
                                   .mode = 0644,
                                   .from = -1,
                                   .data = text,
                                   .size = strlen(text) };
    return new_file_write(&file, err);
}

static bool is_same_directory(const char *a, const char *b)
{
    KILN_AUTO(mem) char *x = realpath(a, NULL);
    KILN_AUTO(mem) char *y = realpath(b, NULL);
    return x && y && strcmp(x, y) == 0;
}

/* Makes kilnd read the keys now. */
static int tell_kilnd(const struct invocation *invocation, struct revocation *r,
                      struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "fleet_keys", admin_no_arguments, &reply, err);
    if (rc)
        return rc;
    const char *used = json_get_text(json_get(reply, "keys"), "directory", "");
    if (!is_same_directory(used, r->directory))
        return cli_fail(err, KILN_E_INVALID,
                        "wrote '%s', but kilnd reads its keys from '%.200s': revoke the key there, "
                        "too (--directory)",
                        r->path, used);
    json_set_u64(r->json, "indices", json_get_u64(reply, "dropped", 0));
    return KILN_E_OK;
}

static int list_kernels(const struct invocation *invocation, const char *package,
                        struct json *result, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    KILN_AUTO(json) struct json *reply = NULL;
    struct json *kernels = json_set_array(result, "listed");
    json_set_text(ask, "package", package);
    json_set_u64(ask, "count", SHOWN_MAX);
    int rc = admin_ask(invocation, "kernel_list", ask, &reply, err);
    for (const struct json *j = json_first(json_get(reply, "kernels")); j && !rc;
         j = json_next(j)) {
        struct json *kernel = json_object();
        json_set_text(kernel, "key", json_get_text(j, "key", "?"));
        json_set_text(kernel, "target", json_get_text(j, "target", "?"));
        json_set_text(kernel, "program", json_get_text(j, "program", "?"));
        json_append(kernels, kernel);
    }
    return rc;
}

static int count_kernels(const struct invocation *invocation, const char *package,
                         struct json *result, struct kiln_error *err)
{
    const struct revoke_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    KILN_AUTO(json) struct json *reply = NULL;
    json_set_text(ask, "package", package);
    json_set_bool(ask, "dry_run", !o->remove);
    int rc = admin_ask(invocation, "clear", ask, &reply, err);
    json_set_u64(result, "kernels", json_get_u64(reply, "kernels", 0));
    json_set_u64(result, "bytes", json_get_u64(reply, "bytes", 0));
    json_set_bool(result, "removed", o->remove && !rc);
    return rc;
}

/* kilnd removes the entries of the key by itself when it next reads the records of the tree, but
 * not while the store does not answer. */
static int remove_tuning(const struct invocation *invocation, const char *origin,
                         struct json *result, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    KILN_AUTO(json) struct json *reply = NULL;
    json_set_text(ask, "tier", "host");
    json_set_text(ask, "origin", origin);
    int rc = admin_ask(invocation, "tuning_remove", ask, &reply, err);
    json_set_u64(result, "tuning_entries", json_get_u64(reply, "entries", 0));
    return rc;
}

static int handle_stored(const struct invocation *invocation, struct revocation *r,
                         struct kiln_error *err)
{
    const struct revoke_options *o = invocation->options;
    char package[PACKAGE_MAX];
    snprintf(package, sizeof(package), "fleet:%s", r->digits);
    int rc = list_kernels(invocation, package, r->json, err);
    if (!rc)
        rc = count_kernels(invocation, package, r->json, err);
    return rc || !o->remove ? rc : remove_tuning(invocation, package, r->json, err);
}

static void print_kernels(const struct revocation *r)
{
    char line[512], count[UNITS_TEXT_MAX];
    const char *what = json_get_bool(r->json, "removed", false) ? "removed" : "in the store";
    uint64_t kernels = json_get_u64(r->json, "kernels", 0);
    for (const struct json *j = json_first(json_get(r->json, "listed")); j; j = json_next(j)) {
        snprintf(line, sizeof(line), "%.12s  %.100s  %.200s", json_get_text(j, "key", "?"),
                 json_get_text(j, "target", "?"), json_get_text(j, "program", "?"));
        output_clean(line, false);
        puts(line);
    }
    printf("%s of this key %s\n", units_kernels(kernels, count), what);
    if (json_get_u64(r->json, "tuning_entries", 0))
        printf("%llu entries of tuning records removed\n",
               (unsigned long long)json_get_u64(r->json, "tuning_entries", 0));
    if (kernels && !json_get_bool(r->json, "removed", false))
        printf("--remove removes them: kilnctl fleet revoke %s --remove\n", r->digits);
}

static int print_result(const struct invocation *invocation, const struct revocation *r,
                        struct kiln_error *err)
{
    if (invocation->common->json)
        return output_json(r->json, err);
    char line[PATH_MAX + 64];
    snprintf(line, sizeof(line), "wrote '%s'; kilnd does not trust key %s any longer", r->path,
             r->digits);
    output_clean(line, false);
    puts(line);
    if (!r->is_known)
        printf("note: no key in that directory has this id: compare it with 'key_id' in the key's "
               "file\n");
    print_kernels(r);
    return KILN_E_OK;
}

static int revoke_key(const struct invocation *invocation, struct revocation *r,
                      struct kiln_error *err)
{
    int rc = find_key(r, invocation->words[0], err);
    if (rc)
        return rc;
    hex_write(r->id, sizeof(r->id), r->digits);
    look_up_key(r);
    if (write_mark(r, err))
        return fleet_key_advise(err);
    json_set_text(r->json, "key_id", r->digits);
    json_set_bool(r->json, "known", r->is_known);
    json_set_text(r->json, "file", r->path);
    rc = tell_kilnd(invocation, r, err);
    if (rc == KILN_E_UNAVAILABLE || rc == KILN_E_UNSUPPORTED)
        return cli_fail(err, rc,
                        "wrote '%s', but kilnd does not run or uses no fleet. It will not trust "
                        "the key when it starts. The store may have kernels of the key: 'kilnctl "
                        "clear --package fleet:%s'",
                        r->path, r->digits);
    if (!rc)
        rc = handle_stored(invocation, r, err);
    return rc ? rc : print_result(invocation, r, err);
}

static int run_fleet_revoke(const struct invocation *invocation, struct kiln_error *err)
{
    const struct revoke_options *o = invocation->options;
    struct revocation r = { .directory = o->directory ? o->directory : FLEET_KEYS_DIRECTORY,
                            .json = json_object() };
    int rc = revoke_key(invocation, &r, err);
    json_destroy(r.json);
    return rc;
}

const struct command command_fleet_revoke = {
    .name = "fleet revoke",
    .words = "KEY",
    .summary = "do not trust a key of the fleet any longer",
    .help =
        "KEY is a key's id (16 digits), its file NAME.pub, or its name in the directory of the\n"
        "setting fleet_keys.  Writes the file ID.revoked into that directory.  While that file\n"
        "exists, kilnd does not trust the key, even if the key's own file is written again, for\n"
        "example by a package upgrade.  kilnd takes no more kernels that the key signed, and uses\n"
        "no index that it signed.  Then the command lists the kernels of this key that are in the\n"
        "store already; --remove removes them, and the tuning records of this key.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct revoke_options),
    .run = run_fleet_revoke,
};
