/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The ranges of pack files that kiln-transfer reads ahead.
 *
 * Role       Jobs mostly need kernels that are adjacent in their pack, but request them one after
 *            the other, and not always in the order of the pack. So a range that begins to read a
 *            pack, or that is next to an earlier window, is extended. The window then also answers
 *            later requests, without a round trip. Other ranges are not extended, so that scattered
 *            kernels do not cost many bytes
 * Ownership  a window owns its requests and its bytes
 * Threading  one thread
 *
 * A window may be used again, because packs never change. It is dropped after FLEET_WINDOW_NS, so
 * that a mirror can replace a damaged pack.
 */
#include "common/base/bytes.h"
#include "common/base/list.h"
#include "engine/transfer/fleet_ranges.h"

/* Size of a range that is extended forwards. ResNet-50's 84 kernels have 201 KB. */
#define FLEET_WINDOW_SIZE (256u << 10)
/* Maximum number of windows, also of those that are still being read. */
#define FLEET_WINDOWS_MAX 32u
#define FLEET_WINDOW_NS 30000000000u
/* If no byte of a window comes for this time, further requests do not wait for it: its connection
 * may hang, and a look-up waits only 300 ms. */
#define FLEET_SILENCE_NS 100000000u

struct fleet_window {
    struct list_link link; /* in the list of windows, if the range was extended */
    /* |requests| is owned, and has the requests that have no answer yet. The first element has the
     * file's name even if |count| is 0. */
    struct fleet_range range;
    struct buffer body; /* owned; the bytes of the range that have come so far */
    uint64_t heard_ns;  /* when the reading began, or when bytes came last */
    uint64_t over_ns;   /* when the reading ended; 0: not yet */
};

/* Extends |range| forwards if it begins to read a file or continues a window, and back if a window
 * follows it. Returns whether it did. Extends nothing while FLEET_WINDOWS_MAX windows are being
 * read. */
bool fleet_windows_extend(const struct list *windows, struct fleet_range *range);
/* Lets a window answer |request|, now or when the bytes come. Returns false if no window has these
 * bytes or will soon have them, or if memory ran out. */
bool fleet_windows_take(const struct list *windows, int socket, const struct fleet_request *request,
                        uint64_t now_ns);
/* Returns a window that should be freed, because it is old, or because there is no place for
 * another one; or NULL. Windows that are being read stay. */
struct fleet_window *fleet_windows_oldest(const struct list *windows, uint64_t now_ns);
/* Answers the requests whose bytes have come. */
void fleet_window_answer(struct fleet_window *window, int socket);
/* Answers all other requests. */
void fleet_window_refuse(struct fleet_window *window, int socket, struct fleet_answer answer);
