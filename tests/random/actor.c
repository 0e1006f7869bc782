/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Script, order, threads and children of the actor; see actor.h. */
#include "actor.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/lib/step.h"

enum { ERRNO_MARK = 4242, HIGH = 300 };

static struct role role;
static struct end ends[2];		/* server's, client's */
static volatile sig_atomic_t sigpipes, alarms;
static struct op *ops;
static int op_count;
static long calls_made, calls_on_ring;
static _Thread_local struct end *threads_end;	/* whose log a thread writes to */

/* ------------------------------------------------------------ telling -- */

void mark(void)
{
	errno = ERRNO_MARK;
}

static void text_out(struct end *e, const char *text)
{
	if (threads_end)
		e->log_len += snprintf(e->log + e->log_len, (size_t)(LOG_MAX - e->log_len), "%s\n", text);
	else
		transcript_line(&e->r->t, "%s", text);
}

void say(struct end *e, const struct op *o, const char *fmt, ...)
{
	char line[480];
	va_list ap;
	int n = snprintf(line, sizeof(line), "%d ", o->index);

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	text_out(e, line);
}

/* To be called at once after the call: it looks at errno and at SIGPIPE. */
void say_result(struct end *e, const struct op *o, long value, const char *more)
{
	int err = errno, pipes = sigpipes;
	const char *name = strerrorname_np(err);
	char sig[32] = "";

	sigpipes = 0;
	if (pipes)
		snprintf(sig, sizeof(sig), " SIGPIPE*%d", pipes);
	if (value == -1)
		say(e, o, "-1 %s%s", err == ERRNO_MARK ? "(no errno)" : name ? name : "?", sig);
	else
		say(e, o, "%ld%s%s%s", value, err != ERRNO_MARK ? " (errno changed)" : "", more, sig);
}

static void on_signal(int sig)
{
	if (sig == SIGPIPE)
		sigpipes++;
	else
		alarms++;
}

void signals_install(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGALRM, &sa, NULL);
	sa.sa_flags = SA_RESTART;
	sigaction(SIGPIPE, &sa, NULL);
}

/* -------------------------------------------------------- descriptors -- */

int fd_at(const struct end *e, long place)
{
	return place >= 0 && place < FDS ? e->fd[place] : -1;
}

void fd_put(struct end *e, long place, int fd)
{
	if (place >= 0 && place < FDS)
		e->fd[place] = fd;
}

/* ------------------------------------------------------------- script -- */

static bool line_parse(char *line, struct op *o)
{
	char name[24], *rest, *end;
	int used = 0;

	memset(o, 0, sizeof(*o));
	if (sscanf(line, "%d %c %23s%n", &o->index, &o->owner, name, &used) < 3)
		return false;
	o->threaded = name[0] == '&';
	snprintf(o->name, sizeof(o->name), "%s", name + o->threaded);
	for (rest = line + used; o->argc < ARGS_MAX; rest = end) {
		o->a[o->argc] = strtol(rest, &end, 10);
		if (end == rest)
			break;
		o->argc++;
	}
	return true;
}

static int script_read(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[1024];

	if (!f)
		return -1;
	ops = calloc(1000, sizeof(*ops));
	while (ops && op_count < 1000 && fgets(line, sizeof(line), f))
		op_count += line_parse(line, &ops[op_count]);
	fclose(f);
	return 0;
}

