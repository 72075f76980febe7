/* SPDX-License-Identifier: MIT */
/* broken_undefined.c - calls an undefined function whose name is part of another error of the
 * loader */
extern void cannot_allocate(void);
__attribute__((visibility("default"))) void calls(void);
void calls(void)
{
	cannot_allocate();
}
