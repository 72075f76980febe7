/* SPDX-License-Identifier: MIT */
/* broken_undefined.c - calls what is not there, and is called like an error of
 * the loader's that has another cause */
extern void cannot_allocate(void);
__attribute__((visibility("default"))) void calls(void);
void calls(void)
{
	cannot_allocate();
}
