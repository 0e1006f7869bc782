/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * crash - one end of a connection dies; the other learns what TCP would tell it
 *
 *	crash [--launcher SIDESTEP] [--mode both|survivor|victim|retreat] [-k WORD]...
 *		the matrix of crash.h, each cell once
 *	crash --launcher SIDESTEP --rounds N	traffic both ways, death at random moments
 *	... --many N	N connections to one dead process
 *	... --leak N	N dead peers: descriptors and mappings of the survivor
 *	... --latency N	how soon a survivor learns, plain and with sidestep in turn
 *
 * The oracle of a cell is the same cell on plain TCP in the same run.  Where
 * several orders of events are possible there (a byte arrives before or behind
 * the reset), plain TCP is asked PLAIN times, and MORE times again before a
 * cell is called wrong: what was seen once is allowed.  Of the bytes, all must
 * come where plain TCP always delivers all, and else the beginning.  In mode
 * retreat records are under way all the time, and the limit that doc/PROGRESS.md
 * names (killed over an unread record: ECONNRESET for EOF) is met now and then.
 */
#include "crash.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLAIN = 2, MORE = 12, TRIES = 6 };
#define BOUND_S 2.0		/* from death to knowing, else it is a hang */
#define PATIENCE_S 20.0		/* for everything before it */

const char *const kind_names[KINDS] = {
	"recv", "spin", "send", "pollout", "poll", "epoll", "epollet", "idle", "acceptq", "unaccepted",
};
const char *const state_names[STATES] = {
	"never", "meeting", "switching", "both", "to-survivor", "to-victim", "resending",
};
const char *const death_names[DEATHS] = { "kill", "segv", "term", "abort" };

const char *self;

/* ----------------------------------------------------------------- ends -- */

