/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * screen.c - --watch on a terminal: processes and connections, the busiest
 * first, as many as there is room for
 */
#define _GNU_SOURCE
#include "stat.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"

struct picture {
	struct shown *all;
	int n;
	double at_s;
};

/* A connection and what it carried since the last picture. */
struct busy {
	const struct shown *s;
	const struct shown_conn *c;
	double ring_rate, tcp_rate;	/* bytes a second; below 0: not known */
};

static volatile sig_atomic_t over;

static void on_signal(int sig)
{
	(void)sig;
	over = 1;
}

bool screen_can(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* ---------------------------------------------------------------- rates -- */

/* An entry of the page is one connection's as long as gen is the same. */
static int by_entry(const void *a, const void *b)
{
	const struct shown_conn *x = a, *y = b;

	if (x->e.at != y->e.at)
		return x->e.at < y->e.at ? -1 : 1;
	return x->e.gen < y->e.gen ? -1 : x->e.gen > y->e.gen;
}

static void sort_entries(const struct picture *p)
{
	for (int i = 0; i < p->n; i++)
		if (p->all[i].nconns)
			qsort(p->all[i].conns, p->all[i].nconns, sizeof(struct shown_conn), by_entry);
}

static const struct shown_conn *earlier(const struct picture *then, const struct shown *s,
					const struct shown_conn *c)
{
	for (int i = 0; i < then->n; i++)
		if (then->all[i].pid == s->pid && then->all[i].nconns)
			return bsearch(c, then->all[i].conns, then->all[i].nconns, sizeof(*c), by_entry);
	return NULL;
}

static double rate(uint64_t now, uint64_t then, double seconds)
{
	return now > then ? (double)(now - then) / seconds : 0;
}

static void measure(struct busy *b, const struct picture *then, double seconds)
{
	const struct shown_conn *c = b->c, *old = earlier(then, b->s, c);

	b->ring_rate = b->tcp_rate = -1;
	if (!c->live || !old || !old->live)
		return;
	b->ring_rate = rate(c->ring_tx + c->ring_rx, old->ring_tx + old->ring_rx, seconds);
	b->tcp_rate = rate(c->tcp_tx + c->tcp_rx, old->tcp_tx + old->tcp_rx, seconds);
}

static int by_rate(const void *a, const void *b)
{
	const struct busy *x = a, *y = b;
	double p = x->ring_rate + x->tcp_rate, q = y->ring_rate + y->tcp_rate;

	return p > q ? -1 : p < q;
}

static int by_traffic(const void *a, const void *b)
{
	const struct shown *x = a, *y = b;
	uint64_t p = x->sum.v[CNT_ring_tx_msgs] + x->sum.v[CNT_tcp_tx_msgs];
	uint64_t q = y->sum.v[CNT_ring_tx_msgs] + y->sum.v[CNT_tcp_tx_msgs];

	return p > q ? -1 : p < q;
}

/* Return: malloc'ed, the busiest first. */
static struct busy *busiest(const struct picture *now, const struct picture *then,
			    const struct filter *f, size_t *count)
{
	double seconds = now->at_s - then->at_s;
	size_t room = 1, n = 0;

	for (int i = 0; i < now->n; i++)
		room += now->all[i].nconns;
	struct busy *all = calloc(room, sizeof(*all));
	for (int i = 0; all && i < now->n; i++) {
		for (uint32_t j = 0; j < now->all[i].nconns; j++) {
			struct busy b = { .s = &now->all[i], .c = &now->all[i].conns[j] };

			if (!conn_wanted(b.c, f))
				continue;
			measure(&b, then, seconds);
			all[n++] = b;
		}
	}
	if (n)
		qsort(all, n, sizeof(*all), by_rate);
	*count = n;
	return all;
}

/* -------------------------------------------------------------- picture -- */

static void title(FILE *out, const struct picture *now, const struct busy *conns, size_t n, double every_s)
{
	unsigned soft = 0, verbs = 0, tcp = 0;
	time_t t = time(NULL);
	struct tm tm;
	char clock[16];

	for (size_t i = 0; i < n; i++) {
		if (!(conns[i].c->e.flags & SHOW_ESTABLISHED))
			continue;
		if (!strcmp(conn_path(conns[i].c), "tcp"))
			tcp++;
		else if (conns[i].c->verbs)
			verbs++;
		else
			soft++;
	}
	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&t, &tm));
	fprintf(out, "sidestep-stat %s, every %g s: %d processes, connections: %u soft, %u verbs, %u tcp (q: quit)\n\n",
		clock, every_s, now->n, soft, verbs, tcp);
}

