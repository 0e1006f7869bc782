/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sim.c - random interleavings of the protocol, with the model's properties
 *
 *	sim [--steps N] [--seed S] [--one] [--trace] [--mutant NAME] [--list]
 *
 * Scenarios follow one another until N steps are done.  Each has its own seed,
 * drawn from S; a violation prints it, and `--one --seed THAT` plays it again
 * (add --trace to see what happens).  Exit status: 0 no violation, 1 one was
 * found, 2 usage.
 *
 * Properties (doc/model/PROTOCOL.md): every byte delivered once and in order,
 * none after the end; no record byte in the application's hands; EOF only when
 * nothing is missing; a sender killed on soft loses nothing; no ring or credit
 * word is touched after it was given away; when nothing can move everybody has
 * finished and closed sockets are released.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim.h"

struct world w;
bool sim_trace;
int proto_mutant;

static uint64_t splitmix(uint64_t *s)
{
	uint64_t z = (*s += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint64_t sim_rnd(uint64_t n)
{
	return n ? splitmix(&w.rng) % n : 0;
}

void sim_fail(const char *fmt, ...)
{
	va_list ap;

	if (w.why[0])
		return;
	va_start(ap, fmt);
	vsnprintf(w.why, sizeof(w.why), fmt, ap);
	va_end(ap);
}

void sim_note(const char *fmt, ...)
{
	va_list ap;

	if (!sim_trace)
		return;
	printf("%6lu  ", (unsigned long)w.steps);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* few values, chosen to collide with the first bytes of records */
uint8_t sim_app_byte(int dir, unsigned int i)
{
	uint8_t first_of_nonce = (uint8_t)w.sc.nonce[dir];
	uint8_t values[] = { w.sc.x, (uint8_t)~w.sc.x, 0x51, 0x52, first_of_nonce };
	uint64_t s = w.sc.seed + 977 * i + dir;

	return values[splitmix(&s) % ARRAY_SIZE(values)];
}

/* ------------------------------------------------------------- steps -- */

static bool move0(struct end *e) { return kernel_move(e->x); }

static bool kill_time(void)
{
	const struct ptx *a = &w.end[0].tx, *b = &w.end[1].tx;

	switch (w.sc.kill_when) {
	case 1: return a->fin || b->fin;
	case 2: return a->state == PTX_QUIET || b->state == PTX_QUIET;
	default: return true;
	}
}

static bool kill_link(struct end *e)
{
	unsigned int l = sim_rnd(w.sc.links);

	if (!w.sc.kills || w.link[l].dead || !kill_time())
		return false;
	w.sc.kills--;
	link_kill(l);
	return true;
}

static bool (*const steps[])(struct end *e) = {
	move0, end_write, end_attach, end_records, end_pump, end_read, end_background,
	end_finish, end_last, end_link, end_notice, end_credit_word, end_rebind,
	end_recycle, end_exec_step, end_want_step,
	/* from here on: misfortunes, out of budgets */
	end_freeze, end_want, end_retreat, end_crash, end_exec, kill_link,
};

#define STEPS ARRAY_SIZE(steps)
#define MISFORTUNES (STEPS - 6)

static bool step_try(unsigned int i, int x)
{
	return steps[i](&w.end[x]);
}

/* weighted at first, then whatever can move; false: nothing can */
static bool step(void)
{
	unsigned int i, from;

	for (int tries = 0; tries < 24; tries++) {
		i = sim_rnd(STEPS);
		if (sim_rnd(64) < w.sc.weights[i] && step_try(i, sim_rnd(2)))
			return true;
	}
	from = sim_rnd(2 * STEPS);
	for (i = 0; i < 2 * STEPS; i++) {
		unsigned int j = (from + i) % (2 * STEPS);

		if (step_try(j / 2, j % 2))
			return true;
	}
	return false;
}

/* --------------------------------------------------------- scenarios -- */

static void scenario_kinds(void)
{
	struct end *a = &w.end[0], *b = &w.end[1];

	a->kind = sim_rnd(3);
	b->kind = sim_rnd(3);
	/* who waits for the other's EOF needs one who gives it */
	if (a->kind == PATIENT && b->kind == HOLD)
		b->kind = PATIENT;
	if (b->kind == PATIENT && a->kind == HOLD)
		a->kind = PATIENT;
}

static void scenario_make(uint64_t seed)
{
	struct scenario *s = &w.sc;
	static const uint8_t weight[] = { 1, 4, 16, 64, 64 };

	memset(&w, 0, sizeof(w));
	w.rng = seed;
	s->seed = seed;
	s->soft = sim_rnd(2);
	s->early_land = sim_rnd(2);
	s->wake_strict = sim_rnd(2);
	s->hasten = sim_rnd(2);
	s->window = 1u << (1 + sim_rnd(4));
	s->maxe = 1 + sim_rnd(3);
	s->links = 1 + sim_rnd(LINKS);
	s->vol = sim_rnd(3);
	s->kills = sim_rnd(2) ? sim_rnd(s->links + 1) : 0;
	s->crashes = sim_rnd(3) == 0;
	s->execs = sim_rnd(4) == 0;
	s->wants = sim_rnd(4) == 0 ? 1 + sim_rnd(2) : 0;
	s->blind = sim_rnd(2);
	s->room = s->execs || sim_rnd(2) ? KBYTES : 40 + sim_rnd(80);
	s->x = sim_rnd(256);
	for (unsigned int i = 0; i < STEPS; i++)
		s->weights[i] = weight[sim_rnd(i < MISFORTUNES ? ARRAY_SIZE(weight) : 3)];
	s->nonce[0] = splitmix(&w.rng);
	s->nonce[1] = splitmix(&w.rng);
}

/* Narrower scenarios, which make rare meetings of events frequent. */
static void scenario_close(void)
{
	static const enum kind other[] = { HOLD, PATIENT, EARLY, HOLD };

	w.sc.crashes = w.sc.execs = w.sc.wants = 0;
	w.sc.vol = sim_rnd(2);
	w.sc.kills = sim_rnd(4) != 0;
	w.sc.links = 1;
	w.sc.maxe = 1;
	/* the kernel is slow: bytes are still unsent at the close */
	for (unsigned int i = 0; i < MISFORTUNES; i++)
		w.sc.weights[i] = sim_rnd(4) ? 64 : w.sc.weights[i];
	w.sc.weights[0] = 1;
	w.sc.kill_when = sim_rnd(3);
	w.sc.weights[STEPS - 1] = 16;
	w.sc.weights[7] = sim_rnd(2) ? 1 : 16;	/* end_finish */
	w.end[0].kind = sim_rnd(4) ? EARLY : PATIENT;
	w.end[1].kind = w.end[0].kind == EARLY ? other[sim_rnd(4)] : PATIENT;
	w.end[0].nbytes = 1 + sim_rnd(8);
	w.end[1].nbytes = 1 + sim_rnd(3);
}

static void scenario_death(void)
{
	w.sc.crashes = 1;
	w.sc.kills = w.sc.execs = 0;
	w.sc.maxe = 1 + sim_rnd(2);
	w.sc.weights[STEPS - 3] = 1 + sim_rnd(4);
	w.end[0].nbytes = 2 + sim_rnd(10);
	w.end[1].nbytes = sim_rnd(6);
}

/* end 1 stops reading: end 0 must get rid of all it has, and of its socket */
static void scenario_freeze(void)
{
	w.sc.freezes = 1;
	w.sc.crashes = w.sc.execs = w.sc.wants = 0;
	w.sc.room = KBYTES;
	w.end[0].kind = sim_rnd(2) ? EARLY : HOLD;
	w.end[1].kind = HOLD;
	w.end[1].nbytes = 0;
}

static void ends_make(void)
{
	for (int x = 0; x < 2; x++) {
		struct end *e = &w.end[x], *p = &w.end[!x];

		e->x = x;
		e->open = true;
		e->nbytes = sim_rnd(4) ? sim_rnd(32) : sim_rnd(6);
		e->fin_link = -1;
		ptx_init(&e->tx, 0);
		ptx_bind(&e->tx, 0, w.sc.soft, w.sc.nonce[x], w.sc.window);
		prx_init(&p->rx, 0);
		prx_bind(&p->rx, 0, w.sc.soft, w.sc.nonce[x], w.sc.window);
	}
	scenario_kinds();
	switch (sim_rnd(7)) {
	case 0:
	case 1: scenario_close(); break;
	case 2: scenario_death(); break;
	case 3: scenario_freeze(); break;
	default:
		if (sim_rnd(3) == 0)
			w.end[1].nbytes = 0;
	}
}

/* -------------------------------------------------------- properties -- */

static bool excused(const struct end *s, const struct end *r)
{
	/* the closed application has left bytes unread: TCP resets, too */
	return s->appclosed && r->sent > s->rcvd;
}

static void check_direction_crashed(const struct end *s, const struct end *r)
{
	if (r->appclosed && !r->eof && !r->rst)
		return;
	if (r->exec_failed)
		return;
	if (!r->eof && !r->rst)
		sim_fail("end %d: the peer was killed, but no end was told", r->x);
	/* a RST has thrown bytes of the kernel away: as in plain TCP */
	if (w.sc.soft && !r->kerr_tcp && !r->dumb && r->rcvd != s->sent)
		sim_fail("end %d: %u of %u bytes of a killed peer (soft)", r->x, r->rcvd, s->sent);
	if (w.sc.soft && !r->kerr_tcp && r->rst && !r->sent)
		sim_fail("end %d: reset, though nothing of ours was unread (soft)", r->x);
}

static void check_direction(const struct end *s, const struct end *r)
{
	if (r->crashed)
		return;
	if (s->crashed) {
		check_direction_crashed(s, r);
		return;
	}
	if (r->frozen) {
		if (s->tx.state == PTX_PUMP)
			sim_fail("end %d never gets out of PUMP", s->x);
		return;
	}
	if (r->exec_failed || s->exec_failed || excused(s, r) || r->early)
		return;
	if (r->rst)
		sim_fail("end %d: reset without a crash", r->x);
	if (r->rcvd != s->sent)
		sim_fail("end %d has %u of %u bytes, and nothing moves", r->x, r->rcvd, s->sent);
	if (s->kind != HOLD && !r->eof)
		sim_fail("end %d never got its EOF", r->x);
}

static void check_end(const struct end *e)
{
	const struct end *p = &w.end[!e->x];

	if (e->crashed || e->exec_failed)
		return;
	if (e->execing)
		sim_fail("end %d never gets to exec", e->x);
	if (e->wanting)
		sim_fail("end %d never gets its direction back", e->x);
	if (e->sent != e->nbytes && !e->epipe && !e->appclosed && !p->crashed)
		sim_fail("end %d is stuck in a write", e->x);
	if (e->kind != HOLD && !e->appclosed && !p->exec_failed)
		sim_fail("end %d never came to its close", e->x);
	if (e->appclosed && e->open)
		sim_fail("end %d: a closed socket is never released", e->x);
}

static void check_quiescent(void)
{
	for (int x = 0; x < 2; x++) {
		check_end(&w.end[x]);
		check_direction(&w.end[x], &w.end[!x]);
	}
}

/* cheap ones, after every step */
static void check_always(void)
{
	for (int x = 0; x < 2; x++) {
		const struct ptx *tx = &w.end[x].tx;
		const struct prx *rx = &w.end[!x].rx;

		if (tx->K > tx->P || tx->P - tx->K > w.sc.window)
			sim_fail("end %d: K %lu P %lu", x, tx->K, tx->P);
		if (rx->state != PRX_ENDED && (rx->C > rx->Pb || rx->Pb - rx->C > w.sc.window))
			sim_fail("end %d: C %lu arrived %lu", !x, rx->C, rx->Pb);
	}
}

static bool scenario_run(uint64_t seed)
{
	scenario_make(seed);
	ends_make();
	sim_note("soft %d window %u epochs %u links %u; end 0 kind %d %u bytes, end 1 kind %d %u bytes",
		 w.sc.soft, w.sc.window, w.sc.maxe, w.sc.links, w.end[0].kind, w.end[0].nbytes,
		 w.end[1].kind, w.end[1].nbytes);
	while (!w.why[0] && step()) {
		w.steps++;
		check_always();
		if (w.steps > 20000)
			sim_fail("no end in sight");
	}
	if (!w.why[0])
		check_quiescent();
	return !w.why[0];
}

/* -------------------------------------------------------------- main -- */

struct options { uint64_t steps, seed; bool one; };

static const char *const mutant_names[] = {
#define X(sym, text) #sym,
	MUTANTS(X)
#undef X
};

static int mutant_by_name(const char *name)
{
	for (int i = 0; i < MUT_COUNT_OF; i++)
		if (!strcmp(name, mutant_names[i]))
			return i;
	return -1;
}

static int usage(void)
{
	fprintf(stderr, "usage: sim [--steps N] [--seed S] [--one] [--trace] [--mutant NAME] [--list]\n");
	return 2;
}

static int list(void)
{
	for (int i = 1; i < MUT_COUNT_OF; i++)
		puts(mutant_names[i]);
	return 0;
}

static int run(const struct options *o)
{
	uint64_t total = 0, count = 0, seed = o->seed, gen = o->seed;

	do {
		if (!o->one)
			seed = splitmix(&gen);
		count++;
		if (!scenario_run(seed)) {
			printf("violated after %lu steps, %lu scenarios (mutant %s): %s\n  play again: sim --one --seed %lu%s%s\n",
			       (unsigned long)(total + w.steps), (unsigned long)count, mutant_names[proto_mutant], w.why,
			       (unsigned long)seed, proto_mutant ? " --mutant " : "", proto_mutant ? mutant_names[proto_mutant] : "");
			return 1;
		}
		total += w.steps;
	} while (!o->one && total < o->steps);
	printf("%lu steps, %lu scenarios (mutant %s): nothing violated\n", (unsigned long)total,
	       (unsigned long)count, mutant_names[proto_mutant]);
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = { .steps = 1000000, .seed = 1 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++) {
		const char *next = i + 1 < argc ? argv[i + 1] : NULL;

		if (!strcmp(argv[i], "--list"))
			return list();
		if (!strcmp(argv[i], "--one"))
			o.one = true;
		else if (!strcmp(argv[i], "--trace"))
			sim_trace = true;
		else if (!next)
			return usage();
		else if (!strcmp(argv[i], "--steps"))
			o.steps = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--seed"))
			o.seed = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--mutant"))
			proto_mutant = mutant_by_name(argv[++i]);
		else
			return usage();
		if (proto_mutant < 0)
			return usage();
	}
	return run(&o);
}