static void end_exec(const char *launcher, char *const *args, int in, int out)
{
	const char *argv[16] = { launcher, self };
	int n = launcher ? 2 : 0;

	if (!launcher)
		argv[n++] = self;
	for (int i = 1; args[i] && n < 15; i++)
		argv[n++] = args[i];
	argv[n] = NULL;
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

void end_start(struct end *e, const char *launcher, char *const *args)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		exit(2);
	e->pid = fork();
	if (e->pid < 0)
		exit(2);
	if (e->pid == 0)
		end_exec(launcher, args, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	e->to = in[1];
	e->from = fdopen(out[0], "r");
	setvbuf(e->from, NULL, _IONBF, 0);
}

/* One line, byte by byte: what poll() says must be true of the pipe. */
static bool line_get(struct end *e, char *buf, size_t size, double until)
{
	struct pollfd p = { .fd = fileno(e->from), .events = POLLIN };
	size_t n = 0;

	while (n + 1 < size) {
		double left = until - now_s();

		if (poll(&p, 1, left > 0 ? (int)(left * 1000) + 1 : 0) <= 0 ||
		    read(p.fd, buf + n, 1) != 1)
			return false;
		if (buf[n] == '\n')
			break;
		n++;
	}
	buf[n] = 0;
	return true;
}

const char *end_hear(struct end *e, const char *word, double seconds)
{
	static char buf[4096];
	double until = now_s() + seconds;
	size_t len = strlen(word);

	while (line_get(e, buf, sizeof(buf), until)) {
		if (strncmp(buf, word, len) == 0)
			return buf + len;
		if (strncmp(buf, "saw GAVE UP", 11) == 0)
			fprintf(stderr, "%s\n", buf);
	}
	return NULL;
}

void end_tell(const struct end *e, char what)
{
	if (write(e->to, &what, 1) != 1)
		perror("write to an end");
}

static char state_of(pid_t pid)
{
	char path[32], buf[512], *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, buf, sizeof(buf) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return '?';
	buf[n] = 0;
	p = strrchr(buf, ')');
	return p ? p[2] : '?';
}

bool end_asleep(const struct end *e)
{
	int in_a_row = 0;

	for (int i = 0; i < 5000 && in_a_row < 3; i++) {
		in_a_row = state_of(e->pid) == 'S' ? in_a_row + 1 : 0;
		poll(NULL, 0, 1);
	}
	return in_a_row == 3;
}

void end_kill(struct end *e)
{
	kill(e->pid, SIGKILL);
	while (waitpid(e->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(e->to);
	fclose(e->from);
}

/* ----------------------------------------------------------------- a cell -- */

struct outcome {
	bool hang, broken;	/* broken: the cell could not be set up */
	bool reached;		/* the library was where the cell wants it */
	unsigned long long accepted, got;
	double after_s;
	char saw[4096];
};

static bool valid(const struct cell *c)
{
	bool full = c->kind == IN_SEND || c->kind == IN_POLL_OUT;

	if (c->kind == NOT_ACCEPTED)
		return c->state == NEVER && !c->unread;
	if (c->kind == UNACCEPTED)
		return c->state == NEVER && !c->flight;
	/* behind bytes that nobody takes no FIN comes, so nobody waits for it */
	bool waits = c->kind == IN_POLL || c->kind == IN_EPOLL || c->kind == IN_EPOLL_ET;

	if ((full || (waits && c->state == RESENDING)) && !c->unread)
		return false;
	return c->flight || (c->state != SWITCHING && c->state != RESENDING);
}

static bool reached(const struct cell *c, int victim, int survivor)
{
	switch (c->state) {
	case BOTH: return victim == 3 && (survivor == 3 || c->kind == IN_POLL_OUT);
	case SWITCHING: return victim & 1;
	case TO_SURVIVOR: return (victim & 1) && (survivor & 2);
	case TO_VICTIM: return (survivor & 1) && (victim & 2);
	default: return true;
	}
}

static void spell(const struct cell *c, char *buf, size_t n)
{
	snprintf(buf, n, "%d,%d,%d,%d,%d,%d,%u", c->kind, c->unread, c->flight, c->state, c->death,
		 c->victim_connects, c->rounds);
}

static void unspell(struct cell *c, const char *s)
{
	int v[6] = { 0 };

	sscanf(s, "%d,%d,%d,%d,%d,%d,%u", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &c->rounds);
	c->kind = (enum kind)v[0];
	c->unread = v[1];
	c->flight = v[2];
	c->state = (enum state)v[3];
	c->death = (enum death)v[4];
	c->victim_connects = v[5];
}

static bool both_start(const struct cell *c, const char *ls, const char *lv, struct end *s,
		       struct end *v)
{
	struct end *first = c->victim_connects ? s : v, *second = c->victim_connects ? v : s;
	char spec[64], port[16] = "0";
	const char *heard;

	spell(c, spec, sizeof(spec));
	char *sa[] = { NULL, (char *)"--survivor", spec, port, NULL };
	char *va[] = { NULL, (char *)"--victim", spec, port, NULL };
	setenv("SIDESTEP_ATTACH", c->state == NEVER ? "1000000000" : "eager", 1);
	end_start(first, first == s ? ls : lv, first == s ? sa : va);
	heard = end_hear(first, "port ", PATIENCE_S);
	snprintf(port, sizeof(port), "%s", heard ? heard : "0");
	end_start(second, second == s ? ls : lv, second == s ? sa : va);
	return heard != NULL;
}

/* The survivor is where the cell wants it, or on its way there. */
static bool in_position(const struct cell *c, struct end *s)
{
	end_tell(s, TELL_GO);
	if (c->kind == NOT_ACCEPTED)
		return true;
	if (!end_hear(s, "going", PATIENCE_S))
		return false;
	/* with unread bytes it does not sleep in recv() but reads them meanwhile */
	if (c->kind == IN_SPIN || ((c->kind == IN_RECV || c->kind == IDLE) &&
				   (c->state == SWITCHING || c->state == RESENDING)))
		return true;
	return end_asleep(s);
}

static double death(const struct cell *c, struct end *v)
{
	double at = now_s();

	if (c->flight || c->death == BY_SEGV || c->death == BY_ABORT)
		end_tell(v, TELL_WRITE_DIE);
	else
		kill(v->pid, c->death == BY_KILL ? SIGKILL : SIGTERM);
	while (waitid(P_PID, (id_t)v->pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	return at;
}

static void await_end(struct outcome *o, struct end *s, double at)
{
	const char *h = end_hear(s, "learnt ", BOUND_S);

	o->hang = !h;
	if (!h)
		return;
	o->after_s = atof(h) - at;
	h = end_hear(s, "got ", BOUND_S);
	o->got = h ? strtoull(h, NULL, 10) : 0;
	h = end_hear(s, "saw", BOUND_S);
	o->hang = !h;
	snprintf(o->saw, sizeof(o->saw), "%s", h ? h : "");
}

static void play_with(const struct cell *c, struct outcome *o, struct end *s, struct end *v)
{
	const char *h = "0";
	int pv, ps = 3;

	if (c->kind != UNACCEPTED)
		h = end_hear(v, "accepted ", PATIENCE_S);
	o->broken = !h;
	if (o->broken)
		return;
	o->accepted = strtoull(h, NULL, 10);
	h = end_hear(v, "ready ", PATIENCE_S);
	pv = h ? atoi(h) : 0;
	if (h && c->state == SWITCHING)
		end_tell(s, TELL_GO);		/* it has read enough */
	if (h)
		h = end_hear(s, "ready ", PATIENCE_S);
	ps = h ? atoi(h) : 0;
	o->broken = !h || !in_position(c, s);
	if (o->broken)
		return;
	o->reached = reached(c, pv, ps);
	double at = death(c, v);
	if (c->kind == NOT_ACCEPTED || c->kind == IDLE)
		end_tell(s, TELL_GO);
	await_end(o, s, at);
}

static void play(const struct cell *c, const char *ls, const char *lv, struct outcome *o)
{
	struct end s = { 0 }, v = { 0 };

	memset(o, 0, sizeof(*o));
	if (both_start(c, ls, lv, &s, &v))
		play_with(c, o, &s, &v);
	else
		o->broken = true;
	/* a survivor that has said all leaves by itself: its way out is part of the test */
	if (!o->hang && !o->broken)
		end_hear(&s, "never said", BOUND_S);
	end_kill(&s);
	end_kill(&v);
}

double cell_latency(const struct cell *c, const char *launcher)
{
	struct outcome o;

	for (int i = 0; i < TRIES; i++) {
		play(c, launcher, launcher, &o);
		if (!o.hang && !o.broken && o.reached)
			return o.after_s;
	}
	return -1;
}

/* -------------------------------------------------------------- the oracle -- */

/* What plain TCP has said of one cell; its state makes no difference there. */
static struct known {
	struct cell c;
	int asked, n;
	bool part;		/* not all that was accepted came, once at least */
	char *saw[PLAIN + MORE];
} known[4096];
static int n_cells;

static bool same_to_tcp(const struct cell *a, const struct cell *b)
{
	return a->kind == b->kind && a->unread == b->unread && a->flight == b->flight &&
	       a->death == b->death && (a->state == RESENDING) == (b->state == RESENDING) &&
	       (a->state == SWITCHING) == (b->state == SWITCHING);
}

static bool is_known(const struct known *k, const char *saw)
{
	for (int i = 0; i < k->n; i++)
		if (strcmp(k->saw[i], saw) == 0)
			return true;
	return false;
}

static void ask_plain(struct known *k, int times)
{
	for (int i = 0; i < times && k->asked < PLAIN + MORE; i++, k->asked++) {
		struct outcome o;

		play(&k->c, NULL, NULL, &o);
		if (o.hang || o.broken) {
			printf("plain TCP %s\n", o.hang ? "hangs" : "cannot be set up");
			continue;
		}
		k->part |= o.got < o.accepted;
		if (!is_known(k, o.saw))
			k->saw[k->n++] = strdup(o.saw);
	}
}

static struct known *oracle(const struct cell *c)
{
	for (int i = 0; i < n_cells; i++)
		if (same_to_tcp(&known[i].c, c))
			return &known[i];
	struct known *k = &known[n_cells++];
	k->c = *c;
	ask_plain(k, PLAIN);
	return k;
}

static bool agrees(const struct known *k, const struct outcome *o)
{
	return is_known(k, o->saw) && o->got <= o->accepted && (k->part || o->got == o->accepted);
}

/* --------------------------------------------------------------- the table -- */

static const char *launcher, *words[8];
static int nwords, passed, failed, unreached;
static bool verbose;

static const char *name_of(const struct cell *c)
{
	static char buf[128];

	snprintf(buf, sizeof(buf), "%s/%s/%s/%s/%s", kind_names[c->kind],
		 c->unread ? "unread" : "read", c->flight ? "flight" : "quiet",
		 state_names[c->state], death_names[c->death]);
	return buf;
}

static bool wanted(const struct cell *c)
{
	for (int i = 0; i < nwords; i++)
		if (!strstr(name_of(c), words[i]))
			return false;
	return true;
}

static void explain(const struct cell *c, const struct known *k, const struct outcome *o)
{
	printf("FAIL %s (%s connects, %u rounds): accepted %llu, got %llu%s%s\n    saw   %s\n",
	       name_of(c), c->victim_connects ? "victim" : "survivor", c->rounds, o->accepted,
	       o->got, o->hang ? ", HANG" : "", o->broken ? ", not set up" : "", o->saw);
	for (int i = 0; i < k->n; i++)
		printf("    plain %s%s\n", k->saw[i], k->part ? " (part)" : "");
}

static void judge(const struct cell *c, const char *ls, const char *lv, bool reach)
{
	struct known *k = oracle(c);
	struct outcome o;
	int tries = 0;

	do	/* on a busy machine a meeting may come too late */
		play(c, ls, lv, &o);
	while (reach && !o.reached && !o.hang && ++tries < TRIES);
	if (reach && !o.reached && !o.hang && !o.broken) {
		unreached++;
		printf("FAIL %s: not reached\n", name_of(c));
	}
	bool ok = !o.hang && !o.broken && agrees(k, &o);
	if (!ok && !o.hang && !o.broken) {
		ask_plain(k, MORE);
		ok = agrees(k, &o);
	}
	passed += ok;
	failed += !ok;
	if (!ok)
		explain(c, k, &o);
	else if (verbose)
		printf("ok   %s: %.1f ms%s\n", name_of(c), 1e3 * o.after_s, o.saw);
}

static void matrix(const char *ls, const char *lv, bool one_sided, bool reach)
{
	unsigned int n = 0;

	for (int i = 0; i < KINDS * 4 * STATES * DEATHS; i++) {
		struct cell c = {
			.death = (enum death)(i % DEATHS),
			.state = (enum state)(i / DEATHS % STATES),
			.unread = i / DEATHS / STATES % 2,
			.flight = i / DEATHS / STATES / 2 % 2,
			.kind = (enum kind)(i / DEATHS / STATES / 4),
		};

		if (!valid(&c) || (one_sided && c.state > MEETING))
			continue;
		n++;
		c.victim_connects = c.kind == NOT_ACCEPTED || (c.kind != UNACCEPTED && n % 2);
		c.rounds = 1 + n % 13;
		if (wanted(&c))
			judge(&c, ls, lv, reach);
	}
}

static int matrix_main(const char *mode)
{
	bool one = strcmp(mode, "survivor") == 0 || strcmp(mode, "victim") == 0;
	const char *ls = strcmp(mode, "victim") ? launcher : NULL;
	const char *lv = strcmp(mode, "survivor") ? launcher : NULL;

	if (strcmp(mode, "retreat") == 0)
		setenv("SIDESTEP_FAULT", "retreat:5", 1);
	matrix(ls, lv, one, launcher && !one && strcmp(mode, "retreat") != 0);
	printf("%d passed, %d failed, 0 skipped\n", passed, failed + unreached);
	return failed + unreached != 0;
}

static int child_main(char **argv)
{
	struct cell c = { 0 };

	unspell(&c, argv[2]);
	if (strcmp(argv[1], "--victim") == 0)
		victim(&c, atoi(argv[3]));
	survivor(&c, atoi(argv[3]));
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = "both";

	self = "/proc/self/exe";
	signal(SIGPIPE, SIG_IGN);
	if (argc == 4 && (!strcmp(argv[1], "--victim") || !strcmp(argv[1], "--survivor"))) {
		signal(SIGPIPE, SIG_DFL);
		return child_main(argv);
	}
	if (argc > 1 && !strncmp(argv[1], "--more-", 7))
		return more_child(argv);
	static char path[4096];
	ssize_t n = readlink(self, path, sizeof(path) - 1);
	if (n > 0)
		self = path;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++) {
		const char *next = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "-v"))
			verbose = true;
		else if (!strcmp(argv[i], "--launcher") && ++i)
			launcher = next;
		else if (!strcmp(argv[i], "--mode") && ++i)
			mode = next;
		else if (!strcmp(argv[i], "-k") && ++i && nwords < 8)
			words[nwords++] = next;
		else if (!strcmp(argv[i], "--rounds"))
			return rounds_main(launcher, atoi(next));
		else if (!strcmp(argv[i], "--many"))
			return many_main(launcher, atoi(next));
		else if (!strcmp(argv[i], "--leak"))
			return leak_main(launcher, atoi(next));
		else if (!strcmp(argv[i], "--latency"))
			return latency_main(launcher, atoi(next));
	}
	return matrix_main(mode);
}
