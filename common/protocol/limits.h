/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Every limit that both ends of the socket must agree on.  A limit that only one module needs is at
 * the top of that module's file.
 */

/* Maximum bytes of a frame's body.  A body can hold a kernel's source with all its headers:
 * Composable Kernel's largest preprocessed translation unit has about 2 MiB. */
#define LIMIT_FRAME_BODY (8u << 20)
/* Maximum number of descriptors in one message, as in Linux (SCM_MAX_FD). */
#define LIMIT_FRAME_DESCRIPTORS 253u
/* Maximum number of files that are passed with one request: a package and its manifest. */
#define LIMIT_REQUEST_FILES 2u
/* Maximum number of unanswered requests of one connection. */
#define LIMIT_REQUESTS_IN_FLIGHT 1024u
/* Maximum number of items in one batch. */
#define LIMIT_BATCH_ITEMS 4096u
/* Maximum bytes of one code object.  The largest in AMD's packages is 19 MiB. */
#define LIMIT_CODE_OBJECT (256u << 20)
/* Maximum bytes of a compiler's log that is stored or sent.  The middle of a longer log is
 * removed. */
#define LIMIT_COMPILE_LOG (64u << 10)
/* Maximum bytes of an object that is sent inside a frame.  Up to this size, a copy costs less than
 * passing, checking and mapping a descriptor (docs/decisions/0004-small-objects-inline.md). */
#define LIMIT_INLINE_OBJECT (16u << 10)
/* Maximum bytes of a target's text, including the terminating NUL. */
#define LIMIT_TARGET_TEXT 160u
/* Maximum bytes of the name of a program or a header. */
#define LIMIT_PROGRAM_NAME 255u
/* Maximum bytes of the options of one kernel. */
#define LIMIT_OPTIONS_TEXT (16u << 10)
/* Maximum bytes of the name of a kernel of MIOpen, and of the kernel's arguments. */
#define LIMIT_NAMED_TEXT (64u << 10)
/* Maximum number of headers of one source. */
#define LIMIT_HEADERS 256u
/* Maximum number of kernels in one plan. */
#define LIMIT_PLAN_KERNELS 8u
/* Maximum number of arguments of one kernel. */
#define LIMIT_KERNEL_ARGUMENTS 32u
/* Maximum number of CUDA tensor maps of one plan.  A plan for backward data with strides of two
 * needs five of them, or nine in 3-D. */
#define LIMIT_PLAN_MAPS 9u
