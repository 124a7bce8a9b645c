/* Lists of logical cores as people and the runtime's environment write them: "2", "0-3", "0,4-7". Pure functions. */
#ifndef KYMO_BASE_CORE_LIST_H
#define KYMO_BASE_CORE_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Numbers below limit into cores. -EINVAL: no such list; -ENOBUFS: more than max numbers. *ret_n then keeps its value.
 */
int kymo_core_list(const char *text, uint32_t limit, uint32_t *cores, size_t max, size_t *ret_n) KYMO_MUST_CHECK;

#endif
