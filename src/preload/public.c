/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* public.c - the functions of sidestep/sidestep.h */
#include "sidestep/sidestep.h"

#include <string.h>

#include "preload/door.h"
#include "sock/about.h"

exported const char *sidestep_version(void)
{
	return SIDESTEP_VERSION;
}

exported int sidestep_fd_path(int fd)
{
	return about_path(fd);
}

exported const char *sidestep_fd_reason(int fd)
{
	return about_reason(fd);
}

static int none_of_ours(void)
{
	errno = EBADF;
	return -1;
}

exported int sidestep_fd_stats(int fd, struct sidestep_stats *stats, size_t size)
{
	struct sidestep_stats s;

	if (!door_tracked(fd))
		return none_of_ours();
	int err = DOOR_RET(about_stats(fd, &s));
	if (err)
		return err;
	memset(stats, 0, size);
	memcpy(stats, &s, MIN(size, sizeof(s)));
	return 0;
}

exported int sidestep_fd_attach(int fd)
{
	if (!door_tracked(fd) || !door_on())
		return none_of_ours();
	return DOOR_RET(about_attach(fd));
}

exported int sidestep_fd_retreat(int fd)
{
	if (!door_tracked(fd) || !door_on())
		return none_of_ours();
	return DOOR_RET(about_retreat(fd));
}
