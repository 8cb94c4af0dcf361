/* SPDX-License-Identifier: MIT */
#include "cli/driver/devices.h"

#include "cli/outcome.h"
#include "cli/output.h"
#include "common/json.h"

#include <kiln/device.h>

struct listing {
    struct table *table;    /* owned by the caller; NULL: JSON */
    struct json *devices;   /* the same */
    struct json *not_found; /* the same */
    size_t found;
};

static void add_row(struct table *table, const char *name, const char *model, const char *target,
                    const struct kiln_error *why_not)
{
    table_cell_in(table, why_not ? COLOUR_YELLOW : COLOUR_GREEN, "%s", name ? name : "-");
    table_cell(table, "%s", why_not ? "not here:" : model ? model : "-");
    table_cell(table, "%s", why_not ? why_not->text : target ? target : "-");
}

static void add_json(struct listing *listing, const char *name, const char *model,
                     const char *target, const struct kiln_error *why_not)
{
    struct json *json = json_object();
    json_set_text(json, "name", name ? name : "");
    if (why_not) {
        json_set_text(json, "reason", why_not->text);
        json_append(listing->not_found, json);
        return;
    }
    json_set_text(json, "model", model ? model : "");
    json_set_text(json, "target", target ? target : "");
    json_append(listing->devices, json);
}

static void on_device(void *context, const char *name, const char *model, const char *target,
                      const struct kiln_error *why_not)
{
    struct listing *listing = context;
    const struct kiln_error *reason = why_not && why_not->code ? why_not : NULL;
    listing->found += reason == NULL;
    if (listing->table)
        add_row(listing->table, name, model, target, reason);
    else
        add_json(listing, name, model, target, reason);
}

static int judge(const struct listing *listing, struct kiln_error *err)
{
    if (listing->found > 0)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_UNSUPPORTED,
                    "no device here: install a GPU runtime, or pocl-opencl-icd for the CPU");
}

static int list_table(struct listing *listing, struct kiln_error *err)
{
    static const struct column columns[] = { { "DEVICE", ALIGN_LEFT },
                                             { "MODEL", ALIGN_LEFT },
                                             { "TARGET", ALIGN_LEFT } };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 3);
    if (!table)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory while listing devices");
    listing->table = table;
    int rc = kiln_device_list(on_device, listing, err);
    if (!rc)
        rc = table_print(table, stdout, err);
    return rc ? rc : judge(listing, err);
}

static int list_json(struct listing *listing, bool *ret_reported, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    listing->devices = json_array();
    listing->not_found = json_array();
    json_set(json, "devices", listing->devices);
    json_set(json, "unavailable", listing->not_found);
    int rc = kiln_device_list(on_device, listing, err);
    if (rc)
        return rc;
    struct kiln_error unused = { 0 };
    rc = judge(listing, err);
    if (rc)
        json_set(json, "error", outcome_error_json(err));
    int printed = output_json(json, rc ? &unused : err);
    *ret_reported = rc && !printed;
    return rc ? rc : printed;
}

int devices_print(bool json, bool *ret_reported, struct kiln_error *err)
{
    struct listing listing = { 0 };
    return json ? list_json(&listing, ret_reported, err) : list_table(&listing, err);
}
