/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/fleet_place.h"

#include "cli/kilnctl/snapshot_program.h"
#include "cli/kilnctl/transfer_start.h"
#include "common/base/cleanup.h"
#include "engine/fleet/fleet_tree.h"

#include <errno.h>
#include <strings.h>
#include <sys/wait.h>

static bool is_url(const char *word)
{
    return strncasecmp(word, "https://", 8) == 0 || strncasecmp(word, "http://", 7) == 0;
}

/* kiln-transfer ends when the socket is closed. */
void fleet_place_close(struct fleet_place *place)
{
    if (!place->store)
        return;
    if (!place->is_remote) {
        fd_close(&place->lock);
        fd_close(&place->directory.root);
        return;
    }
    fleet_remote_close(&place->remote);
    while (waitpid(place->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static int open_remote(const char *url, enum fleet_place_use use, struct fleet_place *place,
                       struct kiln_error *err)
{
    char *const argv[] = { (char *)(uintptr_t) "kiln-transfer", (char *)(uintptr_t) "--fleet",
                           NULL };
    char program[PATH_MAX];
    struct kiln_err why = KILN_ERR_INIT;
    int socket = -1;
    if (!snapshot_program_find(program))
        return cli_fail(err, KILN_E_UNSUPPORTED,
                        "the program kiln-transfer, which reaches '%s', is not installed", url);
    int rc = transfer_start(program, argv, &socket, &place->pid, err);
    if (rc)
        return rc;
    place->is_remote = true;
    place->store = &place->remote.store;
    enum kiln_code opened = fleet_remote_open(socket, url, &place->remote, &why);
    if (!opened && use == FLEET_PLACE_CHANGE)
        opened = fleet_remote_probe(&place->remote, &place->is_exclusive, &why);
    return opened ? cli_fail(err, opened, "%s", why.text) : KILN_E_OK;
}

/* Returns the path of a directory, which may also be given as kilnd's setting 'fleet' has it. */
static const char *path_of(const char *word)
{
    static const char scheme[] = "file://";
    const size_t size = sizeof(scheme) - 1;
    return strncasecmp(word, scheme, size) == 0 && word[size] == '/' ? word + size : word;
}

static int open_directory(const char *path, enum fleet_place_use use, struct fleet_place *place,
                          struct kiln_error *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    int root = -1;
    enum kiln_code rc = fleet_tree_open(path, &root, &why);
    if (rc)
        return cli_fail(err, rc, "%s", why.text);
    place->directory = fleet_directory_of(root);
    place->store = &place->directory.store;
    if (use == FLEET_PLACE_CHANGE)
        rc = fleet_tree_lock(root, &place->lock, &why);
    place->is_exclusive = place->lock >= 0;
    return rc ? cli_fail(err, rc, "%s", why.text) : KILN_E_OK;
}

int fleet_place_open(const char *word, enum fleet_place_use use, struct fleet_place *ret_place,
                     struct kiln_error *err)
{
    *ret_place = (struct fleet_place){ .lock = -1 };
    int rc = is_url(word) ? open_remote(word, use, ret_place, err)
                          : open_directory(path_of(word), use, ret_place, err);
    if (rc) {
        fleet_place_close(ret_place);
        ret_place->store = NULL;
    }
    return rc;
}
