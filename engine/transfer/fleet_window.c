/* SPDX-License-Identifier: MIT */
#include "engine/transfer/fleet_window.h"

#include "engine/transfer/fleet_serve.h"

#include <stdlib.h>
#include <string.h>

/* Returns the end of the window's bytes, or of those that will come. A file may end before the
 * range that was requested. */
static uint64_t end_of(const struct fleet_window *window)
{
    return window->over_ns ? window->range.first + window->body.size : window->range.end;
}

static bool has_file(const struct fleet_window *window, const char *name)
{
    return strcmp(window->range.requests->name, name) == 0;
}

static bool continues(const struct fleet_window *window, const struct fleet_range *range)
{
    uint64_t end = end_of(window);
    return range->first >= window->range.first &&
           (range->first <= end || range->first - end <= FLEET_GAP_MAX);
}

static bool precedes(const struct fleet_range *range, const struct fleet_window *window)
{
    return range->end <= window->range.first && window->range.first - range->end <= FLEET_GAP_MAX;
}

static void extend_back(struct fleet_range *range, uint64_t end)
{
    uint64_t first = end > FLEET_GAP_MAX ? end - FLEET_GAP_MAX : 0;
    range->first = range->first < first ? range->first : first;
    range->end = end;
}

/* The number is limited because each window may have much more bytes than its requests need. */
static bool may_begin(const struct list *windows)
{
    unsigned reading = 0;
    LIST_EACH (windows, const struct fleet_window, link, window)
        reading += window->over_ns == 0;
    return reading < FLEET_WINDOWS_MAX;
}

bool fleet_windows_extend(const struct list *windows, struct fleet_range *range)
{
    const struct fleet_window *behind = NULL;
    bool is_new = true, is_next = false;
    uint64_t size = range->end - range->first;
    if (size == 0 || size >= FLEET_WINDOW_SIZE || !may_begin(windows))
        return false;
    LIST_EACH (windows, const struct fleet_window, link, window) {
        if (!has_file(window, range->requests->name))
            continue;
        is_new = false;
        is_next |= continues(window, range);
        behind = precedes(range, window) ? window : behind;
    }
    if (behind)
        extend_back(range, behind->range.first);
    else if (is_new || is_next)
        range->end = range->first + FLEET_WINDOW_SIZE;
    return behind || is_new || is_next;
}

static bool has_come(const struct fleet_window *window, const struct fleet_request *request)
{
    return request->offset - window->range.first + request->size <= window->body.size;
}

static bool covers(const struct fleet_window *window, const struct fleet_request *request)
{
    return request->size > 0 && request->offset >= window->range.first &&
           request->offset <= end_of(window) && request->size <= end_of(window) - request->offset;
}

static bool is_silent(const struct fleet_window *window, uint64_t now_ns)
{
    return window->over_ns == 0 && now_ns - window->heard_ns >= FLEET_SILENCE_NS;
}

static bool add_request(struct fleet_window *window, const struct fleet_request *request)
{
    struct fleet_range *range = &window->range;
    struct fleet_request *longer =
        reallocarray(range->requests, range->count + 1, sizeof(*range->requests));
    if (!longer)
        return false;
    range->requests = longer;
    range->requests[range->count++] = *request;
    return true;
}

bool fleet_windows_take(const struct list *windows, int socket, const struct fleet_request *request,
                        uint64_t now_ns)
{
    LIST_EACH (windows, struct fleet_window, link, window) {
        if (!has_file(window, request->name) || !covers(window, request) ||
            (is_silent(window, now_ns) && !has_come(window, request)))
            continue;
        if (!add_request(window, request))
            return false;
        fleet_window_answer(window, socket);
        return true;
    }
    return false;
}

struct fleet_window *fleet_windows_oldest(const struct list *windows, uint64_t now_ns)
{
    unsigned count = 0;
    struct fleet_window *oldest = NULL;
    LIST_EACH (windows, struct fleet_window, link, window) {
        count++;
        if (window->over_ns && (!oldest || window->over_ns < oldest->over_ns))
            oldest = window;
    }
    bool is_due =
        oldest && (count >= FLEET_WINDOWS_MAX || now_ns - oldest->over_ns >= FLEET_WINDOW_NS);
    return is_due ? oldest : NULL;
}

static struct bytes content_of(const struct fleet_window *window,
                               const struct fleet_request *request)
{
    return bytes_of(window->body.data + (request->offset - window->range.first),
                    (size_t)request->size);
}

/* Keeps the order of the requests, because kilnd sent those first that jobs wait for. */
void fleet_window_answer(struct fleet_window *window, int socket)
{
    struct fleet_range *range = &window->range;
    size_t left = 0;
    for (size_t i = 0; i < range->count; i++) {
        const struct fleet_request *request = &range->requests[i];
        if (has_come(window, request))
            fleet_serve_answer(socket, request, (struct fleet_answer){ .end = FLEET_END_DONE },
                               content_of(window, request));
        else
            range->requests[left++] = *request;
    }
    range->count = left;
}

void fleet_window_refuse(struct fleet_window *window, int socket, struct fleet_answer answer)
{
    for (size_t i = 0; i < window->range.count; i++)
        fleet_serve_answer(socket, &window->range.requests[i], answer, (struct bytes){ 0 });
    window->range.count = 0;
}