static void (*call_find(const char *name))(struct end *, const struct op *)
{
	static const struct call *const tables[] = { data_calls, wait_calls, fd_calls, process_calls };
	const struct call *c;
	size_t i;

	for (i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (c = tables[i]; c->name; c++)
			if (strcmp(c->name, name) == 0)
				return c->run;
	return NULL;
}

/* How much of the sequence a ring has seen, for the counters at the end. */
static void path_count(struct end *e, const struct op *o)
{
	static int (*path)(int);
	static bool asked;

	if (!asked)
		*(void **)&path = dlsym(RTLD_DEFAULT, "sidestep_fd_path");
	asked = true;
	if (!path || o->argc < 1 || fd_at(e, o->a[0]) < 0)
		return;
	calls_made++;
	calls_on_ring += path(fd_at(e, o->a[0])) > 0;
}

static void op_run(struct end *e, const struct op *o)
{
	void (*run)(struct end *, const struct op *) = call_find(o->name);

	if (!run) {
		say(e, o, "no such call: %s", o->name);
		return;
	}
	path_count(e, o);
	run(e, o);
}

/* ------------------------------------------------------------ threads -- */

static void *thread_main(void *arg)
{
	struct end *e = arg;

	threads_end = e;
	__atomic_store_n(&e->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	op_run(e, &e->thread_op);
	return NULL;
}

/* Give the thread time to block; what it returns must not depend on it. */
static void thread_settle(struct end *e)
{
	char path[64], text[256] = "";
	int i, fd;

	for (i = 0; i < 30; i++) {
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)__atomic_load_n(&e->tid, __ATOMIC_ACQUIRE));
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && strstr(text, ") S ")) {
			close(fd);
			return;
		}
		if (fd >= 0)
			close(fd);
		poll(NULL, 0, 1);
	}
}

static void thread_start(struct end *e, const struct op *o)
{
	e->thread_op = *o;
	e->log_len = 0;
	e->tid = 0;
	if (pthread_create(&e->thread, NULL, thread_main, e) != 0)
		give_up(e->r, "pthread_create");
	thread_settle(e);
}

static void thread_join(struct end *e)
{
	char *line, *save = NULL;

	pthread_join(e->thread, NULL);
	e->log[LOG_MAX - 1] = '\0';
	for (line = strtok_r(e->log, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		transcript_line(&e->r->t, "%s", line);
	e->log[0] = '\0';
}

/* ----------------------------------------------------------- children -- */

static _Noreturn void child_main(struct end *e)
{
	int i;

	close(e->wire[0]);
	close(e->hand[0]);
	while (read(e->wire[1], &i, sizeof(i)) == sizeof(i)) {
		if (strcmp(ops[i].name, "exit") == 0) {
			if (ops[i].a[0])
				_exit(7);
			exit(7);
		}
		op_run(e, &ops[i]);
		if (write(e->wire[1], &i, sizeof(i)) != sizeof(i))
			break;
	}
	_exit(8);
}

static void child_start(struct end *e, const struct op *o)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, e->wire) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, e->hand) < 0)
		give_up(e->r, "socketpair");
	e->child = fork();
	if (e->child == 0)
		child_main(e);
	close(e->wire[1]);
	close(e->hand[1]);
	say(e, o, "%s", e->child > 0 ? "forked" : "no fork");
}

static void child_exit(struct end *e, int i)
{
	int status = 0;

	if (write(e->wire[0], &i, sizeof(i)) != sizeof(i))
		say(e, &ops[i], "the child is gone");
	waitpid(e->child, &status, 0);
	say(e, &ops[i], "child ended %#x", (unsigned int)status);
	close(e->wire[0]);
	close(e->hand[0]);
	e->child = 0;
}

static void child_op(struct end *e, int i)
{
	int done = -1;

	if (!e->child) {
		say(e, &ops[i], "no child");
		return;
	}
	if (strcmp(ops[i].name, "exit") == 0) {
		child_exit(e, i);
		return;
	}
	if (write(e->wire[0], &i, sizeof(i)) != sizeof(i) || read(e->wire[0], &done, sizeof(done)) != sizeof(done))
		say(e, &ops[i], "the child is gone");
}

/* -------------------------------------------------------------- order -- */

static void own_op(struct end *e, int i)
{
	const struct op *o = &ops[i];

	if (strcmp(o->name, "fork") == 0)
		child_start(e, o);
	else if (strcmp(o->name, "join") == 0)
		thread_join(e);
	else if (o->threaded)
		thread_start(e, o);
	else
		op_run(e, o);
}

static void four_addr(struct sockaddr_in6 *sa, long port)
{
	struct sockaddr_storage any;

	loopback_addr(&any, port);	/* CONFORM_FAMILY is not set here */
	memcpy(sa, &any, sizeof(struct sockaddr_in));
}

