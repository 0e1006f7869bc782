/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * scan.c - see scan.h
 *
 * The memory is one mapping that is touched as far as it is filled: the lines as they
 * came, behind them the heads of chains through them.  Anybody on the host may have
 * sockets of any address, so what leads to a chain is mixed with a secret.
 */
#include "meet/scan.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/privfd.h"
#include "base/sys.h"
#include "base/util.h"

#define SCAN_GAP_NS	(100 * NS_PER_MS)
#define SCAN_MAX_BYTES	(32u << 20)
#define SCAN_MOST	(1u << 17)
#define SCAN_LEAST	(1u << 9)
#define LINE_FIELDS	10

struct scan_line {
	uint8_t laddr[16], raddr[16];
	uint16_t lport, rport;
	uint32_t uid, inode;
	uint32_t next;			/* of the chain: index + 1 */
	uint8_t family, state;
};

void scan_open(struct scan *s)
{
	s->until_ns = 0;
	s->most = SCAN_MOST;
}

static size_t bytes(uint32_t room)
{
	return room * (sizeof(struct scan_line) + sizeof(uint32_t));
}

void scan_drop(struct scan *s)
{
	struct scan_line *lines = s->lines;

	s->until_ns = 0;
	s->n = s->chains = 0;
	s->lines = NULL;		/* a fork may come at any time, and its child by here */
	if (lines)
		sys_unmap(lines, bytes(s->room));
}

static void make_room(struct scan *s)
{
	for (uint32_t room = s->most; room && !s->lines; room = room > SCAN_LEAST ? room / 4 : 0) {
		s->room = room;
		s->lines = sys_map(bytes(room), MAP_NORESERVE);
	}
}

static bool covers(const struct scan *s, uint32_t first)
{
	return (int32_t)(s->begun - first) >= 0;
}

bool scan_ready(const struct scan *s, uint32_t first, uint64_t now_ns)
{
	return now_ns >= s->until_ns || covers(s, first);
}

/* ---- a line ---- */

struct field {
	const char *p;
	size_t n;
};

static unsigned split(const char *p, const char *end, struct field f[LINE_FIELDS])
{
	unsigned n = 0;

	while (n < LINE_FIELDS) {
		while (p < end && *p == ' ')
			p++;
		if (p == end)
			break;
		f[n].p = p;
		while (p < end && *p != ' ')
			p++;
		f[n].n = (size_t)(p - f[n].p);
		n++;
	}
	return n;
}

static bool field_number(const struct field *f, unsigned base, uint64_t *v)
{
	*v = 0;
	for (size_t i = 0; i < f->n; i++) {
		unsigned c = (unsigned char)f->p[i], digit;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if (c >= 'A' && c <= 'F')
			digit = c - 'A' + 10;
		else
			return false;
		if (digit >= base)
			return false;
		*v = *v * base + digit;
	}
	return f->n > 0 && f->n <= 20;
}

/* "0100007F:1F90": each eight digits are a word as it lies in memory. */
static bool field_addr(const struct field *f, struct sockaddr_storage *sa)
{
	size_t words = f->n > 8 && f->p[8] == ':' ? 1 : 4;
	struct sockaddr_in6 *in6 = (void *)sa;
	struct sockaddr_in *in = (void *)sa;
	uint32_t addr[4];
	uint64_t v;

	if (f->n != words * 8 + 5 || f->p[words * 8] != ':')
		return false;
	for (size_t i = 0; i < words; i++) {
		if (!field_number(&(struct field){ f->p + 8 * i, 8 }, 16, &v))
			return false;
		addr[i] = (uint32_t)v;
	}
	if (!field_number(&(struct field){ f->p + words * 8 + 1, 4 }, 16, &v))
		return false;
	memset(sa, 0, sizeof(*sa));
	if (words == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)v);
		memcpy(&in->sin_addr, addr, 4);
	} else {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)v);
		memcpy(&in6->sin6_addr, addr, 16);
	}
	return true;
}

/*
 * sl local remote st tx:rx tr:when retransmits uid timeout inode
 * Return: false: of a listener, of nobody, or not such a line.
 */
static bool read_line(const char *p, const char *end, struct meet_tuple *t, struct diag_result *r)
{
	struct sockaddr_storage l, rem;
	struct field f[LINE_FIELDS];
	uint64_t state, uid, inode;

	if (split(p, end, f) < LINE_FIELDS || !field_number(&f[3], 16, &state) ||
	    state == TCP_LISTEN || state == TCP_TIME_WAIT ||
	    !field_addr(&f[1], &l) || !field_addr(&f[2], &rem) || meet_tuple_set(t, &l, &rem) < 0 ||
	    !field_number(&f[7], 10, &uid) || !field_number(&f[9], 10, &inode))
		return false;
	r->uid = (uid_t)uid;
	r->inode = inode;
	r->state = (uint8_t)state;
	return true;
}

/* ---- what is kept ---- */

static uint32_t *heads(const struct scan *s)
{
	return (uint32_t *)(void *)(s->lines + s->room);
}

static uint64_t mix(uint64_t x, const void *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	x = (x ^ word) * 0x9e3779b97f4a7c15u;
	return x ^ x >> 29;
}

