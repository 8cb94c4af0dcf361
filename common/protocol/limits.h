/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Every limit that both ends of the socket must agree on.  A limit that only one module needs is at
 * the top of that module's file.
 */

/* The body of a frame.  A body can hold a kernel's source with all its headers: Composable Kernel's
 * largest preprocessed translation unit has about 2 MiB. */
#define LIMIT_FRAME_BODY (8u << 20)
/* Linux passes at most 253 descriptors in one message (SCM_MAX_FD). */
#define LIMIT_FRAME_DESCRIPTORS 253u
/* Files that are passed with one request: a package and its manifest. */
#define LIMIT_REQUEST_FILES 2u
/* Unanswered requests of one connection. */
#define LIMIT_REQUESTS_IN_FLIGHT 1024u
/* Items in one batch. */
#define LIMIT_BATCH_ITEMS 4096u
/* Maximum bytes of one code object.  The largest in AMD's packages is 19 MiB. */
#define LIMIT_CODE_OBJECT (256u << 20)
/* A compiler's log that is stored or sent.  From a longer log, the middle is removed. */
#define LIMIT_COMPILE_LOG (64u << 10)
/* An object sent inside the frame.  Up to this size, a copy costs less than passing, checking and
 * mapping a descriptor (docs/decisions/0004-small-objects-inline.md). */
#define LIMIT_INLINE_OBJECT (16u << 10)
/* A target's text, including the terminating NUL. */
#define LIMIT_TARGET_TEXT 160u
/* Maximum bytes of the name of a program or a header. */
#define LIMIT_PROGRAM_NAME 255u
/* The options of one kernel, in bytes. */
#define LIMIT_OPTIONS_TEXT (16u << 10)
/* Maximum bytes of the name of a kernel of MIOpen, and of the kernel's arguments. */
#define LIMIT_NAMED_TEXT (64u << 10)
/* Headers of one source. */
#define LIMIT_HEADERS 256u
/* Kernels in one plan. */
#define LIMIT_PLAN_KERNELS 8u
/* Arguments of one kernel. */
#define LIMIT_KERNEL_ARGUMENTS 32u
/* CUDA tensor maps of one plan.  Backward data with strides of two needs five, and nine in 3-D. */
#define LIMIT_PLAN_MAPS 9u
