/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* host.c - does this host give what the library needs? */
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/library.h"
#include "../lib/variable.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/util.h"
#include "meet/meet.h"

static bool read_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(buf, (int)size, f);

	if (f)
		fclose(f);
	if (ok)
		buf[strcspn(buf, "\n")] = '\0';
	return ok;
}

static void failed(struct result *r, const char *what)
{
	int err = errno;

	result_set(r, V_FAIL, "%s: %s", what, strerror(err));
	if (err == EPERM || err == EACCES)
		result_fix(r, "a sandbox forbids it: allow it in the seccomp or AppArmor profile");
	else if (err == EMFILE || err == ENFILE)
		result_fix(r, "ulimit -n 20000");
	else if (err == ENOSYS)
		result_fix(r, "a newer kernel (5.4 or later), or one built with it");
}

static void check_memfd(struct result *r)
{
	int fd = memfd_create("sidestep-check", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0) {
		failed(r, "memfd_create");
		if (errno == EACCES)
			result_fix(r, "sysctl vm.memfd_noexec=1");
	} else if (ftruncate(fd, 65536) ||
		   fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		failed(r, "sealing a memory file");
	} else if (fallocate(fd, 0, 0, 65536)) {
		failed(r, "fallocate in a memory file");
	} else {
		void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (p == MAP_FAILED)
			failed(r, "mapping a memory file");
		else
			munmap(p, 65536);
	}
	close(fd);
}

static void check_event_fd(struct result *r)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		failed(r, "eventfd");
	close(fd);
}

static void check_unix_names(struct result *r)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int n = snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "sidestep/check/%d", (int)getpid());

	if (fd < 0)
		failed(r, "a Unix socket");
	else if (bind(fd, (struct sockaddr *)&sa,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) ||
		 listen(fd, 1))
		failed(r, "binding an abstract name");
	close(fd);
}

static bool pass(int to, int what)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} u = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
			  .cmsg_type = SCM_RIGHTS } };
	struct iovec v = { &(char){ 'x' }, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u,
			    .msg_controllen = sizeof(u) };

	memcpy(CMSG_DATA(&u.head), &what, sizeof(what));
	return sendmsg(to, &m, MSG_NOSIGNAL) == 1;
}

static void check_passing(struct result *r)
{
	int s[2];
	uid_t uid;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s)) {
		failed(r, "a pair of Unix sockets");
		return;
	}
	int err = meet_peer_uid(s[0], &uid, &pid);
	if (!pass(s[0], 0))
		failed(r, "passing a descriptor");
	else if (err && err != -ENODATA)
		result_set(r, V_FAIL, "SO_PEERCRED: %s", strerror(-err));
	close(s[0]);
	close(s[1]);
}

/* A connection over loopback: both ends, and the listener; -1 where there is none. */
static int loopback(int fd[3], struct meet_tuple *t)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_storage l = { 0 }, p = { 0 };
	socklen_t len = sizeof(a), ll = sizeof(l), pl = sizeof(p);

	fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	fd[2] = -1;
	if (fd[0] < 0 || fd[1] < 0 || bind(fd[0], (struct sockaddr *)&a, len) || listen(fd[0], 1) ||
	    getsockname(fd[0], (struct sockaddr *)&a, &len) ||
	    connect(fd[1], (struct sockaddr *)&a, len))
		return -1;
	fd[2] = accept4(fd[0], NULL, NULL, SOCK_CLOEXEC);
	if (fd[2] < 0 || getsockname(fd[1], (struct sockaddr *)&l, &ll) ||
	    getpeername(fd[1], (struct sockaddr *)&p, &pl))
		return -1;
	return meet_tuple_set(t, &l, &p);
}

static void close3(const int fd[3])
{
	for (int i = 0; i < 3; i++)
		close(fd[i]);
}

