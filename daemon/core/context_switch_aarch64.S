/* SPDX-License-Identifier: MIT */
/*
 * context_switch_aarch64.S - context_switch.h for aarch64 (AAPCS64)
 *
 * The stack of a suspended context, from its sp up:
 *
 *      0  x29, 8 address of its next instruction
 *     16  FPCR
 *
 * The rest is as in context_switch_x86_64.S: the compiler saves the other registers, and there is
 * no call and no return. FPCR is written only if the values of the two contexts differ, because the
 * write waits for all floating-point operations in flight.
 *
 * UNWINDING
 *   As in context_switch_x86_64.S: both stacks look alike while it runs. Callers end at
 *   switch_start.
 *
 * No mark of BTI or GCS: see context_switch.h, SHADOW STACKS.
 */
	.text

/* from in x0, to in x1, address of the caller's next instruction in x30 */
	.globl	switch_stacks
	.hidden	switch_stacks
	.type	switch_stacks, %function
	.p2align 4
switch_stacks:
	.cfi_startproc
	stp	x29, x30, [sp, #-32]!
	.cfi_adjust_cfa_offset 32
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	mrs	x9, fpcr
	str	x9, [sp, #16]

	mov	x10, sp
	str	x10, [x0]
	ldr	x10, [x1]
	mov	sp, x10

	ldr	x10, [sp, #16]
	cmp	x9, x10
	b.eq	1f
	msr	fpcr, x10
1:	ldp	x29, x30, [sp], #32
	.cfi_adjust_cfa_offset -32
	.cfi_restore x29
	.cfi_restore x30
	br	x30
	.cfi_endproc
	.size	switch_stacks, . - switch_stacks

/*
 * void *switch_prepare(void *low (x0), void *high (x1), void (*entry)(void *) (x2), void *arg (x3))
 */
	.globl	switch_prepare
	.hidden	switch_prepare
	.type	switch_prepare, %function
	.p2align 4
switch_prepare:
	.cfi_startproc
	stp	x2, x3, [x1, #-16]
	adr	x9, .Lbegin
	stp	xzr, x9, [x1, #-48]!
	mrs	x9, fpcr
	str	x9, [x1, #16]
	mov	x0, x1
	ret
	.cfi_endproc
	.size	switch_prepare, . - switch_prepare

/* A new context starts after the nop: an unwinder reads, as after a call, the instruction before
 * that address. */
	.type	switch_start, %function
	.p2align 4
switch_start:
	.cfi_startproc
	.cfi_undefined x30
	nop
.Lbegin:
	ldp	x1, x0, [sp], #16
	.cfi_adjust_cfa_offset -16
	blr	x1
	brk	#0
	.cfi_endproc
	.size	switch_start, . - switch_start

	.section .note.GNU-stack, "", %progbits
