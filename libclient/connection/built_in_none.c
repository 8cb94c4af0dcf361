/* SPDX-License-Identifier: MIT */
#include "libclient/connection/built_in.h"

bool built_in_is_here(void) { return false; }

enum kiln_code built_in_connect(struct transport **ret_transport, struct kiln_err *err)
{
    (void)ret_transport;
    return kiln_fail(err, KILN_UNSUPPORTED, "no engine is built into this program");
}
