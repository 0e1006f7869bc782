/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * door.c - opens the door in the constructor, shuts it at the last call
 *
 * Constructors of other libraries, the program's allocator and preloads of
 * others may call an exported function before that.  The first such call finds
 * libc's functions (real.c); it and its like pass as if the library were off.
 * Nothing else is done that early: the caller may be an allocator or a
 * sanitizer in the middle of its own start.
 *
 * The library is not linked with -z initfirst: it has no need to be the first,
 * only one object of a process can be it, and libc's own start-up (environ)
 * would come after ours.
 */
#include "preload/door.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/page.h"

int door_state;
__thread int door_vfork_depth;
int door_pid;
int door_filtered;

static __thread bool entering;
static bool resolved;
static int ended;
static bool prepared;		/* for a fork: nobody else is here until it is over */

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
	section_start();
	clock_init();
	log_open((enum log_level)config.log, config.log_file[0] ? config.log_file : NULL);
	config_log_problems();
	if (refused)
		log_error("%d settings could not be read, using the defaults", refused);
	if (config.enabled && config.stats_file[0])
		counters_open(config.stats_file);
	if (config.enabled) {
		fault_arm();
		page_allow();
		ready_init();
		process_start(envp);
		fork_hooks();
		sock_adopt_all();
	}
	/* pairs with door_up(): real and config are filled in */
	st_rel(&door_state, config.enabled ? DOOR_ON : DOOR_PASS);
}

bool door_enter(void)
{
	/* thread storage is out of reach before relocation */
	if (!real_reachable())
		return false;
	/* pairs with the store below: the table is complete */
	if (entering || ld_acq(&resolved))
		return ld_acq(&resolved);
	entering = true;
	if (real_resolve())
		st_rel(&resolved, true);
	entering = false;
	return ld_acq(&resolved);
}

__attribute__((constructor(102))) static void door_start(int argc, char **argv, char **envp)
{
	if (door_enter())
		DOOR_ASIDE(door_begin(envp));
}

/* may we make system calls that the program did not ask for? */
static bool door_talks(void)
{
	return !ld_rlx(&door_filtered) && door_on();
}

bool door_make_room(void)
{
	bool more = false;

	if (door_on())
		DOOR_ASIDE(more = process_make_room());
	return more;
}

static void write_stats(void)
{
	if (config.stats_file[0])
		counters_write(config.stats_file);
}

void door_exit(int status)
{
	if (!door_talks())
		return;
	/* a child that nobody announced may share its parent's memory */
	if (sys_getpid() != door_pid || !cas_acqrel(&ended, 0, 1))
		return;
	section_enter();
	process_exit(status);
	write_stats();
	section_leave();
}

/*
 * A filter may kill for any call that the program itself does not make; the
 * children inherit it.  So the counters are written now or never.
 */
void door_filter(void)
{
	if (!door_talks())
		return;
	DOOR_ASIDE({
		process_seal();
		write_stats();
		page_forbid();
	});
	st_rlx(&door_filtered, 1);
	st_rel(&door_state, DOOR_SEALED);
}

__attribute__((destructor(101))) static void door_end(void)
{
	door_exit(0);
}

void door_fork_prepare(void)
{
	if (!door_talks())
		return;
	section_enter();		/* locks are held until after the fork */
	DOOR_ASIDE(process_fork_prepare());
	prepared = true;
}

void door_fork_parent(void)
{
	if (!prepared)
		return;
	prepared = false;
	DOOR_ASIDE(process_fork_parent());
	section_leave();
}

static void child_begin(void)
{
	door_pid = sys_getpid();
	door_vfork_depth = 0;	/* a fork in a vfork child: the memory is our own now */
	prepared = false;
	st_rlx(&ended, 0);
	door_signals_child();
	DOOR_ASIDE({
		process_fork_child();
		if (config.stats_file[0])
			counters_open_child(config.stats_file);
	});
}

void door_fork_child(void)
{
	if (!prepared)
		return;
	child_begin();
	section_leave();
}

/* The thread may be anywhere; the locks it holds are the parent's business. */
void door_stray(void)
{
	if (ld_rlx(&door_filtered) || ld_rlx(&door_state) != DOOR_ON) {
		st_rlx(process_mark, 1);
		return;
	}
	bool early = prepared;	/* somebody's handler of the fork is here before ours */

	child_begin();
	if (early)
		section_leave();
}
