/* SPDX-License-Identifier: MIT */
#include "daemon/config/config_check.h"

#include "common/base/fs.h"
#include "engine/fleet/fleet_trust.h"

#include <stdio.h>
#include <string.h>

static enum kiln_code find_user(const struct worker_kind *kind, const char *service,
                                const char *name, struct worker_user *ret_user,
                                struct kiln_err *err)
{
    return *service ? worker_user_of_service(kind, ret_user, err)
                    : worker_user_find(kind, name, ret_user, err);
}

enum kiln_code config_find_users(const struct config *c, struct config_users *ret_users,
                                 struct kiln_err *err)
{
    struct config_users users;
    enum kiln_code rc = find_user(&worker_compilers, config_text(c, CONFIG_compiler_service),
                                  config_text(c, CONFIG_compiler_user), &users.compilers, err);
    if (!rc)
        rc = find_user(&worker_transfers, config_text(c, CONFIG_transfer_service),
                       config_text(c, CONFIG_transfer_user), &users.transfers, err);
    if (!rc)
        rc = worker_users_differ(&users.compilers, &users.transfers, err);
    if (!rc)
        *ret_users = users;
    return rc;
}

static enum kiln_code check_directory(const struct config *c, enum config_key key,
                                      struct kiln_err *err)
{
    char path[PATH_TEXT_MAX];
    snprintf(path, sizeof(path), "%s", config_text(c, key));
    (void)fs_cut_to_existing(path);
    return fs_refuse_network(path, config_table[key].key, err);
}

static enum kiln_code check_builder(const struct config *c, struct kiln_err *err)
{
    struct fleet_signer signer;
    const char *file = config_text(c, CONFIG_fleet_builder);
    if (!*file || !*config_text(c, CONFIG_fleet))
        return KILN_OK;
    enum kiln_code rc = fleet_signer_read(file, &signer, err);
    explicit_bzero(&signer, sizeof(signer));
    return rc;
}

enum kiln_code config_check(const struct config *c, struct kiln_err *err)
{
    struct config_users users;
    enum kiln_code rc = check_directory(c, CONFIG_cache_dir, err);
    if (!rc)
        rc = check_directory(c, CONFIG_state_dir, err);
    if (!rc)
        rc = config_find_users(c, &users, err);
    return rc ? rc : check_builder(c, err);
}
