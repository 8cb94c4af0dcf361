/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Doubly linked lists whose links are members of the items.
 *
 * Ownership  a list owns nothing; an item must leave its list before it is freed
 * Threading  plain values; the owner of the list synchronises access
 *
 *     struct job { struct list_link link; int number; };
 *
 *     struct list jobs = LIST_INIT(jobs);
 *     list_append(&jobs, &job->link);
 *     struct job *first = LIST_FIRST(&jobs, struct job, link);
 *     LIST_EACH (&jobs, struct job, link, j)
 *         printf("%d\n", j->number);
 */
#include <stdbool.h>
#include <stddef.h>

struct list_link {
    struct list_link *next, *previous; /* NULL if the item is in no list */
};

/* A ring: |head.next| is the first item, and |head.previous| is the last one. */
struct list {
    struct list_link head;
};

#define LIST_INIT(list)                \
    {                                  \
        {                              \
            &(list).head, &(list).head \
        }                              \
    }

#define LIST_ENTRY(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define LIST_FIRST(list, type, member) \
    (list_is_empty(list) ? NULL : LIST_ENTRY((list)->head.next, type, member))

#define LIST_POP(list, type, member) \
    (list_is_empty(list) ? NULL : LIST_ENTRY(list_pop(list), type, member))

#define LIST_LAST(list, type, member) \
    (list_is_empty(list) ? NULL : LIST_ENTRY((list)->head.previous, type, member))

/* At the end of a loop, |item| is computed from the list's head and is not a real item, so only its
 * link may be used. */
#define LIST_LINK(item, type, member) \
    ((struct list_link *)(void *)((char *)(item) + offsetof(type, member)))

/* The body may remove and free |item|, but no other item. */
#define LIST_EACH(list, type, member, item)                                                 \
    for (type *item = LIST_ENTRY((list)->head.next, type, member),                          \
              *item##_next = LIST_ENTRY(LIST_LINK(item, type, member)->next, type, member); \
         LIST_LINK(item, type, member) != &(list)->head; item = item##_next,                \
              item##_next = LIST_ENTRY(LIST_LINK(item, type, member)->next, type, member))

#define LIST_EACH_BACK(list, type, member, item)                                                \
    for (type *item = LIST_ENTRY((list)->head.previous, type, member),                          \
              *item##_next = LIST_ENTRY(LIST_LINK(item, type, member)->previous, type, member); \
         LIST_LINK(item, type, member) != &(list)->head; item = item##_next,                    \
              item##_next = LIST_ENTRY(LIST_LINK(item, type, member)->previous, type, member))

static inline void list_init(struct list *list)
{
    list->head.next = list->head.previous = &list->head;
}

static inline bool list_is_empty(const struct list *list) { return list->head.next == &list->head; }
static inline bool list_holds(const struct list_link *link) { return link->next != NULL; }

static inline void list_insert_behind(struct list_link *place, struct list_link *link)
{
    link->previous = place;
    link->next = place->next;
    place->next->previous = link;
    place->next = link;
}

static inline void list_prepend(struct list *list, struct list_link *link)
{
    list_insert_behind(&list->head, link);
}

static inline void list_append(struct list *list, struct list_link *link)
{
    list_insert_behind(list->head.previous, link);
}

/* Does nothing if |link| is in no list. */
static inline void list_remove(struct list_link *link)
{
    if (!link->next)
        return;
    link->previous->next = link->next;
    link->next->previous = link->previous;
    link->next = link->previous = NULL;
}

static inline struct list_link *list_pop(struct list *list)
{
    struct list_link *link = list_is_empty(list) ? NULL : list->head.next;
    if (link)
        list_remove(link);
    return link;
}

static inline void list_append_all(struct list *list, struct list *from)
{
    if (list_is_empty(from))
        return;
    from->head.next->previous = list->head.previous;
    from->head.previous->next = &list->head;
    list->head.previous->next = from->head.next;
    list->head.previous = from->head.previous;
    list_init(from);
}
