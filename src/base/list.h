/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* list.h - circular doubly linked list; a node that points to itself is on none */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>

#include "base/atomic.h"
#include "base/util.h"

struct list {
	struct list *next, *prev;
};

#define LIST_INIT(l) { &(l), &(l) }

static inline void list_init(struct list *l)
{
	l->prev = l;
	st_rlx(&l->next, l);
}
static inline bool list_empty(const struct list *l) { return l->next == l; }
/* Without the list's lock: a hint. */
static inline bool list_empty_rlx(const struct list *l) { return ld_rlx(&l->next) == l; }
static inline void list_insert(struct list *after, struct list *n)
{
	n->prev = after;
	n->next = after->next;
	after->next->prev = n;
	st_rlx(&after->next, n);
}
static inline void list_push(struct list *head, struct list *n) { list_insert(head->prev, n); }
static inline void list_del(struct list *n)
{
	st_rlx(&n->prev->next, n->next);
	n->next->prev = n->prev;
	list_init(n);
}
#define list_entry(p, type, member) container_of(p, type, member)
#define list_for_each(pos, head) \
	for (struct list *pos = (head)->next; pos != (head); pos = pos->next)
#define list_for_each_safe(pos, head) \
	for (struct list *pos = (head)->next, *_n = pos->next; pos != (head); pos = _n, _n = pos->next)

#endif
