/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The transport of a program with the engine linked in: a call into the engine, under one mutex.
 *
 * Role       a transport is one caller of the engine.  Sending hands the frame to the service;
 *            receiving runs what waits (direct_executor.h) on the receiver's own thread until an
 *            answer is there.  There are no threads and no fork handlers here: nothing happens
 *            between two calls
 * Ownership  one engine for the process: it opens with the first transport and closes with the
 *            last.  The setup of the first counts; what it borrows stays for the process' life
 * Threading  any thread.  All of the engine runs under one mutex, which is free only while a thread
 *            waits: for the compiler, or for what another thread is to do
 * Fork       a child has an engine of its own from its first transport on; transports that its
 *            parent opened are UNAVAILABLE there.  A child that was forked while a thread was
 *            inside the engine cannot have one: KILN_UNAVAILABLE, for all of its life
 */
#include "common/transport.h"
#include "engine/embed/embed_compiler.h"

struct engine_data;

struct embed_setup {
    const struct engine_data *data;  /* borrowed */
    struct embed_compiler *compiler; /* borrowed; NULL: nothing is compiled */
};

KILN_MUST_CHECK enum kiln_code embed_connect(const struct embed_setup *setup,
                                             struct transport **ret_transport,
                                             struct kiln_err *err);
