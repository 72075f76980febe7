/* SPDX-License-Identifier: MIT */
/*
 * context_switch_x86_64.S - context_switch.h for x86-64 with the System V ABI
 *
 * What lies at the sp of a context that waits, from there up:
 *
 *      0  MXCSR, and at 4 the x87 control word
 *      8  rbp
 *     16  where to go on
 *     24  128 bytes that are the caller's, if it makes no call (the red zone)
 *
 * switch_stacks() is jumped to, and jumps back. The compiler has saved the other registers that
 * matter to the caller, as switch_swap() says that it changes them: often none. And no call and no
 * return means that the processor, which takes each return for that of the last call, is right
 * about those of the callers as often as it can be.
 *
 * The x87 control word is loaded only where those of the two contexts differ, without the flags of
 * exceptions that were raised: one that is no longer masked would be a signal at once.
 *
 * HOW IT IS UNWOUND
 *   Both stacks look alike while it runs, so that one description (CFI) holds before and after the
 *   stack pointer changes: gdb and perf see the old context's callers up to that instruction, and
 *   the new one's from there on. They end at switch_start, whose caller is undefined.
 *
 * No mark of IBT or SHSTK (CET): see context_switch.h, SHADOW STACKS.
 */
#define RED_ZONE 128

	.text

/* from in rdi, to in rsi, where the caller goes on in rdx */
	.globl	switch_stacks
	.hidden	switch_stacks
	.type	switch_stacks, @function
	.p2align 4
switch_stacks:
	.cfi_startproc
	.cfi_def_cfa_offset 0
	.cfi_register %rip, %rdx
	leaq	-(RED_ZONE + 24)(%rsp), %rsp
	.cfi_adjust_cfa_offset RED_ZONE + 24
	stmxcsr	(%rsp)
	fnstcw	4(%rsp)
	movq	%rbp, 8(%rsp)
	.cfi_rel_offset %rbp, 8
	movq	%rdx, 16(%rsp)
	.cfi_rel_offset %rip, 16
	movzwl	4(%rsp), %ecx

	movq	%rsp, (%rdi)
	movq	(%rsi), %rsp

	movq	16(%rsp), %rdx
	movq	8(%rsp), %rbp
	ldmxcsr	(%rsp)
	cmpw	4(%rsp), %cx
	jne	2f
1:	leaq	RED_ZONE + 24(%rsp), %rsp
	.cfi_remember_state
	.cfi_adjust_cfa_offset -(RED_ZONE + 24)
	.cfi_restore %rbp
	.cfi_register %rip, %rdx
	jmpq	*%rdx

	.cfi_restore_state
2:	fnclex
	fldcw	4(%rsp)
	jmp	1b
	.cfi_endproc
	.size	switch_stacks, . - switch_stacks

/*
 * void *switch_prepare(void *low (rdi), void *high (rsi), void (*entry)(void *) (rdx),
 *			void *arg (rcx))
 * An unused red zone ends 32 bytes below high: there are entry and arg, and two zeros, the frame
 * below switch_start's for unwinders by frame pointers.
 */
	.globl	switch_prepare
	.hidden	switch_prepare
	.type	switch_prepare, @function
	.p2align 4
switch_prepare:
	.cfi_startproc
	leaq	-(32 + RED_ZONE + 24)(%rsi), %rax
	stmxcsr	(%rax)
	fnstcw	4(%rax)
	movq	%rdx, -32(%rsi)
	movq	%rcx, -24(%rsi)
	leaq	.Lbegin(%rip), %rdx
	movq	%rdx, 16(%rax)
	xorl	%edx, %edx
	movq	%rdx, 8(%rax)
	movq	%rdx, -16(%rsi)
	movq	%rdx, -8(%rsi)
	ret
	.cfi_endproc
	.size	switch_prepare, . - switch_prepare

/* A new context goes on behind the nop: an unwinder looks, as after a call, at the instruction
 * before that address. */
	.type	switch_start, @function
	.p2align 4
switch_start:
	.cfi_startproc
	.cfi_undefined %rip
	nop
.Lbegin:
	popq	%rax
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	callq	*%rax
	ud2
	.cfi_endproc
	.size	switch_start, . - switch_start

	.section .note.GNU-stack, "", @progbits
