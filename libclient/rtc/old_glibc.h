/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The oldest symbol versions of glibc's functions.
 *
 * Role       libkiln-rtc is loaded into programs of other systems, so it uses no symbol that is
 *            newer than glibc 2.28.  The linker replaces calls of functions with a newer version by
 *            those in old_glibc.c
 * Threading  constants
 */

#if defined(__x86_64__)
#define GLIBC_OLDEST "GLIBC_2.2.5"
#define GLIBC_2_3_3 "GLIBC_2.3.3"
#define GLIBC_STAT_VERSION 1 /* the first argument of __xstat */
#elif defined(__aarch64__)
#define GLIBC_OLDEST "GLIBC_2.17"
#define GLIBC_2_3_3 "GLIBC_2.17"
#define GLIBC_STAT_VERSION 0
#else
#error "libkiln-rtc knows x86-64 and AArch64"
#endif
