/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* figures.c - see figures.h */
#include "figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct pattern cost_names[COSTS] = {
	[COST_CPU] = { "cpu", "us", true, NULL, 0 },
	[COST_CPU_SERVER] = { "cpu-server", "us", true, NULL, 0 },
	[COST_CPU_CLIENT] = { "cpu-client", "us", true, NULL, 0 },
	[COST_SWITCHES] = { "switches", "", true, NULL, 0 },
	[COST_CALLS] = { "syscalls", "", true, NULL, 0 },
};

static bool last_match(const regex_t *re, const char *text, double *out)
{
	regmatch_t m[2];
	bool found = false;

	while (!regexec(re, text, 2, m, 0)) {
		*out = strtod(text + m[1].rm_so, NULL);
		found = true;
		text += m[0].rm_eo > m[0].rm_so ? m[0].rm_eo : m[0].rm_eo + 1;
	}
	return found;
}

/* Some clients end well though they got wrong answers. */
static bool answers_wrong(const struct bench *b, const char *text)
{
	regex_t re;
	regmatch_t m;
	bool wrong;

	if (!b->w.wrong || regcomp(&re, b->w.wrong, REG_EXTENDED | REG_NEWLINE))
		return false;
	wrong = !regexec(&re, text, 1, &m, 0);
	if (wrong)
		fprintf(stderr, "sidestep-bench: %s: wrong answers: %.*s\n", b->workload_name,
			(int)(m.rm_eo - m.rm_so), text + m.rm_so);
	regfree(&re);
	return wrong;
}

static int read_all(struct bench *b, const char *text, const char *client_out, struct run *out)
{
	for (int i = 0; i < b->nfigures; i++) {
		const struct pattern *p = &b->w.figures[i];

		if (!last_match(&b->compiled[i], text, &out->figure[i]) || !(out->figure[i] > 0)) {
			fprintf(stderr, "sidestep-bench: no figure %s in what the client said:\n",
				p->name);
			proc_print_tail(client_out);
			return EXIT_FAILED;
		}
		if (p->scale > 0)
			out->figure[i] *= p->scale;
	}
	return 0;
}

/* Return: the number of operations, 0 where nobody knows it. */
static double count_ops(const struct bench *b, const char *text)
{
	double n = 0;

	if (!b->w.ops.name)
		return 0;
	if (!b->w.ops.regex)
		return ceil((double)b->w.requests_per_s * b->seconds) * b->w.ops.scale;
	return last_match(&b->compiled_ops, text, &n) ? n * b->w.ops.scale : 0;
}

/* Lines "trips NS COUNT". */
static void read_trips(struct hist *h, const char *text)
{
	double ns;
	unsigned int n;

	for (const char *l = text; l; l = strchr(l, '\n')) {
		l += *l == '\n';
		if (!strncmp(l, "trips ", 6) && sscanf(l, "trips %lf %u", &ns, &n) == 2)
			hist_add_many(h, (uint64_t)ns, n);
	}
}

int figures_read(struct bench *b, const char *client_out, bool sidestep, struct run *out)
{
	char *text = proc_read_file(client_out);
	int r = !text || answers_wrong(b, text) ? EXIT_FAILED : read_all(b, text, client_out, out);

	if (!r) {
		double ops = count_ops(b, text);

		for (int i = 0; i < COSTS; i++)
			out->cost[i] = ops > 0 ? 1 / ops : NAN;
		if (!b->counting)
			read_trips(&b->trips[sidestep], text);
	}
	free(text);
	return r;
}

static double cpu_us(const struct rusage *u)
{
	return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1e6 +
	       (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

static double switches(const struct rusage *u)
{
	return (double)(u->ru_nvcsw + u->ru_nivcsw);
}

void figures_cost(struct run *out, bool calls_counted, const struct proc *server,
		  const struct proc *client)
{
	double s = cpu_us(&server->usage), c = cpu_us(&client->usage);
	double calls = server->calls > 0 && client->calls > 0 ? server->calls + client->calls : NAN;

	out->cost[COST_CPU] *= s + c;
	out->cost[COST_CPU_SERVER] *= s;
	out->cost[COST_CPU_CLIENT] *= c;
	out->cost[COST_SWITCHES] *= switches(&server->usage) + switches(&client->usage);
	out->cost[COST_CALLS] *= calls_counted ? calls : NAN;
}
