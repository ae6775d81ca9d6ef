// Working memory of a task, aligned to cache lines and not initialized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace sv {

constexpr int64_t cache_line = 64;

struct FreeAligned {
    void operator()(void* memory) const { ::operator delete(memory, std::align_val_t(cache_line)); }
};

template <class Real>
using Scratch = std::unique_ptr<Real[], FreeAligned>;

template <class Real>
Scratch<Real> allocate_scratch(int64_t size) {
    return Scratch<Real>(static_cast<Real*>(::operator new(size * sizeof(Real), std::align_val_t(cache_line))));
}

// The first write to each new page costs as much as computing about a thousand floats: ask for large pages.
inline void expect_large([[maybe_unused]] void* memory, [[maybe_unused]] int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr int64_t worthwhile = 8 << 20;
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
    const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
    if (bytes >= worthwhile) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace sv
