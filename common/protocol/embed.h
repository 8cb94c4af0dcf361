/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The interface between libkiln and the engine that is linked into the same program
 * (KILN_EMBED_BUILD).
 *
 * Role       libkiln and the engine are two objects of one archive, which share only these names
 * Ownership  the caller owns the transport; the data is static
 * Threading  any thread
 */
#include "common/protocol/transport.h"

struct engine_data;
__attribute__((visibility("default"))) extern const struct engine_data kiln_built_in;

/*
 * Connects to the engine in this process.  The engine is opened for the first connection, and
 * closed after the last one.  If |compiles| is true, a kiln-compiler of this host compiles kernels
 * that are not built in.
 *   KILN_UNAVAILABLE  this process was forked while another thread was inside the engine
 */
__attribute__((visibility("default"))) KILN_MUST_CHECK enum kiln_code kiln_embed_connect(
    bool compiles, struct transport **ret_transport, struct kiln_err *err);
