/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Making connections: non-blocking, refused, many, odd. */
#include "conform.h"

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>

static int stream_socket(struct role *r, int flags)
{
	return (int)MUST(r, socket(conf_family(), SOCK_STREAM | flags, 0));
}

static int so_error(int fd)
{
	int e = -1;
	socklen_t len = sizeof(e);

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len);
	return e;
}

static void nonblocking(struct role *r)
{
	struct sockaddr_storage sa;
	char buf[8];

	listener_open(r);
	CLIENT(r) {
		loopback_addr(&sa, r->port);
		r->c = stream_socket(r, SOCK_NONBLOCK);
		TRY(r, -EINPROGRESS, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
		poll_show(r, "client", POLLOUT, (short)event_await(r->c, POLLOUT));
		TRY(r, 0, so_error(r->c));
		TRY(r, 0, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
		TRY(r, -EISCONN, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
		TRY(r, -EAGAIN, recv(r->c, buf, 8, 0));
		TRY(r, 2, send(r->c, "hi", 2, 0));
	}
	SERVER(r) {
		r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
		TRY(r, 2, recv(r->s, buf, 8, 0));
	}
	conn_close(r);
}

static void refused_addr(struct role *r, struct sockaddr_storage *sa, int *holder)
{
	socklen_t len = sizeof(*sa);

	*holder = stream_socket(r, 0);
	loopback_addr(sa, 0);
	MUST(r, bind(*holder, (struct sockaddr *)sa, len));
	MUST(r, getsockname(*holder, (struct sockaddr *)sa, &len));
}

static void refused(struct role *r)
{
	struct sockaddr_storage sa;
	int holder, fd;
	long long start;

	CLIENT(r) {
		refused_addr(r, &sa, &holder);
		fd = stream_socket(r, 0);
		start = now_ms();
		TRY(r, -ECONNREFUSED, connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
		CHECK(r, now_ms() - start < 1000);
		TRY(r, 0, so_error(fd));
		TRY(r, -ECONNREFUSED, connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
		TRY(r, 0, close(fd));
		fd = stream_socket(r, SOCK_NONBLOCK);
		TRY(r, -EINPROGRESS, connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
		event_await(fd, POLLOUT);
		TRY(r, ECONNREFUSED, so_error(fd));
		TRY(r, 0, so_error(fd));
		TRY(r, 0, close(fd));
		TRY(r, 0, close(holder));
	}
}

/* A socket that was refused connects to the right place afterwards. */
static void refused_then_right(struct role *r)
{
	struct sockaddr_storage sa;
	char buf[8];
	int holder;

	listener_open(r);
	CLIENT(r) {
		refused_addr(r, &sa, &holder);
		r->c = stream_socket(r, 0);
		TRY(r, -ECONNREFUSED, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
		loopback_addr(&sa, r->port);
		TRY(r, 0, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
		TRY(r, 2, send(r->c, "hi", 2, 0));
		TRY(r, 0, close(holder));
	}
	SERVER(r) {
		r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
		TRY(r, 2, recv(r->s, buf, 8, 0));
	}
	conn_close(r);
}

static void already_connected(struct role *r)
{
	struct sockaddr_storage sa;

	conn_open(r);
	CLIENT(r) {
		loopback_addr(&sa, r->port);
		TRY(r, -EISCONN, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
		TRY(r, -EINVAL, bind(r->c, (struct sockaddr *)&sa, sizeof(sa)));
		TRY(r, -EINVAL, listen(r->c, 5));
		TRY(r, -EINVAL, accept(r->c, NULL, NULL));
	}
	conn_close(r);
}

static void short_ones(struct role *r)
{
	char buf[16];
	long wrong = 0;
	int i, s, c;

	listener_open(r);
	for (i = 0; i < 200; i++) {
		s = c = -1;
		conn_more(r, &s, &c);
		CLIENT(r)
			wrong += send(c, "request", 7, 0) != 7;
		SERVER(r) {
			wrong += recv(s, buf, 16, MSG_PEEK) <= 0 || recv(s, buf, 7, MSG_WAITALL) != 7;
			wrong += send(s, "reply", 5, 0) != 5;
			wrong += close(s) != 0;
		}
		CLIENT(r) {
			wrong += recv(c, buf, 5, MSG_WAITALL) != 5;
			wrong += recv(c, buf, 16, 0) != 0;
			wrong += close(c) != 0;
		}
	}
	TRY(r, 0, wrong);
}

static void fifty_at_once(struct role *r)
{
	enum { CONNS = 50 };
	int s[CONNS], c[CONNS], i;
	char buf[16];
	long wrong = 0;

	listener_open(r);
	for (i = 0; i < CONNS; i++)
		conn_more(r, &s[i], &c[i]);
	for (i = CONNS - 1; i >= 0; i--) {
		CLIENT(r)
			wrong += send(c[i], &i, 4, 0) != 4;
		SERVER(r)
			wrong += recv(s[i], buf, 16, 0) != 4 || memcmp(buf, &i, 4) != 0;
	}
	TRY(r, 0, wrong);
	for (i = 0; i < CONNS; i++) {
		SERVER(r)
			MUST(r, close(s[i]));
		CLIENT(r)
			MUST(r, close(c[i]));
	}
}

/* Request sent, and half closed, before the server accepts. */
static void data_before_accept(struct role *r)
{
	struct sockaddr_storage sa;
	char buf[16];

	listener_open(r);
	CLIENT(r) {
		loopback_addr(&sa, r->port);
		r->c = stream_socket(r, 0);
		TRY(r, 0, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
		TRY(r, 5, send(r->c, "early", 5, 0));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	meet(r);
	SERVER(r) {
		r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
		TRY(r, 5, recv(r->s, buf, 16, MSG_WAITALL));
		TRY(r, 4, send(r->s, "back", 4, 0));
	}
	CLIENT(r)
		TRY(r, 4, recv(r->c, buf, 16, 0));
	conn_close(r);
}

/* The client connects and makes no call; all happens; then it looks. */
static void progress_without_calls(struct role *r)
{
	struct sockaddr_storage sa;
	char buf[16];

	listener_open(r);
	CLIENT(r) {
		loopback_addr(&sa, r->port);
		r->c = stream_socket(r, SOCK_NONBLOCK);
		connect(r->c, (struct sockaddr *)&sa, sizeof(sa));
	}
	SERVER(r) {
		r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
		TRY(r, 6, send(r->s, "banner", 6, 0));
		TRY(r, 0, close(r->s));
	}
	meet(r);
	CLIENT(r) {
		poll_show(r, "client", POLLIN | POLLOUT | POLLRDHUP,
			  (short)event_await(r->c, POLLIN | POLLOUT | POLLRDHUP));
		TRY(r, 6, recv(r->c, buf, 16, 0));
		TRY(r, 0, recv(r->c, buf, 16, 0));
		TRY(r, 0, close(r->c));
	}
}

static void ipv6(struct role *r)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	socklen_t len = sizeof(sa);
	char buf[16];

	SERVER(r) {
		r->listener = (int)MUST(r, socket(AF_INET6, SOCK_STREAM, 0));
		MUST(r, bind(r->listener, (struct sockaddr *)&sa, len));
		MUST(r, listen(r->listener, 5));
		MUST(r, getsockname(r->listener, (struct sockaddr *)&sa, &len));
		tell(r, ntohs(sa.sin6_port));
	}
	CLIENT(r) {
		if (!r->server)
			sa.sin6_port = htons((uint16_t)hear(r));
		r->c = (int)MUST(r, socket(AF_INET6, SOCK_STREAM, 0));
		TRY(r, 0, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
	}
	SERVER(r)
		r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
	if (r->ring)
		conn_warm(r);
	CLIENT(r)
		TRY(r, 4, send(r->c, "six!", 4, 0));
	SERVER(r) {
		TRY(r, 4, recv(r->s, buf, 16, 0));
		TRY(r, 0, getpeername(r->s, (struct sockaddr *)&sa, &len));
		TRY(r, AF_INET6, sa.sin6_family);
	}
	conn_close(r);
}

/* A socket connected to itself is a legal, if odd, connection. */
static void to_itself(struct role *r)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char buf[8];
	int fd;

	CLIENT(r) {
		fd = stream_socket(r, 0);
		loopback_addr(&sa, 0);
		MUST(r, bind(fd, (struct sockaddr *)&sa, len));
		MUST(r, getsockname(fd, (struct sockaddr *)&sa, &len));
		TRY(r, 0, connect(fd, (struct sockaddr *)&sa, len));
		TRY(r, 4, send(fd, "self", 4, 0));
		TRY(r, 4, recv(fd, buf, 8, 0));
		TRY(r, 0, shutdown(fd, SHUT_WR));
		TRY(r, 0, recv(fd, buf, 8, 0));
		TRY(r, 0, close(fd));
	}
}

/* AF_UNSPEC takes the connection away; the socket can connect again. */
static void disconnect(struct role *r)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	char buf[8];

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
		SHOW(r, recv(r->c, buf, 8, 0));
		SHOW(r, send(r->c, buf, 8, MSG_NOSIGNAL));
		loopback_addr(&sa, r->port);
		TRY(r, 0, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
		TRY(r, 3, send(r->c, "new", 3, 0));
	}
	SERVER(r) {
		SHOW(r, recv(r->s, buf, 8, 0));
		TRY(r, 0, close(r->s));
		r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
		TRY(r, 3, recv(r->s, buf, 8, 0));
	}
	conn_close(r);
}

/* The server leaves and comes back on the same port at once. */
static void same_port_again(struct role *r)
{
	struct sockaddr_storage sa;
	int on = 1, round;
	char buf[8];

	conn_open(r);
	for (round = 0; round < 3; round++) {
		SERVER(r) {
			TRY(r, 0, close(r->s));
			TRY(r, 0, close(r->listener));
			loopback_addr(&sa, r->port);
			r->listener = stream_socket(r, 0);
			MUST(r, setsockopt(r->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
			TRY(r, 0, bind(r->listener, (struct sockaddr *)&sa, sizeof(sa)));
			TRY(r, 0, listen(r->listener, 5));
		}
		meet(r);
		CLIENT(r) {
			TRY(r, 0, recv(r->c, buf, 8, 0));
			TRY(r, 0, close(r->c));
		}
		conn_more(r, &r->s, &r->c);
		CLIENT(r)
			TRY(r, 3, send(r->c, "new", 3, 0));
		SERVER(r)
			TRY(r, 3, recv(r->s, buf, 8, 0));
	}
	conn_close(r);
}

/* Another warmed connection beside a warmed one, and after it. */
static void second_warm(struct role *r)
{
	struct role again;
	char buf[8];

	conn_open(r);
	again = *r;
	conn_more(&again, &again.s, &again.c);
	if (r->ring)
		conn_warm(&again);
	CLIENT(r) {
		TRY(r, 1, send(again.c, "2", 1, 0));
		TRY(r, 1, send(r->c, "1", 1, 0));
	}
	SERVER(r) {
		TRY(r, 1, recv(r->s, buf, 8, 0));
		CHECK(r, buf[0] == '1');
		TRY(r, 1, recv(again.s, buf, 8, 0));
		CHECK(r, buf[0] == '2');
	}
	conn_close(&again);
	r->t.failures += again.t.failures;
	CLIENT(r)
		TRY(r, 1, send(r->c, "3", 1, 0));
	SERVER(r)
		TRY(r, 1, recv(r->s, buf, 8, 0));
	conn_close(r);
}

static void accept_address(struct role *r)
{
	struct sockaddr_storage sa, me;
	socklen_t len = sizeof(sa);

	listener_open(r);
	CLIENT(r) {
		loopback_addr(&sa, r->port);
		r->c = stream_socket(r, 0);
		TRY(r, 0, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
		TRY(r, 0, getsockname(r->c, (struct sockaddr *)&me, &len));
		tell(r, addr_port(&me));
	}
	SERVER(r) {
		long port = r->client ? addr_port(&me) : hear(r);

		memset(&sa, 0, sizeof(sa));
		r->s = (int)MUST(r, accept(r->listener, (struct sockaddr *)&sa, &len));
		CHECK(r, addr_port(&sa) == port && len == (sa.ss_family == AF_INET ? 16 : 28));
		CHECK(r, addr_is_loopback(&sa));
	}
	conn_close(r);
}

/* A program that has listened at many ports, as FTP's data connections want it. */
static void new_ports(struct role *r)
{
	int s = -1, c = -1;

	for (int i = 0; i < 200; i++) {
		listener_open(r);
		conn_more(r, &s, &c);
		CLIENT(r)
			MUST(r, close(c));
		SERVER(r) {
			MUST(r, recv(s, &(char){ 0 }, 1, 0));
			MUST(r, close(s));
			MUST(r, close(r->listener));
		}
	}
	r->port = 0;
	conn_open(r);
	conn_close(r);
}

/* The listener is gone before the first byte. */
static void listener_gone(struct role *r)
{
	conn_open(r);
	conn_close(r);
	listener_open(r);
	conn_more(r, &r->s, &r->c);
	SERVER(r)
		TRY(r, 0, close(r->listener));
	conn_warm(r);
	CLIENT(r)
		CHECK(r, r->seen_on_ring[1]);
	conn_close(r);
}

/* Serve one listener: the name first, then an echo for each connection, until killed or told. */
static void *shared_echo(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buf[64];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0 && write(fd, buf, (size_t)n) == n)
		;
	close(fd);
	return NULL;
}

static void *shared_serve(void *arg)
{
	const int *of = arg;
	char name = (char)of[1];
	pthread_t th;
	int fd;

	while ((fd = accept(of[0], NULL, NULL)) >= 0)
		if (write(fd, &name, 1) != 1 || pthread_create(&th, NULL, shared_echo, (void *)(intptr_t)fd) ||
		    pthread_detach(th))
			_exit(1);
	return NULL;
}

static int shared_listener(struct role *r)
{
	int l = stream_socket(r, SOCK_CLOEXEC), on = 1;
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	loopback_addr(&sa, r->port);
	MUST(r, setsockopt(l, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)));
	MUST(r, bind(l, (struct sockaddr *)&sa, sizeof(sa)));
	MUST(r, listen(l, 64));
	MUST(r, getsockname(l, (struct sockaddr *)&sa, &len));
	r->port = addr_port(&sa);
	return l;
}

/* A connection to one of two: it keeps to who has accepted, and finds his rings. */
static long shared_call(struct role *r, unsigned int *seen, bool *ring)
{
	struct sockaddr_storage sa;
	char name, buf[8];
	int fd = stream_socket(r, 0), i;
	long wrong = 0;

	loopback_addr(&sa, r->port);
	MUST(r, connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
	wrong += read(fd, &name, 1) != 1;
	*seen |= 1u << (name - 'a');
	for (i = 0, *ring = false; i < 5000 && !*ring; i++) {
		wrong += write(fd, &i, sizeof(i)) != sizeof(i);
		wrong += recv(fd, buf, 4, MSG_WAITALL) != 4 || memcmp(buf, &i, 4) != 0;
		*ring = path_of(fd) == 3;
	}
	close(fd);
	return wrong;
}

/* Two processes listen at one port (SO_REUSEPORT); the kernel shares the connections out. */
static void reuse_port(struct role *r)
{
	int of[2] = { -1, 'a' }, ready[2];
	unsigned int seen = 0;
	long wrong = 0, off = 0;
	pid_t pid = -1;
	bool ring;

	SERVER(r) {
		pthread_t th;

		MUST(r, pipe(ready));
		of[0] = shared_listener(r);
		pid = fork();
		if (pid == 0) {
			close(of[0]);
			of[0] = shared_listener(r);
			of[1] = 'b';
			MUST(r, write(ready[1], "r", 1));
			shared_serve(of);
			_exit(0);
		}
		MUST(r, pid);
		MUST(r, -pthread_create(&th, NULL, shared_serve, of));
		MUST(r, read(ready[0], &(char){ 0 }, 1));
		tell(r, r->port);
	}
	CLIENT(r) {
		r->port = hear(r);
		for (int i = 0; i < 32; i++) {
			wrong += shared_call(r, &seen, &ring);
			off += !ring;
		}
		TRY(r, 0, wrong);
		TRY(r, 3, seen);
		TRY(r, 0, off);
	}
	meet(r);
	SERVER(r)
		TRY(r, 0, kill(pid, SIGKILL));
}

const struct conf_case connect_cases[] = {
	{ "connect-nonblocking", nonblocking, COLD },
	{ "connect-refused", refused, COLD },
	{ "connect-refused-then-right", refused_then_right, COLD },
	{ "connect-already", already_connected, 0 },
	{ "connect-short-ones", short_ones, COLD },
	{ "connect-fifty", fifty_at_once, COLD },
	{ "connect-data-before-accept", data_before_accept, COLD },
	{ "connect-progress-without-calls", progress_without_calls, COLD },
	{ "connect-ipv6", ipv6, 0 },
	{ "connect-to-itself", to_itself, COLD },
	{ "connect-disconnect", disconnect, 0 },
	{ "connect-same-port-again", same_port_again, 0 },
	{ "connect-second-warm", second_warm, 0 },
	{ "connect-accept-address", accept_address, COLD },
	{ "connect-new-ports", new_ports, 0 },
	{ "connect-listener-gone", listener_gone, COLD | TOGETHER },
	{ "connect-reuse-port", reuse_port, COLD | PROCESS },
	{ NULL, NULL, 0 }
};