static void listener_make(const struct op *o)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT };
	socklen_t len = sizeof(sa);
	int off = 0, family = o->a[1] == 4 ? AF_INET : AF_INET6;

	if (family == AF_INET)
		four_addr(&sa, 0);
	role.listener = (int)MUST(&role, socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
	if (family == AF_INET6)
		MUST(&role, setsockopt(role.listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)));
	MUST(&role, bind(role.listener, (struct sockaddr *)&sa,
			 family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(sa)));
	MUST(&role, listen(role.listener, 16));
	MUST(&role, getsockname(role.listener, (struct sockaddr *)&sa, &len));
	role.port = ntohs(sa.sin6_port);
}

static void nodelay_set(int fd)
{
	int on = 1;

	if (fd >= 0)
		MUST(&role, setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
}

/* open PLACE FAMILY WAITING-STYLE WARM NODELAY: family 4, 6, or 5 for IPv4 to an IPv6 listener */
static void conn_make(const struct op *o)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	bool six = o->a[1] == 6;

	if (!role.port) {
		SERVER(&role) {
			listener_make(o);
			tell(&role, role.port);
		}
		CLIENT(&role)
			role.port = role.server ? role.port : hear(&role);
	}
	sa.sin6_port = htons((uint16_t)role.port);
	if (!six)
		four_addr(&sa, role.port);
	CLIENT(&role) {
		role.c = (int)MUST(&role, socket(six ? AF_INET6 : AF_INET, SOCK_STREAM, 0));
		MUST(&role, connect(role.c, (struct sockaddr *)&sa, six ? sizeof(sa) : sizeof(struct sockaddr_in)));
	}
	SERVER(&role)
		role.s = (int)MUST(&role, accept(role.listener, NULL, NULL));
	if (o->a[4]) {
		nodelay_set(role.c);
		nodelay_set(role.s);
	}
	role.waiting = (unsigned int)o->a[2];
	if (o->a[3])
		conn_warm(&role);
	fd_put(&ends[0], o->a[0], role.s);
	fd_put(&ends[1], o->a[0], role.c);
}

/* The reader of a flood (a[0]: who wrote, 0 server, 1 client) must know how much it was. */
static void flood_tell(const struct op *o)
{
	struct end *from = &ends[o->a[0] != 0], *to = &ends[o->a[0] == 0];

	if (role.server && role.client)
		to->flooded = from->flooded;
	else if (role.client == (o->a[0] != 0))
		tell(&role, from->flooded);
	else
		to->flooded = hear(&role);
}

static void script_play(void)
{
	bool mine[2] = { role.server, role.client };
	int i, side;

	for (i = 0; i < op_count; i++) {
		if (ops[i].owner == '*') {
			if (strcmp(ops[i].name, "open") == 0)
				conn_make(&ops[i]);
			else
				flood_tell(&ops[i]);
		}
		for (side = 0; side < 2; side++) {
			if (mine[side] && ops[i].owner == "sc"[side])
				own_op(&ends[side], i);
			if (mine[side] && ops[i].owner == "xy"[side])
				child_op(&ends[side], i);
		}
		meet(&role);
	}
}

static int high(const char *number)
{
	int low = atoi(number), fd = fcntl(low, F_DUPFD_CLOEXEC, HIGH);

	close(low);
	return fd;
}

/* actor ROLE STEP-FD TRANSCRIPT-FD SCRIPT: ROLE server, client or both */
int main(int argc, char **argv)
{
	int side, place;

	if (argc != 5 || script_read(argv[4]) < 0) {
		fprintf(stderr, "usage: actor server|client|both STEP-FD TRANSCRIPT-FD SCRIPT\n");
		return 2;
	}
	role.server = strcmp(argv[1], "client") != 0;
	role.client = strcmp(argv[1], "server") != 0;
	role.alone = !(role.server && role.client);
	role.step = role.alone ? high(argv[2]) : -1;
	role.t.fd = high(argv[3]);
	role.listener = role.s = role.c = -1;
	for (side = 0; side < 2; side++) {
		ends[side].r = &role;
		for (place = 0; place < FDS; place++)
			ends[side].fd[place] = -1;
	}
	signals_install();
	script_play();
	transcript_line(&role.t, "%% calls %ld on-ring %ld", calls_made, calls_on_ring);
	return role.t.failures != 0;
}
