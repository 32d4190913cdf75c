/*
 * For the files that define functions of the API. The linker calls what they define
 * untraced_VipOpenNic and so on: what programs call is in entry.c, and is a jump to that unless calls
 * are traced. In C, and for a debugger, each function has the name that is written there.
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
