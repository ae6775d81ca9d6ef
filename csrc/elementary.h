// exp and softplus in a form that the compiler vectorizes on any processor, without -ffast-math.
//
// tests/ops/test_scan_native.py measures their errors and states the bounds. NaN stays NaN, and denormal inputs are not
// flushed to zero. double uses the C library.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "platform.h"

namespace sv {

struct bfloat16 {
    uint16_t bits;
};

SV_INLINE float load(float value) { return value; }
SV_INLINE double load(double value) { return value; }
SV_INLINE float load(bfloat16 value) { return std::bit_cast<float>(uint32_t(value.bits) << 16); }

// x = (i + r) ln 2 with |r| ≤ 1/2: a minimax polynomial for 2^r (error 2.0e-9), then 2^i added to its exponent bits.
SV_INLINE float exponential_in_range(float x) {
    constexpr float round_to_integer = 12582912.0f;  // 1.5 · 2^23: adding it leaves the integer in the low bits
    float shifted = x * 1.44269504f + round_to_integer;
    float i = shifted - round_to_integer;
    float r = x * 1.44269504f - i;
    float value = 0.000153533620f;
    value = value * r + 0.00133988750f;
    value = value * r + 0.00961843692f;
    value = value * r + 0.0555033237f;
    value = value * r + 0.240226477f;
    value = value * r + 0.693147182f;
    value = value * r + 1.0f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) + (std::bit_cast<uint32_t>(shifted) << 23));
}

// For x ≤ 0. Below -86.6 the result stays at 2.5e-38, near the smallest normal number.
SV_INLINE float decaying_exponential(float x) {
    constexpr float lowest = -86.6f;
    return exponential_in_range(x < lowest ? lowest : x);
}

SV_INLINE float exponential(float x) {
    constexpr float highest = 88.37f;
    float value = decaying_exponential(x > highest ? highest : x);
    return x > highest ? std::numeric_limits<float>::infinity() : value;
}

SV_INLINE double decaying_exponential(double x) { return std::exp(x); }
SV_INLINE double exponential(double x) { return std::exp(x); }

template <bool decays, class Real>
SV_INLINE Real exponential_of(Real x) {
    return decays ? decaying_exponential(x) : exponential(x);
}

// For z in [0, 1]: log(1 + z) = z times a minimax polynomial (error 5.0e-8). A division would take longer than the nine
// terms.
SV_INLINE float log_one_plus(float z) {
    float value = 0.00536482129f;
    value = value * z - 0.0300657805f;
    value = value * z + 0.0792045221f;
    value = value * z - 0.137538016f;
    value = value * z + 0.191536546f;
    value = value * z - 0.248571634f;
    value = value * z + 0.333213240f;
    value = value * z - 0.499996483f;
    value = value * z + 1.0f;
    return value * z;
}

SV_INLINE double log_one_plus(double z) { return std::log1p(z); }

template <class Real>
SV_INLINE Real positive_part(Real x) {
    return x < Real(0) ? Real(0) : x;
}

template <class Real>
SV_INLINE Real softplus(Real x) {
    return positive_part(x) + log_one_plus(decaying_exponential(-std::fabs(x)));
}

}  // namespace sv
