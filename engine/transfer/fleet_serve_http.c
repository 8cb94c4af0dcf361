/* SPDX-License-Identifier: MIT */
#include "engine/transfer/fleet_serve.h"

enum kiln_code fleet_serve_http(int socket, const struct url *url, struct kiln_err *err)
{
    (void)socket;
    return kiln_fail(err, KILN_UNSUPPORTED, "'%s' is not a directory", url->shown);
}
