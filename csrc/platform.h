// Differences between compilers and processors, and the status codes of the C interface.
#pragma once

#include <cstdint>  // also defines __GLIBC__

#if defined(_WIN32)
#define SV_EXPORT extern "C" __declspec(dllexport)
#else
#define SV_EXPORT extern "C" __attribute__((visibility("default")))
#endif

#define SV_INLINE inline __attribute__((always_inline))

// Compiles a function for x86-64-v3 (AVX2 and FMA) and for any x86-64 processor. The loader picks one. "x86-64-v3"
// tests the processor's features; "haswell" would test for an Intel model and give AMD processors the slow version.
// Everything such a function calls in its loops must be SV_INLINE, so that it is compiled for the same processor.
// Parallel regions stay outside: the body of an OpenMP region is not cloned.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12 && !defined(SV_NO_CLONES)
#define SV_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define SV_CLONES
#endif

// SV_FAILED: a C++ exception other than std::bad_alloc; sv_last_error returns its text.
enum sv_status { SV_OK = 0, SV_OUT_OF_MEMORY = 1, SV_BAD_INPUT = 2, SV_FAILED = 3 };
