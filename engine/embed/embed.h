/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The transport of a program that has the engine linked in: a call into the engine, under one
 * mutex.
 *
 * Role       Receiving runs waiting tasks (direct_executor.h) on the receiver's thread until a
 *            reply is ready.  Nothing runs between two calls
 * Ownership  there is one engine for the process: the first transport opens it, and the last one
 *            closes it.  The setup of the first transport is used; the objects that it borrows must
 *            stay valid for the life of the process
 * Threading  any thread.  The engine's mutex is released only while a thread waits for the compiler
 *            or for another thread's work
 * Fork       a child opens its own engine with its first transport; its parent's transports return
 *            KILN_UNAVAILABLE in the child.  A child that was forked while a thread was inside the
 *            engine can never open an engine
 */
#include "common/protocol/transport.h"
#include "engine/embed/embed_compiler.h"

struct engine_data;

struct embed_setup {
    const struct engine_data *data;
    struct embed_compiler *compiler; /* borrowed; NULL: kernels cannot be compiled */
};

KILN_MUST_CHECK enum kiln_code embed_connect(const struct embed_setup *setup,
                                             struct transport **ret_transport,
                                             struct kiln_err *err);
