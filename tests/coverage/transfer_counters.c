/* SPDX-License-Identifier: MIT */
/* Writes kiln-transfer's coverage counters before kiln-transfer enters its sandbox, where it can no
 * longer write them. */
#include "engine/transfer/confine.h"

void __gcov_dump(void);

enum kiln_code __real_transfer_confine(const struct transfer_job *job,
                                       const struct transfer_user *user, struct kiln_err *err);
enum kiln_code __wrap_transfer_confine(const struct transfer_job *job,
                                       const struct transfer_user *user, struct kiln_err *err);
enum kiln_code __wrap_transfer_confine(const struct transfer_job *job,
                                       const struct transfer_user *user, struct kiln_err *err)
{
    __gcov_dump();
    return __real_transfer_confine(job, user, err);
}
