/* SPDX-License-Identifier: MIT */
#include "cli/driver/devices.h"

#include "cli/output.h"
#include "cli/result.h"
#include "common/base/json.h"

#include <kiln/device.h>

struct listing {
    /* owned by the caller, as are the members below; NULL if the output is JSON */
    struct table *table;
    struct table *not_here;
    struct json *devices;
    struct json *not_found;
    size_t found, not_found_count;
};

static void add_row(struct table *table, const struct kiln_device_info *info)
{
    table_cell_in(table, COLOUR_GREEN, "%s", info->name);
    table_cell(table, "%s", info->model[0] ? info->model : "-");
    table_cell(table, "%s", info->target);
    table_cell(table, "%s", info->uuid[0] ? info->uuid : "-");
}

static void add_reason(struct table *table, const char *name, const struct kiln_error *why_not)
{
    table_cell_in(table, COLOUR_YELLOW, "%s", name);
    table_cell(table, "%s", why_not->text);
}

static void add_json(struct json *list, const struct kiln_device_info *info)
{
    struct json *json = json_object();
    json_set_text(json, "name", info->name);
    json_set_text(json, "model", info->model);
    json_set_text(json, "target", info->target);
    json_set_text(json, "database_id", info->database_id);
    json_set_text(json, "uuid", info->uuid);
    json_set_text(json, "driver", info->driver);
    json_set_text(json, "pci", info->pci);
    json_set_u64(json, "compute_units", info->compute_units);
    json_set_u64(json, "clock_mhz", info->clock_mhz);
    json_set_u64(json, "memory", info->memory);
    json_append(list, json);
}

static void add_json_reason(struct json *list, const char *name, const struct kiln_error *why_not)
{
    struct json *json = json_object();
    json_set_text(json, "name", name);
    json_set_text(json, "reason", why_not->text);
    json_append(list, json);
}

static void on_device(void *context, const struct kiln_device_info *info,
                      const struct kiln_error *why_not)
{
    struct listing *listing = context;
    listing->found += why_not == NULL;
    listing->not_found_count += why_not != NULL;
    if (listing->table && why_not)
        add_reason(listing->not_here, info->name, why_not);
    else if (listing->table)
        add_row(listing->table, info);
    else if (why_not)
        add_json_reason(listing->not_found, info->name, why_not);
    else
        add_json(listing->devices, info);
}

static int check_found(const struct listing *listing, struct kiln_error *err)
{
    if (listing->found > 0)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_UNSUPPORTED,
                    "this host has no device that can run kernels: install a GPU runtime, or "
                    "pocl-opencl-icd for the CPU");
}

static int print_tables(const struct listing *listing, struct kiln_error *err)
{
    int rc = listing->found ? table_print(listing->table, stdout, err) : KILN_E_OK;
    if (rc || listing->not_found_count == 0)
        return rc;
    printf("%sNot available:\n", listing->found ? "\n" : "");
    return table_print(listing->not_here, stdout, err);
}

static int list_table(struct listing *listing, struct kiln_error *err)
{
    static const struct column columns[] = { { "DEVICE", ALIGN_LEFT },
                                             { "MODEL", ALIGN_LEFT },
                                             { "TARGET", ALIGN_LEFT },
                                             { "UUID", ALIGN_LEFT } };
    static const struct column reasons[] = { { NULL, ALIGN_LEFT }, { NULL, ALIGN_LEFT } };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 4);
    __attribute__((cleanup(table_auto))) struct table *not_here = table_create(reasons, 2);
    if (!table || !not_here)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory while listing devices");
    listing->table = table;
    listing->not_here = not_here;
    int rc = kiln_device_list(on_device, listing, err);
    if (!rc)
        rc = print_tables(listing, err);
    return rc ? rc : check_found(listing, err);
}

static int list_json(struct listing *listing, bool *ret_reported, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    listing->devices = json_set_array(json, "devices");
    listing->not_found = json_set_array(json, "unavailable");
    int rc = kiln_device_list(on_device, listing, err);
    if (rc)
        return rc;
    struct kiln_error unused = { 0 };
    rc = check_found(listing, err);
    if (rc)
        json_set(json, "error", result_error_json(err));
    int printed = output_json(json, rc ? &unused : err);
    *ret_reported = rc && !printed;
    return rc ? rc : printed;
}

int devices_print(bool json, bool *ret_reported, struct kiln_error *err)
{
    struct listing listing = { 0 };
    return json ? list_json(&listing, ret_reported, err) : list_table(&listing, err);
}
