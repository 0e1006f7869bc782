/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * page.h - what a process shows of itself: its counters, links and connections
 *
 * The counter blocks of base/counters.h stand in a shared mapping of a memfd,
 * with a table of links and one of connections behind them.  sidestep-stat
 * finds the descriptor among those in /proc/PID/fd by its name, opens that and
 * reads.  Why so, and not otherwise:
 *
 *   /proc/PID/fd	wants the right to look at the process (the same user, or
 *			root), as /proc/PID/maps does; no file is left behind, the
 *			kernel ends it with the process, nobody is asked to answer
 *   /proc/PID/mem, process_vm_readv()	want the right to trace, which Yama
 *			withholds from the same user on many systems
 *   /proc/PID/map_files	wants CAP_CHECKPOINT_RESTORE
 *   a Unix socket	wants a thread that answers; a stopped process has none
 *   a file		outlives a process that is killed
 *
 * The reader uses pread(), so a page that somebody shortens cannot hurt it and
 * a hole stays one.  The seals keep others from writing and from shortening it
 * (which would kill us); nothing that is read back from it is believed further
 * than a counter is.  Memory of a memfd that the system cannot give is a SIGBUS
 * when it is touched, so it is asked for before.
 *
 * A filter may kill for what the program does not call, so with one there is no
 * memfd; nor is there where any step fails.  The page is then memory of our own,
 * for those who have the right to trace: they find struct page_mark in the
 * library's data.
 *
 * Writers: head by counters_attach(), under its lock, before the page is told
 * of; counters by their threads; links by who holds poll_lock; a connection's
 * entry by who holds its locks (sock/show.h).  Each field is one word and is
 * stored whole.  gen is odd while an entry is in use and changes with each
 * conn, so that a reader who finds the same gen and the same names in two
 * passes has read one connection's.
 */
#ifndef BASE_PAGE_H
#define BASE_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/counters.h"

#define PAGE_NAME	"sidestep-stat"
#define PAGE_MAGIC	0x7461747370657473ull	/* "stepstat" */
#define PAGE_BLOCKS	1024
#define PAGE_LINKS	64
#define PAGE_CONNS	32768
#define PAGE_CHUNK	64		/* entries of conns that become usable at a time */
#define PAGE_MARK_1	0x6b72616d70657473ull	/* "stepmark" */
#define PAGE_MARK_2	0x9d1c36e58a7b40f3ull

/* In the library's data, on a boundary of 8 bytes. */
struct page_mark {
	uint64_t magic[2];
	struct page *page;		/* NULL: none */
};

/* Where struct conn keeps what changes with each byte: for who may trace us. */
struct page_live {
	uint32_t tx_kernel, tx_ring;	/* offsets of 64-bit counts */
	uint32_t rx_kernel, rx_given, rx_base;
	uint32_t bytes;			/* sizeof(struct conn) */
};

struct page_head {
	uint64_t magic;
	uint32_t layout;		/* page_layout() of who wrote it */
	uint32_t pid;			/* as the process itself sees it */
	uint64_t start_ns;		/* CLOCK_MONOTONIC */
	uint32_t blocks;		/* counter blocks that may be in use; rises */
	uint32_t conns;			/* entries that may be in use; rises */
	uint32_t blocks_lost;		/* threads that count elsewhere */
	uint32_t conns_lost;		/* connections without an entry */
	uint32_t off;			/* by its settings no connection leaves the kernel */
	struct page_live live;
	char version[16];
	uint64_t ready[PAGE_CONNS / PAGE_CHUNK / 64];	/* a bit a chunk of conns */
};

struct page_link {
	uint32_t id;			/* 0: free; link id stands in entry id % PAGE_LINKS */
	uint32_t peer_pid, peer_uid;
	uint32_t asker;
	uint64_t since_ns;
	uint64_t ring_bytes;
	uint32_t far;			/* over a device of libibverbs */
	uint32_t pad[7];
};

enum page_path { PATH_TCP, PATH_RING, PATH_ENDED, PATH_COUNT };

#define SHOW_ESTABLISHED 1u
#define SHOW_ACTIVE	2u	/* we connected */
#define SHOW_CLOSING	4u	/* the program has closed it */
#define SHOW_INHERITED	8u
#define SHOW_LISTENING	16u

struct page_conn {
	uint32_t gen;
	int32_t fd;
	uint64_t at;			/* struct conn */
	uint64_t ring_tx, ring_rx;	/* bytes of stays on the ring that are over */
	uint32_t link;			/* 0: none */
	uint32_t attaches, retreats;
	uint32_t flags;
	uint8_t tx_path, rx_path;
	uint8_t why, last;		/* enum reason: never attached, last retreat */
	uint8_t family;			/* AF_INET, AF_INET6; 0: addresses not known */
	uint8_t pad0[3];
	uint16_t lport, rport;
	uint32_t pad1;
	uint8_t laddr[16], raddr[16];
	uint8_t pad2[24];
} cacheline_aligned;

_Static_assert(sizeof(struct page_conn) == 128, "layout is shared");
_Static_assert(sizeof(struct page_link) == 64, "layout is shared");

struct page {
	struct page_head head;
	uint8_t pad[4096 - sizeof(struct page_head)];
	struct counters blocks[PAGE_BLOCKS];
	struct page_link links[PAGE_LINKS];
	struct page_conn conns[PAGE_CONNS];
};

_Static_assert(offsetof(struct page, conns) % 4096 == 0, "chunks are whole pages");

#define PAGE_BYTES	((sizeof(struct page) + 4095) & ~(size_t)4095)

/* Ours, NULL where there is none. */
extern struct page *page_mine;

/* Tells tables and structs of this build from those of another. */
uint32_t page_layout(void);

/* From now on the first thread that counts makes the page.  Start-up. */
void page_allow(void);
/* Is there no seccomp filter?  Reads a file of /proc. */
bool page_unfiltered(void);
/* No system call for it any more. */
void page_forbid(void);

/* For counters.c: the page, with room for so many blocks; NULL: none. */
struct page *page_make(uint64_t start_ns, uint32_t blocks);

/* n bytes of the page from at on may be touched from now on?  0 or -errno. */
int page_populate(void *at, size_t n);

/* Called when the page is there, once; the conns that exist already are to be shown. */
extern void (*page_made)(struct page *p);

/* The program is out of numbers: give ours back. true: there was one. */
bool page_close(void);

/* The child of a fork: it is the parent's. */
void page_forget(void);

/* Context: any.  NULL: no page, or beyond its table. */
static inline struct page_conn *page_conn(uint32_t index)
{
	/* pairs with counters_attach(): the page is whole */
	struct page *p = ld_acq(&page_mine);
	uint32_t chunk = index / PAGE_CHUNK;

	if (!p || index >= PAGE_CONNS || !(ld_rlx(&p->head.ready[chunk / 64]) >> chunk % 64 & 1))
		return NULL;
	return &p->conns[index];
}

#endif
