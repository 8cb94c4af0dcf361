/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_push.h"
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/fleet_place.h"
#include "cli/output.h"
#include "common/base/units.h"
#include "common/base/url_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct push_options {
    const char *key, *target;
    bool records;
};

#define AT(field) offsetof(struct push_options, field)
static const struct option options[] = {
    { "key", 0, OPTION_TEXT, AT(key), "FILE", "the builder's secret key (required)", 0, 0 },
    { "target", 't', OPTION_TEXT, AT(target), "TARGET",
      "only kernels for this target; gfx90a also selects gfx90a with any features", 0, 0 },
    { "records", 0, OPTION_FLAG, AT(records), NULL, "only tuning records, no kernels", 0, 0 },
};
#undef AT

/* kiln_code and the KILN_E_ codes have the same numbers (common/base/err_codes.def). */
static int fail_as(struct kiln_error *err, const struct kiln_err *why)
{
    return cli_fail(err, why->code, "%s", why->text);
}

/* What kilnd exports: kernels, or tuning records. */
struct exported {
    int fd; /* -1: nothing */
    struct json *reply;
    struct fleet_pushing pushing;
};

static void exported_done(struct exported *x)
{
    if (x->fd >= 0)
        fd_close(&x->fd);
    json_destroy(x->reply);
}

static int ask_daemon(const struct invocation *invocation, const char *request, struct exported *x,
                      struct kiln_error *err)
{
    const struct push_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    size_t count = 0;
    if (o->target)
        json_set_text(ask, "target", o->target);
    const struct admin_call call = { ADMIN_CALL_INIT,    .request = request,
                                     .arguments = ask,   .ret_files = &x->fd,
                                     .ret_files_max = 1, .ret_file_count = &count };
    int rc = admin_call(invocation, &call, &x->reply, err);
    if (count == 0)
        x->fd = -1;
    return rc;
}

/* If the host has no kernels to push, it may still have tuning records. */
static int ask_both(const struct invocation *invocation, struct exported *kernels,
                    struct exported *tuning, struct kiln_error *err)
{
    const struct push_options *o = invocation->options;
    int rc = o->records ? KILN_E_OK : ask_daemon(invocation, "fleet_export", kernels, err);
    if (o->target || (rc && rc != KILN_E_NOT_FOUND))
        return rc;
    struct kiln_error of_tuning = { 0 };
    int also = ask_daemon(invocation, "fleet_tuning_export", tuning, &of_tuning);
    if (also)
        *err = of_tuning;
    return also || tuning->fd >= 0 ? also : rc;
}

/* Maps the file privately, because fleet_push signs the records in the mapping. */
static int push_file(struct fleet_pushing *pushing, int fd, struct kiln_error *err)
{
    struct stat seen;
    struct kiln_err why = KILN_ERR_INIT;
    if (fstat(fd, &seen) != 0 || seen.st_size <= 0)
        return cli_fail(err, KILN_E_CORRUPT, "kilnd's file of kernels is empty");
    size_t size = (size_t)seen.st_size;
    void *records = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (records == MAP_FAILED)
        return cli_fail(err, KILN_E_NO_MEMORY, "cannot map kilnd's file of kernels: %s",
                        strerror(errno));
    enum kiln_code rc = fleet_push(pushing, records, size, &why);
    munmap(records, size);
    return rc ? fail_as(err, &why) : KILN_E_OK;
}

static int print_json(const struct exported *kernels, const struct exported *tuning,
                      struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    json_set_u64(json, "added", kernels->pushing.added);
    json_set_u64(json, "present", kernels->pushing.present);
    json_set_u64(json, "left_out", json_get_u64(kernels->reply, "left_out", 0));
    json_set_u64(json, "damaged", json_get_u64(kernels->reply, "damaged", 0));
    json_set_u64(json, "records", json_get_u64(tuning->reply, "records", 0));
    json_set_u64(json, "blocks_added", tuning->pushing.added);
    return output_json(json, err);
}

