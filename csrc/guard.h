// Exceptions must not cross the C interface or leave an OpenMP region. Every exported function that can throw runs its
// body in `guarded`, and every parallel region that can throw runs its work in `Failures::catch_in`.
#pragma once

#include <exception>
#include <new>

#include "platform.h"

namespace sv {

// Stores the text that sv_last_error returns in this thread.
void set_last_error(const char* text) noexcept;

// Runs body, which returns a status. An exception becomes a status, and its text becomes the thread's last error.
template <class Body>
int guarded(Body&& body) noexcept {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        set_last_error("out of memory");
        return SV_OUT_OF_MEMORY;
    } catch (const std::exception& error) {
        set_last_error(error.what());
        return SV_FAILED;
    } catch (...) {
        set_last_error("unknown C++ exception");
        return SV_FAILED;
    }
}

// Carries the first exception of a parallel region to the thread that started it.
class Failures {
  public:
    template <class Work>
    void catch_in(Work&& work) noexcept {
        try {
            work();
        } catch (...) {
#pragma omp critical(sv_failures)
            if (!first) first = std::current_exception();
        }
    }

    void rethrow() const {
        if (first) std::rethrow_exception(first);
    }

  private:
    std::exception_ptr first;
};

}  // namespace sv
