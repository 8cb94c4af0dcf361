/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/output.h"
#include "common/base/units.h"

static void add_row(struct table *table, const struct json *device)
{
    char memory[UNITS_TEXT_MAX];
    const char *uuid = json_get_text(device, "uuid", "");
    const char *mode = json_get_text(device, "partition_mode", "");
    uint64_t bytes = json_get_u64(device, "memory", 0);
    table_cell(table, "%llu", (unsigned long long)json_get_u64(device, "node", 0));
    table_cell(table, "%s", json_get_text(device, "target", "-"));
    table_cell(table, "%llu", (unsigned long long)json_get_u64(device, "compute_units", 0));
    table_cell(table, "%s", bytes ? units_size(bytes, memory) : "-");
    table_cell(table, "%s", *mode ? mode : "-");
    table_cell(table, "%s", json_get_text(device, "database_id", "-"));
    table_cell(table, "%s", *uuid ? uuid : "-");
}

static int print_table(const struct json *devices, struct kiln_error *err)
{
    static const struct column columns[] = {
        { "NODE", ALIGN_RIGHT },   { "TARGET", ALIGN_LEFT }, { "UNITS", ALIGN_RIGHT },
        { "MEMORY", ALIGN_RIGHT }, { "MODE", ALIGN_LEFT },   { "DATABASE ID", ALIGN_LEFT },
        { "UUID", ALIGN_LEFT },
    };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 7);
    for (const struct json *j = json_first(devices); j; j = json_next(j))
        add_row(table, j);
    int rc = table_print(table, stdout, err);
    if (!rc)
        puts("\nThe targets do not state xnack, because it is a mode of each process.");
    return rc;
}

static int run_device_ls(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "devices", admin_no_arguments, &reply, err);
    if (rc)
        return rc;
    if (invocation->common->json)
        return output_json(reply, err);
    const struct json *devices = json_get(reply, "devices");
    const char *skipped = json_get_text(reply, "skipped", "");
    if (json_count(devices) == 0)
        puts("this host has no AMD GPU, or its driver does not show it");
    else
        rc = print_table(devices, err);
    if (*skipped)
        output_lines(stdout, "skipped: ", skipped);
    return rc;
}

const struct command command_device_ls = {
    .name = "device ls",
    .words = "",
    .summary = "list the AMD GPUs of this host, as kilnd sees them",
    .help =
        "Lists the AMD GPUs that the kernel driver shows in sysfs, without opening them.  Each\n"
        "partition of a device is a row with the device's uuid.  'kiln-driver devices' lists the\n"
        "devices of all vendors that can run kernels in this session.",
    .run = run_device_ls,
};
