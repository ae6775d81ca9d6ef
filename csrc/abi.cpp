// The interface's version. Raised together with ABI in ops/native/library.py whenever a signature or struct changes.
#include "platform.h"

constexpr int SV_ABI = 2;

SV_EXPORT int sv_abi_version() { return SV_ABI; }
