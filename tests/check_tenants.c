/* SPDX-License-Identifier: MIT */
/* tenants: which of them are idle. tests/check_users.c and check_keeping_roster.c have the rest. */
#include "daemon/tenants.h"

#include "tests/check_unit.h"

/* A manager goes on with a client of the last one that is gone already, before all others have
 * theirs. */
START_TEST(a_tenant_whose_last_client_goes_while_a_manager_takes_over_is_idle_once)
{
	static struct tenants tenants = { .n = 2 };
	uint32_t used, idle;

	for (uint32_t i = 0; i < 2; i++) {
		tenants.slots[i].state = TENANTS_USED;
		tenants.slots[i].uid = i;
		ck_assert(tenants_join(&tenants, i, i));
	}
	tenants_detach(&tenants, 0);
	tenants_settle(&tenants);
	tenants_count(&tenants, &used, &idle);
	ck_assert_uint_eq(idle, 1);
	ck_assert_uint_eq(used, 2);
}
END_TEST

CHECK_MAIN("tenants", a_tenant_whose_last_client_goes_while_a_manager_takes_over_is_idle_once)
