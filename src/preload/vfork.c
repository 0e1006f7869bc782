/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * vfork.c - vfork(), by hand
 *
 * The child borrows its parent's stack: it returns from vfork() first and then
 * writes over the place where the return address was.  So the address is kept
 * in a register across the system call, as libc does, and put back on both
 * sides.  Between the two returns door_vfork_depth is raised (process.c).
 * Where nobody has written these lines, vfork() is a fork(), which POSIX
 * allows.  The object carries no note of shadow stack support, so the loader
 * does not turn that on.
 */
#include <unistd.h>

#include "preload/door.h"

unexported void door_vfork_prepare(void);
unexported pid_t door_vfork_done(long ret);

void door_vfork_prepare(void)
{
	if (door_up() && door_on())
		DOOR_ASIDE(process_spawn_prepare());
}

/* in the parent: the child has gone, or never was */
pid_t door_vfork_done(long ret)
{
	if (door_on())
		DOOR_ASIDE(process_spawn_done());
	return (pid_t)door_raw(ret);
}

#if defined(__x86_64__)
__asm__(
"	.text\n"
"	.globl	vfork\n"
"	.type	vfork, @function\n"
"vfork:\n"
"	.cfi_startproc\n"
"	subq	$8, %rsp\n"
"	.cfi_adjust_cfa_offset 8\n"
"	call	door_vfork_prepare\n"
"	addq	$8, %rsp\n"
"	.cfi_adjust_cfa_offset -8\n"
"	movq	door_vfork_depth@gottpoff(%rip), %rdx\n"
"	addl	$1, %fs:(%rdx)\n"
"	popq	%rdi\n"
"	.cfi_adjust_cfa_offset -8\n"
"	.cfi_register %rip, %rdi\n"
"	movl	$58, %eax\n"			/* SYS_vfork */
"	syscall\n"
"	pushq	%rdi\n"
"	.cfi_adjust_cfa_offset 8\n"
"	.cfi_offset %rip, -8\n"
"	testl	%eax, %eax\n"
"	jz	1f\n"
"	subl	$1, %fs:(%rdx)\n"
"	movq	%rax, %rdi\n"
"	jmp	door_vfork_done\n"
"1:	ret\n"
"	.cfi_endproc\n"
"	.size	vfork, .-vfork\n"
"	.globl	__vfork\n"
"	.type	__vfork, @function\n"
"	.set	__vfork, vfork\n"
);
#else
pid_t door_vfork(void)
{
	return door_up() ? fork() : (pid_t)door_raw(-ENOSYS);
}
DOOR_ALIAS(__vfork, vfork)
#endif
