/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Wrappers of comgr, AMD's compiler library.
 *
 * Role       answers those actions of amd_comgr_do_action that compile or link.  Treats each action
 *            as a separate compile.  Makes the objects of a stored result with comgr's own
 *            functions, so that all functions of comgr accept them
 * Ownership  comgr owns all its objects.  The ISA and the directory of an action are copied when
 *            the application sets them, because comgr 2.4 crashes if it is asked for an ISA or a
 *            directory that is not set.  The choices about device libraries and the VFS (virtual
 *            file system) are kept, too, because comgr cannot return them
 * Threading  any thread; calls for one action must not overlap, as comgr requires
 */
#include "libclient/rtc/api.h"

struct comgr_call {
    int kind;
    struct comgr_handle info, inputs, results;
};

/* The comgr_* functions do what the real functions do, but use results from kilnd if there are
 * any. */
int comgr_act(struct rtc_library *library, const struct comgr_call *call);
int comgr_create_info(struct rtc_library *library, struct comgr_handle *ret_info);
int comgr_destroy_info(struct rtc_library *library, struct comgr_handle info);
int comgr_set_isa(struct rtc_library *library, struct comgr_handle handle, const char *isa);
int comgr_set_directory(struct rtc_library *library, struct comgr_handle handle, const char *path);
int comgr_set_device_libraries(struct rtc_library *library, struct comgr_handle handle, bool links);
int comgr_set_vfs(struct rtc_library *library, struct comgr_handle handle, bool is_used);
