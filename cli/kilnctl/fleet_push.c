/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_push.h"
#include "cli/kilnctl/admin.h"
#include "cli/output.h"
#include "common/base/units.h"
#include "engine/fleet/fleet_tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct push_options {
    const char *key, *target;
};

#define AT(field) offsetof(struct push_options, field)
static const struct option options[] = {
    { "key", 0, OPTION_TEXT, AT(key), "FILE", "the builder's secret key (required)", 0, 0 },
    { "target", 't', OPTION_TEXT, AT(target), "TARGET",
      "only kernels for this target; gfx90a also selects gfx90a with any features", 0, 0 },
};
#undef AT

/* kiln_code and the KILN_E_ codes have the same numbers (common/base/err_codes.def). */
static int fail_as(struct kiln_error *err, const struct kiln_err *why)
{
    return cli_fail(err, why->code, "%s", why->text);
}

static int ask_daemon(const struct invocation *invocation, int *ret_fd, struct json **ret_reply,
                      struct kiln_error *err)
{
    const struct push_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    size_t count = 0;
    if (o->target)
        json_set_text(ask, "target", o->target);
    const struct admin_call call = { ADMIN_CALL_INIT,    .request = "fleet_export",
                                     .arguments = ask,   .ret_files = ret_fd,
                                     .ret_files_max = 1, .ret_file_count = &count };
    int rc = admin_call(invocation, &call, ret_reply, err);
    if (!rc && count != 1)
        rc = cli_fail(err, KILN_E_CORRUPT, "kilnd's answer has no file");
    return rc;
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

static int print_result(const struct invocation *invocation, const struct fleet_pushing *pushing,
                        const struct json *reply, struct kiln_error *err)
{
    char added[UNITS_TEXT_MAX], line[1024];
    uint64_t left_out = json_get_u64(reply, "left_out", 0);
    uint64_t damaged = json_get_u64(reply, "damaged", 0);
    if (invocation->common->json) {
        KILN_AUTO(json) struct json *json = json_object();
        json_set_u64(json, "added", pushing->added);
        json_set_u64(json, "present", pushing->present);
        json_set_u64(json, "left_out", left_out);
        json_set_u64(json, "damaged", damaged);
        return output_json(json, err);
    }
    snprintf(line, sizeof(line), "%.900s: %s added, %llu were there already", invocation->words[0],
             units_kernels(pushing->added, added), (unsigned long long)pushing->present);
    output_clean(line, false);
    puts(line);
    if (left_out)
        printf("%llu left out: larger than 4 MiB, or with a control character in a text\n",
               (unsigned long long)left_out);
    if (damaged)
        printf("%llu left out: damaged in kilnd's cache\n", (unsigned long long)damaged);
    return KILN_E_OK;
}

static int push_kernels(const struct invocation *invocation, const struct fleet_signer *signer,
                        struct kiln_error *err)
{
    KILN_AUTO(fd) int fd = -1;
    KILN_AUTO(fd) int root = -1;
    KILN_AUTO(json) struct json *reply = NULL;
    struct kiln_err why = KILN_ERR_INIT;
    int rc = ask_daemon(invocation, &fd, &reply, err);
    if (rc)
        return rc;
    if (fleet_tree_open(invocation->words[0], &root, &why))
        return fail_as(err, &why);
    struct fleet_pushing pushing = { .root = root, .signer = signer };
    rc = push_file(&pushing, fd, err);
    return rc ? rc : print_result(invocation, &pushing, reply, err);
}

static int run_fleet_push(const struct invocation *invocation, struct kiln_error *err)
{
    const struct push_options *o = invocation->options;
    struct kiln_err why = KILN_ERR_INIT;
    struct fleet_signer signer;
    if (!o->key)
        return cli_fail(err, KILN_E_INVALID,
                        "fleet push needs --key, a secret key; 'kilnctl pkg keygen' creates one");
    if (fleet_signer_read(o->key, &signer, &why))
        return fail_as(err, &why);
    int rc = push_kernels(invocation, &signer, err);
    explicit_bzero(&signer, sizeof(signer));
    return rc;
}

const struct command command_fleet_push = {
    .name = "fleet push",
    .words = "DIR",
    .summary = "add this host's kernels to the fleet's tree",
    .help = "Signs every kernel that this host's kilnd compiled and stores, and adds it to the\n"
            "fleet's tree in the directory DIR.  Kernels that the tree has are left as they are.\n"
            "Imported kernels, and results of users' own compiles, are never pushed.\n"
            "'fleet compact' then lets other hosts find them.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct push_options),
    .run = run_fleet_push,
};
