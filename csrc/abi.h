// Functions that describe the library itself.
#pragma once

#include <cstdint>

#include "platform.h"

// The version of the interface.
SV_EXPORT int sv_abi_version();

// sizeof the struct of this name ("sv_scan"), or -1 if there is none. The caller compares it with its own declaration.
SV_EXPORT int64_t sv_struct_size(const char* name);

// The text of the last SV_OUT_OF_MEMORY or SV_FAILED that a function returned to this thread; "" if there was none. The
// string is valid until the next such failure in this thread.
SV_EXPORT const char* sv_last_error();
