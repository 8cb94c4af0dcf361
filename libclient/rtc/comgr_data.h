/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads and creates the data objects of comgr.
 *
 * Role       reads the inputs and the results of an action, and adds a stored result to a set.
 *            Checks the bytes of a stored result, because any program may have sent them to kilnd
 * Ownership  comgr owns the objects; the sets are borrowed
 * Threading  any thread; calls for one set must not overlap, as comgr requires
 */
#include "libclient/rtc/program.h"

bool comgr_set_is_empty(const struct comgr_functions *f, struct comgr_handle set);
/* Adds the kinds, names and digests of the inputs to the |action| of |p|, and sets the |source| and
 * |name| of |p|.  Returns NULL, or why the action cannot be looked up. */
const char *comgr_take_inputs(const struct comgr_functions *f, struct comgr_handle set,
                              struct rtc_program *p);
/* Appends the objects of |set| to |to|.  Returns false if an object cannot be read. */
bool comgr_put_results(const struct comgr_functions *f, struct comgr_handle set, struct buffer *to);
/* Adds objects to |set|, which must be empty. |results| are the bytes that comgr_put_results
 * appended.  On failure, returns false and leaves the set empty. */
bool comgr_add_results(const struct comgr_functions *f, struct comgr_handle set,
                       struct bytes results);
