/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Answers kilnd's requests for files of the fleet's tree, until kilnd closes the socket.
 *
 * Role       the work of kiln-transfer --fleet. The tree is in a directory (file:), or on a server
 *            (http:, https:), which must support ranges
 * Ownership  borrows everything, except the descriptors in requests, which it closes
 * Threading  one thread; blocks
 */
#include "common/base/bytes.h"
#include "engine/transfer/fleet_wire.h"
#include "engine/transfer/store_provider.h"
#include "engine/transfer/url.h"

struct fleet_source {
    const struct url *url;
    int directory; /* the tree of a file: URL; -1 for other URLs */
    struct store_credentials credentials;
    struct store_provider provider; /* if |credentials| has no id: who gives credentials */
};

/* Opens the directory of a file: URL, or reads the credentials for a server. Call this function
 * while the process still has kilnd's rights. */
KILN_MUST_CHECK enum kiln_code fleet_source_open(const struct url *url,
                                                 struct fleet_source *ret_source,
                                                 struct kiln_err *err);
/* Returns KILN_OK after kilnd has closed the socket. */
KILN_MUST_CHECK enum kiln_code fleet_serve(int socket, const struct fleet_source *source,
                                           struct kiln_err *err);

/* Answers |request|. Copies |answer|, but sets |id| and |fd| itself. |content| is not used unless
 * |answer.end| is FLEET_END_DONE. */
void fleet_serve_answer(int socket, const struct fleet_request *request, struct fleet_answer answer,
                        struct bytes content);
/* Does the work of fleet_serve for http: and https: URLs. */
KILN_MUST_CHECK enum kiln_code fleet_serve_http(int socket, const struct fleet_source *source,
                                                struct kiln_err *err);
