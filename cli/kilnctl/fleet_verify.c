/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_verify.h"

#include "cli/kilnctl/command.h"
#include "cli/output.h"
#include "cli/result.h"
#include "common/base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define SHOWN_MAX 100u

struct verify_options {
    const char *trust;
};

static const struct option options[] = {
    { "trust", 0, OPTION_TEXT, offsetof(struct verify_options, trust), "DIR",
      "the directory with the public keys of the fleet (/etc/kiln/fleet-keys.d)", 0, 0 },
};

struct findings {
    struct json *list; /* NULL: findings are printed as text */
    uint64_t count;
};

static void note_bad(void *context, const char *what, const char *why)
{
    struct findings *f = context;
    char line[512];
    if (f->count++ >= SHOWN_MAX)
        return;
    if (f->list) {
        struct json *finding = json_object();
        json_set_text(finding, "file", what);
        json_set_text(finding, "why", why);
        json_append(f->list, finding);
        return;
    }
    snprintf(line, sizeof(line), "%.200s: %.200s", what, why);
    output_clean(line, false);
    puts(line);
}

/* Opens the tree. fleet_tree_open is not used, because it would create the directory. */
static enum kiln_code open_root(const char *directory, int *ret_root, struct kiln_err *err)
{
    *ret_root = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_root < 0 ? kiln_fail_errno(err, errno, "cannot open the directory '%s'", directory)
                         : KILN_OK;
}

static int verify_tree(const char *directory, const char *keys,
                       struct fleet_verification *verification, struct kiln_error *err)
{
    KILN_AUTO(fd) int root = -1;
    KILN_AUTO(fleet_trust) struct fleet_trust *trust = NULL;
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = fleet_trust_read(keys, &trust, &why);
    if (!rc)
        rc = open_root(directory, &root, &why);
    verification->root = root;
    verification->trust = trust;
    if (!rc)
        rc = fleet_verify(verification, &why);
    return rc ? cli_fail(err, rc, "%s", why.text) : KILN_E_OK;
}

static int print_json(const struct invocation *invocation, const struct fleet_verification *v,
                      struct json *json, const struct kiln_error *found)
{
    struct kiln_error err = { 0 };
    json_set_u64(json, "indices", v->shards);
    json_set_u64(json, "kernels", v->kernels);
    json_set_u64(json, "bytes", v->bytes);
    json_set_u64(json, "bad", v->bad_count);
    if (found->code)
        json_set(json, "error", result_error_json(found));
    int rc = output_json(json, &err);
    *invocation->reported = found->code && !rc;
    return rc;
}

static void print_text(const struct fleet_verification *v)
{
    char kernels[UNITS_TEXT_MAX];
    printf("%s, indices: %llu, bad: %llu\n", units_kernels(v->kernels, kernels),
           (unsigned long long)v->shards, (unsigned long long)v->bad_count);
}

static int run_fleet_verify(const struct invocation *invocation, struct kiln_error *err)
{
    const struct verify_options *o = invocation->options;
    KILN_AUTO(json) struct json *json = invocation->common->json ? json_object() : NULL;
    struct findings findings = { .list = json ? json_set_array(json, "findings") : NULL };
    struct fleet_verification verification = { .bad = note_bad, .context = &findings };
    int rc = verify_tree(invocation->words[0], o->trust ? o->trust : "/etc/kiln/fleet-keys.d",
                         &verification, err);
    if (rc)
        return rc;
    if (verification.bad_count)
        rc = cli_fail(err, KILN_E_CORRUPT, "hosts would not use %llu files or kernels of the tree",
                      (unsigned long long)verification.bad_count);
    if (!json)
        print_text(&verification);
    else if (print_json(invocation, &verification, json, err))
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the result");
    return rc;
}

const struct command command_fleet_verify = {
    .name = "fleet verify",
    .words = "DIR",
    .summary = "check the fleet's tree as hosts do",
    .help = "Checks every index of the fleet's tree in DIR, and every kernel that an index names:\n"
            "signatures, signers, and the kernels' bytes.  Does not check kernels that were\n"
            "pushed since the last compaction.  Needs no kilnd.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct verify_options),
    .run = run_fleet_verify,
};