static uint32_t chain(const struct scan *s, const uint8_t laddr[16], const uint8_t raddr[16],
		      uint16_t lport, uint16_t rport)
{
	const uint16_t ports[4] = { lport, rport };
	uint64_t x = mix(s->secret[0], ports);

	for (int i = 0; i < 16; i += 8)
		x = mix(mix(x, laddr + i), raddr + i);
	x = mix(x, &s->secret[1]);
	return (uint32_t)(x >> 32) & (s->chains - 1);
}

static void keep(struct scan *s, const struct meet_tuple *t, const struct diag_result *r)
{
	if (meet_tuple_equal(t, &s->asked)) {
		s->asked_found = true;
		s->asked_is = *r;
	}
	if (!s->lines || s->n == s->room) {
		s->all = false;
		return;
	}
	struct scan_line *l = &s->lines[s->n++];
	memcpy(l->laddr, t->laddr, sizeof(l->laddr));
	memcpy(l->raddr, t->raddr, sizeof(l->raddr));
	l->lport = t->lport;
	l->rport = t->rport;
	l->family = (uint8_t)t->family;
	l->uid = r->uid;
	l->inode = (uint32_t)r->inode;	/* the kernel counts them in 32 bits */
	l->state = r->state;
}

static void index_lines(struct scan *s)
{
	s->chains = 0;
	if (!s->n)
		return;
	for (s->chains = 1; 2 * s->chains <= s->room && s->chains < s->n; s->chains *= 2)
		;
	memset(heads(s), 0, s->chains * sizeof(uint32_t));
	for (uint32_t i = 0; i < s->n; i++) {
		struct scan_line *l = &s->lines[i];
		uint32_t *head = heads(s) + chain(s, l->laddr, l->raddr, l->lport, l->rport);

		l->next = *head;
		*head = i + 1;
	}
}

static bool is_line(const struct scan_line *l, const struct meet_tuple *t)
{
	return l->lport == t->lport && l->rport == t->rport && l->family == t->family &&
	       memcmp(l->laddr, t->laddr, sizeof(l->laddr)) == 0 &&
	       memcmp(l->raddr, t->raddr, sizeof(l->raddr)) == 0;
}

/* t is not there: is there no such socket? */
static int not_found(const struct scan *s, const struct meet_tuple *t)
{
	int err = s->err6;

	/* an IPv6 socket may hold an IPv4 connection; without IPv6 there is no tcp6, and need not be */
	if (t->family == AF_INET && (s->err || err == -ENOENT))
		err = s->err;
	if (err == -EAGAIN)
		return -EIO;
	if (err)
		return err == -ENOENT ? -EOPNOTSUPP : err;
	return s->all || meet_tuple_equal(t, &s->asked) ? -ENOENT : -EAGAIN;
}

int scan_kept(const struct scan *s, const struct meet_tuple *t, struct diag_result *r)
{
	if (s->asked_found && meet_tuple_equal(t, &s->asked)) {
		*r = s->asked_is;
		return 0;
	}
	uint32_t i = s->chains ? heads(s)[chain(s, t->laddr, t->raddr, t->lport, t->rport)] : 0;

	for (; i; i = s->lines[i - 1].next) {
		const struct scan_line *l = &s->lines[i - 1];

		if (!is_line(l, t))
			continue;
		*r = (struct diag_result){ .uid = l->uid, .inode = l->inode, .state = l->state };
		return 0;
	}
	return not_found(s, t);
}

/* ---- the files ---- */

/* Whole lines of buf[0..len).  Return: what they took. */
static size_t read_lines(struct scan *s, size_t len)
{
	const char *p = s->buf, *nl;

	while ((nl = memchr(p, '\n', len - (size_t)(p - s->buf)))) {
		struct diag_result r;
		struct meet_tuple t;

		if (read_line(p, nl, &t, &r))
			keep(s, &t, &r);
		p = nl + 1;
	}
	return (size_t)(p - s->buf);
}

static int read_fd(struct scan *s, int fd)
{
	size_t have = 0, total = 0, used;

	for (;;) {
		ssize_t n = sys_read(fd, s->buf + have, sizeof(s->buf) - have);

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		have += (size_t)n;
		total += (size_t)n;
		used = read_lines(s, have);
		have -= used;
		if (have == sizeof(s->buf) || total > SCAN_MAX_BYTES)
			return -EFBIG;
		memmove(s->buf, s->buf + used, have);
	}
}

int scan_file(struct scan *s, const char *path)
{
	int fd = PRIVFD_NEW(sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0));
	int ret;

	if (fd < 0)
		return fd;
	ret = read_fd(s, fd);
	privfd_close(fd);
	index_lines(s);
	return ret;
}

void scan_begin(struct scan *s, const struct meet_tuple *asked)
{
	s->begun = scan_next(s);
	s->asked = *asked;
	s->asked_found = false;
	s->all = true;
	s->n = s->chains = 0;
	meet_random(s->secret, sizeof(s->secret));
	make_room(s);
}

int scan_find(struct scan *s, const struct meet_tuple *t, uint32_t first, uint64_t now_ns,
	      struct diag_result *r)
{
	if (now_ns < s->until_ns)
		return covers(s, first) ? scan_kept(s, t, r) : -EAGAIN;

	uint64_t from = clock_ns();
	scan_begin(s, t);
	s->err = scan_file(s, "/proc/thread-self/net/tcp");
	s->err6 = scan_file(s, "/proc/thread-self/net/tcp6");
	uint64_t took = clock_ns() - from;
	s->until_ns = now_ns + took + MAX(took, (uint64_t)SCAN_GAP_NS);
	return scan_kept(s, t, r);
}
