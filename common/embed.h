/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The way from libkiln to the engine that is linked into the same program (KILN_EMBED_BUILD).
 *
 * Role       the two are one archive of two objects whose other names are hidden from each other:
 *            this is all that passes between them, and what the program has built in
 * Threading  any thread
 */
#include "common/transport.h"

struct engine_data;
/* What was built into the program (db/embed). */
__attribute__((visibility("default"))) extern const struct engine_data kiln_built_in;

/* A connection to the engine in this process, which opens with the first and closes with the last.
 * |compiles|: what is not built in is compiled by a kiln-compiler of this host.
 *   KILN_UNAVAILABLE  this process was forked while another thread was inside the engine */
__attribute__((visibility("default"))) KILN_MUST_CHECK enum kiln_code kiln_embed_connect(
    bool compiles, struct transport **ret_transport, struct kiln_err *err);
