/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Looks up users and groups in the host's name service (nsswitch.conf).
 *
 * Role       asks glibc in a child process, because glibc's first look-up in a process crashes if
 *            an allocation fails (seen with 2.36: SIGSEGV, or an assertion in nss_database.c)
 * Ownership  plain values
 * Threading  any thread; blocks for up to 30 s, and may use the network
 */
#include "common/base/err.h"

#include <sys/types.h>

struct name_service_user {
    uid_t uid;
    gid_t gid;
    char name[64];
};

/* Return KILN_NOT_FOUND, without a message, if the host has no such user or group. */
KILN_MUST_CHECK enum kiln_code name_service_user(const char *name,
                                                 struct name_service_user *ret_user,
                                                 struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code name_service_user_of_uid(uid_t uid,
                                                        struct name_service_user *ret_user,
                                                        struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code name_service_group(const char *name, gid_t *ret_gid,
                                                  struct kiln_err *err);
