/*
 * For the files that define functions of the API. What they define is called untraced_VipOpenNic and
 * so on by the linker; what programs call is in api.c, and is a jump to that unless calls are traced.
 * In C each function has its own name everywhere, but nothing here may be included by api.c.
 */
#ifndef VIPL_API_H
#define VIPL_API_H

#include "vipl.h"

#define API(name, ...)	 extern __typeof__(name) name __asm__("untraced_" #name);
#define API_OTHER(name) API(name, )
#include "api_table.h"
#undef API
#undef API_OTHER

#endif