static void check_sock_diag(struct result *r)
{
	static struct diag d;
	struct meet_tuple t;
	struct diag_result found;
	int fd[3];

	if (loopback(fd, &t)) {
		failed(r, "a TCP connection over loopback");
	} else {
		diag_open(&d);
		int err = diag_lookup(&d, &t, diag_next(&d), clock_ns(), &found);
		if (err || found.uid != geteuid()) {
			result_set(r, V_FAIL, "neither netlink nor /proc/net/tcp tells whose a socket is");
			result_fix(r, "modprobe tcp_diag");
		} else if (d.scan.begun) {
			result_set(r, V_WARN, "not over netlink, only from /proc/net/tcp: slow where there are many sockets");
			result_fix(r, "modprobe tcp_diag");
		}
		diag_close(&d);
	}
	close3(fd);
}

static void check_tcp_info(struct result *r)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	struct meet_tuple t;
	int fd[3];

	if (loopback(fd, &t) || getsockopt(fd[1], IPPROTO_TCP, TCP_INFO, &info, &len))
		failed(r, "TCP_INFO");
	else if (len < offsetof(struct tcp_info, tcpi_segs_out)) {
		result_set(r, V_FAIL, "TCP_INFO does not count bytes");
		result_fix(r, "a newer kernel (5.4 or later)");
	}
	close3(fd);
}

static void check_user(struct result *r)
{
	if (meet_uid_proves(geteuid())) {
		result_set(r, V_OK, "uid %u", (unsigned)geteuid());
		return;
	}
	result_set(r, V_FAIL, "uid %u says nothing of who somebody is (the overflow user, or a user namespace that maps only some): reason owner-unknown",
		   (unsigned)geteuid());
	result_fix(r, "run as a user of its own; in containers map all users");
}

static void check_sandbox(struct result *r)
{
	char line[256], apparmor[128] = "", seccomp = '0';
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "Seccomp:", 8))
			seccomp = line[strcspn(line, "0123456789")];
	if (f)
		fclose(f);
	bool aa = read_line("/proc/self/attr/apparmor/current", apparmor, sizeof(apparmor)) ||
		  read_line("/proc/self/attr/current", apparmor, sizeof(apparmor));
	if (!aa || !apparmor[0])
		strcpy(apparmor, "none");
	result_set(r, seccomp == '0' ? V_OK : V_INFO, "%s; security label %s",
		   seccomp == '0' ? "no seccomp filter" :
		   "a seccomp filter is on; what it forbids would have failed above", apparmor);
}

static void check_files(struct result *r)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl))
		return;
	result_set(r, V_OK, "%llu open files", (unsigned long long)rl.rlim_cur);
	if (rl.rlim_cur >= 256)
		return;
	r->v = V_WARN;
	result_fix(r, "ulimit -n %llu", (unsigned long long)(rl.rlim_max < 20000 ? rl.rlim_max : 20000));
}

static int count_entries(const char *dir, const char *prefix)
{
	DIR *d = opendir(dir);
	int n = 0;

	for (struct dirent *e; d && (e = readdir(d)) != NULL;)
		n += e->d_name[0] != '.' && !strncmp(e->d_name, prefix, strlen(prefix));
	if (d)
		closedir(d);
	return n;
}

static bool have_devices(void)
{
	return count_entries("/sys/class/infiniband", "") > 0;
}

static void check_memlock(struct result *r)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_MEMLOCK, &rl))
		return;
	if (rl.rlim_cur == RLIM_INFINITY) {
		result_set(r, V_OK, "no limit");
		return;
	}
	result_set(r, have_devices() ? V_WARN : V_OK, "%llu KiB%s",
		   (unsigned long long)rl.rlim_cur / 1024,
		   have_devices() ? ", which the rings of all connections share" :
		   "; the software RNIC locks none");
	if (r->v == V_WARN)
		result_fix(r, "ulimit -l unlimited    # or in /etc/security/limits.conf: * - memlock unlimited");
}

bool library_path(char path[PATH_MAX])
{
	char found[PATH_MAX];

	return library_find(found, LIBDIR) && realpath(found, path);
}

pid_t self_under(const char *lib, int fd, const char *option, const char *value)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(fd < 0 ? null : fd, 0);
	dup2(fd < 0 ? null : fd, 1);
	dup2(null, 2);
	setenv("LD_PRELOAD", lib, 1);
	unsetenv("SIDESTEP_STATS_FILE");	/* it is none of the user's programs */
	execl("/proc/self/exe", "sidestep-check", option, value, NULL);
	_exit(126);
}

