// What differs between compilers and processors.
#pragma once

#include <cstdint>  // also makes __GLIBC__ known

#if defined(_WIN32)
#define SV_EXPORT extern "C" __declspec(dllexport)
#else
#define SV_EXPORT extern "C" __attribute__((visibility("default")))
#endif

#define SV_INLINE inline __attribute__((always_inline))

// The loader picks the widest version that the processor runs ("x86-64-v3" asks for its abilities; "haswell" would ask
// for Intel's model, and give an AMD processor the slow version). Whatever such a function calls must be SV_INLINE, to be
// compiled for the same processor. Loops over threads stay outside: an outlined OpenMP body is not cloned.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12 && !defined(SV_NO_CLONES)
#define SV_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define SV_CLONES
#endif

enum sv_status { SV_OK = 0, SV_OUT_OF_MEMORY = 1, SV_BAD_INPUT = 2 };
