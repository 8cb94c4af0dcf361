/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Temporary credentials of an S3 store, from a server on the machine's own network.
 *
 * Role       on EC2, the server for metadata (IMDSv2) has credentials of the instance profile. In
 *            containers of ECS and EKS, the variable AWS_CONTAINER_CREDENTIALS_FULL_URI or
 *            ..._RELATIVE_URI names a server
 * Ownership  a plain value
 * Threading  any thread, as long as none changes the environment. store_provider_read blocks
 *
 * Credentials are sent with each request, and whoever receives a session token can learn who the
 * host is. So they are used only for hosts of S3 at Amazon, and over https, unless the variable
 * AWS_EC2_METADATA_SERVICE_ENDPOINT is set.
 */
#include "engine/transfer/store_credentials.h"
#include "engine/transfer/url.h"

enum store_provider_kind { STORE_PROVIDER_NONE, STORE_PROVIDER_INSTANCE, STORE_PROVIDER_CONTAINER };

struct store_provider {
    enum store_provider_kind kind;
    char url[512]; /* of the server; for a container, of the credentials */
};

/* Finds where the credentials for |store| come from. Does not send a request. */
KILN_MUST_CHECK enum kiln_code store_provider_find(const struct url *store,
                                                   struct store_provider *ret_provider,
                                                   struct kiln_err *err);
/* Requests credentials, for at most six seconds. Keeps the region in |credentials|. Does not change
 * |credentials| if it fails. */
KILN_MUST_CHECK enum kiln_code store_provider_read(const struct store_provider *provider,
                                                   struct store_credentials *credentials,
                                                   struct kiln_err *err);
