/* SPDX-License-Identifier: MIT */
/* heap_api.c - the public functions of the shared heap */
#include "client/lib/client.h"

int fk_alloc(fk_client *client, size_t size, void **ret_data)
{
	int err = client_check(client);

	return err ? err : heap_alloc(&client->heap, size, ret_data);
}

int fk_free(fk_client *client, void *data)
{
	int err = client_check(client);

	if (err || !data)
		return err;
	return heap_free(&client->heap, data);
}

int fk_buffer_ref(fk_client *client, struct fk_buffer buffer, struct fk_ref *ret_ref)
{
	int err = client_check(client);

	if (err)
		return err;
	return args_buffer(&client->heap, buffer, ret_ref);
}
