/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The lines of a job's trace.  docs/formats/trace.md describes the format.
 *
 * Role       turns lines into text and text into lines; nothing in the text is trusted
 * Ownership  a parsed line borrows its words from the text
 * Threading  pure functions
 */
#include "common/base/bytes.h"

#define TRACE_FIRST_LINE "kiln-trace 1"
/* bytes of a line, including the line end */
#define TRACE_LINE_MAX 1024u
#define TRACE_WORD_MAX 255u
/* Maximum of a number in a line: 2^53, so that a program may store every number in a double. */
#define TRACE_NUMBER_MAX 9007199254740992ull

enum trace_kind {
    TRACE_PROCESS, /* the process that wrote the file */
    TRACE_PLAN,    /* a plan that the process requested */
    TRACE_OBJECT,  /* a code object of the plan above, or of a prefetch */
    TRACE_KERNEL,  /* a kernel that the process requested by its key, name or source */
    TRACE_COMPILE, /* a compile that the process wanted from its own NVRTC, hiprtc or comgr */
    TRACE_CUT,     /* the file reached a limit, so later lines are missing */
};

enum trace_tier {
    TRACE_HOT,
    TRACE_DISK,
    TRACE_PACKAGE,
    TRACE_FLEET,
    TRACE_COMPILED, /* kilnd compiled the kernel for this request */
    TRACE_OWN,      /* the process compiled the kernel with its own library */
    TRACE_FAILED,   /* the request failed */
    TRACE_TIERS,
};

/* |kind| determines which members a line has.  An absent word is empty. */
struct trace_line {
    enum trace_kind kind;
    enum trace_tier tier;
    uint64_t start_us;  /* when the process opened its client, since the epoch */
    uint64_t wanted_us; /* since |start_us| */
    uint64_t waited_us;
    uint64_t compile_us; /* 0 if unknown */
    uint64_t pid;
    struct bytes host, target, database_id, toolchain, solver;
    struct bytes key;  /* 64 hexadecimal digits */
    struct bytes rest; /* the problem, the name and version of the software, or the limit */
};

enum trace_verdict {
    TRACE_VALID,
    TRACE_UNKNOWN, /* a kind that only newer versions know; readers skip the line */
    TRACE_DAMAGED,
};

/* |text| has no line end. */
enum trace_verdict trace_line_parse(struct bytes text, struct trace_line *ret_line);
/* Appends the line with its line end.  Returns false, and appends nothing, if a word contains
 * characters that a line cannot have, or if the line is too long. */
bool trace_line_write(const struct trace_line *line, struct buffer *to);

const char *trace_tier_name(enum trace_tier tier);
