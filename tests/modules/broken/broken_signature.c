/* SPDX-License-Identifier: MIT */
/* tests/modules/broken/broken_signature.c - a signature that is none: there is no type i65 */
#include <forkd/task.h>

FK_TASK(int64_t, same, (int64_t, n), )
{
	FK_LEAF(n);
}
FK_BODY(same)
{
	FK_RETURN(0);
}
FK_END(same)

FK_EXPORT(same, "n:i65 -> i64", 0, "The same number")
FK_MODULE(broken_signature, "A signature that is none")
