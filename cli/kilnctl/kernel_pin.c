/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/key_prefix.h"
#include "cli/output.h"
#include "common/base/units.h"

/* Maximum number of keys in one request, because a request is limited to 64 KiB. */
#define KEYS_AT_ONCE 500u

struct pin_options {
    const char *target, *name, *database_id;
};

#define AT(field) offsetof(struct pin_options, field)
static const struct option options[] = {
    { "target", 0, OPTION_TEXT, AT(target), "TARGET", "the kernels for this target", 0, 0 },
    { "name", 0, OPTION_TEXT, AT(name), "NAME", "the kernels of this program", 0, 0 },
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID", "the imported kernels for this device", 0,
      0 },
};
#undef AT

static int check_selection(const struct invocation *invocation, struct kiln_error *err)
{
    const struct pin_options *o = invocation->options;
    bool filtered = o->target || o->name || o->database_id;
    if (filtered == (invocation->word_count > 0))
        return cli_fail(err, KILN_E_INVALID,
                        "nothing is selected: give KEY..., or else --target, --name or --db-id");
    for (size_t i = 0; i < invocation->word_count; i++) {
        int rc = key_prefix_check(invocation->words[i], err);
        if (rc)
            return rc;
    }
    return KILN_E_OK;
}

static int ask_daemon(const struct invocation *invocation, struct json *ask, bool pin,
                      uint64_t *kernels, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    json_set_bool(ask, "pin", pin);
    int rc = admin_ask(invocation, "kernel_pin", ask, &reply, err);
    if (!rc)
        *kernels += json_get_u64(reply, "kernels", 0);
    return rc;
}

static int pin_keys(const struct invocation *invocation, bool pin, uint64_t *kernels,
                    struct kiln_error *err)
{
    int rc = KILN_E_OK;
    for (size_t at = 0; !rc && at < invocation->word_count; at += KEYS_AT_ONCE) {
        KILN_AUTO(json) struct json *ask = json_object();
        struct json *keys = json_array();
        for (size_t i = at; i < invocation->word_count && i < at + KEYS_AT_ONCE; i++)
            json_append(keys, json_text(invocation->words[i]));
        json_set(ask, "keys", keys);
        rc = ask_daemon(invocation, ask, pin, kernels, err);
    }
    return rc && *kernels ? cli_while(err, "after %llu kernels", (unsigned long long)*kernels) : rc;
}

static int pin_matching(const struct invocation *invocation, bool pin, uint64_t *kernels,
                        struct kiln_error *err)
{
    const struct pin_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    if (o->target)
        json_set_text(ask, "target", o->target);
    if (o->name)
        json_set_text(ask, "name", o->name);
    if (o->database_id)
        json_set_text(ask, "database_id", o->database_id);
    int rc = ask_daemon(invocation, ask, pin, kernels, err);
    if (!rc && *kernels == 0)
        return cli_fail(err, KILN_E_NOT_FOUND,
                        "no stored kernel matches; 'kilnctl kernel ls' lists them");
    return rc;
}

static int pin_or_unpin(const struct invocation *invocation, bool pin, struct kiln_error *err)
{
    uint64_t kernels = 0;
    int rc = check_selection(invocation, err);
    if (!rc)
        rc = invocation->word_count > 0 ? pin_keys(invocation, pin, &kernels, err)
                                        : pin_matching(invocation, pin, &kernels, err);
    if (rc)
        return rc;
    if (invocation->common->json) {
        KILN_AUTO(json) struct json *json = json_object();
        json_set_bool(json, "pinned", pin);
        json_set_u64(json, "kernels", kernels);
        return output_json(json, err);
    }
    char count[UNITS_TEXT_MAX];
    printf("%s %s\n", units_kernels(kernels, count), pin ? "pinned" : "no longer pinned");
    return KILN_E_OK;
}

static int run_kernel_pin(const struct invocation *invocation, struct kiln_error *err)
{
    return pin_or_unpin(invocation, true, err);
}

static int run_kernel_unpin(const struct invocation *invocation, struct kiln_error *err)
{
    return pin_or_unpin(invocation, false, err);
}

const struct command command_kernel_pin = {
    .name = "kernel pin",
    .words = "[KEY-PREFIX...]",
    .summary = "protect kernels from eviction",
    .help =
        "Pinned kernels are never evicted, and 'gc' does not drop them.  'kernel rm' and 'clear'\n"
        "drop them like other kernels.",
    .most_words = SIZE_MAX,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct pin_options),
    .run = run_kernel_pin,
};

const struct command command_kernel_unpin = {
    .name = "kernel unpin",
    .words = "[KEY-PREFIX...]",
    .summary = "allow pinned kernels to be evicted again",
    .help = "The named or matching kernels can be evicted again.",
    .most_words = SIZE_MAX,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct pin_options),
    .run = run_kernel_unpin,
};
