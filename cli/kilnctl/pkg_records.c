/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/pkg_records.h"

#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/db_send.h"
#include "common/base/bytes.h"

#include <string.h>
#include <unistd.h>

#define FILES_MAX 8
/* how the name of a row with tuning records begins (docs/formats/kpkg.md) */
#define ROW_NAME "!records/"

struct files {
    int fds[FILES_MAX];
    size_t count;
};

static void files_done(struct files *files)
{
    for (size_t i = 0; i < files->count; i++)
        close(files->fds[i]);
}

static int ask_files(const struct invocation *invocation, const char *package, struct files *files,
                     struct json **ret_shown, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    json_set_text(ask, "name", package);
    json_set_u64(ask, "count", 0);
    json_set_bool(ask, "records", true);
    const struct admin_call call = { .request = "package_show",
                                     .arguments = ask,
                                     ADMIN_CALL_INIT,
                                     .ret_files = files->fds,
                                     .ret_files_max = FILES_MAX,
                                     .ret_file_count = &files->count };
    return admin_call(invocation, &call, ret_shown, err);
}

static int merge_file(const struct invocation *invocation, const char *name, int fd,
                      struct json *list, struct kiln_error *err)
{
    struct json *answer = NULL;
    struct db_sending sending = { .merges = true,
                                  .path = name,
                                  .name = name,
                                  .fd = fd,
                                  .tier = "host",
                                  .verbose_name = "--json" };
    int rc = db_send(invocation, &sending, &answer, err);
    if (rc)
        return rc;
    if (!invocation->common->json)
        db_send_print(&sending, answer);
    rc = db_send_judge(&sending, answer, err);
    json_append(list, answer);
    return rc;
}

/* An older kilnd does not return records.  Fails if the package has some: their rows come first. */
static int check_without_records(const struct invocation *invocation, const char *package,
                                 struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    KILN_AUTO(json) struct json *page = NULL;
    json_set_text(ask, "name", package);
    json_set_u64(ask, "count", 1);
    *err = (struct kiln_error){ 0 };
    int rc = admin_ask(invocation, "package_show", ask, &page, err);
    const char *first = json_get_text(json_first(json_get(page, "rows")), "name", "");
    if (rc || strncmp(first, ROW_NAME, strlen(ROW_NAME)) != 0)
        return rc;
    return cli_fail(err, KILN_E_UNSUPPORTED,
                    "'%.100s' is installed, but not its tuning records: this kilnd is older than "
                    "kilnctl and cannot read them.  Upgrade and restart kilnd, then install the "
                    "package again",
                    package);
}

int pkg_records_merge(const struct invocation *invocation, const char *package, struct json *reply,
                      struct kiln_error *err)
{
    __attribute__((cleanup(files_done))) struct files files = { .count = 0 };
    KILN_AUTO(json) struct json *shown = NULL;
    int rc = ask_files(invocation, package, &files, &shown, err);
    const struct json *name = json_first(json_get(shown, "records"));
    if (rc == KILN_E_INVALID)
        return check_without_records(invocation, package, err);
    if (rc || files.count == 0)
        return rc;
    struct json *list = json_set_array(reply, "records");
    for (size_t i = 0; i < files.count && name && !rc; i++, name = json_next(name))
        rc = merge_file(invocation, json_as_text(name, "?"), files.fds[i], list, err);
    return rc ? cli_while(err, "'%.100s' is installed, but not its tuning records", package) : rc;
}