/* See main.c. */
static bool loads_into_us(const char *lib)
{
	pid_t pid = self_under(lib, -1, "--loaded", NULL);
	int status;

	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

static void check_library(struct result *r)
{
	char path[PATH_MAX];

	if (!library_path(path)) {
		result_set(r, V_FAIL, LIBRARY " is neither in " LIBDIR " nor beside this program");
		result_fix(r, "make install    # or ./quickstart");
	} else if (loads_into_us(path)) {
		result_set(r, V_OK, "%.400s", path);
	} else {
		result_set(r, V_FAIL, "%.400s does not load into a program", path);
		result_fix(r, "LD_PRELOAD=%.300s /bin/true    # the loader says why", path);
	}
}

static const char *const variables[] = {
#define X(field, kind, var, def, values, meaning) var,
	SETTINGS(X)
#undef X
};

/* The files that a program would read; false, with *r set, if one is not used. */
static bool files_good(struct result *r)
{
	const char *named = getenv("SIDESTEP_CONFIG");
	char user[PATH_MAX] = "";
	const char *paths[] = { named && *named ? named : NULL, user, CONF_SYSTEM };
	static char text[CONF_BYTES];

	conf_user_path(user, sizeof(user), getenv("XDG_CONFIG_HOME"), getenv("HOME"));
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct conf_error e;
		ssize_t n = paths[i] && *paths[i] ? conf_read(paths[i], paths[i] == user, text, &e) : -ENOENT;

		if ((n == -ENOENT && paths[i] != named) || (n == -ENOENT && !paths[i]) ||
		    (n >= 0 && !conf_parse(text, (size_t)n, NULL, NULL, &e)))
			continue;
		result_set(r, V_WARN, "nothing is used of %.250s, line %u: %.200s", paths[i], e.line, e.text);
		result_fix(r, "sidestep --check-config %.300s", paths[i]);
		return false;
	}
	return true;
}

static void check_settings(struct result *r)
{
	static struct config c;
	size_t n = 0;

	if (!files_good(r))
		return;
	for (char **e = environ; *e; e++) {
		const char *nearest = variable_unknown(*e);
		int len = (int)strcspn(*e, "=");

		if (!nearest)
			continue;
		result_set(r, V_WARN, "there is no variable %.*s; did you mean %s?", len, *e, nearest);
		result_fix(r, "unset %.*s    # export %s=...", len, *e, nearest);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *v = getenv(variables[i]);

		if (!v || !*v)
			continue;
		n++;
		if (config_set(&c, variables[i], v)) {
			result_set(r, V_WARN, "%s cannot be \"%.200s\"; the default holds", variables[i], v);
			result_fix(r, "unset %s    # see sidestep --help", variables[i]);
			return;
		}
	}
	const char *on = getenv("SIDESTEP"), *attach = getenv("SIDESTEP_ATTACH"), *rnic = getenv("SIDESTEP_RNIC");
	if ((on && (!strcmp(on, "off") || !strcmp(on, "0"))) || (attach && !strcmp(attach, "never")) ||
	    (rnic && !strcmp(rnic, "none"))) {
		result_set(r, V_WARN, "the environment switches sidestep off");
		result_fix(r, "unset SIDESTEP SIDESTEP_ATTACH SIDESTEP_RNIC");
	} else {
		result_set(r, V_OK, "%zu variables set", n);
	}
}

static bool loads(const char *lib)
{
	void *h = dlopen(lib, RTLD_LAZY | RTLD_LOCAL);

	if (h)
		dlclose(h);
	return h != NULL;
}

static void check_verbs_libs(struct result *r)
{
	bool verbs = loads("libibverbs.so.1"), cm = loads("librdmacm.so.1");

	if (verbs && cm) {
		result_set(r, V_OK, "both are there");
		return;
	}
	result_set(r, have_devices() ? V_WARN : V_INFO, "%s not there; RDMA devices cannot be used%s",
		   verbs ? "librdmacm is" : cm ? "libibverbs is" : "libibverbs and librdmacm are",
		   have_devices() ? "" : ", and there are none");
	if (r->v == V_WARN)
		result_fix(r, "apt-get install libibverbs1 librdmacm1 ibverbs-providers");
}

