/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * door.c - opens the door at the first call, shuts it at the last
 *
 * The constructor is only the usual opener: the constructors of libraries that
 * load before this one, the program's allocator, and preloads of others may
 * call an exported function earlier, and then that call opens.  For the same
 * reason the library is not linked with -z initfirst: it has no need to be the
 * first, only one object of a process can be it, and libc's own start-up
 * (environ) would come after ours.
 *
 * Lock: none.  The thread that wins the race for `begun` opens; until it is
 * done other threads find DOOR_SHUT, resolve for themselves and pass, as if
 * the library were off.
 */
#include "preload/door.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/log.h"

int door_state;
__thread int door_vfork_depth;
int door_pid;

static __thread bool entering;
static bool resolved;
static int begun;
static int ended;

static void at_quick_exit_run(void)
{
	door_exit(0);
}

/*
 * Registered first, so nearest to the fork: the program's own handlers, which
 * may use sockets, run before our prepare and after our parent and child.
 * fork(), daemon() and forkpty() all come through here.
 */
static void fork_hooks(void)
{
	pthread_atfork(door_fork_prepare, door_fork_parent, door_fork_child);
	at_quick_exit(at_quick_exit_run);
}

static void door_begin(char *const *envp)
{
	int refused = config_load(envp);

	door_pid = sys_getpid();
	clock_init();
	log_open((enum log_level)config.log, config.log_file[0] ? config.log_file : NULL);
	if (refused)
		log_error("%d settings could not be read, using the defaults", refused);
	if (config.enabled) {
		process_start(envp);
		fork_hooks();
	}
	/* pairs with door_up(): real and config are filled in */
	st_rel(&door_state, config.enabled ? DOOR_ON : DOOR_PASS);
}

static bool door_enter_with(char *const *envp)
{
	if (entering)
		return ld_acq(&resolved);
	entering = true;
	/* pairs with the store below: the table is complete */
	if (!ld_acq(&resolved) && real_resolve())
		st_rel(&resolved, true);
	if (ld_acq(&resolved) && envp && cas_acqrel(&begun, 0, 1))
		DOOR_ASIDE(door_begin(envp));
	entering = false;
	return ld_acq(&resolved);
}

bool door_enter(void)
{
	/* thread storage and environ are out of reach before relocation */
	if (!real_reachable())
		return false;
	return door_enter_with(environ);
}

__attribute__((constructor(102))) static void door_start(int argc, char **argv, char **envp)
{
	door_enter_with(envp);
}

void door_exit(int status)
{
	/* a child that nobody announced may share its parent's memory */
	if (!door_on() || sys_getpid() != door_pid)
		return;
	if (!cas_acqrel(&ended, 0, 1))
		return;
	process_exit(status);
	if (config.stats_file[0])
		counters_write_file(config.stats_file);
}

__attribute__((destructor(101))) static void door_end(void)
{
	door_exit(0);
}

void door_fork_prepare(void)
{
	if (door_on())
		DOOR_ASIDE(process_fork_prepare());
}

void door_fork_parent(void)
{
	if (door_on())
		DOOR_ASIDE(process_fork_parent());
}

void door_fork_child(void)
{
	if (!door_on())
		return;
	door_pid = sys_getpid();
	st_rlx(&ended, 0);
	DOOR_ASIDE(process_fork_child());
}