static void conn_row(FILE *out, const struct busy *b)
{
	char l[64], r[64], who[48], n[2][16];

	conn_addr(b->c, false, l, sizeof(l));
	conn_addr(b->c, true, r, sizeof(r));
	fprintf(out, "%-22s %4d %-8s %-16s %9s %9s %-22s %s\n", text_who(b->s, who), b->c->e.fd,
		conn_path(b->c), conn_reason(b->c),
		b->ring_rate < 0 ? "-" : text_bytes(b->ring_rate, n[0]),
		b->tcp_rate < 0 ? "-" : text_bytes(b->tcp_rate, n[1]), l, r);
}

/* The text of a picture; the caller frees it. */
static char *draw(const struct picture *now, const struct picture *then, const struct filter *f,
		  double every_s, int rows)
{
	char *text = NULL;
	size_t size, n = 0;
	FILE *out = open_memstream(&text, &size);
	struct busy *conns = busiest(now, then, f, &n);

	if (out) {
		title(out, now, conns, n, every_s);
		/* half of the screen is for connections */
		text_rates(out, now->all, MIN(now->n, MAX(rows / 2 - 3, 1)), then->all, then->n,
			   now->at_s - then->at_s, true, f);
		if (f->rows)
			fprintf(out, "\n%-22s %4s %-8s %-16s %9s %9s %-22s %s\n", "PROGRAM/PID", "FD",
				"PATH", "REASON", "RINGB/s", "TCPB/s", "LOCAL", "REMOTE");
		for (size_t i = 0; f->rows && i < n && i < (size_t)rows; i++)
			conn_row(out, &conns[i]);
		fclose(out);
	}
	free(conns);
	return text;
}

/* From the top, each line cut to the width and the rest of it wiped. */
static void put(const char *text, int rows, int cols)
{
	fputs("\033[H", stdout);
	for (int i = 0; i < rows; i++) {
		int len = (int)strcspn(text, "\n");

		printf("%.*s\033[K%s", MIN(len, cols), text, i < rows - 1 ? "\n" : "");
		text += len + (text[len] == '\n');
	}
	fflush(stdout);
}

/* Until the next picture.  Return: false if it is over. */
static bool wait_key(double s, bool keys)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	double until = now_s() + s;

	for (double left = s; !over && left > 0; left = until - now_s()) {
		char key = 0;

		if (poll(&p, keys ? 1 : 0, (int)(left * 1e3) + 1) <= 0)
			continue;
		if (read(STDIN_FILENO, &key, 1) <= 0)
			keys = false;
		if (key == 'q' || key == 'Q')
			return false;
	}
	return !over;
}

static int pictures(const struct filter *f, double every_s, long times, bool keys)
{
	struct picture then = { .at_s = now_s() }, now;

	then.n = find_filled(f, &then.all);
	for (long i = 0; then.n >= 0 && (times < 0 || i < times) && wait_key(every_s, keys); i++) {
		struct winsize w = { .ws_row = 24, .ws_col = 80 };

		now.n = find_filled(f, &now.all);
		now.at_s = now_s();
		if (now.n < 0)
			break;
		if (now.n)
			qsort(now.all, (size_t)now.n, sizeof(*now.all), by_traffic);
		sort_entries(&then);
		if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_row || !w.ws_col)
			w = (struct winsize){ .ws_row = 24, .ws_col = 80 };
		char *text = draw(&now, &then, f, every_s, w.ws_row);
		if (text)
			put(text, w.ws_row, w.ws_col);
		free(text);
		find_free(then.all, then.n);
		then = now;
	}
	bool failed = then.n < 0;
	if (!failed)
		find_free(then.all, then.n);
	return failed ? EXIT_FAILED : 0;
}

int screen_run(const struct filter *f, double every_s, long times)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct termios was, raw;
	bool keys = tcgetattr(STDIN_FILENO, &was) == 0;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	if (keys) {
		raw = was;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	fputs("\033[?25l\033[2J", stdout);
	int status = pictures(f, every_s, times, keys);
	puts("\033[?25h");
	if (keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &was);
	return status;
}
