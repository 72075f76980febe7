/* SPDX-License-Identifier: MIT */
/*
 * context_switch_x86_64.S - context_switch.h for x86-64 with the System V ABI
 *
 * The stack of a suspended context, from its sp up:
 *
 *      0  MXCSR, and at 4 the x87 control word
 *      8  rbp
 *     16  address of its next instruction
 *     24  128 bytes that the caller may use if it makes no call (the red zone)
 *
 * switch_swap() jumps to switch_stacks(), which jumps back. The compiler saves the other registers
 * that the caller needs, often none, because switch_swap() declares them as changed. Without a call
 * or a return here, the processor's return-address prediction stays correct for the callers.
 *
 * The x87 control word is loaded only if the values of the two contexts differ, and without the
 * flags of raised exceptions: an exception that is no longer masked would send a signal at once.
 *
 * UNWINDING
 *   Both stacks look alike while it runs, so that one description (CFI) holds before and after the
 *   stack pointer changes: gdb and perf see the old context's callers up to that instruction, and
 *   the new one's from there on. They end at switch_start, whose caller is undefined.
 *
 * No mark of IBT or SHSTK (CET): see context_switch.h, SHADOW STACKS.
 */
#define RED_ZONE 128

	.text

/* from in rdi, to in rsi, address of the caller's next instruction in rdx */
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

/* A new context starts after the nop: an unwinder reads, as after a call, the instruction before
 * that address. */
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
