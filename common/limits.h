/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Every bound that both ends of the socket must agree on, in one place.  Limits that
 * only one module knows stand at the top of that module's file.
 */

/* A frame's body.  Sources of real kernels with all their headers stay under 2 MiB
 * (Composable Kernel's largest preprocessed unit is about that). */
#define LIMIT_FRAME_BODY (8u << 20)
/* Linux passes at most 253 descriptors in one message (SCM_MAX_FD). */
#define LIMIT_FRAME_DESCRIPTORS 253u
/* Requests that one connection may have unanswered. */
#define LIMIT_REQUESTS_IN_FLIGHT 1024u
/* Items in one batch. */
#define LIMIT_BATCH_ITEMS 4096u
/* One code object.  The largest in AMD's packages is 19 MiB. */
#define LIMIT_CODE_OBJECT (256u << 20)
/* A compiler's log as it is kept and sent; the middle is cut out beyond this. */
#define LIMIT_COMPILE_LOG (64u << 10)
/* Text fields. */
#define LIMIT_TARGET_TEXT 160u
#define LIMIT_PROGRAM_NAME 255u
#define LIMIT_OPTIONS_TEXT (16u << 10)
#define LIMIT_HEADERS 256u
/* Kernels in one plan and arguments of one kernel. */
#define LIMIT_PLAN_KERNELS 8u
#define LIMIT_KERNEL_ARGUMENTS 32u
