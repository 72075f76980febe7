/* SPDX-License-Identifier: MIT */
/*
 * daemon/switch_x86_64.S - switch.h for x86-64 with the System V ABI
 *
 * WHAT IT IS
 *   What lies at the sp of a context that waits, from there up:
 *
 *        0  MXCSR, and at 4 the x87 control word
 *        8  r15, 16 r14, 24 r13, 32 r12, 40 rbx, 48 rbp
 *       56  where to go on
 *
 *   To load MXCSR or the x87 control word takes longer than all the rest, and hardly anybody changes
 *   them: they are loaded only where those of the two contexts differ. The flags of MXCSR count for
 *   nothing there.
 *
 *   It ends in a jump, not in a return: the processor predicts returns by the calls that it has
 *   seen, and none of them was on this stack.
 *
 * HOW IT IS UNWOUND
 *   Both stacks look alike while it runs, so that one description (CFI) holds before and after the
 *   stack pointer changes: gdb and perf see the old context's callers up to that instruction, and
 *   the new one's from there on. They end at switch_start, whose caller is undefined.
 *
 * No mark of IBT or SHSTK (CET): see switch.h, SHADOW STACKS.
 */
#define FLAGS_OF_MXCSR 0x3f

	.text

/* void switch_swap(struct switch_context *from (rdi), struct switch_context *to (rsi)) */
	.globl	switch_swap
	.hidden	switch_swap
	.type	switch_swap, @function
	.p2align 4
switch_swap:
	.cfi_startproc
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	pushq	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	pushq	%r13
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r13, 0
	pushq	%r14
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r14, 0
	pushq	%r15
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r15, 0
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	stmxcsr	(%rsp)
	fnstcw	4(%rsp)
	movl	(%rsp), %eax
	movzwl	4(%rsp), %ecx

	movq	%rsp, (%rdi)
	movq	(%rsi), %rsp

	xorl	(%rsp), %eax
	xorw	4(%rsp), %cx
	andl	$~FLAGS_OF_MXCSR, %eax
	orl	%ecx, %eax
	jnz	2f
	.cfi_remember_state
1:	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%r15
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r15
	popq	%r14
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r14
	popq	%r13
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r13
	popq	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rcx
	jmpq	*%rcx

	/* A flag of the x87 that is raised and no longer masked would be a signal at once. */
	.cfi_restore_state
2:	fnclex
	fldcw	4(%rsp)
	ldmxcsr	(%rsp)
	jmp	1b
	.cfi_endproc
	.size	switch_swap, . - switch_swap

/*
 * void *switch_prepare(void *low (rdi), void *high (rsi), void (*entry)(void *) (rdx),
 *			void *arg (rcx))
 * Two words of zeros above: the frame below switch_start's, for who goes by frame pointers.
 */
	.globl	switch_prepare
	.hidden	switch_prepare
	.type	switch_prepare, @function
	.p2align 4
switch_prepare:
	.cfi_startproc
	leaq	-80(%rsi), %rax
	stmxcsr	(%rax)
	fnstcw	4(%rax)
	movq	%rcx, 24(%rax)
	movq	%rdx, 32(%rax)
	leaq	.Lbegin(%rip), %rdx
	movq	%rdx, 56(%rax)
	xorl	%edx, %edx
	movq	%rdx, 48(%rax)
	movq	%rdx, 64(%rax)
	movq	%rdx, 72(%rax)
	ret
	.cfi_endproc
	.size	switch_prepare, . - switch_prepare

/* A new context goes on behind the nop: who unwinds looks, as after a call, at the instruction before
 * that address. r12 is entry, r13 its argument, and rsp a multiple of 16. */
	.type	switch_start, @function
	.p2align 4
switch_start:
	.cfi_startproc
	.cfi_undefined %rip
	nop
.Lbegin:
	movq	%r13, %rdi
	callq	*%r12
	ud2
	.cfi_endproc
	.size	switch_start, . - switch_start

	.section .note.GNU-stack, "", @progbits
