/* SPDX-License-Identifier: MIT */
/*
 * daemon/switch_aarch64.S - switch.h for aarch64 (AAPCS64)
 *
 * WHAT IT IS
 *   What lies at the sp of a context that waits, from there up:
 *
 *        0  x29, 8 x30: where to go on
 *       16  x19 to x28
 *       96  d8 to d15: of the vector registers their lower halves
 *      160  FPCR
 *
 *   FPCR is written only where those of the two contexts differ: that waits for all floating-point
 *   operations in flight.
 *
 * HOW IT IS UNWOUND
 *   As in switch_x86_64.S: both stacks look alike while it runs. The callers end at switch_start.
 *
 * A return ends it, which is no branch that BTI looks at. No mark of BTI or GCS, though: see
 * switch.h, SHADOW STACKS.
 */
	.text

/* The register pair a, b is saved at an offset from the stack pointer. */
	.macro	save a, b, offset
	stp	\a, \b, [sp, #\offset]
	.cfi_rel_offset \a, \offset
	.cfi_rel_offset \b, \offset + 8
	.endm
	.macro	restore a, b, offset
	ldp	\a, \b, [sp, #\offset]
	.cfi_restore \a
	.cfi_restore \b
	.endm

/* void switch_swap(struct switch_context *from (x0), struct switch_context *to (x1)) */
	.globl	switch_swap
	.hidden	switch_swap
	.type	switch_swap, %function
	.p2align 4
switch_swap:
	.cfi_startproc
	sub	sp, sp, #176
	.cfi_adjust_cfa_offset 176
	save	x29, x30, 0
	save	x19, x20, 16
	save	x21, x22, 32
	save	x23, x24, 48
	save	x25, x26, 64
	save	x27, x28, 80
	save	d8, d9, 96
	save	d10, d11, 112
	save	d12, d13, 128
	save	d14, d15, 144
	mrs	x9, fpcr
	str	x9, [sp, #160]

	mov	x10, sp
	str	x10, [x0]
	ldr	x10, [x1]
	mov	sp, x10

	ldr	x10, [sp, #160]
	cmp	x9, x10
	b.eq	1f
	msr	fpcr, x10
1:	restore	d14, d15, 144
	restore	d12, d13, 128
	restore	d10, d11, 112
	restore	d8, d9, 96
	restore	x27, x28, 80
	restore	x25, x26, 64
	restore	x23, x24, 48
	restore	x21, x22, 32
	restore	x19, x20, 16
	restore	x29, x30, 0
	add	sp, sp, #176
	.cfi_adjust_cfa_offset -176
	ret
	.cfi_endproc
	.size	switch_swap, . - switch_swap

/*
 * void *switch_prepare(void *low (x0), void *high (x1), void (*entry)(void *) (x2), void *arg (x3))
 */
	.globl	switch_prepare
	.hidden	switch_prepare
	.type	switch_prepare, %function
	.p2align 4
switch_prepare:
	.cfi_startproc
	sub	x0, x1, #176
	adr	x9, .Lbegin
	stp	xzr, x9, [x0]
	stp	x2, x3, [x0, #16]
	mrs	x9, fpcr
	str	x9, [x0, #160]
	ret
	.cfi_endproc
	.size	switch_prepare, . - switch_prepare

/* A new context goes on behind the nop: who unwinds looks, as after a call, at the instruction before
 * that address. x19 is entry, x20 its argument. */
	.type	switch_start, %function
	.p2align 4
switch_start:
	.cfi_startproc
	.cfi_undefined x30
	nop
.Lbegin:
	mov	x0, x20
	blr	x19
	brk	#0
	.cfi_endproc
	.size	switch_start, . - switch_start

	.section .note.GNU-stack, "", %progbits
