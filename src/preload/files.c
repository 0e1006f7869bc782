/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * files.c - openers with optional arguments, stdio and aio
 *
 * libc reads, writes and closes a FILE's descriptor from inside, unseen here:
 * a connection that gets a FILE or an aio request is foreign from then on, and
 * fclose() is the last that can be heard of its number.
 */
#include <mqueue.h>
#include <stdarg.h>

#include "base/privfd.h"
#include "preload/door.h"

/* the mode is there only with O_CREAT or O_TMPFILE; else whatever is there is ignored */
#define MODE_OF(last) ({ \
	va_list _ap; \
	va_start(_ap, last); \
	mode_t _m = va_arg(_ap, mode_t); \
	va_end(_ap); \
	_m; })

int door_open(const char *path, int flags, ...)
{
	mode_t mode = MODE_OF(flags);

	if (!door_up())
		return (int)DOOR_RAW(SYS_openat, (AT_FDCWD, path, flags, mode));
	return door_fresh(DOOR_NUMBER(real.open(path, flags, mode)));
}
DOOR_ALIAS(__open, open)

int door_open64(const char *path, int flags, ...)
{
	mode_t mode = MODE_OF(flags);

	if (!door_up())
		return (int)DOOR_RAW(SYS_openat, (AT_FDCWD, path, flags, mode));
	return door_fresh(DOOR_NUMBER(real.open64(path, flags, mode)));
}
DOOR_ALIAS(__open64, open64)

int door_openat(int dir, const char *path, int flags, ...)
{
	mode_t mode = MODE_OF(flags);

	if (!door_up())
		return (int)DOOR_RAW(SYS_openat, (dir, path, flags, mode));
	return door_fresh(DOOR_NUMBER(real.openat(dir, path, flags, mode)));
}

int door_openat64(int dir, const char *path, int flags, ...)
{
	mode_t mode = MODE_OF(flags);

	if (!door_up())
		return (int)DOOR_RAW(SYS_openat, (dir, path, flags, mode));
	return door_fresh(DOOR_NUMBER(real.openat64(dir, path, flags, mode)));
}

int door_mq_open(const char *name, int flags, ...)
{
	va_list ap;

	va_start(ap, flags);
	mode_t mode = va_arg(ap, mode_t);
	struct mq_attr *attr = va_arg(ap, struct mq_attr *);
	va_end(ap);
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	return door_fresh(DOOR_NUMBER(real.mq_open(name, flags, mode, attr)));
}

int door_openpty(int *master, int *slave, char *name, const struct termios *t,
		 const struct winsize *w)
{
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	int ret = DOOR_NUMBER(real.openpty(master, slave, name, t, w));
	if (ret == 0) {
		door_over(*master);
		door_over(*slave);
	}
	return ret;
}

static FILE *fresh_file(FILE *f)
{
	if (f)
		DOOR_ASIDE(door_over(fileno(f)));
	return f;
}

/* f is about to close its descriptor behind our back */
static void file_closes(FILE *f)
{
	DOOR_ASIDE(int fd = fileno(f); if (fd >= 0 && door_tracked(fd)) sock_purge(fd));
}

FILE *door_fdopen(int fd, const char *mode)
{
	if (!door_up())
		return NULL;
	if (door_hides() && privfd_is(fd)) {
		errno = EBADF;
		return NULL;
	}
	door_foreign(fd);
	return real.fdopen(fd, mode);
}
DOOR_ALIAS(_IO_fdopen, fdopen)

FILE *door_fopen(const char *path, const char *mode)
{
	return door_up() ? fresh_file(DOOR_FILE(real.fopen(path, mode))) : NULL;
}
DOOR_ALIAS(_IO_fopen, fopen)

FILE *door_fopen64(const char *path, const char *mode)
{
	return door_up() ? fresh_file(DOOR_FILE(real.fopen64(path, mode))) : NULL;
}

FILE *door_freopen(const char *path, const char *mode, FILE *f)
{
	if (!door_up())
		return NULL;
	file_closes(f);
	return fresh_file(real.freopen(path, mode, f));
}

FILE *door_freopen64(const char *path, const char *mode, FILE *f)
{
	if (!door_up())
		return NULL;
	file_closes(f);
	return fresh_file(real.freopen64(path, mode, f));
}

FILE *door_tmpfile(void)
{
	return door_up() ? fresh_file(DOOR_FILE(real.tmpfile())) : NULL;
}

FILE *door_tmpfile64(void)
{
	return door_up() ? fresh_file(DOOR_FILE(real.tmpfile64())) : NULL;
}

int door_fclose(FILE *f)
{
	if (!door_up())
		return EOF;
	file_closes(f);
	return real.fclose(f);
}
DOOR_ALIAS(_IO_fclose, fclose)

DIR *door_opendir(const char *path)
{
	if (!door_up())
		return NULL;
	DIR *d = DOOR_FILE(real.opendir(path));
	if (d)
		door_over(dirfd(d));
	return d;
}

int door_vdprintf(int fd, const char *fmt, va_list ap)
{
	if (!door_up())
		return -1;
	door_foreign(fd);
	return real.vdprintf(fd, fmt, ap);
}

int door_dprintf(int fd, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int ret = door_vdprintf(fd, fmt, ap);
	va_end(ap);
	return ret;
}

int door___vdprintf_chk(int fd, int flag, const char *fmt, va_list ap)
{
	if (!door_up())
		return -1;
	door_foreign(fd);
	return real.__vdprintf_chk(fd, flag, fmt, ap);
}

int door___dprintf_chk(int fd, int flag, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int ret = door___vdprintf_chk(fd, flag, fmt, ap);
	va_end(ap);
	return ret;
}

void door_backtrace_symbols_fd(void *const *addr, int n, int fd)
{
	if (!door_up())
		return;
	door_foreign(fd);
	real.backtrace_symbols_fd(addr, n, fd);
}
DOOR_ALIAS(__backtrace_symbols_fd, backtrace_symbols_fd)

#define WRAP_AIO(name, cb_type) \
	int door_##name(cb_type *cb) \
	{ \
		if (!door_up()) \
			return (int)door_raw(-ENOSYS); \
		door_foreign(cb->aio_fildes); \
		return real.name(cb); \
	}
WRAP_AIO(aio_read, struct aiocb)
WRAP_AIO(aio_read64, struct aiocb64)
WRAP_AIO(aio_write, struct aiocb)
WRAP_AIO(aio_write64, struct aiocb64)

#define WRAP_LIO(name, cb_type) \
	int door_##name(int mode, cb_type *const list[], int n, struct sigevent *ev) \
	{ \
		if (!door_up()) \
			return (int)door_raw(-ENOSYS); \
		for (int i = 0; i < n; i++) \
			if (list[i]) \
				door_foreign(list[i]->aio_fildes); \
		return real.name(mode, list, n, ev); \
	}
WRAP_LIO(lio_listio, struct aiocb)
WRAP_LIO(lio_listio64, struct aiocb64)