static void print_kernels(const char *tree, const struct exported *kernels)
{
    char added[UNITS_TEXT_MAX], shown[900], line[1024];
    uint64_t left_out = json_get_u64(kernels->reply, "left_out", 0);
    uint64_t damaged = json_get_u64(kernels->reply, "damaged", 0);
    url_without_secrets(tree, shown, sizeof(shown));
    snprintf(line, sizeof(line), "%s: %s added, %llu were there already", shown,
             units_kernels(kernels->pushing.added, added),
             (unsigned long long)kernels->pushing.present);
    output_clean(line, false);
    puts(line);
    if (left_out)
        printf("%llu left out: larger than 4 MiB, or with a control character in a text\n",
               (unsigned long long)left_out);
    if (damaged)
        printf("%llu left out: damaged in kilnd's cache\n", (unsigned long long)damaged);
}

/* Without records, kilnd exports empty blocks, which replace those that the host pushed before. */
static void print_records(const struct push_options *o, const struct exported *tuning)
{
    uint64_t records = json_get_u64(tuning->reply, "records", 0);
    if (records)
        printf("tuning records of %llu problems: %s\n", (unsigned long long)records,
               tuning->pushing.added ? "added" : "there already");
    else if (tuning->pushing.added)
        puts("tuning records: those that this host pushed before are removed");
    else if (o->records)
        puts("tuning records: this host has none");
}

static int push_both(const struct invocation *invocation, struct exported *kernels,
                     struct exported *tuning, struct kiln_error *err)
{
    const struct push_options *o = invocation->options;
    struct fleet_place place;
    int rc = ask_both(invocation, kernels, tuning, err);
    if (!rc)
        rc = fleet_place_open(invocation->words[0], FLEET_PLACE_ADD, &place, err);
    if (rc)
        return rc;
    kernels->pushing.store = tuning->pushing.store = place.store;
    if (kernels->fd >= 0)
        rc = push_file(&kernels->pushing, kernels->fd, err);
    if (!rc && tuning->fd >= 0)
        rc = push_file(&tuning->pushing, tuning->fd, err);
    fleet_place_close(&place);
    if (rc)
        return rc;
    if (invocation->common->json)
        return print_json(kernels, tuning, err);
    if (!o->records)
        print_kernels(invocation->words[0], kernels);
    print_records(o, tuning);
    return KILN_E_OK;
}

static int push(const struct invocation *invocation, const struct fleet_signer *signer,
                struct kiln_error *err)
{
    struct exported kernels = { .fd = -1, .pushing.signer = signer };
    struct exported tuning = kernels;
    int rc = push_both(invocation, &kernels, &tuning, err);
    exported_done(&kernels);
    exported_done(&tuning);
    return rc;
}

static int run_fleet_push(const struct invocation *invocation, struct kiln_error *err)
{
    const struct push_options *o = invocation->options;
    struct kiln_err why = KILN_ERR_INIT;
    struct fleet_signer signer;
    if (!o->key)
        return cli_fail(
            err, KILN_E_INVALID,
            "fleet push needs --key, a builder's secret key; 'kilnctl fleet enrol' makes "
            "one");
    if (o->records && o->target)
        return cli_fail(err, KILN_E_INVALID,
                        "--records pushes no kernels, so it has no effect with --target");
    if (fleet_signer_read(o->key, &signer, &why))
        return fail_as(err, &why);
    int rc = push(invocation, &signer, err);
    explicit_bzero(&signer, sizeof(signer));
    return rc;
}

const struct command command_fleet_push = {
    .name = "fleet push",
    .words = "DIR|URL",
    .summary = "add this host's kernels and tuning records to the fleet's tree",
    .help = "Signs every kernel that this host's kilnd compiled and stores, and adds it to the\n"
            "fleet's tree in the directory DIR or in an S3 store (see 'fleet compact').  Kernels\n"
            "that the tree has are left as they are.\n"
            "Imported kernels, and results of users' own compiles, are never pushed.  Without\n"
            "--target, also adds the tuning records that all users of this host share, but not\n"
            "those of single users ('kilnctl db promote' shares these).\n"
            "'fleet compact' then lets other hosts find them.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct push_options),
    .run = run_fleet_push,
};