static void add_port(struct result *r, const char *dev, const char *port)
{
	char path[600], state[64] = "?", layer[64] = "?";
	size_t at = strlen(r->text);

	snprintf(path, sizeof(path), "/sys/class/infiniband/%.200s/ports/%.40s/state", dev, port);
	read_line(path, state, sizeof(state));
	snprintf(path, sizeof(path), "/sys/class/infiniband/%.200s/ports/%.40s/link_layer", dev, port);
	read_line(path, layer, sizeof(layer));
	snprintf(r->text + at, sizeof(r->text) - at, "%s%.60s port %.10s: %s, %s", at ? "; " : "",
		 dev, port, strchr(state, ' ') ? strchr(state, ' ') + 1 : state, layer);
	if (strstr(state, "ACTIVE"))
		r->v = V_OK;
}

static void add_ports(struct result *r, const char *dev)
{
	char path[600];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%.200s/ports", dev);
	DIR *ports = opendir(path);
	for (struct dirent *p; ports && (p = readdir(ports)) != NULL;)
		if (p->d_name[0] != '.')
			add_port(r, dev, p->d_name);
	if (ports)
		closedir(ports);
}

static void check_devices(struct result *r)
{
	DIR *d = opendir("/sys/class/infiniband");

	result_set(r, V_WARN, "%s", "");
	for (struct dirent *e; d && (e = readdir(d)) != NULL;)
		if (e->d_name[0] != '.')
			add_ports(r, e->d_name);
	if (d)
		closedir(d);
	if (!r->text[0])
		result_set(r, V_INFO, "none: connections within this host use the software RNIC");
	else if (r->v == V_WARN)
		result_fix(r, "ip link; rdma link    # no port is active");
}

static void check_dev_files(struct result *r)
{
	DIR *d = opendir("/dev/infiniband");
	int seen = 0, denied = 0;

	for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
		char path[300];

		if (strncmp(e->d_name, "uverbs", 6) && strcmp(e->d_name, "rdma_cm"))
			continue;
		snprintf(path, sizeof(path), "/dev/infiniband/%s", e->d_name);
		seen++;
		denied += access(path, R_OK | W_OK) != 0;
	}
	if (d)
		closedir(d);
	if (!seen && !have_devices())
		result_set(r, V_INFO, "none");
	else if (!seen)
		result_set(r, V_WARN, "there are devices, but nothing in /dev/infiniband");
	else
		result_set(r, denied ? V_WARN : V_OK, "%d of %d may be used", seen - denied, seen);
	if (r->v == V_WARN)
		result_fix(r, seen ? "chmod a+rw /dev/infiniband/uverbs* /dev/infiniband/rdma_cm" :
			   "modprobe -a ib_uverbs rdma_ucm");
}

/* Has it a port that is active?  name NULL: any device. */
static bool device_active(const char *name)
{
	DIR *d = opendir("/sys/class/infiniband");
	struct result r = { .v = V_WARN };

	for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
		if (e->d_name[0] == '.' || (name && strcmp(name, e->d_name)))
			continue;
		r.text[0] = '\0';
		add_ports(&r, e->d_name);
	}
	if (d)
		closedir(d);
	return r.v == V_OK;
}

void device_lacks(const char *name, char *what, size_t size)
{
	what[0] = '\0';
	if (!device_active(name))
		snprintf(what, size, "no RDMA device%s%.64s with an active port is here",
			 name ? " " : "", name ? name : "");
	else if (!loads("libibverbs.so.1") || !loads("librdmacm.so.1"))
		snprintf(what, size, "libibverbs or librdmacm is not here");
	else if (access("/dev/infiniband/rdma_cm", R_OK | W_OK))
		snprintf(what, size, "/dev/infiniband/rdma_cm: %s", strerror(errno));
}

const struct check host_checks[] = {
#define X(fn, name, about) { name, about, check_##fn },
	HOST_CHECKS(X)
#undef X
};
const size_t host_check_count = ARRAY_SIZE(host_checks);
