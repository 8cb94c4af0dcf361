/* SPDX-License-Identifier: MIT */
#include "engine/transfer/confine.h"

#include "common/base/cleanup.h"
#include "engine/sandbox/capabilities.h"
#include "engine/sandbox/change_user.h"
#include "engine/sandbox/landlock.h"
#include "engine/sandbox/syscall_filter.h"
#include "engine/transfer/url.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#define READ_FILE LANDLOCK_ACCESS_FS_READ_FILE
#define READ (READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE                                                             \
    (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_TRUNCATE)

/* Allows |directory| without its subdirectory "private". |directory| contains the trusted
 * certificate authorities. Its "private" contains the private keys of this host's servers. */
static void allow_all_but_private(const struct landlock_rules *rules, const char *directory)
{
    char path[512];
    DIR *entries = opendir(directory);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "private") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        landlock_allow(rules, path, READ);
    }
    if (entries)
        closedir(entries);
}

static void allow_system(const struct landlock_rules *rules)
{
    static const char *const read[] = {
        "/usr",
        "/lib",
        "/lib32",
        "/lib64",
        "/nix/store",
        "/etc/ld.so.cache",
        "/etc/ld.so.preload",
        "/etc/resolv.conf",
        "/etc/nsswitch.conf",
        "/etc/hosts",
        "/etc/host.conf",
        "/etc/gai.conf",
        "/etc/services",
        "/run/systemd/resolve",
        "/etc/pki/ca-trust",
        "/etc/pki/nssdb",
        "/etc/ca-certificates",
        "/etc/crypto-policies",
        "/dev/null",
        "/dev/urandom",
    };
    static const char *const variables[] = { "SSL_CERT_FILE", "SSL_CERT_DIR" };
    for (size_t i = 0; i < sizeof(read) / sizeof(read[0]); i++)
        landlock_allow(rules, read[i], READ);
    allow_all_but_private(rules, "/etc/ssl");
    allow_all_but_private(rules, "/etc/pki/tls");
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = getenv(variables[i]);
        if (value && strcmp(value, "/") != 0)
            landlock_allow(rules, value, READ);
    }
}

static void allow_source(const struct landlock_rules *rules, const char *text)
{
    KILN_AUTO(url) struct url url = { 0 };
    struct kiln_err ignored = KILN_ERR_INIT; /* a URL that is not valid is reported later, by the
                                              * transfer */
    char manifest[URL_MAX + 64];
    if (!text || url_parse(text, &url, &ignored) || url.scheme != URL_FILE)
        return;
    snprintf(manifest, sizeof(manifest), "%s.manifest", url.path);
    landlock_allow(rules, url.path, READ_FILE);
    landlock_allow(rules, manifest, READ_FILE);
}

typedef void allower(const struct landlock_rules *rules, const void *context);

static void allow_job(const struct landlock_rules *rules, const void *context)
{
    const struct transfer_job *job = context;
    allow_source(rules, job->url);
    landlock_allow(rules, job->trusted_keys, READ);
    landlock_allow(rules, job->staging, WRITE);
}

/* Allows the directory of the file with the token for credentials
 * (engine/transfer/store_provider.h). The file is replaced from time to time, so a rule for the
 * file would not be enough. */
static void allow_token(const struct landlock_rules *rules)
{
    char directory[512];
    const char *path = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (!slash || slash == path)
        return;
    int size = snprintf(directory, sizeof(directory), "%.*s", (int)(slash - path), path);
    if (size > 0 && (size_t)size < sizeof(directory))
        landlock_allow(rules, directory, READ);
}

static void allow_tree(const struct landlock_rules *rules, const void *context)
{
    const struct fleet_tree_place *place = context;
    if (place->reads_token)
        allow_token(rules);
    if (place->directory)
        landlock_allow(rules, place->directory,
                       place->writes ? WRITE | LANDLOCK_ACCESS_FS_MAKE_DIR : READ);
}

static enum kiln_code confine_files(allower *allow, const void *context, struct kiln_err *err)
{
    struct landlock_rules rules;
    unsigned version = landlock_version();
    if (version == 0)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "this kernel has no Landlock: it is older than Linux 5.13, or Landlock is "
                         "switched off");
    struct landlock_rights handled = landlock_rights(version);
    handled.network &= LANDLOCK_BIND_TCP; /* connecting stays allowed; only listening on a port is
                                           * forbidden */
    enum kiln_code rc = landlock_begin(&handled, &rules, err);
    if (rc)
        return rc;
    allow_system(&rules);
    allow(&rules, context);
    return landlock_enforce(&rules, err);
}

/* Adds the Landlock rules before it switches the user: adding a rule opens the file, which the new
 * user may not be allowed to do. */
static enum kiln_code confine_process(allower *allow, const void *context,
                                      const struct transfer_user *user, struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return kiln_fail_errno(err, errno,
                               "cannot prevent a transfer process from gaining privileges");
    enum kiln_code confined = confine_files(allow, context, err);
    if (confined && confined != KILN_UNSUPPORTED)
        return kiln_while(err, "confining a transfer process");
    enum kiln_code rc = user ? change_user(user->uid, user->gid, "transfer_user", &why) : KILN_OK;
    if (!rc && !give_up_capabilities())
        rc = kiln_fail_errno(&why, errno, "cannot give up the privileges of a transfer process");
    if (!rc && syscall_filter_transfers(&why)) {
        if (why.code != KILN_UNSUPPORTED)
            rc = why.code;
        else if (confined == KILN_OK)
            *err = why;
        confined = KILN_UNSUPPORTED;
    }
    if (rc)
        *err = why;
    return rc ? rc : confined;
}

enum kiln_code transfer_confine(const struct transfer_job *job, const struct transfer_user *user,
                                struct kiln_err *err)
{
    return confine_process(allow_job, job, user, err);
}

enum kiln_code fleet_confine(const struct fleet_tree_place *place, const struct transfer_user *user,
                             struct kiln_err *err)
{
    return confine_process(allow_tree, place, user, err);
}
