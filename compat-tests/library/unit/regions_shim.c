/* SPDX-License-Identifier: BSD-2-Clause */
#include "regions_shim.h"

#include <stdlib.h>

#include "core/memory.h"

struct region_table *shim_table_create(void)
{
	struct region_table *table = malloc(sizeof(*table));

	region_table_init(table);
	return table;
}

void shim_table_destroy(struct region_table *table)
{
	while (shim_remove_any(table))
		;
	region_table_destroy(table);
	free(table);
}

static struct region_view view_of(uintptr_t tag)
{
	return (struct region_view){.key = (uint32_t)tag,
				    .start = tag,
				    .length = tag + 1,
				    .domain = (struct device_domain *)(tag + 2)};
}

int shim_update(struct region_table *table, uint32_t handle, uintptr_t address, uintptr_t tag)
{
	struct region_view view = view_of(tag);

	if (!region_table_get(table, handle, (void *)address))
		return 0;
	region_table_update(table, handle, &view);
	return 1;
}

int shim_insert(struct region_table *table, uint32_t handle, uintptr_t tag)
{
	struct region *region = calloc(1, sizeof(*region));
	struct region_view view = view_of(tag);
	int error;

	region->address = (void *)tag;
	error = region_table_insert(table, handle, &view, region);
	if (error)
		free(region);
	return error;
}

int shim_find(struct region_table *table, uint32_t handle, uintptr_t *tag)
{
	struct region_hint hint = {0};
	const struct region_view *view = region_table_search(table, handle, &hint);

	if (!view)
		return 0;
	*tag = view->start;
	return view->key == (uint32_t)view->start && view->length == view->start + 1 &&
			       (uintptr_t)view->domain == view->start + 2
		       ? 1
		       : -1;
}

int shim_remove(struct region_table *table, uint32_t handle, uintptr_t address)
{
	struct region *region = region_table_remove(table, handle, (void *)address);

	free(region);
	return region != NULL;
}

int shim_remove_any(struct region_table *table)
{
	struct region *region = region_table_remove_any(table);

	free(region);
	return region != NULL;
}

unsigned shim_used(const struct region_table *table)
{
	return table->used;
}
